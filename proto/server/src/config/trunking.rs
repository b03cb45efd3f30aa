//! Trunks with their routes and rules, and the tables that find them.

use crate::config::emergency::Emergency;
use crate::config::network::Network;
use crate::config::trunk::Trunk;
use crate::config::trunk_list::TrunkList;
use crate::config::{TrunkOrder, in_order};
use crate::{DestinationRules, Dialing, Number, NumberForm, RateTable, RouteTable, RouteTo};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::Hasher;
use core::net::IpAddr;
use ringway_sansio::PartHasher;
use ringway_sip::Uri;
use siphasher::sip::SipHasher13;

/// Trunks with their routes and destination rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trunking {
    /// Trunks.
    pub trunks: TrunkList,
    /// Routes; they name trunks by their index.
    pub routes: RouteTable,
    /// Costs of numbers at trunks, for routes to the cheapest.
    pub rates: RateTable,
    /// Rules for the numbers that trunks get.
    pub destinations: DestinationRules,
    /// Numbers as users write them; the first one of a domain counts. At most 1,000.
    pub dialing: Vec<Dialing>,
    /// Domains under which numbers are looked up before their routes are used (RFC 6116), in the order of trial; empty: none.
    pub enum_zones: Arc<[Box<str>]>,
    /// Networks that the records of numbers may lead to, beside public addresses of others than trusted proxies.
    pub enum_networks: Vec<Network>,
    /// Emergency calls.
    pub emergency: Emergency,
}

impl Trunking {
    /// True if there are trunks.
    pub(crate) fn has_trunks(&self) -> bool {
        cfg!(feature = "operator") && !self.trunks.is_empty()
    }

    /// Trunks of a next hop in the order of trial, and the number as they get it; `None`: it leads to no trunk, or the number has no
    /// form that they could get. With weights the order follows from `draw`.
    pub(crate) fn order_of(&self, to: &RouteTo, number: &Number, draw: u64) -> Option<(TrunkOrder, Number)> {
        if !cfg!(feature = "operator") {
            return None;
        }
        match to {
            RouteTo::Trunks { trunks, change } => Some((in_order(trunks, draw), change.of(number)?)),
            RouteTo::ByCost(change) => {
                let number = change.of(number)?;
                Some((self.rates.order_of(&number), number)).filter(|(order, _)| !order.is_empty())
            }
            RouteTo::User(_) => None,
        }
    }

    /// Trunks of a number in the order of trial, for measurements: passes their number, and the first one.
    pub fn first_trunk_of(&self, number: &Number, draw: u64) -> Option<(usize, usize)> {
        let (order, _) = self.order_of(self.routes.of_number(number)?, number, draw)?;
        Some((order.len(), *order.first()?))
    }

    /// True if there are routes, or numbers are looked up.
    pub fn is_on(&self) -> bool {
        cfg!(feature = "operator") && (!self.routes.is_empty() || !self.enum_zones.is_empty())
    }

    /// True if requests may be for `tel:` URIs.
    pub(crate) fn reads_tel(&self) -> bool {
        self.is_on() || self.emergency.is_on()
    }

    /// Form in which users of a domain write numbers.
    pub(crate) fn dialing_of(&self, domain: &[u8]) -> Option<&Dialing> {
        let is_of = |dialing: &&Dialing| {
            dialing.domain.as_ref().is_none_or(|own| own.as_bytes().eq_ignore_ascii_case(domain))
        };
        self.dialing.iter().find(is_of)
    }

    /// Names of the trunks whose addresses are not in the configuration, if there are destination rules.
    pub fn named_without_networks(&self) -> impl Iterator<Item = &str> {
        let has_name = |trunk: &&Trunk| {
            trunk.networks.is_empty() && trunk.parsed().is_some_and(|uri| uri.host().ip().is_none())
        };
        let trunks = if self.destinations.is_empty() { &[] } else { &self.trunks[..] };
        trunks.iter().filter(has_name).map(|trunk| trunk.name.as_str())
    }

