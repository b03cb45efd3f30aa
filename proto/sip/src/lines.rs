//! Header lines: the only code that decides where a header field begins and ends, for datagrams and streams alike, so
//! that two readers of the same bytes cannot disagree.

use crate::HeaderName;
use crate::grammar::{TOKEN, class_len, is_lws};
use crate::scan::{find_in_word, first_control};
use core::ops::Range;

/// Position of a header field in a message. Kept small, because a table of them is cleared and moved for each message:
/// the ends of the name and of the line are needed seldom and are searched for again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line {
    /// Start of the line and of its name.
    start: u16,
    value_start: u16,
    value_end: u16,
    /// The name as a number, and [`AS_WRITTEN`]; as wide as the rest, so that there is no padding and clearing the table is
    /// one fill.
    id: u16,
}

impl Line {
    /// Of a message of at most 65,535 bytes.
    pub(crate) const fn new(field: &FieldAt) -> Self {
        Self {
            start: field.start as u16,
            value_start: field.value.start as u16,
            value_end: field.value.end as u16,
            id: field.name as u16 | if field.is_as_written { AS_WRITTEN } else { 0 },
        }
    }

    /// True when the field is of this name.
    pub(crate) const fn is(&self, name: HeaderName) -> bool {
        self.id & !AS_WRITTEN == name as u16
    }

    /// The name as written.
    pub(crate) fn name<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let line = bytes.get(usize::from(self.start)..).unwrap_or_default();
        let len = match self.is_as_written() {
            // A colon and one space follow.
            true => usize::from(self.value_start - self.start) - 2,
            false => class_len(line, TOKEN),
        };
        line.get(..len).unwrap_or_default()
    }

    /// The value without white space around it; folds are still inside.
    pub(crate) fn value<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.value_range()).unwrap_or_default()
    }

    /// Range of the value.
    pub(crate) fn value_range(&self) -> Range<usize> {
        usize::from(self.value_start)..usize::from(self.value_end)
    }

    /// The line with its CRLF, where it is known to be written as we would write it: the name as the RFC spells it, a colon,
    /// one space, the value.
    pub(crate) fn as_written<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        if self.is_as_written() { bytes.get(self.whole(bytes)) } else { None }
    }

    /// From the first byte of the name to the last of the line break.
    pub(crate) fn whole(&self, bytes: &[u8]) -> Range<usize> {
        let value_end = usize::from(self.value_end);
        let end = match self.is_as_written() {
            true => value_end + 2,
            false => line_end(bytes, value_end).map_or(bytes.len(), |(end, _)| end),
        };
        usize::from(self.start)..end
    }

    const fn is_as_written(&self) -> bool {
        self.id & AS_WRITTEN != 0
    }
}

/// Marks a line that can be copied as it is.
const AS_WRITTEN: u16 = 1 << 15;

/// The next item of the header block.
#[cfg_attr(test, derive(Debug, PartialEq))]
pub(crate) enum Next {
    /// The empty line; the body begins at this position.
    Body(usize),
    /// A header field that ends at this position.
    Field(FieldAt, usize),
    /// A line that is no header field; the next begins at this position.
    Bad(usize),
    /// The bytes end before the empty line.
    End,
}

#[cfg_attr(test, derive(Debug, PartialEq))]
pub(crate) struct FieldAt {
    pub(crate) name: HeaderName,
    /// Start of the line and of its name.
    pub(crate) start: usize,
    pub(crate) value: Range<usize>,
    /// It is known to be written as we would write it.
    pub(crate) is_as_written: bool,
}

/// Reads the line at `at`. A line ends with CRLF; a bare LF or CR makes its line bad.
#[inline]
pub(crate) fn next_field(bytes: &[u8], at: usize) -> Next {
    match plain_field(bytes, at) {
        Some((field, end)) => Next::Field(field, end),
        None => any_field(bytes, at),
    }
}

