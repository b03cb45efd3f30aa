//! Forwarding: the original bytes with an ordered list of changes, and reads that see the changes.
//!
//! A change belongs to a header line: a line is removed, gets another value, or has a new line put before it. What is not
//! changed is copied as it came, byte for byte, unknown fields and odd spellings included.

use crate::grammar::Values;
use crate::grammar::{is_lws, split_value, trim};
use crate::lines::Line;
use crate::write::{UnsafeText, breaks_the_start_line, write_number, write_stamped_via};
use crate::{HeaderName, Message};
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
///
/// The changes are kept in the order in which they are written, so that the first and the last line of a name can be
/// found while lines are still being added.
///
/// Content-Length is not subject to changes: [`write_into`](Self::write_into) adds it where a datagram had none, so that
/// whatever is written can be sent on a stream (RFC 3261 §18.3, §20.14).
///
/// ```
/// use ringway_sip::{Edit, EditSpace, HeaderName, Limits, Message};
///
/// let bytes = b"OPTIONS sip:bob@example.org SIP/2.0\r\n\
///     Via: SIP/2.0/UDP 192.0.2.7:5060;branch=z9hG4bK776asdhds\r\n\
///     From: <sip:alice@example.org>;tag=1928301774\r\n\
///     To: <sip:bob@example.org>\r\n\
///     Call-ID: a84b4c76e66710\r\n\
///     CSeq: 1 OPTIONS\r\n\
///     Max-Forwards: 70\r\n\r\n";
/// let message = Message::parse(bytes, &Limits::default()).expect("a valid request");
/// let mut space = EditSpace::default();
/// let mut edit = Edit::new(&message, &mut space);
/// edit.set_number(HeaderName::MaxForwards, 69);
/// edit.push_first(HeaderName::Via, |out| out.extend_from_slice(b"SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1"));
/// let mut out = Vec::new();
/// edit.write_into(&mut out)?;
/// let forwarded = Message::parse(&out, &Limits::default()).expect("a valid request");
/// assert_eq!(forwarded.max_forwards(), Some(69));
/// assert_eq!(forwarded.values(HeaderName::Via).count(), 2);
/// # Ok::<(), ringway_sip::UnsafeText>(())
/// ```
#[derive(Debug)]
pub struct Edit<'e, 'a> {
    message: &'e Message<'a>,
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
    /// A new line before the line. Of the changes to one line these come first.
    Insert(HeaderName, Piece),
    /// Another value for the line.
    Value(Piece),
    /// The line is removed.
    Remove,
}

/// Position of a header line of the changed message.
#[derive(Clone, Copy)]
enum Position {
    /// It was added by the change with this index.
    Inserted(usize),
    /// It is the original line with this index.
    Line(usize),
}

#[derive(Clone, Debug)]
enum Piece {
    /// A part of the original message.
    Original(Range<usize>),
    /// A part of `EditSpace::texts`.
    Text(Range<usize>),
}

impl<'e, 'a> Edit<'e, 'a> {
    /// An edit without changes. The contents of `space` are discarded.
    pub fn new(message: &'e Message<'a>, space: &'e mut EditSpace) -> Self {
        space.changes.clear();
        space.texts.clear();
        Self { message, space, request_uri: None, refused: false }
    }

    /// Sets the Request-URI. For a response, which has none, [`write_into`](Self::write_into) fails.
    pub fn set_request_uri(&mut self, uri: &[u8]) {
        self.refused |= self.message.is_response() || breaks_the_start_line(uri);
        let start = self.space.texts.len();
        self.space.texts.extend_from_slice(uri);
        self.request_uri = Some(start..self.space.texts.len());
    }

    /// Adds a line before the first one of its name; if there is none, before all others.
    pub fn push_first(&mut self, name: HeaderName, write: impl FnOnce(&mut Vec<u8>)) {
        let kind = self.new_line(name, write);
        let first = self.positions(name).next();
        let changes = &mut self.space.changes;
        let (at, line) = match first {
            Some((Position::Inserted(at), _)) => (at, changes.get(at).map_or(0, |change| change.line)),
            Some((Position::Line(line), _)) => (changes.partition_point(|change| change.line < line), line),
            None => (0, 0),
        };
        changes.insert(at, Change { line, kind });
    }

