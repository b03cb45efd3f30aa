//! Prefixes of numbers, compiled into a static B-tree.

use alloc::boxed::Box;
use alloc::vec::Vec;
use smallvec::SmallVec;

/// Up to 16 characters at the start of a number.
///
/// Each character is 4 bits, from the highest ones on, and never 0: the numbers that begin with a prefix are those from it up to
/// [`Prefix::end`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Prefix(u64);

impl Prefix {
    pub(super) const CHARACTERS_MAX: usize = 16;

    /// The first characters of a number.
    pub(super) fn of(number: &[u8]) -> Self {
        let codes = number.iter().map_while(|byte| code_of(*byte)).take(Self::CHARACTERS_MAX);
        let places = (0..64).step_by(4).map(|place| 60 - place);
        Self(codes.zip(places).fold(0, |key, (code, shift)| key | u64::from(code) << shift))
    }

    /// This prefix and one more character; the same one if it is full.
    #[must_use]
    pub(super) const fn with(self, code: u8) -> Self {
        match self.unused_bits() {
            0 => self,
            unused => Self(self.0 | (code as u64) << (unused - 4)),
        }
    }

    /// True if `other` begins with it.
    pub(super) fn begins(self, other: Self) -> bool {
        self <= other && self.end().is_none_or(|end| other < end)
    }

    /// The lowest one above those that begin with it; `None`: there is none.
    fn end(self) -> Option<Self> {
        // A code is never 15: there is no carry into the character before.
        1_u64.checked_shl(self.unused_bits()).map(|last| Self(self.0 + last))
    }

    const fn unused_bits(self) -> u32 {
        self.0.trailing_zeros() / 4 * 4
    }
}

/// Code of a character of a number in a [`Prefix`]: 1 to 13.
pub(super) const fn code_of(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0' + 1),
        b'*' => Some(11),
        b'#' => Some(12),
        b'+' => Some(13),
        _ => None,
    }
}

/// Values of prefixes. A number has that of its longest prefix.
///
/// Each value holds from its prefix up to the next one, or up to the end of its prefix, where that of a shorter one holds again: a
/// lookup is one search. With cold caches it costs the memory pages that it reads, so values are in the pages of their keys, and the
/// root of the tree is beside what leads to the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PrefixTable<V> {
    /// First level of a static B-tree: the first keys of the nodes of the next one. A small table has its only leaf here.
    root: Leaf<V>,
    /// The levels between the root and the leaves.
    nodes: Box<[Node]>,
    /// First node of each of them.
    levels: SmallVec<[u32; 2]>,
    /// Empty in a small table.
    leaves: Box<[Leaf<V>]>,
}

/// Keys with their values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(align(1024))]
struct Leaf<V> {
    keys: Node,
    values: [V; KEYS],
}

/// Eight cache lines of sorted keys: a processor reads the lines of a node at the same time, and those of two nodes one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(align(64))]
struct Node([Line; LINES]);

/// Cache line of keys.
type Line = [Prefix; KEYS_OF_LINE];

impl<V: Copy + Default + PartialEq> Default for PrefixTable<V> {
    fn default() -> Self {
        Self::new([])
    }
}

impl<V: Copy + Default + PartialEq> PrefixTable<V> {
    /// Compiles prefixes that are sorted, each once. A number without any of them has the default value.
    pub(super) fn new(sorted: impl IntoIterator<Item = (Prefix, V)>) -> Self {
        let mut steps = Vec::from([(Prefix::default(), V::default())]);
        // Prefixes with which the present one begins.
        let mut open: Vec<(Prefix, V)> = Vec::new();
        for (prefix, value) in sorted {
            close(&mut open, &mut steps, Some(prefix));
            put(&mut steps, prefix, value);
            open.push((prefix, value));
        }
        close(&mut open, &mut steps, None);
        steps.dedup_by(|next, kept| next.1 == kept.1);
        let leaves: Vec<_> = steps.chunks(KEYS).map(Leaf::new).collect();
        let firsts = steps.chunks(KEYS).filter_map(|steps| steps.first()).map(|(key, _)| *key).collect();
        Self::of_leaves(leaves, firsts)
    }

    /// Table of leaves with these first keys.
    fn of_leaves(leaves: Vec<Leaf<V>>, firsts: Vec<Prefix>) -> Self {
        let leaves = match <[Leaf<V>; 1]>::try_from(leaves) {
            Ok([root]) => {
                return Self { root, nodes: Box::default(), levels: SmallVec::new(), leaves: Box::default() };
            }
            Err(leaves) => leaves.into(),
        };
        let mut keys_of_levels = Vec::from([firsts]);
        while let Some(keys) = keys_of_levels.last().filter(|keys| keys.len() > KEYS) {
            let firsts = keys.chunks(KEYS).filter_map(|node| node.first().copied()).collect();
            keys_of_levels.push(firsts);
        }
        let keys = Node::new(keys_of_levels.pop().unwrap_or_default().into_iter());
        let (mut nodes, mut levels) = (Vec::new(), SmallVec::new());
        for keys in keys_of_levels.iter().rev() {
            levels.push(nodes.len() as u32);
            nodes.extend(keys.chunks(KEYS).map(|keys| Node::new(keys.iter().copied())));
        }
        Self { root: Leaf { keys, values: [V::default(); KEYS] }, nodes: nodes.into(), levels, leaves }
    }

