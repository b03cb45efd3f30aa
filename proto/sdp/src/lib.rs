//! SDP (RFC 8866) and offer/answer (RFC 3264) for one audio stream, with what SDP carries for its keys: `a=crypto` (RFC
//! 4568), `a=zrtp-hash` (RFC 6189 §8), `a=fingerprint` and `a=setup` (RFC 5763).
//!
//! Does: parses descriptions of untrusted peers within [`Limits`]; negotiates one audio stream with G.711, telephone events,
//! direction and protection. The result is a [`MediaParams`], the one value that signalling hands to media.
//!
//! Does not: encrypt anything or agree on keys by ZRTP or DTLS (crates `ringway-srtp`, `ringway-zrtp` and
//! `ringway-dtls`), handle SIP, accept video, or do ICE beyond the attributes of a lite agent (RFC 8839, with the feature
//! `ice`).
//!
//! Start reading at [`OfferAnswer`]; it parses a [`SessionDescription`] and returns [`MediaParams`].
//!
//! ```
//! use ringway_sansio::{Entropy, Seed};
//! use ringway_sdp::{Codec, CryptoSuite, Direction, LocalMedia, OfferAnswer, SecurityPolicy};
//!
//! # fn main() -> Result<(), Box<dyn core::error::Error>> {
//! let end = |number: u8| {
//!     let local = LocalMedia {
//!         rtp: ([192, 0, 2, number], 4000).into(),
//!         rtcp_port: 4001,
//!         codecs: vec![Codec::Pcmu],
//!         ptime_ms: 20,
//!         telephone_event: true,
//!         policy: SecurityPolicy::Sdes { suites: vec![CryptoSuite::AesCm128HmacSha1_80] },
//!         rtcp_mux: true,
//!     };
//!     OfferAnswer::new(local, "-", u64::from(number), Entropy::new(&Seed::from_number(number.into())))
//! };
//! let (mut alice, mut bob) = (end(1), end(2));
//!
//! let offer = alice.offer(Direction::SendRecv);
//! let (answer, bob_params) = bob.answer(&offer, Direction::SendRecv)?;
//! let alice_params = alice.accept_answer(&answer)?;
//! assert_eq!(alice_params.remote, ([192, 0, 2, 2], 4000).into());
//! assert_eq!(bob_params.remote, ([192, 0, 2, 1], 4000).into());
//! # Ok(())
//! # }
//! ```

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
// The checks of the corpus, which the fuzz targets have too, name the crate.
#[cfg(test)]
extern crate self as ringway_sdp;
#[cfg(test)]
extern crate std;

mod answer;
mod description;
mod dtls;
mod formats;
#[cfg_attr(not(feature = "ice"), path = "no_ice.rs")]
mod ice;
mod media;
mod offer;
mod offer_answer;
mod params;
mod protect;
mod refused;
pub mod sdes;
mod text;

#[cfg(test)]
mod corpus_tests;
#[cfg(test)]
mod dtls_tests;
#[cfg(feature = "ice")]
#[cfg(test)]
mod ice_tests;
#[cfg(test)]
mod phones_tests;
#[cfg(test)]
mod protect_tests;

pub use description::{Origin, SessionDescription};
pub use dtls::{DtlsRole, Fingerprint, FingerprintHash};
pub use ice::{IceCredentials, IceParams};
pub use media::{Attribute, Connection, MediaDescription, Profile, RtcpAttribute, RtpMap};
pub use media::{Codec, Direction};
pub use offer_answer::{LocalMedia, OfferAnswer};
pub use params::{CryptoSuite, MKI_BYTES_MAX, MasterKey, SRTP_PACKETS_MAX};
pub use params::{KeyManagement, MediaParams, Protection};
pub use protect::{Downgrade, SecurityPolicy};
pub use refused::{Mismatch, Refused};
pub use text::{Fault, Limits, Line, Malformed};
