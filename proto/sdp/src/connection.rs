//! Connection data: the `c=` line (RFC 8866 §5.7).

use crate::text::{fields, split_at_byte};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Connection address of a `c=` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connection {
    /// A unicast address. Nothing may be sent to 0.0.0.0 and `::` (RFC 3264 §8.4). An IPv4-mapped IPv6
    /// address is converted to IPv4.
    Address(IpAddr),
    /// A host name, a multicast group with its TTL, an IPv6 address with a zone, or another network type, not parsed. Media
    /// is never sent there.
    Other(Vec<u8>),
}

impl Connection {
    /// Parses the value of the line.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let mut fields = fields(value);
        let (network, kind, address) = (fields.next()?, fields.next()?, fields.next()?);
        if fields.next().is_some() {
            return None;
        }
        if network != b"IN" {
            return Some(Self::Other([network, kind, address].join(&b' ')));
        }
        match ip(kind, address) {
            Some(ip) => Some(Self::Address(ip)),
            None if is_name(address) || is_group(kind, address) || has_zone(kind, address) => {
                Some(Self::Other([network, kind, address].join(&b' ')))
            }
            None => None,
        }
    }

    /// The address, if it is a unicast address; an unspecified address means hold.
    pub fn unicast(&self) -> Option<IpAddr> {
        match self {
            Self::Address(IpAddr::V4(v4)) if v4.is_broadcast() || v4.is_multicast() => None,
            Self::Address(IpAddr::V6(v6)) if v6.is_multicast() => None,
            Self::Address(ip) => Some(*ip),
            Self::Other(_) => None,
        }
    }
}

/// Parses an address of the type `IP4` or `IP6`.
pub(crate) fn ip(kind: &[u8], address: &[u8]) -> Option<IpAddr> {
    let text = core::str::from_utf8(address).ok()?;
    match kind {
        b"IP4" => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        b"IP6" => text.parse::<Ipv6Addr>().ok().map(|v6| IpAddr::V6(v6).to_canonical()),
        _ => None,
    }
}

/// True for a host name: letters, digits, `-` and `.`, with at least one letter, so that a malformed address
/// is not accepted.
fn is_name(text: &[u8]) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    text.iter().all(is_allowed) && text.iter().any(u8::is_ascii_alphabetic)
}

/// True for an IPv6 address with a zone, which only its own machine can use (RFC 4007 §11).
fn has_zone(kind: &[u8], text: &[u8]) -> bool {
    let (address, zone) = split_at_byte(text, b'%');
    zone.is_some_and(|zone| !zone.is_empty()) && ip(kind, address).is_some_and(|ip| ip.is_ipv6())
}

/// True for a multicast address with a TTL or a number of addresses.
fn is_group(kind: &[u8], text: &[u8]) -> bool {
    let mut parts = text.split(|&byte| byte == b'/');
    let is_address = parts.next().is_some_and(|address| ip(kind, address).is_some());
    is_address && parts.all(crate::text::is_number)
}
