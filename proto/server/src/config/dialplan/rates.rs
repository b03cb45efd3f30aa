//! Rates of trunks: prefixes of numbers with a cost, compiled for lookups of the cheapest trunks.

use super::Number;
use super::prefix::{Prefix, PrefixTable};
use super::route::{Route, TrunkOrder};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Rate of a trunk for the numbers that begin with a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate {
    /// Digits at the start of the numbers.
    pub prefix: RatePrefix,
    /// Index in the list of trunks, less than [`u16::MAX`].
    pub trunk: u16,
    /// Cost, in any unit that is the same for all.
    pub cost: u64,
}

/// Up to 15 digits at the start of a number (E.164), without `+`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RatePrefix(Prefix);

impl RatePrefix {
    /// Reads digits, with a `+` in front or not; `None`: there are other characters, more digits, or none.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let digits = without_plus(text);
        let is_valid = (1..=DIGITS_MAX).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
        is_valid.then(|| Self(Prefix::of(digits)))
    }
}

/// Rates, compiled: for each prefix the trunks in the order of their cost, at most [`Route::TRUNKS_MAX`].
///
/// A trunk counts for a number with the rate of its longest prefix of it, and not at all without one. Of equal costs the first trunk
/// of the configuration comes first. Copies share one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateTable(Arc<Compiled>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Compiled {
    lists: PrefixTable<List>,
    /// Number of prefixes.
    prefixes: usize,
}

/// Trunks in the order of their cost, then [`NONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct List([u16; Route::TRUNKS_MAX]);

impl Default for List {
    fn default() -> Self {
        Self([NONE; Route::TRUNKS_MAX])
    }
}

impl List {
    fn trunks(&self) -> &[u16] {
        let len = self.0.iter().take_while(|trunk| **trunk != NONE).count();
        self.0.get(..len).unwrap_or_default()
    }
}

impl RateTable {
    /// Maximum number of rates.
    pub const RATES_MAX: usize = 500_000;

    /// Compiles rates, in any order; those after the first [`RateTable::RATES_MAX`] are left out. Of several rates of a trunk for one
    /// prefix the lowest counts.
    pub fn new(mut rates: Vec<Rate>) -> Self {
        rates.truncate(Self::RATES_MAX);
        rates.sort_unstable();
        rates.dedup_by_key(|rate| (rate.prefix, rate.trunk));
        let mut builder = Builder::default();
        let groups = rates.chunk_by(|rate, next| rate.prefix == next.prefix);
        let lists: Vec<_> = groups.filter_map(|group| builder.add(group)).collect();
        Self(Arc::new(Compiled { prefixes: lists.len(), lists: PrefixTable::new(lists) }))
    }

    /// True without rates.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.0.prefixes
    }

    /// Bytes of the table in memory.
    pub fn bytes(&self) -> usize {
        self.0.lists.bytes()
    }

    /// The trunks for a number, the cheapest first.
    pub fn find(&self, number: &Number) -> &[u16] {
        self.0.lists.find(Prefix::of(without_plus(number.as_bytes()))).map_or(&[], List::trunks)
    }

    /// The trunks for a number in the order of trial.
    pub(crate) fn order_of(&self, number: &Number) -> TrunkOrder {
        self.find(number).iter().map(|trunk| usize::from(*trunk)).collect()
    }
}

/// Walks the prefixes in their order, with the rates that hold at the present one.
#[derive(Default)]
struct Builder {
    /// Prefixes with which the present one begins, it included.
    open: Vec<Open>,
    of_trunks: BTreeMap<u16, u64>,
    by_cost: BTreeSet<(u64, u16)>,
}

struct Open {
    prefix: Prefix,
    /// Costs that its rates replaced.
    replaced: Vec<(u16, Option<u64>)>,
}

impl Builder {
    /// The list of the next prefix, whose rates these are.
    fn add(&mut self, rates: &[Rate]) -> Option<(Prefix, List)> {
        let RatePrefix(prefix) = rates.first()?.prefix;
        while let Some(open) = self.open.pop_if(|open| !open.prefix.begins(prefix)) {
            for (trunk, cost) in open.replaced {
                self.set(trunk, cost);
            }
        }
        let replaced = rates.iter().map(|rate| (rate.trunk, self.set(rate.trunk, Some(rate.cost)))).collect();
        self.open.push(Open { prefix, replaced });
        let mut list = List::default();
        list.0.iter_mut().zip(&self.by_cost).for_each(|(place, (_, trunk))| *place = *trunk);
        Some((prefix, list))
    }

