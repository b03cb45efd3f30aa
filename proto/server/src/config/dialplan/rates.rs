//! Rates of trunks: prefixes of numbers with a cost, compiled for lookups of the cheapest trunks.

use super::Number;
use super::route::{Route, TrunkOrder};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use smallvec::SmallVec;

/// Rate of a trunk for the numbers that begin with a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate {
    /// Digits at the start of the numbers.
    pub prefix: RatePrefix,
    /// Index in the list of trunks.
    pub trunk: u16,
    /// Cost, in any unit that is the same for all.
    pub cost: u64,
}

/// Up to 15 digits at the start of a number (E.164), without `+`.
///
/// Each digit is 4 bits, from the highest ones on, and 1 more than its value: a prefix is less than the numbers that begin with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RatePrefix(u64);

impl RatePrefix {
    /// Reads digits, with a `+` in front or not; `None`: there are other characters, more digits, or none.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let digits = text.strip_prefix(b"+").unwrap_or(text);
        let is_valid = (1..=DIGITS_MAX).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
        is_valid.then(|| Self::of_digits(digits))
    }

    /// The first digits of a number; those after a character that is none do not count.
    fn of_number(number: &Number) -> Self {
        let bytes = number.as_bytes();
        Self::of_digits(bytes.strip_prefix(b"+").unwrap_or(bytes))
    }

    fn of_digits(digits: &[u8]) -> Self {
        let digits = digits.iter().take(DIGITS_MAX).take_while(|byte| byte.is_ascii_digit());
        let places = (0..DIGITS_MAX as u32).map(|place| 60 - 4 * place);
        Self(digits.zip(places).fold(0, |key, (byte, shift)| key | u64::from(byte - b'0' + 1) << shift))
    }

    /// True if `other` begins with it.
    fn begins(self, other: Self) -> bool {
        let unused = self.0.trailing_zeros() / 4 * 4;
        self.0 == 0 || (self.0 ^ other.0) >> unused == 0
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
    /// Prefixes, sorted: those that begin with one follow it.
    prefixes: Box<[RatePrefix]>,
    /// By prefix.
    entries: Box<[Entry]>,
    /// Trunks of all lists, one list after another.
    trunks: Box<[u16]>,
    /// Start of each list in `trunks`, and the end of the last.
    lists: Box<[u32]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// The longest other prefix with which this one begins, or [`NONE`].
    parent: u32,
    /// Number of its list.
    list: u32,
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
        for group in rates.chunk_by(|rate, next| rate.prefix == next.prefix) {
            builder.add(group);
        }
        Self(Arc::new(builder.compiled()))
    }

    /// True without rates.
    pub fn is_empty(&self) -> bool {
        self.0.prefixes.is_empty()
    }

    /// Number of prefixes.
    pub fn len(&self) -> usize {
        self.0.prefixes.len()
    }

    /// Bytes of the table in memory.
    pub fn bytes(&self) -> usize {
        let Compiled { prefixes, entries, trunks, lists } = &*self.0;
        size_of_val(&**prefixes) + size_of_val(&**entries) + size_of_val(&**trunks) + size_of_val(&**lists)
    }

    /// The trunks for a number, the cheapest first.
    pub fn find(&self, number: &Number) -> &[u16] {
        let Compiled { prefixes, entries, trunks, lists } = &*self.0;
        let wanted = RatePrefix::of_number(number);
        // The longest prefix is the last one before the number, or that one begins with it.
        let mut at = prefixes.partition_point(|prefix| *prefix <= wanted).wrapping_sub(1);
        loop {
            let (Some(prefix), Some(entry)) = (prefixes.get(at), entries.get(at)) else { return &[] };
            if prefix.begins(wanted) {
                let list = entry.list as usize;
                let range = lists.get(list).zip(lists.get(list + 1));
                let range = range.map(|(from, to)| *from as usize..*to as usize);
                return range.and_then(|range| trunks.get(range)).unwrap_or_default();
            }
            at = entry.parent as usize;
        }
    }

    /// The trunks for a number in the order of trial.
    pub(crate) fn order_of(&self, number: &Number) -> TrunkOrder {
        self.find(number).iter().map(|trunk| usize::from(*trunk)).collect()
    }
}

type List = SmallVec<[u16; Route::TRUNKS_MAX]>;

/// Walks the prefixes in their order, with the rates that hold at the present one.
#[derive(Default)]
struct Builder {
    prefixes: Vec<RatePrefix>,
    entries: Vec<Entry>,
    lists: BTreeMap<List, u32>,
    /// Prefixes with which the present one begins, it included.
    open: Vec<Open>,
    of_trunks: BTreeMap<u16, u64>,
    by_cost: BTreeSet<(u64, u16)>,
}

struct Open {
    number: u32,
    prefix: RatePrefix,
    /// Costs that its rates replaced.
    replaced: Vec<(u16, Option<u64>)>,
}

impl Builder {
    fn add(&mut self, rates: &[Rate]) {
        let Some(prefix) = rates.first().map(|rate| rate.prefix) else { return };
        while let Some(open) = self.open.pop_if(|open| !open.prefix.begins(prefix)) {
            for (trunk, cost) in open.replaced {
                self.set(trunk, cost);
            }
        }
        let parent = self.open.last().map_or(NONE, |open| open.number);
        let number = self.prefixes.len() as u32;
        let replaced = rates.iter().map(|rate| (rate.trunk, self.set(rate.trunk, Some(rate.cost)))).collect();
        self.open.push(Open { number, prefix, replaced });
        let list: List = self.by_cost.iter().take(Route::TRUNKS_MAX).map(|(_, trunk)| *trunk).collect();
        let next = self.lists.len() as u32;
        let list = *self.lists.entry(list).or_insert(next);
        self.prefixes.push(prefix);
        self.entries.push(Entry { parent, list });
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

    fn compiled(self) -> Compiled {
        let mut of_numbers: Vec<(u32, List)> =
            self.lists.into_iter().map(|(list, number)| (number, list)).collect();
        of_numbers.sort_unstable_by_key(|(number, _)| *number);
        let (mut trunks, mut lists) = (Vec::new(), Vec::from([0]));
        for (_, list) in of_numbers {
            trunks.extend(list);
            lists.push(trunks.len() as u32);
        }
        Compiled {
            prefixes: self.prefixes.into(),
            entries: self.entries.into(),
            trunks: trunks.into(),
            lists: lists.into(),
        }
    }
}

/// Maximum number of digits of a prefix: those of a number (E.164).
const DIGITS_MAX: usize = 15;
const NONE: u32 = u32::MAX;

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
