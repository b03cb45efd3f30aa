//! Messages with another body.

use crate::write::write_number;
use crate::{HeaderName, Message};
use alloc::vec::Vec;

impl Message<'_> {
    /// Appends the message with another body and its Content-Length.
    ///
    /// ```
    /// use ringway_sip::{Limits, Message};
    ///
    /// let bytes = b"SIP/2.0 200 OK\r\n\
    ///     Via: SIP/2.0/UDP 192.0.2.7:5060;branch=z9hG4bK776asdhds\r\n\
    ///     From: <sip:alice@example.org>;tag=1928301774\r\n\
    ///     To: <sip:bob@example.org>;tag=8\r\n\
    ///     Call-ID: a84b4c76e66710\r\n\
    ///     l: 3\r\n\
    ///     CSeq: 1 INVITE\r\n\r\nold";
    /// let message = Message::parse(bytes, &Limits::default()).expect("a valid response");
    /// let mut out = Vec::new();
    /// message.write_with_body(b"another", &mut out);
    /// let changed = Message::parse(&out, &Limits::default()).expect("a valid response");
    /// assert_eq!(changed.body(), b"another");
    /// assert_eq!(changed.call_id(), b"a84b4c76e66710");
    /// ```
    pub fn write_with_body(&self, body: &[u8], out: &mut Vec<u8>) {
        let original = self.as_bytes();
        out.reserve(self.headers_end() + body.len() + 32);
        let mut at = 0;
        for line in self.lines().iter().filter(|line| line.is(HeaderName::ContentLength)) {
            let whole = line.whole(original);
            out.extend_from_slice(original.get(at..whole.start).unwrap_or_default());
            at = whole.end;
        }
        out.extend_from_slice(original.get(at..self.headers_end()).unwrap_or_default());
        out.extend_from_slice(b"Content-Length: ");
        write_number(out, body.len() as u64);
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(body);
    }
}
