//! `reg`: full documents from the location table (RFC 3680).

use super::documents::{DECLARATION, write_entity, write_text};
use crate::Aor;
use crate::base::write_q;
use crate::location::Binding;
use alloc::vec::Vec;
use core::hash::Hasher;
use ringway_sansio::Instant;
use ringway_sip::{hex16, write_number};
use siphasher::sip::SipHasher13;

/// Cause of the end of a contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContactEnd {
    /// A REGISTER removed or replaced it.
    Unregistered,
    /// Its time passed.
    Expired,
    /// The connection that reached it closed: its phone should register again.
    ConnectionClosed,
    /// Its user was removed.
    UserRemoved,
}

/// Appends a document with the contacts of a user, and those that ended. Contacts beyond [`DOCUMENT_BYTES_MAX`] are left
/// out.
pub(super) fn write<'a>(
    aor: &Aor,
    version: u32,
    bindings: impl Iterator<Item = &'a Binding>,
    ended: impl Iterator<Item = (&'a [u8], ContactEnd)>,
    now: Instant,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    let has_room = |out: &Vec<u8>, uri: &[u8]| {
        out.len() - start + CONTACT_BYTES + uri.len().saturating_mul(ESCAPED_MAX) <= DOCUMENT_BYTES_MAX
    };
    let mut contacts = Vec::new();
    let mut is_active = false;
    for binding in bindings {
        is_active = true;
        if has_room(&contacts, binding.uri()) {
            write_active(binding, now, &mut contacts);
        }
    }
    for (uri, end) in ended {
        if has_room(&contacts, uri) {
            write_contact(uri, "terminated", end.name(), |_| {}, &mut contacts);
        }
    }
    out.extend_from_slice(DECLARATION);
    out.extend_from_slice(b"<reginfo xmlns=\"urn:ietf:params:xml:ns:reginfo\" version=\"");
    write_number(out, u64::from(version));
    out.extend_from_slice(b"\" state=\"full\"><registration aor=\"");
    write_entity(aor, out);
    out.extend_from_slice(b"\" id=\"a\" state=\"");
    out.extend_from_slice(match (is_active, contacts.is_empty()) {
        (true, _) => b"active",
        (false, true) => b"init",
        (false, false) => b"terminated",
    });
    out.extend_from_slice(b"\">");
    out.extend_from_slice(&contacts);
    out.extend_from_slice(b"</registration></reginfo>\r\n");
}

fn write_active(binding: &Binding, now: Instant, out: &mut Vec<u8>) {
    let event = if binding.is_permanent() { "created" } else { "registered" };
    let attributes = |out: &mut Vec<u8>| {
        if let Some(seconds) = binding.seconds_left(now) {
            out.extend_from_slice(b" expires=\"");
            write_number(out, seconds);
            out.push(b'"');
        }
        let mut q = Vec::new();
        write_q(binding.q, &mut q);
        if let Some(q) = q.strip_prefix(b";q=") {
            out.extend_from_slice(b" q=\"");
            out.extend_from_slice(q);
            out.push(b'"');
        }
    };
    write_contact(binding.uri(), "active", event, attributes, out);
}

fn write_contact(
    uri: &[u8],
    state: &str,
    event: &str,
    attributes: impl FnOnce(&mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    let mut hash = SipHasher13::new();
    hash.write(uri);
    let id = hex16(hash.finish());
    let parts: [&[u8]; 7] =
        [b"<contact id=\"c", &id, b"\" state=\"", state.as_bytes(), b"\" event=\"", event.as_bytes(), b"\""];
    parts.iter().for_each(|part| out.extend_from_slice(part));
    attributes(out);
    out.extend_from_slice(b"><uri>");
    write_text(uri, out);
    out.extend_from_slice(b"</uri></contact>");
}

impl ContactEnd {
    /// Its event (RFC 3680 §5.2).
    const fn name(self) -> &'static str {
        match self {
            Self::Unregistered => "unregistered",
            Self::Expired => "expired",
            Self::ConnectionClosed => "deactivated",
            Self::UserRemoved => "rejected",
        }
    }
}

/// Maximum length of a document in bytes.
const DOCUMENT_BYTES_MAX: usize = 4096;
/// Bytes of a contact without its URI.
const CONTACT_BYTES: usize = 160;
/// Bytes of an escaped byte.
const ESCAPED_MAX: usize = 6;
