//! Signatures with the server's key: ECDSA on P-256 with SHA-256, with the deterministic nonces of RFC 6979.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{DerSignature, SigningKey};
use p256::pkcs8::DecodePrivateKey;
use rustls::crypto::KeyProvider;
use rustls::pki_types::{PrivateKeyDer, SubjectPublicKeyInfoDer, alg_id};
use rustls::{Error, SignatureAlgorithm, SignatureScheme, sign};

/// Loads private keys.
#[derive(Debug)]
pub(super) struct EcdsaKeys;

impl KeyProvider for EcdsaKeys {
    fn load_private_key(&self, key: PrivateKeyDer<'static>) -> Result<Arc<dyn sign::SigningKey>, Error> {
        let secret = match &key {
            PrivateKeyDer::Pkcs8(key) => p256::SecretKey::from_pkcs8_der(key.secret_pkcs8_der()).ok(),
            PrivateKeyDer::Sec1(key) => p256::SecretKey::from_sec1_der(key.secret_sec1_der()).ok(),
            _ => None,
        };
        let secret = secret.ok_or_else(|| Error::General("it is not an ECDSA key on P-256".to_string()))?;
        Ok(Arc::new(EcdsaKey(Arc::new(SigningKey::from(secret)))))
    }
}

/// A private key; erased when dropped.
struct EcdsaKey(Arc<SigningKey>);

impl sign::SigningKey for EcdsaKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn sign::Signer>> {
        offered.contains(&SCHEME).then(|| Box::new(EcdsaSigner(Arc::clone(&self.0))) as Box<dyn sign::Signer>)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        let point = self.0.verifying_key().to_sec1_point(false);
        Some(sign::public_key_to_spki(&alg_id::ECDSA_P256, point.as_bytes()))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

impl fmt::Debug for EcdsaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EcdsaKey(..)")
    }
}

struct EcdsaSigner(Arc<SigningKey>);

impl sign::Signer for EcdsaSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let signature: Result<DerSignature, _> = self.0.try_sign(message);
        let signature = signature.map_err(|_| Error::General("signing failed".to_string()))?;
        Ok(signature.as_bytes().to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SCHEME
    }
}

impl fmt::Debug for EcdsaSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EcdsaSigner(..)")
    }
}

const SCHEME: SignatureScheme = SignatureScheme::ECDSA_NISTP256_SHA256;
