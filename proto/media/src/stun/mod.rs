//! STUN for one use: to learn how our media port looks from outside, and to keep the way to it open (RFC 8489).
//!
//! Does: messages of the Binding method, read and written; the client's transaction; a keep-alive.
//!
//! Does not: long-term credentials, TURN, ICE, TCP, or the rules for peers older than the magic cookie (RFC 3489).
//!
//! Start reading at [`StunClient`].

use crc::{CRC_32_ISO_HDLC, Crc};

mod client;
mod message;
mod write;

pub use client::{StunClient, StunCounts, StunEvent, StunFailure};
pub use message::{Class, Integrity, Message, StunError, TransactionId, is_stun};
pub use write::MessageWriter;

/// Where a server hears that says nothing else, over UDP (RFC 8489 §18.6).
pub const DEFAULT_PORT: u16 = 3478;

/// The one method used here (RFC 8489 §18.2).
pub const METHOD_BINDING: u16 = 0x001;

/// Types of attributes (RFC 8489 §18.3). Below 0x8000 a receiver has to know them.
pub mod attribute {
    /// The sender's address as the server saw it, in clear: some NATs rewrite it.
    pub const MAPPED_ADDRESS: u16 = 0x0001;
    /// Who asks, with short-term or long-term credentials.
    pub const USERNAME: u16 = 0x0006;
    /// HMAC-SHA1 over what stands before it.
    pub const MESSAGE_INTEGRITY: u16 = 0x0008;
    /// Why a request was refused.
    pub const ERROR_CODE: u16 = 0x0009;
    /// The attributes that a server did not know (with error 420).
    pub const UNKNOWN_ATTRIBUTES: u16 = 0x000a;
    /// Where a username is valid.
    pub const REALM: u16 = 0x0014;
    /// What long-term credentials are computed over.
    pub const NONCE: u16 = 0x0015;
    /// HMAC-SHA256 over what stands before it.
    pub const MESSAGE_INTEGRITY_SHA256: u16 = 0x001c;
    /// The sender's address as the server saw it, hidden from NATs that rewrite addresses.
    pub const XOR_MAPPED_ADDRESS: u16 = 0x0020;
    /// The name of a program.
    pub const SOFTWARE: u16 = 0x8022;
    /// Another server to ask (with error 300).
    pub const ALTERNATE_SERVER: u16 = 0x8023;
    /// CRC-32 over what stands before it.
    pub const FINGERPRINT: u16 = 0x8028;
}

const MAGIC_COOKIE: [u8; 4] = 0x2112_a442_u32.to_be_bytes();
const HEADER_BYTES: usize = 20;
/// CRC-32 of ITU V.42, which FINGERPRINT is made of (RFC 8489 §14.7).
static CRC32: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);
const FINGERPRINT_XOR: u32 = 0x5354_554e;
const FAMILY_IPV4: u8 = 1;
const FAMILY_IPV6: u8 = 2;

#[cfg(test)]
mod client_tests;
#[cfg(test)]
mod message_tests;
