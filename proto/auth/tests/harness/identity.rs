//! Any bytes as the value of an Identity header field: nothing panics, what is read is no longer than the value, and only its own signature
//! fits it.
//!
//! The crate has no prelude of `std`.

use ringway_auth::stir::{Claims, IDENTITY_BYTES_MAX, Passport, PassportKind, Signer};
use std::vec::Vec;

/// Reads `bytes`, and signs the claims in them again.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(passport) = Passport::parse(bytes) else { return };
    assert!(bytes.len() <= IDENTITY_BYTES_MAX);
    let claims = &passport.claims;
    let texts = || claims.destinations.iter().chain([&claims.origin, &claims.origin_id, &claims.diverted]);
    assert!(texts().map(|text| text.len()).sum::<usize>() + passport.url.len() <= bytes.len());
    let signer = Signer::from_der(&key(), "https://cert.example/1").unwrap();
    assert!(!passport.is_signed_by(&signer.public_key()), "a signature was guessed");
    // Only numbers and plain identifiers are written.
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !texts().all(|text| is_plain(text)) || passport.kind == PassportKind::Base {
        return;
    }
    let own = match passport.kind {
        PassportKind::Div => Claims { attestation: None, origin_id: "".into(), ..claims.clone() },
        PassportKind::Shaken | PassportKind::Base => Claims { diverted: "".into(), ..claims.clone() },
    };
    let mut value = signer.identity(passport.kind, &own);
    if value.len() > IDENTITY_BYTES_MAX || own.origin.is_empty() {
        return;
    }
    let again = Passport::parse(&value).unwrap();
    assert_eq!((&again.claims, again.kind), (&own, passport.kind));
    assert!(again.is_signed_by(&signer.public_key()));
    // One bit of what is signed.
    if let Some(byte) = value.get_mut(bytes.len() % 40) {
        *byte ^= 1;
    }
    let is_signed = |changed: Passport<'_>| changed.is_signed_by(&signer.public_key());
    assert!(!Passport::parse(&value).is_ok_and(is_signed));
}

/// Private key of P-256 in the form of SEC 1 (RFC 5915), with the number 7.
fn key() -> Vec<u8> {
    let mut der = b"\x30\x31\x02\x01\x01\x04\x20".to_vec();
    der.extend_from_slice(&[7; 32]);
    der.extend_from_slice(b"\xa0\x0a\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07");
    der
}
