//! Requests and responses as text.

use crate::call::header_lines;
use std::net::SocketAddrV4;

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Draft<'t> {
    /// Method.
    pub method: &'t str,
    /// Request-URI.
    pub uri: &'t str,
    /// URI in From; its tag is the Call-ID.
    pub from: &'t str,
    /// Value of To.
    pub to: &'t str,
    /// Call-ID.
    pub call_id: &'t str,
    /// Number of the CSeq.
    pub cseq: u32,
    /// Branch of the Via.
    pub branch: &'t str,
    /// Further header lines, each with its CR LF. A Via here is below the sender's own.
    pub lines: &'t str,
}

impl Draft<'_> {
    /// The first request of a Call-ID, to be filled in.
    pub const EMPTY: Self =
        Self { method: "", uri: "", from: "", to: "", call_id: "", cseq: 1, branch: "", lines: "" };

    /// The request as its sender at `address` sends it.
    pub fn write(&self, address: SocketAddrV4) -> Vec<u8> {
        let Self { method, uri, from, to, call_id, cseq, branch, lines } = self;
        format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {address};branch={branch};rport\r\n{lines}Max-Forwards: 70\r\n\
             From: <{from}>;tag={call_id}\r\nTo: {to}\r\nCall-ID: {call_id}\r\nCSeq: {cseq} {method}\r\n\
             Content-Length: 0\r\n\r\n"
        )
        .into_bytes()
    }
}

/// The status of a response; `None` for a request.
pub fn status(message: &[u8]) -> Option<u16> {
    let digits = message.strip_prefix(b"SIP/2.0 ")?.get(..3)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Value of the first header line with this name, compared case-sensitively.
pub fn value<'m>(message: &'m [u8], name: &str) -> Option<&'m str> {
    let line = |line: &'m [u8]| line.strip_prefix(name.as_bytes())?.strip_prefix(b":");
    std::str::from_utf8(header_lines(message).find_map(line)?).ok().map(str::trim)
}

/// The response with its topmost Via only.
pub fn with_one_via(response: &[u8]) -> Vec<u8> {
    let end = memchr::memchr(b'\n', response).map_or(0, |at| at + 1);
    let mut cut = response.get(..end).unwrap_or_default().to_vec();
    let mut seen = false;
    for line in header_lines(response) {
        let is_via = line.starts_with(b"Via:");
        if !(is_via && seen) {
            cut.extend_from_slice(line);
        }
        seen |= is_via;
    }
    cut.extend_from_slice(b"\r\n");
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESPONSE: &[u8] =
        b"SIP/2.0 486 Busy Here\r\nVia: SIP/2.0/UDP a\r\nVia: SIP/2.0/UDP b\r\nTo: <sip:b@h>;tag=1\r\n\r\n";

    #[test]
    fn one_via_is_left() {
        let cut = with_one_via(RESPONSE);
        assert_eq!(cut, b"SIP/2.0 486 Busy Here\r\nVia: SIP/2.0/UDP a\r\nTo: <sip:b@h>;tag=1\r\n\r\n");
    }

    #[test]
    fn statuses_and_values_are_read() {
        assert_eq!((status(RESPONSE), status(b"INVITE sip:a@b SIP/2.0\r\n")), (Some(486), None));
        assert_eq!((value(RESPONSE, "To"), value(RESPONSE, "T")), (Some("<sip:b@h>;tag=1"), None));
    }

    #[test]
    fn a_request_has_what_the_rfc_asks_for() {
        let draft = Draft {
            method: "INVITE",
            uri: "sip:b@h",
            from: "sip:a@h",
            to: "<sip:b@h>",
            call_id: "c",
            cseq: 1,
            branch: "z9hG4bK1",
            lines: "Contact: <sip:a@127.0.0.1:1>\r\n",
        };
        let text = draft.write("127.0.0.1:1".parse().unwrap());
        let limits = ringway_sip::Limits::default();
        assert!(ringway_sip::Message::parse(&text, &limits).is_ok(), "{}", String::from_utf8_lossy(&text));
    }
}
