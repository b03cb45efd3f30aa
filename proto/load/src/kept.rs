//! Parts of received messages that an attempt keeps for the messages it sends later.

use crate::Scenario;
use crate::scenario::{LastHeader, REFUSAL_HEADERS};
use alloc::vec::Vec;
use core::iter;
use ringway_sip::{HeaderName, Message, NameAddr};

/// Maximum length of a received message of which parts are kept.
pub(crate) const MESSAGE_BYTES_MAX: usize = 8 << 10;

/// Header fields of a received message, for `[last_NAME:]`: those that the messages after its step need.
#[derive(Debug, Default)]
pub(crate) struct LastHeaders {
    /// Step that received the message.
    step: usize,
    /// For each name of the step its lines without the last line break, after their length in two bytes.
    bytes: Vec<u8>,
}

impl LastHeaders {
    /// Keeps the fields that the messages after `step` need. False: one of them is too long.
    pub(crate) fn keep(&mut self, scenario: &Scenario, step: usize, message: &Message<'_>) -> bool {
        self.step = step;
        self.bytes.clear();
        let headers = scenario.kept_after(step);
        self.bytes.reserve(message.as_bytes().len());
        for header in headers {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(&[0; 2]);
            match header.known {
                HeaderName::Other => {
                    let name = header.name.as_bytes();
                    let fields = message.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
                    fields.for_each(|field| self.add(header, start, field.value));
                }
                known => message.lines_of(known).for_each(|value| self.add(header, start, value)),
            }
            let Ok(length) = u16::try_from(self.bytes.len() - start - 2) else { return false };
            if let Some(place) = self.bytes.get_mut(start..start + 2) {
                place.copy_from_slice(&length.to_le_bytes());
            }
        }
        true
    }

    fn add(&mut self, header: &LastHeader, start: usize, value: &[u8]) {
        if self.bytes.len() > start + 2 {
            self.bytes.extend_from_slice(b"\r\n");
        }
        self.bytes.extend_from_slice(header.name.as_bytes());
        self.bytes.extend_from_slice(b": ");
        self.bytes.extend_from_slice(value);
    }

    /// Kept lines of this name, without the last line break.
    pub(crate) fn lines(&self, scenario: &Scenario, name: &str) -> &[u8] {
        let index = scenario.kept_after(self.step).iter().position(|header| *header.name == *name);
        index.and_then(|index| self.segments().nth(index)).unwrap_or_default()
    }

    fn segments(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        iter::from_fn(move || {
            let (length, after) = rest.split_first_chunk()?;
            let (segment, after) = after.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
            rest = after;
            Some(segment)
        })
    }

    /// Appends a final response without content to the kept INVITE. False: there is none.
    pub(crate) fn write_refusal(&self, scenario: &Scenario, status_line: &[u8], out: &mut Vec<u8>) -> bool {
        if REFUSAL_HEADERS.iter().any(|name| self.lines(scenario, name).is_empty()) {
            return false;
        }
        out.extend_from_slice(status_line);
        for name in REFUSAL_HEADERS {
            out.extend_from_slice(b"\r\n");
            let line = self.lines(scenario, name);
            out.extend_from_slice(line);
            let value = line.get(name.len() + 2..).unwrap_or_default();
            if name == "To" && NameAddr::parse(value).is_ok_and(|to| to.tag().is_none()) {
                out.extend_from_slice(b";tag=refused");
            }
        }
        out.extend_from_slice(b"\r\nContent-Length: 0\r\n\r\n");
        true
    }
}

/// Values that later requests of a dialog need, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Dialog {
    bytes: Vec<u8>,
    url_end: usize,
    routes_end: usize,
}

