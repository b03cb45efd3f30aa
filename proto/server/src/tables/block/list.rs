//! The block lists of a server: callers, and networks.

use crate::config::Network;
use crate::tables::block::caller::{Caller, Names};
use crate::tables::block::pattern::{BlockPattern, CallerPattern, is_exempt};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;

/// Callers and networks that may not call: entries for all users, and those of each user.
#[derive(Clone, Debug, Default)]
pub struct BlockList {
    all: Entries,
    /// By `user@domain`.
    users: BTreeMap<Box<[u8]>, Entries>,
}

#[derive(Clone, Debug, Default)]
struct Entries {
    networks: Networks,
    users: BTreeSet<Box<[u8]>>,
    domains: BTreeSet<Box<[u8]>>,
    numbers: BTreeSet<Box<[u8]>>,
    prefixes: BTreeSet<Box<[u8]>>,
}

impl BlockList {
    /// Replaces the entries for all users.
    pub fn set_all(&mut self, patterns: impl IntoIterator<Item = BlockPattern>) {
        self.all = Entries::of(patterns);
    }

    /// Replaces the entries of `user@domain`.
    pub fn set_of_user(&mut self, aor: &[u8], patterns: impl IntoIterator<Item = BlockPattern>) {
        let entries = Entries::of(patterns);
        match entries.is_empty() {
            true => self.users.remove(aor),
            false => self.users.insert(aor.into(), entries),
        };
    }

    /// True if there is a network for all users.
    pub fn has_networks(&self) -> bool {
        !self.all.networks.is_empty()
    }

    /// True if there is a caller for all users, or any entry of a user.
    pub fn has_callers(&self) -> bool {
        self.all.has_callers() || !self.users.is_empty()
    }

    /// True if a network for all users has this address. Loopback is never blocked.
    pub fn blocks_source(&self, source: IpAddr) -> bool {
        self.all.networks.contain(source) && !is_exempt(source)
    }

    /// True if this caller is blocked for all users or for its callee.
    pub fn blocks_caller(&self, caller: &Caller<'_>) -> bool {
        let callee = if self.users.is_empty() { None } else { caller.callee() };
        let of_callee = callee.and_then(|aor| self.users.get(aor.as_slice()));
        if of_callee.is_none() && !self.all.has_callers() {
            return false;
        }
        let names = caller.names();
        self.all.block(&names)
            || of_callee.is_some_and(|entries| {
                entries.block(&names) || entries.networks.contain(caller.source) && !is_exempt(caller.source)
            })
    }
}

impl Entries {
    fn of(patterns: impl IntoIterator<Item = BlockPattern>) -> Self {
        let mut entries = Self::default();
        let mut networks = Vec::new();
        for pattern in patterns {
            match pattern {
                BlockPattern::Network(network) => networks.push(network),
                BlockPattern::Caller(CallerPattern::User(user)) => {
                    entries.users.insert(user);
                }
                BlockPattern::Caller(CallerPattern::Domain(domain)) => {
                    entries.domains.insert(domain);
                }
                BlockPattern::Caller(CallerPattern::Number(number)) => {
                    entries.numbers.insert(number);
                }
                BlockPattern::Caller(CallerPattern::Prefix(number)) => {
                    entries.prefixes.insert(number);
                }
            }
        }
        entries.networks = Networks::of(networks.into_iter());
        entries
    }

    fn has_callers(&self) -> bool {
        let sets = [&self.users, &self.domains, &self.numbers, &self.prefixes];
        sets.iter().any(|set| !set.is_empty())
    }

    fn is_empty(&self) -> bool {
        !self.has_callers() && self.networks.is_empty()
    }

    fn block(&self, names: &Names) -> bool {
        let begins = |number: &[u8]| {
            !self.prefixes.is_empty()
                && (1..=number.len())
                    .any(|len| number.get(..len).is_some_and(|prefix| self.prefixes.contains(prefix)))
        };
        self.users.contains(names.user())
            || self.domains.contains(names.domain())
            || names.numbers().any(|number| self.numbers.contains(number) || begins(number))
    }
}

/// Set of networks, as ranges of addresses in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Networks {
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl Networks {
    /// Makes the set of these networks, which may overlap.
    pub(super) fn of(networks: impl Iterator<Item = Network>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for network in networks {
            match network.first_and_last() {
                (IpAddr::V4(first), IpAddr::V4(last)) => v4.push((first.to_bits(), last.to_bits())),
                (IpAddr::V6(first), IpAddr::V6(last)) => v6.push((first.to_bits(), last.to_bits())),
                (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => {}
            }
        }
        Self { v4: merged(v4), v6: merged(v6) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// True if one of the networks has the address. An IPv4-mapped IPv6 address counts as the IPv4 address.
    pub(super) fn contain(&self, ip: IpAddr) -> bool {
        match ip.to_canonical() {
            IpAddr::V4(ip) => is_within(&self.v4, ip.to_bits()),
            IpAddr::V6(ip) => is_within(&self.v6, ip.to_bits()),
        }
    }
}

/// The ranges in order. Networks either contain each other or have no address in common.
fn merged<T: Ord + Copy>(mut ranges: Vec<(T, T)>) -> Vec<(T, T)> {
    ranges.sort_unstable();
    let mut merged: Vec<(T, T)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match merged.last_mut() {
            Some(before) if first <= before.1 => before.1 = before.1.max(last),
            Some(_) | None => merged.push((first, last)),
        }
    }
    merged
}

fn is_within<T: Ord + Copy>(ranges: &[(T, T)], address: T) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= address);
    after.checked_sub(1).and_then(|index| ranges.get(index)).is_some_and(|(_, last)| address <= *last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_overlapping_networks_and_nowhere_else() {
        let networks = [
            "192.0.2.0/24",
            "192.0.2.128/25",
            "10.0.0.0/8",
            "203.0.113.7",
            "2001:db8::/32",
            "255.255.255.255",
        ];
        let set = Networks::of(networks.iter().map(|network| network.parse().unwrap()));
        let contains = |ip: &str| set.contain(ip.parse().unwrap());
        for ip in [
            "192.0.2.0",
            "192.0.2.255",
            "10.255.0.1",
            "203.0.113.7",
            "::ffff:10.0.0.1",
            "2001:db8:ffff::1",
            "255.255.255.255",
        ] {
            assert!(contains(ip), "{ip}");
        }
        for ip in
            ["192.0.1.255", "192.0.3.0", "9.255.255.255", "11.0.0.0", "203.0.113.6", "203.0.113.8", "::1"]
        {
            assert!(!contains(ip), "{ip}");
        }
        assert!(Networks::of(core::iter::empty()).is_empty() && !set.is_empty());
    }
}
