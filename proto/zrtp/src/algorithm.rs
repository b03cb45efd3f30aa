//! Algorithms of RFC 6189 §5.1 that are implemented, and their negotiation.

use alloc::vec::Vec;
use ringway_sdp::CryptoSuite;

/// A kind of algorithm and its type blocks (four-character names on the wire).
pub(crate) trait TypeBlock: Copy + PartialEq + 'static {
    /// All implemented algorithms of this kind.
    const ALL: &'static [Self];
    /// Algorithms that every endpoint supports; a list that omits them has them at its end (RFC 6189 §5.2).
    const MANDATORY: &'static [Self];

    /// Type block in a Hello or Commit.
    fn block(self) -> [u8; 4];

    fn from_block(block: [u8; 4]) -> Option<Self> {
        Self::ALL.iter().copied().find(|known| known.block() == block)
    }
}

/// Hash function of key derivation and of its MACs (RFC 6189 §5.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashType {
    /// SHA-256: mandatory.
    S256,
    /// SHA-384.
    S384,
}

/// Block cipher of SRTP and of the Confirm messages (RFC 6189 §5.1.3). Twofish is not implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CipherType {
    /// AES with 128 bits: mandatory.
    Aes1,
    /// AES with 192 bits.
    Aes2,
    /// AES with 256 bits.
    Aes3,
}

/// Authentication tag of SRTP packets (RFC 6189 §5.1.4). Skein is not implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthTag {
    /// HMAC-SHA1, 32 bits: mandatory.
    Hs32,
    /// HMAC-SHA1, 80 bits: mandatory.
    Hs80,
}

/// Key agreement (RFC 6189 §5.1.5). Preshared and Multistream mode are not implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAgreement {
    /// Elliptic curve Diffie-Hellman on P-256; takes less than a millisecond.
    Ec25,
    /// Diffie-Hellman with the 3072-bit group of RFC 3526 §4: mandatory; takes some milliseconds.
    Dh3k,
}

/// Rendering of the short authentication string (RFC 6189 §5.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SasType {
    /// Four characters, 20 bits: mandatory.
    B32,
    /// Two words of the PGP word list, 16 bits.
    B256,
}

impl TypeBlock for HashType {
    const ALL: &'static [Self] = &[Self::S256, Self::S384];
    const MANDATORY: &'static [Self] = &[Self::S256];

    fn block(self) -> [u8; 4] {
        match self {
            Self::S256 => *b"S256",
            Self::S384 => *b"S384",
        }
    }
}

impl TypeBlock for CipherType {
    const ALL: &'static [Self] = &[Self::Aes1, Self::Aes2, Self::Aes3];
    const MANDATORY: &'static [Self] = &[Self::Aes1];

    fn block(self) -> [u8; 4] {
        match self {
            Self::Aes1 => *b"AES1",
            Self::Aes2 => *b"AES2",
            Self::Aes3 => *b"AES3",
        }
    }
}

impl CipherType {
    /// Length of the key in bytes: 16, 24 or 32.
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::Aes1 => 16,
            Self::Aes2 => 24,
            Self::Aes3 => 32,
        }
    }
}

impl TypeBlock for AuthTag {
    const ALL: &'static [Self] = &[Self::Hs32, Self::Hs80];
    const MANDATORY: &'static [Self] = &[Self::Hs32, Self::Hs80];

    fn block(self) -> [u8; 4] {
        match self {
            Self::Hs32 => *b"HS32",
            Self::Hs80 => *b"HS80",
        }
    }
}

impl TypeBlock for KeyAgreement {
    /// Fastest first, as RFC 6189 §4.1.2 orders them.
    const ALL: &'static [Self] = &[Self::Ec25, Self::Dh3k];
    const MANDATORY: &'static [Self] = &[Self::Dh3k];

    fn block(self) -> [u8; 4] {
        match self {
            Self::Ec25 => *b"EC25",
            Self::Dh3k => *b"DH3k",
        }
    }
}

impl KeyAgreement {
    /// Length of a public value in bytes: 64 or 384 (RFC 6189 §5.1.5).
    pub(crate) const fn public_bytes(self) -> usize {
        match self {
            Self::Ec25 => 64,
            Self::Dh3k => 384,
        }
    }
}

impl TypeBlock for SasType {
    const ALL: &'static [Self] = &[Self::B32, Self::B256];
    const MANDATORY: &'static [Self] = &[Self::B32];

    fn block(self) -> [u8; 4] {
        match self {
            Self::B32 => *b"B32 ",
            Self::B256 => *b"B256",
        }
    }
}

/// Algorithms of an endpoint, each list in order of preference. A mandatory algorithm that is missing counts
/// as the end of its list (RFC 6189 §5.2); duplicates count once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Algorithms {
    /// Hashes.
    pub hashes: Vec<HashType>,
    /// Ciphers.
    pub ciphers: Vec<CipherType>,
    /// Tags of SRTP packets.
    pub auth_tags: Vec<AuthTag>,
    /// Key agreements.
    pub key_agreements: Vec<KeyAgreement>,
    /// Renderings of the short authentication string.
    pub sas_types: Vec<SasType>,
}

impl Default for Algorithms {
    fn default() -> Self {
        Self {
            hashes: [HashType::S256, HashType::S384].into(),
            ciphers: [CipherType::Aes3, CipherType::Aes1].into(),
            auth_tags: [AuthTag::Hs80, AuthTag::Hs32].into(),
            key_agreements: [KeyAgreement::Ec25, KeyAgreement::Dh3k].into(),
            sas_types: [SasType::B32, SasType::B256].into(),
        }
    }
}

