//! Attributes of DTLS-SRTP: the fingerprint of a certificate (RFC 8122 §5) and the role in the handshake (RFC 4145
//! §4).

use crate::text::fields;
use crate::{Attribute, MediaDescription, SessionDescription};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Hash function of a fingerprint. SHA-1 and MD5 are not accepted: collisions can be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FingerprintHash {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl FingerprintHash {
    /// All hash functions.
    pub const ALL: [Self; 3] = [Self::Sha256, Self::Sha384, Self::Sha512];

    /// Name in `a=fingerprint`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha-256",
            Self::Sha384 => "sha-384",
            Self::Sha512 => "sha-512",
        }
    }

    /// Length of a digest in bytes.
    pub const fn digest_bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }
}

/// Hash of a certificate in DER.
#[derive(Clone, PartialEq, Eq)]
pub struct Fingerprint {
    hash: FingerprintHash,
    digest: Vec<u8>,
}

impl Fingerprint {
    /// A fingerprint of this digest; `None` if it does not have the length of its hash function.
    pub fn new(hash: FingerprintHash, digest: &[u8]) -> Option<Self> {
        (digest.len() == hash.digest_bytes()).then(|| Self { hash, digest: digest.to_vec() })
    }

    /// Parses a value of `a=fingerprint`. The case of the name and of the digits is ignored.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let mut fields = fields(value);
        let (name, digits, rest) = (fields.next()?, fields.next()?, fields.next());
        let is_named = |hash: &FingerprintHash| hash.name().as_bytes().eq_ignore_ascii_case(name);
        let hash = FingerprintHash::ALL.into_iter().find(is_named).filter(|_| rest.is_none())?;
        let octet = |digits: &[u8]| {
            let mut octet = [0; 1];
            base16ct::mixed::decode(digits, &mut octet).ok().filter(|decoded| decoded.len() == 1)?;
            Some(octet[0])
        };
        let digest: Option<Vec<u8>> = digits.split(|byte| *byte == b':').map(octet).collect();
        Self::new(hash, &digest?)
    }

    /// Hash function.
    pub const fn hash(&self) -> FingerprintHash {
        self.hash
    }

    /// Digest of the certificate.
    pub fn digest(&self) -> &[u8] {
        &self.digest
    }
}

/// The value of `a=fingerprint`.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.hash.name())?;
        for (at, octet) in self.digest.iter().enumerate() {
            write!(f, "{}{octet:02X}", if at == 0 { ' ' } else { ':' })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Our role in a DTLS handshake (RFC 5763 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DtlsRole {
    /// The client: it sends the first message.
    Active,
    /// The server.
    Passive,
}

impl DtlsRole {
    /// Value of `a=setup` in an answer.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Passive => "passive",
        }
    }

    /// Role in an answer to this `a=setup`. A side that may choose is active (RFC 5763 §5), or keeps its role in
    /// the association `before`. `None` if no connection can be made.
    pub(crate) fn answering(setup: Setup, before: Option<Self>) -> Option<Self> {
        match setup {
            Setup::Active => Some(Self::Passive),
            Setup::Passive => Some(Self::Active),
            Setup::ActPass => Some(before.unwrap_or(Self::Active)),
            Setup::Unusable => None,
        }
    }

    /// Role of the offerer of `actpass` by the `a=setup` of the answer.
    pub(crate) fn answered(setup: Setup) -> Option<Self> {
        match setup {
            Setup::Active => Some(Self::Passive),
            Setup::Passive => Some(Self::Active),
            Setup::ActPass | Setup::Unusable => None,
        }
    }
}

/// Value of `a=setup` (RFC 4145 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setup {
    Active,
    Passive,
    ActPass,
    /// `holdconn`, or an unknown value.
    Unusable,
}

impl Setup {
    fn parse(value: &[u8]) -> Self {
        let values: [(&[u8], Self); 3] =
            [(b"active", Self::Active), (b"passive", Self::Passive), (b"actpass", Self::ActPass)];
        let value = value.trim_ascii();
        let found = values.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(value));
        found.map_or(Self::Unusable, |(_, setup)| setup)
    }

    /// Value for a section: its own, else that of the session, else `otherwise` (RFC 4145 §4: `active` in an offer,
    /// `passive` in an answer).
    pub(crate) fn of(description: &SessionDescription, section: &MediaDescription, otherwise: Self) -> Self {
        values_for(description, section, "setup").first().map_or(otherwise, |value| Self::parse(value))
    }
}

/// Usable fingerprints for a section, those of the strongest hash function only (RFC 8122 §5): its own, else those of
/// the session.
pub(crate) fn fingerprints(description: &SessionDescription, section: &MediaDescription) -> Vec<Fingerprint> {
    let values = values_for(description, section, "fingerprint");
    let mut usable: Vec<Fingerprint> = values.into_iter().filter_map(Fingerprint::parse).collect();
    if let Some(strongest) = usable.iter().map(Fingerprint::hash).max() {
        usable.retain(|fingerprint| fingerprint.hash == strongest);
    }
    usable.truncate(FINGERPRINTS_MAX);
    usable
}

/// True if a fingerprint of any hash function applies to a section.
pub(crate) fn has_fingerprint(description: &SessionDescription, section: &MediaDescription) -> bool {
    !values_for(description, section, "fingerprint").is_empty()
}

/// The attributes of our section: our fingerprint, and our role or, in an offer, `actpass`.
pub(crate) fn attributes(fingerprint: &Fingerprint, role: Option<DtlsRole>) -> [Attribute; 2] {
    let setup = role.map_or("actpass", DtlsRole::name);
    let fingerprint: String = alloc::format!("{fingerprint}");
    [Attribute::with("fingerprint", fingerprint), Attribute::with("setup", setup)]
}

/// Values of the attributes called `name` of a section, or of the session if the section has none.
pub(crate) fn values_for<'a>(
    description: &'a SessionDescription,
    section: &'a MediaDescription,
    name: &'a str,
) -> Vec<&'a [u8]> {
    let own: Vec<&[u8]> = section.values(name).collect();
    if !own.is_empty() {
        return own;
    }
    let named = description.attributes.iter().filter(|attribute| attribute.name == name.as_bytes());
    named.map(|attribute| attribute.value().unwrap_or_default()).collect()
}

/// Maximum number of fingerprints of one hash function that are compared; a phone has one certificate, or one for
/// each type of key.
const FINGERPRINTS_MAX: usize = 4;