/// The field at `at` as nearly all are written: a name we know, a colon, at most one space, and a value on one line with
/// nothing around it. With it where it ends. `None` says nothing: ask [`any_field`]. Asked for every line of every message,
/// where a call costs as much as the answer.
#[inline(always)]
pub(crate) fn plain_field(bytes: &[u8], at: usize) -> Option<(FieldAt, usize)> {
    let rest = bytes.get(at..)?;
    let (name, is_usual, colon) = plain_name(rest)?;
    let is_spaced = rest.get(colon + 1) == Some(&b' ');
    let value_at = colon + 1 + usize::from(is_spaced);
    let value_on = rest.get(value_at..)?;
    // CR, or a tab or another control that hardly any message holds.
    let len = first_control(value_on)?;
    let [.., last, b'\r', b'\n', next] = value_on.get(..len + 3)? else { return None };
    if value_on.first() == Some(&b' ') || *last == b' ' || matches!(next, b' ' | b'\t') {
        return None;
    }
    let value = at + value_at..at + value_at + len;
    let end = value.end + 2;
    Some((FieldAt { name, start: at, value, is_as_written: is_usual && is_spaced }, end))
}

/// The name at the start of a line, if it is recognised and followed by a colon; true if it has the RFC's spelling; and
/// the position of the colon.
#[inline(always)]
fn plain_name(rest: &[u8]) -> Option<(HeaderName, bool, usize)> {
    let word = |at: usize| rest.get(at..)?.first_chunk().map(|eight| u64::from_le_bytes(*eight));
    // What is before the colon, as [`HeaderName::usual`] takes it.
    let cut = |word: u64, place: usize| word & !(u64::MAX << (8 * place));
    let first = word(0)?;
    let (spelled, colon) = if let Some(place) = find_in_word::<b':'>(first) {
        ([cut(first, place), 0, 0], place)
    } else {
        let second = word(8)?;
        if let Some(place) = find_in_word::<b':'>(second) {
            ([first, cut(second, place), 0], 8 + place)
        } else {
            let third = word(16)?;
            let place = find_in_word::<b':'>(third)?;
            ([first, second, cut(third, place)], 16 + place)
        }
    };
    let last = *rest.get(colon.wrapping_sub(1))?;
    match HeaderName::usual(spelled, last, colon) {
        HeaderName::Other => unusual_name(rest, colon).map(|name| (name, false, colon)),
        name => Some((name, true, colon)),
    }
}

/// The name before the colon in another spelling, if it is recognised.
#[cold]
#[inline(never)]
fn unusual_name(rest: &[u8], colon: usize) -> Option<HeaderName> {
    match HeaderName::from_bytes(rest.get(..colon)?) {
        HeaderName::Other => None,
        name => Some(name),
    }
}

/// Reads the line at `at` in any spelling that the grammar allows.
pub(crate) fn any_field(bytes: &[u8], at: usize) -> Next {
    let rest = bytes.get(at..).unwrap_or_default();
    if rest.starts_with(b"\r\n") {
        return Next::Body(at + 2);
    }
    let (end, well_ended) = match line_end(bytes, at) {
        Some(found) => found,
        None => return Next::End,
    };
    let name_len = class_len(rest, TOKEN);
    let mut colon = at + name_len;
    while matches!(bytes.get(colon), Some(b' ' | b'\t')) {
        colon += 1;
    }
    if !well_ended || name_len == 0 || bytes.get(colon) != Some(&b':') {
        return Next::Bad(end);
    }
    let is_lws_at = |at: usize| bytes.get(at).is_some_and(|&byte| is_lws(byte));
    let (mut start, mut stop) = (colon + 1, end - 2);
    while start < stop && is_lws_at(start) {
        start += 1;
    }
    while start < stop && is_lws_at(stop - 1) {
        stop -= 1;
    }
    let name = HeaderName::from_bytes(rest.get(..name_len).unwrap_or_default());
    Next::Field(FieldAt { name, start: at, value: start..stop, is_as_written: false }, end)
}