impl Algorithms {
    /// Adds the mandatory algorithms and removes duplicates, so that no list is longer than seven.
    pub(crate) fn completed(mut self) -> Self {
        complete(&mut self.hashes);
        complete(&mut self.ciphers);
        complete(&mut self.auth_tags);
        complete(&mut self.key_agreements);
        complete(&mut self.sas_types);
        self
    }
}

/// One algorithm of each kind, as in a Commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) hash: HashType,
    pub(crate) cipher: CipherType,
    pub(crate) auth_tag: AuthTag,
    pub(crate) key_agreement: KeyAgreement,
    pub(crate) sas: SasType,
}

impl Chosen {
    /// The initiator's choice; both arguments are [`Algorithms::completed`].
    pub(crate) fn from_lists(ours: &Algorithms, theirs: &Algorithms) -> Self {
        Self {
            hash: first_common(&ours.hashes, &theirs.hashes),
            cipher: first_common(&ours.ciphers, &theirs.ciphers),
            auth_tag: first_common(&ours.auth_tags, &theirs.auth_tags),
            key_agreement: fastest(
                first_common(&ours.key_agreements, &theirs.key_agreements),
                first_common(&theirs.key_agreements, &ours.key_agreements),
            ),
            sas: first_common(&ours.sas_types, &theirs.sas_types),
        }
    }

    pub(crate) const fn suite(self) -> CryptoSuite {
        match (self.cipher, self.auth_tag) {
            (CipherType::Aes1, AuthTag::Hs32) => CryptoSuite::AesCm128HmacSha1_32,
            (CipherType::Aes1, AuthTag::Hs80) => CryptoSuite::AesCm128HmacSha1_80,
            (CipherType::Aes2, AuthTag::Hs32) => CryptoSuite::AesCm192HmacSha1_32,
            (CipherType::Aes2, AuthTag::Hs80) => CryptoSuite::AesCm192HmacSha1_80,
            (CipherType::Aes3, AuthTag::Hs32) => CryptoSuite::AesCm256HmacSha1_32,
            (CipherType::Aes3, AuthTag::Hs80) => CryptoSuite::AesCm256HmacSha1_80,
        }
    }

    pub(crate) fn blocks(self) -> [[u8; 4]; 5] {
        [
            self.hash.block(),
            self.cipher.block(),
            self.auth_tag.block(),
            self.key_agreement.block(),
            self.sas.block(),
        ]
    }
}

fn complete<T: TypeBlock>(list: &mut Vec<T>) {
    let mut completed = Vec::with_capacity(T::ALL.len());
    for &item in list.iter().chain(T::MANDATORY) {
        if !completed.contains(&item) {
            completed.push(item);
        }
    }
    *list = completed;
}

/// The first of `mine` that is also in `yours`; both lists contain the mandatory algorithms, so one exists.
fn first_common<T: TypeBlock>(mine: &[T], yours: &[T]) -> T {
    mine.iter().copied().find(|item| yours.contains(item)).unwrap_or(T::MANDATORY[0])
}

/// The faster of both ends' preferred key agreements, which both ends compute alike (RFC 6189 §4.1.2).
fn fastest(one: KeyAgreement, other: KeyAgreement) -> KeyAgreement {
    if one == KeyAgreement::Ec25 { one } else { other }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mandatory_algorithms_are_added_and_duplicates_removed() {
        let none = Algorithms {
            hashes: Vec::new(),
            ciphers: [CipherType::Aes3, CipherType::Aes3].into(),
            auth_tags: [AuthTag::Hs80].into(),
            key_agreements: Vec::new(),
            sas_types: Vec::new(),
        };
        let completed = none.completed();
        assert_eq!(completed.hashes, [HashType::S256]);
        assert_eq!(completed.ciphers, [CipherType::Aes3, CipherType::Aes1]);
        assert_eq!(completed.auth_tags, [AuthTag::Hs80, AuthTag::Hs32]);
        assert_eq!(completed.key_agreements, [KeyAgreement::Dh3k]);
        assert_eq!(completed.sas_types, [SasType::B32]);
    }

    #[test]
    fn both_ends_choose_the_same_key_agreement_and_the_initiator_the_other_algorithms() {
        let slow = Algorithms {
            key_agreements: [KeyAgreement::Dh3k, KeyAgreement::Ec25].into(),
            ciphers: [CipherType::Aes1, CipherType::Aes3].into(),
            ..Algorithms::default()
        };
        let fast = Algorithms::default();
        let (one, other) = (Chosen::from_lists(&slow, &fast), Chosen::from_lists(&fast, &slow));
        assert_eq!(one.key_agreement, KeyAgreement::Ec25);
        assert_eq!(other.key_agreement, KeyAgreement::Ec25);
        assert_eq!((one.cipher, other.cipher), (CipherType::Aes1, CipherType::Aes3));
        let only = Algorithms { key_agreements: [KeyAgreement::Dh3k].into(), ..Algorithms::default() };
        assert_eq!(Chosen::from_lists(&fast, &only.completed()).key_agreement, KeyAgreement::Dh3k);
    }

    #[test]
    fn every_pair_of_cipher_and_tag_gives_the_suite_with_their_lengths() {
        for (&cipher, &auth_tag) in
            CipherType::ALL.iter().flat_map(|cipher| AuthTag::ALL.iter().map(move |tag| (cipher, tag)))
        {
            let chosen = Chosen {
                cipher,
                auth_tag,
                ..Chosen::from_lists(&Algorithms::default(), &Algorithms::default())
            };
            assert_eq!(chosen.suite().key_bytes(), cipher.key_bytes());
            assert_eq!(chosen.suite().tag_bits(), if auth_tag == AuthTag::Hs32 { 32 } else { 80 });
        }
        assert_eq!(CipherType::from_block(*b"2FS1"), None);
        assert_eq!(KeyAgreement::from_block(*b"Mult"), None);
    }
}