    /// Value of the longest prefix of a number.
    pub(super) fn find(&self, wanted: Prefix) -> Option<&V> {
        let mut at = self.root.keys.last_up_to(wanted)?;
        if self.leaves.is_empty() {
            return self.root.values.get(at);
        }
        for first in &self.levels {
            at = at * KEYS + self.nodes.get(*first as usize + at)?.last_up_to(wanted)?;
        }
        let leaf = self.leaves.get(at)?;
        leaf.values.get(leaf.keys.last_up_to(wanted)?)
    }
}

impl<V: Copy + Default> Leaf<V> {
    /// Leaf of sorted keys, at most [`KEYS`].
    fn new(steps: &[(Prefix, V)]) -> Self {
        let mut values = [V::default(); KEYS];
        values.iter_mut().zip(steps).for_each(|(at, (_, value))| *at = *value);
        Self { keys: Node::new(steps.iter().map(|(key, _)| *key)), values }
    }
}

impl<V> PrefixTable<V> {
    /// Bytes of the table in memory.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self) + size_of_val(&*self.nodes) + size_of_val(&*self.leaves)
    }
}

/// Ends the open prefixes with which `next` does not begin.
fn close<V: Copy + Default>(open: &mut Vec<(Prefix, V)>, steps: &mut Vec<(Prefix, V)>, next: Option<Prefix>) {
    while let Some((ended, _)) = open.pop_if(|(prefix, _)| next.is_none_or(|next| !prefix.begins(next))) {
        let value = open.last().map_or_else(V::default, |(_, value)| *value);
        if let Some(end) = ended.end() {
            put(steps, end, value);
        }
    }
}

/// Sets the value from a key on.
fn put<V>(steps: &mut Vec<(Prefix, V)>, key: Prefix, value: V) {
    steps.pop_if(|(last, _)| *last == key);
    steps.push((key, value));
}

impl Node {
    /// Node of sorted keys, at most [`KEYS`].
    fn new(keys: impl Iterator<Item = Prefix>) -> Self {
        let mut node = Self([[Prefix(u64::MAX); KEYS_OF_LINE]; LINES]);
        node.0.as_flattened_mut().iter_mut().zip(keys).for_each(|(at, key)| *at = key);
        node
    }

    /// Index of the last key that is not above `wanted`.
    // One copy of short code: with cold caches each line of code is read, too.
    #[inline(never)]
    fn last_up_to(&self, wanted: Prefix) -> Option<usize> {
        let line = self.0.iter().filter(|line| line[0] <= wanted).count().checked_sub(1)?;
        let key = self.0.get(line)?.iter().filter(|key| **key <= wanted).count().checked_sub(1)?;
        Some(line * KEYS_OF_LINE + key)
    }
}

/// Keys in a line of 64 bytes.
const KEYS_OF_LINE: usize = 8;
/// Lines of a node.
const LINES: usize = 8;
const KEYS: usize = KEYS_OF_LINE * LINES;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::format;
    use alloc::string::String;

    /// The table against a search of all prefixes, with more of them than two levels of nodes have.
    #[test]
    fn a_lookup_finds_the_value_of_the_longest_prefix() {
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut text = |characters: u64| -> String {
            let of = b"0123456789*#";
            let sign = if draw(3) == 0 { "+" } else { "" };
            let rest = (0..=draw(characters)).map(|_| char::from(of[draw(of.len() as u64) as usize]));
            sign.chars().chain(rest).collect()
        };
        for count in [1, 2, KEYS, KEYS + 1, 6000] {
            let texts: BTreeMap<String, u32> = (1..=count as u32).map(|value| (text(5), value)).collect();
            let mut sorted: Vec<_> =
                texts.iter().map(|(text, value)| (Prefix::of(text.as_bytes()), *value)).collect();
            sorted.sort_unstable();
            let table = PrefixTable::new(sorted);
            for number in (0..4000).map(|_| text(9)).chain(texts.keys().cloned()) {
                let expected = (0..=number.len()).rev().find_map(|end| texts.get(&number[..end]));
                let found = table.find(Prefix::of(number.as_bytes()));
                assert_eq!(found, Some(expected.unwrap_or(&0)), "{number} of {count}");
            }
        }
    }

    #[test]
    fn prefixes_up_to_the_longest_and_the_empty_one_have_an_end() {
        let of = |text: &str| Prefix::of(text.as_bytes());
        let long = "9999999999999999";
        let table = PrefixTable::new([(of(""), 1), (of(long), 3), (of("+"), 2)]);
        for (number, value) in [("1", 1), ("+1", 2), ("#", 1), (long, 3), (&format!("{long}1"), 3), ("99", 1)]
        {
            assert_eq!(table.find(of(number)), Some(&value), "{number}");
        }
        assert_eq!(PrefixTable::<u32>::default().find(of("1")), Some(&0));
        assert!(of("49").begins(of("4930")) && !of("49").begins(of("5")) && !of("4930").begins(of("49")));
        assert!(of("").begins(of("+")) && of(long).begins(of(long)) && !of(long).begins(of("999")));
    }
}
