//! AES in counter mode with HMAC-SHA1 (RFC 3711 §4.1.1, §4.2.1; RFC 6188).

use crate::derivation::SessionKeys;
use crate::error::KeyError;
use aes::{Aes128Enc, Aes192Enc, Aes256Enc};
use ctr::cipher::{
    BlockCipherEncrypt, BlockSizeUser, InnerIvInit, KeyInit as _, StreamCipherCore, consts::U16,
};
use hmac::{Hmac, Mac};
use ringway_sdp::CryptoSuite;
use sha1::Sha1;

/// AES in counter mode under one expanded key.
pub(crate) enum AesCounter {
    Aes128(Aes128Enc),
    Aes192(Aes192Enc),
    Aes256(Aes256Enc),
}

impl AesCounter {
    /// With the key length of `suite`.
    ///
    /// # Errors
    /// The key has another length.
    pub(crate) fn new(suite: CryptoSuite, key: &[u8]) -> Result<Self, KeyError> {
        let expected = suite.key_bytes();
        let cipher = match expected {
            16 => Aes128Enc::new_from_slice(key).map(Self::Aes128),
            24 => Aes192Enc::new_from_slice(key).map(Self::Aes192),
            _ => Aes256Enc::new_from_slice(key).map(Self::Aes256),
        };
        cipher.map_err(|_| KeyError::KeyLength { expected })
    }

    /// Adds the key stream that begins at this counter block.
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

/// Encryption and authentication under one set of session keys.
pub(crate) struct CounterMode {
    cipher: AesCounter,
    /// The session salt at the place of the counter block.
    salt: u128,
    /// Has absorbed the key.
    mac: Hmac<Sha1>,
}

/// What HMAC-SHA1 makes; a tag is the beginning of it.
pub(crate) type FullTag = [u8; 20];

impl CounterMode {
    /// From session keys of `suite`.
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
        // RFC 3711 §4.1.1: the SSRC and the index mixed into the salt, and 16 bits for the blocks of the packet.
        self.cipher.apply(self.salt ^ (u128::from(ssrc) << 64) ^ (u128::from(index) << 16), payload);
    }

    /// The tag of `packet` followed by `suffix`: the rollover counter, for SRTP (RFC 3711 §4.2).
    pub(crate) fn tag(&self, packet: &[u8], suffix: &[u8]) -> FullTag {
        let mut mac = self.mac.clone();
        mac.update(packet);
        mac.update(suffix);
        mac.finalize().into_bytes().into()
    }
}
