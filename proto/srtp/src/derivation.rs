//! Derivation of session keys from a master key (RFC 3711 §4.3, RFC 6188 §2, RFC 7714 §11).

use crate::aes_counter::AesCounter;
use crate::error::KeyError;
use ringway_sdp::{CryptoSuite, MasterKey};

/// Key derivation labels of SRTP or SRTCP (RFC 3711 §4.3.1, §4.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Labels {
    pub(crate) encryption: u8,
    pub(crate) authentication: u8,
    pub(crate) salt: u8,
}

impl Labels {
    pub(crate) const RTP: Self = Self { encryption: 0, authentication: 1, salt: 2 };
    pub(crate) const RTCP: Self = Self { encryption: 3, authentication: 4, salt: 5 };
}

/// Session keys of one direction of SRTP or SRTCP.
#[derive(Clone)]
pub(crate) struct SessionKeys {
    /// Session encryption key, in the first `CryptoSuite::key_bytes` bytes.
    pub(crate) encryption: [u8; 32],
    /// Key of HMAC-SHA1; unused with AEAD suites.
    pub(crate) authentication: [u8; 20],
    /// Session salt, in the first `CryptoSuite::salt_bytes` bytes.
    pub(crate) salt: [u8; 14],
}

impl SessionKeys {
    /// Derives the session keys once for the life of the master key (key derivation rate 0).
    ///
    /// # Errors
    /// The key or the salt does not have the length that the suite needs.
    pub(crate) fn derive(suite: CryptoSuite, master: &MasterKey, labels: Labels) -> Result<Self, KeyError> {
        let salt = master_salt(suite, &master.salt)?;
        let function = AesCounter::new(suite, &master.key)?;
        let mut keys = Self { encryption: [0; 32], authentication: [0; 20], salt: [0; 14] };
        if let Some(encryption) = keys.encryption.get_mut(..suite.key_bytes()) {
            derive(&function, salt, labels.encryption, encryption);
        }
        derive(&function, salt, labels.authentication, &mut keys.authentication);
        if let Some(salt_out) = keys.salt.get_mut(..suite.salt_bytes()) {
            derive(&function, salt, labels.salt, salt_out);
        }
        Ok(keys)
    }
}

/// Pseudo-random function: AES in counter mode over zeros. The first counter block is the salt with the label
/// XORed into the byte seven bytes from its end (RFC 3711 §4.3.3).
fn derive(function: &AesCounter, salt: u128, label: u8, out: &mut [u8]) {
    out.fill(0);
    function.apply(salt ^ (u128::from(label) << 64), out);
}

/// Master salt, aligned to the counter block: 112 bits above the 16 bits of the counter. The 96 bits of an
/// AEAD suite's salt are its most significant bits (RFC 7714 §11).
fn master_salt(suite: CryptoSuite, salt: &[u8]) -> Result<u128, KeyError> {
    let expected = suite.salt_bytes();
    let mut block = [0; 16];
    match block.get_mut(..expected) {
        Some(room) if salt.len() == expected => room.copy_from_slice(salt),
        _ => return Err(KeyError::SaltLength { expected }),
    }
    Ok(u128::from_be_bytes(block))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Derives with any label and any length, for the test vectors.
    pub(crate) fn derive_any(suite: CryptoSuite, key: &[u8], salt: &[u8], label: u8, out: &mut [u8]) {
        let salt = master_salt(suite, salt).unwrap();
        derive(&AesCounter::new(suite, key).unwrap(), salt, label, out);
    }
}
