//! SHA-256, and HMAC with it.

use alloc::boxed::Box;
use hmac::{KeyInit, Mac};
use rustls::crypto::{hash, hmac as interface};
use sha2::Digest;

/// SHA-256 (FIPS 180-4).
pub(super) struct Sha256;

impl hash::Hash for Sha256 {
    fn start(&self) -> Box<dyn hash::Context> {
        Box::new(Context(sha2::Sha256::new()))
    }

    fn hash(&self, data: &[u8]) -> hash::Output {
        hash::Output::new(&sha2::Sha256::digest(data))
    }

    fn output_len(&self) -> usize {
        HASH_BYTES
    }

    fn algorithm(&self) -> hash::HashAlgorithm {
        hash::HashAlgorithm::SHA256
    }
}

struct Context(sha2::Sha256);

impl hash::Context for Context {
    fn fork_finish(&self) -> hash::Output {
        hash::Output::new(&self.0.clone().finalize())
    }

    fn fork(&self) -> Box<dyn hash::Context> {
        Box::new(Self(self.0.clone()))
    }

    fn finish(self: Box<Self>) -> hash::Output {
        hash::Output::new(&self.0.finalize())
    }

    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }
}

/// HMAC-SHA256 (RFC 2104). rustls makes HKDF (RFC 5869) and the PRF of TLS 1.2 (RFC 5246 §5) of it.
pub(super) struct HmacSha256;

impl interface::Hmac for HmacSha256 {
    fn with_key(&self, key: &[u8]) -> Box<dyn interface::Key> {
        // Longer keys are hashed first (RFC 2104 §2).
        let mut block = [0; BLOCK_BYTES];
        let digest;
        let key = if key.len() > BLOCK_BYTES {
            digest = sha2::Sha256::digest(key);
            digest.as_slice()
        } else {
            key
        };
        block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
        let mac = hmac::Hmac::<sha2::Sha256>::new(&block.into());
        zeroize::Zeroize::zeroize(&mut block);
        Box::new(Key(mac))
    }

    fn hash_output_len(&self) -> usize {
        HASH_BYTES
    }
}

struct Key(hmac::Hmac<sha2::Sha256>);

impl interface::Key for Key {
    fn sign_concat(&self, first: &[u8], middle: &[&[u8]], last: &[u8]) -> interface::Tag {
        let mut mac = self.0.clone();
        mac.update(first);
        middle.iter().for_each(|part| mac.update(part));
        mac.update(last);
        interface::Tag::new(&mac.finalize().into_bytes())
    }

    fn tag_len(&self) -> usize {
        HASH_BYTES
    }
}

const HASH_BYTES: usize = 32;
const BLOCK_BYTES: usize = 64;
