//! Transports and address families that a program can send by.

use core::net::IpAddr;
use ringway_sansio::Transport;

/// Set of transports, for each address family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usable {
    v4: u8,
    v6: u8,
}

impl Usable {
    /// Adds a transport for IPv4, or for IPv6.
    #[must_use]
    pub const fn with(self, transport: Transport, is_ipv4: bool) -> Self {
        let bit = 1 << transport.code();
        match is_ipv4 {
            true => Self { v4: self.v4 | bit, ..self },
            false => Self { v6: self.v6 | bit, ..self },
        }
    }

    /// True if the transport can be used with some address.
    pub const fn has(self, transport: Transport) -> bool {
        (self.v4 | self.v6) & 1 << transport.code() != 0
    }

    /// True if the transport can be used with this address.
    pub const fn reaches(self, transport: Transport, ip: IpAddr) -> bool {
        let of_family = if ip.is_ipv4() { self.v4 } else { self.v6 };
        of_family & 1 << transport.code() != 0
    }
}
