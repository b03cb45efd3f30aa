//! Networks of addresses, for rules that apply to some senders only, and hosts inside the own network (decision 0054).

use crate::Config;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;
use ringway_sansio::Flow;

/// IPv4 or IPv6 network: `192.0.2.0/24`, `2001:db8::/32`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// The network with this prefix that contains `ip`; the address alone if it has no such prefix.
    pub fn around(ip: IpAddr, prefix: u8) -> Self {
        match ip {
            IpAddr::V4(v4) => {
                let prefix = prefix.min(32);
                Self { address: IpAddr::V4(first_v4(v4, prefix)), prefix }
            }
            IpAddr::V6(v6) => {
                let prefix = prefix.min(128);
                Self { address: IpAddr::V6(first_v6(v6, prefix)), prefix }
            }
        }
    }

    /// Number of bits that all its addresses have in common.
    pub(super) const fn prefix(&self) -> u8 {
        self.prefix
    }

    /// An address of it, and the number of bits that all have in common.
    pub(crate) const fn parts(&self) -> (IpAddr, u8) {
        (self.address, self.prefix)
    }

    /// True for a network of one address.
    pub const fn is_one_address(&self) -> bool {
        match self.address {
            IpAddr::V4(_) => self.prefix == 32,
            IpAddr::V6(_) => self.prefix == 128,
        }
    }

    /// True if every address of the network is loopback.
    pub const fn is_loopback(&self) -> bool {
        match self.address {
            IpAddr::V4(v4) => v4.is_loopback() && self.prefix >= 8,
            IpAddr::V6(v6) => v6.is_loopback() && self.prefix == 128,
        }
    }

    /// True if the network contains `ip`. An IPv4-mapped IPv6 address counts as the IPv4 address.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.address, ip.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(ip)) => own == first_v4(ip, self.prefix),
            (IpAddr::V6(own), IpAddr::V6(ip)) => own == first_v6(ip, self.prefix),
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }

    /// First and last address.
    pub const fn first_and_last(&self) -> (IpAddr, IpAddr) {
        let last = match self.address {
            IpAddr::V4(v4) => {
                let behind = match u32::MAX.checked_shr(self.prefix as u32) {
                    Some(bits) => bits,
                    None => 0,
                };
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() | behind))
            }
            IpAddr::V6(v6) => {
                let behind = match u128::MAX.checked_shr(self.prefix as u32) {
                    Some(bits) => bits,
                    None => 0,
                };
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() | behind))
            }
        };
        (self.address, last)
    }

    /// True for `0.0.0.0/0` and `::/0`.
    pub const fn holds_every_address(&self) -> bool {
        self.prefix == 0
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Host that requests do not reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InnerHost {
    /// Loopback, which no network of the configuration permits.
    Loopback,
    /// Host that is reached after this network is added to [`Config::inner_networks`](crate::Config::inner_networks).
    Unnamed(Network),
}

impl fmt::Display for InnerHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loopback => f.write_str("loopback"),
            Self::Unnamed(network) => network.fmt(f),
        }
    }
}

/// First address of the network with this prefix that contains `ip`.
fn first_v4(ip: Ipv4Addr, prefix: u8) -> Ipv4Addr {
    let bits = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
    Ipv4Addr::from_bits(ip.to_bits() & bits)
}

/// First address of the network with this prefix that contains `ip`.
fn first_v6(ip: Ipv6Addr, prefix: u8) -> Ipv6Addr {
    let bits = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
    Ipv6Addr::from_bits(ip.to_bits() & bits)
}

/// Error of parsing a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotANetwork {
    /// The address is invalid, or the prefix is not a number up to the address's bits.
    Syntax,
    /// Bits after the prefix are set; this network contains the address.
    BitsBehindPrefix(Network),
}

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => {
                (address, Some(prefix.parse::<u8>().map_err(|_| NotANetwork::Syntax)?))
            }
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NotANetwork::Syntax)?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(bits);
        if prefix > bits {
            return Err(NotANetwork::Syntax);
        }
        let first = match address {
            IpAddr::V4(v4) => IpAddr::V4(first_v4(v4, prefix)),
            IpAddr::V6(v6) => IpAddr::V6(first_v6(v6, prefix)),
        };
        let network = Self { address: first, prefix };
        if first == address { Ok(network) } else { Err(NotANetwork::BitsBehindPrefix(network)) }
    }
}

