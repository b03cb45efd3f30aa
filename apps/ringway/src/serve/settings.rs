//! Conversion of the configuration into the server machine's settings, and the configuration in force, as the admin API shows
//! it.

use super::cluster;
use super::listeners::ListenerTable;
use crate::config::{self, ClusterConfig, Config, Listener};
use ringway_admin::ServerInfo;
use ringway_linux::{Acceptance, AcceptanceRule, Listen, MessageBytesMax};
use ringway_sansio::ListenerId;
use ringway_server::{LinkedNode, Network};
use serde_json::{Map, Value, json};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

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
    let server = config.server.clone();
    let mut neighbours = server.neighbours;
    neighbours.extend(nodes.iter().map(cluster::neighbour));
    ringway_server::Config {
        listeners: table.all().map(listener).collect(),
        removed_listeners: table.removed(),
        advertised: config::with_public_ip(server.advertised, public_ip),
        machine_addresses: machine_addresses(),
        neighbours,
        links: cluster::links(config, table, nodes),
        cluster: cluster::member(config, incarnation),
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
    match if_addrs::get_if_addrs() {
        Ok(interfaces) => {
            interfaces.iter().map(if_addrs::Interface::ip).filter(|ip| !ip.is_loopback()).collect()
        }
        Err(error) => {
            tracing::warn!("this machine's addresses cannot be listed: {error}");
            Vec::new()
        }
    }
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
