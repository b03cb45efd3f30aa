//! Plain values of a negotiated stream: SRTP crypto suites (RFC 4568 §6.2, RFC 6188 §4, RFC 7714 §14), and master keys,
//! as SDP and ZRTP give them to SRTP; negotiated media parameters.

use crate::{Codec, Direction, DtlsRole, Fingerprint, IceParams};
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

/// Encryption and authentication algorithms of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CryptoSuite {
    /// AES in counter mode, 128 bits; HMAC-SHA1, tag of 80 bits (RFC 4568 §6.2.1).
    AesCm128HmacSha1_80,
    /// AES in counter mode, 128 bits; HMAC-SHA1, tag of 32 bits in SRTP and 80 in SRTCP (RFC 4568 §6.2.2).
    AesCm128HmacSha1_32,
    /// AES in counter mode, 192 bits; tag of 80 bits (RFC 6188 §4).
    AesCm192HmacSha1_80,
    /// AES in counter mode, 192 bits; tag of 32 bits in SRTP and 80 in SRTCP (RFC 6188 §4).
    AesCm192HmacSha1_32,
    /// AES in counter mode, 256 bits; tag of 80 bits (RFC 6188 §4).
    AesCm256HmacSha1_80,
    /// AES in counter mode, 256 bits; tag of 32 bits in SRTP and 80 in SRTCP (RFC 6188 §4).
    AesCm256HmacSha1_32,
    /// AES in Galois/counter mode, 128 bits, tag of 128 bits (RFC 7714).
    AeadAes128Gcm,
    /// AES in Galois/counter mode, 256 bits, tag of 128 bits (RFC 7714).
    AeadAes256Gcm,
}

impl CryptoSuite {
    /// All suites, in our order of preference.
    pub const ALL: [Self; 8] = [
        Self::AeadAes256Gcm,
        Self::AeadAes128Gcm,
        Self::AesCm256HmacSha1_80,
        Self::AesCm192HmacSha1_80,
        Self::AesCm128HmacSha1_80,
        Self::AesCm256HmacSha1_32,
        Self::AesCm192HmacSha1_32,
        Self::AesCm128HmacSha1_32,
    ];

    /// Default suites of an offer: the preferred one, and those that every phone with SRTP supports. Each
    /// takes about 95 bytes of an INVITE, which should fit into one datagram.
    pub const OFFERED: [Self; 3] =
        [Self::AeadAes256Gcm, Self::AesCm256HmacSha1_80, Self::AesCm128HmacSha1_80];

    /// Registered name, which we write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AesCm128HmacSha1_80 => "AES_CM_128_HMAC_SHA1_80",
            Self::AesCm128HmacSha1_32 => "AES_CM_128_HMAC_SHA1_32",
            Self::AesCm192HmacSha1_80 => "AES_192_CM_HMAC_SHA1_80",
            Self::AesCm192HmacSha1_32 => "AES_192_CM_HMAC_SHA1_32",
            Self::AesCm256HmacSha1_80 => "AES_256_CM_HMAC_SHA1_80",
            Self::AesCm256HmacSha1_32 => "AES_256_CM_HMAC_SHA1_32",
            Self::AeadAes128Gcm => "AEAD_AES_128_GCM",
            Self::AeadAes256Gcm => "AEAD_AES_256_GCM",
        }
    }

    /// Parses a name case-insensitively (the ABNF of RFC 4568 §9.1 has them as literals), including the
    /// spelling used before RFC 6188 (`AES_CM_256_HMAC_SHA1_80`).
    pub fn from_name(name: &str) -> Option<Self> {
        let is_named = |suite: &Self| {
            let names = [Some(suite.name()), suite.legacy_name()];
            names.into_iter().flatten().any(|known| known.eq_ignore_ascii_case(name))
        };
        Self::ALL.into_iter().find(is_named)
    }

    /// Name that phones used before RFC 6188 registered another one.
    const fn legacy_name(self) -> Option<&'static str> {
        match self {
            Self::AesCm192HmacSha1_80 => Some("AES_CM_192_HMAC_SHA1_80"),
            Self::AesCm192HmacSha1_32 => Some("AES_CM_192_HMAC_SHA1_32"),
            Self::AesCm256HmacSha1_80 => Some("AES_CM_256_HMAC_SHA1_80"),
            Self::AesCm256HmacSha1_32 => Some("AES_CM_256_HMAC_SHA1_32"),
            Self::AesCm128HmacSha1_80
            | Self::AesCm128HmacSha1_32
            | Self::AeadAes128Gcm
            | Self::AeadAes256Gcm => None,
        }
    }

    /// Length of the master key in bytes: 16, 24 or 32.
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::AesCm128HmacSha1_80 | Self::AesCm128HmacSha1_32 | Self::AeadAes128Gcm => 16,
            Self::AesCm192HmacSha1_80 | Self::AesCm192HmacSha1_32 => 24,
            Self::AesCm256HmacSha1_80 | Self::AesCm256HmacSha1_32 | Self::AeadAes256Gcm => 32,
        }
    }

    /// Length of the master salt in bytes: 14 in counter mode, 12 in Galois/counter mode.
    pub const fn salt_bytes(self) -> usize {
        if self.is_aead() { 12 } else { 14 }
    }

    /// Length of the tag of an SRTP packet in bits: 32, 80 or 128.
    pub const fn tag_bits(self) -> u16 {
        match self {
            Self::AesCm128HmacSha1_32 | Self::AesCm192HmacSha1_32 | Self::AesCm256HmacSha1_32 => 32,
            Self::AesCm128HmacSha1_80 | Self::AesCm192HmacSha1_80 | Self::AesCm256HmacSha1_80 => 80,
            Self::AeadAes128Gcm | Self::AeadAes256Gcm => 128,
        }
    }

    /// True if one operation encrypts and authenticates (AEAD).
    pub const fn is_aead(self) -> bool {
        matches!(self, Self::AeadAes128Gcm | Self::AeadAes256Gcm)
    }
}

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

