//! SDP (RFC 8866) and offer/answer (RFC 3264) for one audio stream, with the keys that SDP carries: `a=crypto` (RFC 4568)
//! and `a=zrtp-hash` (RFC 6189 §8).
//!
//! Does: parses descriptions of untrusted peers within [`Limits`]; negotiates one audio stream with G.711, telephone events,
//! direction and protection. The result is a [`MediaParams`], the one value that signalling hands to media.
//!
//! Does not: encrypt anything or agree on ZRTP keys (crates `ringway-srtp` and `ringway-zrtp`), know SIP, or accept video,
//! DTLS-SRTP and ICE.
//!
//! Start reading at [`OfferAnswer`]; it parses a [`SessionDescription`] and returns [`MediaParams`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod accept;
mod answer;
mod attributes;
mod codec;
mod connection;
mod crypto_suite;
mod description;
mod formats;
mod limits;
mod malformed;
mod master_key;
mod media;
mod offer;
mod offer_answer;
mod params;
mod profile;
mod protect;
mod refused;
pub mod sdes;
mod security_policy;
mod text;
mod write;

#[cfg(test)]
mod phones_tests;
#[cfg(test)]
mod protect_tests;

pub use attributes::{Attribute, RtcpAttribute, RtpMap};
pub use codec::{Codec, Direction};
pub use connection::Connection;
pub use crypto_suite::CryptoSuite;
pub use description::{Line, Origin, SessionDescription};
pub use limits::Limits;
pub use malformed::{Fault, Malformed};
pub use master_key::{MASTER_KEYS_MAX, MKI_BYTES_MAX, MasterKey, SRTP_PACKETS_MAX};
pub use media::MediaDescription;
pub use offer_answer::{LocalMedia, OfferAnswer};
pub use params::{KeyManagement, MediaParams, Protection};
pub use profile::Profile;
pub use refused::{Mismatch, Refused};
pub use security_policy::{Downgrade, SecurityPolicy};
