//! Routes of numbers and domains.

use super::Number;
use super::pattern::{BadPattern, PatternKind, PatternTable};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use ringway_sip::Uri;
use smallvec::SmallVec;

/// Route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Requests that it is for.
    pub matches: RouteMatch,
    /// Their next hop.
    pub to: RouteTo,
}

/// Requests that a route is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteMatch {
    /// Numbers in our domains that begin with it.
    Prefix(String),
    /// Numbers in our domains that fit it (see [`PatternTable`]).
    Pattern(String),
    /// This domain, which is not ours; `*`: all domains without a route of their own.
    Domain(String),
}

/// Next hop of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteTo {
    /// Trunks, one after another.
    Trunks {
        /// At most [`Route::TRUNKS_MAX`].
        trunks: WeightedTrunks,
        /// Change of the number.
        change: NumberChange,
    },
    /// Trunks with a rate for the number, the cheapest first.
    ByCost(NumberChange),
    /// User part of a user in the domain of the request.
    User(String),
}

/// Trunks of a route: beside it in memory, if they are not more than a route may have.
pub type WeightedTrunks = SmallVec<[WeightedTrunk; Route::TRUNKS_MAX]>;

/// Trunk of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WeightedTrunk {
    /// Index in the list of trunks.
    pub trunk: u16,
    /// Weight against the other trunks of the route; 0 for all of them: in the order of the list.
    pub weight: u16,
}

/// Change of a number: `strip` characters are removed at its start, then `add` is put before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NumberChange {
    /// Number of characters, a `+` included.
    pub strip: u8,
    /// Characters of a number.
    pub add: String,
}

impl NumberChange {
    /// The number after the change; `None`: it is too long then, or nothing is left.
    pub(crate) fn of(&self, number: &Number) -> Option<Number> {
        match self {
            Self { strip: 0, add } if add.is_empty() => Some(*number),
            Self { strip, add } => number.changed(usize::from(*strip), add.as_bytes()),
        }
    }
}

impl Route {
    /// Maximum number of trunks of a route.
    pub const TRUNKS_MAX: usize = 8;
}

/// Routes, compiled for lookups. Copies share one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteTable(Arc<Compiled>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Compiled {
    /// Different next hops, of which most routes share some.
    hops: Box<[RouteTo]>,
    /// Next hops of numbers.
    numbers: PatternTable,
    /// Domains in lower case with their next hops, sorted by domain.
    domains: Box<[(String, u32)]>,
    any_domain: Option<u32>,
}

/// Route that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRoute {
    /// Index of the route.
    pub route: usize,
    /// Error of its pattern.
    pub why: BadPattern,
}

impl RouteTable {
    /// Compiles routes.
    ///
    /// # Errors
    /// The first route with a bad prefix or pattern.
    pub fn new(routes: Vec<Route>) -> Result<Self, BadRoute> {
        let (mut rules, mut places) = (Vec::new(), Vec::new());
        let (mut domains, mut any_domain) = (Vec::new(), None);
        let mut hops: BTreeMap<RouteTo, u32> = BTreeMap::new();
        for (index, Route { matches, to }) in routes.into_iter().enumerate() {
            let next = hops.len() as u32;
            let hop = *hops.entry(to).or_insert(next);
            match matches {
                RouteMatch::Prefix(text) => rules.push((text, PatternKind::Prefix, hop)),
                RouteMatch::Pattern(text) => rules.push((text, PatternKind::Pattern, hop)),
                RouteMatch::Domain(domain) => {
                    match domain.as_str() {
                        "*" => any_domain = any_domain.or(Some(hop)),
                        domain => domains.push((domain.to_ascii_lowercase(), index, hop)),
                    }
                    continue;
                }
            }
            places.push(index);
        }
        let rules = rules.iter().map(|(text, kind, hop): &(String, _, _)| (text.as_str(), *kind, *hop));
        let numbers = PatternTable::new(rules).map_err(|(rule, why)| BadRoute {
            route: places.get(rule).copied().unwrap_or(usize::MAX),
            why,
        })?;
        // Of equal domains the first in the configuration counts.
        domains.sort();
        let mut numbered: Vec<(u32, RouteTo)> = hops.into_iter().map(|(to, hop)| (hop, to)).collect();
        numbered.sort_unstable_by_key(|(hop, _)| *hop);
        Ok(Self(Arc::new(Compiled {
            hops: numbered.into_iter().map(|(_, to)| to).collect(),
            numbers,
            domains: domains.into_iter().map(|(domain, _, hop)| (domain, hop)).collect(),
            any_domain,
        })))
    }

    /// True without routes.
    pub fn is_empty(&self) -> bool {
        self.0.hops.is_empty()
    }

