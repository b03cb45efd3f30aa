//! `message-summary`: documents of this server (RFC 3842).

use super::xml::write_entity;
use crate::Aor;
use alloc::vec::Vec;

/// Appends a summary without messages.
pub(super) fn write(aor: &Aor, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Messages-Waiting: no\r\nMessage-Account: ");
    write_entity(aor, out);
    out.extend_from_slice(b"\r\n");
}