/// The end of the (folded) line at `at`, after its line break; true if all its line breaks are CRLF and it has no bare
/// CR.
fn line_end(bytes: &[u8], at: usize) -> Option<(usize, bool)> {
    let mut from = at;
    let mut well_ended = true;
    loop {
        let found = from + memchr::memchr2(b'\r', b'\n', bytes.get(from..)?)?;
        match (bytes.get(found), bytes.get(found + 1)) {
            (Some(b'\r'), Some(b'\n')) => from = found + 2,
            (Some(b'\n'), _) => {
                well_ended = false;
                from = found + 1;
            }
            (_, None) => return None,
            _ => {
                well_ended = false;
                from = found + 1;
                continue;
            }
        }
        if !matches!(bytes.get(from), Some(b' ' | b'\t')) {
            return Some((from, well_ended));
        }
    }
}

/// The value of the first field of this name, found without reading the whole message. For peeking before a message
/// is parsed: it promises nothing about the rest.
pub fn peek_header(bytes: &[u8], name: HeaderName) -> Option<&[u8]> {
    peek_headers(bytes, name).next()
}

/// Position of that value.
pub fn peek_header_range(bytes: &[u8], name: HeaderName) -> Option<Range<usize>> {
    peek_ranges(bytes, name).next()
}

/// The last comma-separated value of the fields of this name, found likewise.
pub fn peek_last_header(bytes: &[u8], name: HeaderName) -> Option<&[u8]> {
    peek_headers(bytes, name).flat_map(crate::grammar::Values::new).last()
}

fn peek_headers(bytes: &[u8], name: HeaderName) -> impl Iterator<Item = &[u8]> {
    peek_ranges(bytes, name).filter_map(|range| bytes.get(range))
}

/// The fields of a message with their values, found likewise.
pub fn peek_fields(bytes: &[u8]) -> impl Iterator<Item = (HeaderName, &[u8])> {
    field_ranges(bytes).filter_map(|(name, range)| Some((name, bytes.get(range)?)))
}

fn peek_ranges(bytes: &[u8], name: HeaderName) -> impl Iterator<Item = Range<usize>> {
    field_ranges(bytes).filter_map(move |(of, range)| (of == name).then_some(range))
}

fn field_ranges(bytes: &[u8]) -> impl Iterator<Item = (HeaderName, Range<usize>)> {
    let mut at = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |lf| lf + 1);
    core::iter::from_fn(move || {
        loop {
            match next_field(bytes, at) {
                Next::Body(_) | Next::End => return None,
                Next::Bad(end) => at = end,
                Next::Field(field, end) => {
                    at = end;
                    return Some((field.name, field.value));
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Header blocks of random pieces that resemble header fields.
    #[test]
    fn the_short_way_finds_what_the_long_way_finds() {
        const PIECES: [&[u8]; 18] = [
            b"Via",
            b"f",
            b"Content-Length",
            b"Unknown",
            b"Authorization-",
            b":",
            b": ",
            b" :",
            b"\t",
            b" ",
            b"\r\n",
            b"\r",
            b"\n",
            b"value",
            b"a;b=c\x0b\x01",
            b"sip:alice@example.org",
            b"\0",
            b"\r\n ",
        ];
        let mut state = 1_u64;
        let mut plain = 0;
        for _ in 0..200_000 {
            let mut block = Vec::new();
            for place in 0..10 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let chosen = (state >> 33) as usize;
                // Most begin as a field does: a name, a colon.
                let piece = match (place, state >> 62) {
                    (0, 1..) => chosen % 5,
                    (1, 1..) => 5 + chosen % 3,
                    _ => chosen % PIECES.len(),
                };
                block.extend_from_slice(PIECES[piece]);
            }
            plain += usize::from(plain_field(&block, 0).is_some());
            let mut found = next_field(&block, 0);
            if let Next::Field(field, end) = &mut found
                && core::mem::take(&mut field.is_as_written)
            {
                let written = [field.name.as_bytes(), b": ", &block[field.value.clone()], b"\r\n"].concat();
                assert_eq!(block[field.start..*end], written);
            }
            assert_eq!(found, any_field(&block, 0), "{:?}", block.escape_ascii().collect::<Vec<_>>());
        }
        assert!(plain > 1000, "the short way was taken {plain} times");
    }
}
