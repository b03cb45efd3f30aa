//! Addresses of targets, local ones towards them, and the addresses that packets may go to.

use anyhow::{Result, anyhow, bail};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

/// Local addresses of a side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Locals {
    pub(crate) first: IpAddr,
    /// Number of addresses, from the first one on.
    pub(crate) sources: u8,
    /// Number of sockets for each address.
    pub(crate) sockets: u8,
}

impl Locals {
    /// Address of each socket.
    pub(crate) fn addresses(self) -> impl Iterator<Item = IpAddr> {
        let count = u32::from(self.sources) * u32::from(self.sockets);
        (0..count).map(move |number| self.address(number % u32::from(self.sources).max(1)))
    }

    fn address(self, number: u32) -> IpAddr {
        match self.first {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits().wrapping_add(number)).into(),
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits().wrapping_add(number.into())).into(),
        }
    }

    /// Text of an error for an address that cannot be used.
    pub(crate) fn advice(self, local: IpAddr) -> String {
        let advice = match local {
            IpAddr::V6(_) if self.sources > 1 => {
                "; IPv6 has one loopback address: give --sources 1, or --local with addresses of this machine"
            }
            IpAddr::V4(_) | IpAddr::V6(_) => "; give --local with an address of this machine",
        };
        format!("cannot open a socket on {local}{advice}")
    }
}

/// True if packets may go to this address.
pub(crate) fn may_send(to: IpAddr, allowed: &[IpAddr]) -> bool {
    to.is_loopback() || allowed.contains(&to)
}

/// Reads `HOST:PORT`. Of several addresses of a name, one that load may be sent to is taken, IPv4 before IPv6.
///
/// # Errors
/// Not an address, or none that load may be sent to; with the remedy.
pub fn resolve(text: &str, allowed: &[IpAddr]) -> Result<SocketAddr> {
    let addresses = text.to_socket_addrs().map_err(|error| {
        anyhow!("{text:?} is not HOST:PORT ({error}); give for example 127.0.0.1:5060 or [::1]:5060")
    })?;
    let mut addresses: Vec<SocketAddr> = addresses.collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    let is_permitted = |address: &&SocketAddr| address.ip().is_loopback() || allowed.contains(&address.ip());
    if let Some(address) = addresses.iter().find(is_permitted) {
        return Ok(*address);
    }
    let hosts: Vec<String> = addresses.iter().map(|address| address.ip().to_string()).collect();
    match hosts.first() {
        Some(first) => bail!(
            "{text} is {}, not a loopback address; give --allow-remote {first} to send load there",
            hosts.join(", ")
        ),
        None => bail!("{text} has no address; give for example 127.0.0.1:5060"),
    }
}

/// Address of this machine from which a host is reached; loopback if it is not reached.
pub fn local_towards(target: SocketAddr) -> IpAddr {
    let (any, loopback): (IpAddr, IpAddr) = match target {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::LOCALHOST.into()),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::LOCALHOST.into()),
    };
    let routed = || {
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect(target).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    if target.ip().is_loopback() { loopback } else { routed().unwrap_or(loopback) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_count_up_and_repeat_for_further_sockets() {
        let locals = Locals { first: Ipv4Addr::LOCALHOST.into(), sources: 2, sockets: 2 };
        let addresses: Vec<String> = locals.addresses().map(|address| address.to_string()).collect();
        assert_eq!(addresses, ["127.0.0.1", "127.0.0.2", "127.0.0.1", "127.0.0.2"]);
        let locals = Locals { first: Ipv6Addr::LOCALHOST.into(), sources: 1, sockets: 1 };
        assert_eq!(locals.addresses().collect::<Vec<_>>(), [IpAddr::from(Ipv6Addr::LOCALHOST)]);
        assert!(Locals { sources: 2, ..locals }.advice(Ipv6Addr::LOCALHOST.into()).contains("--sources 1"));
    }
}
