//! Addresses of targets, and local ones towards them.

use anyhow::{Result, anyhow, bail};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

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
