//! Realms of the domains.

use alloc::string::String;
use alloc::vec::Vec;

/// Realm of each domain's users (RFC 3261 §22.1): one for all, and those of domains with one of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Realms {
    general: String,
    /// Domain in lower case, and its realm.
    own: Vec<(String, String)>,
}

impl Realms {
    /// Gives a domain a realm of its own. False if it has one.
    pub fn add(&mut self, domain: &str, realm: String) -> bool {
        let domain = domain.to_ascii_lowercase();
        let is_new = self.own.iter().all(|(other, _)| *other != domain);
        if is_new {
            self.own.push((domain, realm));
        }
        is_new
    }

    /// Realm of the users of `domain`, which is in lower case.
    pub fn of(&self, domain: &[u8]) -> &str {
        let own = self.own.iter().find(|(other, _)| other.as_bytes() == domain);
        own.map_or(&self.general, |(_, realm)| realm)
    }

    /// Realm of the domains without one of their own.
    pub fn general(&self) -> &str {
        &self.general
    }

    /// Domains with a realm of their own, and these.
    pub fn own(&self) -> impl Iterator<Item = (&str, &str)> {
        self.own.iter().map(|(domain, realm)| (domain.as_str(), realm.as_str()))
    }

    /// True if this is one of them, however it is written.
    pub(crate) fn contain(&self, realm: &[u8]) -> bool {
        let realm = realm.trim_ascii();
        let is_it = |own: &str| realm.eq_ignore_ascii_case(own.as_bytes().trim_ascii());
        is_it(&self.general) || self.own.iter().any(|(_, own)| is_it(own))
    }

    /// True if a domain has a realm of its own.
    pub(crate) const fn are_several(&self) -> bool {
        !self.own.is_empty()
    }
}

impl<T: Into<String>> From<T> for Realms {
    fn from(general: T) -> Self {
        Self { general: general.into(), own: Vec::new() }
    }
}
