//! List of trunks, with tables that find one by an address, a host or its neighbour: no request searches the whole list.

use super::dialplan::NumberForm;
use super::network::Network;
use super::trunk::Trunk;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::ops::{Deref, DerefMut};
use ringway_sip::{Host, Uri};

/// Trunks in the order of the configuration, at most [`TrunkList::LEN_MAX`]. Copies share one list.
#[derive(Clone, Default)]
pub struct TrunkList(Arc<Listed>);

#[derive(Clone, Default)]
struct Listed {
    list: Vec<Trunk>,
    index: TrunkIndex,
}

/// Tables of a list. Each has numbers of trunks, which are positions in the list.
#[derive(Clone, Default)]
pub(super) struct TrunkIndex {
    /// Networks of the trunks that are no nodes.
    networks: NetworkTable,
    /// Addresses in the URIs of the same, sorted.
    addresses: Box<[(IpAddr, u16)]>,
    /// Hash of the host in the URIs of the same, sorted.
    hosts: Box<[(u32, u16)]>,
    /// Neighbours of trunks, sorted.
    neighbours: Box<[(u32, u16)]>,
    nodes: Box<[u16]>,
    registering: Box<[u16]>,
    has_logins: bool,
    changes_numbers: bool,
    /// Different international prefixes.
    international: Box<[Box<str>]>,
    /// Different forms of numbers to trunks.
    forms: Box<[NumberForm]>,
    hides_topology: bool,
}

/// Change of a list; its tables are made anew when it is dropped.
pub struct TrunkListEdit<'l> {
    of: &'l mut TrunkList,
    list: Vec<Trunk>,
}

impl TrunkList {
    /// Maximum number of trunks: those of the configuration, and the nodes behind this server.
    pub const LEN_MAX: usize = Trunk::TRUNKS_MAX + crate::NEIGHBOURS_MAX;

    /// Begins a change.
    pub fn edit(&mut self) -> TrunkListEdit<'_> {
        let list = core::mem::take(&mut Arc::make_mut(&mut self.0).list);
        TrunkListEdit { of: self, list }
    }

    /// True if both are one list in memory.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Position in an earlier list of each trunk that was there, with the same name and URI.
    pub(crate) fn positions_in(&self, earlier: &Self) -> Vec<Option<u16>> {
        fn key(trunk: &Trunk) -> (&str, &str) {
            (&trunk.name, &trunk.uri)
        }
        let positions: BTreeMap<_, u16> = earlier.iter().map(key).zip(0..=u16::MAX).collect();
        self.iter().map(|trunk| positions.get(&key(trunk)).copied()).collect()
    }

    pub(super) fn index(&self) -> &TrunkIndex {
        &self.0.index
    }

    /// Trunks with these numbers.
    fn of_numbers<'l>(&'l self, numbers: &'l [u16]) -> impl Iterator<Item = (usize, &'l Trunk)> {
        numbers.iter().map(|number| usize::from(*number)).filter_map(|at| Some((at, self.0.list.get(at)?)))
    }

    /// Nodes behind this server.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (usize, &Trunk)> {
        self.of_numbers(&self.0.index.nodes)
    }

    /// Trunks that register.
    pub(super) fn registering(&self) -> impl Iterator<Item = (usize, &Trunk)> {
        self.of_numbers(&self.0.index.registering)
    }

    /// The first trunk that is no node, has this address in its networks, and fits.
    pub(super) fn find_in_networks(&self, ip: IpAddr, fits: impl Fn(&Trunk) -> bool) -> Option<usize> {
        let fits = |number: u16| self.0.list.get(usize::from(number)).is_some_and(&fits);
        self.0.index.networks.first(ip, fits).map(usize::from)
    }

    /// The first trunk that is no node, has this address in its URI, and fits.
    pub(super) fn find_address(&self, ip: IpAddr, fits: impl Fn(&Trunk) -> bool) -> Option<usize> {
        let addresses = &self.0.index.addresses;
        let from = addresses.partition_point(|(own, _)| *own < ip);
        let same = addresses.iter().skip(from).take_while(|(own, _)| *own == ip);
        same.map(|(_, number)| usize::from(*number)).find(|at| self.0.list.get(*at).is_some_and(&fits))
    }

    /// True if a trunk that is no node has this host in its URI.
    pub(super) fn has_host(&self, host: Host<'_>) -> bool {
        let (hosts, hash) = (&self.0.index.hosts, hash_of(host));
        let from = hosts.partition_point(|(own, _)| *own < hash);
        let same = hosts.iter().skip(from).take_while(|(own, _)| *own == hash);
        let is_host = |uri: Uri<'_>| uri.host().without_root_dot().equals(host.as_bytes());
        let mut trunks = same.filter_map(|(_, number)| self.0.list.get(usize::from(*number)));
        trunks.any(|trunk| trunk.parsed().is_some_and(is_host))
    }

    /// Those of `len` neighbours that probe no trunk.
    pub(super) fn other_neighbours(&self, len: usize) -> impl Iterator<Item = usize> {
        let of = &self.0.index.neighbours;
        let ends = of.first().zip(of.last()).map(|((first, _), (last, _))| (*first as usize, *last as usize));
        let (first, last) = ends.unwrap_or((len, len));
        // Usually the neighbours of all trunks follow each other.
        let is_gapless = last - first < of.len();
        let between = if is_gapless { 0..0 } else { first..last };
        let between = between.filter(|index| self.of_neighbour(*index).is_none());
        (0..first.min(len)).chain(between).chain(last + 1..len)
    }

    /// The trunk that this neighbour probes.
    pub(crate) fn of_neighbour(&self, neighbour: usize) -> Option<&Trunk> {
        let (neighbours, wanted) = (&self.0.index.neighbours, u32::try_from(neighbour).ok()?);
        let at = neighbours.binary_search_by_key(&wanted, |(own, _)| *own).ok()?;
        self.0.list.get(usize::from(neighbours.get(at)?.1))
    }
}

