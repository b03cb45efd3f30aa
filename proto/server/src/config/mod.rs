//! Configuration of a server, set at the start and on a reload.

use ringway_auth::{Algorithm, DigestPolicy};
mod certificates;
mod cluster;
mod media;
mod network;
mod nodes;
mod presence;
mod realms;
mod trunk;

pub use certificates::CertificateRules;
pub use cluster::{ClusterSecret, LinkedNode, Links, node_domain};
pub use media::{MediaConfig, RelayFailure, RelayRule, SrtpRule};
pub(crate) use network::is_local;
pub use network::{InnerHost, Network, NotANetwork, is_private};
pub use nodes::{Cluster, Hold, NodeState};
pub use presence::{PresenceConfig, Watchers};
pub use realms::Realms;
pub use trunk::{CallerNumber, CallerPrivacy, Trunk, TrunkLogin, Trunking};

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use ringway_sansio::{Flow, ListenerId, Transport};
use ringway_sip::{HeaderName, Limits, Message, Via};
use ringway_transaction::{DEFAULT_PORT, Timers, reply_address};

/// Settings of a server, equal in every shard.
#[derive(Clone, Debug)]
pub struct Config {
    /// Domains that this server is responsible for, in lower case; at least one. The listeners' addresses count as the
    /// first.
    pub domains: Vec<String>,
    /// Listeners, in the order of their [`ListenerId`]s.
    pub listeners: Vec<Listener>,
    /// Listeners that were taken out: requests under way end over them, and nothing new is sent by them. Their numbers stay.
    pub removed_listeners: Vec<ListenerId>,
    /// Addresses of this machine other than loopback: these and loopback count as the same host.
    pub machine_addresses: Vec<IpAddr>,
    /// Forwarding or redirecting.
    pub mode: Mode,
    /// False: forward without state (RFC 3261 §16.11).
    pub stateful: bool,
    /// True: requests inside dialogs pass this server (RFC 3261 §16.6 step 4).
    pub record_route: bool,
    /// Maximum time for which the targets of the same q-value are called before those of the next lower one; zero: all are
    /// called at once.
    pub serial_fork: Duration,
    /// True: contacts of 3xx responses to INVITEs are called (RFC 3261 §16.7 step 4); needs [`Config::stateful`].
    pub recurse: bool,
    /// Domains of other registrars, in lower case, whose phones register through this server (RFC 5626 §5).
    pub edge_domains: Vec<String>,
    /// Lifetime of a Record-Route mark.
    pub dialog_lifetime: Duration,
    /// Networks of inner hosts that requests may name; a network of one address may be that of this machine.
    pub inner_networks: Vec<Network>,
    /// Authentication.
    pub auth: AuthConfig,
    /// The registrar.
    pub registrar: RegistrarConfig,
    /// Servers whose connections are kept open; at most [`NEIGHBOURS_MAX`](crate::NEIGHBOURS_MAX).
    pub neighbours: Vec<Neighbour>,
    /// This server among the nodes that share their registrations; `None`: it has its own.
    pub cluster: Option<crate::Cluster>,
    /// This server as one of several nodes; `None`: it is alone.
    pub links: Option<crate::Links>,
    /// Trunks and routes.
    pub trunking: crate::Trunking,
    /// Media relays.
    pub media: crate::MediaConfig,
    /// Presence.
    pub presence: crate::PresenceConfig,
    /// T1, T2, T4.
    pub timers: Timers,
    /// Maximum duration of ringing (timer C, RFC 3261 §16.6 step 11): over 3 minutes.
    pub timer_c: Duration,
    /// Limits of the parser.
    pub message_limits: Limits,
    /// Maximum numbers of transactions.
    pub transaction_limits: ringway_transaction::Limits,
    /// 32 secret bytes that must survive a restart: the marks of existing dialogs depend on them.
    pub secret: [u8; 32],
}

/// Features that a configuration uses, read once: what is not used costs a plain call nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Features {
    /// There are trunks, or nodes behind this server.
    pub(crate) trunks: bool,
    /// There are routes, or numbers are looked up.
    pub(crate) routes: bool,
    /// Some calls pass a media relay.
    pub(crate) relays: bool,
    /// An offer that a phone refuses is converted.
    pub(crate) conversion: bool,
    /// Contacts of 3xx are called.
    pub(crate) recursion: bool,
    /// Users are watched.
    pub(crate) presence: bool,
    /// Connections to other servers are kept.
    pub(crate) neighbours: bool,
    /// Requests may have tokens of flows: of other nodes, or of phones of other registrars.
    pub(crate) flow_tokens: bool,
    /// Nodes share their registrations.
    pub(crate) cluster: bool,
}

impl Features {
    /// All that either uses.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self {
            trunks: self.trunks || other.trunks,
            routes: self.routes || other.routes,
            relays: self.relays || other.relays,
            conversion: self.conversion || other.conversion,
            recursion: self.recursion || other.recursion,
            presence: self.presence || other.presence,
            neighbours: self.neighbours || other.neighbours,
            flow_tokens: self.flow_tokens || other.flow_tokens,
            cluster: self.cluster || other.cluster,
        }
    }

    pub(crate) fn of(config: &Config) -> Self {
        Self {
            trunks: config.trunking.has_trunks(),
            routes: config.trunking.is_on(),
            relays: config.media.is_on(),
            conversion: config.media.converts(),
            recursion: config.recurse,
            presence: config.presence.is_on(),
            neighbours: !config.neighbours.is_empty(),
            flow_tokens: config.links.is_some()
                || config.cluster.is_some()
                || !config.edge_domains.is_empty(),
            cluster: config.cluster.is_some(),
        }
    }
}

