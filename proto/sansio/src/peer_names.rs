//! Names in the certificate of a connection's peer.

use crate::Instant;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Names in the verified certificate of the peer of a connection (RFC 5922 §7.1).
///
/// They belong to the connection that presented the certificate: a driver passes them with each message of that
/// connection, and with no other ([`Received::peer`](crate::Received::peer)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerNames {
    domains: Vec<Box<str>>,
    users: Vec<Box<str>>,
    expires: Instant,
}

impl PeerNames {
    /// Maximum number of names.
    pub const NAMES_MAX: usize = 16;
    /// Maximum length of a name in bytes.
    pub const NAME_BYTES_MAX: usize = 255;

    /// Names of a certificate that is valid until `expires`: domains, and `sip:` URIs with a user. `None`: there is no name,
    /// or there are more or longer names than the limits.
    pub fn new(domains: Vec<Box<str>>, users: Vec<Box<str>>, expires: Instant) -> Option<Self> {
        let count = domains.len() + users.len();
        let mut lengths = domains.iter().chain(&users).map(|name| name.len());
        let fits = count <= Self::NAMES_MAX && lengths.all(|bytes| bytes <= Self::NAME_BYTES_MAX);
        (count > 0 && fits).then_some(Self { domains, users, expires })
    }

    /// True if the peer is `domain` at `now`: names are compared as a whole and without regard to case, and a wildcard matches
    /// nothing (RFC 5922 §7.2).
    pub fn is_domain(&self, domain: &str, now: Instant) -> bool {
        let plain = |name: &str| name.strip_suffix('.').unwrap_or(name).len();
        let is_same = |name: &str| {
            let (one, other) = (name.get(..plain(name)), domain.get(..plain(domain)));
            !name.contains('*') && one.zip(other).is_some_and(|(one, other)| one.eq_ignore_ascii_case(other))
        };
        now < self.expires && self.domains.iter().any(|name| is_same(name))
    }

    /// True if the peer is a domain directly below `parent` at `now`.
    pub fn is_below(&self, parent: &str, now: Instant) -> bool {
        let is_below = |name: &str| {
            let label = name.split_once('.').filter(|(label, _)| !label.is_empty() && *label != "*");
            label.is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(parent))
        };
        now < self.expires && self.domains.iter().any(|name| is_below(name))
    }

    /// The `sip:` URIs of users, as they are written in the certificate; none once it has expired.
    pub fn users(&self, now: Instant) -> impl Iterator<Item = &str> {
        let users = if now < self.expires { self.users.as_slice() } else { &[] };
        users.iter().map(|user| &**user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const NOW: Instant = Instant::from_secs(1000);

    fn names(domains: &[&str], users: &[&str]) -> Option<PeerNames> {
        let boxed = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect();
        PeerNames::new(boxed(domains), boxed(users), Instant::from_secs(2000))
    }

    #[test]
    fn a_domain_is_compared_as_a_whole() {
        let peer = names(&["Trunk.Example.net", "*.example.com"], &[]).unwrap();
        for (domain, expected) in [
            ("trunk.example.net", true),
            ("trunk.example.net.", true),
            ("example.net", false),
            ("a.trunk.example.net", false),
            ("a.example.com", false),
            ("*.example.com", false),
            ("", false),
        ] {
            assert_eq!(peer.is_domain(domain, NOW), expected, "{domain}");
        }
        assert!(!peer.is_domain("trunk.example.net", Instant::from_secs(2000)), "it has expired");
    }

    #[test]
    fn a_parent_is_that_of_a_whole_label() {
        for (name, expected) in [
            ("a.Node.internal", true),
            ("node.internal", false),
            (".node.internal", false),
            ("*.node.internal", false),
            ("b.a.node.internal", false),
            ("a.node.internal.example", false),
            ("anode.internal", false),
        ] {
            let peer = names(&[name], &[]).unwrap();
            assert_eq!(peer.is_below("node.internal", NOW), expected, "{name}");
            assert!(!peer.is_below("node.internal", Instant::from_secs(2000)), "it has expired");
        }
    }

    #[test]
    fn an_expired_certificate_has_no_users() {
        let peer = names(&[], &["sip:alice@example.org"]).unwrap();
        assert_eq!(peer.users(NOW).collect::<Vec<_>>(), ["sip:alice@example.org"]);
        assert_eq!(peer.users(Instant::from_secs(2000)).count(), 0);
    }

    #[test]
    fn names_over_the_limits_are_none() {
        assert_eq!(names(&[], &[]), None);
        assert_eq!(names(&vec!["a"; PeerNames::NAMES_MAX + 1], &[]), None);
        assert!(names(&vec!["a"; PeerNames::NAMES_MAX], &[]).is_some());
        let long = "a".repeat(PeerNames::NAME_BYTES_MAX + 1);
        assert_eq!(names(&[&long], &[]), None);
    }
}
