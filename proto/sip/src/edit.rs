//! Forwarding: the original bytes with an ordered list of changes, and reads that see the changes.
//!
//! A change belongs to a header line: a line is removed, gets another value, or has a new line put before it. What is not
//! changed is copied as it came, byte for byte, unknown fields and odd spellings included.

use crate::grammar::{is_lws, split_value, trim};
use crate::header::Values;
use crate::write::{UnsafeText, write_number, write_stamped_via};
use crate::{Fields, HeaderName};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::ops::Range;

/// Room for an [`Edit`]'s changes, kept from message to message so that forwarding allocates nothing.
#[derive(Debug, Default)]
pub struct EditSpace {
    changes: Vec<Change>,
    texts: Vec<u8>,
}

/// A message being changed for forwarding.
#[derive(Debug)]
pub struct Edit<'e, 'a> {
    fields: &'e Fields<'a>,
    space: &'e mut EditSpace,
    request_uri: Option<Range<usize>>,
    refused: bool,
}

#[derive(Clone, Debug)]
struct Change {
    /// The header line it belongs to; the number of lines for the end of the header.
    line: usize,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// A new line before the line.
    Insert(HeaderName, Piece),
    /// Another value for the line.
    Value(Piece),
    /// The line is gone.
    Remove,
}

#[derive(Clone, Debug)]
enum Piece {
    /// A part of the original message.
    Original(Range<usize>),
    /// A part of `EditSpace::texts`.
    Text(Range<usize>),
}

impl<'e, 'a> Edit<'e, 'a> {
    /// An edit without changes. What `space` held is forgotten.
    pub fn new(fields: &'e Fields<'a>, space: &'e mut EditSpace) -> Self {
        space.changes.clear();
        space.texts.clear();
        Self { fields, space, request_uri: None, refused: false }
    }

    /// Sets the Request-URI.
    pub fn set_request_uri(&mut self, uri: &[u8]) {
        self.refused |= uri.is_empty() || uri.iter().any(|&byte| is_lws(byte) || byte == 0);
        let start = self.space.texts.len();
        self.space.texts.extend_from_slice(uri);
        self.request_uri = Some(start..self.space.texts.len());
    }

    /// Puts a new line before the first one of its name; without one, before all others.
    pub fn push_first(&mut self, name: HeaderName, write: impl FnOnce(&mut Vec<u8>)) {
        let piece = self.text(write);
        let line = self.fields.indices_of(name).find(|&line| !self.is_removed(line)).unwrap_or(0);
        // A later push stands before an earlier one.
        let at = self
            .space
            .changes
            .iter()
            .position(|change| change.line == line)
            .unwrap_or(self.space.changes.len());
        self.space.changes.insert(at, Change { line, kind: Kind::Insert(name, piece) });
    }

    /// Puts a new line behind all others.
    pub fn push_last(&mut self, name: HeaderName, write: impl FnOnce(&mut Vec<u8>)) {
        let piece = self.text(write);
        let line = self.fields.lines().len();
        self.space.changes.push(Change { line, kind: Kind::Insert(name, piece) });
    }

    /// Takes the first value of this name away; of a comma-separated list only its first member.
    pub fn pop_first(&mut self, name: HeaderName) {
        let inserted = self.inserted(name).next();
        if let Some(at) = inserted {
            self.space.changes.remove(at);
            return;
        }
        let live = self.live_lines(name).next();
        let Some((line, piece)) = live else { return };
        let kind = match split_value(self.piece(&piece)) {
            (_, Some(rest)) => Kind::Value(self.narrow(&piece, rest.len(), true)),
            (_, None) => Kind::Remove,
        };
        self.change(line, kind);
    }

    /// Takes the last value of this name away; of a comma-separated list only its last member.
    pub fn pop_last(&mut self, name: HeaderName) {
        let live = self.live_lines(name).last();
        let Some((line, piece)) = live else {
            let inserted = self.inserted(name).last();
            if let Some(at) = inserted {
                self.space.changes.remove(at);
            }
            return;
        };
        let whole = self.piece(&piece);
        let mut rest = whole;
        while let (_, Some(after)) = split_value(rest) {
            rest = after;
        }
        let kept = whole.len() - rest.len();
        let kind = match kept.checked_sub(1) {
            Some(kept) => Kind::Value(self.narrow(&piece, kept, false)),
            None => Kind::Remove,
        };
        self.change(line, kind);
    }

