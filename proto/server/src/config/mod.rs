//! Configuration of a server, set at the start and on a reload.

mod auth;
mod caller_limits;
mod cluster;
mod dialplan;
pub(crate) mod domain;
mod emergency;
mod headers;
pub(crate) mod identity;
mod listener;
mod media;
mod network;
mod overload;
mod presence;
mod stir;
mod trunk;
mod trunk_list;
mod trunking;

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
pub use auth::{AuthConfig, CertificateRules, Realms, RegistrarConfig, Strangers};
pub use caller_limits::CallerLimits;
pub use cluster::{Cluster, ClusterSecret, Hold, LinkedNode, Links, NodeState, node_domain};
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
pub use dialplan::{
    BadPattern, BadRoute, CallRate, CallRates, Destination, DestinationRule, DestinationRules, Dialing,
    Number, NumberChange, NumberForm, PatternTable, Rate, RatePrefix, RateTable, Route, RouteMatch,
    RouteTable, RouteTo, WeightedTrunk, WeightedTrunks,
};
pub(crate) use dialplan::{TrunkOrder, in_order, is_plain_name};
pub use domain::{Aor, Authenticated};
pub use emergency::{Emergency, EmergencyNumber, EmergencySite};
pub use headers::{FieldName, HeaderRule, Pattern, RuleAction, RuleDirection, RuleMessages, is_value};
pub use identity::{IdentityTemplate, TrunkIdentity};
pub(crate) use listener::SentBy;
pub use listener::{Advertised, AdvertisedHost, Listener};
pub use media::{MediaConfig, MediaInterface, RelayFailure, RelayRule, SrtpRule};
pub use network::{InnerHost, Network, NotANetwork, is_private};
pub use overload::OverloadConfig;
pub use presence::{PresenceConfig, Watchers};
use ringway_sansio::{Defence, Flow, ListenerId, Transport};
use ringway_sip::{HeaderName, Limits, Message, Uri, Via};
use ringway_transaction::{Timers, reply_address};
pub(crate) use stir::Attestation;
pub use stir::{CallerCheck, CertificateHost, StirConfig, TrunkStir};
pub use trunk::{CallerNumber, CallerPrivacy, Trunk, TrunkLimits, TrunkLogin};
pub use trunk_list::TrunkList;
pub use trunking::Trunking;

/// Settings of a server, equal in every shard. [`Config::for_domains`] has the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Domains that this server is responsible for, in lower case; at least one. The listeners' addresses count as the
    /// first.
    pub domains: Vec<String>,
    /// Listeners, in the order of their [`ListenerId`]s. Default: none.
    pub listeners: Vec<Listener>,
    /// Networks that the addresses of listeners are in, with these addresses, the smallest networks first: a request leaves by a listener at
    /// the address of its next hop's network, if there is one. Default: none.
    pub listener_networks: Vec<(Network, IpAddr)>,
    /// Listeners that were taken out: requests under way end over them, and nothing new is sent by them. Their numbers stay.
    pub removed_listeners: Vec<ListenerId>,
    /// Addresses that listeners show to some peers in place of their own; the first one that fits counts. Default: none.
    pub advertised: Vec<Advertised>,
    /// Addresses of this machine other than loopback: these and loopback count as the same host. Default: none.
    pub machine_addresses: Vec<IpAddr>,
    /// Forwarding or redirecting. Default: [`Mode::Proxy`].
    pub mode: Mode,
    /// False: forward without state (RFC 3261 §16.11). Default: true.
    pub stateful: bool,
    /// True: requests inside dialogs pass this server (RFC 3261 §16.6 step 4). Default: true.
    pub record_route: bool,
    /// Maximum time for which the targets of the same q-value are called before those of the next lower one, 0 s to 180 s; zero: all
    /// are called at once. Default: 20 s.
    pub serial_fork: Duration,
    /// True: contacts of 3xx responses to INVITEs are called (RFC 3261 §16.7 step 4); needs [`Config::stateful`]. Default:
    /// false.
    pub recurse: bool,
    /// Maximum length of a request as a datagram, 1,000 to 65,535 bytes; a longer one is sent over TCP (RFC 3261 §18.1.1). Default:
    /// 1,300.
    pub datagram_bytes_max: u32,
    /// Domains of other registrars, in lower case, whose phones register through this server (RFC 5626 §5); at most 100.
    /// Default: none.
    pub edge_domains: Vec<String>,
    /// Lifetime of a Record-Route mark, 60 s to 365 days. Default: 1 day.
    pub dialog_lifetime: Duration,
    /// Networks of inner hosts that requests may name; a network of one address may be that of this machine; none is loopback. At most
    /// 1,000. Default: none.
    pub inner_networks: Vec<Network>,
    /// False if the program stores no bindings: the host gets no records of them. A reload does not change it. Default: true.
    pub keeps_bindings: bool,
    /// Authentication. Default: passwords of the first domain's realm.
    pub auth: AuthConfig,
    /// The registrar.
    pub registrar: RegistrarConfig,
    /// Servers whose connections are kept open, at most [`NEIGHBOURS_MAX`](crate::NEIGHBOURS_MAX), and the trunks that are probed.
    /// Default: none.
    pub neighbours: Vec<Neighbour>,
    /// This server among the nodes that share their registrations; `None`: it has its own. Default: `None`.
    pub cluster: Option<crate::Cluster>,
    /// This server as one of several nodes; `None`: it is alone. Default: `None`.
    pub links: Option<crate::Links>,
    /// Maximum number of REGISTERs to all trunks in a second, 1 to 1,000. Default: 50.
    pub registrations_per_s: u32,
    /// Trunks and routes. Default: none.
    pub trunking: crate::Trunking,
    /// Limits of the calls of users and domains. Default: none.
    pub caller_limits: CallerLimits,
    /// Signed identities of callers. Default: none.
    pub stir: crate::StirConfig,
    /// Media relays. Default: none.
    pub media: crate::MediaConfig,
    /// Presence. Default: off.
    pub presence: crate::PresenceConfig,
    /// Overload control. Default: off.
    pub overload: OverloadConfig,
    /// T1, T2, T4. Default: those of RFC 3261.
    pub timers: Timers,
    /// Maximum duration of ringing (timer C, RFC 3261 §16.6 step 11): over 3 minutes. Default: 185 s.
    pub timer_c: Duration,
    /// Limits of the parser. Default: its maxima, 65,535 bytes for a message.
    pub message_limits: Limits,
    /// Maximum numbers of transactions of a shard.
    pub transaction_limits: ringway_transaction::Limits,
    /// 32 secret bytes that must survive a restart: the marks of existing dialogs depend on them. Default: zeros, which a server that
    /// others reach must replace.
    pub secret: [u8; 32],
}

