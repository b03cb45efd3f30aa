//! A master key in use: session keys, identifier and lifetime; settings of an SRTP context.

use crate::SRTCP_PACKETS_MAX;
use crate::packet::KeyError;
use crate::transforms::{self, CounterMode, Gcm};
use crate::transforms::{Labels, SessionKeys};
use alloc::boxed::Box;
use ringway_sdp::{CryptoSuite, MKI_BYTES_MAX, MasterKey, SRTP_PACKETS_MAX};
use subtle::ConstantTimeEq;

/// Session keys, MKI and remaining lifetimes of one master key.
pub(crate) struct Key {
    suite: CryptoSuite,
    master: MasterKey,
    pub(crate) rtp: Cipher,
    pub(crate) rtcp: Cipher,
    pub(crate) rtp_use: Lifetime,
    pub(crate) rtcp_use: Lifetime,
}

/// Packet transform with the session keys of SRTP or of SRTCP.
pub(crate) enum Cipher {
    CounterMode(Box<CounterMode>),
    Gcm(Box<Gcm>),
}

/// Number of packets that a key has protected, and its maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lifetime {
    used: u64,
    most: u64,
}

impl Key {
    /// Derives the session keys.
    ///
    /// # Errors
    /// The key does not match the suite, or its lifetime or MKI is out of range.
    pub(crate) fn new(suite: CryptoSuite, master: &MasterKey) -> Result<Self, KeyError> {
        if master.mki.len() > MKI_BYTES_MAX {
            return Err(KeyError::MkiTooLong);
        }
        let most = master.lifetime_packets.unwrap_or(SRTP_PACKETS_MAX);
        if !(1..=SRTP_PACKETS_MAX).contains(&most) {
            return Err(KeyError::Lifetime);
        }
        Ok(Self {
            suite,
            master: master.clone(),
            rtp: Cipher::new(suite, &SessionKeys::derive(suite, master, Labels::RTP)?)?,
            rtcp: Cipher::new(suite, &SessionKeys::derive(suite, master, Labels::RTCP)?)?,
            rtp_use: Lifetime::new(most),
            rtcp_use: Lifetime::new(most.min(SRTCP_PACKETS_MAX)),
        })
    }

    /// True if `master` gives the same keys and MKI; the lifetime is not compared.
    pub(crate) fn is(&self, suite: CryptoSuite, master: &MasterKey) -> bool {
        let same = self.master.key.ct_eq(&master.key) & self.master.salt.ct_eq(&master.salt);
        self.suite == suite && self.master.mki == master.mki && bool::from(same)
    }

    /// Master key identifier of the packets; empty if they carry none.
    #[inline]
    pub(crate) fn mki(&self) -> &[u8] {
        &self.master.mki
    }

    pub(crate) fn suite(&self) -> CryptoSuite {
        self.suite
    }
}

impl Cipher {
    /// Creates the transform from session keys of `suite`.
    pub(crate) fn new(suite: CryptoSuite, keys: &SessionKeys) -> Result<Self, KeyError> {
        if suite.is_aead() {
            Ok(Self::Gcm(Box::new(Gcm::new(suite, keys)?)))
        } else {
            Ok(Self::CounterMode(Box::new(CounterMode::new(suite, keys)?)))
        }
    }
}

impl Lifetime {
    pub(crate) const fn new(most: u64) -> Self {
        Self { used: 0, most }
    }

    /// Counts one packet.
    #[inline]
    pub(crate) fn spend(&mut self) {
        self.used += 1;
    }

    /// Number of packets that the key may still protect.
    #[inline]
    pub(crate) fn left(self) -> u64 {
        self.most.saturating_sub(self.used)
    }
}

/// Length of the tag of an SRTP packet in bytes.
pub(crate) fn rtp_tag_bytes(suite: CryptoSuite) -> usize {
    usize::from(suite.tag_bits() / 8)
}

/// Length of the tag of an SRTCP packet in bytes; never shortened to 32 bits (RFC 3711 §3.4, RFC 4568
/// §6.2.2).
pub(crate) fn rtcp_tag_bytes(suite: CryptoSuite) -> usize {
    if suite.is_aead() { transforms::TAG_BYTES } else { 10 }
}

/// Replay window and SSRC limit of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrtpSettings {
    /// Replay window in packets (RFC 3711 §3.3.2): 64 to 32,768, default 64; other values are clamped. Its
    /// memory, two bits for each packet and SSRC, is allocated when the context is created.
    pub window_packets: usize,
    /// Maximum number of SSRCs tracked at a time: 1 to 1024, default 16; other values are clamped. A packet
    /// with a further SSRC is rejected and counted. Replacing another SSRC's state instead would make that
    /// SSRC open to replay.
    pub ssrcs_max: usize,
}

impl SrtpSettings {
    /// Minimum replay window in packets (RFC 3711 §3.3.2).
    pub const WINDOW_PACKETS_MIN: usize = 64;
    /// Maximum replay window in packets; with a larger one the rollover counter could not be estimated.
    pub const WINDOW_PACKETS_MAX: usize = 32_768;
    /// Maximum of [`SrtpSettings::ssrcs_max`].
    pub const SSRCS_MAX: usize = 1024;

    pub(crate) fn clamped(self) -> Self {
        Self {
            window_packets: self.window_packets.clamp(Self::WINDOW_PACKETS_MIN, Self::WINDOW_PACKETS_MAX),
            ssrcs_max: self.ssrcs_max.clamp(1, Self::SSRCS_MAX),
        }
    }
}

impl Default for SrtpSettings {
    fn default() -> Self {
        Self { window_packets: Self::WINDOW_PACKETS_MIN, ssrcs_max: 16 }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Creates a key from given session keys, used for SRTP and SRTCP alike, for the test vectors.
    pub(crate) fn of_session_keys(suite: CryptoSuite, keys: &SessionKeys) -> Key {
        Key {
            suite,
            master: MasterKey { key: [].into(), salt: [].into(), lifetime_packets: None, mki: [].into() },
            rtp: Cipher::new(suite, keys).unwrap(),
            rtcp: Cipher::new(suite, keys).unwrap(),
            rtp_use: Lifetime::new(SRTP_PACKETS_MAX),
            rtcp_use: Lifetime::new(SRTCP_PACKETS_MAX),
        }
    }
}
