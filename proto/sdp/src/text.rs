//! Lines, fields and numbers.

use crate::{Fault, Limits, Malformed};
use alloc::vec::Vec;

/// A line: its number from 1, its letter, and its value after the `=`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawLine<'a> {
    pub(crate) number: usize,
    pub(crate) letter: u8,
    pub(crate) value: &'a [u8],
}

impl RawLine<'_> {
    pub(crate) const fn malformed(&self, fault: Fault) -> Malformed {
        Malformed { line: self.number, fault }
    }
}

/// A line that is kept as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Letter before the `=`.
    pub letter: u8,
    /// Value after the `=`.
    pub value: Vec<u8>,
}

/// Splits a description into lines that end in CRLF or LF (RFC 8866 §5 recommends to accept both). Empty
/// lines are accepted only at the end, where many phones send some.
pub(crate) fn lines<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Vec<RawLine<'a>>, Malformed> {
    if bytes.len() > limits.bytes_max {
        return Err(Malformed { line: 1, fault: Fault::TooManyBytes });
    }
    let mut lines = Vec::new();
    let mut blank = None;
    for (number, piece) in (1..).zip(bytes.split(|&byte| byte == b'\n')) {
        let line = piece.strip_suffix(b"\r").unwrap_or(piece);
        if line.is_empty() {
            blank = blank.or(Some(number));
            continue;
        }
        let fail = |fault| Err(Malformed { line: number, fault });
        if let Some(line) = blank {
            return Err(Malformed { line, fault: Fault::Line });
        }
        if lines.len() == limits.lines_max {
            return fail(Fault::TooManyLines);
        }
        if line.iter().any(|&byte| byte == 0 || byte == b'\r') {
            return fail(Fault::ControlCharacter);
        }
        match line {
            [letter, b'=', value @ ..] if letter.is_ascii_lowercase() => {
                lines.push(RawLine { number, letter: *letter, value });
            }
            _ => return fail(Fault::Line),
        }
    }
    Ok(lines)
}

/// Fields of a value. The grammar has one space between two fields; phones also send several, and one at the
/// end.
pub(crate) fn fields(value: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    value.split(|&byte| byte == b' ' || byte == b'\t').filter(|field| !field.is_empty())
}

/// Parses a number of decimal digits.
pub(crate) fn number<T: core::str::FromStr>(digits: &[u8]) -> Option<T> {
    if !is_number(digits) {
        return None;
    }
    core::str::from_utf8(digits).ok()?.parse().ok()
}

/// True for one or more decimal digits.
pub(crate) fn is_number(digits: &[u8]) -> bool {
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// Splits `value` at the first `byte`.
pub(crate) fn split_at_byte(value: &[u8], byte: u8) -> (&[u8], Option<&[u8]>) {
    let at = value.iter().position(|&other| other == byte).unwrap_or(value.len());
    match value.split_at_checked(at) {
        Some((before, [_, after @ ..])) => (before, Some(after)),
        _ => (value, None),
    }
}
