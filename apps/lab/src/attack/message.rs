//! Requests and responses as text, messages of floods with fields of fixed width that are overwritten, and the client
//! side of digest authentication (RFC 7616 §3.4) at minimal cost.

use crate::server::{Algorithm, DOMAIN, PASSWORD};
use md5::{Digest, Md5};
use memchr::memmem::Finder;
use sha2::Sha256;
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

/// Appends a response up to its own headers: status line, and the headers that are copied from the request
/// (RFC 3261 §8.2.6.2, §12.1.1), with our tag in To.
pub fn respond(request: &[u8], status: &[u8], tag: Serial, out: &mut Vec<u8>) {
    out.extend_from_slice(b"SIP/2.0 ");
    out.extend_from_slice(status);
    out.extend_from_slice(b"\r\n");
    for line in header_lines(request) {
        if [&b"Via:"[..], b"From:", b"Call-ID:", b"CSeq:", b"Record-Route:"]
            .iter()
            .any(|name| line.starts_with(name))
        {
            out.extend_from_slice(line);
        } else if line.starts_with(b"To:") {
            out.extend_from_slice(line);
            if memchr::memmem::find(line, b";tag=").is_none() {
                out.truncate(out.len() - 2);
                out.extend_from_slice(b";tag=b");
                out.extend_from_slice(&tag.digits());
                out.extend_from_slice(b"\r\n");
            }
        }
    }
}

/// Turns the Record-Route headers of a response into the caller's Route headers, last one first (RFC 3261 §12.1.2).
pub fn copy_routes(response: &[u8], routes: &mut Vec<u8>) {
    const NAME: &[u8] = b"Record-Route:";
    routes.clear();
    let lines: Vec<&[u8]> = header_lines(response).filter(|line| line.starts_with(NAME)).collect();
    for line in lines.iter().rev() {
        routes.extend_from_slice(b"Route:");
        routes.extend_from_slice(line.get(NAME.len()..).unwrap_or_default());
    }
}

/// The header lines of a message, each with its CR LF, without the first line.
pub fn header_lines(message: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = message;
    std::iter::from_fn(move || {
        let end = memchr::memchr(b'\n', rest)? + 1;
        let (line, after) = rest.split_at_checked(end)?;
        rest = after;
        (line != b"\r\n").then_some(line)
    })
    .skip(1)
}

/// Number of a request: its sender and its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Serial {
    /// Number of the sender.
    pub sender: u16,
    /// Number among the sender's requests.
    pub turn: u32,
}

impl Serial {
    /// Hexadecimal digits, as used in branches, tags and Call-IDs.
    pub fn digits(self) -> [u8; 12] {
        let mut out = [0; 12];
        let number = (u64::from(self.sender) << 32) | u64::from(self.turn);
        write_hex(number, &mut out);
        out
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Peer,
    Serial,
}

/// A message with fields.
#[derive(Clone, Debug)]
pub(super) struct Template {
    text: Vec<u8>,
    fields: Vec<(usize, Field)>,
}

impl Template {
    /// Creates a template from a text in which `{peer}` (seven digits) and `{serial}` are the fields. Lines end with LF in the text and with CR LF in the message.
    pub(super) fn new(text: &str) -> Self {
        let mut built = Self { text: Vec::with_capacity(text.len()), fields: Vec::new() };
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            built.literal(before);
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            let (field, width) = match name {
                "peer" => (Field::Peer, 7),
                "serial" => (Field::Serial, 12),
                _ => {
                    built.literal(name);
                    rest = after;
                    continue;
                }
            };
            built.fields.push((built.text.len(), field));
            built.text.resize(built.text.len() + width, b'0');
            rest = after;
        }
        built.literal(rest);
        built
    }

