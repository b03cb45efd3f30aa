//! Settings of orders, and what makes them impossible.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Settings of `[tls.acme]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeConfig {
    /// URL of the directory (RFC 8555 §7.1.1).
    pub directory: String,
    /// `mailto:` URI of the administrator.
    pub contact: Option<String>,
    /// Names of the certificate, at least one, in lower case.
    pub domains: Vec<String>,
    /// Proof that the domains are of this server.
    pub challenge: ChallengeKind,
    /// Folder with the account, the certificate and its key.
    pub folder: PathBuf,
    /// PEM file with the authorities of the directory's own certificate. `None`: those of the system.
    pub ca: Option<PathBuf>,
}

impl AcmeConfig {
    /// Maximum number of names of a certificate, as of Let's Encrypt.
    pub const DOMAINS_MAX: usize = 100;
    /// Directory of Let's Encrypt.
    pub const DEFAULT_DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";
}

/// Kind of the challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengeKind {
    /// HTTP-01 (RFC 8555 §8.3), answered at this address while an order waits for it.
    Http01(SocketAddr),
    /// TLS-ALPN-01 (RFC 8737), answered by the TLS listeners.
    TlsAlpn01,
}

/// Checks the URL of a directory.
///
/// # Errors
/// A sentence about what to give.
pub fn check_directory(url: &str) -> Result<(), AcmeError> {
    let host = url
        .parse::<hyper::Uri>()
        .ok()
        .and_then(|uri| (uri.scheme_str() == Some("https")).then(|| uri.host().map(str::to_owned)).flatten());
    match host {
        Some(host) if !host.is_empty() => Ok(()),
        _ => Err(AcmeError::new(format!(
            "{url:?} is no https: URL; write as {:?}",
            AcmeConfig::DEFAULT_DIRECTORY
        ))),
    }
}

/// Checks the URI of a contact.
///
/// # Errors
/// A sentence about what to give.
pub fn check_contact(uri: &str) -> Result<(), AcmeError> {
    let is_address = uri.strip_prefix("mailto:").is_some_and(|address| {
        let has_two_sides =
            address.split_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty());
        has_two_sides && address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',' && byte != b'?')
    });
    match is_address && uri.len() <= NAME_BYTES_MAX {
        true => Ok(()),
        false => Err(AcmeError::new(format!("{uri:?} is no address; write as \"mailto:admin@example.org\""))),
    }
}

/// Checks a name of a certificate: a host name with a dot, not an address and without a wildcard.
///
/// # Errors
/// A sentence about why none is issued for it.
pub fn check_domain(name: &str) -> Result<(), AcmeError> {
    let refused = |why: &str| Err(AcmeError::new(format!("{name:?} {why}")));
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    if bare.parse::<IpAddr>().is_ok() {
        return refused("is an address: certificates are ordered for host names");
    }
    if name.starts_with("*.") {
        return refused("is a wildcard, which phones refuse (RFC 5922); list the names");
    }
    let is_label = |label: &str| {
        let is_inside = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        (1..=63).contains(&label.len()) && is_inside && !label.starts_with('-') && !label.ends_with('-')
    };
    if name.len() > NAME_BYTES_MAX || !name.contains('.') || !name.split('.').all(is_label) {
        return refused("is no host name that an authority issues for; write as \"sip.example.org\"");
    }
    Ok(())
}

/// Failure of an order, or of a setting, as a sentence for people. Text of the directory in it is printable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeError(String);

impl AcmeError {
    /// Error with this text, which becomes printable.
    pub fn new(text: impl AsRef<str>) -> Self {
        // A directory's texts come into the log.
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        Self(text.as_ref().chars().take(ERROR_CHARS_MAX).map(printable).collect())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AcmeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AcmeError {}

/// Maximum length of a host name, and of a contact.
const NAME_BYTES_MAX: usize = 253;
const ERROR_CHARS_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_certificates_are_host_names() {
        for name in ["example.org", "sip.example.org", "xn--bcher-kva.example", "a1.b-2.example"] {
            assert_eq!(check_domain(name), Ok(()), "{name}");
        }
        for (name, why) in [
            ("192.0.2.1", "is an address"),
            ("2001:db8::1", "is an address"),
            ("[2001:db8::1]", "is an address"),
            ("*.example.org", "is a wildcard"),
            ("localhost", "is no host name"),
            ("example..org", "is no host name"),
            ("-a.example.org", "is no host name"),
            ("a_b.example.org", "is no host name"),
            ("a/b.example.org", "is no host name"),
            ("", "is no host name"),
        ] {
            let error = check_domain(name).unwrap_err().to_string();
            assert!(error.contains(why), "{name}: {error}");
        }
        assert!(check_domain(&format!("{}.example.org", "a".repeat(64))).is_err());
    }

    #[test]
    fn directories_are_https_and_contacts_are_addresses_of_mail() {
        assert_eq!(check_directory(AcmeConfig::DEFAULT_DIRECTORY), Ok(()));
        assert_eq!(check_directory("https://localhost:14000/dir"), Ok(()));
        for wrong in ["http://ca.example/dir", "ca.example", "https://", "https:///dir", ""] {
            assert!(check_directory(wrong).is_err(), "{wrong}");
        }
        assert_eq!(check_contact("mailto:admin@example.org"), Ok(()));
        for wrong in ["admin@example.org", "mailto:admin", "mailto:@a", "mailto:a@b,c@d", "mailto:a@b?to=c"] {
            assert!(check_contact(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn texts_of_a_directory_are_printable_and_short() {
        let error = AcmeError::new(format!("a\nb\u{1b}[31m{}", "x".repeat(10_000))).to_string();
        assert!(error.starts_with("a b [31m") && error.len() == ERROR_CHARS_MAX, "{error}");
    }
}
