//! P-256: ephemeral key exchange (RFC 8446 §4.2.8.2, RFC 8422 §5), signatures with the server's key (ECDSA with SHA-256,
//! deterministic nonces of RFC 6979), random numbers from a seed.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{DerSignature, SigningKey};
use p256::elliptic_curve::sec1::ToSec1Point;
use p256::pkcs8::DecodePrivateKey;
use p256::{PublicKey, SecretKey};
use ringway_sansio::{Entropy, Seed};
use rustls::crypto::{
    ActiveKeyExchange, GetRandomFailed, KeyProvider, SecureRandom, SharedSecret, SupportedKxGroup,
};
use rustls::pki_types::{PrivateKeyDer, SubjectPublicKeyInfoDer, alg_id};
use rustls::{Error, NamedGroup, PeerMisbehaved, SignatureAlgorithm, SignatureScheme, sign};
use zeroize::Zeroizing;

/// The group secp256r1.
#[derive(Debug)]
pub(super) struct P256 {
    random: &'static SeededRandom,
}

impl P256 {
    pub(super) const fn new(random: &'static SeededRandom) -> Self {
        Self { random }
    }
}

impl SupportedKxGroup for P256 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        // Of 2^32 random strings all but about one are a scalar below the order of the curve.
        let secret = loop {
            let mut bytes = Zeroizing::new([0; 32]);
            self.random.fill(&mut *bytes);
            if let Ok(secret) = SecretKey::from_slice(&*bytes) {
                break secret;
            }
        };
        Ok(Box::new(KeyPair::new(secret)))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::secp256r1
    }
}

/// Ephemeral key of one handshake; erased when dropped.
pub(super) struct KeyPair {
    secret: SecretKey,
    public: Vec<u8>,
}

impl KeyPair {
    pub(super) fn new(secret: SecretKey) -> Self {
        let public = secret.public_key().to_sec1_point(false).as_bytes().to_vec();
        Self { secret, public }
    }
}

impl ActiveKeyExchange for KeyPair {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        // Uncompressed points only (RFC 8446 §4.2.8.2); `from_sec1_bytes` checks that it is on the curve, and not its zero.
        let is_uncompressed = peer.len() == POINT_BYTES && peer.first() == Some(&UNCOMPRESSED);
        let point = is_uncompressed.then(|| PublicKey::from_sec1_bytes(peer).ok()).flatten();
        let point = point.ok_or(PeerMisbehaved::InvalidKeyShare)?;
        let shared = p256::ecdh::diffie_hellman(self.secret.to_nonzero_scalar(), point.as_affine());
        Ok(SharedSecret::from(shared.raw_secret_bytes().as_slice()))
    }

    fn pub_key(&self) -> &[u8] {
        &self.public
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::secp256r1
    }
}

/// Length of an uncompressed point (SEC 1 §2.3.3), and its first byte.
const POINT_BYTES: usize = 65;
const UNCOMPRESSED: u8 = 4;

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

/// [`Entropy`] behind the shared reference that rustls requires. Its state is replaced before each use, so that a later
/// disclosure does not reveal earlier keys.
pub(super) struct SeededRandom {
    state: [AtomicU64; 4],
    is_busy: AtomicBool,
}

impl SeededRandom {
    pub(super) fn new(seed: &Seed) -> Self {
        let random = Self { state: [const { AtomicU64::new(0) }; 4], is_busy: AtomicBool::new(false) };
        random.store(*seed.bytes());
        random
    }

    fn fill(&self, out: &mut [u8]) {
        while self.is_busy.swap(true, Ordering::Acquire) {
            spin_loop();
        }
        let mut entropy = Entropy::new(&Seed::from_bytes(self.load()));
        self.store(entropy.bytes());
        self.is_busy.store(false, Ordering::Release);
        entropy.fill(out);
    }

    fn load(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (to, word) in bytes.chunks_exact_mut(8).zip(&self.state) {
            to.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        bytes
    }

    fn store(&self, bytes: [u8; 32]) {
        for (from, word) in bytes.chunks_exact(8).zip(&self.state) {
            let mut value = [0; 8];
            value.copy_from_slice(from);
            word.store(u64::from_le_bytes(value), Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for SeededRandom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SeededRandom(..)")
    }
}

impl SecureRandom for SeededRandom {
    fn fill(&self, out: &mut [u8]) -> Result<(), GetRandomFailed> {
        Self::fill(self, out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_calls_give_the_same_and_equal_seeds_do() {
        let (one, two) = (SeededRandom::new(&Seed::from_number(1)), SeededRandom::new(&Seed::from_number(1)));
        let next = |random: &SeededRandom| {
            let mut bytes = [0; 48];
            random.fill(&mut bytes);
            bytes
        };
        let first = next(&one);
        assert_eq!(first, next(&two));
        let second = next(&one);
        assert_ne!(first, second);
        assert!(!first.windows(16).any(|window| second.windows(16).any(|other| other == window)));
    }
}
