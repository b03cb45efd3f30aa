//! Header lines: the one place that decides where a header field begins and ends, for datagrams and streams alike, so
//! that two readers of the same bytes can never disagree.

use crate::HeaderName;
use crate::grammar::{TOKEN, class_len, is_lws};
use core::ops::Range;

/// A header field's place in a message. Kept small, because a table of them is cleared and moved for each message: where
/// its name ends and where its line ends is found again when it is asked for, which is seldom.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line {
    /// Where the line and its name begin.
    start: u16,
    value_start: u16,
    value_end: u16,
    /// The name as a number; as wide as the rest, so that there is no padding and clearing the table is one fill.
    id: u16,
}

impl Line {
    pub(crate) fn new(field: &FieldAt, name: HeaderName) -> Self {
        Self {
            start: saturate(field.name.start),
            value_start: saturate(field.value.start),
            value_end: saturate(field.value.end),
            id: name as u16,
        }
    }

    /// True when the field is of this name.
    pub(crate) const fn is(&self, name: HeaderName) -> bool {
        self.id == name as u16
    }

    /// The name as written.
    pub(crate) fn name<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let line = bytes.get(usize::from(self.start)..).unwrap_or_default();
        line.get(..class_len(line, TOKEN)).unwrap_or_default()
    }

    /// The value without white space around it; folds are still inside.
    pub(crate) fn value<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.value_range()).unwrap_or_default()
    }

    /// Where the value stands.
    pub(crate) fn value_range(&self) -> Range<usize> {
        usize::from(self.value_start)..usize::from(self.value_end)
    }

    /// The line with its CRLF, where it is written as we would write it: `name: value` and nothing around.
    pub(crate) fn as_written<'a>(&self, bytes: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
        let line = bytes.get(usize::from(self.start)..usize::from(self.value_end) + 2)?;
        let is_plain = usize::from(self.value_start) == usize::from(self.start) + name.len() + 2
            && line.strip_prefix(name)?.starts_with(b": ")
            && line.ends_with(b"\r\n");
        is_plain.then_some(line)
    }

    /// From the first byte of the name to the last of the line break.
    pub(crate) fn whole(&self, bytes: &[u8]) -> Range<usize> {
        let value_end = usize::from(self.value_end);
        usize::from(self.start)..line_end(bytes, value_end).map_or(bytes.len(), |(end, _)| end)
    }
}

/// What stands at a position of the header block.
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

pub(crate) struct FieldAt {
    pub(crate) name: Range<usize>,
    pub(crate) value: Range<usize>,
}

/// Reads what stands at `at`. A line ends with CRLF; a bare LF or CR makes its line bad.
#[inline]
pub(crate) fn next_field(bytes: &[u8], at: usize) -> Next {
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
    Next::Field(FieldAt { name: at..at + name_len, value: start..stop }, end)
}

/// The end of the (folded) line at `at`, after its line break, and whether all its line breaks were CRLF and no bare CR
/// stood between.
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

/// The last comma-separated value of the fields of this name, found likewise.
pub fn peek_last_header(bytes: &[u8], name: HeaderName) -> Option<&[u8]> {
    peek_headers(bytes, name).flat_map(crate::header::Values::new).last()
}

fn peek_headers(bytes: &[u8], name: HeaderName) -> impl Iterator<Item = &[u8]> {
    let mut at = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |lf| lf + 1);
    core::iter::from_fn(move || {
        loop {
            match next_field(bytes, at) {
                Next::Body(_) | Next::End => return None,
                Next::Bad(end) => at = end,
                Next::Field(field, end) => {
                    at = end;
                    if HeaderName::from_bytes(bytes.get(field.name).unwrap_or_default()) == name {
                        return bytes.get(field.value);
                    }
                }
            }
        }
    })
}

fn saturate(value: usize) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}
