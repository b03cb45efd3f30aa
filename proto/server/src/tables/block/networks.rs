//! Set of networks.

use crate::config::Network;
use alloc::vec::Vec;
use core::net::IpAddr;

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
