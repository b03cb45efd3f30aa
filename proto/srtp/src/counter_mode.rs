//! Packet transform of counter mode with HMAC-SHA1 (RFC 3711 §4.1.1, §4.2.1; RFC 6188).

use crate::aes_counter::AesCounter;
use crate::derivation::SessionKeys;
use crate::error::KeyError;
use hmac::{Hmac, KeyInit as _, Mac};
use ringway_sdp::CryptoSuite;
use sha1::Sha1;

/// Encryption and authentication under one set of session keys.
pub(crate) struct CounterMode {
    cipher: AesCounter,
    /// Session salt, aligned to the counter block.
    salt: u128,
    /// HMAC state after the key.
    mac: Hmac<Sha1>,
}

/// Full output of HMAC-SHA1; a tag is its leftmost bytes.
pub(crate) type FullTag = [u8; 20];

impl CounterMode {
    /// Creates the transform from session keys of `suite`.
    pub(crate) fn new(suite: CryptoSuite, keys: &SessionKeys) -> Result<Self, KeyError> {
        let key = keys.encryption.get(..suite.key_bytes()).unwrap_or_default();
        let mut salt = [0; 16];
        salt[..14].copy_from_slice(&keys.salt);
        // HMAC pads a short key with zeros to the hash's block (RFC 2104 §2).
        let mut mac_key = [0; 64];
        mac_key[..20].copy_from_slice(&keys.authentication);
        Ok(Self {
            cipher: AesCounter::new(suite, key)?,
            salt: u128::from_be_bytes(salt),
            mac: Hmac::new(&mac_key.into()),
        })
    }

    /// Encrypts or decrypts the payload of the packet with this SSRC and index.
    pub(crate) fn apply(&self, ssrc: u32, index: u64, payload: &mut [u8]) {
        // RFC 3711 §4.1.1: IV = salt XOR SSRC · 2^64 XOR index · 2^16; the low 16 bits count the blocks of
        // the packet.
        self.cipher.apply(self.salt ^ (u128::from(ssrc) << 64) ^ (u128::from(index) << 16), payload);
    }

    /// Authentication tag of `packet` followed by `suffix`, which is the rollover counter for SRTP (RFC 3711
    /// §4.2).
    pub(crate) fn tag(&self, packet: &[u8], suffix: &[u8]) -> FullTag {
        let mut mac = self.mac.clone();
        mac.update(packet);
        mac.update(suffix);
        mac.finalize().into_bytes().into()
    }
}