    /// Trunks that register, with their indices.
    pub(crate) fn registering(&self) -> impl Iterator<Item = (usize, &Trunk)> {
        self.trunks.registering()
    }

    /// Hash of the trunks that register, in any order; 0: none does. Nodes with the same one divide them among themselves.
    pub fn registering_hash(&self) -> u64 {
        self.registering().fold(0, |sum: u64, (_, trunk)| {
            let mut hash = PartHasher::new(SipHasher13::new());
            hash.part(trunk.name.as_bytes());
            hash.part(trunk.account().as_bytes());
            hash.part(trunk.account_domain());
            sum.wrapping_add(hash.hasher().finish())
        })
    }

    /// Nodes behind this server, with their indices.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (usize, &Trunk)> {
        self.trunks.nodes()
    }

    /// True if there are such nodes.
    pub(crate) fn has_nodes(&self) -> bool {
        self.trunks.index().has_nodes()
    }

    /// True if the trunk with this index is a node behind this server.
    pub(crate) fn is_node(&self, trunk: usize) -> bool {
        self.trunks.get(trunk).is_some_and(|trunk| trunk.is_node)
    }

    /// True for the address of a node behind this server.
    pub(crate) fn has_node_at(&self, ip: IpAddr) -> bool {
        self.nodes().any(|(_, node)| node.has_network(ip))
    }

    /// True if a trunk must not see the inside.
    pub(crate) fn hides_topology(&self) -> bool {
        cfg!(feature = "operator") && self.trunks.index().hides_topology()
    }

    /// The trunk with rules for header fields that has an address.
    pub(crate) fn with_rules_at(&self, ip: IpAddr) -> Option<&Trunk> {
        self.trunks.get(self.find_at(ip, |trunk| !trunk.headers.is_empty())?)
    }

    /// True for an address in the networks of a trunk that is no node.
    pub(crate) fn is_trunk(&self, source: IpAddr) -> bool {
        self.trunk_of(source).is_some()
    }

    /// The first trunk that is no node and has this address in its networks.
    pub(crate) fn trunk_of(&self, source: IpAddr) -> Option<&Trunk> {
        if self.trunks.is_empty() {
            return None;
        }
        self.trunks.get(self.trunks.find_in_networks(source, |_| true)?)
    }

    /// True if some trunk's requests have numbers in a form of its own.
    pub(crate) fn changes_numbers(&self) -> bool {
        self.trunks.index().changes_numbers()
    }

    /// International prefixes of all trunks, each once.
    pub(crate) fn international_of_all(&self) -> impl Iterator<Item = &str> {
        self.trunks.index().international()
    }

    /// Forms in which trunks get numbers, each once, without those that change none.
    pub(crate) fn forms_of_all(&self) -> impl Iterator<Item = &NumberForm> {
        self.trunks.index().forms()
    }

    /// True if a trunk has credentials.
    pub(crate) fn has_logins(&self) -> bool {
        self.trunks.index().has_logins()
    }

    /// The first trunk that has this address, in its URI or its networks, and fits.
    pub(crate) fn find_at(&self, ip: IpAddr, fits: impl Fn(&Trunk) -> bool) -> Option<usize> {
        if !cfg!(feature = "operator") || self.trunks.is_empty() {
            return None;
        }
        let (by_uri, by_network) =
            (self.trunks.find_address(ip, &fits), self.trunks.find_in_networks(ip, &fits));
        by_uri.into_iter().chain(by_network).min()
    }

    /// True if a next hop with this URI and address is a trunk: its URI has the host, or the address, or its networks do. A
    /// dot at the end of a name does not make another host.
    pub(crate) fn is_at(&self, uri: &Uri<'_>, address: IpAddr) -> bool {
        self.has_address(address) || self.trunks.has_host(uri.host().without_root_dot())
    }

    /// True for an address of a trunk: that in its URI, or one in its networks.
    pub(crate) fn has_address(&self, ip: IpAddr) -> bool {
        self.find_at(ip, |_| true).is_some()
    }
}
