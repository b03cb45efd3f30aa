//! Conversion of the configuration into the server machine's settings, with the links to the other nodes, which come
//! and go while the server runs; and the configuration in force, as the admin API shows it.

use super::listeners::ListenerTable;
use crate::config::{self, ClusterConfig, Config, Listener};
use ringway_admin::ServerInfo;
use ringway_linux::{Acceptance, AcceptanceRule, Listen, MessageBytesMax};
use ringway_sansio::{ListenerId, Transport};
use ringway_server::{
    Cluster, Hold, LinkedNode, Links, NEIGHBOURS_MAX, Neighbour, NeighbourConnection, Network,
};
use serde_json::{Map, Value, json};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

fn listen_of(listener: &Listener) -> Listen {
    Listen { transport: listener.transport, address: listener.address }
}

/// All listeners: that of links comes last at the start.
pub(super) fn wanted_listeners(config: &Config) -> Vec<Listen> {
    let of_links = config.cluster.as_ref().map(ClusterConfig::listener);
    config.listen.iter().chain(&of_links).map(listen_of).collect()
}

/// State of the server that its settings depend on.
#[derive(Clone, Copy)]
pub(super) struct Present<'a> {
    /// Nodes that are linked to.
    pub(super) nodes: &'a [LinkedNode],
    /// Start of this process among those of its node.
    pub(super) incarnation: u64,
    /// Address for `auto`, if it is known.
    pub(super) public_ip: Option<IpAddr>,
}

impl Present<'_> {
    /// State at the start: no node and no public address is known.
    pub(super) const fn at_start(incarnation: u64) -> Self {
        Self { nodes: &[], incarnation, public_ip: None }
    }
}

/// Settings of the machine for its listeners, and links to nodes.
pub(super) fn server_config(
    config: &Config,
    table: &ListenerTable,
    secret: [u8; 32],
    Present { nodes, incarnation, public_ip }: Present<'_>,
) -> ringway_server::Config {
    let listener = |listen: Listen| ringway_server::Listener {
        transport: listen.transport,
        bound: listen.address,
        advertised: advertised(listen.address),
    };
    let listeners: Vec<ringway_server::Listener> = table.all().map(listener).collect();
    let server = config.server.clone();
    let mut neighbours = server.neighbours;
    neighbours.extend(nodes.iter().map(neighbour));
    ringway_server::Config {
        listener_networks: listener_networks(&listeners),
        listeners,
        removed_listeners: table.removed(),
        advertised: config::with_public_ip(server.advertised, public_ip),
        machine_addresses: machine_addresses(),
        neighbours,
        links: links(config, table, nodes),
        cluster: member(config, incarnation),
        keeps_bindings: config.store.url.bindings().is_some(),
        secret,
        ..server
    }
}

/// Limit of the messages on streams.
pub(super) fn message_bytes_max(settings: &Arc<ringway_server::Config>) -> MessageBytesMax {
    let settings = Arc::clone(settings);
    Arc::new(move |flow| settings.stream_bytes_max(flow))
}

/// Rule for new connections; `None`: no listener is behind a proxy.
pub(super) fn acceptance(config: &Config, table: &ListenerTable) -> Option<AcceptanceRule> {
    let mut proxied: Vec<(ListenerId, Vec<Network>)> = Vec::new();
    for of in &config.proxied {
        proxied.extend(table.numbers_of(listen_of(&of.listener)).map(|id| (id, of.networks.clone())));
    }
    if proxied.is_empty() {
        return None;
    }
    Some(Arc::new(move |listener, source| match proxied.iter().find(|(id, _)| *id == listener) {
        None => Acceptance::Direct,
        Some((_, networks)) if networks.iter().any(|network| network.contains(source)) => Acceptance::Proxied,
        Some(_) => Acceptance::Refused,
    }))
}

/// Addresses of this machine, without loopback. Without them a local phone whose Contact has another address than its
/// packets would be treated as behind a NAT.
fn machine_addresses() -> Vec<IpAddr> {
    interfaces().iter().map(if_addrs::Interface::ip).filter(|ip| !ip.is_loopback()).collect()
}

fn interfaces() -> Vec<if_addrs::Interface> {
    if_addrs::get_if_addrs().unwrap_or_else(|error| {
        tracing::warn!("this machine's addresses cannot be listed: {error}");
        Vec::new()
    })
}

