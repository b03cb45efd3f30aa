//! What a server is told once, and again on a reload.

use crate::auth::{Algorithm, Network, Strangers};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use ringway_sansio::{ListenerId, Transport};
use ringway_transaction::{DEFAULT_PORT, Timers};

/// All settings of a server. Every shard of a server has the same.
#[derive(Clone, Debug)]
pub struct Config {
    /// The domains this server is responsible for, in lower case; at least one. The first also stands for the addresses
    /// it listens on.
    pub domains: Vec<String>,
    /// The listeners, in the order of their [`ListenerId`]s.
    pub listeners: Vec<Listener>,
    /// The addresses of this machine other than loopback: what is sent from one of them, or from loopback, comes from the
    /// same place.
    pub machine_addresses: Vec<IpAddr>,
    /// Whether requests are forwarded or redirected.
    pub mode: Mode,
    /// False: forward without keeping state (RFC 3261 §16.11).
    pub stateful: bool,
    /// Whether dialogs stay on this server's path (RFC 3261 §16.6 step 4).
    pub record_route: bool,
    /// How long a Record-Route mark is good.
    pub dialog_lifetime: Duration,
    /// Authentication.
    pub auth: AuthConfig,
    /// The registrar.
    pub registrar: RegistrarConfig,
    /// T1, T2, T4.
    pub timers: Timers,
    /// How long an INVITE may ring (RFC 3261 §16.6 step 11): over 3 minutes.
    pub timer_c: Duration,
    /// What is read of a message at most.
    pub message_limits: ringway_sip::Limits,
    /// How many transactions there may be.
    pub transaction_limits: ringway_transaction::Limits,
    /// 32 secret bytes that stay the same over restarts: dialogs that go on carry what was made with them.
    pub secret: [u8; 32],
}

/// One listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its transport.
    pub transport: Transport,
    /// The address it is bound to; may be unspecified.
    pub bound: SocketAddr,
    /// The address peers are told in Via and Record-Route.
    pub advertised: SocketAddr,
}

/// What is done with a request for a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is forwarded to where the user is.
    Proxy,
    /// The caller is told where the user is (RFC 3261 §8.3).
    Redirect,
}

/// `[auth]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthConfig {
    /// False: everyone is believed.
    pub enabled: bool,
    /// Whose passwords are asked for.
    pub realm: String,
    /// Offered in this order (RFC 8760 §2.4).
    pub algorithms: Vec<Algorithm>,
    /// How long a nonce is good.
    pub nonce_lifetime: Duration,
    /// Whether requests inside dialogs are challenged too.
    pub in_dialog: bool,
    /// Methods of callers without a password that reach our users.
    pub strangers: Strangers,
    /// Networks of proxies whose word about contacts and callers is taken.
    pub trusted: Vec<Network>,
}

/// `[registrar]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistrarConfig {
    /// Below it: 423.
    pub min_expires_s: u32,
    /// For contacts that say nothing.
    pub default_expires_s: u32,
    /// Longer wishes are cut to it.
    pub max_expires_s: u32,
    /// Contacts a user may have at once.
    pub max_contacts: usize,
}

impl Config {
    /// True for an address in `[auth] trusted`.
    pub(crate) fn is_trusted(&self, ip: IpAddr) -> bool {
        self.auth.trusted.iter().any(|network| network.contains(ip))
    }

    /// The listener with this number.
    pub(crate) fn listener(&self, id: ListenerId) -> Option<&Listener> {
        self.listeners.get(usize::from(id.0))
    }

    /// The first listener that can send by `transport` to `to`.
    pub(crate) fn listener_for(&self, transport: Transport, to: IpAddr) -> Option<ListenerId> {
        let listeners = self.listeners.iter().map(|listener| (listener.transport, listener.bound));
        ListenerId::for_peer(listeners, transport, to)
    }

    /// What peers at `remote` are told as this listener's address.
    pub(crate) fn sent_by(&self, id: ListenerId, remote: IpAddr) -> SocketAddr {
        let Some(listener) = self.listener(id) else { return SocketAddr::new(remote, DEFAULT_PORT) };
        if listener.bound.ip().is_unspecified() && remote.is_loopback() {
            return SocketAddr::new(remote, listener.bound.port());
        }
        listener.advertised
    }
}
