//! Addresses-of-record of accounts.

use crate::draft::is_sips;
use crate::draft::{HeaderFields, without_headers};
use crate::{Account, AccountId, Config, RouteError};
use alloc::string::String;
use alloc::vec::Vec;
use ringway_sansio::Transport;
use ringway_sip::{Scheme, Uri, grammar};

/// Error of an account in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("account {}: {reason}", .account.0 + 1)]
pub struct BadAccount {
    /// Index of the account.
    pub account: AccountId,
    /// Reason.
    pub reason: &'static str,
}

impl Account {
    /// Address-of-record as a URI; checked by [`check`].
    pub(crate) fn uri(&self) -> Option<Uri<'_>> {
        Uri::parse(self.aor.as_bytes()).ok()
    }

    /// User part as written; `None` for an address-of-record without one.
    pub(crate) fn user(&self) -> Option<&[u8]> {
        self.uri().and_then(|uri| uri.user())
    }

    /// Value of From and To: `"Name" <sip:alice@example.org>`.
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

    /// True for a `sips:` address-of-record: its requests need TLS on every hop.
    pub(crate) fn is_sips(&self) -> bool {
        is_sips(self.aor.as_bytes())
    }

    fn scheme(&self) -> &'static str {
        if self.is_sips() { "sips:" } else { "sip:" }
    }

    /// Completes the `target` of a call to a URI: without a scheme that of the account is prepended, and a user alone gets
    /// the account's domain. Headers of the URI become header fields of the request.
    pub(crate) fn full_target(&self, target: &str) -> Result<(Vec<u8>, HeaderFields), RouteError> {
        let target = target.trim();
        let has_scheme = ["sip:", "sips:", "tel:"]
            .iter()
            .any(|scheme| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
        let mut uri = String::new();
        if !has_scheme {
            uri.push_str(self.scheme());
        }
        // A user may have a question mark, a host may not.
        let end = target.find('?').filter(|_| !target.contains('@')).unwrap_or(target.len());
        let (address, headers) = target.split_at_checked(end).ok_or(RouteError::Malformed)?;
        uri.push_str(address);
        if !has_scheme && !address.contains(['@', '.', ':', '[']) {
            let domain = self.registrar_uri();
            uri.push('@');
            uri.push_str(&String::from_utf8_lossy(domain.get(self.scheme().len()..).unwrap_or_default()));
        }
        uri.push_str(headers);
        let parsed = Uri::parse(uri.as_bytes()).map_err(|_| RouteError::Malformed)?;
        self.next_hop_to(&parsed)?;
        if parsed.params().value(b"method").is_some_and(|method| method != b"INVITE") {
            return Err(RouteError::Method);
        }
        let (bare, fields) = without_headers(&parsed)?;
        Ok((bare.to_vec(), fields))
    }

    /// Domain of the address-of-record with its port: the Request-URI of a REGISTER (RFC 3261 §10.2). RFC 5630 §5.2: a
    /// `sips:` Contact needs a `sips:` Request-URI.
    pub(crate) fn registrar_uri(&self) -> Vec<u8> {
        let mut out = self.scheme().as_bytes().to_vec();
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

impl Config {
    /// Account of a Request-URI: the one with its user. A URI without a user is for the first.
    pub(crate) fn account_for(&self, uri: &Uri<'_>) -> Option<AccountId> {
        let Some(user) = uri.user() else {
            return (!self.accounts.is_empty()).then_some(AccountId(0));
        };
        let mut wanted = Vec::new();
        grammar::unescape_into(user, &mut wanted);
        let is_it = |account: &Account| {
            let mut own = Vec::new();
            grammar::unescape_into(account.user().unwrap_or_default(), &mut own);
            own == wanted
        };
        self.accounts.iter().position(is_it).map(AccountId)
    }
}

/// Refuses accounts without a valid address-of-record.
pub(crate) fn check(config: &Config) -> Result<(), BadAccount> {
    for (index, account) in config.accounts.iter().enumerate() {
        let reason = match account.uri() {
            None => "the address is not a SIP URI like sip:alice@example.org",
            Some(uri) if !uri.is_sip() => "the address is not a SIP URI like sip:alice@example.org",
            Some(uri) if uri.scheme() == Scheme::Sips && !config.has_transport(Transport::Tls) => {
                "a sips: address needs TLS"
            }
            Some(uri) if !uri.headers().is_empty() => "the address must not have headers",
            Some(_) if account.instance.as_ref().is_some_and(|instance| !is_instance(instance)) => {
                "the instance is not a URN like urn:uuid:00000000-0000-1000-8000-AABBCCDDEEFF"
            }
            Some(_) => continue,
        };
        return Err(BadAccount { account: AccountId(index), reason });
    }
    Ok(())
}

/// True for a text that [`Account::instance`] may be: a URN of characters that need no escape in a header field.
pub fn is_instance(instance: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'-' | b'.' | b'_');
    instance.starts_with("urn:") && instance.len() <= INSTANCE_BYTES_MAX && instance.bytes().all(is_plain)
}

const INSTANCE_BYTES_MAX: usize = 120;
