//! Inner hosts: those that a request may name only if the administrator named their network (docs/decisions/0054).

use crate::Config;
use crate::config::{InnerHost, Network, is_local, is_private};
use core::net::IpAddr;
use ringway_sansio::Flow;

impl Config {
    /// Reason why a request must not reach a host that it, a redirection or a forward chose; `None`: it may.
    pub(crate) fn inner_host(&self, ip: IpAddr) -> Option<InnerHost> {
        let ip = ip.to_canonical();
        if is_local(ip) {
            let is_reached = ip.is_loopback() && self.listens_on_loopback_only();
            return (!is_reached).then_some(InnerHost::Loopback);
        }
        // A wide network is meant for the others in it.
        let is_own = self.is_of_machine(ip);
        if !is_own && !is_private(ip) {
            return None;
        }
        let may_name = |network: &&Network| !is_own || network.is_one_address();
        if self.inner_networks.iter().filter(may_name).any(|network| network.contains(ip)) {
            return None;
        }
        let prefix = match ip {
            _ if is_own => u8::MAX,
            IpAddr::V4(_) => 24,
            IpAddr::V6(v6) if v6.is_unique_local() || v6.is_unicast_link_local() => 64,
            IpAddr::V6(_) => u8::MAX,
        };
        Some(InnerHost::Unnamed(Network::around(ip, prefix)))
    }

    /// True for an address of this machine that is known: of an interface, or of a listener.
    pub(crate) fn is_of_machine(&self, ip: IpAddr) -> bool {
        self.machine_addresses.contains(&ip)
            || self.listeners.iter().any(|of| of.bound.ip() == ip || of.advertised.ip() == ip)
    }

    /// True if the flow leads to a listener of this server.
    pub(crate) fn is_own_listener(&self, flow: &Flow) -> bool {
        let mut listeners = self.listeners_in_use();
        listeners.any(|(_, of)| of.transport == flow.transport && of.is_at(flow.remote))
    }

    pub(crate) fn listens_on_loopback_only(&self) -> bool {
        self.listeners_in_use().all(|(_, listener)| listener.bound.ip().is_loopback())
    }
}
