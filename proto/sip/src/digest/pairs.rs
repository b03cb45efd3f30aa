//! The `name=value` pairs that challenges and credentials are made of.

use crate::Malformed;
use crate::grammar::{TOKEN, class_len, is_lws, quoted_len, trim_start};

/// A name, its value as written, and what follows their comma.
pub(super) type Pair<'a> = (&'a [u8], &'a [u8], &'a [u8]);

/// The first `name = value`.
pub(super) fn next_pair(rest: &[u8]) -> Result<Pair<'_>, Malformed> {
    let (name, after) = rest.split_at_checked(class_len(rest, TOKEN)).ok_or(Malformed)?;
    let value = trim_start(trim_start(after).strip_prefix(b"=").ok_or(Malformed)?);
    let len = match value.first() {
        Some(b'"') => quoted_len(value).ok_or(Malformed)?,
        _ => value.iter().position(|&byte| byte == b',' || is_lws(byte)).unwrap_or(value.len()),
    };
    let (text, after) = value.split_at_checked(len).ok_or(Malformed)?;
    let after = trim_start(after);
    let after = match after.first() {
        None => after,
        Some(b',') => trim_start(after.get(1..).unwrap_or_default()),
        Some(_) => return Err(Malformed),
    };
    if name.is_empty() || text.is_empty() {
        return Err(Malformed);
    }
    Ok((name, text, after))
}
