//! Hash functions, MACs, the hash chain and the key derivation function.

use crate::algorithm::HashType;
use core::ops::Deref;
use hmac::{Hmac, KeyInit, Mac};
use ringway_sansio::Entropy;
use sha2::{Digest as _, Sha256, Sha384};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// Output of a hash or MAC: 32 or 48 bytes, or fewer if truncated. Erased when dropped.
#[derive(Clone)]
pub(crate) struct Digest {
    bytes: [u8; DIGEST_BYTES_MAX],
    length: usize,
}

impl Digest {
    fn from_slice(slice: &[u8]) -> Self {
        let mut bytes = [0; DIGEST_BYTES_MAX];
        let length = slice.len().min(DIGEST_BYTES_MAX);
        bytes[..length].copy_from_slice(&slice[..length]);
        Self { bytes, length }
    }

    /// Truncates to the leftmost `length` bytes.
    fn cut(mut self, length: usize) -> Self {
        self.length = self.length.min(length);
        self
    }

    /// The leftmost `N` bytes; `N` is at most 32.
    pub(crate) fn leftmost<const N: usize>(&self) -> [u8; N] {
        let mut leftmost = [0; N];
        let length = N.min(self.length);
        leftmost[..length].copy_from_slice(&self.bytes[..length]);
        leftmost
    }
}

impl Deref for Digest {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Drop for Digest {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

impl HashType {
    /// Length of the hash in bytes.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::S256 => 32,
            Self::S384 => 48,
        }
    }

    /// Hash of the concatenated parts.
    pub(crate) fn digest(self, parts: &[&[u8]]) -> Digest {
        match self {
            Self::S256 => Digest::from_slice(&sha256(parts)),
            Self::S384 => {
                let mut hash = Sha384::new();
                parts.iter().for_each(|part| hash.update(part));
                Digest::from_slice(&hash.finalize())
            }
        }
    }

    /// HMAC of the concatenated parts (RFC 6189 §5.1.2.1).
    pub(crate) fn mac(self, key: &[u8], parts: &[&[u8]]) -> Digest {
        match self {
            Self::S256 => mac_of::<Hmac<Sha256>>(key, parts),
            Self::S384 => mac_of::<Hmac<Sha384>>(key, parts),
        }
    }

    /// Key derivation function (RFC 6189 §4.5.1): one round of the counter mode of NIST SP 800-108. `bits` is
    /// at most the length of the hash.
    pub(crate) fn kdf(self, key: &[u8], label: &str, context: &[&[u8]], bits: u32) -> Digest {
        let length = bits.to_be_bytes();
        let mut parts: [&[u8]; 7] = [&[0, 0, 0, 1], label.as_bytes(), &[0], &[], &[], &[], &length];
        for (slot, part) in parts[3..6].iter_mut().zip(context) {
            *slot = part;
        }
        self.mac(key, &parts).cut(bits as usize / 8)
    }
}

fn mac_of<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Digest {
    let Ok(mut mac) = <M as KeyInit>::new_from_slice(key) else {
        return Digest::from_slice(&[]);
    };
    parts.iter().for_each(|part| mac.update(part));
    Digest::from_slice(&mac.finalize().into_bytes())
}

/// The implicit hash of version 1.10 (RFC 6189 §5.1.2.2).
pub(crate) fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

/// Implicit MAC of version 1.10, truncated to 64 bits: the end of Hello, Commit, DHPart1 and DHPart2 (RFC
/// 6189 §5.1.2.2).
pub(crate) fn implicit_mac(key: &[u8; 32], message: &[u8]) -> [u8; 8] {
    HashType::S256.mac(key, &[message]).leftmost()
}

/// Compares in constant time.
pub(crate) fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.ct_eq(other).into()
}

/// Hash chain H0 to H3. Revealing one link proves that the sender also sent the messages with the links that
/// are its hashes (RFC 6189 §9).
pub(crate) struct HashChain {
    pub(crate) h0: [u8; 32],
    pub(crate) h1: [u8; 32],
    pub(crate) h2: [u8; 32],
    pub(crate) h3: [u8; 32],
}

impl HashChain {
    pub(crate) fn new(entropy: &mut Entropy) -> Self {
        let h0 = entropy.bytes();
        let h1 = sha256(&[&h0]);
        let h2 = sha256(&[&h1]);
        Self { h0, h1, h2, h3: sha256(&[&h2]) }
    }
}

const DIGEST_BYTES_MAX: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;
    use base16ct::lower::encode_string as hex;
    use ringway_sansio::Seed;

    #[test]
    fn the_macs_are_those_of_rfc_4231_test_case_2() {
        let data: &[&[u8]] = &[b"what do ya want ", b"for nothing?"];
        assert_eq!(
            hex(&HashType::S256.mac(b"Jefe", data)),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hex(&HashType::S384.mac(b"Jefe", data)),
            "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e\
             8e2240ca5e69e2c78b3239ecfab21649"
        );
    }

    #[test]
    fn the_hashes_are_those_of_fips_180_for_abc() {
        assert!(hex(&HashType::S256.digest(&[b"a", b"bc"])).starts_with("ba7816bf8f01cfea414140de5dae2223"));
        assert!(hex(&HashType::S384.digest(&[b"abc"])).starts_with("cb00753f45a35e8bb5a03d699ac65007"));
    }

    #[test]
    fn the_kdf_is_the_mac_of_its_definition_cut_from_the_left() {
        let whole = HashType::S256.mac(b"key", &[b"\0\0\0\x01label\0context\0\0\0\x70"]);
        let derived = HashType::S256.kdf(b"key", "label", &[b"con", b"text"], 112);
        assert_eq!(derived.len(), 14);
        assert_eq!(derived[..], whole[..14]);
        assert_eq!(HashType::S384.kdf(b"key", "label", &[], 384).len(), 48);
    }

    #[test]
    fn each_link_of_the_chain_is_the_hash_of_the_one_before() {
        let chain = HashChain::new(&mut Entropy::new(&Seed::from_number(1)));
        assert_eq!(chain.h1, sha256(&[&chain.h0]));
        assert_eq!(chain.h2, sha256(&[&chain.h1]));
        assert_eq!(chain.h3, sha256(&[&chain.h2]));
    }
}
