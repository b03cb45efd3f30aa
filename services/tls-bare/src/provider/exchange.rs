//! Ephemeral key exchange on P-256 (RFC 8446 §4.2.8.2, RFC 8422 §5).

use super::random::SeededRandom;
use alloc::boxed::Box;
use alloc::vec::Vec;
use p256::elliptic_curve::sec1::ToSec1Point;
use p256::{PublicKey, SecretKey};
use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup, PeerMisbehaved};
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
