//! Settings of authentication.

use super::{CertificateRules, Network, Realms};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_auth::{Algorithm, DigestPolicy};

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
            stranger_refer: false,
            trusted: Vec::new(),
            fronts: Vec::new(),
            certificates: CertificateRules::default(),
        }
    }
}
