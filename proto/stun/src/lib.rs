//! STUN (RFC 8489): the mapped address of a port, and keeping its mapping open; messages of ICE.
//!
//! Does: parses and writes messages of the Binding method, with the feature `integrity` also their integrity under a
//! short-term credential (§9.1); runs the client transaction and a keep-alive ([`StunClient`]); answers requests without
//! authentication ([`write_answer`]).
//!
//! Does not: long-term credentials, TURN, TCP, or compatibility with RFC 3489, which has no magic cookie.
//!
//! Start reading at [`StunClient`].

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use crc::{CRC_32_ISO_HDLC, Crc};

mod client;
#[cfg(feature = "integrity")]
mod integrity;
mod message;
mod write;

pub use client::{StunClient, StunCounts, StunEvent, StunFailure};
pub use message::{Class, Message, StunError, TransactionId};
pub use write::MessageWriter;
pub use write::{Unanswered, write_answer};

/// Default UDP port of a server (RFC 8489 §18.6).
pub const DEFAULT_PORT: u16 = 3478;

/// Binding method (RFC 8489 §18.2).
pub const METHOD_BINDING: u16 = 0x001;

/// Attribute types (RFC 8489 §18.3). Those below 0x8000 are comprehension-required.
pub mod attribute {
    /// Address of the sender as seen by the server, not obfuscated: some NATs rewrite it.
    pub const MAPPED_ADDRESS: u16 = 0x0001;
    /// User name of short-term or long-term credentials.
    pub const USERNAME: u16 = 0x0006;
    /// HMAC-SHA1 over the message before it.
    pub const MESSAGE_INTEGRITY: u16 = 0x0008;
    /// Code and reason phrase of an error response.
    pub const ERROR_CODE: u16 = 0x0009;
    /// Attributes that the server does not support (with error 420).
    pub const UNKNOWN_ATTRIBUTES: u16 = 0x000a;
    /// Realm of long-term credentials.
    pub const REALM: u16 = 0x0014;
    /// Nonce of long-term credentials.
    pub const NONCE: u16 = 0x0015;
    /// HMAC-SHA256 over the message before it.
    pub const MESSAGE_INTEGRITY_SHA256: u16 = 0x001c;
    /// Address of the sender as seen by the server, XORed so that NATs do not rewrite it.
    pub const XOR_MAPPED_ADDRESS: u16 = 0x0020;
    /// Priority of the candidate that a check would discover (RFC 8445 §16.1).
    pub const PRIORITY: u16 = 0x0024;
    /// Nomination of the pair that is checked (RFC 8445 §16.1).
    pub const USE_CANDIDATE: u16 = 0x0025;
    /// The sender is the controlled agent (RFC 8445 §16.1).
    pub const ICE_CONTROLLED: u16 = 0x8029;
    /// The sender is the controlling agent (RFC 8445 §16.1).
    pub const ICE_CONTROLLING: u16 = 0x802a;
    /// Name of the software.
    pub const SOFTWARE: u16 = 0x8022;
    /// CRC-32 over the message before it.
    pub const FINGERPRINT: u16 = 0x8028;
}

const MAGIC_COOKIE: [u8; 4] = 0x2112_a442_u32.to_be_bytes();
const HEADER_BYTES: usize = 20;
/// CRC-32 of ITU V.42, used by FINGERPRINT (RFC 8489 §14.7).
static CRC32: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);
const FINGERPRINT_XOR: u32 = 0x5354_554e;
const FAMILY_IPV4: u8 = 1;
const FAMILY_IPV6: u8 = 2;

#[cfg(test)]
mod answer_tests;
#[cfg(test)]
mod client_tests;
#[cfg(test)]
mod message_tests;
