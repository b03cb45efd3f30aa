//! Opening handshake (RFC 6455 §4, RFC 7118 §4.1): an HTTP/1.1 request and its response.

use super::{WebSocketServer, WebSocketTarget};
use alloc::vec::Vec;
use base64ct::{Base64, Encoding};
use ringway_sansio::Defence;
use sha1::{Digest, Sha1};

/// Bytes of a request or response until its empty line.
#[derive(Debug)]
pub(super) struct Head {
    bytes: Vec<u8>,
}

/// Result of [`Head::push`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pushed<'a> {
    /// The head is not complete.
    More,
    /// The head is complete; these bytes are behind it.
    Complete(&'a [u8]),
    /// The head is over its limit.
    TooLarge,
}

impl Head {
    pub(super) const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// Adds received bytes. The end is searched in the new bytes only.
    pub(super) fn push<'a>(&mut self, bytes: &'a [u8]) -> Pushed<'a> {
        let before = self.bytes.len();
        let room = HEAD_BYTES_MAX.saturating_sub(before).min(bytes.len());
        self.bytes.extend_from_slice(bytes.get(..room).unwrap_or_default());
        let from = before.saturating_sub(END.len() - 1);
        let new = self.bytes.get(from..).unwrap_or_default();
        match new.windows(END.len()).position(|window| window == END) {
            Some(at) => {
                let end = from + at + END.len();
                self.bytes.truncate(end);
                Pushed::Complete(bytes.get(end.saturating_sub(before)..).unwrap_or_default())
            }
            None if self.bytes.len() >= HEAD_BYTES_MAX => Pushed::TooLarge,
            None => Pushed::More,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// False if the bytes so far cannot become a GET request, so that other protocols get their answer at once.
    pub(super) fn may_be_get(&self) -> bool {
        self.bytes.iter().zip(b"GET ").all(|(is, wanted)| is == wanted)
    }
}

/// Reason for which a request is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    BadRequest(&'static str),
    Forbidden(&'static str),
    UpgradeRequired(&'static str),
    TooLarge(&'static str),
}

impl Refusal {
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::BadRequest(reason)
            | Self::Forbidden(reason)
            | Self::UpgradeRequired(reason)
            | Self::TooLarge(reason) => reason,
        }
    }

    /// Appends the response. It has no text of the request.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        let status = match self {
            Self::BadRequest(_) => "400 Bad Request",
            Self::Forbidden(_) => "403 Forbidden",
            Self::UpgradeRequired(_) => "426 Upgrade Required",
            Self::TooLarge(_) => "431 Request Header Fields Too Large",
        };
        let upgrade = match self {
            Self::UpgradeRequired(_) => {
                "Upgrade: websocket\r\nConnection: Upgrade, close\r\nSec-WebSocket-Version: 13\r\n"
            }
            Self::BadRequest(_) | Self::Forbidden(_) | Self::TooLarge(_) => "Connection: close\r\n",
        };
        let reason = self.reason();
        let text = alloc::format!(
            "HTTP/1.1 {status}\r\n{upgrade}Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{reason}\n",
            reason.len() + 1
        );
        out.extend_from_slice(text.as_bytes());
    }
}

/// Checks a request (RFC 6455 §4.2.1) and returns the value of Sec-WebSocket-Accept.
pub(super) fn check_request(head: &[u8], server: &WebSocketServer) -> Result<[u8; 28], Refusal> {
    let mut room = [httparse::EMPTY_HEADER; HEADER_LINES_MAX];
    let mut request = httparse::Request::new(&mut room);
    match request.parse(head) {
        // A second end of the head would hide a second request in the first.
        Ok(httparse::Status::Complete(end)) if end == head.len() => {}
        Ok(_) => return Err(Refusal::BadRequest("The request cannot be read.")),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Refusal::TooLarge("The request has too many header lines."));
        }
        Err(_) => return Err(Refusal::BadRequest("The request cannot be read.")),
    }
    if request.method != Some("GET") || request.version != Some(1) {
        return Err(Refusal::BadRequest("WebSocket needs a GET request of HTTP/1.1."));
    }
    let headers = Headers(request.headers);
    if headers.only("Host").is_none_or(|host| host.trim_ascii().is_empty()) {
        return Err(Refusal::BadRequest("The request needs one Host."));
    }
    let has_length = headers.all("Content-Length").any(|length| length.trim_ascii() != b"0");
    if has_length || headers.all("Transfer-Encoding").next().is_some() {
        return Err(Refusal::BadRequest("The request must not have a body."));
    }
    if !headers.has_token("Upgrade", "websocket") || !headers.has_token("Connection", "upgrade") {
        return Err(Refusal::UpgradeRequired("This is a WebSocket server for SIP (RFC 7118)."));
    }
    if headers.only("Sec-WebSocket-Version").map(<[u8]>::trim_ascii) != Some(b"13") {
        return Err(Refusal::UpgradeRequired("The version of WebSocket must be 13."));
    }
    let key = headers.only("Sec-WebSocket-Key").map(<[u8]>::trim_ascii);
    let Some(key) = key.filter(|key| is_nonce(key)) else {
        return Err(Refusal::BadRequest("The request needs one Sec-WebSocket-Key of 16 bytes in base64."));
    };
    if !headers.items("Sec-WebSocket-Protocol").any(|protocol| protocol == SUBPROTOCOL) {
        return Err(Refusal::BadRequest("Sec-WebSocket-Protocol must have the value sip."));
    }
    if !Defence::WebSocketOrigin.is_on() {
        return Ok(accept_key(key));
    }
    if server.origins.is_empty() {
        // Programs send no origin. A page of another site must not use what this server permits its visitor.
        let mut origins = headers.all("Origin").map(<[u8]>::trim_ascii);
        let host = host_of(headers.only("Host").unwrap_or_default().trim_ascii());
        if !origins.all(|origin| origin_host(origin).is_some_and(|own| own.eq_ignore_ascii_case(host))) {
            return Err(Refusal::Forbidden(
                "Pages of other hosts may connect if [websocket] origins names them.",
            ));
        }
    } else {
        let origin = headers.only("Origin").map(<[u8]>::trim_ascii).unwrap_or_default();
        if !server.origins.iter().any(|allowed| allowed.as_bytes().eq_ignore_ascii_case(origin)) {
            return Err(Refusal::Forbidden("Pages of this origin may not connect."));
        }
    }
    Ok(accept_key(key))
}

