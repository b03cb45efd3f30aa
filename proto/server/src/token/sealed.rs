//! Text that this server gives to a peer and gets back, and that nobody else can read or make.
//!
//! The first 8 bytes are a keyed hash of the context and the text, and are the initial value of the key stream that the text is
//! combined with, as in the mode SIV (RFC 5297) with SipHash as its function. The same text in the same context is sealed alike; so
//! nothing random is needed, and a retransmission is equal. 64 bits are as many as the hash of a mark has.

use super::identity::SYMBOLS;
use alloc::vec::Vec;
use core::hash::Hasher;
use ringway_sansio::PartHasher;
use siphasher::sip::SipHasher13;

/// Appends the sealed form of a text: letters, digits, `-` and `_`. The context is that of both its parts in a row.
pub(crate) fn seal(key: &[u8; 16], context: [&[u8]; 2], text: &[u8], out: &mut Vec<u8>) {
    let mac = mac(key, context, text);
    let mut bytes = Vec::with_capacity(MAC_BYTES + text.len());
    bytes.extend_from_slice(&mac.to_be_bytes());
    bytes.extend_from_slice(text);
    apply_stream(key, mac, bytes.get_mut(MAC_BYTES..).unwrap_or_default());
    let (groups, rest) = bytes.as_chunks::<3>();
    out.reserve(4 * groups.len() + 3);
    for group in groups {
        out.extend_from_slice(&symbols_of(*group));
    }
    let mut last = [0; 3];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    let len = if rest.is_empty() { 0 } else { rest.len() + 1 };
    out.extend_from_slice(symbols_of(last).get(..len).unwrap_or_default());
}

fn symbols_of([high, middle, low]: [u8; 3]) -> [u8; 4] {
    let number = u32::from_be_bytes([0, high, middle, low]);
    let symbol = |shift: u32| SYMBOLS.get((number >> shift & 63) as usize).copied().unwrap_or_default();
    [symbol(18), symbol(12), symbol(6), symbol(0)]
}

/// The text; `None`: this server did not seal it in this context.
pub(crate) fn open(key: &[u8; 16], context: [&[u8]; 2], sealed: &[u8]) -> Option<Vec<u8>> {
    open_up_to(key, context, sealed, SEALED_MAX)
}

/// The text of a sealed form of at most `most` bytes.
pub(crate) fn open_up_to(key: &[u8; 16], context: [&[u8]; 2], sealed: &[u8], most: usize) -> Option<Vec<u8>> {
    let is_long = sealed.len() > most || sealed.len() % 4 == 1 || sealed.len() < MAC_BYTES;
    if is_long || sealed.iter().any(|&symbol| bits_of(symbol) == NO_SYMBOL) {
        return None;
    }
    let (groups, rest) = sealed.as_chunks::<4>();
    let mut bytes = Vec::with_capacity(3 * groups.len() + 2);
    for group in groups {
        bytes.extend_from_slice(&bytes_of(*group));
    }
    let mut last = [b'0'; 4];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    bytes.extend_from_slice(bytes_of(last).get(..rest.len().saturating_sub(1))?);
    let (initial, text) = bytes.split_first_chunk_mut::<MAC_BYTES>()?;
    let initial = u64::from_be_bytes(*initial);
    apply_stream(key, initial, text);
    if mac(key, context, text) != initial {
        return None;
    }
    bytes.drain(..MAC_BYTES);
    Some(bytes)
}

fn bytes_of(symbols: [u8; 4]) -> [u8; 3] {
    let number = symbols.iter().fold(0, |number, &symbol| number << 6 | u32::from(bits_of(symbol)));
    let [_, bytes @ ..] = number.to_be_bytes();
    bytes
}

fn bits_of(symbol: u8) -> u8 {
    BITS.get(usize::from(symbol)).copied().unwrap_or(NO_SYMBOL)
}

/// Position of each symbol in [`SYMBOLS`].
const BITS: [u8; 256] = {
    let mut bits = [NO_SYMBOL; 256];
    let mut position = 0;
    while position < SYMBOLS.len() {
        bits[SYMBOLS[position] as usize] = position as u8;
        position += 1;
    }
    bits
};
const NO_SYMBOL: u8 = u8::MAX;

