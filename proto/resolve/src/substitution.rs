//! Substitution expression of a NAPTR record (RFC 3402 §3.2).

use crate::expression::{Expression, NotUsable};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

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
}
