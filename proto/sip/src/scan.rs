//! Eight bytes together: searches in texts too short for anything wider, and numbers in hexadecimal digits.

use alloc::vec::Vec;

/// The first byte below `LIMIT`, which is at most 128.
#[inline(always)]
pub(crate) fn first_below<const LIMIT: u8>(bytes: &[u8]) -> Option<usize> {
    let (pairs, rest) = bytes.as_chunks::<16>();
    let in_pair = |pair: &[u8; 16]| first_marked_of(*pair, below::<LIMIT>);
    for (number, pair) in pairs.iter().enumerate() {
        if let Some(place) = in_pair(pair) {
            return Some(number * 16 + place);
        }
    }
    match bytes.last_chunk() {
        // The last sixteen, of which the first were looked at before.
        Some(last) if !rest.is_empty() => in_pair(last).map(|place| bytes.len() - 16 + place),
        Some(_) => None,
        None => rest.iter().position(|&byte| byte < LIMIT),
    }
}

/// The first control; a byte behind 255 may be taken for one.
#[inline(always)]
pub(crate) fn first_control(bytes: &[u8]) -> Option<usize> {
    let (chunks, rest) = bytes.as_chunks::<16>();
    let mut at = 0;
    for chunk in chunks {
        // With vector registers the comparison of sixteen bytes is three instructions; the position is needed once for a line.
        if (!HAS_VECTORS || chunk.iter().fold(false, |any, &byte| any | is_control(byte)))
            && let Some(place) = first_marked_of(*chunk, controls)
        {
            return Some(at + place);
        }
        at += 16;
    }
    control_in_tail(rest).map(|place| at + place)
}

/// The first control of the last bytes of a message, which only its last line reaches.
#[cold]
#[inline(never)]
fn control_in_tail(rest: &[u8]) -> Option<usize> {
    rest.iter().position(|&byte| is_control(byte))
}

/// Number of bytes at the start, sixteen at a time, that are all good; none where there are no vector registers.
#[inline(always)]
pub(crate) fn sixteens_of(bytes: &[u8], is_good: impl Fn(u8) -> bool) -> usize {
    let (chunks, _) = bytes.as_chunks::<16>();
    // With vector registers a test of sixteen bytes is few instructions for each comparison.
    let is_all_good = |chunk: &&[u8; 16]| chunk.iter().fold(HAS_VECTORS, |all, &byte| all & is_good(byte));
    chunks.iter().take_while(is_all_good).count() * 16
}

/// True where the compiler may use vector registers for bytes; the image of a PC has none.
const HAS_VECTORS: bool = cfg!(any(target_feature = "sse2", target_feature = "neon"));

const fn is_control(byte: u8) -> bool {
    byte < b' ' || byte == 127
}

/// The first `WANTED`.
#[inline]
pub(crate) fn find<const WANTED: u8>(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        if let Some(place) = find_in_word::<WANTED>(u64::from_le_bytes(*word)) {
            return Some(at * 8 + place);
        }
    }
    rest.iter().position(|&byte| byte == WANTED).map(|at| words.len() * 8 + at)
}

/// The first `WANTED` of eight bytes, the lowest being the first.
#[inline]
pub(crate) const fn find_in_word<const WANTED: u8>(word: u64) -> Option<usize> {
    let found = below::<1>(word ^ repeated(WANTED));
    if found == 0 { None } else { Some(first_marked(found)) }
}

/// True when no byte is white space, a control or DEL: what RFC 3261 calls a `word` has none of them.
#[inline]
pub(crate) fn is_visible(bytes: &[u8]) -> bool {
    let is_bad = |word: u64| below::<b'!'>(word) | below::<1>(word ^ repeated(127)) != 0;
    match (bytes.as_chunks::<8>(), bytes.last_chunk()) {
        // The last eight, of which the first were looked at before.
        ((words, _), Some(last)) => !words.iter().chain([last]).any(|word| is_bad(u64::from_le_bytes(*word))),
        ((_, rest), None) => !rest.iter().any(|&byte| byte < b'!' || byte == 127),
    }
}