    /// True if a route leads to the cheapest trunks.
    pub fn uses_rates(&self) -> bool {
        self.0.hops.iter().any(|to| matches!(to, RouteTo::ByCost(_)))
    }

    /// Next hop of a number.
    pub fn of_number(&self, number: &Number) -> Option<&RouteTo> {
        let Compiled { hops, numbers, .. } = &*self.0;
        hops.get(numbers.find(number)? as usize)
    }

    /// Next hop of the domain of a URI.
    pub fn of_domain(&self, uri: &Uri<'_>) -> Option<&RouteTo> {
        let Compiled { hops, domains, any_domain, .. } = &*self.0;
        let host = uri.host().without_root_dot().as_bytes().to_ascii_lowercase();
        let at = domains.partition_point(|(domain, _)| domain.as_bytes() < host.as_slice());
        let own = domains.get(at).filter(|(domain, _)| domain.as_bytes() == host).map(|(_, hop)| *hop);
        hops.get(own.or(*any_domain)? as usize)
    }
}

/// Indices of trunks in the order of trial.
pub(crate) type TrunkOrder = SmallVec<[usize; Route::TRUNKS_MAX]>;

/// Trunks in the order of trial. With weights the order follows from `draw`, so that retransmissions have the same.
pub(crate) fn in_order(trunks: &[WeightedTrunk], mut draw: u64) -> TrunkOrder {
    let trunks = trunks.get(..Route::TRUNKS_MAX).unwrap_or(trunks);
    let mut order = TrunkOrder::new();
    // A bit for each trunk in `order`.
    let mut drawn = 0_u8;
    for _ in trunks {
        let left = || trunks.iter().zip(0..).filter(|(_, at)| drawn & 1 << at == 0);
        let sum: u64 = left().map(|(trunk, _)| u64::from(trunk.weight)).sum();
        let mut ticket = draw.checked_rem(sum).unwrap_or(0);
        draw = draw.checked_div(sum).unwrap_or(draw);
        let next = left().find(|(trunk, _)| match ticket.checked_sub(u64::from(trunk.weight)) {
            Some(rest) if sum > 0 => {
                ticket = rest;
                false
            }
            Some(_) | None => true,
        });
        let Some((trunk, at)) = next else { break };
        order.push(usize::from(trunk.trunk));
        drawn |= 1 << at;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn to(user: &str) -> RouteTo {
        RouteTo::User(user.into())
    }

    #[test]
    fn domains_and_numbers_have_routes_of_their_own() {
        let routes = [
            RouteMatch::Domain("Other.example".into()),
            RouteMatch::Prefix("+49".into()),
            RouteMatch::Domain("*".into()),
            RouteMatch::Domain("a.example".into()),
            RouteMatch::Pattern("1XX".into()),
        ];
        let list =
            routes.into_iter().zip(0..).map(|(matches, n)| Route { matches, to: to(&alloc::format!("{n}")) });
        let table = RouteTable::new(list.collect()).unwrap();
        let domain = |uri: &str| table.of_domain(&Uri::parse(uri.as_bytes()).unwrap()).cloned();
        assert_eq!(domain("sip:x@oTHER.EXAMPLE"), Some(to("0")));
        assert_eq!(domain("sip:x@a.example:5070"), Some(to("3")));
        assert_eq!(domain("sip:x@b.example"), Some(to("2")));
        let number = |text: &[u8]| table.of_number(&Number::parse(text).unwrap()).cloned();
        assert_eq!((number(b"+491"), number(b"112"), number(b"2")), (Some(to("1")), Some(to("4")), None));
        let bad = Route { matches: RouteMatch::Pattern("[".into()), to: to("x") };
        let with_bad = vec![Route { matches: RouteMatch::Domain("b.example".into()), to: to("y") }, bad];
        assert_eq!(RouteTable::new(with_bad), Err(BadRoute { route: 1, why: BadPattern::Syntax }));
    }

    #[test]
    fn weights_divide_the_first_trials_and_each_trunk_is_tried_once() {
        let listed: Vec<_> = (0..3).map(|trunk| WeightedTrunk { trunk, weight: 0 }).collect();
        assert_eq!(in_order(&listed, 77)[..], [0, 1, 2]);
        let weighted = [WeightedTrunk { trunk: 4, weight: 80 }, WeightedTrunk { trunk: 5, weight: 20 }];
        let orders: Vec<_> = (0..1000).map(|draw| in_order(&weighted, draw)).collect();
        assert_eq!(orders.iter().filter(|order| order[..] == [4, 5]).count(), 800);
        assert_eq!(orders.iter().filter(|order| order[..] == [5, 4]).count(), 200);
    }
}