/// Listener of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Transport protocol.
    pub transport: Transport,
    /// Address that it is bound to; may be unspecified.
    pub bound: SocketAddr,
    /// Address in Via and Record-Route.
    pub advertised: SocketAddr,
}

impl Listener {
    /// True if this is its address; an unspecified one is also at each loopback address.
    pub(crate) fn is_at(&self, address: SocketAddr) -> bool {
        let Self { bound, advertised, .. } = *self;
        let is_wild =
            bound.ip().is_unspecified() && bound.port() == address.port() && address.ip().is_loopback();
        bound == address || advertised == address || is_wild
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

/// `[auth]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthConfig {
    /// False: no passwords, every sender is believed.
    pub enabled: bool,
    /// Realms of the challenges.
    pub realms: Realms,
    /// Algorithms, offered in this order (RFC 8760 §2.4).
    pub algorithms: Vec<Algorithm>,
    /// Lifetime of a nonce.
    pub nonce_lifetime: Duration,
    /// Forms of digest that are offered and accepted.
    pub digest: DigestPolicy,
    /// True: all requests inside dialogs are challenged too, not only those from another address than their side has.
    pub in_dialog: bool,
    /// Methods of callers without a password that reach users of `domains`.
    pub strangers: Strangers,
    /// REFER of callers without a password passes inside their calls: the called phone dials what they name.
    pub stranger_refer: bool,
    /// Networks of trusted proxies: their contacts and identities are believed.
    pub trusted: Vec<Network>,
    /// Networks of proxies that check no passwords: their Path counts, and limits are those of the address that they put into Via.
    pub fronts: Vec<Network>,
    /// Client certificates that count.
    pub certificates: CertificateRules,
}

/// `[registrar]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrarConfig {
    /// Minimum in seconds; a shorter expiry gets 423.
    pub min_expires_s: u32,
    /// Default in seconds, for contacts without an expiry.
    pub default_expires_s: u32,
    /// Maximum in seconds; longer expiries are reduced to it.
    pub max_expires_s: u32,
    /// Maximum number of contacts of a user.
    pub max_contacts: usize,
    /// True: a phone that asks for it registers its flows (RFC 5626).
    pub outbound: bool,
    /// True: a phone that asks for it gets URIs of its own (RFC 5627).
    pub gruu: bool,
    /// Flow-Timer of a phone with outbound, in seconds (RFC 5626 §4.4); 0: none, so that the phone has its own time.
    pub flow_timer_s: u32,
    /// Service-Route of every phone (RFC 3608): values that are sent as they are.
    pub service_route: Vec<String>,
}

impl Config {
    /// True for an address in `[auth] trusted`. A front in a trusted network is none: strangers send through it.
    pub(crate) fn is_trusted(&self, ip: IpAddr) -> bool {
        self.auth.trusted.iter().any(|network| network.contains(ip)) && !self.is_front(ip)
    }

    /// The same for the sender of a request. A page of any site can send over WebSocket from a trusted address.
    pub(crate) fn trusts(&self, flow: &Flow) -> bool {
        !flow.transport.is_websocket() && self.is_trusted(flow.remote.ip())
    }

    /// True for a request of a front.
    pub(crate) fn is_of_front(&self, flow: &Flow) -> bool {
        !flow.transport.is_websocket() && self.is_front(flow.remote.ip())
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

    /// True if calls to some neighbour have a connection of their own.
    pub(crate) fn has_calls_with_connections(&self) -> bool {
        self.neighbours.iter().any(|neighbour| neighbour.connection == NeighbourConnection::PerCall)
    }

    /// First listener that can send by `transport` to `to`.
    pub(crate) fn listener_for(&self, transport: Transport, to: IpAddr) -> Option<ListenerId> {
        let listeners =
            self.listeners.iter().enumerate().map(|(index, listener)| {
                self.is_in_use(index).then_some((listener.transport, listener.bound))
            });
        ListenerId::for_peer(listeners, transport, to)
    }

    /// Listeners that new requests may leave by, with their numbers.
    pub fn listeners_in_use(&self) -> impl Iterator<Item = (ListenerId, &Listener)> {
        let numbered = self.listeners.iter().enumerate().filter(|(index, _)| self.is_in_use(*index));
        numbered.filter_map(|(index, listener)| Some((ListenerId(u8::try_from(index).ok()?), listener)))
    }

    fn is_in_use(&self, index: usize) -> bool {
        // The listener of links is for nodes only: `hop_to` finds them.
        let is_of_links = self.links.as_ref().is_some_and(|links| usize::from(links.listener.0) == index);
        !is_of_links && self.removed_listeners.iter().all(|removed| usize::from(removed.0) != index)
    }

    /// Address of this listener for peers at `remote`.
    pub(crate) fn sent_by(&self, id: ListenerId, remote: IpAddr) -> SocketAddr {
        let Some(listener) = self.listener(id) else { return SocketAddr::new(remote, DEFAULT_PORT) };
        if listener.bound.ip().is_unspecified() && remote.is_loopback() {
            return SocketAddr::new(remote, listener.bound.port());
        }
        listener.advertised
    }
}
/// Address of clients behind a front whose Via does not show it.
const UNKNOWN_CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Maximum number of neighbours.
pub const NEIGHBOURS_MAX: usize = 64;
