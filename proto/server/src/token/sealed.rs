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

/// Appends the sealed form of a text: letters, digits, `-` and `_`.
pub(crate) fn seal(key: &[u8; 16], context: &[u8], text: &[u8], out: &mut Vec<u8>) {
    let mac = mac(key, context, text);
    let mut bytes = mac.to_be_bytes().to_vec();
    bytes.extend_from_slice(text);
    apply_stream(key, mac, bytes.get_mut(MAC_BYTES..).unwrap_or_default());
    for group in bytes.chunks(3) {
        let number = group.iter().fold(0_u32, |number, &byte| number << 8 | u32::from(byte))
            << (8 * (3 - group.len()));
        for symbol in 0..=group.len() {
            let index = (number >> (18 - 6 * symbol)) & 63;
            out.extend(SYMBOLS.get(index as usize));
        }
    }
}

/// The text; `None`: this server did not seal it in this context.
pub(crate) fn open(key: &[u8; 16], context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    open_up_to(key, context, sealed, SEALED_MAX)
}

/// The text of a sealed form of at most `most` bytes.
pub(crate) fn open_up_to(key: &[u8; 16], context: &[u8], sealed: &[u8], most: usize) -> Option<Vec<u8>> {
    if sealed.len() > most || sealed.len() % 4 == 1 || sealed.len() < MAC_BYTES {
        return None;
    }
    let mut bytes = Vec::with_capacity(sealed.len());
    for group in sealed.chunks(4) {
        let mut number = 0_u32;
        for &symbol in group {
            number = number << 6 | u32::from(bits_of(symbol)?);
        }
        number <<= 6 * (4 - group.len());
        let [_, kept @ ..] = number.to_be_bytes();
        bytes.extend_from_slice(kept.get(..group.len() - 1)?);
    }
    let (initial, text) = bytes.split_first_chunk_mut::<MAC_BYTES>()?;
    let initial = u64::from_be_bytes(*initial);
    apply_stream(key, initial, text);
    (mac(key, context, text) == initial).then(|| text.to_vec())
}

/// Position of a symbol in [`SYMBOLS`].
const fn bits_of(symbol: u8) -> Option<u8> {
    match symbol {
        b'0'..=b'9' => Some(symbol - b'0'),
        b'A'..=b'Z' => Some(symbol - b'A' + 10),
        b'a'..=b'z' => Some(symbol - b'a' + 36),
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    }
}

fn mac(key: &[u8; 16], context: &[u8], text: &[u8]) -> u64 {
    let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
    hash.fixed(b"seal");
    hash.part(context);
    hash.part(text);
    hash.hasher().finish()
}

/// Combines a text with the key stream of an initial value.
fn apply_stream(key: &[u8; 16], initial: u64, text: &mut [u8]) {
    for (number, block) in (0_u64..).zip(text.chunks_mut(8)) {
        let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
        hash.fixed(b"stream");
        hash.fixed(&initial.to_be_bytes());
        hash.fixed(&number.to_be_bytes());
        let stream = hash.hasher().finish().to_be_bytes();
        block.iter_mut().zip(stream).for_each(|(byte, of_stream)| *byte ^= of_stream);
    }
}

const MAC_BYTES: usize = 8;
/// Maximum length of what is opened: two URIs, as long as a Route may have them.
const SEALED_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 16] = [7; 16];

    fn sealed(context: &[u8], text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        seal(&KEY, context, text, &mut out);
        out
    }

    #[test]
    fn a_text_of_any_length_comes_back() {
        for len in 0..200 {
            let text: Vec<u8> = (0..len).map(|number| (number * 7) as u8).collect();
            let out = sealed(b"call", &text);
            assert!(out.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)));
            assert_eq!(open(&KEY, b"call", &out), Some(text), "{len}");
        }
    }

    #[test]
    fn each_symbol_has_its_bits() {
        let all: Vec<_> = (0..=255).filter_map(|symbol| Some((bits_of(symbol)?, symbol))).collect();
        assert_eq!(all.len(), SYMBOLS.len());
        assert!(all.iter().all(|&(bits, symbol)| SYMBOLS[usize::from(bits)] == symbol));
    }

    #[test]
    fn nothing_else_opens() {
        let out = sealed(b"call", b"sip:alice@office.example");
        assert_eq!(open(&KEY, b"another call", &out), None);
        assert_eq!(open(&[8; 16], b"call", &out), None);
        for at in 0..out.len() {
            let mut changed = out.clone();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(open(&KEY, b"call", &changed), None, "{at}");
            assert_eq!(open(&KEY, b"call", &out[..at]), None, "{at}");
        }
        for bad in [&b""[..], b"A", b"!!!!", &[b'A'; 2000]] {
            assert_eq!(open(&KEY, b"call", bad), None);
        }
        let text = out.windows(5).any(|part| part == b"alice");
        assert!(!text && sealed(b"call", b"sip:alicf@office.example")[..20] != out[..20]);
    }
}
