//! From the configuration file to the server machine's settings.

use crate::config::{Algorithm, Config, Listener, Mode};
use crate::failure::Failure;
use ringway_linux::Listen;
use ringway_server::{AuthConfig, RegistrarConfig};
use ringway_transaction::Timers;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

pub(super) fn listen_of(listener: &Listener) -> Listen {
    Listen { transport: listener.transport, address: listener.address }
}

/// The machine's settings for listeners that are bound.
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

/// Reads the file again. What only a start can change makes the whole reload fail, so that nobody believes in half of it.
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
        ("[auth] nonce_lifetime_s", new.auth.nonce_lifetime_s != old.auth.nonce_lifetime_s),
    ];
    let changed: Vec<String> = fixed
        .iter()
        .filter(|(_, changed)| *changed)
        .map(|(key, _)| {
            format!("{key} cannot change while the server runs; restart it, or put the old value back")
        })
        .collect();
    if !changed.is_empty() {
        return Err(Failure::configuration(changed));
    }
    let settings = with_listeners(&new, settings.listeners.clone(), settings.secret);
    Ok((new, settings))
}

fn with_listeners(
    config: &Config,
    listeners: Vec<ringway_server::Listener>,
    secret: [u8; 32],
) -> ringway_server::Config {
    ringway_server::Config {
        domains: config.domains.clone(),
        listeners,
        machine_addresses: machine_addresses(),
        mode: match config.routing.mode {
            Mode::Proxy => ringway_server::Mode::Proxy,
            Mode::Redirect => ringway_server::Mode::Redirect,
        },
        stateful: config.routing.stateful,
        record_route: config.routing.record_route,
        auth: AuthConfig {
            enabled: config.auth.enabled,
            realm: config.auth.realm.clone(),
            algorithms: config
                .auth
                .algorithms
                .iter()
                .map(|algorithm| match algorithm {
                    Algorithm::Sha256 => ringway_server::auth::Algorithm::Sha256,
                    Algorithm::Md5 => ringway_server::auth::Algorithm::Md5,
                })
                .collect(),
            nonce_lifetime: Duration::from_secs(u64::from(config.auth.nonce_lifetime_s)),
            in_dialog: config.auth.in_dialog,
        },
        registrar: RegistrarConfig {
            min_expires_s: config.registrar.min_expires_s,
            default_expires_s: config.registrar.default_expires_s,
            max_expires_s: config.registrar.max_expires_s,
            max_contacts: config.registrar.max_contacts as usize,
        },
        timers: Timers::default(),
        timer_c: TIMER_C,
        message_limits: ringway_sip::Limits {
            message_bytes_max: config.limits.max_message_bytes,
            ..ringway_sip::Limits::default()
        },
        transaction_limits: ringway_transaction::Limits::default(),
        secret,
    }
}

/// Where this machine can be reached, loopback left out. Without the list every phone on it that names another address
/// than it sends from is taken for one behind a NAT.
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

/// The address peers are told: for a listener on all addresses, the one that the way to the outside has.
fn advertised(bound: SocketAddr) -> SocketAddr {
    if !bound.ip().is_unspecified() {
        return bound;
    }
    // Connecting a datagram socket sends nothing; the system only chooses the way. The addresses are for documentation.
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

/// RFC 3261 §16.6 step 11: more than three minutes.
const TIMER_C: Duration = Duration::from_secs(185);
