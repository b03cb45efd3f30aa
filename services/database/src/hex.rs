//! Values of rows.

/// Bytes of a value in hexadecimal digits, which a column of a fixed length may pad with spaces. `None`: it has other characters, or
/// another length.
pub fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let decoded = base16ct::mixed::decode(text.trim_end(), &mut bytes).ok()?;
    (decoded.len() == N).then_some(bytes)
}
