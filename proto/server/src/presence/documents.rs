//! Documents that this server makes: text in XML, `presence` (PIDF, RFC 3863) and `message-summary` (RFC 3842).

use crate::Aor;
use alloc::vec::Vec;

/// First line of a document.
pub(super) const DECLARATION: &[u8] = b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n";

/// Appends `sip:user@domain`, which needs no escaping in XML.
pub(super) fn write_entity(aor: &Aor, out: &mut Vec<u8>) {
    out.extend_from_slice(b"sip:");
    write_user(aor.user(), out);
    out.push(b'@');
    out.extend_from_slice(aor.domain());
}

/// Appends a user part with escapes for all but letters, digits and marks that XML permits (RFC 3261 §25.1).
pub(super) fn write_user(user: &[u8], out: &mut Vec<u8>) {
    for &byte in user {
        if byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'_' | b'.' | b'!' | b'~' | b'*' | b'(' | b')' | b'+')
        {
            out.push(byte);
        } else {
            out.push(b'%');
            ringway_sip::write_hex(out, u64::from(byte), 2);
        }
    }
}

/// Appends a text with its markup escaped; bytes that are not visible ASCII become `?`.
pub(super) fn write_text(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            b'\'' => out.extend_from_slice(b"&apos;"),
            b' '..=b'~' => out.push(byte),
            _ => out.push(b'?'),
        }
    }
}

/// Appends a document with one tuple: open or closed.
pub(super) fn write_presence(aor: &Aor, is_open: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(DECLARATION);
    out.extend_from_slice(b"<presence xmlns=\"urn:ietf:params:xml:ns:pidf\" entity=\"");
    write_entity(aor, out);
    out.extend_from_slice(b"\"><tuple id=\"registration\"><status><basic>");
    out.extend_from_slice(if is_open { b"open" } else { b"closed" });
    out.extend_from_slice(b"</basic></status></tuple></presence>\r\n");
}

/// Appends a summary without messages.
pub(super) fn write_message_summary(aor: &Aor, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Messages-Waiting: no\r\nMessage-Account: ");
    write_entity(aor, out);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_markup_of_a_peer_is_left() {
        let mut out = Vec::new();
        write_text(b"sip:a&b@x;p=<\"'>\xff\n", &mut out);
        assert_eq!(out, b"sip:a&amp;b@x;p=&lt;&quot;&apos;&gt;??");
        out.clear();
        write_entity(&Aor::new(b"a\"<&>'b \x00\xe4", b"example.org"), &mut out);
        assert_eq!(out, b"sip:a%22%3c%26%3e%27b%20%00%e4@example.org");
    }
}
