//! Numbers in hexadecimal digits, eight digits at a time.

use alloc::vec::Vec;

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
