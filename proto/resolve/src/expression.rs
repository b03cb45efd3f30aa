//! Subset of POSIX extended regular expressions for NAPTR records, matched in bounded time.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// The substitution expression is malformed, or not in the subset that is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotUsable;

/// Expression that matches a whole text or nothing of it.
///
/// It is a row of elements, each one character set with the number of its repeats. Groups are not nested and not
/// repeated; alternation and back-references are not supported.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    elements: Vec<Element>,
    /// Elements of each group.
    groups: Vec<Range<usize>>,
}

#[derive(Clone, Debug)]
struct Element {
    set: Set,
    /// Minimum number of repeats.
    min: usize,
    /// Maximum number of repeats.
    max: usize,
}

/// Set of ASCII characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Set(u128);

impl Expression {
    /// Maximum number of elements.
    pub(crate) const ELEMENTS_MAX: usize = 32;
    /// Maximum number of groups, which a replacement names by one digit.
    pub(crate) const GROUPS_MAX: usize = 9;

    /// Reads an expression.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, NotUsable> {
        let text = text.strip_prefix(b"^").unwrap_or(text);
        let is_escaped = text.iter().rev().skip(1).take_while(|&&byte| byte == b'\\').count() % 2 == 1;
        let text = text.strip_suffix(b"$").filter(|_| !is_escaped).unwrap_or(text);
        let mut read = Self { elements: Vec::new(), groups: Vec::new() };
        let (mut rest, mut open) = (text, None);
        while let Some((&byte, after)) = rest.split_first() {
            rest = match (byte, open) {
                (b'(', None) if read.groups.len() < Self::GROUPS_MAX => {
                    open = Some(read.elements.len());
                    after
                }
                (b')', Some(start)) => {
                    read.groups.push(start..read.elements.len());
                    open = None;
                    if matches!(after.first(), Some(b'*' | b'+' | b'?' | b'{')) {
                        return Err(NotUsable);
                    }
                    after
                }
                (_, _) => {
                    let (set, after) = set_of(rest)?;
                    let ((min, max), after) = repeats(after)?;
                    if read.elements.len() >= Self::ELEMENTS_MAX {
                        return Err(NotUsable);
                    }
                    read.elements.push(Element { set, min, max });
                    after
                }
            };
        }
        if open.is_some() { Err(NotUsable) } else { Ok(read) }
    }

    /// Ranges of `text` that the groups match; `None`: the expression does not match the whole text.
    ///
    /// A table has, for each element and position, the largest number of repeats after which the remaining elements match the
    /// remaining text. So the time is at most elements × positions × repeats.
    pub(crate) fn matches(&self, text: &[u8]) -> Option<Vec<Range<usize>>> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let positions = text.len() + 1;
        let mut after = vec![None; positions];
        *after.last_mut()? = Some(0);
        let mut table = Vec::with_capacity(self.elements.len());
        for element in self.elements.iter().rev() {
            let row: Vec<Option<usize>> = (0..positions)
                .map(|position| element.longest(text.get(position..)?, after.get(position..)?))
                .collect();
            table.push(core::mem::replace(&mut after, row));
        }
        table.push(after);
        let mut rows = table.iter().rev();
        let mut starts = vec![0];
        let mut position = 0;
        for _ in &self.elements {
            position += (*rows.next()?.get(position)?)?;
            starts.push(position);
        }
        if position != text.len() {
            return None;
        }
        self.groups.iter().map(|group| Some(*starts.get(group.start)?..*starts.get(group.end)?)).collect()
    }

    /// Number of groups.
    pub(crate) fn groups_len(&self) -> usize {
        self.groups.len()
    }
}

impl Element {
    /// Largest number of repeats at the start of `text` after which the next elements match; `after` says where they do.
    fn longest(&self, text: &[u8], after: &[Option<usize>]) -> Option<usize> {
        let run = text.iter().take(self.max).take_while(|&&byte| self.set.has(byte)).count();
        (self.min..=run).rev().find(|&count| after.get(count).is_some_and(Option::is_some))
    }
}

impl Set {
    const EMPTY: Self = Self(0);
    const ALL: Self = Self(u128::MAX);

    const fn with(self, byte: u8) -> Self {
        if byte.is_ascii() { Self(self.0 | 1 << byte) } else { self }
    }

    const fn has(self, byte: u8) -> bool {
        byte.is_ascii() && self.0 & 1 << byte != 0
    }
}

/// Reads one character, `.` or a bracket expression; returns what follows.
fn set_of(text: &[u8]) -> Result<(Set, &[u8]), NotUsable> {
    match text {
        [b'.', after @ ..] => Ok((Set::ALL, after)),
        [b'[', after @ ..] => brackets(after),
        // In an extended regular expression a digit would be a back-reference, and a letter a class of some implementations.
        [b'\\', byte, after @ ..] if byte.is_ascii_punctuation() => Ok((Set::EMPTY.with(*byte), after)),
        [byte, after @ ..] if byte.is_ascii_graphic() && !b"\\*+?{}()|^$".contains(byte) => {
            Ok((Set::EMPTY.with(*byte), after))
        }
        _ => Err(NotUsable),
    }
}