impl Dialog {
    /// Keeps the values of a message (RFC 3261 §12.1). A tag or Contact that the message lacks stays as it was.
    pub(crate) fn keep(&mut self, message: &Message<'_>) {
        let peer = if message.is_response() { message.to() } else { message.from() };
        let contact = message.values(HeaderName::Contact).next().map(NameAddr::parse);
        let mut bytes = Vec::with_capacity(DIALOG_BYTES);
        match &contact {
            Some(Ok(contact)) => bytes.extend_from_slice(contact.uri.as_bytes()),
            Some(Err(_)) | None => bytes.extend_from_slice(self.next_url()),
        }
        let url_end = bytes.len();
        let mut routes: [&[u8]; ROUTES_MAX] = [b""; ROUTES_MAX];
        let mut count = 0;
        for (route, value) in routes.iter_mut().zip(message.values(HeaderName::RecordRoute)) {
            *route = value;
            count += 1;
        }
        let routes = routes.get_mut(..count).unwrap_or_default();
        if message.is_response() {
            routes.reverse();
        }
        for (index, route) in routes.iter().enumerate() {
            if index > 0 {
                bytes.extend_from_slice(b", ");
            }
            bytes.extend_from_slice(route);
        }
        let routes_end = bytes.len();
        match peer.tag() {
            Some(tag) => {
                bytes.extend_from_slice(b";tag=");
                bytes.extend_from_slice(tag);
            }
            None => bytes.extend_from_slice(self.peer_tag()),
        }
        *self = Self { bytes, url_end, routes_end };
    }

    /// Contact of the peer; empty if there was none.
    pub(crate) fn next_url(&self) -> &[u8] {
        self.bytes.get(..self.url_end).unwrap_or_default()
    }

    /// Value of a Route header.
    pub(crate) fn routes(&self) -> &[u8] {
        self.bytes.get(self.url_end..self.routes_end).unwrap_or_default()
    }

    /// `;tag=…` of the peer.
    pub(crate) fn peer_tag(&self) -> &[u8] {
        self.bytes.get(self.routes_end..).unwrap_or_default()
    }
}

/// Maximum number of Record-Route values of a dialog.
const ROUTES_MAX: usize = 16;
/// Usual length of the values of a dialog.
const DIALOG_BYTES: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Classic, Length};
    use alloc::string::String;
    use core::time::Duration;
    use ringway_sip::Limits;

    const INVITE: &[u8] = b"INVITE sip:b@x SIP/2.0\r\nv: SIP/2.0/UDP p;branch=z9hG4bK2\r\nVia: SIP/2.0/UDP c;branch=z9hG4bK1\r\n\
        Record-Route: <sip:one;lr>, <sip:two;lr>\r\nFrom: <sip:a@x>;tag=1\r\nTo: <sip:b@x>\r\nCall-ID: i\r\nCSeq: 1 INVITE\r\n\
        Contact: <sip:a@c>\r\n\r\n";

    #[test]
    fn the_needed_lines_are_kept_in_any_spelling() {
        let scenario = Classic::Answer { ring: Length::Fixed(Duration::ZERO) }.scenario().unwrap();
        let mut last = LastHeaders::default();
        assert!(last.keep(&scenario, 0, &Message::parse(INVITE, &Limits::default()).unwrap()));
        let lines = |name| String::from_utf8_lossy(last.lines(&scenario, name)).into_owned();
        assert_eq!(lines("Via"), "Via: SIP/2.0/UDP p;branch=z9hG4bK2\r\nVia: SIP/2.0/UDP c;branch=z9hG4bK1");
        assert_eq!((lines("To").as_str(), lines("Contact").as_str()), ("To: <sip:b@x>", ""));
        let mut refusal = Vec::new();
        assert!(last.write_refusal(&scenario, b"SIP/2.0 487 Request Terminated", &mut refusal));
        let refusal = Message::parse(&refusal, &Limits::default()).unwrap();
        assert_eq!((refusal.values(HeaderName::Via).count(), refusal.to().tag()), (2, Some(&b"refused"[..])));
        assert!(!LastHeaders::default().write_refusal(&scenario, b"", &mut Vec::new()));
    }

    #[test]
    fn a_dialog_keeps_what_a_later_message_lacks() {
        let mut dialog = Dialog::default();
        dialog.keep(&Message::parse(INVITE, &Limits::default()).unwrap());
        assert_eq!(dialog.routes(), b"<sip:one;lr>, <sip:two;lr>");
        let ok = String::from_utf8_lossy(INVITE)
            .replace("INVITE sip:b@x SIP/2.0", "SIP/2.0 200 OK")
            .replace("Contact: <sip:a@c>\r\n", "");
        dialog.keep(&Message::parse(ok.as_bytes(), &Limits::default()).unwrap());
        assert_eq!(dialog.next_url(), b"sip:a@c");
        assert_eq!(
            (dialog.routes(), dialog.peer_tag()),
            (&b"<sip:two;lr>, <sip:one;lr>"[..], &b";tag=1"[..])
        );
    }
}
