//! Signed identities of callers (STIR).

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
pub(crate) use ringway_auth::stir::Attestation;
use ringway_auth::stir::Signer;

/// Key that signs calls, and rules for the certificates of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StirConfig {
    /// Key of the calls to trunks that get them signed; `None`: there are no such trunks.
    pub signer: Option<Arc<Signer>>,
    /// UUID of this server in the calls that it signs (`origid`, RFC 8588 §5).
    pub origin_id: Box<str>,
    /// Hosts that certificates of others are fetched from; none: calls of trunks are not verified. At most 100.
    pub hosts: Vec<CertificateHost>,
    /// Calls of a trunk that are verified in a second, 1 to 10,000. Default: 50.
    pub checks_per_second: u32,
}

/// Host that certificates are fetched from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateHost {
    /// Any.
    Any,
    /// This one.
    Host(Box<str>),
    /// Those below this domain.
    Below(Box<str>),
}

/// Signed identities in the calls to and from a trunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrunkStir {
    /// True: calls to it are signed.
    pub signs: bool,
    /// Verification of the calls from its networks.
    pub check: CallerCheck,
}

/// Verification of a call's identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallerCheck {
    /// None.
    #[default]
    Off,
    /// The called phone gets the result (`verstat`).
    Verify,
    /// The same, and a call without a valid identity is refused.
    Require,
}

impl Default for StirConfig {
    fn default() -> Self {
        Self { signer: None, origin_id: Box::default(), hosts: Vec::new(), checks_per_second: 50 }
    }
}

impl CertificateHost {
    /// Reads `*`, `certificates.example.org` or `*.example.org`. `None`: it is no such name.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let is_name = |name: &str| {
            let is_label = |label: &str| {
                let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
                !label.is_empty() && label.bytes().all(is_part)
            };
            name.len() <= HOST_BYTES_MAX && name.split('.').all(is_label)
        };
        match (&*text, text.strip_prefix("*.")) {
            ("*", _) => Some(Self::Any),
            (_, Some(domain)) if is_name(domain) => Some(Self::Below(domain.into())),
            (name, None) if is_name(name) => Some(Self::Host(name.into())),
            (_, _) => None,
        }
    }

    fn has(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        match self {
            Self::Any => true,
            Self::Host(own) => host.eq_ignore_ascii_case(own),
            Self::Below(domain) => {
                let at = host.len().checked_sub(domain.len() + 1);
                let end = at.and_then(|at| host.get(at..));
                let end = end.and_then(|end| end.strip_prefix('.'));
                end.is_some_and(|end| end.eq_ignore_ascii_case(domain))
            }
        }
    }
}

impl StirConfig {
    /// True for the URL of a certificate that may be fetched: `https`, at one of the hosts.
    pub(crate) fn may_fetch(&self, url: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}#@".contains(&byte);
        let Some(rest) = url.strip_prefix("https://").filter(|_| url.len() <= URL_BYTES_MAX) else {
            return false;
        };
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "443"));
        let is_name = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'));
        rest.bytes().all(is_plain)
            && !host.is_empty()
            && is_name
            && port.parse::<u16>().is_ok_and(|port| port != 0)
            && port.bytes().all(|byte| byte.is_ascii_digit())
            && self.hosts.iter().any(|own| own.has(host))
    }
}

/// Maximum length of the name of a host.
const HOST_BYTES_MAX: usize = 253;
/// Maximum length of the URL of a certificate.
const URL_BYTES_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn with(hosts: &[&str]) -> StirConfig {
        let hosts = hosts.iter().map(|host| CertificateHost::parse(host).unwrap()).collect();
        StirConfig { hosts, ..StirConfig::default() }
    }

    #[test]
    fn certificates_are_fetched_from_listed_hosts_only() {
        let listed = with(&["cert.example.org", "*.sti.example"]);
        for url in [
            "https://cert.example.org/a.pem",
            "https://CERT.example.org:8443/a.pem?b=1",
            "https://cert.example.org./",
            "https://a.sti.example/",
            "https://b.a.STI.example",
        ] {
            assert!(listed.may_fetch(url), "{url}");
        }
        for url in [
            "http://cert.example.org/a.pem",
            "ftp://cert.example.org/",
            "https:cert.example.org",
            "https://",
            "https:///etc/passwd",
            "https://example.org/",
            "https://cert.example.org.evil.example/",
            "https://evil.example/https://cert.example.org/",
            "https://cert.example.org@evil.example/",
            "https://cert.example.org:1@evil.example/",
            "https://evil.example#@cert.example.org/",
            "https://evil.example\\@cert.example.org/",
            "https://cert.example.org:0/",
            "https://cert.example.org:99999/",
            "https://cert.example.org:+80/",
            "https://cert.example.org:/",
            "https://sti.example/",
            "https://asti.example/",
            "https://cert.example.org/a b",
            "https://cert.example.org/a\r\nHost: b",
            "https://127.0.0.1/",
            "https://[::1]/",
        ] {
            assert!(!listed.may_fetch(url), "{url}");
        }
        assert!(!listed.may_fetch(&alloc::format!("https://cert.example.org/{}", "a".repeat(500))));
        assert!(!with(&[]).may_fetch("https://cert.example.org/"));
        assert!(with(&["*"]).may_fetch("https://any.example/c.pem"));
        assert!(!with(&["*"]).may_fetch("https://[::1]/c.pem"));
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in ["", "*.", "a..b", "a b", "*a.org", "a.*.org", "https://a.org", "a.org/", "a_b.org"] {
            assert_eq!(CertificateHost::parse(text), None, "{text:?}");
        }
    }
}
