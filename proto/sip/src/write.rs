//! Writers for messages, which reject values with line breaks.

use crate::grammar::is_token_str;
use crate::header::Via;
use crate::lines::Line;
use crate::scan::first_below;
use crate::{Fields, HeaderName, Message, Method};
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Error: a value contains CR, LF or NUL and would have become lines of its own. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a header value holds a line break or NUL")]
pub struct UnsafeText;

/// Writes a request from parts, or a response to a request (RFC 3261 §8.2.6): its Vias, From, To, Call-ID, CSeq and
/// Timestamp unchanged, then the added fields.
///
/// ```
/// use ringway_sip::{HeaderName, Limits, Message, MessageWriter};
///
/// let bytes = b"OPTIONS sip:bob@example.org SIP/2.0\r\n\
///     Via: SIP/2.0/UDP 192.0.2.7:5060;branch=z9hG4bK776asdhds\r\n\
///     From: <sip:alice@example.org>;tag=1928301774\r\n\
///     To: <sip:bob@example.org>\r\n\
///     Call-ID: a84b4c76e66710\r\n\
///     CSeq: 1 OPTIONS\r\n\
///     Max-Forwards: 70\r\n\r\n";
/// let request = Message::parse(bytes, &Limits::default()).expect("a valid request");
/// let source = "192.0.2.7:5060".parse().expect("an address");
/// let mut out = Vec::new();
/// let mut response = MessageWriter::answer(&mut out, &request, 200, "OK", source, Some(b"tag1"));
/// response.header(HeaderName::Allow, b"INVITE, ACK, BYE");
/// response.finish()?;
/// assert!(out.starts_with(b"SIP/2.0 200 OK\r\n"));
/// # Ok::<(), ringway_sip::UnsafeText>(())
/// ```
#[derive(Debug)]
pub struct MessageWriter<'b> {
    out: &'b mut Vec<u8>,
    start: usize,
    refused: bool,
}

impl<'b> MessageWriter<'b> {
    /// Begins a request at the end of `out`.
    pub fn request(out: &'b mut Vec<u8>, method: Method<'_>, uri: &[u8]) -> Self {
        let mut writer = Self::new(out);
        writer.refused |= !is_token_str(method.as_bytes()) || breaks_the_start_line(uri);
        writer.out.extend_from_slice(method.as_bytes());
        writer.out.push(b' ');
        writer.out.extend_from_slice(uri);
        writer.out.extend_from_slice(b" SIP/2.0\r\n");
        writer
    }

    /// Begins a response at the end of `out`.
    ///
    /// `source` is the address that the request came from: it goes into the top Via as `received` and, if the request
    /// has an empty `rport`, as `rport` (RFC 3261 §18.2.1, RFC 3581 §4). `to_tag` is added if To has no tag.
    pub fn response(
        out: &'b mut Vec<u8>,
        request: &Fields<'_>,
        status: u16,
        phrase: &str,
        source: Option<SocketAddr>,
        to_tag: Option<&[u8]>,
    ) -> Self {
        let mut writer = Self::status(out, status, phrase);
        let mut source = source;
        for value in request.lines_of(HeaderName::Via) {
            writer.out.extend_from_slice(b"Via: ");
            match source.take() {
                Some(source) => write_stamped_line(writer.out, value, source),
                None => writer.out.extend_from_slice(value),
            }
            writer.out.extend_from_slice(b"\r\n");
        }
        for name in
            [HeaderName::From, HeaderName::To, HeaderName::CallId, HeaderName::CSeq, HeaderName::Timestamp]
        {
            let Some(value) = request.first(name) else { continue };
            writer.raw(name.as_bytes(), value);
            if let (HeaderName::To, Some(tag)) = (name, to_tag)
                && !has_tag(value)
            {
                writer.out.truncate(writer.out.len() - 2);
                writer.out.extend_from_slice(b";tag=");
                writer.text(tag);
                writer.out.extend_from_slice(b"\r\n");
            }
        }
        writer
    }

