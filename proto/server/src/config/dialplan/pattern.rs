//! Prefixes and patterns of numbers, compiled for lookups.

use super::Number;
use super::prefix::{Prefix, PrefixTable, code_of};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;

/// Rules by prefixes and patterns. A lookup finds the one with the most positions before its open end; of equal ones the
/// first.
///
/// A pattern is a row of positions: a digit, `#`, `+` at the start, `X` for any digit, or a set as `[1-5]` or `[13*]`. A `*` or
/// `.` at the end permits any further characters, also none; without it the number ends there. Elsewhere a `*` is the key.
/// A prefix is a pattern with an open end.
///
/// Prefixes of at most `Prefix::CHARACTERS_MAX` characters are in a tree of keys. All other rules are in a trie whose edges are sets of symbols: a
/// lookup of a number visits each of its nodes once at most; if the sets at a node do not overlap, one node for each digit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatternTable {
    prefixes: PrefixTable<Rule>,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
}

/// Error of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPattern {
    /// A character that no position has, or a set that is not closed.
    Syntax,
    /// More than [`Number::BYTES_MAX`] positions.
    TooLong,
    /// More than [`PatternTable::RULES_MAX`] rules.
    TooMany,
}

/// Value of a rule, and its rank among those that fit a number: the one with the highest counts. Rank 0: no rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Rule {
    rank: u32,
    value: u32,
}

impl Rule {
    /// The rule with this index, less than [`PatternTable::RULES_MAX`].
    const fn new(positions: usize, index: usize, value: u32) -> Self {
        let rank = positions * (PatternTable::RULES_MAX + 1) + PatternTable::RULES_MAX - index;
        Self { rank: rank as u32, value }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    edges: Range<u32>,
    /// Rule with an open end here.
    open: Rule,
    /// Rule for numbers that end here.
    closed: Rule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edge {
    symbols: u16,
    node: u32,
}

/// Node of a table that is being built.
#[derive(Default)]
struct Draft {
    edges: Vec<Edge>,
    open: Rule,
    closed: Rule,
}

/// Pattern in its positions.
struct Positions {
    sets: [u16; Number::BYTES_MAX],
    len: usize,
    is_open: bool,
}

impl PatternTable {
    /// Maximum number of rules.
    pub const RULES_MAX: usize = 100_000;

    /// Compiles rules, each with a value. Of equal ones the first counts.
    ///
    /// # Errors
    /// The index of the first rule that is wrong.
    pub fn new<'r>(
        rules: impl IntoIterator<Item = (&'r str, PatternKind, u32)>,
    ) -> Result<Self, (usize, BadPattern)> {
        let (mut prefixes, mut drafts) = (Vec::new(), vec![Draft::default()]);
        for (index, (text, kind, value)) in rules.into_iter().enumerate() {
            if index >= Self::RULES_MAX {
                return Err((index, BadPattern::TooMany));
            }
            let positions = Positions::read(text.as_bytes(), kind).map_err(|why| (index, why))?;
            let rule = Rule::new(positions.len, index, value);
            match positions.prefix() {
                Some(prefix) => prefixes.push((prefix, rule)),
                None => insert(&mut drafts, &positions, rule),
            }
        }
        prefixes.sort_unstable_by_key(|(prefix, rule)| (*prefix, Reverse(rule.rank)));
        prefixes.dedup_by_key(|(prefix, _)| *prefix);
        let mut table = Self { prefixes: PrefixTable::new(prefixes), ..Self::default() };
        for draft in drafts {
            let start = table.edges.len() as u32;
            table.edges.extend(draft.edges);
            let edges = start..table.edges.len() as u32;
            table.nodes.push(Node { edges, open: draft.open, closed: draft.closed });
        }
        Ok(table)
    }

    /// Value of the rule for a number.
    pub fn find(&self, number: &Number) -> Option<u32> {
        let bytes = number.as_bytes();
        let mut best = self.prefixes.find(Prefix::of(bytes)).copied().unwrap_or_default();
        if !self.edges.is_empty() {
            self.descend(0, bytes, &mut best);
        }
        (best.rank > 0).then_some(best.value)
    }

    /// Visits a node and those after it. The recursion is as deep as a number is long.
    fn descend(&self, node: u32, rest: &[u8], best: &mut Rule) {
        let Some(node) = self.nodes.get(node as usize) else { return };
        let closed = if rest.is_empty() { node.closed } else { Rule::default() };
        for rule in [node.open, closed] {
            if rule.rank > best.rank {
                *best = rule;
            }
        }
        let Some((&byte, rest)) = rest.split_first() else { return };
        let symbol = symbol_of(byte);
        let edges = self.edges.get(node.edges.start as usize..node.edges.end as usize).unwrap_or_default();
        for edge in edges.iter().filter(|edge| edge.symbols & symbol != 0) {
            self.descend(edge.node, rest, best);
        }
    }
}

/// Kind of a rule's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternKind {
    /// Characters at the start of a number.
    Prefix,
    /// Positions, as [`PatternTable`] says.
    Pattern,
}

impl Positions {
    fn read(text: &[u8], kind: PatternKind) -> Result<Self, BadPattern> {
        let mut positions = Self { sets: [0; Number::BYTES_MAX], len: 0, is_open: false };
        let mut rest = text;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            let set = match byte {
                b'*' | b'.' if kind == PatternKind::Pattern && rest.is_empty() => {
                    positions.is_open = true;
                    break;
                }
                b'X' | b'x' if kind == PatternKind::Pattern => DIGITS,
                b'[' if kind == PatternKind::Pattern => {
                    let end = memchr::memchr(b']', rest).ok_or(BadPattern::Syntax)?;
                    let (inner, after) = rest.split_at_checked(end).ok_or(BadPattern::Syntax)?;
                    rest = after.get(1..).unwrap_or_default();
                    set_of(inner)?
                }
                b'+' if positions.len > 0 => 0,
                byte => symbol_of(byte),
            };
            if set == 0 {
                return Err(BadPattern::Syntax);
            }
            *positions.sets.get_mut(positions.len).ok_or(BadPattern::TooLong)? = set;
            positions.len += 1;
        }
        positions.is_open |= kind == PatternKind::Prefix;
        Ok(positions)
    }

