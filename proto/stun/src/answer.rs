//! Answers of a server without authentication (RFC 8489 §12.1), as one runs at the port of SIP (RFC 5626 §8).

use crate::{Class, Message, MessageWriter, attribute};
use alloc::vec::Vec;
use core::net::SocketAddr;

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