/// Features that a configuration uses, read once: what is not used costs a plain call nothing. Each is false in a build without it, so
/// that the compiler leaves it out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Features {
    trunks: bool,
    registers: bool,
    routes: bool,
    call_limits: bool,
    header_rules: bool,
    caller_limits: bool,
    emergency: bool,
    stir: bool,
    hidden_topology: bool,
    relays: bool,
    conversion: bool,
    recursion: bool,
    presence: bool,
    neighbours: bool,
    flow_tokens: bool,
    cluster: bool,
    peer_control: bool,
}

impl Features {
    /// There are trunks, or nodes behind this server.
    pub(crate) const fn trunks(&self) -> bool {
        cfg!(feature = "operator") && self.trunks
    }

    /// A trunk registers.
    pub(crate) const fn registers(&self) -> bool {
        cfg!(feature = "operator") && self.registers
    }

    /// There are routes, or numbers are looked up.
    pub(crate) const fn routes(&self) -> bool {
        cfg!(feature = "operator") && self.routes
    }

    /// A trunk has a limit of the calls to it.
    pub(crate) const fn call_limits(&self) -> bool {
        cfg!(feature = "operator") && self.call_limits
    }

    /// A trunk has rules for header fields.
    pub(crate) const fn header_rules(&self) -> bool {
        cfg!(feature = "operator") && self.header_rules
    }

    /// Calls are limited by who begins them: a user, a domain or a trunk.
    pub(crate) const fn caller_limits(&self) -> bool {
        cfg!(feature = "operator") && self.caller_limits
    }

    /// There are trunks for emergency calls.
    pub(crate) const fn emergency(&self) -> bool {
        cfg!(feature = "operator") && self.emergency
    }

    /// Calls to or from a trunk have signed identities.
    pub(crate) const fn stir(&self) -> bool {
        cfg!(feature = "operator") && self.stir
    }

    /// A trunk must not see the inside.
    pub(crate) const fn hidden_topology(&self) -> bool {
        cfg!(feature = "operator") && self.hidden_topology
    }

    /// Some calls pass a media relay.
    pub(crate) const fn relays(&self) -> bool {
        cfg!(feature = "operator") && self.relays
    }

    /// An offer that a phone refuses is converted.
    pub(crate) const fn conversion(&self) -> bool {
        cfg!(feature = "operator") && self.conversion
    }