    /// Begins a response to a parsed request, without parsing any of it again.
    pub fn answer(
        out: &'b mut Vec<u8>,
        request: &Message<'_>,
        status: u16,
        phrase: &str,
        source: SocketAddr,
        to_tag: Option<&[u8]>,
    ) -> Self {
        let mut writer = Self::status(out, status, phrase);
        writer.out.extend_from_slice(b"Via: ");
        write_stamped_via(writer.out, request.via(), request.after_via(), source);
        writer.out.extend_from_slice(b"\r\n");
        request.lines_of(HeaderName::Via).skip(1).for_each(|line| writer.raw(b"Via", line));
        writer.copy_first(request, HeaderName::From);
        writer.copy_first(request, HeaderName::To);
        if let Some(to_tag) = to_tag
            && request.to().tag().is_none()
        {
            writer.out.truncate(writer.out.len() - 2);
            writer.out.extend_from_slice(b";tag=");
            writer.text(to_tag);
            writer.out.extend_from_slice(b"\r\n");
        }
        writer.copy_first(request, HeaderName::CallId);
        writer.copy_first(request, HeaderName::CSeq);
        writer.copy(request, HeaderName::Timestamp);
        writer
    }

    fn new(out: &'b mut Vec<u8>) -> Self {
        let start = out.len();
        Self { out, start, refused: false }
    }

    /// A status code has three digits (RFC 3261 §7.2).
    fn status(out: &'b mut Vec<u8>, status: u16, phrase: &str) -> Self {
        let mut writer = Self::new(out);
        let digit = |value: u16| b'0' + (value % 10) as u8;
        writer.out.extend_from_slice(b"SIP/2.0 ");
        writer.out.extend_from_slice(&[digit(status / 100), digit(status / 10), digit(status), b' ']);
        writer.text(phrase.as_bytes());
        writer.out.extend_from_slice(b"\r\n");
        writer
    }

    /// Adds a header field.
    pub fn header(&mut self, name: HeaderName, value: &[u8]) -> &mut Self {
        self.refused |= breaks_out(value);
        self.raw(name.as_bytes(), value);
        self
    }

