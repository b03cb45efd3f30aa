//! Fingerprints of certificates (RFC 8122 §5).

use ringway_sdp::{Fingerprint, FingerprintHash};
use sha2::{Digest, Sha256, Sha384, Sha512};

/// Fingerprint of a certificate in DER.
pub(crate) fn of(hash: FingerprintHash, der: &[u8]) -> Option<Fingerprint> {
    match hash {
        FingerprintHash::Sha256 => Fingerprint::new(hash, &Sha256::digest(der)),
        FingerprintHash::Sha384 => Fingerprint::new(hash, &Sha384::digest(der)),
        FingerprintHash::Sha512 => Fingerprint::new(hash, &Sha512::digest(der)),
    }
}

/// True if a certificate has one of these fingerprints.
pub(crate) fn is_one_of(fingerprints: &[Fingerprint], der: &[u8]) -> bool {
    fingerprints.iter().any(|announced| of(announced.hash(), der).as_ref() == Some(announced))
}