    /// Contacts of 3xx are called.
    pub(crate) const fn recursion(&self) -> bool {
        self.recursion
    }

    /// Users are watched.
    pub(crate) const fn presence(&self) -> bool {
        cfg!(feature = "events") && self.presence
    }

    /// Connections to other servers are kept.
    pub(crate) const fn neighbours(&self) -> bool {
        cfg!(feature = "operator") && self.neighbours
    }

    /// Requests may have tokens of flows: of other nodes, or of phones of other registrars.
    pub(crate) const fn flow_tokens(&self) -> bool {
        self.flow_tokens
    }

    /// Nodes share their registrations.
    pub(crate) const fn cluster(&self) -> bool {
        cfg!(feature = "cluster") && self.cluster
    }

    /// Overload control with other servers.
    pub(crate) const fn peer_control(&self) -> bool {
        cfg!(feature = "operator") && self.peer_control
    }

    /// All that either uses.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self {
            trunks: self.trunks || other.trunks,
            registers: self.registers || other.registers,
            routes: self.routes || other.routes,
            call_limits: self.call_limits || other.call_limits,
            header_rules: self.header_rules || other.header_rules,
            caller_limits: self.caller_limits || other.caller_limits,
            emergency: self.emergency || other.emergency,
            stir: self.stir || other.stir,
            hidden_topology: self.hidden_topology || other.hidden_topology,
            relays: self.relays || other.relays,
            conversion: self.conversion || other.conversion,
            recursion: self.recursion || other.recursion,
            presence: self.presence || other.presence,
            neighbours: self.neighbours || other.neighbours,
            flow_tokens: self.flow_tokens || other.flow_tokens,
            cluster: self.cluster || other.cluster,
            peer_control: self.peer_control || other.peer_control,
        }
    }

    pub(crate) fn of(config: &Config) -> Self {
        Self {
            trunks: config.trunking.has_trunks(),
            registers: config.trunking.registering().next().is_some(),
            routes: config.trunking.is_on(),
            call_limits: config.trunking.trunks.iter().any(Trunk::limits_calls_to),
            caller_limits: config.caller_limits.is_on()
                || config.trunking.trunks.iter().any(Trunk::limits_calls_from),
            emergency: config.trunking.emergency.is_on(),
            header_rules: config.trunking.trunks.iter().any(|trunk| !trunk.headers.is_empty()),
            stir: config.trunking.trunks.iter().any(|trunk| trunk.stir != TrunkStir::default()),
            hidden_topology: config.trunking.hides_topology(),
            relays: config.media.is_on(),
            conversion: config.media.converts(),
            recursion: config.recurse,
            presence: config.presence.is_on(),
            neighbours: !config.neighbours.is_empty(),
            flow_tokens: config.links.is_some()
                || config.cluster.is_some()
                || !config.edge_domains.is_empty(),
            cluster: config.cluster.is_some(),
            peer_control: config.overload.enabled
                && (config.links.is_some()
                    || !config.neighbours.is_empty()
                    || !config.trunking.trunks.is_empty()
                    || !config.auth.fronts.is_empty()),
        }
    }
}

/// Server whose connection is kept open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Name in the log.
    pub name: String,
    /// `sip:` or `sips:` URI without a user, for TCP or TLS.
    pub uri: String,
    /// Time from an answer to the next OPTIONS.
    pub interval: Duration,
    /// Connections of requests to it.
    pub connection: NeighbourConnection,
    /// Domain of its certificate: a TLS connection that it opened and offered may be used for requests to it (RFC 5923).
    pub certificate: Option<String>,
    /// True: the connection that is opened to it is offered for its requests, because a certificate of ours is presented.
    pub offers_alias: bool,
}

/// Connections of requests to a neighbour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NeighbourConnection {
    /// The connection that is kept open.
    #[default]
    Kept,
    /// Each call opens a connection while the kept one works; needs [`Config::stateful`].
    PerCall,
}

/// Handling of a request for a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is forwarded to the user's contacts.
    Proxy,
    /// The caller gets the user's contacts (RFC 3261 §8.3).
    Redirect,
}

impl Neighbour {
    /// Health checks of all neighbours in a second; 50 more may be sent at once.
    pub const PROBES_PER_S: u32 = 150;
}

