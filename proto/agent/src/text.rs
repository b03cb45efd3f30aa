//! Conversions of header values for people and for the wire.

use alloc::string::String;
use alloc::vec::Vec;

/// Converts bytes of a peer to text for people. Invalid UTF-8 and control characters are replaced.
pub(crate) fn text(bytes: &[u8]) -> String {
    let lossy = String::from_utf8_lossy(bytes);
    lossy.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Joins a folded header value to one line.
pub(crate) fn unfolded(value: &[u8]) -> Vec<u8> {
    value.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n' | 0)).collect()
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> Vec<u8> {
    base16ct::lower::encode_string(bytes).into_bytes()
}