/// The topmost bit of each byte below `LIMIT`; bytes above the lowest such one may be marked wrongly.
const fn below<const LIMIT: u8>(word: u64) -> u64 {
    word.wrapping_sub(repeated(LIMIT)) & !word & repeated(0x80)
}

/// The topmost bit of each byte that is a control; bytes above the lowest such one, and above 255, may be marked wrongly.
const fn controls(word: u64) -> u64 {
    (word.wrapping_sub(repeated(b' ')) | word.wrapping_add(repeated(1))) & !word & repeated(0x80)
}

/// Eight times `byte`.
const fn repeated(byte: u8) -> u64 {
    byte as u64 * 0x0101_0101_0101_0101
}

/// Index of the first of sixteen bytes that `marks` marks.
#[inline(always)]
fn first_marked_of(sixteen: [u8; 16], marks: impl Fn(u64) -> u64) -> Option<usize> {
    let sixteen = u128::from_le_bytes(sixteen);
    match (marks(sixteen as u64), (sixteen >> 64) as u64) {
        (0, second) => match marks(second) {
            0 => None,
            second => Some(8 + first_marked(second)),
        },
        (first, _) => Some(first_marked(first)),
    }
}

/// Index of the lowest byte whose topmost bit is set.
const fn first_marked(marks: u64) -> usize {
    marks.trailing_zeros() as usize / 8
}

/// Returns the sixteen lower-case digits of `value`.
pub fn hex16(value: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    let halves = [(value >> 32) as u32, value as u32];
    for (eight, half) in digits.as_chunks_mut::<8>().0.iter_mut().zip(halves) {
        *eight = hex8(half);
    }
    digits
}

/// Appends `value` in as many lower-case digits as it needs, and at least `digits_min`, which is 1 to 16.
pub fn write_hex(out: &mut Vec<u8>, value: u64, digits_min: usize) {
    let needed = (16 - value.leading_zeros() as usize / 4).max(digits_min);
    // The usual widths are copied without a call.
    match needed {
        8 => return out.extend_from_slice(&hex8(value as u32)),
        16 => return out.extend_from_slice(&hex16(value)),
        _ => {}
    }
    out.extend_from_slice(hex16(value).get(16 - needed.min(16)..).unwrap_or_default());
}

/// Reads one to sixteen digits of either case.
pub fn read_hex(digits: &[u8]) -> Option<u64> {
    // The usual widths are read where they are.
    match digits.as_chunks::<8>() {
        ([low], []) => return read_hex8(*low).map(u64::from),
        ([high, low], []) => return Some(u64::from(read_hex8(*high)?) << 32 | u64::from(read_hex8(*low)?)),
        ([], []) => return None,
        _ => {}
    }
    let mut padded = [b'0'; 16];
    padded.get_mut(16_usize.checked_sub(digits.len())?..)?.copy_from_slice(digits);
    let [high, low] = padded.as_chunks::<8>().0 else { return None };
    Some(u64::from(read_hex8(*high)?) << 32 | u64::from(read_hex8(*low)?))
}

/// Reads eight digits of either case, and no other number of them.
pub fn read_hex32(digits: &[u8]) -> Option<u32> {
    read_hex8(digits.try_into().ok()?)
}

