//! Local addresses, and the addresses that packets may go to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
