//! Trunks and the rules for their use.

use crate::config::identity::TrunkIdentity;
use crate::config::network::Network;
use crate::config::stir::TrunkStir;
use crate::{HeaderRule, NumberForm};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use ringway_sip::Uri;

/// Gateway or carrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trunk {
    /// Name in the log.
    pub name: String,
    /// `sip:` or `sips:` URI without a user.
    pub uri: String,
    /// Index in [`Config::neighbours`](crate::Config::neighbours), if it is probed.
    pub neighbour: Option<usize>,
    /// Credentials for its challenges.
    pub login: Option<TrunkLogin>,
    /// True: this server registers there with the credentials, and calls come to the contact that it registered (decision 0057).
    pub registers: bool,
    /// True: it registers all numbers of its account at once (RFC 6140), so that calls have theirs in the Request-URI.
    pub bulk: bool,
    /// Networks that its requests come from.
    pub networks: Vec<Network>,
    /// Time without any response after which the next trunk of a route is tried.
    pub silence: Duration,
    /// Caller's number.
    pub caller: CallerNumber,
    /// Numbers of users, which replace [`Trunk::caller`]: user part, number. Sorted by user part.
    pub callers: Vec<(String, String)>,
    /// Permission to show the caller's number.
    pub privacy: CallerPrivacy,
    /// Digits before a number with its country code at this carrier, in place of `+`; empty: not known. Destination rules apply to such a
    /// number with `+` too.
    pub international: Vec<String>,
    /// Domain of the caller's number; `None`: the host of the URI.
    pub domain: Option<String>,
    /// Limits of the calls to it; `None`: none.
    pub call_limits: Option<TrunkLimits>,
    /// Limits of the calls from it; `None`: none.
    pub calls_in: Option<TrunkLimits>,
    /// Maximum number of calls to it and from it together that are under way, 1 to 10,000; `None`: none.
    pub calls_both: Option<u32>,
    /// The caller's identity in other header fields.
    pub identity: TrunkIdentity,
    /// Signed identities in its calls.
    pub stir: TrunkStir,
    /// Form of the numbers in its requests.
    pub numbers_in: NumberForm,
    /// Form of the numbers in requests to it.
    pub numbers_out: NumberForm,
    /// Rules for header fields of its messages.
    pub headers: Vec<HeaderRule>,
    /// True: it sees neither addresses nor Call-IDs of the sides inside (decision 0063).
    pub hides_topology: bool,
    /// True: requests to it say that this server can be asked for a rate, not for a loss only (RFC 7415).
    pub takes_rate: bool,
    /// True: no gateway, but a node behind this server, for requests to [`Config::edge_domains`](crate::Config::edge_domains). No route
    /// leads to it, and its challenges are for the phone.
    pub is_node: bool,
}

/// Limits of calls; `None`: without a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrunkLimits {
    /// Calls that are under way, at least 1.
    pub under_way: Option<u32>,
    /// Calls that begin in a second of the clock, at least 1.
    pub per_second: Option<u32>,
}

/// Credentials for a trunk.
#[derive(Clone, PartialEq, Eq)]
pub struct TrunkLogin {
    /// User name in the digest.
    pub username: String,
    /// Password.
    pub password: String,
    /// Only realm that gets credentials; `None`: any realm of the trunk.
    pub realm: Option<String>,
}

/// Caller's number in P-Asserted-Identity (RFC 3325).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallerNumber {
    /// Address-of-record of the user.
    User,
    /// This number.
    Number(String),
}

/// Permission to show the caller's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallerPrivacy {
    /// The caller decides.
    #[default]
    None,
    /// The trunk must not show it (`Privacy: id`, RFC 3325 §7).
    Id,
}

impl Trunk {
    /// Trunk at this URI that asks for nothing: without credentials and networks of its own, for the user's own number.
    pub fn at(name: &str, uri: &str) -> Self {
        Self {
            name: name.into(),
            uri: uri.into(),
            neighbour: None,
            login: None,
            registers: false,
            bulk: false,
            networks: Vec::new(),
            silence: Duration::from_secs(4),
            caller: CallerNumber::User,
            callers: Vec::new(),
            privacy: CallerPrivacy::None,
            international: Vec::new(),
            domain: None,
            call_limits: None,
            calls_in: None,
            calls_both: None,
            identity: TrunkIdentity::default(),
            stir: TrunkStir::default(),
            numbers_in: NumberForm::Unchanged,
            numbers_out: NumberForm::Unchanged,
            headers: Vec::new(),
            hides_topology: false,
            takes_rate: false,
            is_node: false,
        }
    }

    /// Maximum number of trunks that are gateways or carriers.
    pub const TRUNKS_MAX: usize = 10_000;

    /// True if calls to it are limited.
    pub(crate) const fn limits_calls_to(&self) -> bool {
        self.call_limits.is_some() || self.calls_both.is_some()
    }

    /// True if calls from it are limited.
    pub(crate) const fn limits_calls_from(&self) -> bool {
        self.calls_in.is_some() || self.calls_both.is_some()
    }

    /// True if calls that are under way are counted.
    pub fn counts_calls(&self) -> bool {
        let counts = |limits: &Option<TrunkLimits>| limits.is_some_and(|limits| limits.under_way.is_some());
        counts(&self.call_limits) || counts(&self.calls_in) || self.calls_both.is_some()
    }

    pub(super) fn parsed(&self) -> Option<Uri<'_>> {
        Uri::parse(self.uri.as_bytes()).ok()
    }

    /// Digits before a number with its country code: its own, or without them those that most carriers have.
    pub(crate) fn international_or_usual(&self) -> impl Iterator<Item = &str> {
        let usual = if self.international.is_empty() { &USUAL_PREFIXES[..] } else { &[] };
        self.international.iter().map(String::as_str).chain(usual.iter().copied())
    }

    /// User name of the account that it registers.
    pub(crate) fn account(&self) -> &str {
        self.login.as_ref().map_or("", |login| login.username.as_str())
    }

    /// Domain of the account: the one of the caller's number, or the host of the URI.
    pub(crate) fn account_domain(&self) -> &[u8] {
        let host = || self.parsed().map_or(&b""[..], |uri| uri.host().as_bytes());
        self.domain.as_deref().map_or_else(host, str::as_bytes)
    }

    /// True for an address that its requests come from.
    pub(crate) fn has_network(&self, ip: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(ip))
    }
}

/// International prefixes that most carriers understand.
const USUAL_PREFIXES: [&str; 2] = ["00", "011"];

/// Without the password.
impl fmt::Debug for TrunkLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrunkLogin").field("username", &self.username).finish_non_exhaustive()
    }
}
