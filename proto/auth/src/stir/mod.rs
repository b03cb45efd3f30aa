//! Signed identities of callers (STIR): PASSporT (RFC 8225, 8588, 8946) in the Identity header field (RFC 8224), with ES256.
//!
//! Signatures are deterministic (RFC 6979), so that making one needs no randomness. Certificates are read elsewhere: a check gets the public
//! key that one has.

#[cfg(test)]
mod corpus_tests;
mod json;
mod key;
mod passport;
mod signature;

pub use key::{PUBLIC_KEY_BYTES, Signer};
pub use passport::{Attestation, BadPassport, Claims, IDENTITY_BYTES_MAX, Passport, PassportKind};
