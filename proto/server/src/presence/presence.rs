//! `presence`: documents of this server (PIDF, RFC 3863).

use super::xml::{DECLARATION, write_entity};
use crate::Aor;
use alloc::vec::Vec;

/// Appends a document with one tuple: open or closed.
pub(super) fn write(aor: &Aor, is_open: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(DECLARATION);
    out.extend_from_slice(b"<presence xmlns=\"urn:ietf:params:xml:ns:pidf\" entity=\"");
    write_entity(aor, out);
    out.extend_from_slice(b"\"><tuple id=\"registration\"><status><basic>");
    out.extend_from_slice(if is_open { b"open" } else { b"closed" });
    out.extend_from_slice(b"</basic></status></tuple></presence>\r\n");
}