/// Host of an origin (RFC 6454 §6.2), without its port.
fn origin_host(origin: &[u8]) -> Option<&[u8]> {
    let at = origin.windows(3).position(|bytes| bytes == b"://")?;
    let host = host_of(origin.get(at + 3..)?);
    (!host.is_empty()).then_some(host)
}

/// Host without a port; IPv6 addresses have brackets.
fn host_of(authority: &[u8]) -> &[u8] {
    let from = authority.iter().rposition(|&byte| byte == b']').unwrap_or(0);
    let end =
        authority.iter().skip(from).position(|&byte| byte == b':').map_or(authority.len(), |at| from + at);
    authority.get(..end).unwrap_or_default()
}

/// Appends the response that ends the handshake.
pub(super) fn write_response(accept: &[u8; 28], out: &mut Vec<u8>) {
    out.extend_from_slice(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ",
    );
    out.extend_from_slice(accept);
    out.extend_from_slice(b"\r\nSec-WebSocket-Protocol: sip\r\n\r\n");
}

/// Appends the request of a client.
pub(super) fn write_request(target: &WebSocketTarget, key: &[u8; 24], out: &mut Vec<u8>) {
    let WebSocketTarget { host, resource, origin } = target;
    out.extend_from_slice(alloc::format!("GET {resource} HTTP/1.1\r\nHost: {host}\r\n").as_bytes());
    out.extend_from_slice(b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: ");
    out.extend_from_slice(key);
    if let Some(origin) = origin {
        out.extend_from_slice(alloc::format!("\r\nOrigin: {origin}").as_bytes());
    }
    out.extend_from_slice(b"\r\nSec-WebSocket-Protocol: sip\r\nSec-WebSocket-Version: 13\r\n\r\n");
}

/// Checks the response to a request with this key (RFC 6455 §4.1).
pub(super) fn check_response(head: &[u8], key: &[u8; 24]) -> Result<(), &'static str> {
    let mut room = [httparse::EMPTY_HEADER; HEADER_LINES_MAX];
    let mut response = httparse::Response::new(&mut room);
    match response.parse(head) {
        Ok(httparse::Status::Complete(end)) if end == head.len() => {}
        Ok(_) | Err(_) => return Err("the response to the handshake cannot be read"),
    }
    if response.code != Some(101) || response.version != Some(1) {
        return Err("the server refused the handshake");
    }
    let headers = Headers(response.headers);
    if !headers.has_token("Upgrade", "websocket") || !headers.has_token("Connection", "upgrade") {
        return Err("the server switched to another protocol");
    }
    if headers.only("Sec-WebSocket-Accept").map(<[u8]>::trim_ascii) != Some(&accept_key(key)[..]) {
        return Err("Sec-WebSocket-Accept does not match the key");
    }
    if headers.all("Sec-WebSocket-Extensions").next().is_some() {
        return Err("the server selected an extension that was not offered");
    }
    if headers.only("Sec-WebSocket-Protocol").map(<[u8]>::trim_ascii) != Some(SUBPROTOCOL) {
        return Err("the server did not select the subprotocol sip");
    }
    Ok(())
}

/// Base64 of a client's random key.
pub(super) fn encode_key(random: &[u8; 16]) -> [u8; 24] {
    let mut key = [b'A'; 24];
    // The size fits: 16 bytes give 24 characters.
    let _ = Base64::encode(random, &mut key);
    key
}

/// True for 16 bytes in base64.
fn is_nonce(key: &[u8]) -> bool {
    Base64::decode(key, &mut [0; 18]).is_ok_and(|nonce| nonce.len() == 16)
}

/// Proof that the server read the key as a WebSocket key (RFC 6455 §4.2.2, step 5).
fn accept_key(key: &[u8]) -> [u8; 28] {
    let digest =
        Sha1::new().chain_update(key).chain_update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").finalize();
    let mut accept = [b'A'; 28];
    // The size fits: 20 bytes give 28 characters.
    let _ = Base64::encode(&digest, &mut accept);
    accept
}

struct Headers<'a>(&'a [httparse::Header<'a>]);

impl<'a> Headers<'a> {
    fn all(&self, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
        let named = self.0.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
        named.map(|header| header.value)
    }

    /// Value of a header that is there once.
    fn only(&self, name: &'static str) -> Option<&'a [u8]> {
        let mut values = self.all(name);
        values.next().filter(|_| values.next().is_none())
    }

    /// Items of a list, which may be in several lines.
    fn items(&self, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
        self.all(name).flat_map(|value| value.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
    }

    fn has_token(&self, name: &'static str, token: &str) -> bool {
        self.items(name).any(|item| item.eq_ignore_ascii_case(token.as_bytes()))
    }
}

/// Maximum size of a request or response, without the bytes behind its empty line. Browsers send less than 2 KiB without
/// cookies.
pub(super) const HEAD_BYTES_MAX: usize = 8 << 10;

/// Maximum number of header lines.
const HEADER_LINES_MAX: usize = 64;

const END: &[u8] = b"\r\n\r\n";

const SUBPROTOCOL: &[u8] = b"sip";

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
