//! SRTP and SRTCP (RFC 3711) with AES in counter mode (RFC 6188) and AES-GCM (RFC 7714).
//!
//! Does: protects outgoing packets ([`SrtpSender`]) and authenticates and decrypts incoming ones ([`SrtpReceiver`]), in place
//! and without allocation; derives session keys; keeps the rollover counter and replay window of every SSRC for the life of
//! the context.
//!
//! Does not: agree on keys (`ringway-sdp` parses `a=crypto`, `ringway-zrtp` runs ZRTP), read a clock, or encrypt header
//! extensions (RFC 6904).
//!
//! Start reading at [`SrtpReceiver::unprotect_rtp`].
//!
//! ```
//! use ringway_sdp::{CryptoSuite, MasterKey};
//! use ringway_srtp::{SrtpReceiver, SrtpSender};
//!
//! # fn main() -> Result<(), Box<dyn core::error::Error>> {
//! let suite = CryptoSuite::AesCm128HmacSha1_80;
//! let key = MasterKey { key: vec![7; 16], salt: vec![9; 14], lifetime_packets: None, mki: vec![] };
//! let mut sender = SrtpSender::new(suite, &key)?;
//! let mut receiver = SrtpReceiver::new(suite, &key)?;
//!
//! let mut buffer = [0; 172 + SrtpSender::OVERHEAD_BYTES_MAX];
//! buffer[0] = 0x80; // an RTP packet of version 2 with 160 bytes of payload
//! let srtp_len = sender.protect_rtp(&mut buffer, 172)?;
//! let replayed = buffer;
//! assert_eq!(receiver.unprotect_rtp(&mut buffer[..srtp_len])?, 172);
//! assert!(receiver.unprotect_rtp(&mut { replayed }[..srtp_len]).is_err());
//! # Ok(())
//! # }
//! ```

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
// The checks of the corpus, which the fuzz targets have too, name the crate.
#[cfg(test)]
extern crate self as ringway_srtp;
#[cfg(test)]
extern crate std;

mod key;
mod packet;
mod receiver;
mod sender;
mod stream;
mod transforms;

#[cfg(test)]
mod context_tests;
#[cfg(test)]
mod corpus_tests;
#[cfg(test)]
mod rollover_tests;
#[cfg(test)]
mod vector_tests;

pub use key::SrtpSettings;
pub use packet::{KeyError, ProtectError, UnprotectError};
pub use packet::{NoProbe, Probe, Step};
pub use receiver::{SrtpCounts, SrtpReceiver};
pub use sender::SrtpSender;

/// Maximum length of a packet in bytes: the maximum of a UDP datagram. It also keeps counter mode well below
/// the 2^16 blocks of one packet's key stream (RFC 3711 §4.1.1).
pub const PACKET_BYTES_MAX: usize = 65_535;

/// Maximum number of SRTCP packets that a master key protects (RFC 3711 §9.2).
pub const SRTCP_PACKETS_MAX: u64 = 1 << 31;