impl TrunkIndex {
    fn new(list: &[Trunk]) -> Self {
        let numbered = || (0..=u16::MAX).zip(list);
        let gateways = || numbered().filter(|(_, trunk)| !trunk.is_node);
        let uris = || gateways().filter_map(|(number, trunk)| Some((trunk.parsed()?, number)));
        let numbers = |is_it: fn(&Trunk) -> bool| {
            numbered().filter(|(_, trunk)| is_it(trunk)).map(|(number, _)| number).collect::<Box<[u16]>>()
        };
        let networks =
            gateways().flat_map(|(number, trunk)| trunk.networks.iter().map(move |of| (*of, number)));
        let neighbour =
            |(number, trunk): (u16, &Trunk)| Some((u32::try_from(trunk.neighbour?).ok()?, number));
        let prefixes: BTreeSet<&str> = list.iter().flat_map(Trunk::international_or_usual).collect();
        let forms: BTreeSet<&NumberForm> =
            list.iter().map(|trunk| &trunk.numbers_out).filter(|form| form.changes()).collect();
        Self {
            networks: NetworkTable::new(networks),
            addresses: sorted(uris().filter_map(|(uri, number)| Some((uri.host().ip()?, number)))),
            hosts: sorted(uris().map(|(uri, number)| (hash_of(uri.host()), number))),
            neighbours: sorted(numbered().filter_map(neighbour)),
            nodes: numbers(|trunk| trunk.is_node),
            registering: numbers(|trunk| trunk.registers && trunk.login.is_some()),
            has_logins: list.iter().any(|trunk| trunk.login.is_some()),
            changes_numbers: list.iter().any(|trunk| trunk.numbers_in.changes()),
            international: prefixes.into_iter().map(Box::from).collect(),
            forms: forms.into_iter().cloned().collect(),
            hides_topology: list.iter().any(|trunk| trunk.hides_topology),
        }
    }

    pub(super) const fn has_nodes(&self) -> bool {
        !self.nodes.is_empty()
    }

    pub(super) const fn has_logins(&self) -> bool {
        self.has_logins
    }

    pub(super) fn international(&self) -> impl Iterator<Item = &str> {
        self.international.iter().map(|prefix| &**prefix)
    }

    pub(super) fn forms(&self) -> impl Iterator<Item = &NumberForm> {
        self.forms.iter()
    }

    /// True if a trunk must not see the inside.
    pub(super) const fn hides_topology(&self) -> bool {
        self.hides_topology
    }

    /// True if a trunk has numbers in another form.
    pub(super) const fn changes_numbers(&self) -> bool {
        self.changes_numbers
    }
}

fn sorted<T: Ord>(entries: impl Iterator<Item = T>) -> Box<[T]> {
    let mut entries: Vec<T> = entries.collect();
    entries.sort_unstable();
    entries.into_boxed_slice()
}

