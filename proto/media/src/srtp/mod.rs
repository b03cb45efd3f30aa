//! SRTP and SRTCP: packets that are secret, unforgeable and taken once (RFC 3711, RFC 6188, RFC 7714).
//!
//! Does: protect what we send ([`SrtpSender`]), check and open what the peer sends ([`SrtpReceiver`]), in place and
//! without allocation; keep the rollover counter of every SSRC for as long as the context lives, whatever the
//! signalling does meanwhile.
//!
//! Does not: agree on keys, read a clock, or encrypt header extensions (RFC 6904).
//!
//! Start reading at [`SrtpReceiver::unprotect_rtp`].

mod counter_mode;
mod derivation;
mod error;
mod gcm;
mod index;
mod key;
mod open;
mod packet;
mod probe;
mod receiver;
mod replay;
mod seal;
mod sender;
mod settings;
mod stream;

#[cfg(test)]
mod context_tests;
#[cfg(test)]
mod rollover_tests;
#[cfg(test)]
mod vector_tests;

pub use error::{KeyError, ProtectError, UnprotectError};
pub use probe::{NoProbe, Probe, Step};
pub use receiver::{SrtpCounts, SrtpReceiver};
pub use sender::SrtpSender;
pub use settings::{RtcpEncryption, SrtpSettings};

/// The longest packet that is taken, in bytes: what a UDP datagram can carry. It also keeps counter mode far from the
/// 2^16 blocks that one packet's key stream has (RFC 3711 §4.1.1).
pub const PACKET_BYTES_MAX: usize = 65_535;

/// The longest master key identifier, in bytes (RFC 4568 §6.1).
pub const MKI_BYTES_MAX: usize = 128;

/// How many master keys a receiver holds at a time, told apart by their MKI.
pub const MASTER_KEYS_MAX: usize = 8;

/// SRTP packets that a master key protects at most (RFC 3711 §9.2).
pub const SRTP_PACKETS_MAX: u64 = 1 << 48;

/// SRTCP packets that a master key protects at most (RFC 3711 §9.2).
pub const SRTCP_PACKETS_MAX: u64 = 1 << 31;
