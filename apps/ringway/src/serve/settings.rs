//! Conversion of the configuration into the server machine's settings.

use crate::config::{Config, Listener, Neighbour};
use crate::failure::Failure;
use ringway_linux::Listen;
use ringway_settings::{CertificateRules, ServerSections};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

pub(super) fn listen_of(listener: &Listener) -> Listen {
    Listen { transport: listener.transport, address: listener.address }
}

/// Settings of the machine for bound listeners.
pub(super) fn server_config(config: &Config, bound: &[Listen], secret: [u8; 32]) -> ringway_server::Config {
    let listeners = bound
        .iter()
        .map(|listen| ringway_server::Listener {
            transport: listen.transport,
            bound: listen.address,
            advertised: advertised(listen.address),
        })
        .collect();
    with_listeners(config, listeners, secret)
}

/// Reads the file again. The reload fails as a whole if a setting has changed that requires a restart.
pub(super) fn reload(
    old: &Config,
    settings: &Arc<ringway_server::Config>,
) -> Result<(Config, ringway_server::Config), Failure> {
    let new = Config::load(old.file.as_deref())?;
    let fixed = [
        ("listen", new.listen != old.listen),
        ("workers", new.workers != old.workers),
        ("[store]", new.store != old.store),
        ("[admin]", new.admin != old.admin),
        ("[log]", new.log != old.log),
        ("[limits] max_message_bytes", new.limits.max_message_bytes != old.limits.max_message_bytes),
        ("[limits] max_connections", new.limits.max_connections != old.limits.max_connections),
        ("[limits] memory_mb", new.limits.memory_mb != old.limits.memory_mb),
        ("[media] rtpengine", new.media.relays != old.media.relays),
        ("[media] time_limit_ms", new.media.rule.time_limit != old.media.rule.time_limit),
        ("[auth] nonce_lifetime_s", new.auth.nonce_lifetime_s != old.auth.nonce_lifetime_s),
    ];
    let changed: Vec<String> = fixed
        .iter()
        .filter(|(_, changed)| *changed)
        .map(|(key, _)| {
            format!("{key} cannot change while the server runs; restart it, or restore the old value")
        })
        .collect();
    if !changed.is_empty() {
        return Err(Failure::configuration(changed));
    }
    let settings = with_listeners(&new, settings.listeners.clone(), settings.secret);
    Ok((new, settings))
}

/// Neighbours whose connections are kept open.
fn kept(config: &Config) -> Vec<ringway_settings::Neighbour> {
    config.neighbours.iter().filter_map(Neighbour::kept).collect()
}

fn with_listeners(
    config: &Config,
    listeners: Vec<ringway_server::Listener>,
    secret: [u8; 32],
) -> ringway_server::Config {
    let Config { domains, auth, registrar, routing, limits, .. } = config;
    let trusted = config.neighbours.iter().filter_map(|neighbour| neighbour.certificate.clone()).collect();
    let mut neighbours = kept(config);
    let mut trunking = config.trunking.clone();
    for (trunk, read) in trunking.trunks.iter_mut().zip(&config.trunks) {
        let probed = read.neighbour();
        trunk.neighbour = probed.is_some().then_some(neighbours.len());
        neighbours.extend(probed);
    }
    let certificates = CertificateRules { users: config.client_users, trusted };
    let sections = ServerSections { domains, auth, registrar, routing, limits, certificates, neighbours };
    let settings = sections.config(listeners, machine_addresses(), secret);
    ringway_server::Config { media: config.media.rule, trunking, ..settings }
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
fn advertised(bound: SocketAddr) -> SocketAddr {
    if !bound.ip().is_unspecified() {
        return bound;
    }
    // Connecting a datagram socket sends nothing; it only selects the route. The addresses are for documentation.
    let (from, outside): (SocketAddr, SocketAddr) = match bound {
        SocketAddr::V4(_) => (([0, 0, 0, 0], 0).into(), ([192, 0, 2, 1], 9).into()),
        SocketAddr::V6(_) => (([0_u16; 8], 0).into(), ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 9).into()),
    };
    let chosen =
        UdpSocket::bind(from).and_then(|socket| socket.connect(outside).and_then(|()| socket.local_addr()));
    let ip = match (chosen, bound.ip()) {
        (Ok(address), _) => address.ip(),
        (Err(_), IpAddr::V4(_)) => IpAddr::from([127, 0, 0, 1]),
        (Err(_), IpAddr::V6(_)) => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1_u16]),
    };
    SocketAddr::new(ip, bound.port())
}