/// Hash of a host (FNV-1a). Two spellings of one host have the same: those of an IPv6 address have that of all.
fn hash_of(host: Host<'_>) -> u32 {
    let name = host.without_root_dot();
    let bytes = if name.as_bytes().starts_with(b"[") { b"[".as_slice() } else { name.as_bytes() };
    bytes.iter().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0193)
    })
}

/// Trunks by the networks of their requests. Networks may overlap: the first trunk of the configuration counts, whatever the
/// lengths of their prefixes are.
#[derive(Clone, Debug, Default)]
struct NetworkTable {
    /// Networks of each length of a prefix.
    v4: Box<[OfPrefix<u32>]>,
    v6: Box<[OfPrefix<u128>]>,
}

/// Networks with the same length of their prefix: bits of the address, and trunk; sorted.
#[derive(Clone, Debug)]
struct OfPrefix<B> {
    mask: B,
    entries: Box<[(B, u16)]>,
}

impl NetworkTable {
    fn new(networks: impl Iterator<Item = (Network, u16)>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (network, number) in networks {
            let shift = u32::from(network.prefix());
            match network.first_and_last().0 {
                IpAddr::V4(own) => v4.push((mask_of(u32::MAX.checked_shr(shift)), own.to_bits(), number)),
                IpAddr::V6(own) => {
                    v6.push((!u128::MAX.checked_shr(shift).unwrap_or(0), own.to_bits(), number))
                }
            }
        }
        Self { v4: by_prefix(v4), v6: by_prefix(v6) }
    }

    /// The first trunk that has this address and fits. An IPv4-mapped IPv6 address counts as the IPv4 address.
    fn first(&self, ip: IpAddr, fits: impl Fn(u16) -> bool) -> Option<u16> {
        match ip.to_canonical() {
            IpAddr::V4(ip) => {
                let bits = ip.to_bits();
                self.v4.iter().filter_map(|of| first_of(&of.entries, bits & of.mask, &fits)).min()
            }
            IpAddr::V6(ip) => {
                let bits = ip.to_bits();
                self.v6.iter().filter_map(|of| first_of(&of.entries, bits & of.mask, &fits)).min()
            }
        }
    }
}

fn mask_of(behind: Option<u32>) -> u32 {
    !behind.unwrap_or(0)
}

fn by_prefix<B: Copy + Ord>(mut networks: Vec<(B, B, u16)>) -> Box<[OfPrefix<B>]> {
    networks.sort_unstable();
    let groups = networks.chunk_by(|(mask, ..), (other, ..)| mask == other);
    let group = |group: &[(B, B, u16)]| {
        let mask = group.first()?.0;
        Some(OfPrefix { mask, entries: group.iter().map(|&(_, bits, number)| (bits, number)).collect() })
    };
    groups.filter_map(group).collect()
}

fn first_of<B: Copy + Ord>(entries: &[(B, u16)], bits: B, fits: impl Fn(u16) -> bool) -> Option<u16> {
    let from = entries.partition_point(|(own, _)| *own < bits);
    let same = entries.iter().skip(from).take_while(|(own, _)| *own == bits);
    same.map(|(_, number)| *number).find(|number| fits(*number))
}

impl From<Vec<Trunk>> for TrunkList {
    fn from(list: Vec<Trunk>) -> Self {
        let index = TrunkIndex::new(&list);
        Self(Arc::new(Listed { list, index }))
    }
}

impl Deref for TrunkList {
    type Target = [Trunk];

    fn deref(&self) -> &[Trunk] {
        &self.0.list
    }
}

impl PartialEq for TrunkList {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.0.list == other.0.list
    }
}

impl Eq for TrunkList {}

impl fmt::Debug for TrunkList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Deref for TrunkListEdit<'_> {
    type Target = Vec<Trunk>;

    fn deref(&self) -> &Vec<Trunk> {
        &self.list
    }
}

impl DerefMut for TrunkListEdit<'_> {
    fn deref_mut(&mut self) -> &mut Vec<Trunk> {
        &mut self.list
    }
}

