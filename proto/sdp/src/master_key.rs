//! SRTP master keys as SDP and ZRTP hand them to SRTP.

use alloc::vec::Vec;
use core::fmt;

/// An SRTP master key with its salt (RFC 3711 §3.2.1). Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey {
    /// 16, 24 or 32 bytes, as the suite says.
    pub key: Vec<u8>,
    /// 14 bytes, or 12 for the AEAD suites.
    pub salt: Vec<u8>,
    /// How many packets it may protect; `None`: as many as the suite allows (2^48 SRTP, 2^31 SRTCP).
    pub lifetime_packets: Option<u64>,
    /// The identifier that packets carry, 0-128 bytes; empty: none (RFC 3711 §3.1).
    pub mki: Vec<u8>,
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(..)")
    }
}

/// Maximum length of a master key identifier, in bytes (RFC 4568 §6.1).
pub const MKI_BYTES_MAX: usize = 128;

/// Maximum number of master keys for one direction, told apart by their MKI.
pub const MASTER_KEYS_MAX: usize = 8;

/// Maximum number of SRTP packets that a master key protects (RFC 3711 §9.2).
pub const SRTP_PACKETS_MAX: u64 = 1 << 48;
