//! Header lines: the one place that decides where a header field begins and ends, for datagrams and streams alike, so
//! that two readers of the same bytes can never disagree.

use crate::grammar::{is_lws, is_token, trim};
use crate::{HeaderName, Malformed};
use core::ops::Range;

/// A header field's place in a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line {
    /// Where the line and its name begin.
    start: u16,
    name_end: u16,
    value: Range16,
    /// Where the line ends, after its CRLF.
    end: u16,
    pub(crate) id: u8,
}

impl Line {
    pub(crate) fn new(field: &FieldAt, end: usize, id: u8) -> Self {
        Self {
            start: saturate(field.name.start),
            name_end: saturate(field.name.end),
            value: Range16::new(field.value.clone()),
            end: saturate(end),
            id,
        }
    }

    /// The name as written.
    pub(crate) fn name<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        Range16 { start: self.start, end: self.name_end }.of(bytes)
    }

    /// The value without white space around it; folds are still inside.
    pub(crate) fn value<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        self.value.of(bytes)
    }

    /// Where the value stands.
    pub(crate) fn value_range(&self) -> Range<usize> {
        usize::from(self.value.start)..usize::from(self.value.end)
    }

    /// From the first byte of the name to the last of the line break.
    pub(crate) fn whole(&self) -> Range<usize> {
        usize::from(self.start)..usize::from(self.end)
    }
}

/// A range of positions below 65,536.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range16 {
    pub(crate) start: u16,
    pub(crate) end: u16,
}

impl Range16 {
    pub(crate) fn new(range: Range<usize>) -> Self {
        Self { start: saturate(range.start), end: saturate(range.end) }
    }

    pub(crate) fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(usize::from(self.start)..usize::from(self.end)).unwrap_or_default()
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
pub(crate) fn next_field(bytes: &[u8], at: usize) -> Next {
    let rest = bytes.get(at..).unwrap_or_default();
    if rest.starts_with(b"\r\n") {
        return Next::Body(at + 2);
    }
    let (end, well_ended) = match line_end(bytes, at) {
        Some(found) => found,
        None => return Next::End,
    };
    let name_len = rest.iter().position(|&byte| !is_token(byte)).unwrap_or(rest.len());
    let mut colon = at + name_len;
    while matches!(bytes.get(colon), Some(b' ' | b'\t')) {
        colon += 1;
    }
    if !well_ended || name_len == 0 || bytes.get(colon) != Some(&b':') {
        return Next::Bad(end);
    }
    let line = bytes.get(colon + 1..end - 2).unwrap_or_default();
    let lead = line.iter().position(|&byte| !is_lws(byte)).unwrap_or(line.len());
    let start = colon + 1 + lead;
    let value = start..start + trim(line.get(lead..).unwrap_or_default()).len();
    Next::Field(FieldAt { name: at..at + name_len, value }, end)
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

/// What the Content-Length fields of the header block at `at` say: `None` when there is none. Conflicting, negative or
/// overflowing values are an error, and so is a block with a bad line.
pub(crate) fn content_length(bytes: &[u8], mut at: usize) -> Result<Option<u32>, Malformed> {
    let mut found = None;
    loop {
        match next_field(bytes, at) {
            Next::Body(_) | Next::End => return Ok(found),
            Next::Bad(_) => return Err(Malformed),
            Next::Field(field, end) => {
                let name = bytes.get(field.name).unwrap_or_default();
                if HeaderName::from_bytes(name) == HeaderName::ContentLength {
                    let value = crate::grammar::number_u32(bytes.get(field.value).unwrap_or_default());
                    match (found, value) {
                        (_, None) => return Err(Malformed),
                        (Some(first), Some(value)) if first != value => return Err(Malformed),
                        (_, Some(value)) => found = Some(value),
                    }
                }
                at = end;
            }
        }
    }
}

fn saturate(value: usize) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}