    /// Sets the cost of a trunk from here on, and returns the one before.
    fn set(&mut self, trunk: u16, cost: Option<u64>) -> Option<u64> {
        let before = match cost {
            Some(cost) => self.of_trunks.insert(trunk, cost),
            None => self.of_trunks.remove(&trunk),
        };
        before.map(|before| self.by_cost.remove(&(before, trunk)));
        cost.map(|cost| self.by_cost.insert((cost, trunk)));
        before
    }
}

fn without_plus(number: &[u8]) -> &[u8] {
    number.strip_prefix(b"+").unwrap_or(number)
}

/// Maximum number of digits of a prefix: those of a number (E.164).
const DIGITS_MAX: usize = 15;
const NONE: u16 = u16::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(prefix: &str, trunk: u16, cost: u64) -> Rate {
        Rate { prefix: RatePrefix::parse(prefix.as_bytes()).unwrap(), trunk, cost }
    }

    fn number(text: &str) -> Number {
        Number::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn each_trunk_counts_with_its_longest_prefix_and_the_cheapest_is_first() {
        let rates = [
            ("49", 0, 10),
            ("49", 1, 12),
            ("4930", 1, 5),
            ("49301", 0, 20),
            ("+44", 2, 1),
            ("4", 2, 11),
            ("49", 3, 12),
            ("49", 3, 13),
        ];
        let table = RateTable::new(rates.map(|(prefix, trunk, cost)| rate(prefix, trunk, cost)).to_vec());
        for (text, trunks) in [
            ("+49891", [0, 2, 1, 3].as_slice()),
            ("+49301", &[1, 2, 3, 0]),
            ("4930", &[1, 0, 2, 3]),
            ("+442", &[2]),
            ("+45", &[2]),
            ("+4", &[2]),
            ("+1", &[]),
            ("+50", &[]),
            ("#4", &[]),
        ] {
            assert_eq!(table.find(&number(text)), trunks, "{text}");
        }
        assert_eq!((table.len(), RateTable::default().find(&number("1"))), (5, [].as_slice()));
    }

    /// The table against the rule: for each trunk the rate of its longest prefix, then the order by cost.
    #[test]
    fn a_lookup_finds_what_a_search_of_all_rates_finds() {
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let texts: Vec<(alloc::string::String, u16, u64)> = (0..400)
            .map(|_| {
                let digits = 1 + draw(4) as u32;
                let text = alloc::format!("{}", draw(10_u64.pow(digits)));
                (text, draw(12) as u16, draw(9))
            })
            .collect();
        let table =
            RateTable::new(texts.iter().map(|(text, trunk, cost)| rate(text, *trunk, *cost)).collect());
        for wanted in (0..20_000_u32).map(|number| alloc::format!("{number}")) {
            let mut of_trunks: BTreeMap<u16, (usize, u64)> = BTreeMap::new();
            for (prefix, trunk, cost) in texts.iter().filter(|(prefix, ..)| wanted.starts_with(prefix)) {
                let new = (prefix.len(), *cost);
                let best = of_trunks.entry(*trunk).or_insert(new);
                if new.0 > best.0 || (new.0 == best.0 && new.1 < best.1) {
                    *best = new;
                }
            }
            let mut order: Vec<_> = of_trunks.iter().map(|(trunk, (_, cost))| (*cost, *trunk)).collect();
            order.sort_unstable();
            let expected: Vec<u16> = order.iter().take(8).map(|(_, trunk)| *trunk).collect();
            assert_eq!(table.find(&number(&wanted)), expected, "{wanted}");
        }
    }

    #[test]
    fn a_prefix_has_one_to_fifteen_digits() {
        for text in ["", "+", "49x", "4 9", "1234567890123456", "++4", "-4"] {
            assert_eq!(RatePrefix::parse(text.as_bytes()), None, "{text}");
        }
        let long = rate("123456789012345", 3, 1);
        let table = RateTable::new([long].to_vec());
        assert_eq!(table.find(&number("+1234567890123456789")), [3]);
        assert!(table.find(&number("+12345678901234")).is_empty());
    }
}
