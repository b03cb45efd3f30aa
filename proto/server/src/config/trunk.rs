//! Trunks and the rules for their use.

use crate::config::emergency::Emergency;
use crate::config::identity::TrunkIdentity;
use crate::config::network::Network;
use crate::config::stir::TrunkStir;
use crate::config::trunk_list::TrunkList;
use crate::config::{TrunkOrder, in_order};
use crate::{DestinationRules, Dialing, HeaderRule, Number, NumberForm, RateTable, RouteTable, RouteTo};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::hash::Hasher;
use core::net::IpAddr;
use core::time::Duration;
use ringway_sansio::PartHasher;
use ringway_sip::Uri;
use siphasher::sip::SipHasher13;

/// Trunks with their routes and destination rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trunking {
    /// Trunks.
    pub trunks: TrunkList,
    /// Routes; they name trunks by their index.
    pub routes: RouteTable,
    /// Costs of numbers at trunks, for routes to the cheapest.
    pub rates: RateTable,
    /// Rules for the numbers that trunks get.
    pub destinations: DestinationRules,
    /// Numbers as users write them; the first one of a domain counts. At most 1,000.
    pub dialing: Vec<Dialing>,
    /// Domains under which numbers are looked up before their routes are used (RFC 6116), in the order of trial; empty: none.
    pub enum_zones: Arc<[Box<str>]>,
    /// Networks that the records of numbers may lead to, beside public addresses of others than trusted proxies.
    pub enum_networks: Vec<Network>,
    /// Emergency calls.
    pub emergency: Emergency,
}

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

impl Trunking {
    /// True if there are trunks.
    pub(crate) fn has_trunks(&self) -> bool {
        cfg!(feature = "operator") && !self.trunks.is_empty()
    }

    /// Trunks of a next hop in the order of trial, and the number as they get it; `None`: it leads to no trunk, or the number has no
    /// form that they could get. With weights the order follows from `draw`.
    pub(crate) fn order_of(&self, to: &RouteTo, number: &Number, draw: u64) -> Option<(TrunkOrder, Number)> {
        match to {
            RouteTo::Trunks { trunks, change } => Some((in_order(trunks, draw), change.of(number)?)),
            RouteTo::ByCost(change) => {
                let number = change.of(number)?;
                Some((self.rates.order_of(&number), number)).filter(|(order, _)| !order.is_empty())
            }
            RouteTo::User(_) => None,
        }
    }

    /// Trunks of a number in the order of trial, for measurements: passes their number, and the first one.
    pub fn first_trunk_of(&self, number: &Number, draw: u64) -> Option<(usize, usize)> {
        let (order, _) = self.order_of(self.routes.of_number(number)?, number, draw)?;
        Some((order.len(), *order.first()?))
    }

    /// True if there are routes, or numbers are looked up.
    pub fn is_on(&self) -> bool {
        cfg!(feature = "operator") && (!self.routes.is_empty() || !self.enum_zones.is_empty())
    }

    /// True if requests may be for `tel:` URIs.
    pub(crate) fn reads_tel(&self) -> bool {
        self.is_on() || self.emergency.is_on()
    }

    /// How users of a domain write numbers.
    pub(crate) fn dialing_of(&self, domain: &[u8]) -> Option<&Dialing> {
        let is_of = |dialing: &&Dialing| {
            dialing.domain.as_ref().is_none_or(|own| own.as_bytes().eq_ignore_ascii_case(domain))
        };
        self.dialing.iter().find(is_of)
    }

    /// Names of the trunks whose addresses are not in the configuration, if there are destination rules.
    pub fn named_without_networks(&self) -> impl Iterator<Item = &str> {
        let has_name = |trunk: &&Trunk| {
            trunk.networks.is_empty() && trunk.parsed().is_some_and(|uri| uri.host().ip().is_none())
        };
        let trunks = if self.destinations.is_empty() { &[] } else { &self.trunks[..] };
        trunks.iter().filter(has_name).map(|trunk| trunk.name.as_str())
    }

