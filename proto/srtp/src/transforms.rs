//! Packet transforms: counter mode with HMAC-SHA1 (RFC 3711 §4.1.1, §4.2.1; RFC 6188), AES in Galois/counter mode (RFC
//! 7714); encryption and authentication of packets by either. Derivation of session keys from a master key (RFC 3711
//! §4.3, RFC 6188 §2, RFC 7714 §11), and AES in counter mode, which packets use too (RFC 3711 §4.1.1).

use crate::packet::{ENCRYPTED_FLAG, KeyError, Probe, RTCP_CLEAR_BYTES, RTCP_INDEX_BYTES, Step};
use aes::{Aes128Enc, Aes192Enc, Aes256Enc};
use aes_gcm::{AeadInOut, Aes128Gcm, Aes256Gcm, KeyInit};
use ctr::cipher::consts::U16;
use ctr::cipher::{BlockCipherEncrypt, BlockSizeUser, InnerIvInit, StreamCipherCore};
use hmac::{Hmac, Mac};
use ringway_sdp::{CryptoSuite, MasterKey};
use sha1::Sha1;

/// Lengths and offsets of a packet to be protected.
pub(crate) struct PacketLayout {
    pub(crate) payload_at: usize,
    /// Length of the unprotected packet in bytes.
    pub(crate) len: usize,
    pub(crate) ssrc: u32,
    pub(crate) index: u64,
}

/// SRTP in counter mode (RFC 3711 §3.1): header, encrypted payload, MKI, tag. The tag covers header, payload
/// and rollover counter.
pub(crate) fn seal_rtp(
    cipher: &CounterMode,
    packet: &mut [u8],
    layout: &PacketLayout,
    mki: &[u8],
    tag_bytes: usize,
    probe: &mut impl Probe,
) -> Option<()> {
    cipher.apply(layout.ssrc, layout.index, packet.get_mut(layout.payload_at..layout.len)?);
    probe.ended(Step::Encryption);
    let tag = cipher.tag(packet.get(..layout.len)?, &rollover_counter(layout.index));
    let (mki_room, tag_room) = packet.get_mut(layout.len..)?.split_at_mut_checked(mki.len())?;
    mki_room.copy_from_slice(mki);
    tag_room.copy_from_slice(tag.get(..tag_bytes)?);
    probe.ended(Step::Authentication);
    Some(())
}

/// SRTP with an AEAD suite (RFC 7714 §8.2): header, encrypted payload with its tag, MKI.
pub(crate) fn seal_rtp_aead(
    cipher: &Gcm,
    packet: &mut [u8],
    layout: &PacketLayout,
    mki: &[u8],
    probe: &mut impl Probe,
) -> Option<()> {
    let (header, rest) = packet.split_at_mut_checked(layout.payload_at)?;
    let (payload, tail) = rest.split_at_mut_checked(layout.len.checked_sub(layout.payload_at)?)?;
    let (tag_room, mki_room) = tail.split_at_mut_checked(TAG_BYTES)?;
    tag_room.copy_from_slice(&cipher.seal(layout.ssrc, layout.index, header, payload)?);
    mki_room.copy_from_slice(mki);
    probe.ended(Step::Encryption);
    Some(())
}

/// SRTCP in counter mode (RFC 3711 §3.4): packet, encrypted from its ninth byte; E flag and index; MKI; tag
/// over all but the MKI.
pub(crate) fn seal_rtcp(
    cipher: &CounterMode,
    packet: &mut [u8],
    layout: &PacketLayout,
    mki: &[u8],
    tag_bytes: usize,
) -> Option<()> {
    cipher.apply(layout.ssrc, layout.index, packet.get_mut(layout.payload_at..layout.len)?);
    let authenticated = layout.len + RTCP_INDEX_BYTES;
    packet.get_mut(layout.len..authenticated)?.copy_from_slice(&index_word(layout.index)?);
    let tag = cipher.tag(packet.get(..authenticated)?, &[]);
    let (mki_room, tag_room) = packet.get_mut(authenticated..)?.split_at_mut_checked(mki.len())?;
    mki_room.copy_from_slice(mki);
    tag_room.copy_from_slice(tag.get(..tag_bytes)?);
    Some(())
}

/// SRTCP with an AEAD suite (RFC 7714 §9.2): packet, encrypted from its ninth byte; tag; E flag and index;
/// MKI.
pub(crate) fn seal_rtcp_aead(
    cipher: &Gcm,
    packet: &mut [u8],
    layout: &PacketLayout,
    mki: &[u8],
) -> Option<()> {
    let word = index_word(layout.index)?;
    let (clear, text) = packet.get_mut(..layout.len)?.split_first_chunk_mut::<RTCP_CLEAR_BYTES>()?;
    let tag = cipher.seal(layout.ssrc, layout.index, &rtcp_associated_data(clear, &word), text)?;
    let (tag_room, rest) = packet.get_mut(layout.len..)?.split_at_mut_checked(TAG_BYTES)?;
    let (word_room, mki_room) = rest.split_at_mut_checked(RTCP_INDEX_BYTES)?;
    tag_room.copy_from_slice(&tag);
    word_room.copy_from_slice(&word);
    mki_room.copy_from_slice(mki);
    Some(())
}

/// Rollover counter of an index, as it is authenticated (RFC 3711 §4.2).
#[inline]
pub(crate) fn rollover_counter(index: u64) -> [u8; 4] {
    ((index >> 16) as u32).to_be_bytes()
}

/// Associated data of an SRTCP packet with an AEAD suite (RFC 7714 §9.2): its first bytes, and the word of the index.
pub(crate) fn rtcp_associated_data(
    clear: &[u8; RTCP_CLEAR_BYTES],
    word: &[u8; RTCP_INDEX_BYTES],
) -> [u8; RTCP_CLEAR_BYTES + RTCP_INDEX_BYTES] {
    let mut data = [0; RTCP_CLEAR_BYTES + RTCP_INDEX_BYTES];
    data[..RTCP_CLEAR_BYTES].copy_from_slice(clear);
    data[RTCP_CLEAR_BYTES..].copy_from_slice(word);
    data
}

/// Word with the E flag and the SRTCP index.
fn index_word(index: u64) -> Option<[u8; RTCP_INDEX_BYTES]> {
    Some((u32::try_from(index).ok()? | ENCRYPTED_FLAG).to_be_bytes())
}

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
    fn seal(&self, ssrc: u32, index: u64, associated: &[u8], text: &mut [u8]) -> Option<[u8; TAG_BYTES]> {
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

/// Encryption and authentication under one set of session keys.
pub(crate) struct CounterMode {
    cipher: AesCounter,
    /// Session salt, aligned to the counter block.
    salt: u128,
    /// HMAC state after the key.
    mac: Hmac<Sha1>,
}

/// Full output of HMAC-SHA1; a tag is its leftmost bytes.
type FullTag = [u8; 20];

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