    /// Adds a line after all others.
    pub fn push_last(&mut self, name: HeaderName, write: impl FnOnce(&mut Vec<u8>)) {
        let kind = self.new_line(name, write);
        let line = self.message.lines().len();
        self.space.changes.push(Change { line, kind });
    }

    /// Adds a line with a number before all others. Lines that are equal in all copies of a message stay together
    /// there.
    pub fn push_number_first(&mut self, name: HeaderName, value: u64) {
        self.refused |= matches!(name, HeaderName::Other | HeaderName::ContentLength);
        let start = self.space.texts.len();
        write_number(&mut self.space.texts, value);
        let kind = Kind::Insert(name, Piece::Text(start..self.space.texts.len()));
        self.space.changes.insert(0, Change { line: 0, kind });
    }

    /// Removes the first value of this name; of a comma-separated list only its first member.
    pub fn pop_first(&mut self, name: HeaderName) {
        let first = self.positions(name).next();
        let Some((position, piece)) = first else { return };
        let kept = match split_value(self.piece(&piece)) {
            (_, Some(rest)) => Some(self.narrow(&piece, rest.len(), true)),
            (_, None) => None,
        };
        self.replace(position, kept);
    }

    /// Removes the last value of this name; of a comma-separated list only its last member.
    pub fn pop_last(&mut self, name: HeaderName) {
        let last = self.positions(name).last();
        let Some((position, piece)) = last else { return };
        let whole = self.piece(&piece);
        let mut rest = whole;
        while let (_, Some(after)) = split_value(rest) {
            rest = after;
        }
        let comma = (whole.len() - rest.len()).checked_sub(1);
        let kept = comma.map(|comma| self.narrow(&piece, comma, false));
        self.replace(position, kept);
    }

    /// Sets the value of the first line of this name; if there is none, adds a line before all others.
    pub fn set(&mut self, name: HeaderName, write: impl FnOnce(&mut Vec<u8>)) {
        let first = self.positions(name).next();
        match first {
            Some((position, _)) => {
                let piece = self.text(write);
                self.replace(position, Some(piece));
            }
            None => self.push_first(name, write),
        }
    }

    /// Sets a header field to a number.
    pub fn set_number(&mut self, name: HeaderName, value: u64) {
        self.set(name, |out| write_number(out, value));
    }

    /// Removes each line of this name whose value `is_unwanted`.
    pub fn remove_lines(&mut self, name: HeaderName, mut is_unwanted: impl FnMut(&[u8]) -> bool) {
        let EditSpace { changes, texts } = &mut *self.space;
        let original = self.message.as_bytes();
        changes.retain(|change| match &change.kind {
            Kind::Insert(of, piece) if *of == name => !is_unwanted(resolve(piece, original, texts)),
            Kind::Insert(..) | Kind::Value(_) | Kind::Remove => true,
        });
        for line in self.message.indices_of(name) {
            let unwanted = self.live_value(line).is_some_and(|piece| is_unwanted(self.piece(&piece)));
            if unwanted {
                self.replace(Position::Line(line), None);
            }
        }
    }

    /// Removes the received lines whose names are not `wanted`, given as the name and its spelling. Lines that were added stay.
    pub fn retain_received(&mut self, mut wanted: impl FnMut(HeaderName, &[u8]) -> bool) {
        let bytes = self.message.as_bytes();
        for index in 0..self.message.lines().len() {
            let Some(line) = self.message.lines().get(index) else { return };
            let spelled = line.name(bytes);
            if !wanted(HeaderName::from_bytes(spelled), spelled) && self.live_value(index).is_some() {
                self.replace(Position::Line(index), None);
            }
        }
    }