fn mac(key: &[u8; 16], [before, behind]: [&[u8]; 2], text: &[u8]) -> u64 {
    let mut hash = PartHasher::new(hasher(key));
    hash.fixed(b"seal");
    hash.fixed(&((before.len() + behind.len()) as u32).to_le_bytes());
    hash.bytes(before);
    hash.bytes(behind);
    hash.part(text);
    hash.hasher().finish()
}

/// The same as `new_with_key`, without its copies.
fn hasher(key: &[u8; 16]) -> SipHasher13 {
    let key = u128::from_le_bytes(*key);
    SipHasher13::new_with_keys(key as u64, (key >> 64) as u64)
}

/// Combines a text with the key stream of an initial value: hashes of `stream`, the value, and the number of a block of 8 bytes.
fn apply_stream(key: &[u8; 16], initial: u64, text: &mut [u8]) {
    // All but the low 6 bytes of the number are equal in all blocks: they are hashed once.
    let mut hash = hasher(key);
    hash.write(&(STREAM << 80 | u128::from(initial) << 16).to_be_bytes());
    for (number, block) in (0_u64..).zip(text.chunks_mut(8)) {
        let [_, _, low @ ..] = number.to_be_bytes();
        let stream = hash.hash(&low).to_be_bytes();
        block.iter_mut().zip(stream).for_each(|(byte, of_stream)| *byte ^= of_stream);
    }
}

/// The text `stream`.
const STREAM: u128 = 0x7374_7265_616d;
const MAC_BYTES: usize = 8;
/// Maximum length of what is opened: two URIs, as long as a Route may have them.
const SEALED_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 16] = [7; 16];

    fn sealed(context: &[u8], text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        seal(&KEY, [context, b""], text, &mut out);
        out
    }

    #[test]
    fn a_text_of_any_length_comes_back() {
        for len in 0..200 {
            let text: Vec<u8> = (0..len).map(|number| (number * 7) as u8).collect();
            let out = sealed(b"call", &text);
            assert!(out.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)));
            assert_eq!(open(&KEY, [b"ca", b"ll"], &out), Some(text), "{len}");
        }
    }

    /// Dialogs that began with an earlier version go on.
    #[test]
    fn the_sealed_form_is_that_of_earlier_versions() {
        for (text, form) in [
            ("", "L-sxHTQURqq"),
            ("e", "xx6D8lbhCL9A"),
            ("sip:alice@office.example", "oF8D2wTD2KymoV7lBnjFl29I2NyFUKbgeTdSY1rgvAC"),
        ] {
            assert_eq!(core::str::from_utf8(&sealed(b"call", text.as_bytes())), Ok(form));
        }
    }

    #[test]
    fn each_symbol_has_its_bits() {
        let all: Vec<_> = BITS.iter().zip(0_u8..=255).filter(|(bits, _)| **bits != NO_SYMBOL).collect();
        assert_eq!(all.len(), SYMBOLS.len());
        assert!(all.iter().all(|&(&bits, symbol)| SYMBOLS[usize::from(bits)] == symbol));
    }

    #[test]
    fn nothing_else_opens() {
        let out = sealed(b"call", b"sip:alice@office.example");
        assert_eq!(open(&KEY, [b"another call", b""], &out), None);
        assert_eq!(open(&[8; 16], [b"call", b""], &out), None);
        for at in 0..out.len() {
            let mut changed = out.clone();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(open(&KEY, [b"ca", b"ll"], &changed), None, "{at}");
            assert_eq!(open(&KEY, [b"ca", b"ll"], &out[..at]), None, "{at}");
        }
        for bad in [&b""[..], b"A", b"!!!!", &[b'A'; 2000]] {
            assert_eq!(open(&KEY, [b"ca", b"ll"], bad), None);
        }
        let text = out.windows(5).any(|part| part == b"alice");
        assert!(!text && sealed(b"call", b"sip:alicf@office.example")[..20] != out[..20]);
    }
}
