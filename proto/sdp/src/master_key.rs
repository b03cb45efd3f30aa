//! SRTP master keys, as SDP and ZRTP give them to SRTP.

use alloc::vec::Vec;
use core::fmt;

/// SRTP master key and master salt (RFC 3711 §3.2.1). `Debug` does not print them.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKey {
    /// Master key: 16, 24 or 32 bytes, depending on the suite.
    pub key: Vec<u8>,
    /// Master salt: 14 bytes, or 12 for the AEAD suites.
    pub salt: Vec<u8>,
    /// Maximum number of packets that the key may protect; `None` for the maximum of the suite (2^48 SRTP,
    /// 2^31 SRTCP).
    pub lifetime_packets: Option<u64>,
    /// Master key identifier in the packets, 0 to 128 bytes; empty for none (RFC 3711 §3.1).
    pub mki: Vec<u8>,
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(..)")
    }
}

/// Maximum length of a master key identifier, in bytes (RFC 4568 §6.1).
pub const MKI_BYTES_MAX: usize = 128;

/// Maximum number of SRTP packets that a master key protects (RFC 3711 §9.2).
pub const SRTP_PACKETS_MAX: u64 = 1 << 48;