    /// Gives received lines another value, if `change` returns one for a name, its spelling and the value.
    pub fn change_received(&mut self, mut change: impl FnMut(HeaderName, &[u8], &[u8]) -> Option<Vec<u8>>) {
        let bytes = self.message.as_bytes();
        for index in 0..self.message.lines().len() {
            let Some(line) = self.message.lines().get(index) else { return };
            let Some(piece) = self.live_value(index) else { continue };
            let spelled = line.name(bytes);
            if let Some(value) = change(HeaderName::from_bytes(spelled), spelled, self.piece(&piece)) {
                let piece = self.text(|out| out.extend_from_slice(&value));
                self.replace(Position::Line(index), Some(piece));
            }
        }
    }

    /// Adds the source of the message to its top Via as `received` and `rport` (RFC 3261 §18.2.1, RFC 3581 §4). The
    /// received line is changed, even if lines were added before it; other changes to that line must come after.
    pub fn stamp_via(&mut self, source: SocketAddr) {
        let Some(line) = self.message.first_index(HeaderName::Via) else { return };
        if self.live_value(line).is_none() {
            return;
        }
        // Not checked for line breaks: text of the message itself cannot leave its line, folded or not.
        let start = self.space.texts.len();
        write_stamped_via(&mut self.space.texts, self.message.via(), self.message.after_via(), source);
        self.replace(Position::Line(line), Some(Piece::Text(start..self.space.texts.len())));
    }

    /// The Request-URI as it will be sent; empty for a response.
    pub fn request_uri(&self) -> &[u8] {
        match &self.request_uri {
            Some(range) => self.space.texts.get(range.clone()).unwrap_or_default(),
            None if self.message.is_response() => &[],
            None => self.message.start_line().split(|&byte| byte == b' ').nth(1).unwrap_or_default(),
        }
    }

    /// The values of this name as they will be sent, comma-separated lists taken apart, in order.
    pub fn values(&self, name: HeaderName) -> impl Iterator<Item = &[u8]> {
        let original = self.message.as_bytes();
        let texts = &self.space.texts;
        self.positions(name).flat_map(move |(_, piece)| Values::new(resolve(&piece, original, texts)))
    }

    /// The first value of this name as it will be sent.
    pub fn first(&self, name: HeaderName) -> Option<&[u8]> {
        self.values(name).next()
    }

