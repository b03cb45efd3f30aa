//! AES in counter mode, for packets and for the derivation of session keys (RFC 3711 §4.1.1, §4.3.3).

use crate::error::KeyError;
use aes::{Aes128Enc, Aes192Enc, Aes256Enc};
use ctr::cipher::{
    BlockCipherEncrypt, BlockSizeUser, InnerIvInit, KeyInit as _, StreamCipherCore, consts::U16,
};
use ringway_sdp::CryptoSuite;

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
