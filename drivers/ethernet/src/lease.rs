//! The addresses a station has.

use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::time::Duration;
use smoltcp::wire::Ipv4Cidr;

/// Addresses: leased by DHCP (RFC 2131) or fixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Ours.
    pub address: Ipv4Addr,
    /// Bits of the network, 1 to 31.
    pub prefix_bits: u8,
    /// The way out of the link.
    pub gateway: Option<Ipv4Addr>,
    /// Name servers, at most [`NAME_SERVERS_MAX`].
    pub name_servers: Vec<Ipv4Addr>,
    /// Where files are: DHCP's option 66 as an address, or `siaddr`, or the DHCP server itself.
    pub boot_server: Option<Ipv4Addr>,
    /// The file that DHCP names (option 67 or `file`).
    pub boot_file: Option<alloc::string::String>,
    /// The DHCP server; `None`: fixed addresses.
    pub dhcp_server: Option<Ipv4Addr>,
    /// For how long it was leased; it is renewed before. `None`: fixed.
    pub duration: Option<Duration>,
}

impl Lease {
    /// Fixed addresses. `None`: the prefix is not 1 to 31 bits, or the address is no machine's.
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

    /// False for addresses that no machine can have: a server or a user may say anything.
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

    /// The first and the last address of the link, which no station has; a link of two has no such (RFC 3021).
    pub(crate) fn all(&self) -> Option<[Ipv4Addr; 2]> {
        let cidr = self.cidr();
        cidr.broadcast().map(|last| [cidr.network().address(), last])
    }

    pub(crate) fn cidr(&self) -> Ipv4Cidr {
        // smoltcp takes no more than 32.
        Ipv4Cidr::new(self.address, self.prefix_bits.min(32))
    }
}

/// Name servers that are asked.
pub const NAME_SERVERS_MAX: usize = 3;
