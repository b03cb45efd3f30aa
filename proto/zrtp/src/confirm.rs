//! Confirm1 and Confirm2, encrypted and with a MAC (RFC 6189 §4.6, §5.7), and the MACs of SASrelay and
//! GoClear.

use crate::algorithm::HashType;
use crate::hash::is_equal;
use crate::message::Body;
use crate::packet::{MessageType, write_message};
use crate::secrets::EndKeys;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use alloc::vec::Vec;
use zeroize::Zeroizing;

/// Contents of a Confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Confirm {
    pub(crate) h0: [u8; 32],
    /// V flag: the sender's user has compared the string in an earlier call.
    pub(crate) sas_verified: bool,
    /// D flag: the sender may disclose its keys to others.
    pub(crate) discloses: bool,
    /// Time for which the sender keeps this call's secret, in seconds; all ones mean for ever.
    pub(crate) cache_interval_s: u32,
}

impl Confirm {
    /// Writes the message of the end that has `keys`.
    pub(crate) fn write(&self, kind: MessageType, hash: HashType, keys: &EndKeys, iv: [u8; 16]) -> Vec<u8> {
        let flags = if self.sas_verified { FLAG_VERIFIED } else { 0 }
            | if self.discloses { FLAG_DISCLOSES } else { 0 };
        let mut text = Zeroizing::new(
            [self.h0.as_slice(), &[0, 0, 0, flags], &self.cache_interval_s.to_be_bytes()].concat(),
        );
        cfb(&keys.zrtp, iv, &mut text, Feedback::Written);
        let mac: [u8; 8] = hash.mac(&keys.mac, &[&text]).leftmost();
        write_message(kind, &[&mac, &iv, &text])
    }

    /// Parses the message of the end that has `keys`; `None` for a wrong MAC or length. Signatures are
    /// ignored: we do not announce support for them.
    pub(crate) fn parse(message: &[u8], hash: HashType, keys: &EndKeys) -> Option<Self> {
        let (iv, text) = authenticated(message, hash, keys)?;
        let mut text = Zeroizing::new(text.to_vec());
        cfb(&keys.zrtp, iv, &mut text, Feedback::Read);
        let (h0, rest) = text.split_first_chunk::<32>()?;
        let (&[_, length_high, length_low, flags], rest) = rest.split_first_chunk::<4>()?;
        let (interval, signature) = rest.split_first_chunk::<4>()?;
        let words = usize::from(u16::from_be_bytes([length_high & 1, length_low]));
        (signature.len() == words * 4).then_some(Self {
            h0: *h0,
            sas_verified: flags & FLAG_VERIFIED != 0,
            discloses: flags & FLAG_DISCLOSES != 0,
            cache_interval_s: u32::from_be_bytes(*interval),
        })
    }
}

/// True for an authentic SASrelay of the end that has `keys` (RFC 6189 §5.13).
pub(crate) fn is_sas_relay(message: &[u8], hash: HashType, keys: &EndKeys) -> bool {
    authenticated(message, hash, keys).is_some()
}

/// True for an authentic GoClear of the end that has `keys` (RFC 6189 §4.7.2).
pub(crate) fn is_go_clear(message: &[u8], hash: HashType, keys: &EndKeys) -> bool {
    let mac: [u8; 8] = hash.mac(&keys.mac, &[b"GoClear "]).leftmost();
    is_equal(Body::new(message).rest(), &mac)
}

/// Initialisation vector and encrypted part, if the MAC over the encrypted part is valid.
fn authenticated<'a>(message: &'a [u8], hash: HashType, keys: &EndKeys) -> Option<([u8; 16], &'a [u8])> {
    let mut body = Body::new(message);
    let (mac, iv): ([u8; 8], _) = (body.take()?, body.take()?);
    let text = body.rest();
    let expected: [u8; 8] = hash.mac(&keys.mac, &[text]).leftmost();
    is_equal(&expected, &mac).then_some((iv, text))
}

/// Direction of cipher feedback.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Feedback {
    Written,
    Read,
}

/// Cipher feedback with whole blocks (NIST SP 800-38A §6.3), in place; the last block may be shorter. The
/// key's length selects the AES variant.
fn cfb(key: &[u8], iv: [u8; 16], text: &mut [u8], feedback: Feedback) {
    match key.len() {
        16 => cfb_with(aes::Aes128::new_from_slice(key), iv, text, feedback),
        24 => cfb_with(aes::Aes192::new_from_slice(key), iv, text, feedback),
        _ => cfb_with(aes::Aes256::new_from_slice(key), iv, text, feedback),
    }
}

fn cfb_with<C: BlockCipherEncrypt<BlockSize = aes::cipher::consts::U16>, E>(
    cipher: Result<C, E>,
    iv: [u8; 16],
    text: &mut [u8],
    feedback: Feedback,
) {
    // The key derivation gives only key lengths of the ciphers.
    let Ok(cipher) = cipher else { return text.fill(0) };
    let mut previous = iv;
    for chunk in text.chunks_mut(16) {
        let mut mask = previous.into();
        cipher.encrypt_block(&mut mask);
        let came = <[u8; 16]>::try_from(&*chunk).unwrap_or_default();
        chunk.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
        previous = match feedback {
            Feedback::Written => <[u8; 16]>::try_from(&*chunk).unwrap_or_default(),
            Feedback::Read => came,
        };
    }
}

const FLAG_DISCLOSES: u8 = 1;
const FLAG_VERIFIED: u8 = 4;

#[cfg(test)]
#[path = "confirm_tests.rs"]
mod tests;