/// Reads a bracket expression after its `[`. Classes such as `[:digit:]` are not supported.
fn brackets(text: &[u8]) -> Result<(Set, &[u8]), NotUsable> {
    let (is_negated, mut rest) = match text {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut set = Set::EMPTY;
    loop {
        rest = match rest {
            [b']', after @ ..] if set != Set::EMPTY => {
                return Ok((if is_negated { Set(!set.0) } else { set }, after));
            }
            [b'[' | b']' | b'\\', ..] => return Err(NotUsable),
            [low, b'-', high, after @ ..] if *high != b']' => {
                if low > high || !high.is_ascii() {
                    return Err(NotUsable);
                }
                set = (*low..=*high).fold(set, Set::with);
                after
            }
            [byte, after @ ..] if byte.is_ascii() => {
                set = set.with(*byte);
                after
            }
            _ => return Err(NotUsable),
        };
    }
}

/// Reads `*`, `+`, `?` or `{m,n}`, if there is one.
fn repeats(text: &[u8]) -> Result<((usize, usize), &[u8]), NotUsable> {
    let (range, after) = match text {
        [b'*', after @ ..] => ((0, TEXT_BYTES_MAX), after),
        [b'+', after @ ..] => ((1, TEXT_BYTES_MAX), after),
        [b'?', after @ ..] => ((0, 1), after),
        [b'{', after @ ..] => {
            let end = after.iter().position(|&byte| byte == b'}').ok_or(NotUsable)?;
            let (inside, after) = after.split_at(end);
            let mut ends = inside.split(|&byte| byte == b',');
            let min = ends.next().and_then(number).ok_or(NotUsable)?;
            let max = match ends.next() {
                None => min,
                Some(b"") => TEXT_BYTES_MAX,
                Some(max) => number(max).ok_or(NotUsable)?,
            };
            if ends.next().is_some() || min > max {
                return Err(NotUsable);
            }
            ((min, max), after.get(1..).unwrap_or_default())
        }
        after => ((1, 1), after),
    };
    match after.first() {
        Some(b'*' | b'+' | b'?' | b'{') => Err(NotUsable),
        _ => Ok((range, after)),
    }
}

/// Number of one or two digits.
fn number(text: &[u8]) -> Option<usize> {
    let is_number = matches!(text.len(), 1 | 2) && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| text.iter().fold(0, |sum, byte| sum * 10 + usize::from(byte - b'0')))
}

/// Maximum length of a text that is matched: more than the longest E.164 number has.
const TEXT_BYTES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of the groups.
    fn groups<'t>(expression: &str, text: &'t str) -> Option<Vec<&'t str>> {
        let groups = Expression::parse(expression.as_bytes()).unwrap().matches(text.as_bytes())?;
        Some(groups.into_iter().map(|group| &text[group]).collect())
    }

    #[test]
    fn the_forms_that_zones_have_are_matched() {
        for expression in [
            "^.*$",
            ".*",
            "^.+$",
            r"^\+441632960083$",
            r"^\+?44163296[0-9]{4}$",
            r"^\+44[1-35-9][0-9]*$",
            "^[^a-z]{1,}$",
            "^[+]441632960083$",
            r"^(\+)(44)(1632)(.*)$",
        ] {
            assert!(groups(expression, "+441632960083").is_some(), "{expression}");
        }
        assert_eq!(groups(r"^\+44(.*)$", "+441632"), Some(vec!["1632"]));
        assert_eq!(groups(r"^\+(..)(.)([0-9]*)$", "+441632"), Some(vec!["44", "1", "632"]));
        assert_eq!(groups("^(.*)(.*)$", "+44"), Some(vec!["+44", ""]), "the first one is the longest");
        assert_eq!(groups(r"^()\+44$", "+44"), Some(vec![""]));
    }

    #[test]
    fn a_part_of_the_number_is_no_match() {
        for expression in [r"^\+44", "163", "^[0-9]+$", r"^\+44.{3}$", r"^\+44[^1].*$", "", "^$", "^.{99}$"] {
            assert_eq!(groups(expression, "+441632960083"), None, "{expression}");
        }
    }

    #[test]
    fn other_expressions_are_refused() {
        for expression in [
            "a|b",
            "(a",
            "a)",
            "((a))",
            "(a)*",
            "(a){2}",
            "a**",
            "*a",
            "a{",
            "a{x}",
            "a{2,1}",
            "a{1,2,3}",
            "[",
            "[]",
            "[a",
            "[b-a]",
            "[[:digit:]]",
            r"\1",
            r"\d",
            "\\",
            "a^b",
            "a$b",
            r"a\$$$",
            "{1}",
            "[a\\]",
            "a{100}",
            "(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)",
            "ä",
            "[ä]",
            "a b",
        ] {
            assert!(Expression::parse(expression.as_bytes()).is_err(), "{expression}");
        }
        assert!(Expression::parse("a".repeat(33).as_bytes()).is_err());
        assert_eq!(groups(r"a\$", "a$"), Some(Vec::new()), "an escaped dollar is a character");
    }

    #[test]
    fn expressions_that_make_others_backtrack_end() {
        let many = [".*".repeat(31), "x".into()].concat();
        assert_eq!(groups(&many, &"1".repeat(32)), None);
        assert_eq!(groups(&".*".repeat(32), &"1".repeat(32)), Some(Vec::new()));
        assert_eq!(groups(".*", &"1".repeat(33)), None, "too long");
    }
}
