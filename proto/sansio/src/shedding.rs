//! Requests that a driver drops before it reads them.

use crate::{Instant, source_of};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

/// Datagrams that a driver drops, best in the kernel, because this machine cannot even refuse all of them: a part of those that begin
/// something new.
///
/// A datagram is dropped by a hash of its source and of the user part of its first line, so that a retransmission and the same request
/// with credentials have the same fate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shedding {
    /// Part that is kept, in 65,536ths.
    pub kept: u16,
    /// The same for those of [`Shedding::many_from`].
    pub kept_of_many: u16,
    /// Sources that send many, as [`source_of`] has them, at most [`Shedding::MANY_MAX`].
    pub many_from: Vec<IpAddr>,
    /// Part of the hash; with another one others are dropped.
    pub salt: u32,
    /// Time from which on none is dropped.
    pub until: Instant,
    /// Text behind the `@` of their first line is one of these, each up to [`Shedding::HOST_BYTES_MAX`] bytes.
    pub hosts: Vec<Vec<u8>>,
    /// Starts of user parts that are never dropped, each up to [`Shedding::USER_BYTES_MAX`] bytes.
    pub spared_users: Vec<Vec<u8>>,
    /// Networks from which nothing is dropped: an address, and the bits that count.
    pub spared_networks: Vec<(IpAddr, u8)>,
    /// Addresses from which nothing is dropped.
    pub spared_sources: Vec<SocketAddr>,
}

impl Shedding {
    /// Start of the datagrams that may be dropped.
    pub const START: &'static [u8; 11] = b"INVITE sip:";
    /// Shorter ones are never dropped.
    pub const BYTES_MIN: usize = 160;
    /// Maximum of the bytes of a host; of a longer one these count.
    pub const HOST_BYTES_MAX: usize = 32;
    /// Maximum of the bytes before the `@` that are searched.
    pub const USER_BYTES_MAX: usize = 40;
    /// Words behind [`Shedding::START`] that are hashed.
    pub const WORDS: usize = 7;
    /// Factor of the hash.
    pub const FACTOR: u32 = 0x9E37_79B1;
    /// Maximum of the entries of each other list.
    pub const ENTRIES_MAX: usize = 24;
    /// Maximum of the sources that send many.
    pub const MANY_MAX: usize = 16;

    /// False for a datagram that is dropped.
    pub fn keeps(&self, source: SocketAddr, bytes: &[u8]) -> bool {
        let Some(user) = bytes.strip_prefix(Self::START) else { return true };
        if bytes.len() < Self::BYTES_MIN || self.spares(source) {
            return true;
        }
        if self.spared_users.iter().any(|start| user.starts_with(start)) {
            return true;
        }
        let at = user.iter().take(Self::USER_BYTES_MAX).position(|byte| *byte == b'@');
        let host = at.and_then(|at| user.get(at + 1..)).unwrap_or_default();
        let is_of_many = || self.many_from.contains(&source_of(source.ip().to_canonical()));
        !self.hosts.iter().any(|own| host.starts_with(own))
            || self.hash(source, user) >> 16
                < u32::from(if is_of_many() { self.kept_of_many } else { self.kept })
    }

    fn spares(&self, source: SocketAddr) -> bool {
        let ip = source.ip().to_canonical();
        self.spared_sources.iter().any(|own| own.ip().to_canonical() == ip && own.port() == source.port())
            || self.spared_networks.iter().any(|(network, bits)| is_in(ip, *network, *bits))
    }

    fn hash(&self, source: SocketAddr, user: &[u8]) -> u32 {
        let words = user.chunks_exact(4).take(Self::WORDS).map(word);
        let parts = [address_word(source.ip().to_canonical()), u32::from(source.port())];
        parts.into_iter().chain(words).fold(self.salt, |hash, part| (hash ^ part).wrapping_mul(Self::FACTOR))
    }
}

/// The address in the hash: its words together.
fn address_word(ip: IpAddr) -> u32 {
    match ip {
        IpAddr::V4(ip) => ip.to_bits(),
        IpAddr::V6(ip) => ip.octets().chunks_exact(4).map(word).fold(0, |all, part| all ^ part),
    }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

fn is_in(ip: IpAddr, network: IpAddr, bits: u8) -> bool {
    let equal = |ip: u128, network: u128, width: u32| {
        let rest = width.saturating_sub(u32::from(bits));
        (ip ^ network).checked_shr(rest).unwrap_or(0) == 0
    };
    match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => equal(ip.to_bits().into(), network.to_bits().into(), 32),
        (IpAddr::V6(ip), IpAddr::V6(network)) => equal(ip.to_bits(), network.to_bits(), 128),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec;

    fn shedding(kept: u16) -> Shedding {
        Shedding {
            kept,
            kept_of_many: 0,
            many_from: vec!["203.0.113.200".parse().unwrap()],
            salt: 7,
            until: Instant::FAR,
            hosts: vec![b"example.org".to_vec()],
            spared_users: vec![b"112".to_vec()],
            spared_networks: vec![("192.0.2.0".parse().unwrap(), 24), ("2001:db8::".parse().unwrap(), 32)],
            spared_sources: vec!["198.51.100.1:5060".parse().unwrap()],
        }
    }

    fn invite(uri: &str) -> Vec<u8> {
        format!("INVITE sip:{uri} SIP/2.0\r\n{:200}", "Via: x").into_bytes()
    }

    #[test]
    fn only_new_calls_to_our_hosts_from_others_are_dropped() {
        let none = shedding(0);
        let other: SocketAddr = "203.0.113.9:5060".parse().unwrap();
        assert!(!none.keeps(other, &invite("bob@example.org")));
        assert!(!none.keeps("[2001:db9::1]:9".parse().unwrap(), &invite("bob@example.org")));
        for (source, bytes) in [
            ("203.0.113.9:5060", invite("bob@192.0.2.1")),
            ("203.0.113.9:5060", invite("112@example.org")),
            ("203.0.113.9:5060", b"INVITE sip:bob@example.org SIP/2.0\r\n".to_vec()),
            ("203.0.113.9:5060", [b"ACK sip:bob@example.org SIP/2.0\r\n".as_slice(), &[b'x'; 200]].concat()),
            ("192.0.2.77:5060", invite("bob@example.org")),
            ("[::ffff:192.0.2.77]:5060", invite("bob@example.org")),
            ("[2001:db8::1]:5060", invite("bob@example.org")),
            ("198.51.100.1:5060", invite("bob@example.org")),
        ] {
            assert!(none.keeps(source.parse().unwrap(), &bytes), "{source}");
        }
        assert!(!none.keeps("198.51.100.1:5061".parse().unwrap(), &invite("bob@example.org")));
    }

    #[test]
    fn a_part_is_kept_and_of_a_caller_and_a_callee_always_the_same() {
        let count = |kept: u16| {
            let keeps = |number: u32| {
                let source = SocketAddr::from(([203, 0, 113, 9], 5060 + (number % 7) as u16));
                shedding(kept).keeps(source, &invite(&format!("u{number:07}@example.org")))
            };
            (0..4096).filter(|number| keeps(*number)).count()
        };
        let counts = [0, 1 << 12, 1 << 15, u16::MAX].map(count);
        assert!(counts[0] == 0 && counts[3] >= 4095, "{counts:?}");
        let of_many: SocketAddr = "203.0.113.200:5060".parse().unwrap();
        assert!(!shedding(u16::MAX).keeps(of_many, &invite("bob@example.org")));
        assert!((200..320).contains(&counts[1]) && (1900..2200).contains(&counts[2]), "{counts:?}");
    }
}
