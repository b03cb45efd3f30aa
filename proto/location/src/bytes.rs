//! Reading of the little-endian encoding.

use crate::BadEntry;

/// Takes `N` bytes from the front.
pub(crate) fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], BadEntry> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(BadEntry)?;
    *rest = tail;
    Ok(*head)
}

/// Takes `len` bytes from the front.
pub(crate) fn take_slice<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], BadEntry> {
    let (head, tail) = rest.split_at_checked(len).ok_or(BadEntry)?;
    *rest = tail;
    Ok(head)
}

pub(crate) fn take_u16(rest: &mut &[u8]) -> Result<u16, BadEntry> {
    take(rest).map(u16::from_le_bytes)
}

pub(crate) fn take_u32(rest: &mut &[u8]) -> Result<u32, BadEntry> {
    take(rest).map(u32::from_le_bytes)
}

pub(crate) fn take_u64(rest: &mut &[u8]) -> Result<u64, BadEntry> {
    take(rest).map(u64::from_le_bytes)
}
