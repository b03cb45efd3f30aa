//! Cryptographic provider of rustls over RustCrypto: one suite for each version, P-256, ECDSA with SHA-256.

mod p256;
mod symmetric;
#[cfg(test)]
mod vectors;

use alloc::boxed::Box;
use alloc::vec;
use p256::{EcdsaKeys, P256, SeededRandom};
use ringway_sansio::Seed;
use rustls::crypto::tls12::PrfUsingHmac;
use rustls::crypto::tls13::HkdfUsingHmac;
use rustls::crypto::{CryptoProvider, KeyExchangeAlgorithm, WebPkiSupportedAlgorithms};
use rustls::{
    CipherSuite, CipherSuiteCommon, SignatureScheme, SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite,
};
use symmetric::{Aes128Gcm, HmacSha256, Sha256};

/// Creates the provider; its random numbers come from `seed`.
///
/// rustls requires the generator and the key exchange for the rest of the program's life, so each call leaks some 60 bytes.
pub(crate) fn provider(seed: &Seed) -> CryptoProvider {
    let random: &'static SeededRandom = Box::leak(Box::new(SeededRandom::new(seed)));
    let exchange: &'static P256 = Box::leak(Box::new(P256::new(random)));
    CryptoProvider {
        cipher_suites: vec![
            SupportedCipherSuite::Tls13(&TLS13_SUITE),
            SupportedCipherSuite::Tls12(&TLS12_SUITE),
        ],
        kx_groups: vec![exchange],
        // Clients have no certificates here, so nothing is verified.
        signature_verification_algorithms: WebPkiSupportedAlgorithms { all: &[], mapping: &[] },
        secure_random: random,
        key_provider: &EcdsaKeys,
    }
}

static TLS13_SUITE: Tls13CipherSuite = Tls13CipherSuite {
    common: CipherSuiteCommon {
        suite: CipherSuite::TLS13_AES_128_GCM_SHA256,
        hash_provider: &Sha256,
        confidentiality_limit: GCM_RECORDS_MAX,
    },
    hkdf_provider: &HkdfUsingHmac(&HmacSha256),
    aead_alg: &Aes128Gcm,
    quic: None,
};

static TLS12_SUITE: Tls12CipherSuite = Tls12CipherSuite {
    common: CipherSuiteCommon {
        suite: CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        hash_provider: &Sha256,
        confidentiality_limit: GCM_RECORDS_MAX,
    },
    prf_provider: &PrfUsingHmac(&HmacSha256),
    kx: KeyExchangeAlgorithm::ECDHE,
    sign: &[SignatureScheme::ECDSA_NISTP256_SHA256],
    aead_alg: &Aes128Gcm,
};

/// Maximum number of records under one key of AES-GCM, below that of RFC 8446 §5.5.
const GCM_RECORDS_MAX: u64 = 1 << 24;