    /// Appends the changed message, with a Content-Length if it had none. On an error nothing is appended.
    pub fn write_into(&mut self, out: &mut Vec<u8>) -> Result<(), UnsafeText> {
        if self.refused {
            return Err(UnsafeText);
        }
        let original = self.message.as_bytes();
        out.reserve(original.len() + self.space.texts.len() + 64);
        let mut at = match &self.request_uri {
            None => 0,
            Some(uri) => {
                let line = self.message.start_line();
                let method = line.split(|&byte| byte == b' ').next().unwrap_or_default();
                out.extend_from_slice(method);
                out.push(b' ');
                out.extend_from_slice(self.space.texts.get(uri.clone()).unwrap_or_default());
                out.extend_from_slice(b" SIP/2.0\r\n");
                self.message.start_line_end()
            }
        };
        for change in &self.space.changes {
            let whole = match self.message.lines().get(change.line) {
                Some(line) => line.whole(original),
                None => self.message.headers_end()..self.message.headers_end(),
            };
            out.extend_from_slice(original.get(at..whole.start).unwrap_or_default());
            at = at.max(whole.start);
            match &change.kind {
                Kind::Insert(name, piece) => write_line(out, name.as_bytes(), self.piece(piece)),
                Kind::Value(piece) => {
                    let line = self.message.lines().get(change.line);
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
        // A received Content-Length is correct: the parser compared it with the body.
        if !self.message.has(HeaderName::ContentLength) {
            let end = self.message.headers_end();
            out.extend_from_slice(original.get(at..end).unwrap_or_default());
            at = end;
            out.extend_from_slice(b"Content-Length: ");
            write_number(out, self.message.body().len() as u64);
            out.extend_from_slice(b"\r\n");
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

    fn new_line(&mut self, name: HeaderName, write: impl FnOnce(&mut Vec<u8>)) -> Kind {
        self.refused |= matches!(name, HeaderName::Other | HeaderName::ContentLength);
        Kind::Insert(name, self.text(write))
    }

    /// Gives the line at `position` another value; `None` removes the line.
    fn replace(&mut self, position: Position, value: Option<Piece>) {
        let changes = &mut self.space.changes;
        match (position, value) {
            (Position::Inserted(at), Some(piece)) => {
                if let Some(Change { kind: Kind::Insert(_, old), .. }) = changes.get_mut(at) {
                    *old = piece;
                }
            }
            (Position::Inserted(at), None) => {
                if at < changes.len() {
                    changes.remove(at);
                }
            }
            (Position::Line(line), value) => {
                let lines = self.message.lines();
                self.refused |= lines.get(line).is_some_and(|line| line.is(HeaderName::ContentLength));
                let kind = value.map_or(Kind::Remove, Kind::Value);
                // The line's own change, if there is one, comes after its insertions.
                let end = changes.partition_point(|change| change.line <= line);
                match end.checked_sub(1).and_then(|last| changes.get_mut(last)) {
                    Some(own) if own.line == line && !matches!(own.kind, Kind::Insert(..)) => own.kind = kind,
                    _ => changes.insert(end, Change { line, kind }),
                }
            }
        }
    }

    /// The lines of this name as they will be sent, in order, each with its value.
    fn positions(&self, name: HeaderName) -> impl Iterator<Item = (Position, Piece)> {
        let message = self.message;
        let changes = &self.space.changes;
        let end = message.lines().len();
        let mut lines = message.indices_of(name);
        let mut line = lines.next().unwrap_or(end);
        let mut at = 0;
        let mut is_done = false;
        core::iter::from_fn(move || {
            while !is_done {
                let here = line;
                let change = changes.get(at).filter(|change| change.line <= here);
                match change.map(|change| (change.line == here, &change.kind)) {
                    Some((_, Kind::Insert(of, piece))) => {
                        at += 1;
                        if *of == name {
                            return Some((Position::Inserted(at - 1), piece.clone()));
                        }
                    }
                    Some((true, Kind::Value(piece))) => {
                        at += 1;
                        line = lines.next().unwrap_or(end);
                        return Some((Position::Line(here), piece.clone()));
                    }
                    Some((true, Kind::Remove)) => {
                        at += 1;
                        line = lines.next().unwrap_or(end);
                    }
                    Some((false, Kind::Value(_) | Kind::Remove)) => at += 1,
                    None if here >= end => is_done = true,
                    None => {
                        line = lines.next().unwrap_or(end);
                        let value = message.lines().get(here).map(Line::value_range).unwrap_or_default();
                        return Some((Position::Line(here), Piece::Original(value)));
                    }
                }
            }
            None
        })
    }

    /// The current value of an original line; `None` if the line was removed.
    fn live_value(&self, line: usize) -> Option<Piece> {
        let changes = &self.space.changes;
        let own = changes.partition_point(|change| change.line <= line).checked_sub(1);
        match own.and_then(|own| changes.get(own)).filter(|own| own.line == line).map(|own| &own.kind) {
            Some(Kind::Value(piece)) => Some(piece.clone()),
            Some(Kind::Remove) => None,
            Some(Kind::Insert(..)) | None => {
                Some(Piece::Original(self.message.lines().get(line)?.value_range()))
            }
        }
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
            Piece::Original(range) => Piece::Original(cut(range, self.message.as_bytes())),
            Piece::Text(range) => Piece::Text(cut(range, &self.space.texts)),
        }
    }

    fn piece(&self, piece: &Piece) -> &[u8] {
        resolve(piece, self.message.as_bytes(), &self.space.texts)
    }
}

fn resolve<'b>(piece: &Piece, original: &'b [u8], texts: &'b [u8]) -> &'b [u8] {
    match piece {
        Piece::Original(range) => original.get(range.clone()).unwrap_or_default(),
        Piece::Text(range) => texts.get(range.clone()).unwrap_or_default(),
    }
}

fn write_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// True if the text contains a line break that is not a fold, or NUL. Folds are allowed, because folded values are
/// forwarded folded.
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