/// Networks at the addresses of listeners, and the address of the default route for all others; none if a family has listeners at one address
/// only, as a request leaves by that.
fn listener_networks(listeners: &[ringway_server::Listener]) -> Vec<(ringway_server::Network, IpAddr)> {
    let of_family = |is_ipv4: bool| {
        let mut own: Vec<IpAddr> = listeners.iter().map(|listener| listener.bound.ip()).collect();
        own.retain(|ip| ip.is_ipv4() == is_ipv4 && !ip.is_unspecified() && !ip.is_loopback());
        own.sort_unstable();
        own.dedup();
        if own.len() < 2 {
            return Vec::new();
        }
        let mut networks: Vec<(u8, IpAddr)> = interfaces()
            .iter()
            .map(|interface| match &interface.addr {
                if_addrs::IfAddr::V4(v4) => (v4.prefixlen, IpAddr::V4(v4.ip)),
                if_addrs::IfAddr::V6(v6) => (v6.prefixlen, IpAddr::V6(v6.ip)),
            })
            .collect();
        let any = match is_ipv4 {
            true => IpAddr::from([0, 0, 0, 0]),
            false => IpAddr::from([0_u16; 8]),
        };
        networks.push((0, advertised(SocketAddr::new(any, 0)).ip()));
        networks.retain(|(_, ip)| own.contains(ip));
        networks.sort_by_key(|(prefix, _)| std::cmp::Reverse(*prefix));
        networks.into_iter().map(|(prefix, ip)| (ringway_server::Network::around(ip, prefix), ip)).collect()
    };
    [of_family(true), of_family(false)].concat()
}

/// Address advertised to peers: for a listener on all addresses, the source address of the default route.
pub(crate) fn advertised(bound: SocketAddr) -> SocketAddr {
    if !bound.ip().is_unspecified() {
        return bound;
    }
    // Connecting a datagram socket sends nothing; it only selects the route. The addresses are for documentation.
    let (from, clients): (SocketAddr, SocketAddr) = match bound {
        SocketAddr::V4(_) => (([0, 0, 0, 0], 0).into(), ([192, 0, 2, 1], 9).into()),
        SocketAddr::V6(_) => (([0_u16; 8], 0).into(), ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 9).into()),
    };
    let chosen =
        UdpSocket::bind(from).and_then(|socket| socket.connect(clients).and_then(|()| socket.local_addr()));
    let ip = match (chosen, bound.ip()) {
        (Ok(address), _) => address.ip(),
        (Err(_), IpAddr::V4(_)) => IpAddr::from([127, 0, 0, 1]),
        (Err(_), IpAddr::V6(_)) => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1_u16]),
    };
    SocketAddr::new(ip, bound.port())
}

/// Configuration in force, without secrets.
#[derive(Default)]
pub(super) struct ShownConfig {
    current: RwLock<Current>,
}

#[derive(Default)]
struct Current {
    info: ServerInfo,
    keys: Map<String, Value>,
}

impl ShownConfig {
    /// Shows a configuration.
    pub(super) fn of(config: &Config, listeners: &ListenerTable) -> Self {
        let shown = Self::default();
        shown.set(config, listeners.shown());
        shown
    }

    /// Replaces it. `listeners` have their actual ports.
    pub(super) fn set(&self, config: &Config, listeners: Vec<String>) {
        let file = config.file.as_ref().map(|file| file.display().to_string());
        let info =
            ServerInfo { domains: config.server.domains.clone(), listeners, file, ..ServerInfo::default() };
        let keys = config.keys.shown().map(|(key, value)| (key.to_owned(), json!(value.to_string())));
        let current = Current { info, keys: keys.collect() };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = current;
    }

    /// File, domains and listeners.
    pub(super) fn info(&self) -> ServerInfo {
        self.read().info.clone()
    }

    /// Domain of users who are named without one.
    pub(super) fn default_domain(&self) -> String {
        self.read().info.domains.first().cloned().unwrap_or_default()
    }

    /// File and keys.
    pub(super) fn to_json(&self) -> Value {
        let current = self.read();
        json!({ "file": current.info.file, "keys": current.keys })
    }

    /// Keys in force.
    pub(super) fn keys(&self) -> Value {
        Value::Object(self.read().keys.clone())
    }

