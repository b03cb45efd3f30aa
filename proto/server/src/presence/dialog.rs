//! `dialog`: documents of this server, and the versions of those that phones publish (RFC 4235).

use super::documents::{DECLARATION, write_entity, write_text};
use super::publish::BODY_BYTES_MAX;
use crate::{Aor, DialogState, Role, ShownCall};
use alloc::vec::Vec;
use ringway_sip::{hex16, write_number};

/// Presence of the URIs of the other sides in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remotes {
    Shown,
    Hidden,
}

/// Appends a full document with these calls, or with one dialog that has ended if there are none; returns the number of calls that it
/// has no room for.
pub(super) fn write(
    aor: &Aor,
    version: u32,
    calls: &[ShownCall],
    remotes: Remotes,
    out: &mut Vec<u8>,
) -> usize {
    let start = out.len();
    out.extend_from_slice(DECLARATION);
    out.extend_from_slice(b"<dialog-info xmlns=\"urn:ietf:params:xml:ns:dialog-info\" version=\"");
    write_number(out, u64::from(version));
    out.extend_from_slice(b"\" state=\"full\" entity=\"");
    write_entity(aor, out);
    out.extend_from_slice(b"\">");
    if calls.is_empty() {
        out.extend_from_slice(IDLE);
    }
    let mut left_out = 0;
    for call in calls {
        let before = out.len();
        write_call(call, remotes, out);
        if out.len() - start + END.len() > BODY_BYTES_MAX {
            out.truncate(before);
            left_out += 1;
        }
    }
    out.extend_from_slice(END);
    left_out
}

/// Appends a `dialog` element (RFC 4235 §4.1).
fn write_call(call: &ShownCall, remotes: Remotes, out: &mut Vec<u8>) {
    let (direction, state): (&[u8], &[u8]) = (
        match call.role {
            Role::Initiator => b"initiator",
            Role::Recipient => b"recipient",
        },
        match call.state {
            DialogState::Trying => b"trying",
            DialogState::Early => b"early",
            DialogState::Confirmed => b"confirmed",
            DialogState::Terminated => b"terminated",
        },
    );
    // A user that calls itself has two dialogs. An `id` begins with a letter.
    out.extend_from_slice(b"<dialog id=\"");
    out.extend(direction.first());
    out.extend_from_slice(&hex16(call.id));
    out.extend_from_slice(b"\" direction=\"");
    out.extend_from_slice(direction);
    out.extend_from_slice(b"\"><state>");
    out.extend_from_slice(state);
    out.extend_from_slice(b"</state>");
    if remotes == Remotes::Shown && !call.remote.is_empty() {
        out.extend_from_slice(b"<remote><identity>");
        write_text(&call.remote, out);
        out.extend_from_slice(b"</identity></remote>");
    }
    out.extend_from_slice(b"</dialog>");
}

/// Dialog of a user without calls. RFC 4235 §4.1 needs none in a full document, but there are phones that keep the last state of a lamp
/// until a dialog ends; Asterisk sends one too, and Kamailio with `force_dummy_dialog`.
const IDLE: &[u8] = b"<dialog id=\"idle\"><state>terminated</state></dialog>";
/// End of a document.
const END: &[u8] = b"</dialog-info>\r\n";

/// Appends a published document with the `version` of its root element replaced: subscriptions count their documents, and
/// those of several phones have versions of their own (RFC 4235 §4.1). A document without one is copied as it is.
pub(super) fn write_published(document: &[u8], version: u32, out: &mut Vec<u8>) {
    let Some((before, after)) = version_of(document) else { return out.extend_from_slice(document) };
    out.extend_from_slice(before);
    write_number(out, u64::from(version));
    out.extend_from_slice(after);
}

/// The bytes before and behind the digits of the version.
fn version_of(document: &[u8]) -> Option<(&[u8], &[u8])> {
    let root = memchr::memmem::find(document, b"dialog-info")?;
    let end = root + memchr::memchr(b'>', document.get(root..)?)?;
    let at = root + memchr::memmem::find(document.get(root..end)?, b" version=")? + b" version=".len();
    let quote = *document.get(at).filter(|quote| matches!(quote, b'"' | b'\''))?;
    let len = memchr::memchr(quote, document.get(at + 1..end)?)?;
    Some((document.get(..=at)?, document.get(at + 1 + len..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(document: &str) -> alloc::string::String {
        let mut out = Vec::new();
        write_published(document.as_bytes(), 7, &mut out);
        alloc::string::String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_version_of_the_root_is_replaced_and_nothing_else() {
        for (document, expected) in [
            (
                "<?xml version=\"1.0\"?><dialog-info state=\"full\" version=\"123\"><x version=\"1\"/></dialog-info>",
                "<?xml version=\"1.0\"?><dialog-info state=\"full\" version=\"7\"><x version=\"1\"/></dialog-info>",
            ),
            ("<d:dialog-info version='0'/>", "<d:dialog-info version='7'/>"),
            ("<dialog-info version=\"\">", "<dialog-info version=\"7\">"),
            (
                "<dialog-info state=\"full\"><a version=\"2\"/>",
                "<dialog-info state=\"full\"><a version=\"2\"/>",
            ),
            ("<dialog-info version=\"2", "<dialog-info version=\"2"),
            ("<dialog-info version=\"2>", "<dialog-info version=\"2>"),
            ("dialog-info", "dialog-info"),
            ("", ""),
        ] {
            assert_eq!(published(document), expected);
        }
    }
}