    fn sets(&self) -> &[u16] {
        self.sets.get(..self.len).unwrap_or_default()
    }

    /// The same as a prefix, if it is one that is short enough.
    fn prefix(&self) -> Option<Prefix> {
        let is_prefix = self.is_open
            && self.len <= Prefix::CHARACTERS_MAX
            && self.sets().iter().all(|set| set.is_power_of_two());
        let code = |set: &u16| set.trailing_zeros() as u8 + 1;
        is_prefix.then(|| self.sets().iter().fold(Prefix::default(), |prefix, set| prefix.with(code(set))))
    }
}

/// Set of the text in brackets: digits, `*`, `#`, and ranges of digits.
fn set_of(mut inner: &[u8]) -> Result<u16, BadPattern> {
    let mut set = 0;
    while let Some((&first, rest)) = inner.split_first() {
        let last = match rest {
            [b'-', last, after @ ..] if first.is_ascii_digit() && last.is_ascii_digit() && *last >= first => {
                inner = after;
                *last
            }
            rest => {
                inner = rest;
                first
            }
        };
        for byte in first..=last {
            match symbol_of(byte) {
                0 | PLUS => return Err(BadPattern::Syntax),
                symbol => set |= symbol,
            }
        }
    }
    Ok(set)
}

fn insert(drafts: &mut Vec<Draft>, positions: &Positions, rule: Rule) {
    let mut at = 0_usize;
    for &symbols in positions.sets() {
        let next = drafts.len() as u32;
        let Some(draft) = drafts.get_mut(at) else { return };
        at = match draft.edges.iter().find(|edge| edge.symbols == symbols) {
            Some(edge) => edge.node as usize,
            None => {
                draft.edges.push(Edge { symbols, node: next });
                drafts.push(Draft::default());
                next as usize
            }
        };
    }
    let Some(draft) = drafts.get_mut(at) else { return };
    let place = if positions.is_open { &mut draft.open } else { &mut draft.closed };
    *place = (*place).max(rule);
}

/// Bit of a character of a number, by its code in a prefix; 0 for any other.
const fn symbol_of(byte: u8) -> u16 {
    match code_of(byte) {
        Some(code) => 1 << (code - 1),
        None => 0,
    }
}