impl Drop for TrunkListEdit<'_> {
    fn drop(&mut self) {
        *self.of = core::mem::take(&mut self.list).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    fn with_networks(networks: &[&str]) -> Trunk {
        let networks = networks.iter().map(|network| network.parse().unwrap()).collect();
        Trunk { networks, ..Trunk::at("t", "sip:192.0.2.1:5060") }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// The table against a search of the list in its order.
    #[test]
    fn the_first_trunk_with_the_address_is_found_also_where_networks_overlap() {
        let lists = [
            ["10.1.0.0/16", "192.0.2.0/24", "2001:db8::/32"].as_slice(),
            &["10.0.0.0/8"],
            &["10.1.2.3", "192.0.2.128/25", "2001:db8::7"],
            &["192.0.2.1", "::ffff:0:0/96"],
            &["10.1.2.0/24", "2001:db8:7::/48", "128.0.0.0/1"],
            &["192.0.2.0/24"],
        ];
        let list: TrunkList = lists.iter().map(|of| with_networks(of)).collect::<Vec<_>>().into();
        for address in [
            "10.1.2.3",
            "10.1.2.4",
            "10.2.0.1",
            "192.0.2.1",
            "192.0.2.129",
            "192.0.3.1",
            "9.1.1.1",
            "2001:db8::7",
            "2001:db8:7::1",
            "2001:db9::1",
            "::ffff:10.1.2.3",
            "200.1.1.1",
            "::1",
        ] {
            for least in 0..lists.len() {
                let fits = |trunk: &Trunk| list.iter().position(|of| core::ptr::eq(of, trunk)) >= Some(least);
                let expected = list.iter().position(|trunk| trunk.has_network(ip(address)) && fits(trunk));
                assert_eq!(list.find_in_networks(ip(address), fits), expected, "{address} from {least}");
            }
        }
    }

    #[test]
    fn hosts_and_addresses_are_found_in_any_spelling() {
        let uris = ["sip:Gate.Example.NET.:5060", "sip:[2001:DB8::0:1]", "sips:192.0.2.9;transport=tls"];
        let trunks = uris.map(|uri| Trunk::at("t", uri));
        let mut list: TrunkList = trunks.to_vec().into();
        let host = |list: &TrunkList, uri: &str| {
            list.has_host(Uri::parse(uri.as_bytes()).unwrap().host().without_root_dot())
        };
        for uri in
            ["sip:gate.example.net", "sip:a@GATE.example.net.;lr", "sip:[2001:db8::1]:5070", "sip:192.0.2.9"]
        {
            assert!(host(&list, uri), "{uri}");
        }
        assert!(!host(&list, "sip:gate.example.org") && !host(&list, "sip:[2001:db8::2]"));
        let at = |list: &TrunkList, address| list.find_address(ip(address), |_| true);
        assert_eq!(
            (at(&list, "192.0.2.9"), at(&list, "2001:db8::1"), at(&list, "192.0.2.8")),
            (Some(2), Some(1), None)
        );
        list.edit()[2].is_node = true;
        assert_eq!(
            (at(&list, "192.0.2.9"), host(&list, "sip:192.0.2.9")),
            (None, false),
            "a node is no gateway"
        );
        assert_eq!(list.nodes().map(|(at, _)| at).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn ten_thousand_trunks_are_found_by_address_and_neighbour() {
        let trunk = |number: usize| {
            let address = format!("10.0.{}.{}", number / 250, number % 250);
            let networks = [address.parse().unwrap()].into();
            let uri: String = format!("sip:{address}:5060");
            Trunk { networks, neighbour: Some(number + 3), ..Trunk::at("t", &uri) }
        };
        let list: TrunkList = (0..Trunk::TRUNKS_MAX).map(trunk).collect::<Vec<_>>().into();
        for number in [0, 1, 4711, 9999] {
            let address = format!("10.0.{}.{}", number / 250, number % 250);
            assert_eq!(list.find_in_networks(ip(&address), |_| true), Some(number));
            assert_eq!(list.of_neighbour(number + 3).map(|trunk| &trunk.uri), Some(&list[number].uri));
        }
        assert!(list.of_neighbour(2).is_none() && list.of_neighbour(10_003).is_none());
        assert!(list.other_neighbours(10_005).eq([0, 1, 2, 10_003, 10_004]));
        let mut list = list;
        list.edit()[7].neighbour = None;
        assert!(list.other_neighbours(10_005).eq([0, 1, 2, 10, 10_003, 10_004]));
        assert!(TrunkList::default().other_neighbours(2).eq([0, 1]));
    }
}
