//! Addresses-of-record of accounts.

use crate::{Account, AccountId, Config};
use alloc::vec::Vec;
use ringway_sip::{Scheme, Uri};

/// An account of the configuration is not usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadAccount {
    /// Which.
    pub account: AccountId,
    /// Why.
    pub reason: &'static str,
}

impl core::fmt::Display for BadAccount {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "account {}: {}", self.account.0 + 1, self.reason)
    }
}

impl core::error::Error for BadAccount {}

impl Account {
    /// The address-of-record as a URI; checked by [`check`].
    pub(crate) fn uri(&self) -> Option<Uri<'_>> {
        Uri::parse(self.aor.as_bytes()).ok()
    }

    /// The user part as written; `None` for an address-of-record without one.
    pub(crate) fn user(&self) -> Option<&[u8]> {
        self.uri().and_then(|uri| uri.user())
    }

    /// `"Name" <sip:alice@example.org>`, as From and To have it.
    pub(crate) fn name_addr(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.display_name.is_empty() {
            out.push(b'"');
            for byte in self.display_name.bytes().filter(|&byte| byte >= b' ' && byte != 127) {
                if matches!(byte, b'"' | b'\\') {
                    out.push(b'\\');
                }
                out.push(byte);
            }
            out.extend_from_slice(b"\" ");
        }
        out.push(b'<');
        out.extend_from_slice(self.aor.as_bytes());
        out.push(b'>');
        out
    }

    /// The address-of-record's domain, with its port: what a REGISTER is addressed to (RFC 3261 §10.2).
    pub(crate) fn registrar_uri(&self) -> Vec<u8> {
        let mut out = b"sip:".to_vec();
        if let Some(uri) = self.uri() {
            out.extend_from_slice(uri.host().as_bytes());
            if let Some(port) = uri.port() {
                out.push(b':');
                ringway_sip::write_number(&mut out, u64::from(port));
            }
        }
        out
    }
}

/// Refuses accounts that nothing could be sent for.
pub(crate) fn check(config: &Config) -> Result<(), BadAccount> {
    for (place, account) in config.accounts.iter().enumerate() {
        let reason = match account.uri() {
            None => "the address is not a SIP URI like sip:alice@example.org",
            Some(uri) if uri.scheme() != Scheme::Sip => "only sip: addresses are supported yet",
            Some(uri) if !uri.headers().is_empty() => "the address must not have headers",
            Some(_) => continue,
        };
        return Err(BadAccount { account: AccountId(place), reason });
    }
    Ok(())
}
