//! Bodies: those of several parts (RFC 2046 §5.1, in SIP by RFC 5621), and messages with another body.

use crate::grammar::{is_lws, trim};
use crate::write::write_number;
use crate::{HeaderName, Message};
use alloc::vec::Vec;

/// Part of a multipart body; a view of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyPart<'a> {
    head: &'a [u8],
    body: &'a [u8],
}

/// Iterator over the parts of a multipart body.
#[derive(Clone, Debug)]
pub struct BodyParts<'a> {
    bytes: &'a [u8],
    boundary: &'a [u8],
    /// Start of the next line.
    at: usize,
    /// Start of the part that the next delimiter ends.
    part: Option<usize>,
}

impl<'a> BodyParts<'a> {
    /// Maximum length of a boundary in bytes (RFC 2046 §5.1.1).
    pub const BOUNDARY_BYTES_MAX: usize = 70;

    /// Splits a body at its boundary; text before the first delimiter and after the last is left out. A body without a
    /// closing delimiter ends its last part. The work is linear in the bytes.
    ///
    /// ```
    /// use ringway_sip::BodyParts;
    ///
    /// let body = b"--x\r\nContent-Type: text/plain\r\n\r\nhello\r\n--x--\r\n";
    /// let part = BodyParts::new(body, b"x").next().expect("a part");
    /// assert_eq!(part.field(b"content-type"), Some(&b"text/plain"[..]));
    /// assert_eq!(part.body(), b"hello");
    /// ```
    pub const fn new(body: &'a [u8], boundary: &'a [u8]) -> Self {
        Self { bytes: body, boundary, at: 0, part: None }
    }

    fn part(&self, start: usize, end: usize) -> BodyPart<'a> {
        BodyPart::new(self.bytes.get(start..end).unwrap_or_default())
    }
}

impl<'a> Iterator for BodyParts<'a> {
    type Item = BodyPart<'a>;

    fn next(&mut self) -> Option<BodyPart<'a>> {
        while let Some(line) = line_at(self.bytes, self.at) {
            let start = core::mem::replace(&mut self.at, line.next);
            let Some(delimiter) = Delimiter::of(line.text, self.boundary) else { continue };
            // The line break before a delimiter belongs to it.
            let end = before_break(self.bytes, start);
            let ended = self.part.take().map(|part| self.part(part, end.max(part)));
            match delimiter {
                Delimiter::Open => self.part = Some(line.next),
                Delimiter::Close => self.at = self.bytes.len(),
            }
            if ended.is_some() {
                return ended;
            }
        }
        self.part.take().map(|part| self.part(part, self.bytes.len()))
    }
}

impl<'a> BodyPart<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let mut at = 0;
        while let Some(line) = line_at(bytes, at) {
            if line.text.is_empty() {
                let (head, body) = (bytes.get(..at), bytes.get(line.next..));
                return Self { head: head.unwrap_or_default(), body: body.unwrap_or_default() };
            }
            at = line.next;
        }
        Self { head: bytes, body: b"" }
    }

    /// Value of the first header field with this name, without white space around it; folds are still inside.
    pub fn field(&self, name: &[u8]) -> Option<&'a [u8]> {
        let mut at = 0;
        while let Some(line) = line_at(self.head, at) {
            let (start, mut end) = (at, line.next);
            while let Some(fold) =
                line_at(self.head, end).filter(|line| line.text.first().is_some_and(|&byte| is_lws(byte)))
            {
                end = fold.next;
            }
            let field = self.head.get(start..end).unwrap_or_default();
            let colon = memchr::memchr(b':', field).unwrap_or(field.len());
            if let Some((written, [_, value @ ..])) = field.split_at_checked(colon)
                && trim(written).eq_ignore_ascii_case(name)
            {
                return Some(trim(value));
            }
            at = end;
        }
        None
    }

    /// The body of the part.
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }
}

/// Kind of a line with the boundary.
enum Delimiter {
    /// A part follows.
    Open,
    /// No part follows.
    Close,
}