impl Config {
    /// Defaults of a server for `domains`, in lower case and at least one. Listeners and secret are not set.
    pub fn for_domains(domains: Vec<String>) -> Self {
        let realm = domains.first().cloned().unwrap_or_default();
        Self {
            domains,
            listeners: Vec::new(),
            listener_networks: Vec::new(),
            removed_listeners: Vec::new(),
            advertised: Vec::new(),
            machine_addresses: Vec::new(),
            mode: Mode::Proxy,
            stateful: true,
            record_route: true,
            serial_fork: Duration::from_secs(20),
            datagram_bytes_max: 1300,
            recurse: false,
            edge_domains: Vec::new(),
            dialog_lifetime: Duration::from_secs(86_400),
            inner_networks: Vec::new(),
            keeps_bindings: true,
            auth: AuthConfig::for_realm(realm),
            registrar: RegistrarConfig::default(),
            neighbours: Vec::new(),
            cluster: None,
            links: None,
            registrations_per_s: 50,
            trunking: crate::Trunking::default(),
            caller_limits: CallerLimits::default(),
            stir: crate::StirConfig::default(),
            media: crate::MediaConfig::default(),
            presence: crate::PresenceConfig::default(),
            overload: OverloadConfig::default(),
            timers: Timers::default(),
            timer_c: TIMER_C,
            message_limits: Limits::default(),
            transaction_limits: ringway_transaction::Limits::default(),
            secret: [0; 32],
        }
    }

    /// True for an address in `[auth] trusted`. A front in a trusted network is none: strangers send through it.
    pub(crate) fn is_trusted(&self, ip: IpAddr) -> bool {
        self.auth.trusted.iter().any(|network| network.contains(ip)) && !self.is_front(ip)
    }

    /// The same for the sender of a request. A page of any site can send over WebSocket from a trusted address, and what comes from this server
    /// is of somebody else: its mark says of whom.
    pub(crate) fn trusts(&self, flow: &Flow) -> bool {
        !(flow.transport.is_websocket() && Defence::WebSocketAddress.is_on())
            && self.is_trusted(flow.remote.ip())
            && !self.is_own_address(flow.remote)
    }

    /// True for a request of a front.
    pub(crate) fn is_of_front(&self, flow: &Flow) -> bool {
        !flow.transport.is_websocket() && self.is_front(flow.remote.ip())
    }

    /// True for a front of this server, or a node behind it.
    pub(crate) fn is_front_or_node(&self, flow: &Flow) -> bool {
        self.is_of_front(flow) || self.trunking.has_node_at(flow.remote.ip())
    }

    /// True for an address in `[auth] fronts`.
    pub(crate) fn is_front(&self, ip: IpAddr) -> bool {
        self.auth.fronts.iter().any(|network| network.contains(ip))
    }

    /// Address of the client that sent a request: that in the second Via, if a front passed it on.
    pub(crate) fn client_of(&self, message: &Message<'_>, flow: &Flow) -> IpAddr {
        let source = flow.remote.ip();
        if !self.is_of_front(flow) {
            return source;
        }
        let Some(value) = message.values(HeaderName::Via).nth(1) else { return source };
        // Clients whose address cannot be told apart from what they wrote share one.
        let via = Via::parse(value).ok().filter(|via| !via.is_ambiguous());
        via.and_then(|via| reply_address(&via)).map_or(UNKNOWN_CLIENT, |client| client.ip())
    }

