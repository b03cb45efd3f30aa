//! Writer of STUN messages, and answers of a server without authentication (RFC 8489 §12.1), as one runs at the port of
//! SIP (RFC 5626 §8).

use super::message::{fingerprint, join_type, with_length, xor_address};
use super::{Class, FAMILY_IPV4, FAMILY_IPV6, HEADER_BYTES, MAGIC_COOKIE, Message, TransactionId, attribute};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

/// Writes attributes in the order of the calls.
#[derive(Clone, Debug)]
pub struct MessageWriter {
    bytes: Vec<u8>,
    id: TransactionId,
}

impl MessageWriter {
    /// Creates a message without attributes.
    pub fn new(class: Class, method: u16, id: TransactionId) -> Self {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend_from_slice(&join_type(class, method).to_be_bytes());
        bytes.extend_from_slice(&[0, 0]);
        bytes.extend_from_slice(&MAGIC_COOKIE);
        bytes.extend_from_slice(&id.0);
        Self { bytes, id }
    }

    /// Appends XOR-MAPPED-ADDRESS (RFC 8489 §14.2).
    pub fn xor_mapped_address(self, address: SocketAddr) -> Self {
        let hidden = xor_address(address, self.id);
        self.address(attribute::XOR_MAPPED_ADDRESS, hidden)
    }

    /// Appends MAPPED-ADDRESS (RFC 8489 §14.1).
    pub fn mapped_address(self, address: SocketAddr) -> Self {
        self.address(attribute::MAPPED_ADDRESS, address)
    }

    /// Appends ERROR-CODE, 300 to 699, with a short reason (RFC 8489 §14.8).
    pub fn error_code(self, code: u16, reason: &str) -> Self {
        let head = [0, 0, (code / 100) as u8 & 7, (code % 100) as u8];
        self.attribute(attribute::ERROR_CODE, &[&head, reason.as_bytes()].concat())
    }

    /// Appends MESSAGE-INTEGRITY with this short-term password (RFC 8489 §14.5), behind which only FINGERPRINT may follow.
    #[cfg(feature = "integrity")]
    pub fn integrity(mut self, password: &[u8]) -> Self {
        self.set_length(4 + super::integrity::DIGEST_BYTES);
        let value = super::integrity::digest(password, &[&self.bytes]);
        self.attribute(attribute::MESSAGE_INTEGRITY, &value)
    }

    /// Returns the message with FINGERPRINT at its end (RFC 8489 §14.7).
    pub fn finish_with_fingerprint(mut self) -> Vec<u8> {
        self.set_length(8);
        let value = fingerprint(&self.bytes);
        self.attribute(attribute::FINGERPRINT, &value).finish()
    }

    /// Returns the message.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn address(self, kind: u16, address: SocketAddr) -> Self {
        let mut value = Vec::with_capacity(20);
        value.extend_from_slice(&[0, if address.is_ipv4() { FAMILY_IPV4 } else { FAMILY_IPV6 }]);
        value.extend_from_slice(&address.port().to_be_bytes());
        match address.ip() {
            IpAddr::V4(ip) => value.extend_from_slice(&ip.octets()),
            IpAddr::V6(ip) => value.extend_from_slice(&ip.octets()),
        }
        self.attribute(kind, &value)
    }

    /// Appends an attribute; `value` is short, because every caller limits it.
    pub fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.bytes.extend_from_slice(&kind.to_be_bytes());
        self.bytes.extend_from_slice(&(value.len() as u16).to_be_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.set_length(0);
        self
    }

    /// Sets the length in the header to that of the message plus `more` bytes.
    fn set_length(&mut self, more: usize) {
        let length = self.bytes.len() - HEADER_BYTES + more;
        if let Some(header) = self.bytes.first_chunk_mut::<HEADER_BYTES>()
            && let Some(changed) = with_length(*header, length)
        {
            *header = changed;
        }
    }
}

/// A datagram that gets no answer: no STUN message, or not a Binding request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unanswered;

/// Appends the answer to a datagram from `source`: the address for a Binding request, or error 420.
///
/// The answer to a request without attributes is 12 bytes longer than it, 24 bytes with IPv6; with attributes less.
///
/// # Errors
/// [`Unanswered`], and `out` is unchanged.
pub fn write_answer(datagram: &[u8], source: SocketAddr, out: &mut Vec<u8>) -> Result<(), Unanswered> {
    let request = Message::parse(datagram).map_err(|_| Unanswered)?;
    if request.class() != Class::Request || !request.is_binding() {
        return Err(Unanswered);
    }
    let unknown: Vec<u8> = request.unknown_required().flat_map(u16::to_be_bytes).collect();
    let answer = match unknown.is_empty() {
        true => MessageWriter::new(Class::Success, request.method(), request.id()).xor_mapped_address(source),
        false => MessageWriter::new(Class::Error, request.method(), request.id())
            .error_code(420, "")
            .attribute(attribute::UNKNOWN_ATTRIBUTES, &unknown),
    };
    // RFC 8489 §7.3: a client that uses FINGERPRINT expects it.
    out.extend_from_slice(&match request.attribute(attribute::FINGERPRINT) {
        Some(_) => answer.finish_with_fingerprint(),
        None => answer.finish(),
    });
    Ok(())
}