    /// Gives the first line of this name another value; without one, adds a line.
    pub fn set(&mut self, name: HeaderName, write: impl FnOnce(&mut Vec<u8>)) {
        let live = self.live_lines(name).next();
        match live {
            Some((line, _)) => {
                let piece = self.text(write);
                self.change(line, Kind::Value(piece));
            }
            None => self.push_first(name, write),
        }
    }

    /// Sets a header field to a number.
    pub fn set_number(&mut self, name: HeaderName, value: u64) {
        self.set(name, |out| write_number(out, value));
    }

    /// Takes away each line of this name whose value `is_unwanted`.
    pub fn remove_lines(&mut self, name: HeaderName, mut is_unwanted: impl FnMut(&[u8]) -> bool) {
        for line in self.fields.indices_of(name) {
            let Some(value) = self.fields.lines().get(line).map(|line| line.value(self.fields.as_bytes()))
            else {
                continue;
            };
            if is_unwanted(value) {
                change(&mut self.space.changes, line, Kind::Remove);
            }
        }
    }

    /// Notes in the top Via where the request was seen to come from (RFC 3261 §18.2.1, RFC 3581 §4).
    pub fn stamp_via(&mut self, source: SocketAddr) {
        let Some(line) = self.fields.first(HeaderName::Via) else { return };
        self.set(HeaderName::Via, |out| write_stamped_via(out, line, source));
    }

    /// The Request-URI as it will be sent; empty for a response.
    pub fn request_uri(&self) -> &[u8] {
        match &self.request_uri {
            Some(range) => self.space.texts.get(range.clone()).unwrap_or_default(),
            None => self.fields.start_line().split(|&byte| byte == b' ').nth(1).unwrap_or_default(),
        }
    }

    /// The values of this name as they will be sent, comma-separated lists taken apart, in order.
    pub fn values(&self, name: HeaderName) -> impl Iterator<Item = &[u8]> {
        let end = self.fields.lines().len();
        (0..=end).flat_map(move |line| {
            let inserted = self.space.changes.iter().filter(move |change| change.line == line).filter_map(
                move |change| match &change.kind {
                    Kind::Insert(of, piece) if *of == name => Some(self.piece(piece)),
                    Kind::Insert(..) | Kind::Value(_) | Kind::Remove => None,
                },
            );
            let own = self.fields.lines().get(line).filter(|own| own.id == name as u8);
            let own = own.and_then(|_| self.live_value(line)).map(|piece| self.resolve(piece));
            inserted.chain(own).flat_map(Values::new)
        })
    }

    /// The first value of this name as it will be sent.
    pub fn first(&self, name: HeaderName) -> Option<&[u8]> {
        self.values(name).next()
    }

    /// Appends the changed message. On an error nothing is appended.
    pub fn write_into(&mut self, out: &mut Vec<u8>) -> Result<(), UnsafeText> {
        if self.refused {
            return Err(UnsafeText);
        }
        // Stable: what was pushed before a line keeps its order and stands before the line's own change.
        self.space.changes.sort_by_key(|change| (change.line, !matches!(change.kind, Kind::Insert(..))));
        let original = self.fields.as_bytes();
        out.reserve(original.len() + self.space.texts.len() + 64);
        let mut at = match &self.request_uri {
            None => 0,
            Some(uri) => {
                let line = self.fields.start_line();
                let method = line.split(|&byte| byte == b' ').next().unwrap_or_default();
                out.extend_from_slice(method);
                out.push(b' ');
                out.extend_from_slice(self.space.texts.get(uri.clone()).unwrap_or_default());
                out.extend_from_slice(b" SIP/2.0\r\n");
                self.fields.start_line_end()
            }
        };
        for change in &self.space.changes {
            let whole = match self.fields.lines().get(change.line) {
                Some(line) => line.whole(),
                None => self.fields.headers_end()..self.fields.headers_end(),
            };
            out.extend_from_slice(original.get(at..whole.start).unwrap_or_default());
            at = at.max(whole.start);
            match &change.kind {
                Kind::Insert(name, piece) => write_line(out, name.as_bytes(), self.piece(piece)),
                Kind::Value(piece) => {
                    let line = self.fields.lines().get(change.line);
                    write_line(
                        out,
                        line.map(|line| line.name(original)).unwrap_or_default(),
                        self.piece(piece),
                    );
                    at = whole.end;
                }
                Kind::Remove => at = whole.end,
            }
        }
        out.extend_from_slice(original.get(at..).unwrap_or_default());
        Ok(())
    }

