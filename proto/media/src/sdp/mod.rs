//! How a call's sound is described (SDP, RFC 8866) and agreed on (offer/answer, RFC 3264).
//!
//! Does: reads descriptions that strangers wrote, within [`Limits`]; negotiates one audio stream with G.711,
//! telephone events, direction, and SRTP keys (RFC 4568) or a ZRTP hash (RFC 6189 §8).
//!
//! Does not: carry a description (that is signalling's), nor accept video, DTLS-SRTP or ICE.
//!
//! Start reading at [`OfferAnswer`]; what it reads is a [`SessionDescription`].

mod accept;
mod answer;
mod attributes;
mod connection;
mod description;
mod formats;
mod limits;
mod malformed;
mod media;
mod offer;
mod offer_answer;
mod profile;
mod protect;
mod refused;
mod text;
mod write;

#[cfg(test)]
mod phones_tests;
#[cfg(test)]
mod protect_tests;

pub use attributes::{Attribute, RtcpAttribute, RtpMap};
pub use connection::Connection;
pub use description::{Line, Origin, SessionDescription};
pub use limits::Limits;
pub use malformed::{Fault, Malformed};
pub use media::MediaDescription;
pub use offer_answer::{Downgrade, LocalMedia, OfferAnswer, SecurityPolicy};
pub use profile::Profile;
pub use refused::{Mismatch, Refused};