    /// Limits of a message with so many bytes from `flow`. Another server of ours has checked what it passes on, and added to it.
    pub(crate) fn limits_of(&self, flow: &Flow, bytes: usize) -> Cow<'_, Limits> {
        let limits = &self.message_limits;
        // Usually there is no reason to look at the flow.
        if bytes <= limits.message_bytes_max || !self.is_between_servers(flow) {
            return Cow::Borrowed(limits);
        }
        let message_bytes_max = limits.message_bytes_max + Limits::BYTES_ADDED_MAX;
        Cow::Owned(Limits { message_bytes_max, ..limits.clone() })
    }

    /// Maximum number of bytes of a message on a stream. A longer one ends the stream, and with it what others have under way there: one
    /// between servers of ours takes any message, and what is too long is answered.
    pub fn stream_bytes_max(&self, flow: &Flow) -> usize {
        match self.is_between_servers(flow) {
            true => Limits::MESSAGE_BYTES_CEILING,
            false => self.message_limits.message_bytes_max,
        }
    }

    /// True for a flow of another node, of a front, or of a node behind this server.
    fn is_between_servers(&self, flow: &Flow) -> bool {
        let ip = flow.remote.ip();
        self.is_link(flow) || self.is_of_front(flow) || self.trunking.has_node_at(ip)
    }

    /// True for a connection to or from another node.
    pub(crate) fn is_link(&self, flow: &Flow) -> bool {
        self.links.as_ref().is_some_and(|links| links.listener == flow.listener)
    }

    /// Secret of the keys that no other server has.
    pub(crate) fn own_secret(&self) -> [u8; 32] {
        self.links.as_ref().map_or(self.secret, |links| links.own_secret(&self.secret))
    }

    /// Listener with this number.
    pub(crate) fn listener(&self, id: ListenerId) -> Option<&Listener> {
        self.listeners.get(usize::from(id.0))
    }

    /// True for an address of a trunk that is no node, or in the URI of a neighbour.
    pub(crate) fn has_server_at(&self, ip: IpAddr) -> bool {
        let mut servers = self.servers().filter_map(|(_, of)| Uri::parse(of.uri.as_bytes()).ok());
        self.trunking.has_address(ip) || servers.any(|uri| uri.host().ip() == Some(ip))
    }

    /// Networks of trunks, nodes, neighbours, fronts and trusted proxies; `None`: there are more trunks than this.
    pub(crate) fn networks_of_many(&self, trunks_max: usize) -> Option<Vec<(IpAddr, u8)>> {
        let trunks = &self.trunking.trunks;
        if trunks.len() > trunks_max {
            return None;
        }
        let own = self.auth.trusted.iter().chain(&self.auth.fronts);
        let named = trunks.iter().flat_map(|trunk| &trunk.networks);
        let uris = trunks.iter().map(|trunk| trunk.uri.as_str());
        let uris = uris.chain(self.servers().map(|(_, server)| server.uri.as_str()));
        let hosts = uris.filter_map(|uri| Some((Uri::parse(uri.as_bytes()).ok()?.host().ip()?, 128)));
        Some(own.chain(named).map(Network::parts).chain(hosts).collect())
    }

    /// Neighbours that are no trunks, with their indices; at most [`NEIGHBOURS_MAX`].
    pub fn servers(&self) -> impl Iterator<Item = (usize, &Neighbour)> {
        let others = self.trunking.trunks.other_neighbours(self.neighbours.len());
        others.filter_map(|index| Some((index, self.neighbours.get(index)?)))
    }

    /// True if calls to some neighbour have a connection of their own.
    pub(crate) fn has_calls_with_connections(&self) -> bool {
        self.servers().any(|(_, neighbour)| neighbour.connection == NeighbourConnection::PerCall)
    }

    /// Listener that can send by `transport` to `to`: one in its network, or the first.
    pub(crate) fn listener_for(&self, transport: Transport, to: IpAddr) -> Option<ListenerId> {
        if !self.listener_networks.is_empty()
            && let Some(listener) = self.listener_in_network(transport, to)
        {
            return Some(listener);
        }
        let listeners =
            self.listeners.iter().enumerate().map(|(index, listener)| {
                self.is_in_use(index).then_some((listener.transport, listener.bound))
            });
        ListenerId::for_peer(listeners, transport, to)
    }

    /// True if a request to the peer of this flow of datagrams would leave by another listener than the one that the peer sends to, which
    /// its firewall may drop. One that a reload removed is not used again.
    pub(crate) fn leaves_elsewhere(&self, flow: &Flow) -> bool {
        flow.transport == Transport::Udp
            && self.listener_for(Transport::Udp, flow.remote.ip()) != Some(flow.listener)
            && self.is_in_use(usize::from(flow.listener.0))
            && self.listener(flow.listener).is_some_and(|listener| listener.transport == Transport::Udp)
    }

    /// Listeners that new requests may leave by, with their numbers.
    pub fn listeners_in_use(&self) -> impl Iterator<Item = (ListenerId, &Listener)> {
        let numbered = self.listeners.iter().enumerate().filter(|(index, _)| self.is_in_use(*index));
        numbered.filter_map(|(index, listener)| Some((ListenerId(u8::try_from(index).ok()?), listener)))
    }

    /// True for the listener of links, which is for nodes only.
    pub(crate) fn is_listener_of_links(&self, id: ListenerId) -> bool {
        self.links.as_ref().is_some_and(|links| links.listener == id)
    }

    fn is_in_use(&self, index: usize) -> bool {
        // The listener of links is for nodes only: `hop_to` finds them.
        let is_of_links = self.links.as_ref().is_some_and(|links| usize::from(links.listener.0) == index);
        !is_of_links && self.removed_listeners.iter().all(|removed| usize::from(removed.0) != index)
    }
}

/// Address of clients behind a front whose Via does not show it.
const UNKNOWN_CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Maximum number of neighbours that are no trunks of the configuration.
pub const NEIGHBOURS_MAX: usize = 64;

/// RFC 3261 §16.6 step 11: more than 3 minutes.
const TIMER_C: Duration = Duration::from_secs(185);