    fn text(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Piece {
        let start = self.space.texts.len();
        write(&mut self.space.texts);
        self.refused |= self.space.texts.get(start..).is_none_or(leaves_its_line);
        Piece::Text(start..self.space.texts.len())
    }

    fn change(&mut self, line: usize, kind: Kind) {
        change(&mut self.space.changes, line, kind);
    }

    fn inserted(&self, name: HeaderName) -> impl Iterator<Item = usize> {
        let changes = &self.space.changes;
        (0..changes.len()).filter(move |&at| {
            changes.get(at).is_some_and(|change| matches!(change.kind, Kind::Insert(of, _) if of == name))
        })
    }

    /// The original lines of this name that are still there, with what they hold now.
    fn live_lines(&self, name: HeaderName) -> impl Iterator<Item = (usize, Piece)> {
        self.fields.indices_of(name).filter_map(|line| self.live_value(line).map(|piece| (line, piece)))
    }

    fn live_value(&self, line: usize) -> Option<Piece> {
        let own = self
            .space
            .changes
            .iter()
            .find(|change| change.line == line && matches!(change.kind, Kind::Value(_) | Kind::Remove));
        match own.map(|change| &change.kind) {
            Some(Kind::Value(piece)) => Some(piece.clone()),
            Some(Kind::Remove) => None,
            Some(Kind::Insert(..)) | None => {
                Some(Piece::Original(self.fields.lines().get(line)?.value_range()))
            }
        }
    }

    fn is_removed(&self, line: usize) -> bool {
        self.live_value(line).is_none()
    }

    /// The last (`tail`) or first `len` bytes of a piece, without white space around them.
    fn narrow(&self, piece: &Piece, len: usize, tail: bool) -> Piece {
        let cut = |range: &Range<usize>, bytes: &[u8]| {
            let part = if tail { range.end - len..range.end } else { range.start..range.start + len };
            let text = bytes.get(part.clone()).unwrap_or_default();
            let lead = text.iter().take_while(|&&byte| is_lws(byte)).count();
            part.start + lead..part.start + lead + trim(text).len()
        };
        match piece {
            Piece::Original(range) => Piece::Original(cut(range, self.fields.as_bytes())),
            Piece::Text(range) => Piece::Text(cut(range, &self.space.texts)),
        }
    }

    fn piece(&self, piece: &Piece) -> &[u8] {
        self.resolve(piece.clone())
    }

    fn resolve(&self, piece: Piece) -> &[u8] {
        match piece {
            Piece::Original(range) => self.fields.as_bytes().get(range).unwrap_or_default(),
            Piece::Text(range) => self.space.texts.get(range).unwrap_or_default(),
        }
    }
}

fn change(changes: &mut Vec<Change>, line: usize, kind: Kind) {
    let own = changes
        .iter_mut()
        .find(|change| change.line == line && matches!(change.kind, Kind::Value(_) | Kind::Remove));
    match own {
        Some(own) => own.kind = kind,
        None => changes.push(Change { line, kind }),
    }
}

fn write_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// True when the text holds a line break that is not a fold, or NUL. Folds are let through because values that came in
/// folded go out folded.
fn leaves_its_line(text: &[u8]) -> bool {
    memchr::memchr3_iter(b'\r', b'\n', 0, text).any(|at| match text.get(at) {
        Some(b'\r') => text.get(at + 1) != Some(&b'\n'),
        Some(b'\n') => {
            let after_cr = at.checked_sub(1).and_then(|before| text.get(before)) == Some(&b'\r');
            !after_cr || !matches!(text.get(at + 1), Some(b' ' | b'\t'))
        }
        _ => true,
    })
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
