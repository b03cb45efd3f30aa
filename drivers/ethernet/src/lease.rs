//! IP configuration of a station.

use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::time::Duration;
use smoltcp::wire::Ipv4Cidr;

/// IP configuration: leased by DHCP (RFC 2131) or fixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Address of the station.
    pub address: Ipv4Addr,
    /// Length of the network prefix, 1 to 31 bits.
    pub prefix_bits: u8,
    /// Default gateway.
    pub gateway: Option<Ipv4Addr>,
    /// DNS servers, at most [`NAME_SERVERS_MAX`].
    pub name_servers: Vec<Ipv4Addr>,
    /// TFTP server: DHCP option 66 if it is an address, else `siaddr`, else the DHCP server.
    pub boot_server: Option<Ipv4Addr>,
    /// Boot file name of DHCP (option 67).
    pub boot_file: Option<alloc::string::String>,
    /// DHCP server; `None`: fixed configuration.
    pub dhcp_server: Option<Ipv4Addr>,
    /// Lease time. `None`: fixed configuration, or not given by the server.
    pub duration: Option<Duration>,
}

impl Lease {
    /// Creates a fixed configuration. `None`: the prefix is not 1 to 31 bits, or the address is not a host address.
    pub fn fixed(address: Ipv4Addr, prefix_bits: u8, gateway: Option<Ipv4Addr>) -> Option<Self> {
        let lease = Self {
            address,
            prefix_bits,
            gateway,
            name_servers: Vec::new(),
            boot_server: None,
            boot_file: None,
            dhcp_server: None,
            duration: None,
        };
        lease.is_usable().then_some(lease)
    }

    /// False for addresses that a host cannot have; both DHCP servers and users may give such addresses.
    pub(crate) fn is_usable(&self) -> bool {
        let address = self.address;
        (1..=31).contains(&self.prefix_bits)
            && !(address.is_unspecified()
                || address.is_loopback()
                || address.is_multicast()
                || address.is_broadcast())
            && !self.is_all(address)
    }

    pub(crate) fn is_on_link(&self, address: Ipv4Addr) -> bool {
        self.cidr().contains_addr(&address)
    }

    /// True for an address that another station of this link can have.
    pub(crate) fn is_other_station(&self, address: Ipv4Addr) -> bool {
        self.is_on_link(address) && address != self.address && !self.is_all(address)
    }

    fn is_all(&self, address: Ipv4Addr) -> bool {
        self.all().is_some_and(|all| all.contains(&address))
    }

    /// Network address and broadcast address, which no station has; a /31 has neither (RFC 3021).
    pub(crate) fn all(&self) -> Option<[Ipv4Addr; 2]> {
        let cidr = self.cidr();
        cidr.broadcast().map(|last| [cidr.network().address(), last])
    }

    pub(crate) fn cidr(&self) -> Ipv4Cidr {
        // `Ipv4Cidr::new` panics above 32.
        Ipv4Cidr::new(self.address, self.prefix_bits.min(32))
    }
}

/// Maximum number of DNS servers.
pub const NAME_SERVERS_MAX: usize = 3;