/// Eight lower-case digits, all at once.
const fn hex8(value: u32) -> [u8; 8] {
    // Each four bits get a byte of their own, the highest in the highest.
    let mut nibbles = value as u64;
    nibbles = (nibbles | nibbles << 16) & 0x0000_ffff_0000_ffff;
    nibbles = (nibbles | nibbles << 8) & 0x00ff_00ff_00ff_00ff;
    nibbles = (nibbles | nibbles << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // 1 in each byte that is to be a letter.
    let letters = ((nibbles + 6 * EACH) >> 4) & EACH;
    (nibbles + b'0' as u64 * EACH + letters * (b'a' - b'0' - 10) as u64).to_be_bytes()
}

/// The reverse of [`hex8`], all eight at once, for letters of both cases.
const fn read_hex8(digits: [u8; 8]) -> Option<u32> {
    let word = u64::from_be_bytes(digits);
    // A letter has bit 0x40, a digit has 0x10 and not 0x40. From 'a' (..0001) the nibble is the low bits plus 9.
    let letters = (word >> 6) & EACH;
    let mut nibbles = (word & (0x0f * EACH)) + letters * 9;
    // Each byte must be what its nibble is written as; letters in one case.
    let lower = word | letters << 5;
    let expected = nibbles + b'0' as u64 * EACH + letters * (b'a' - b'0' - 10) as u64;
    let are_ten_or_more = ((nibbles + 6 * EACH) >> 4) & EACH;
    if lower != expected || letters != are_ten_or_more || nibbles & (0xf0 * EACH) != 0 {
        return None;
    }
    nibbles = (nibbles | nibbles >> 4) & 0x00ff_00ff_00ff_00ff;
    nibbles = (nibbles | nibbles >> 8) & 0x0000_ffff_0000_ffff;
    nibbles = (nibbles | nibbles >> 16) & 0x0000_0000_ffff_ffff;
    Some(nibbles as u32)
}

/// 1 in each of eight bytes.
const EACH: u64 = 0x0101_0101_0101_0101;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn eight_together_find_what_one_by_one_finds() {
        const BYTES: [u8; 10] = [0, 1, 13, 14, b' ', b'!', b':', 127, 128, 255];
        let mut state = 1_u64;
        for round in 0..100_000 {
            let mut bytes = Vec::new();
            for _ in 0..round % 30 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Most are of those that are not looked for.
                bytes.push(if state >> 60 == 0 {
                    BYTES[(state >> 33) as usize % 10]
                } else {
                    128 + (state >> 57) as u8
                });
            }
            let plain = |wanted: fn(u8) -> bool| bytes.iter().position(|&byte| wanted(byte));
            assert_eq!(first_below::<14>(&bytes), plain(|byte| byte < 14), "{bytes:?}");
            assert_eq!(first_below::<33>(&bytes), plain(|byte| byte < 33), "{bytes:?}");
            assert_eq!(first_below::<128>(&bytes), plain(|byte| byte < 128), "{bytes:?}");
            let control = bytes.iter().position(|&byte| byte < b' ' || byte == 127);
            match first_control(&bytes) {
                Some(at) if at > 0 && bytes[at - 1] == 255 => {
                    assert!(control.is_none_or(|first| first >= at))
                }
                found => assert_eq!(found, control, "{bytes:?}"),
            }
            assert_eq!(find::<b':'>(&bytes), plain(|byte| byte == b':'), "{bytes:?}");
            assert_eq!(find::<0>(&bytes), plain(|byte| byte == 0), "{bytes:?}");
            assert_eq!(find::<255>(&bytes), plain(|byte| byte == 255), "{bytes:?}");
            assert_eq!(is_visible(&bytes), plain(|byte| byte < 33 || byte == 127).is_none(), "{bytes:?}");
        }
    }

    #[test]
    fn digits_are_those_of_the_standard_library() {
        let mut value = 1_u64;
        for round in 0..10_000_u32 {
            value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            assert_eq!(hex16(value), alloc::format!("{value:016x}").as_bytes());
            let value = value >> (round % 64);
            let mut out = Vec::new();
            let width = round as usize % 16 + 1;
            write_hex(&mut out, value, width);
            assert_eq!(out, alloc::format!("{value:0width$x}").into_bytes());
            assert_eq!(read_hex(&out), Some(value));
            assert_eq!(read_hex(&out.to_ascii_uppercase()), Some(value));
        }
        assert_eq!(hex16(u64::MAX), *b"ffffffffffffffff");
        assert_eq!(hex16(0x0123_4567_89ab_cdef), *b"0123456789abcdef");
    }

    #[test]
    fn a_byte_that_is_no_digit_is_refused_at_every_position() {
        for at in 0..16 {
            for byte in 0..=255_u8 {
                let mut digits = *b"0123456789abcdef";
                digits[at] = byte;
                let text = core::str::from_utf8(&digits).ok();
                // `from_str_radix` also takes a sign.
                let plain = text.filter(|_| byte != b'+').and_then(|text| u64::from_str_radix(text, 16).ok());
                assert_eq!(read_hex(&digits), plain, "{byte} at {at}");
            }
        }
        assert_eq!(read_hex(b""), None);
        assert_eq!(read_hex(b"00000000000000000"), None, "seventeen digits");
    }
}