    fn read(&self) -> RwLockReadGuard<'_, Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// This server as a node with links to `nodes`; `None`: it is alone.
fn links(config: &Config, table: &ListenerTable, nodes: &[LinkedNode]) -> Option<Links> {
    let cluster = config.cluster.as_ref()?;
    let (secret, accepted_secret) = cluster.secrets;
    let listener = cluster.listener();
    let listener = table.number_of(Listen { transport: listener.transport, address: listener.address })?;
    Some(Links { node: cluster.node, listener, secret, accepted_secret, nodes: nodes.to_vec() })
}

/// This server among the nodes that share registrations; `None`: it is alone.
fn member(config: &Config, incarnation: u64) -> Option<Cluster> {
    let cluster = config.cluster.as_ref()?;
    Some(Cluster {
        node: cluster.node,
        incarnation,
        transport: Transport::Tls,
        link: cluster.listen,
        hold: config.location.as_ref().map_or(Hold::All, |location| location.hold),
    })
}

/// Neighbour whose connection is the link to a node.
fn neighbour(node: &LinkedNode) -> Neighbour {
    Neighbour {
        name: node.name.to_string(),
        uri: node.uri(),
        interval: PROBE_INTERVAL,
        connection: NeighbourConnection::Kept,
        // Each node opens a link to each other one: none is offered.
        certificate: None,
        offers_alias: false,
    }
}

/// The nodes of a new list, without this one, at the positions that they had: a link at another position is opened again. At most
/// as many as there are positions besides `others` neighbours; also returns the number of those for which there is none.
pub(super) fn placed(
    config: &Config,
    present: &[LinkedNode],
    listed: Vec<LinkedNode>,
    others: usize,
) -> (Vec<LinkedNode>, usize) {
    let own = config.cluster.as_ref();
    let is_other =
        |node: &LinkedNode| own.is_some_and(|own| own.node != node.name && own.listen != node.address);
    let mut listed: Vec<LinkedNode> = listed.into_iter().filter(is_other).collect();
    let mut placed: Vec<Option<LinkedNode>> = Vec::new();
    for node in present {
        let at = listed.iter().position(|listed| listed.name == node.name);
        placed.push(at.map(|at| listed.remove(at)));
    }
    let mut new = listed.into_iter();
    placed.iter_mut().filter(|place| place.is_none()).for_each(|place| *place = new.next());
    placed.extend(new.map(Some));
    // The last one takes the position of one that has left.
    while let Some(at) = placed.iter().position(Option::is_none) {
        placed.swap_remove(at);
    }
    let mut placed: Vec<LinkedNode> = placed.into_iter().flatten().collect();
    let room = NEIGHBOURS_MAX.saturating_sub(others);
    let left_out = placed.len().saturating_sub(room);
    placed.truncate(room);
    (placed, left_out)
}

/// A node that is gone is noticed by its heartbeat first.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use ringway_location::NodeName;
    use ringway_server::ClusterSecret;

    /// Configuration of the node `name`, which cannot be read from a file before registrations can be shared.
    pub(crate) fn config(text: &str, name: &str, listen: &str) -> Config {
        let mut config = Config::parse(text, None).unwrap();
        let secrets = (ClusterSecret::new(&[7; 32]), None);
        let node = NodeName::read(name.as_bytes()).unwrap();
        config.cluster = Some(ClusterConfig { node, listen: listen.parse().unwrap(), secrets });
        config
    }

    fn nodes(text: &str) -> Vec<LinkedNode> {
        let node = |text: &str| {
            let (name, port) = text.split_once(':').unwrap();
            let address = format!("192.0.2.2:{port}").parse().unwrap();
            LinkedNode { name: NodeName::read(name.as_bytes()).unwrap(), address }
        };
        text.split_whitespace().map(node).collect()
    }

    #[test]
    fn a_node_keeps_its_position() {
        let config = config("", "own", "192.0.2.2:1");
        for (present, listed, expected) in [
            ("", "b:2 a:3", "b:2 a:3"),
            ("b:2 a:3", "a:3 b:2 c:4", "b:2 a:3 c:4"),
            ("b:2 a:3 c:4", "a:3 c:4", "c:4 a:3"),
            ("b:2 a:3 c:4", "d:5 a:3 c:4", "d:5 a:3 c:4"),
            ("b:2 a:3", "a:3 b:9", "b:9 a:3"),
            ("b:2 a:3 c:4 d:5", "d:5", "d:5"),
            ("b:2", "", ""),
            ("", "own:7 b:1 c:4", "c:4"),
        ] {
            let placed = placed(&config, &nodes(present), nodes(listed), 0);
            assert_eq!(placed, (nodes(expected), 0), "{present} then {listed}");
        }
        let many: Vec<String> = (0..63).map(|n| format!("n{n}:{}", 100 + n)).collect();
        let (placed, left_out) = placed(&config, &[], nodes(&many.join(" ")), 2);
        assert_eq!((placed.len(), left_out), (62, 1));
    }
}
