//! Prefixes and patterns of numbers, compiled into a trie.

use super::Number;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Rules by prefixes and patterns. A lookup finds the one with the most positions before its open end; of equal ones the
/// first.
///
/// A pattern is a row of positions: a digit, `#`, `+` at the start, `X` for any digit, or a set as `[1-5]` or `[13*]`. A `*` or
/// `.` at the end permits any further characters, also none; without it the number ends there. Elsewhere a `*` is the key.
/// A prefix is a pattern with an open end.
///
/// The edges of the trie are sets of symbols. A lookup of a number visits each node once at most; if the sets at a node do not
/// overlap, as those of prefixes, one node for each digit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatternTable {
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

#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    edges: Range<u32>,
    /// Rule with an open end here.
    open: Option<u32>,
    /// Rule for numbers that end here.
    closed: Option<u32>,
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
    open: Option<u32>,
    closed: Option<u32>,
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

    /// Compiles rules. Of equal ones the first counts.
    ///
    /// # Errors
    /// The index of the first rule that is wrong.
    pub fn new<'r>(
        rules: impl IntoIterator<Item = (&'r str, PatternKind)>,
    ) -> Result<Self, (usize, BadPattern)> {
        let mut drafts = vec![Draft::default()];
        for (index, (text, kind)) in rules.into_iter().enumerate() {
            let rule = u32::try_from(index).ok().filter(|_| index < Self::RULES_MAX);
            let rule = rule.ok_or((index, BadPattern::TooMany))?;
            let positions = Positions::read(text.as_bytes(), kind).map_err(|why| (index, why))?;
            insert(&mut drafts, &positions, rule);
        }
        let mut table = Self::default();
        for draft in drafts {
            let start = table.edges.len() as u32;
            table.edges.extend(draft.edges);
            let edges = start..table.edges.len() as u32;
            table.nodes.push(Node { edges, open: draft.open, closed: draft.closed });
        }
        Ok(table)
    }

    /// Rule for a number.
    pub fn find(&self, number: &Number) -> Option<usize> {
        let mut best = None;
        self.descend(0, number.as_bytes(), 0, &mut best);
        best.map(|(_, rule)| rule as usize)
    }

    /// Visits a node at this depth and those after it. The recursion is as deep as a number is long.
    fn descend(&self, node: u32, rest: &[u8], depth: usize, best: &mut Option<(usize, u32)>) {
        let Some(node) = self.nodes.get(node as usize) else { return };
        let closed = node.closed.filter(|_| rest.is_empty());
        for rule in node.open.into_iter().chain(closed) {
            if best.is_none_or(|(deepest, first)| depth > deepest || (depth == deepest && rule < first)) {
                *best = Some((depth, rule));
            }
        }
        let Some((&byte, rest)) = rest.split_first() else { return };
        let symbol = symbol_of(byte);
        let edges = self.edges.get(node.edges.start as usize..node.edges.end as usize).unwrap_or_default();
        for edge in edges.iter().filter(|edge| edge.symbols & symbol != 0) {
            self.descend(edge.node, rest, depth + 1, best);
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

fn insert(drafts: &mut Vec<Draft>, positions: &Positions, rule: u32) {
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
    place.get_or_insert(rule);
}

/// Bit of a character of a number; 0 for any other.
const fn symbol_of(byte: u8) -> u16 {
    match byte {
        b'0'..=b'9' => 1 << (byte - b'0'),
        b'*' => 1 << 10,
        b'#' => 1 << 11,
        b'+' => PLUS,
        _ => 0,
    }
}

const DIGITS: u16 = 0x3ff;
const PLUS: u16 = 1 << 12;

#[cfg(test)]
mod tests {
    use super::*;
    use PatternKind::{Pattern, Prefix};

    fn table(rules: &[(&str, PatternKind)]) -> PatternTable {
        PatternTable::new(rules.iter().copied()).unwrap()
    }

    fn find(table: &PatternTable, number: &str) -> Option<usize> {
        table.find(&Number::parse(number.as_bytes()).unwrap())
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
            "[5-9]XX",
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
                PatternTable::new([("1", Prefix), (text, Pattern)]),
                Err((1, BadPattern::Syntax)),
                "{text}"
            );
        }
        for text in ["X", "[12]", "1."] {
            assert_eq!(PatternTable::new([(text, Prefix)]), Err((0, BadPattern::Syntax)), "{text}");
        }
        let long = "1".repeat(Number::BYTES_MAX + 1);
        assert_eq!(PatternTable::new([(long.as_str(), Prefix)]), Err((0, BadPattern::TooLong)));
        let many = core::iter::repeat_n(("1", Prefix), PatternTable::RULES_MAX + 1);
        assert_eq!(PatternTable::new(many), Err((PatternTable::RULES_MAX, BadPattern::TooMany)));
    }
}