    /// Adds a header field with a number.
    pub fn header_number(&mut self, name: HeaderName, value: u64) -> &mut Self {
        self.name(name.as_bytes());
        write_number(self.out, value);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// Adds a header field whose value `write` appends.
    pub fn header_with(&mut self, name: HeaderName, write: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        self.name(name.as_bytes());
        let start = self.out.len();
        write(self.out);
        self.refused |= self.out.get(start..).is_none_or(breaks_out);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// Adds a header field whose name has no [`HeaderName`].
    pub fn header_named(&mut self, name: &str, value: &[u8]) -> &mut Self {
        self.refused |= !is_token_str(name.as_bytes()) || breaks_out(value);
        self.raw(name.as_bytes(), value);
        self
    }

    /// Copies every field of this name from `from`.
    pub fn copy(&mut self, from: &Fields<'_>, name: HeaderName) -> &mut Self {
        for line in from.indices_of(name).filter_map(|index| from.lines().get(index)) {
            self.copy_line(line, from.as_bytes(), name);
        }
        self
    }

    /// Ends the message, without a body.
    pub fn finish(self) -> Result<(), UnsafeText> {
        self.finish_with(b"")
    }

    /// Ends the message with a body.
    pub fn finish_with_body(mut self, content_type: &str, body: &[u8]) -> Result<(), UnsafeText> {
        self.header(HeaderName::ContentType, content_type.as_bytes());
        self.finish_with(body)
    }

    fn text(&mut self, text: &[u8]) {
        self.refused |= breaks_out(text);
        self.out.extend_from_slice(text);
    }

    fn raw(&mut self, name: &[u8], value: &[u8]) {
        self.name(name);
        self.out.extend_from_slice(value);
        self.out.extend_from_slice(b"\r\n");
    }

    /// `HeaderName::Other` has no spelling and names no line.
    fn name(&mut self, name: &[u8]) {
        self.refused |= name.is_empty();
        self.out.extend_from_slice(name);
        self.out.extend_from_slice(b": ");
    }

    /// Copies a field that is allowed once.
    fn copy_first(&mut self, from: &Fields<'_>, name: HeaderName) {
        if let Some(line) = from.first_line(name) {
            self.copy_line(line, from.as_bytes(), name);
        }
    }

    /// A copied value may be folded: what came from a message is already lines of a header.
    #[inline]
    fn copy_line(&mut self, line: &Line, bytes: &[u8], name: HeaderName) {
        match line.as_written(bytes) {
            Some(written) => self.out.extend_from_slice(written),
            None => self.raw(name.as_bytes(), line.value(bytes)),
        }
    }

    fn finish_with(mut self, body: &[u8]) -> Result<(), UnsafeText> {
        if body.is_empty() {
            self.out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
        } else {
            self.header_number(HeaderName::ContentLength, body.len() as u64);
            self.out.extend_from_slice(b"\r\n");
            self.out.extend_from_slice(body);
        }
        if self.refused {
            self.out.truncate(self.start);
            return Err(UnsafeText);
        }
        Ok(())
    }
}

/// Appends a number in decimal.
pub fn write_number(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        if let Some(digit) = digits.get_mut(at) {
            *digit = b'0' + (value % 10) as u8;
        }
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(at..).unwrap_or_default());
}

/// Appends an address and port as a URI and a Via have them, IPv6 in brackets (RFC 3261 §25.1, `hostport`).
pub fn write_host(out: &mut Vec<u8>, host: SocketAddr) {
    use core::fmt::Write;
    if host.is_ipv4() {
        write_ip(out, host.ip());
        out.push(b':');
        return write_number(out, u64::from(host.port()));
    }
    // Text into memory is never refused.
    let _ = write!(Text(out), "{host}");
}

/// Appends the value of the Via header field of a request that asks for `rport` (RFC 3261 §20.42, RFC 3581 §3); `transport` is its
/// token.
pub fn write_via(
    out: &mut Vec<u8>,
    transport: &str,
    write_sent_by: impl FnOnce(&mut Vec<u8>),
    branch: &[u8],
) {
    out.extend_from_slice(b"SIP/2.0/");
    out.extend_from_slice(transport.as_bytes());
    out.push(b' ');
    write_sent_by(out);
    out.extend_from_slice(b";branch=");
    out.extend_from_slice(branch);
    out.extend_from_slice(b";rport");
}

/// Appends an IP address as `received` has it: IPv6 without brackets (RFC 5118 §4.5).
fn write_ip(out: &mut Vec<u8>, address: core::net::IpAddr) {
    use core::net::IpAddr;
    match address {
        IpAddr::V4(v4) => {
            let (mut text, mut len) = ([0; 16], 0);
            for octet in v4.octets() {
                let written = OCTETS[usize::from(octet)];
                if let Some(room) = text.get_mut(len..).and_then(|room| room.first_chunk_mut()) {
                    *room = written;
                }
                len += 2 + usize::from(octet >= 10) + usize::from(octet >= 100);
            }
            // Without the last dot.
            out.extend_from_slice(text.get(..len - 1).unwrap_or_default());
        }
        IpAddr::V6(v6) => {
            use core::fmt::Write;
            let _ = write!(Text(out), "{v6}");
        }
    }
}

/// Each number of an IPv4 address with a dot behind it.
const OCTETS: [[u8; 4]; 256] = {
    let mut table = [[0; 4]; 256];
    let mut octet = 0;
    while octet < 256 {
        let digits = [(octet / 100) as u8, (octet / 10 % 10) as u8, (octet % 10) as u8];
        let (mut from, mut to) = (
            if octet >= 100 {
                0
            } else if octet >= 10 {
                1
            } else {
                2
            },
            0,
        );
        while from < 3 {
            table[octet][to] = b'0' + digits[from];
            (from, to) = (from + 1, to + 1);
        }
        table[octet][to] = b'.';
        octet += 1;
    }
    table
};

impl Message<'_> {
    /// Appends the Vias of this request in one line, as its responses have them: with `received` and `rport` of its source (RFC 3261 §18.2.1,
    /// RFC 3581 §4).
    pub fn write_vias(&self, source: SocketAddr, out: &mut Vec<u8>) {
        write_stamped_via(out, self.via(), self.after_via(), source);
        for line in self.lines_of(HeaderName::Via).skip(1) {
            out.extend_from_slice(b", ");
            out.extend_from_slice(line);
        }
    }
}

