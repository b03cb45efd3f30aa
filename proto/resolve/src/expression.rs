//! Substitution expression of a NAPTR record (RFC 3402 §3.2): a subset of POSIX extended regular expressions, matched in
//! bounded time.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Regular expression and replacement: `!^\+44(.*)$!sip:\1@example.com!`.
///
/// The expression is one of one-character elements, which may be repeated, and of groups, which may not. It must match the whole
/// text. The time for that is bounded by the lengths of both.
///
/// ```
/// use ringway_resolve::Substitution;
///
/// let substitution = Substitution::parse(r"!^\+44(.*)$!sip:0\1@example.com!")?;
/// assert_eq!(substitution.apply("+441632960083").as_deref(), Some("sip:01632960083@example.com"));
/// assert_eq!(substitution.apply("+491632960083"), None);
/// # Ok::<(), ringway_resolve::NotUsable>(())
/// ```
#[derive(Clone, Debug)]
pub struct Substitution {
    expression: Expression,
    replacement: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Text(Box<str>),
    /// Text of a group, by its index.
    Group(usize),
}

impl Substitution {
    /// Maximum length of a substitution expression: that of a character string in DNS.
    pub const BYTES_MAX: usize = 255;
    /// Maximum length of a result.
    pub const RESULT_BYTES_MAX: usize = 255;

    /// Reads a substitution expression.
    pub fn parse(text: &str) -> Result<Self, NotUsable> {
        let delimiter = text.bytes().next().ok_or(NotUsable)?;
        // RFC 3402 §3.2: not a digit, and not the flag. A letter would make group references ambiguous.
        if text.len() > Self::BYTES_MAX || !delimiter.is_ascii_punctuation() || delimiter == b'\\' {
            return Err(NotUsable);
        }
        let mut fields = Fields { rest: text.get(1..).unwrap_or_default(), delimiter };
        let (expression, replacement) = (fields.next().ok_or(NotUsable)?, fields.next().ok_or(NotUsable)?);
        // Letters do not occur in numbers, so their case does not matter.
        if !matches!(fields.rest, "" | "i") || expression.is_empty() {
            return Err(NotUsable);
        }
        let expression = Expression::parse(&unescaped(expression, delimiter))?;
        let replacement = parts_of(replacement, expression.groups_len())?;
        Ok(Self { expression, replacement })
    }

    /// The result for `text`; `None` if the expression does not match all of it, or the result is too long.
    pub fn apply(&self, text: &str) -> Option<String> {
        let groups = self.expression.matches(text.as_bytes())?;
        let mut result = String::new();
        for part in &self.replacement {
            let part = match part {
                Part::Text(text) => text,
                Part::Group(index) => text.get(groups.get(*index)?.clone())?,
            };
            if result.len() + part.len() > Self::RESULT_BYTES_MAX {
                return None;
            }
            result.push_str(part);
        }
        Some(result)
    }
}

/// Fields of a substitution expression, each ended by the delimiter.
struct Fields<'t> {
    rest: &'t str,
    delimiter: u8,
}

impl<'t> Fields<'t> {
    fn next(&mut self) -> Option<&'t str> {
        let mut is_escaped = false;
        let end = self.rest.bytes().position(|byte| {
            let ends = byte == self.delimiter && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        })?;
        let field = self.rest.get(..end)?;
        self.rest = self.rest.get(end + 1..)?;
        Some(field)
    }
}

/// The expression without the backslashes before its delimiter, which would stand for a literal character otherwise.
fn unescaped(expression: &str, delimiter: u8) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(expression.len());
    let mut rest = expression.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, after.first()) {
            (b'\\', Some(&next)) if next == delimiter => {}
            (b'\\', Some(&next)) => {
                bytes.extend([byte, next]);
                rest = after.get(1..).unwrap_or_default();
            }
            (byte, _) => bytes.push(byte),
        }
    }
    bytes
}

/// Reads a replacement: text with `\1` to `\9`, and `\` before any other character.
fn parts_of(replacement: &str, groups: usize) -> Result<Vec<Part>, NotUsable> {
    let (mut parts, mut text) = (Vec::new(), String::new());
    let mut chars = replacement.chars();
    while let Some(char) = chars.next() {
        match (char, char == '\\') {
            (char, false) => text.push(char),
            (_, true) => match chars.next().ok_or(NotUsable)? {
                digit @ '1'..='9' => {
                    let index = digit as usize - '1' as usize;
                    if index >= groups {
                        return Err(NotUsable);
                    }
                    parts.push(Part::Text(core::mem::take(&mut text).into()));
                    parts.push(Part::Group(index));
                }
                '0' => return Err(NotUsable),
                char => text.push(char),
            },
        }
    }
    parts.push(Part::Text(text.into()));
    Ok(parts)
}

/// The substitution expression is malformed, or not in the subset that is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotUsable;

/// Expression that matches a whole text or nothing of it.
///
/// It is a row of elements, each one character set with the number of its repeats. Groups are not nested and not
/// repeated; alternation and back-references are not supported.
#[derive(Clone, Debug)]
struct Expression {
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
    const ELEMENTS_MAX: usize = 32;
    /// Maximum number of groups, which a replacement names by one digit.
    const GROUPS_MAX: usize = 9;

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
    fn groups_len(&self) -> usize {
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

    fn apply(substitution: &str) -> Option<String> {
        Substitution::parse(substitution).ok()?.apply("+441632960083")
    }

    #[test]
    fn the_usual_forms_give_a_uri() {
        for (substitution, uri) in [
            ("!^.*$!sip:info@example.com!", "sip:info@example.com"),
            ("!^.*$!sip:info@example.com!i", "sip:info@example.com"),
            (r"!^\+44(.*)$!sip:\1@host!", "sip:1632960083@host"),
            (r"!^(.*)$!sip:\1@host;user=phone!", "sip:+441632960083@host;user=phone"),
            (r"/^\+(44)(.*)$/sips:\2.\1@host/", "sips:1632960083.44@host"),
            (r"|^.*$|sip:a\|b@host|", "sip:a|b@host"),
            (r"!^.*$!sip:a\!b\\c@host!", r"sip:a!b\c@host"),
            (r"+^\+44(.*)$+sip:\1@host+", ""),
        ] {
            let expected = Some(uri).filter(|uri| !uri.is_empty());
            assert_eq!(apply(substitution).as_deref(), expected, "{substitution}");
        }
    }

    #[test]
    fn others_are_not_usable() {
        for substitution in [
            "",
            "!",
            "!!",
            "!!!",
            "!!sip:a@b!",
            "!^.*$!sip:a@b",
            "!^.*$!sip:a@b!x",
            "!^.*$!sip:a@b!ii",
            r"!^.*$!sip:\1@b!",
            r"!^(.*)$!sip:\2@b!",
            r"!^(.*)$!sip:\0@b!",
            r"!^.*$!sip:a\",
            "1^.*$1sip:a@b1",
            r"\^.*$\sip:a@b\",
            "i^.*$isip:a@bi",
            "!a|b!sip:a@b!",
            "ä^.*$äsip:a@bä",
        ] {
            assert!(Substitution::parse(substitution).is_err(), "{substitution}");
        }
        let long = ["!^.*$!sip:", &"a".repeat(260), "@b!"].concat();
        assert!(Substitution::parse(&long).is_err());
    }

    #[test]
    fn a_result_is_limited() {
        let many = [r"!^(.*)$!sip:", &r"\1".repeat(100), "!"].concat();
        assert_eq!(apply(&many), None);
    }

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