    /// Appends the message with the number of a called user and its own number.
    pub(super) fn write(&self, peer: u32, serial: Serial, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.text);
        let Some(message) = out.get_mut(start..) else { return };
        let serial = serial.digits();
        for &(at, field) in &self.fields {
            match field {
                Field::Peer => write_decimal(peer, message, at, 7),
                Field::Serial => {
                    if let Some(digits) = message.get_mut(at..at + serial.len()) {
                        digits.copy_from_slice(&serial);
                    }
                }
            }
        }
    }

    fn literal(&mut self, text: &str) {
        for byte in text.bytes() {
            if byte == b'\n' {
                self.text.push(b'\r');
            }
            self.text.push(byte);
        }
    }
}

fn write_decimal(mut number: u32, message: &mut [u8], at: usize, width: usize) {
    for digit in message.get_mut(at..at + width).unwrap_or_default().iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

fn write_hex(mut number: u64, out: &mut [u8]) {
    for digit in out.iter_mut().rev() {
        *digit = b"0123456789abcdef".get((number & 15) as usize).copied().unwrap_or(b'0');
        number >>= 4;
    }
}

/// Writer of Authorization or Proxy-Authorization headers for one method and URI.
pub(super) struct Credentials {
    algorithm: Algorithm,
    header: &'static str,
    uri: String,
    /// H(A2), constant for all requests.
    request_hash: Vec<u8>,
    nonce: Finder<'static>,
    opaque: Finder<'static>,
}

impl Credentials {
    /// Credentials for a request; `header` is the header that its challenge requires.
    pub(super) fn new(algorithm: Algorithm, header: &'static str, method: &str, uri: &str) -> Self {
        let mut request_hash = Vec::new();
        hash_hex(algorithm, &[method.as_bytes(), b":", uri.as_bytes()], &mut request_hash);
        let (nonce, opaque) = (Finder::new("nonce=\""), Finder::new("opaque=\""));
        Self { algorithm, header, uri: uri.to_owned(), request_hash, nonce, opaque }
    }

    /// Appends the header for the challenge in `response`; returns false if it has no challenge with this
    /// algorithm.
    pub(super) fn answer(&self, user: u32, response: &[u8], out: &mut Vec<u8>) -> bool {
        const CNONCE: &[u8] = b"0a4f113b8d21c7e5";
        let name = format!("u{user:07}");
        let Some(nonce) = quoted(response, &self.nonce) else { return false };
        if memchr::memmem::find(response, self.algorithm.name().as_bytes()).is_none() {
            return false;
        }
        let mut secret = Vec::with_capacity(64);
        hash_hex(
            self.algorithm,
            &[name.as_bytes(), b":", DOMAIN.as_bytes(), b":", PASSWORD.as_bytes()],
            &mut secret,
        );
        for part in [
            self.header.as_bytes(),
            b": Digest username=\"",
            name.as_bytes(),
            b"\", realm=\"",
            DOMAIN.as_bytes(),
            b"\", nonce=\"",
            nonce,
            b"\", uri=\"",
            self.uri.as_bytes(),
            b"\", response=\"",
        ] {
            out.extend_from_slice(part);
        }
        let parts: [&[u8]; 7] = [&secret, b":", nonce, b":00000001:", CNONCE, b":auth:", &self.request_hash];
        hash_hex(self.algorithm, &parts, out);
        out.extend_from_slice(b"\", algorithm=");
        out.extend_from_slice(self.algorithm.name().as_bytes());
        out.extend_from_slice(b", cnonce=\"");
        out.extend_from_slice(CNONCE);
        out.extend_from_slice(b"\", qop=auth, nc=00000001");
        if let Some(opaque) = quoted(response, &self.opaque) {
            out.extend_from_slice(b", opaque=\"");
            out.extend_from_slice(opaque);
            out.push(b'"');
        }
        out.extend_from_slice(b"\r\n");
        true
    }
}

fn quoted<'m>(message: &'m [u8], name: &Finder<'_>) -> Option<&'m [u8]> {
    let start = name.find(message)? + name.needle().len();
    let rest = message.get(start..)?;
    rest.get(..memchr::memchr(b'"', rest)?)
}

/// Appends the hash of `parts` in hexadecimal digits.
fn hash_hex(algorithm: Algorithm, parts: &[&[u8]], out: &mut Vec<u8>) {
    match algorithm {
        Algorithm::Sha256 => hex(&hash::<Sha256>(parts), out),
        Algorithm::Md5 => hex(&hash::<Md5>(parts), out),
    }
}

fn hash<D: Digest>(parts: &[&[u8]]) -> Vec<u8> {
    let mut hasher = D::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().to_vec()
}

/// Appends two hexadecimal digits for each byte.
fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    let at = out.len();
    out.resize(at + 2 * bytes.len(), b'0');
    let _ = base16ct::lower::encode(bytes, out.get_mut(at..).unwrap_or_default());
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

    #[test]
    fn a_response_copies_the_headers_of_the_rfc() {
        let request = b"INVITE sip:b@h SIP/2.0\r\nRecord-Route: <sip:p2;lr>\r\nRecord-Route: <sip:p1;lr>\r\n\
            Via: SIP/2.0/UDP p\r\nVia: SIP/2.0/UDP a\r\nTo: <sip:b@h>\r\nFrom: <sip:a@h>;tag=1\r\n\
            Max-Forwards: 70\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\n\r\nTo: body";
        let mut response = Vec::new();
        respond(request, b"200 OK", Serial { sender: 1, turn: 2 }, &mut response);
        assert_eq!(
            String::from_utf8_lossy(&response),
            "SIP/2.0 200 OK\r\nRecord-Route: <sip:p2;lr>\r\nRecord-Route: <sip:p1;lr>\r\nVia: SIP/2.0/UDP p\r\n\
             Via: SIP/2.0/UDP a\r\nTo: <sip:b@h>;tag=b000100000002\r\nFrom: <sip:a@h>;tag=1\r\nCall-ID: 1\r\n\
             CSeq: 1 INVITE\r\n"
        );
        let mut routes = Vec::new();
        copy_routes(&response, &mut routes);
        assert_eq!(String::from_utf8_lossy(&routes), "Route: <sip:p1;lr>\r\nRoute: <sip:p2;lr>\r\n");
    }

    fn hex_of(algorithm: Algorithm, parts: &[&[u8]]) -> String {
        let mut out = Vec::new();
        hash_hex(algorithm, parts, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// The example of RFC 7616 §3.9.1.
    #[test]
    fn hashes_are_those_of_the_rfc() {
        for (algorithm, expected) in [
            (Algorithm::Md5, "8ca523f5e9506fed4657c9700eebdbec"),
            (Algorithm::Sha256, "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ] {
            let secret = hex_of(algorithm, &[b"Mufasa:http-auth@example.org:Circle of Life"]);
            let request = hex_of(algorithm, &[b"GET:/dir/index.html"]);
            let nonce = b"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v";
            let cnonce = b"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
            let parts: [&[u8]; 7] =
                [secret.as_bytes(), b":", nonce, b":00000001:", cnonce, b":auth:", request.as_bytes()];
            assert_eq!(hex_of(algorithm, &parts), expected);
        }
    }

    #[test]
    fn a_challenge_is_answered_with_its_nonce_and_opaque() {
        let challenge = b"SIP/2.0 401 Unauthorized\r\nWWW-Authenticate: Digest realm=\"example.org\", \
            nonce=\"abc\", opaque=\"xyz\", algorithm=SHA-256, qop=\"auth\"\r\n\r\n";
        let mut out = Vec::new();
        let credentials =
            |algorithm| Credentials::new(algorithm, "Authorization", "REGISTER", "sip:example.org");
        assert!(credentials(Algorithm::Sha256).answer(7, challenge, &mut out));
        let header = String::from_utf8(out).unwrap();
        assert!(header.contains("username=\"u0000007\"") && header.contains("nonce=\"abc\""));
        assert!(header.ends_with("opaque=\"xyz\"\r\n"));
        assert!(!credentials(Algorithm::Md5).answer(7, challenge, &mut Vec::new()));
    }
}
