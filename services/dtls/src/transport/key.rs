//! Private keys of rustls as keys of `rtc-dtls`, and its random generator with our cookie.

use ringway_datagram::COOKIE_BYTES;
use rtc_dtls::crypto::Certificate;
use rtc_dtls::crypto_provider::{
    CryptoError, PublicKey, PublicKeyEncoding, RTCCrypto, RTCCryptoProvider, RTCRandom,
    SignatureScheme as RtcScheme, SigningKey,
};
use rustls::SignatureScheme;
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Certificate with its key for `rtc-dtls`.
pub(super) fn certificate(own: &Arc<CertifiedKey>) -> Certificate {
    let public = own.key.public_key().map(|key| key.as_ref().to_vec()).unwrap_or_default();
    let key = RustlsKey { own: Arc::clone(own), public };
    Certificate::from_signing_key(own.cert.clone(), Arc::new(key))
}

struct RustlsKey {
    own: Arc<CertifiedKey>,
    public: Vec<u8>,
}

impl SigningKey for RustlsKey {
    fn supports(&self, scheme: RtcScheme) -> bool {
        scheme_of(scheme).is_some_and(|scheme| self.own.key.choose_scheme(&[scheme]).is_some())
    }

    fn public_key(&self) -> PublicKey<'_> {
        PublicKey { encoding: PublicKeyEncoding::SubjectPublicKeyInfoDer, bytes: &self.public }
    }

    fn sign(&self, scheme: RtcScheme, message: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let signer = scheme_of(scheme).and_then(|scheme| self.own.key.choose_scheme(&[scheme]));
        let signer = signer.ok_or(CryptoError::InvalidPrivateKey)?;
        signer.sign(message).map_err(|_| CryptoError::InvalidPrivateKey)
    }
}

/// RSA-PSS is not one of the library's.
const fn scheme_of(scheme: RtcScheme) -> Option<SignatureScheme> {
    match scheme {
        RtcScheme::EcdsaP256Sha256 => Some(SignatureScheme::ECDSA_NISTP256_SHA256),
        RtcScheme::EcdsaP384Sha384 => Some(SignatureScheme::ECDSA_NISTP384_SHA384),
        RtcScheme::RsaPkcs1Sha256 => Some(SignatureScheme::RSA_PKCS1_SHA256),
        RtcScheme::RsaPkcs1Sha384 => Some(SignatureScheme::RSA_PKCS1_SHA384),
        RtcScheme::RsaPkcs1Sha512 => Some(SignatureScheme::RSA_PKCS1_SHA512),
        _ => None,
    }
}

/// Provider whose first random bytes are a cookie: the library's own cookie is then the one that the client has.
pub(super) struct WithCookie {
    pub(super) provider: Arc<dyn RTCCryptoProvider>,
    pub(super) cookie: [u8; COOKIE_BYTES],
    pub(super) is_taken: AtomicBool,
}

impl RTCCryptoProvider for WithCookie {
    fn name(&self) -> &'static str {
        self.provider.name()
    }

    fn crypto(&self) -> &dyn RTCCrypto {
        self.provider.crypto()
    }

    fn random(&self) -> &dyn RTCRandom {
        self
    }
}

impl RTCRandom for WithCookie {
    fn fill(&self, output: &mut [u8]) -> Result<(), CryptoError> {
        // Only the cookie has this length, and it is the first request; anything else stays random.
        if output.len() == COOKIE_BYTES && !self.is_taken.swap(true, Ordering::Relaxed) {
            output.copy_from_slice(&self.cookie);
            return Ok(());
        }
        self.provider.random().fill(output)
    }
}