    /// Trunks that register, with their indices.
    pub(crate) fn registering(&self) -> impl Iterator<Item = (usize, &Trunk)> {
        self.trunks.registering()
    }

    /// Hash of the trunks that register, in any order; 0: none does. Nodes with the same one divide them among themselves.
    pub fn registering_hash(&self) -> u64 {
        self.registering().fold(0, |sum: u64, (_, trunk)| {
            let mut hash = PartHasher::new(SipHasher13::new());
            hash.part(trunk.name.as_bytes());
            hash.part(trunk.account().as_bytes());
            hash.part(trunk.account_domain());
            sum.wrapping_add(hash.hasher().finish())
        })
    }

    /// Nodes behind this server, with their indices.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (usize, &Trunk)> {
        self.trunks.nodes()
    }

    /// True if there are such nodes.
    pub(crate) fn has_nodes(&self) -> bool {
        self.trunks.index().has_nodes()
    }

    /// True if the trunk with this index is a node behind this server.
    pub(crate) fn is_node(&self, trunk: usize) -> bool {
        self.trunks.get(trunk).is_some_and(|trunk| trunk.is_node)
    }

    /// True for the address of a node behind this server.
    pub(crate) fn has_node_at(&self, ip: IpAddr) -> bool {
        self.nodes().any(|(_, node)| node.has_network(ip))
    }

    /// True if a trunk must not see the inside.
    pub(crate) fn hides_topology(&self) -> bool {
        cfg!(feature = "operator") && self.trunks.index().hides_topology()
    }

    /// The trunk with rules for header fields that has an address.
    pub(crate) fn with_rules_at(&self, ip: IpAddr) -> Option<&Trunk> {
        self.trunks.get(self.find_at(ip, |trunk| !trunk.headers.is_empty())?)
    }

    /// True for an address in the networks of a trunk that is no node.
    pub(crate) fn is_trunk(&self, source: IpAddr) -> bool {
        self.trunk_of(source).is_some()
    }

    /// The first trunk that is no node and has this address in its networks.
    pub(crate) fn trunk_of(&self, source: IpAddr) -> Option<&Trunk> {
        if self.trunks.is_empty() {
            return None;
        }
        self.trunks.get(self.trunks.find_in_networks(source, |_| true)?)
    }

    /// True if some trunk's requests have numbers in a form of its own.
    pub(crate) fn changes_numbers(&self) -> bool {
        self.trunks.index().changes_numbers()
    }

    /// International prefixes of all trunks, each once.
    pub(crate) fn international_of_all(&self) -> impl Iterator<Item = &str> {
        self.trunks.index().international()
    }

    /// Forms in which trunks get numbers, each once, without those that change none.
    pub(crate) fn forms_of_all(&self) -> impl Iterator<Item = &NumberForm> {
        self.trunks.index().forms()
    }

    /// True if a trunk has credentials.
    pub(crate) fn has_logins(&self) -> bool {
        self.trunks.index().has_logins()
    }

    /// The first trunk that has this address, in its URI or its networks, and fits.
    pub(crate) fn find_at(&self, ip: IpAddr, fits: impl Fn(&Trunk) -> bool) -> Option<usize> {
        if self.trunks.is_empty() {
            return None;
        }
        let (by_uri, by_network) =
            (self.trunks.find_address(ip, &fits), self.trunks.find_in_networks(ip, &fits));
        by_uri.into_iter().chain(by_network).min()
    }

    /// True if a next hop with this URI and address is a trunk: its URI has the host, or the address, or its networks do. A
    /// dot at the end of a name does not make another host.
    pub(crate) fn is_at(&self, uri: &Uri<'_>, address: IpAddr) -> bool {
        self.has_address(address) || self.trunks.has_host(uri.host().without_root_dot())
    }

    /// True for an address of a trunk: that in its URI, or one in its networks.
    pub(crate) fn has_address(&self, ip: IpAddr) -> bool {
        self.find_at(ip, |_| true).is_some()
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