/// True for an address of the machine itself or of a private network: loopback, RFC 1918, RFC 6598 (shared), link-local,
/// RFC 4193 (unique local), and IPv6 addresses that lead to such a one.
pub fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(v4) => {
            let shared = v4.to_bits() & 0xffc0_0000 == 0x6440_0000;
            v4.is_private() || v4.is_link_local() || shared || is_local(IpAddr::V4(v4))
        }
        IpAddr::V6(v6) => {
            let [first, second, third, ..] = v6.segments();
            // NAT64 of a network's own (RFC 8215), and the old site-local addresses (RFC 3879).
            let is_site = (first, second, third) == (0x64, 0xff9b, 1) || first & 0xffc0 == 0xfec0;
            is_local(IpAddr::V6(v6))
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
                || is_site
                || contained_in(v6).is_some_and(|v4| is_private(IpAddr::V4(v4)))
        }
    }
}

/// True for an address that leads to the machine itself on every machine: loopback, and what systems take for it.
pub(crate) fn is_local(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(v4) => v4.is_loopback() || v4.octets().first() == Some(&0),
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_unspecified()
                || contained_in(v6).is_some_and(|v4| is_local(IpAddr::V4(v4)))
        }
    }
}

/// IPv4 address that an IPv6 address leads to: of NAT64 (RFC 6052), 6to4 (RFC 3056), translation (RFC 2765), and the old compatible ones.
const fn contained_in(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let (high, low) = match v6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0, 0, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => (high, low),
        _ => return None,
    };
    Some(Ipv4Addr::from_bits((high as u32) << 16 | low as u32))
}

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
            || self.is_advertised_ip(ip)
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn contains(network: &str, ip: &str) -> bool {
        network.parse::<Network>().unwrap().contains(ip.parse().unwrap())
    }

    #[test]
    fn an_ipv6_address_that_leads_to_a_private_one_is_private() {
        for (ip, expected) in [
            ("64:ff9b::a00:5", true),
            ("64:ff9b::cb00:7105", false),
            ("64:ff9b:1::cb00:7105", true),
            ("2002:a00:5::1", true),
            ("2002:cb00:7105::1", false),
            ("fec0::1", true),
            ("2001:db8::1", false),
            ("::ffff:10.0.0.5", true),
            ("::ffff:0:10.0.0.5", true),
            ("::10.0.0.5", true),
            ("::203.0.113.5", false),
        ] {
            assert_eq!(is_private(ip.parse().unwrap()), expected, "{ip}");
        }
    }

    #[test]
    fn a_network_contains_its_addresses_only() {
        assert!(contains("192.0.2.0/24", "192.0.2.255") && !contains("192.0.2.0/24", "192.0.3.0"));
        assert!(contains("192.0.2.7", "192.0.2.7") && !contains("192.0.2.7", "192.0.2.6"));
        assert!(contains("0.0.0.0/0", "203.0.113.1") && !contains("0.0.0.0/0", "2001:db8::1"));
        assert!(contains("2001:db8::/32", "2001:db8:ffff::1") && !contains("2001:db8::/32", "2001:db9::"));
        assert!(contains("192.0.2.0/24", "::ffff:192.0.2.1"), "an IPv4-mapped address");
        for bad in ["", "192.0.2.0/33", "2001:db8::/129", "host", "192.0.2.0/"] {
            assert_eq!(bad.parse::<Network>(), Err(NotANetwork::Syntax), "{bad}");
        }
        for (bad, meant) in [
            ("192.0.2.1/24", "192.0.2.0/24"),
            ("2001:db8::1/32", "2001:db8::/32"),
            ("10.0.0.1/0", "0.0.0.0/0"),
            ("::1/0", "::/0"),
        ] {
            let network = meant.parse::<Network>().unwrap();
            assert_eq!(bad.parse::<Network>(), Err(NotANetwork::BitsBehindPrefix(network)), "{bad}");
            assert_eq!(
                (network.to_string(), network.holds_every_address()),
                (meant.into(), meant.ends_with("/0"))
            );
        }
    }

    #[test]
    fn private_and_public_addresses_are_distinguished() {
        for ip in [
            "127.0.0.1",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.0.1",
            "169.254.1.1",
            "100.64.0.1",
            "::1",
            "fd00::1",
        ] {
            assert!(is_private(ip.parse().unwrap()), "{ip}");
        }
        for ip in ["192.0.2.1", "172.32.0.1", "100.128.0.1", "2001:db8::1", "::ffff:203.0.113.1"] {
            assert!(!is_private(ip.parse().unwrap()), "{ip}");
        }
    }
}
