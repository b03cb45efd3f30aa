//! Derivation of session keys from a master key (RFC 3711 §4.3, RFC 6188 §2, RFC 7714 §11), and AES in counter mode, which
//! packets use too (RFC 3711 §4.1.1).

use crate::error::KeyError;
use aes::{Aes128Enc, Aes192Enc, Aes256Enc};
use ctr::cipher::consts::U16;
use ctr::cipher::{BlockCipherEncrypt, BlockSizeUser, InnerIvInit, KeyInit as _, StreamCipherCore};
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

/// AES in counter mode under one expanded key.
pub(crate) enum AesCounter {
    Aes128(Aes128Enc),
    Aes192(Aes192Enc),
    Aes256(Aes256Enc),
}

impl AesCounter {
    /// Expands a key of the length that `suite` needs.
    ///
    /// # Errors
    /// [`KeyError::KeyLength`] for a key of another length.
    pub(crate) fn new(suite: CryptoSuite, key: &[u8]) -> Result<Self, KeyError> {
        let expected = suite.key_bytes();
        let cipher = match expected {
            16 => Aes128Enc::new_from_slice(key).map(Self::Aes128),
            24 => Aes192Enc::new_from_slice(key).map(Self::Aes192),
            _ => Aes256Enc::new_from_slice(key).map(Self::Aes256),
        };
        cipher.map_err(|_| KeyError::KeyLength { expected })
    }

    /// XORs `data` with the key stream that begins at this counter block.
    pub(crate) fn apply(&self, counter_block: u128, data: &mut [u8]) {
        match self {
            Self::Aes128(cipher) => apply(cipher, counter_block, data),
            Self::Aes192(cipher) => apply(cipher, counter_block, data),
            Self::Aes256(cipher) => apply(cipher, counter_block, data),
        }
    }
}

fn apply<C>(cipher: &C, counter_block: u128, data: &mut [u8])
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    let block = counter_block.to_be_bytes().into();
    ctr::CtrCore::<&C, ctr::flavors::Ctr128BE>::inner_iv_init(cipher, &block)
        .apply_keystream_partial(data.into());
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
