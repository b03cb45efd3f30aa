//! MESSAGE-INTEGRITY with short-term credentials (RFC 8489 §9.1, §14.5).

use super::message::{Message, with_length};
use super::{HEADER_BYTES, attribute};
use hmac::{Hmac, KeyInit as _, Mac};
use sha1::Sha1;

impl Message<'_> {
    /// True if the message has MESSAGE-INTEGRITY with this password.
    pub fn has_integrity(&self, password: &[u8]) -> bool {
        let Some((before, value)) = self.before(attribute::MESSAGE_INTEGRITY) else { return false };
        // The length counts up to the end of this attribute.
        let length = before.len() - HEADER_BYTES + 4 + DIGEST_BYTES;
        let Some((header, attributes)) = before.split_first_chunk::<HEADER_BYTES>() else { return false };
        let Some(header) = with_length(*header, length) else { return false };
        let Some(mac) = mac(password, &[&header, attributes]) else { return false };
        mac.verify_slice(value).is_ok()
    }
}

/// HMAC-SHA1 over `parts`, whose header length already includes the attribute.
pub(super) fn digest(password: &[u8], parts: &[&[u8]]) -> [u8; DIGEST_BYTES] {
    mac(password, parts).map_or([0; DIGEST_BYTES], |mac| mac.finalize().into_bytes().into())
}

/// `None` cannot happen: HMAC takes keys of any length.
fn mac(password: &[u8], parts: &[&[u8]]) -> Option<Hmac<Sha1>> {
    let mut mac = Hmac::<Sha1>::new_from_slice(password).ok()?;
    for part in parts {
        mac.update(part);
    }
    Some(mac)
}

/// Length of the digest.
pub(super) const DIGEST_BYTES: usize = 20;