const DIGITS: u16 = 0x3ff;
const PLUS: u16 = 1 << 12;

#[cfg(test)]
mod tests {
    use super::*;
    use PatternKind::{Pattern, Prefix};

    fn table(rules: &[(&str, PatternKind)]) -> PatternTable {
        PatternTable::new(rules.iter().zip(0..).map(|((text, kind), at)| (*text, *kind, at))).unwrap()
    }

    fn find(table: &PatternTable, number: &str) -> Option<usize> {
        table.find(&Number::parse(number.as_bytes()).unwrap()).map(|rule| rule as usize)
    }

    #[test]
    fn the_most_positions_win_then_the_first() {
        let rules = [
            ("", Prefix),
            ("+49", Prefix),
            ("+4930", Prefix),
            ("+49[1-9]X*", Pattern),
            ("0[1-9].", Pattern),
            ("1XX", Pattern),
            ("11[02]", Pattern),
            ("*98", Pattern),
            ("+49", Prefix),
            ("[#*]1", Pattern),
        ];
        let table = table(&rules);
        for (number, rule) in [
            ("+491", 1),
            ("+4930", 2),
            ("+49301", 2),
            ("+49401", 3),
            ("+4990", 3),
            ("0301", 4),
            ("0001", 0),
            ("100", 5),
            ("110", 5),
            ("1000", 0),
            ("*98", 7),
            ("*981", 0),
            ("#1", 9),
            ("7", 0),
        ] {
            assert_eq!(find(&table, number), Some(rule), "{number}");
        }
        assert_eq!(find(&self::table(&[("+49", Prefix)]), "+4"), None);
        assert_eq!(find(&PatternTable::default(), "1"), None);
    }

    /// The trie against a direct comparison of each rule, for rules with sets that overlap.
    #[test]
    fn a_lookup_finds_what_a_comparison_of_all_rules_finds() {
        let texts = [
            "1", "[1-5]", "X", "1X", "X1", "[1-3]1*", "11", "X[02-9]*", "1[13]5", "+1", "+X*", "[0-9]XX",
            "[5-9]XX", "1*", "12*", "[1]2*", "[1]0X", "+1*", "1", "12[3]*", "X23*",
        ];
        let rules: Vec<_> = texts.iter().map(|text| (*text, Pattern)).collect();
        let table = table(&rules);
        let all: Vec<_> =
            texts.iter().map(|text| Positions::read(text.as_bytes(), Pattern).ok().unwrap()).collect();
        let numbers = (0..2000).map(|number| alloc::format!("{number}"));
        for number in numbers.flat_map(|number| [alloc::format!("+{number}"), number]) {
            let bytes = number.as_bytes();
            let matches = |rule: &&Positions| {
                let fits = if rule.is_open { bytes.len() >= rule.len } else { bytes.len() == rule.len };
                fits && rule.sets().iter().zip(bytes).all(|(set, byte)| set & symbol_of(*byte) != 0)
            };
            let deepest = all.iter().filter(matches).map(|rule| rule.len).max();
            let expected = all.iter().position(|rule| matches(&rule) && Some(rule.len) == deepest);
            assert_eq!(find(&table, &number), expected, "{number}");
        }
    }

    #[test]
    fn bad_patterns_are_refused_with_their_index() {
        for text in ["[", "[1", "[]", "[5-1]", "[1-]", "[+]", "1+", "a", "1..", ".*", "1 2"] {
            assert_eq!(
                PatternTable::new([("1", Prefix, 0), (text, Pattern, 1)]),
                Err((1, BadPattern::Syntax)),
                "{text}"
            );
        }
        for text in ["X", "[12]", "1."] {
            assert_eq!(PatternTable::new([(text, Prefix, 0)]), Err((0, BadPattern::Syntax)), "{text}");
        }
        let long = "1".repeat(Number::BYTES_MAX + 1);
        assert_eq!(PatternTable::new([(long.as_str(), Prefix, 0)]), Err((0, BadPattern::TooLong)));
        let many = core::iter::repeat_n(("1", Prefix, 0), PatternTable::RULES_MAX + 1);
        assert_eq!(PatternTable::new(many), Err((PatternTable::RULES_MAX, BadPattern::TooMany)));
    }
}