impl Delimiter {
    fn of(line: &[u8], boundary: &[u8]) -> Option<Self> {
        let rest = line.strip_prefix(b"--")?.strip_prefix(boundary)?;
        let (rest, delimiter) = match rest {
            [b'-', b'-', rest @ ..] => (rest, Self::Close),
            rest => (rest, Self::Open),
        };
        rest.iter().all(|&byte| is_lws(byte)).then_some(delimiter)
    }
}

/// A line without its CRLF or LF, and the start of the next one.
struct TextLine<'a> {
    text: &'a [u8],
    next: usize,
}

/// The line at a position; `None` at the end.
fn line_at(bytes: &[u8], at: usize) -> Option<TextLine<'_>> {
    let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
    let len = memchr::memchr(b'\n', rest);
    let text = rest.get(..len.unwrap_or(rest.len())).unwrap_or_default();
    let next = at + len.map_or(rest.len(), |len| len + 1);
    Some(TextLine { text: text.strip_suffix(b"\r").unwrap_or(text), next })
}

/// End of the bytes before the line break that ends at `at`.
fn before_break(bytes: &[u8], at: usize) -> usize {
    match bytes.get(..at).unwrap_or_default() {
        [.., b'\r', b'\n'] => at - 2,
        [.., b'\n'] => at - 1,
        _ => at,
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use alloc::vec::Vec;

    fn bodies<'a>(body: &'a str, boundary: &'a str) -> Vec<&'a str> {
        let text = |part: BodyPart<'a>| core::str::from_utf8(part.body()).unwrap();
        BodyParts::new(body.as_bytes(), boundary.as_bytes()).map(text).collect()
    }

    #[test]
    fn parts_are_between_delimiters_and_end_before_their_line_break() {
        let body = "preamble\r\n--b\r\nA: 1\r\n\r\none\r\n\r\n--b \t\r\n\r\ntwo\r\n--bb\r\n--b--\r\nend\r\n--b\r\n\r\nno";
        assert_eq!(bodies(body, "b"), ["one\r\n", "two\r\n--bb"]);
        assert_eq!(bodies(&body.replace("\r\n", "\n"), "b"), ["one\n", "two\n--bb"]);
        assert_eq!(bodies("--b\r\n\r\nunclosed", "b"), ["unclosed"]);
        assert_eq!(bodies("--b\r\n--b\r\n\r\n--b--", "b"), ["", ""]);
        assert_eq!(bodies("--b\r\nA: 1\r\n--b--", "b"), [""], "a part of header fields only");
        for none in ["", "--", "--b--\r\n", "--c\r\n\r\nx", "x--b\r\n\r\nx", "--b-\r\n\r\nx"] {
            assert!(bodies(none, "b").is_empty(), "{none:?}");
        }
    }

    #[test]
    fn fields_are_found_in_any_case_folded_and_before_the_empty_line_alone() {
        let part = BodyPart::new(b"x-a : 1\r\nX-B:\r\n 2;\r\n\t3\r\nnonsense\r\nX-C: \r\n\r\nX-D: 4");
        assert_eq!(part.field(b"X-A"), Some(&b"1"[..]));
        assert_eq!(part.field(b"x-b"), Some(&b"2;\r\n\t3"[..]));
        assert_eq!((part.field(b"x-c"), part.field(b"x-d"), part.field(b"3")), (Some(&b""[..]), None, None));
        assert_eq!(BodyPart::new(b"\r\nX-A: 1").field(b"x-a"), None);
    }

    /// Bytes of all pieces in any order, cut anywhere: no panic, and the parts are pieces of the body without overlap.
    #[test]
    fn hostile_bodies_have_parts_within_them() {
        const PIECES: [&str; 9] = ["--b", "--b--", "\r\n", "\n", "\r", "A: b", " ", ":", "--"];
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let mut body = String::new();
            for _ in 0..12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                body.push_str(PIECES[(state >> 33) as usize % PIECES.len()]);
            }
            let parts: Vec<_> = BodyParts::new(body.as_bytes(), b"b").collect();
            let bytes: usize = parts.iter().map(|part| part.head.len() + part.body.len()).sum();
            assert!(bytes <= body.len() && parts.len() <= body.len() / 3, "{body:?}");
            for part in parts {
                assert!(part.field(b"a").is_none_or(|value| value.len() < body.len()), "{body:?}");
            }
        }
    }
}