/// Negotiated parameters of one stream: the result of offer/answer and the input of the media session.
///
/// A hold, a re-INVITE or a transfer gives new parameters for the same session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaParams {
    /// RTP address of the peer from its SDP.
    pub remote: SocketAddr,
    /// RTCP address of the peer; equal to `remote` with `rtcp_mux` (RFC 5761).
    pub remote_rtcp: SocketAddr,
    /// RTP and RTCP share one port.
    pub rtcp_mux: bool,
    /// Codec that we send.
    pub codec: Codec,
    /// Payload type that we send (0 to 127).
    pub payload_type: u8,
    /// Payload types and codecs that the peer may send.
    pub receive: Vec<(u8, Codec)>,
    /// Payload type of the DTMF that we send (RFC 4733), if the peer supports it.
    pub telephone_event: Option<u8>,
    /// Payload type of the DTMF that the peer may send.
    pub receive_telephone_event: Option<u8>,
    /// Packet length in milliseconds: 10 to 200.
    pub ptime_ms: u16,
    /// Direction, as seen from us.
    pub direction: Direction,
    /// Protection of the stream.
    pub protection: Protection,
    /// ICE, if it is in use: media then goes only to an address that the peer nominated, and `remote` is not used.
    pub ice: Option<IceParams>,
}

impl MediaParams {
    /// Key management of the stream; `None` without SRTP.
    pub const fn key_management(&self) -> Option<KeyManagement> {
        self.protection.key_management()
    }
}

/// Key management for SRTP (RFC 3711 §8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyManagement {
    /// Keys in the SDP (RFC 4568); they are only as secret as the signalling.
    Sdes,
    /// Key agreement in the media path (RFC 6189).
    Zrtp,
    /// DTLS handshake in the media path (RFC 5764); the certificates are proved by the SDP.
    Dtls,
}

/// Negotiated protection of a stream, with the input of SRTP, ZRTP or DTLS.
#[derive(Clone, PartialEq, Eq)]
pub enum Protection {
    /// Unencrypted RTP.
    None,
    /// SRTP with keys from the SDP.
    Sdes {
        /// Crypto suite of both directions.
        suite: CryptoSuite,
        /// Our key.
        send: MasterKey,
        /// The peer's key.
        receive: MasterKey,
    },
    /// SRTP with keys from ZRTP.
    Zrtp {
        /// Hash of the peer's Hello from its SDP (RFC 6189 §8).
        peer_hello_hash: Option<[u8; 32]>,
    },
    /// SRTP with keys from a DTLS handshake.
    Dtls {
        /// Our role in the handshake.
        role: DtlsRole,
        /// Fingerprints from the peer's SDP, at least one; its certificate must have one of them.
        fingerprints: Vec<Fingerprint>,
    },
}

impl Protection {
    /// Key management; `None` without SRTP.
    pub const fn key_management(&self) -> Option<KeyManagement> {
        match self {
            Self::None => None,
            Self::Sdes { .. } => Some(KeyManagement::Sdes),
            Self::Zrtp { .. } => Some(KeyManagement::Zrtp),
            Self::Dtls { .. } => Some(KeyManagement::Dtls),
        }
    }
}

impl fmt::Debug for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Sdes { suite, .. } => write!(f, "Sdes({})", suite.name()),
            Self::Zrtp { .. } => f.write_str("Zrtp"),
            Self::Dtls { role, .. } => write!(f, "Dtls({})", role.name()),
        }
    }
}

/// Maximum length of a master key identifier, in bytes (RFC 4568 §6.1).
pub const MKI_BYTES_MAX: usize = 128;

/// Maximum number of SRTP packets that a master key protects (RFC 3711 §9.2).
pub const SRTP_PACKETS_MAX: u64 = 1 << 48;
