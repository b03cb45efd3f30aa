//! Verification of a dialled server's certificate (RFC 5922); private keys of rustls as keys of `rtc-dtls`, and its random
//! generator with our cookie.

use super::{HostNames, name_of};
use ringway_datagram::COOKIE_BYTES;
use ringway_sansio::{Flow, PeerNames};
use ringway_tls::TlsMaterial;
use rtc_dtls::crypto::Certificate;
use rtc_dtls::crypto_provider::{
    CryptoError, PublicKey, PublicKeyEncoding, RTCCrypto, RTCCryptoProvider, RTCRandom,
    SignatureScheme as RtcScheme, SigningKey,
};
use rustls::SignatureScheme;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::sign::CertifiedKey;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Check of one server's certificate, and its result.
pub(super) struct ServerCheck {
    material: TlsMaterial,
    name: ServerName<'static>,
    hosts: Arc<HostNames>,
    result: Mutex<CheckResult>,
}

enum CheckResult {
    Unchecked,
    Accepted(Accepted),
    Refused(String),
}

/// Certificate that was accepted.
struct Accepted {
    chain: Vec<CertificateDer<'static>>,
    names: Option<Arc<PeerNames>>,
}

impl ServerCheck {
    /// Check that the server is `name`.
    pub(super) fn new(material: TlsMaterial, name: ServerName<'static>, hosts: Arc<HostNames>) -> Self {
        Self { material, name, hosts, result: Mutex::new(CheckResult::Unchecked) }
    }

    /// Verifies a chain in DER, the server's own certificate first, and notes the result.
    pub(super) fn verify(&self, chain: &[Vec<u8>]) -> bool {
        let chain: Vec<_> = chain.iter().map(|der| CertificateDer::from(der.as_slice())).collect();
        let result = match self.material.verify_server(&chain, &self.name) {
            Ok(names) => {
                let chain = chain.into_iter().map(CertificateDer::into_owned).collect();
                CheckResult::Accepted(Accepted { chain, names: names.map(Arc::new) })
            }
            Err(why) => CheckResult::Refused(why),
        };
        let is_accepted = matches!(result, CheckResult::Accepted(_));
        *self.result() = result;
        is_accepted
    }

    pub(super) fn is_accepted(&self) -> bool {
        matches!(&*self.result(), CheckResult::Accepted(_))
    }

    /// Reason why the certificate was refused.
    pub(super) fn refusal(&self) -> Option<String> {
        match &*self.result() {
            CheckResult::Refused(why) => Some(why.clone()),
            CheckResult::Unchecked | CheckResult::Accepted(_) => None,
        }
    }

    pub(super) fn names(&self) -> Option<Arc<PeerNames>> {
        match &*self.result() {
            CheckResult::Accepted(accepted) => accepted.names.clone(),
            CheckResult::Unchecked | CheckResult::Refused(_) => None,
        }
    }

    /// Verifies that the accepted certificate is one of the flow's host too.
    pub(super) fn verify_also(&self, flow: &Flow) -> Result<(), String> {
        let name = name_of(&self.hosts, flow).ok_or_else(|| "the host has no name any more".to_owned())?;
        match &*self.result() {
            CheckResult::Accepted(accepted) => {
                self.material.verify_server(&accepted.chain, &name).map(|_| ())
            }
            CheckResult::Unchecked | CheckResult::Refused(_) => Err("it was not verified".to_owned()),
        }
    }

    fn result(&self) -> MutexGuard<'_, CheckResult> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