/// Appends a Via line, one or several values, that may be malformed, with `received` and `rport` in its first value.
fn write_stamped_line(out: &mut Vec<u8>, line: &[u8], source: SocketAddr) {
    match Via::split(line) {
        Ok((via, after)) => write_stamped_via(out, &via, after, source),
        Err(crate::Malformed) => out.extend_from_slice(line),
    }
}

/// Appends a Via line, a value and what follows it, with `received` and `rport` in the value. `received` is left out where it
/// would repeat the address in sent-by, unless rport asks for it (RFC 3581 §4).
pub(crate) fn write_stamped_via(out: &mut Vec<u8>, via: &Via<'_>, after: &[u8], source: SocketAddr) {
    write_stamped_value(out, via, source);
    out.extend_from_slice(after);
}

fn write_stamped_value(out: &mut Vec<u8>, via: &Via<'_>, source: SocketAddr) {
    let forged = via.has_received() || via.has_rport_value();
    match via.cut_at_rport() {
        // Only the receiver of a request may add them.
        _ if forged => write_via_without(out, via, &[b"received", b"rport"]),
        Some((before, behind)) => {
            out.extend_from_slice(before);
            out.push(b'=');
            write_number(out, u64::from(source.port()));
            out.extend_from_slice(behind);
        }
        None => {
            out.extend_from_slice(via.as_bytes());
            if via.host.ip() == Some(source.ip()) {
                return;
            }
        }
    }
    out.extend_from_slice(b";received=");
    write_ip(out, source.ip());
    if forged && via.wants_rport() {
        out.extend_from_slice(b";rport=");
        write_number(out, u64::from(source.port()));
    }
}

/// The value without the parameters of these names.
pub(crate) fn write_via_without(out: &mut Vec<u8>, via: &Via<'_>, names: &[&[u8]]) {
    let value = via.as_bytes();
    let params_len = via.params.as_bytes().len();
    out.extend_from_slice(value.get(..value.len().saturating_sub(params_len)).unwrap_or(value));
    for param in via.params.iter() {
        if names.iter().any(|name| param.name.eq_ignore_ascii_case(name)) {
            continue;
        }
        out.push(b';');
        out.extend_from_slice(param.name);
        if let Some(value) = param.value {
            out.push(b'=');
            out.extend_from_slice(value);
        }
    }
}

fn has_tag(to: &[u8]) -> bool {
    crate::NameAddr::parse(to).is_ok_and(|to| to.tag().is_some())
}

/// True for text that is not allowed between the two spaces of a request line.
pub(crate) fn breaks_the_start_line(uri: &[u8]) -> bool {
    uri.is_empty() || uri.iter().any(|&byte| byte <= b' ' || byte == 127)
}

fn breaks_out(text: &[u8]) -> bool {
    // Nearly no text has control characters, so this search ends early.
    first_below::<{ b'\r' + 1 }>(text)
        .is_some_and(|at| text.get(at..).is_none_or(|rest| memchr::memchr3(b'\r', b'\n', 0, rest).is_some()))
}

struct Text<'b>(&'b mut Vec<u8>);

impl core::fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
