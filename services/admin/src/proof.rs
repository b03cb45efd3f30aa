//! Proof that both sides have the token, before a client sends it.
//!
//! A client asks `GET /api/proof` with a random number and its keyed hash. A server that has the token answers with another keyed hash of
//! the number. A process that listens in place of the server gets no token, and nothing that a server accepts for anything else.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use subtle::ConstantTimeEq;

/// The client's part of a proof.
pub struct TokenProof {
    key: [u8; 32],
    number: String,
}

impl TokenProof {
    /// Path of the proof.
    pub const PATH: &'static str = "/api/proof";

    /// Proof of `token` with 32 random bytes.
    pub fn new(token: &str, random: [u8; 32]) -> Self {
        Self { key: key_of(token), number: hex(&random) }
    }

    /// Value of the header Authorization of the request for [`TokenProof::PATH`].
    pub fn authorization(&self) -> String {
        format!("{SCHEME}{}:{}", self.number, keyed_hash(&self.key, CLIENT, &self.number))
    }

    /// True if `proof`, of the answer, is from a server that has the token.
    pub fn is_of_server(&self, proof: &str) -> bool {
        is_equal(proof, &keyed_hash(&self.key, SERVER, &self.number))
    }
}

/// Key of the proofs of a token.
pub(crate) fn key_of(token: &str) -> [u8; 32] {
    key_of_bytes(token.as_bytes())
}

/// Key of the proofs of a token that need not be text.
pub(crate) fn key_of_bytes(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// The server's part of a proof. `None`: the client does not have the token.
pub(crate) fn answer(key: &[u8; 32], authorization: &[u8]) -> Option<String> {
    let text = str::from_utf8(authorization).ok()?;
    let (number, hash) = text.strip_prefix(SCHEME)?.split_once(':')?;
    let is_number = number.len() == NUMBER_LEN && number.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_number && is_equal(hash, &keyed_hash(key, CLIENT, number))).then(|| keyed_hash(key, SERVER, number))
}

fn keyed_hash(key: &[u8; 32], side: &str, number: &str) -> String {
    // A key of any length is permitted.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return String::new() };
    mac.update(side.as_bytes());
    mac.update(number.as_bytes());
    hex(&mac.finalize().into_bytes())
}

fn is_equal(one: &str, other: &str) -> bool {
    !other.is_empty() && bool::from(one.as_bytes().ct_eq(other.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

const SCHEME: &str = "Ringway-Proof ";
const NUMBER_LEN: usize = 64;
const CLIENT: &str = "client of the admin API ";
const SERVER: &str = "server of the admin API ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_the_token_answers_and_only_to_who_has_it() {
        let client = TokenProof::new("t0ken", [7; 32]);
        let asked = client.authorization();
        let proof = answer(&key_of("t0ken"), asked.as_bytes()).unwrap();
        assert!(client.is_of_server(&proof) && !asked.contains("t0ken") && !proof.contains("t0ken"));
        assert_eq!(answer(&key_of("other"), asked.as_bytes()), None);
        assert!(!TokenProof::new("t0ken", [8; 32]).is_of_server(&proof), "of another number");
        assert!(!TokenProof::new("other", [7; 32]).is_of_server(&proof));
        let hash = asked.rsplit(':').next().unwrap();
        for wrong in [hash, "", &proof[1..], &proof.to_uppercase()] {
            assert!(!client.is_of_server(wrong), "{wrong:?}, as the client's own hash sent back");
        }
        for wrong in ["", "Bearer t0ken", &asked[1..], &asked[..asked.len() - 1], &asked.replace("07", "x7")]
        {
            assert_eq!(answer(&key_of("t0ken"), wrong.as_bytes()), None, "{wrong}");
        }
    }
}
