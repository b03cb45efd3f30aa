//! Signatures of ES256, and the encoding of a token's parts.

use alloc::vec::Vec;
use base64ct::{Base64UrlUnpadded, Encoding};
use p256::ecdsa::signature::Verifier as _;
use p256::ecdsa::{Signature, VerifyingKey};

/// True if the public key has signed these bytes.
pub(super) fn has_signed(public_key: &[u8], signed: &[u8], signature: &[u8]) -> bool {
    let key = VerifyingKey::from_sec1_bytes(public_key).ok();
    let signature = Signature::from_slice(signature).ok();
    key.zip(signature).is_some_and(|(key, signature)| key.verify(signed, &signature).is_ok())
}

/// Bytes in base64url without padding.
pub(super) fn encoded(bytes: &[u8]) -> Vec<u8> {
    let mut out = alloc::vec![0; Base64UrlUnpadded::encoded_len(bytes)];
    let len = Base64UrlUnpadded::encode(bytes, &mut out).map_or(0, str::len);
    out.truncate(len);
    out
}

/// Bytes of a text in base64url without padding.
pub(super) fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = text.to_vec();
    let len = Base64UrlUnpadded::decode_in_place(&mut out).ok()?.len();
    out.truncate(len);
    Some(out)
}
