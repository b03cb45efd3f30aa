//! Sources of messages, as limits count them.

use core::net::{IpAddr, Ipv6Addr};

/// Source that limits count `address` as: the IPv4 address, or the /64 network of an IPv6 address, because a host with
/// one address of the network can use all 2^64.
pub fn source_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

/// Maximum number that one source may have while `in_use` of `total` are in use: `per_source`; from the half on only some, so that
/// sources at their limits leave room for others.
pub const fn limit_of_source(per_source: usize, in_use: usize, total: usize) -> usize {
    if in_use < total / 2 || per_source < OF_SOURCE_MAX { per_source } else { OF_SOURCE_MAX }
}

/// Maximum number of one source in the second half.
const OF_SOURCE_MAX: usize = 4;
