//! Addresses that messages must not be sent to.

use core::net::IpAddr;
use ringway_sansio::Transport;

/// Port of a URI or a Via without port and transport (RFC 3261 §18.2.2, §19.1.2).
pub const DEFAULT_PORT: u16 = Transport::DEFAULT.default_port();

/// False for a broadcast, multicast or unspecified address, IPv4-mapped ones included: no message is sent there (RFC 4475
/// §3.3.10).
pub const fn may_send_to(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(v4) => !(v4.is_broadcast() || v4.is_multicast() || v4.is_unspecified()),
        IpAddr::V6(v6) => !(v6.is_multicast() || v6.is_unspecified()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcast_multicast_and_unspecified_addresses_are_refused() {
        for address in ["255.255.255.255", "224.0.0.1", "0.0.0.0", "ff02::1", "::", "::ffff:224.0.0.1"] {
            assert!(!may_send_to(address.parse().unwrap()), "{address}");
        }
        for address in ["192.0.2.1", "127.0.0.1", "2001:db8::1", "::1"] {
            assert!(may_send_to(address.parse().unwrap()), "{address}");
        }
    }
}
