//! Listeners, and the addresses that they show to peers (decision 0056).

use super::{Network, is_private};
use crate::Config;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use ringway_sansio::{Flow, ListenerId, Transport};
use ringway_sip::{Host, write_host, write_number};
use ringway_transaction::DEFAULT_PORT;

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
        let Self { bound, advertised, .. } = self;
        let is_wild =
            || bound.ip().is_unspecified() && bound.port() == address.port() && address.ip().is_loopback();
        *bound == address || *advertised == address || is_wild()
    }
}

/// Address that peers reach a listener at, in place of its own: that of a router which forwards the port, or of a cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// The listener, as it is bound; `None`: each.
    pub listener: Option<(Transport, SocketAddr)>,
    /// Host.
    pub host: AdvertisedHost,
    /// Port; `None`: that of the listener.
    pub port: Option<u16>,
    /// Peers that get it; none: those whose address is public.
    pub networks: Vec<Network>,
}

/// Host of an advertised address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdvertisedHost {
    /// IP address.
    Address(IpAddr),
    /// Host name, in lower case and without a dot at its end.
    Name(String),
}

/// Host and port of this server, as a peer gets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SentBy<'c> {
    Address(SocketAddr),
    Name(&'c str, u16),
}

impl SentBy<'_> {
    /// Appends `host:port`.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Address(address) => write_host(out, address),
            Self::Name(name, port) => {
                out.extend_from_slice(name.as_bytes());
                out.push(b':');
                write_number(out, u64::from(port));
            }
        }
    }
}

impl Advertised {
    /// A peer that is known by its connection only, as a phone behind an edge, is one outside.
    fn is_for(&self, listener: &Listener, peer: IpAddr) -> bool {
        let is_unknown = peer.is_unspecified();
        let is_of_family = self.ip().is_none_or(|ip| ip.is_ipv4() == peer.to_canonical().is_ipv4());
        self.is_of(listener)
            && (is_unknown || is_of_family)
            && match self.networks.is_empty() {
                _ if is_unknown => true,
                true => !is_private(peer),
                false => self.networks.iter().any(|network| network.contains(peer)),
            }
    }

    fn is_of(&self, listener: &Listener) -> bool {
        self.listener.is_none_or(|(transport, bound)| {
            // Port 0 is the one that the system chose.
            let is_port = bound.port() == 0 || bound.port() == listener.bound.port();
            transport == listener.transport && bound.ip() == listener.bound.ip() && is_port
        })
    }

    fn sent_by(&self, listener: &Listener) -> SentBy<'_> {
        let port = self.port.unwrap_or(listener.bound.port());
        match &self.host {
            AdvertisedHost::Address(ip) => SentBy::Address(SocketAddr::new(*ip, port)),
            AdvertisedHost::Name(name) => SentBy::Name(name, port),
        }
    }

    /// Its address, if it has one.
    const fn ip(&self) -> Option<IpAddr> {
        match self.host {
            AdvertisedHost::Address(ip) => Some(ip),
            AdvertisedHost::Name(_) => None,
        }
    }
}

impl Config {
    /// Host and port of this listener for peers at `remote`.
    pub(crate) fn sent_by(&self, id: ListenerId, remote: IpAddr) -> SentBy<'_> {
        let Some(listener) = self.listener(id) else {
            return SentBy::Address(SocketAddr::new(remote, DEFAULT_PORT));
        };
        if !self.advertised.is_empty()
            && !self.is_listener_of_links(id)
            && let Some(advertised) = self.advertised.iter().find(|entry| entry.is_for(listener, remote))
        {
            return advertised.sent_by(listener);
        }
        if listener.bound.ip().is_unspecified() && remote.is_loopback() {
            return SentBy::Address(SocketAddr::new(remote, listener.bound.port()));
        }
        SentBy::Address(listener.advertised)
    }

    /// Listener for `transport` at the address that this server has in the network of `to`.
    #[cold]
    pub(super) fn listener_in_network(&self, transport: Transport, to: IpAddr) -> Option<ListenerId> {
        let mut networks = self.listener_networks.iter().filter(|(network, _)| network.contains(to));
        networks.find_map(|(_, own)| {
            let is_there = |listener: &Listener| {
                listener.transport == transport && listener.bound.ip().to_canonical() == *own
            };
            self.listeners_in_use().find(|(_, listener)| is_there(listener)).map(|(id, _)| id)
        })
    }

    /// True for a packet's address that is one of a listener. Another host behind the same router can send from an advertised address.
    pub(crate) fn is_own_address(&self, address: SocketAddr) -> bool {
        let address = Flow::canonical(address);
        self.listeners.iter().any(|listener| listener.is_at(address))
    }

    /// True if a URI or a Via with this host names this server: by the address of a listener, or by an advertised one. `ip` is the address
    /// of the host.
    pub(crate) fn is_own_host(
        &self,
        host: Host<'_>,
        ip: Option<IpAddr>,
        port: Option<u16>,
        transport: impl FnOnce() -> Option<Transport>,
    ) -> bool {
        ip.is_some_and(|ip| self.is_own_address(SocketAddr::new(ip, port.unwrap_or(DEFAULT_PORT))))
            || (!self.advertised.is_empty() && self.is_advertised(host, ip, port, transport()))
    }

    #[cold]
    fn is_advertised(
        &self,
        host: Host<'_>,
        ip: Option<IpAddr>,
        port: Option<u16>,
        transport: Option<Transport>,
    ) -> bool {
        let ip = ip.map(|ip| ip.to_canonical());
        // RFC 3261 §19.1.2: without a port it is that of the transport.
        let port = port.unwrap_or(transport.map_or(DEFAULT_PORT, Transport::default_port));
        let has_port = |entry: &Advertised| match entry.port {
            Some(of) => of == port,
            None => self.listeners_in_use().any(|(_, of)| entry.is_of(of) && of.bound.port() == port),
        };
        self.advertised.iter().any(|entry| {
            has_port(entry)
                && match &entry.host {
                    AdvertisedHost::Address(of) => ip == Some(*of),
                    AdvertisedHost::Name(name) => host.without_root_dot().equals(name.as_bytes()),
                }
        })
    }

    /// True for a port of this server in a URI.
    pub(crate) fn is_own_port(&self, port: u16) -> bool {
        let is_of = |of: &Listener| of.bound.port() == port || of.advertised.port() == port;
        self.listeners.iter().any(is_of) || self.advertised.iter().any(|entry| entry.port == Some(port))
    }

    /// True for an address that peers are shown.
    pub(crate) fn is_advertised_ip(&self, ip: IpAddr) -> bool {
        self.advertised.iter().any(|entry| entry.ip() == Some(ip))
    }
}
