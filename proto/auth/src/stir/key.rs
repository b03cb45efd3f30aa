//! Keys of ES256.

use super::passport::{Claims, PassportKind};
use super::signature::encoded;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use p256::SecretKey;
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey};
use p256::elliptic_curve::sec1::ToSec1Point;

/// Length of a public key: an uncompressed point of P-256 (SEC 1).
pub const PUBLIC_KEY_BYTES: usize = 65;

/// Key that signs identities, and the URL of its certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct Signer {
    key: SigningKey,
    url: String,
    /// Encoded headers of the kinds that it makes, which are always the same.
    shaken: Vec<u8>,
    div: Vec<u8>,
}

impl Signer {
    /// Reads a private key of P-256, in the form of PKCS #8 or SEC 1. `url` is that of its certificate, without quotes and angle brackets.
    /// `None`: it is no such key.
    pub fn from_der(der: &[u8], url: &str) -> Option<Self> {
        let key = SigningKey::from(SecretKey::from_der(der).ok()?);
        let of = |kind| encoded(PassportKind::header(kind, url).as_bytes());
        let (shaken, div) = (of(PassportKind::Shaken), of(PassportKind::Div));
        Some(Self { key, url: url.to_string(), shaken, div })
    }

    /// The public key that a certificate must have.
    pub fn public_key(&self) -> Vec<u8> {
        self.key.verifying_key().as_affine().to_sec1_point(false).as_bytes().to_vec()
    }

    /// Value of an Identity header field: `TOKEN;info=<URL>;alg=ES256;ppt="…"`.
    pub fn identity(&self, kind: PassportKind, claims: &Claims) -> Vec<u8> {
        let (header, ppt) = match kind {
            PassportKind::Div => (&self.div, &b"div"[..]),
            PassportKind::Base | PassportKind::Shaken => (&self.shaken, &b"shaken"[..]),
        };
        let mut value = header.clone();
        value.push(b'.');
        value.extend_from_slice(&encoded(claims.payload().as_bytes()));
        let signature: Signature = self.key.sign(&value);
        value.push(b'.');
        value.extend_from_slice(&encoded(&signature.to_bytes()));
        value.extend_from_slice(b";info=<");
        value.extend_from_slice(self.url.as_bytes());
        value.extend_from_slice(b">;alg=ES256;ppt=\"");
        value.extend_from_slice(ppt);
        value.push(b'"');
        value
    }
}

/// Without the key.
impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("url", &self.url).finish_non_exhaustive()
    }
}
