//! Whole sessions whose datagrams are changed on their way, by random choices of the fuzz target's harness.
//!
//! `RINGWAY_SEEDS` is the number of sessions with real keys; there are 20 times as many with a provider whose cryptography is
//! constant, so that nothing but the handshake's code is run. `RINGWAY_FLIGHTS` is the number of changed datagrams of the long form.

use crate::Identity;
use crate::harness::Session;
use ringway_sansio::{Rng, Seed};
use rtc_dtls::crypto::Certificate;
use rtc_dtls::crypto_provider::{
    ActiveKeyExchange, AeadAlgorithm, AeadCipher, CryptoAlgorithm, CryptoError, HashAlgorithm, HmacAlgorithm,
    KeyExchangeAlgorithm, Mac, PublicKey, PublicKeyEncoding, RTCCrypto, RTCCryptoProvider, RTCRandom,
    SecretVec, SignatureScheme, SigningKey,
};
use std::sync::Arc;

/// Cryptography without a key: every signature, tag and Finished is right.
struct Constant;

struct ConstantKey(KeyExchangeAlgorithm, Vec<u8>);

impl RTCCryptoProvider for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn crypto(&self) -> &dyn RTCCrypto {
        self
    }

    fn random(&self) -> &dyn RTCRandom {
        self
    }
}

impl RTCRandom for Constant {
    fn fill(&self, output: &mut [u8]) -> Result<(), CryptoError> {
        output.fill(7);
        Ok(())
    }
}

impl RTCCrypto for Constant {
    fn supports(&self, _: CryptoAlgorithm) -> bool {
        true
    }

    fn hash(&self, _: HashAlgorithm, _: &[u8]) -> Result<Vec<u8>, CryptoError> {
        Ok(vec![7; 32])
    }

    fn new_hmac(&self, _: HmacAlgorithm, _: &[u8]) -> Result<Box<dyn Mac>, CryptoError> {
        Ok(Box::new(Self))
    }

    fn new_aead(&self, _: AeadAlgorithm, _: &[u8]) -> Result<Box<dyn AeadCipher>, CryptoError> {
        Ok(Box::new(Self))
    }

    fn start_key_exchange(
        &self,
        algorithm: KeyExchangeAlgorithm,
    ) -> Result<Box<dyn ActiveKeyExchange>, CryptoError> {
        let bytes = if algorithm == KeyExchangeAlgorithm::X25519 { 32 } else { 65 };
        Ok(Box::new(ConstantKey(algorithm, vec![4; bytes])))
    }

    fn verify_signature(
        &self,
        _: SignatureScheme,
        _: PublicKey<'_>,
        _: &[u8],
        _: &[u8],
    ) -> Result<(), CryptoError> {
        Ok(())
    }
}

impl Mac for Constant {
    fn output_len(&self) -> usize {
        32
    }

    fn sign(&mut self, _: &[&[u8]], output: &mut [u8]) -> Result<(), CryptoError> {
        output.fill(7);
        Ok(())
    }

    fn verify(&mut self, _: &[&[u8]], _: &[u8]) -> Result<(), CryptoError> {
        Ok(())
    }
}

impl AeadCipher for Constant {
    fn tag_len(&self) -> usize {
        16
    }

    fn seal_in_place(&mut self, _: &[u8], _: &[u8], _: &mut [u8], tag: &mut [u8]) -> Result<(), CryptoError> {
        tag.fill(7);
        Ok(())
    }

    fn open_in_place(&mut self, _: &[u8], _: &[u8], _: &mut [u8], _: &[u8]) -> Result<(), CryptoError> {
        Ok(())
    }
}

impl ActiveKeyExchange for ConstantKey {
    fn algorithm(&self) -> KeyExchangeAlgorithm {
        self.0
    }

    fn public_key(&self) -> &[u8] {
        &self.1
    }

    fn complete(self: Box<Self>, _: &[u8]) -> Result<SecretVec, CryptoError> {
        Ok(SecretVec::new(vec![7; 32]))
    }
}

impl SigningKey for ConstantKey {
    fn supports(&self, scheme: SignatureScheme) -> bool {
        scheme == SignatureScheme::EcdsaP256Sha256
    }

    fn public_key(&self) -> PublicKey<'_> {
        PublicKey { encoding: PublicKeyEncoding::SubjectPublicKeyInfoDer, bytes: &self.1 }
    }

    fn sign(&self, _: SignatureScheme, _: &[u8]) -> Result<Vec<u8>, CryptoError> {
        Ok(vec![7; 70])
    }
}

fn real() -> Identity {
    Identity::new(&Identity::SUITES).unwrap()
}

fn constant() -> Identity {
    let real = real();
    let key = ConstantKey(KeyExchangeAlgorithm::P256, vec![4; 65]);
    let certificate = Certificate::from_signing_key(real.certificate.certificate.clone(), Arc::new(key));
    Identity { certificate, provider: Arc::new(Constant), ..real }
}

/// The session of a seed.
fn session(identities: &[Identity; 2], seed: u64) -> Session {
    let mut rng = Rng::new(&Seed::from_number(seed));
    let choices: Vec<u8> = (0..rng.below(400)).map(|_| rng.below(256) as u8).collect();
    Session::run(identities, &choices)
}

/// Runs sessions; at least one in 20 must have keys on both sides, and at least one must not.
fn run(identities: &[Identity; 2], sessions: u64) {
    let (mut keyed, mut changed) = (0, 0);
    for seed in 0..sessions {
        let session = session(identities, seed);
        keyed += u64::from(session.is_keyed());
        changed += session.changed;
    }
    println!("{sessions} sessions, {keyed} with keys, {changed} datagrams changed");
    assert!(keyed > sessions / 20 && keyed < sessions, "{keyed} of {sessions}");
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Number of sessions with real keys.
fn sessions() -> u64 {
    from_environment("RINGWAY_SEEDS", 200)
}

#[test]
fn changed_sessions_neither_panic_nor_disagree_about_keys() {
    run(&[real(), real()], sessions());
}

#[test]
fn changed_flights_do_not_panic_when_all_cryptography_succeeds() {
    run(&[constant(), constant()], 20 * sessions());
}

/// Seeds that no other test uses, until `RINGWAY_FLIGHTS` datagrams were changed. Prints how many were every ten seconds.
#[test]
#[ignore = "takes hours: `cargo xtask long --only flights`"]
fn flights_changed_for_hours_do_not_panic() {
    let (wanted, first) =
        (from_environment("RINGWAY_FLIGHTS", 1_000_000), from_environment("RINGWAY_SEED", 1 << 32));
    let (identities, begun) = ([constant(), constant()], std::time::Instant::now());
    let (mut seed, mut changed, mut keyed, mut next_line) = (first, 0, 0, 0);
    while changed < wanted {
        let session = session(&identities, seed);
        changed += session.changed;
        keyed += u64::from(session.is_keyed());
        seed += 1;
        if begun.elapsed().as_secs() >= next_line {
            next_line += 10;
            println!(
                "{changed} datagrams changed in {} sessions, {keyed} with keys; next seed {seed}",
                seed - first
            );
        }
    }
    println!("{changed} datagrams changed in {} sessions, {keyed} with keys; next seed {seed}", seed - first);
}
