//! AES in Galois/counter mode (RFC 7714).

use crate::derivation::SessionKeys;
use crate::error::KeyError;
use aes_gcm::{AeadInOut, Aes128Gcm, Aes256Gcm, KeyInit};
use ringway_sdp::CryptoSuite;

/// Length of the tag in bytes (RFC 7714 §13.2).
pub(crate) const TAG_BYTES: usize = 16;

/// Encryption and authentication under one session key.
pub(crate) struct Gcm {
    cipher: Cipher,
    /// Session salt, in the low 96 bits.
    salt: u128,
}

enum Cipher {
    Aes128(Aes128Gcm),
    Aes256(Aes256Gcm),
}

impl Gcm {
    /// Creates the cipher from session keys of `suite`.
    pub(crate) fn new(suite: CryptoSuite, keys: &SessionKeys) -> Result<Self, KeyError> {
        let expected = suite.key_bytes();
        let key = keys.encryption.get(..expected).unwrap_or_default();
        let cipher = match expected {
            16 => Aes128Gcm::new_from_slice(key).map(Cipher::Aes128),
            _ => Aes256Gcm::new_from_slice(key).map(Cipher::Aes256),
        };
        let mut salt = [0; 16];
        salt[4..].copy_from_slice(&keys.salt[..12]);
        let cipher = cipher.map_err(|_| KeyError::KeyLength { expected })?;
        Ok(Self { cipher, salt: u128::from_be_bytes(salt) })
    }

    /// Encrypts `text` and returns the tag over it and the associated data; `None` if an input is too long.
    pub(crate) fn seal(
        &self,
        ssrc: u32,
        index: u64,
        associated: &[u8],
        text: &mut [u8],
    ) -> Option<[u8; TAG_BYTES]> {
        let iv = self.iv(ssrc, index).into();
        let tag = match &self.cipher {
            Cipher::Aes128(cipher) => cipher.encrypt_inout_detached(&iv, associated, text.into()),
            Cipher::Aes256(cipher) => cipher.encrypt_inout_detached(&iv, associated, text.into()),
        };
        tag.ok().map(Into::into)
    }

    /// Decrypts `text` if the tag is valid; otherwise returns `None` and leaves `text` unchanged.
    pub(crate) fn open(
        &self,
        ssrc: u32,
        index: u64,
        associated: &[u8],
        text: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Option<()> {
        let iv = self.iv(ssrc, index).into();
        let tag = (*tag).into();
        match &self.cipher {
            Cipher::Aes128(cipher) => cipher.decrypt_inout_detached(&iv, associated, text.into(), &tag),
            Cipher::Aes256(cipher) => cipher.decrypt_inout_detached(&iv, associated, text.into(), &tag),
        }
        .ok()
    }

    /// Initialisation vector: two zero bytes, SSRC and 48-bit index, XORed with the salt (RFC 7714 §8.1,
    /// §9.1).
    fn iv(&self, ssrc: u32, index: u64) -> [u8; 12] {
        let block = (self.salt ^ (u128::from(ssrc) << 48) ^ u128::from(index)).to_be_bytes();
        let mut iv = [0; 12];
        iv.copy_from_slice(&block[4..]);
        iv
    }
}
