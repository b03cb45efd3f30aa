//! Settings of authentication and registration: rules for passwords, realms, certificates of users, times of bindings.

use super::Network;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_auth::{Algorithm, DigestPolicy};
use ringway_sansio::{Instant, PeerNames};

/// `[auth]`. [`AuthConfig::for_realm`] has the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthConfig {
    /// False: no passwords, every sender is believed. Default: true.
    pub enabled: bool,
    /// Realms of the challenges, of 1 to 255 bytes each.
    pub realms: Realms,
    /// Algorithms, offered in this order (RFC 8760 §2.4); at least one. Default: MD5.
    pub algorithms: Vec<Algorithm>,
    /// Lifetime of a nonce, 1 s to 1 day. Default: 300 s.
    pub nonce_lifetime: Duration,
    /// Forms of digest that are offered and accepted. Default: nonces with a count, no `auth-int`, nothing of RFC 2069.
    pub digest: DigestPolicy,
    /// True: all requests inside dialogs are challenged too, not only those from another address than their side has. Default:
    /// false.
    pub in_dialog: bool,
    /// Methods of callers without a password that reach users of `domains`. Default: [`Strangers::Call`].
    pub strangers: Strangers,
    /// A sender who has proven nothing gets the same response for a user that does not exist and for one without a binding. Default: false.
    pub hide_users: bool,
    /// REFER of callers without a password passes inside their calls: the called phone dials what they name. Default: false.
    pub stranger_refer: bool,
    /// Networks of trusted proxies: their contacts and identities are believed. At most 1,000. Default: none.
    pub trusted: Vec<Network>,
    /// Networks of proxies that check no passwords: their Path counts, and limits are those of the address that they put into Via. At
    /// most 1,000. Default: none.
    pub fronts: Vec<Network>,
    /// Client certificates that count. Default: none.
    pub certificates: CertificateRules,
}

/// Methods of callers without a password that reach our users (`[auth] strangers`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strangers {
    /// INVITE, ACK, CANCEL and OPTIONS.
    #[default]
    Call,
    /// No method: every caller needs a password.
    None,
    /// Every method.
    All,
}

impl AuthConfig {
    /// Defaults with this realm for all domains.
    pub fn for_realm(realm: impl Into<Realms>) -> Self {
        Self {
            enabled: true,
            realms: realm.into(),
            algorithms: vec![Algorithm::Md5],
            nonce_lifetime: Duration::from_secs(300),
            digest: DigestPolicy::default(),
            in_dialog: false,
            strangers: Strangers::default(),
            hide_users: false,
            stranger_refer: false,
            trusted: Vec::new(),
            fronts: Vec::new(),
            certificates: CertificateRules::default(),
        }
    }
}

// Client certificates that prove an identity (RFC 5922): a neighbour's, and a user's.
//
// A certificate proves something about the requests of its own connection only: its names come with each message
// ([`Received::peer`](ringway_sansio::Received::peer)), and nothing in a request refers to another connection's.

/// Certificates that count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateRules {
    /// True: a certificate for `sip:user@domain` replaces the password of that user.
    pub users: bool,
    /// Domains of neighbours, whose certificates count as addresses in `[auth] trusted` do.
    pub trusted: Vec<String>,
}

impl CertificateRules {
    /// True for a peer with the certificate of a trusted neighbour.
    pub(crate) fn is_trusted(&self, peer: Option<&PeerNames>, now: Instant) -> bool {
        peer.is_some_and(|peer| self.trusted.iter().any(|name| peer.is_domain(name, now)))
    }
}

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

/// `[registrar]`, with [`RegistrarConfig::min_expires_s`] ≤ [`RegistrarConfig::default_expires_s`] ≤
/// [`RegistrarConfig::max_expires_s`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrarConfig {
    /// Minimum in seconds, from 1; a shorter expiry gets 423. Default: 60.
    pub min_expires_s: u32,
    /// Default in seconds, from 1, for contacts without an expiry. Default: 3,600.
    pub default_expires_s: u32,
    /// Maximum in seconds, from 1; longer expiries are reduced to it. Default: 7,200.
    pub max_expires_s: u32,
    /// Maximum number of contacts of a user, 1 to 1,000. Default: 10.
    pub max_contacts: usize,
    /// True: a phone that asks for it registers its flows (RFC 5626). Default: true.
    pub outbound: bool,
    /// True: a phone that asks for it gets URIs of its own (RFC 5627). Default: false.
    pub gruu: bool,
    /// Flow-Timer of a phone with outbound, in seconds (RFC 5626 §4.4), 10 to 3,600; 0: none, so that the phone has its own time.
    /// Default: 0.
    pub flow_timer_s: u32,
    /// Service-Route of every phone (RFC 3608), the first hop first: values that are sent as they are; at most 4. Default: none.
    pub service_route: Vec<String>,
}

impl Default for RegistrarConfig {
    fn default() -> Self {
        Self {
            min_expires_s: 60,
            default_expires_s: 3600,
            max_expires_s: 7200,
            max_contacts: 10,
            outbound: true,
            gruu: false,
            flow_timer_s: 0,
            service_route: Vec::new(),
        }
    }
}
