//! The header fields of a message, located but not parsed.

use crate::grammar::{Values, number_u32};
use crate::lines::{FieldAt, Line, Next, any_field, plain_field};
use crate::{HeaderName, Limits, Reason};
use core::time::Duration;

/// Positions of the header fields of a message. They are read from a rejected message too, so that it can be answered.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    lines: [Line; LINES_MAX],
    count: usize,
    /// For each name the first line that has it, or `NONE`.
    first: [u8; HeaderName::COUNT],
    /// A bit for each name that more than one line has.
    repeated: u64,
    start_line_end: usize,
    body: &'a [u8],
    is_response: bool,
}

/// One header field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// The name as written.
    pub name: &'a [u8],
    /// The value without white space around it; folds are still inside.
    pub value: &'a [u8],
}

impl<'a> Fields<'a> {
    /// All fields in order.
    pub fn iter(&self) -> impl Iterator<Item = Field<'a>> {
        let bytes = self.bytes;
        self.lines().iter().map(move |line| Field { name: line.name(bytes), value: line.value(bytes) })
    }

    /// True when a field of this name is there.
    pub fn has(&self, name: HeaderName) -> bool {
        self.first_index(name).is_some()
    }

    /// The value of the first field of this name, whole.
    pub fn first(&self, name: HeaderName) -> Option<&'a [u8]> {
        self.first_line(name).map(|line| line.value(self.bytes))
    }

    /// Pause that Retry-After asks for (RFC 3261 §20.33), without its comment and parameters; `None` if there is none.
    pub fn retry_after(&self) -> Option<Duration> {
        let value = self.first(HeaderName::RetryAfter)?;
        let end = value.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(value.len());
        Some(Duration::from_secs(number_u32(value.get(..end)?)?.into()))
    }

    /// The values of all fields of this name, each whole: for fields that are no comma-separated lists, such as
    /// Authorization.
    pub fn lines_of(&self, name: HeaderName) -> impl Iterator<Item = &'a [u8]> {
        let bytes = self.bytes;
        self.indices_of(name).filter_map(|index| self.lines.get(index)).map(move |line| line.value(bytes))
    }

    /// The values of all fields of this name, comma-separated lists taken apart, in order.
    pub fn values(&self, name: HeaderName) -> impl Iterator<Item = &'a [u8]> {
        self.lines_of(name).flat_map(Values::new)
    }

    /// The value of the first field with this name, for names without a [`HeaderName`].
    pub fn named(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.iter().find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }

    /// The body, as long as Content-Length says; in a datagram without one, all the rest (RFC 3261 §18.3).
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The message from the first byte to the last of its body.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// True when the first line is a status line, well-formed or not.
    pub const fn is_response(&self) -> bool {
        self.is_response
    }

    pub(crate) fn start_line(&self) -> &'a [u8] {
        self.bytes.get(..self.start_line_end).and_then(|line| line.strip_suffix(b"\r\n")).unwrap_or_default()
    }

    pub(crate) fn start_line_end(&self) -> usize {
        self.start_line_end
    }

    pub(crate) fn lines(&self) -> &[Line] {
        self.lines.get(..self.count).unwrap_or_default()
    }

    /// Position of the empty line before the body.
    pub(crate) fn headers_end(&self) -> usize {
        self.lines().last().map_or(self.start_line_end, |line| line.whole(self.bytes).end)
    }

    pub(crate) fn first_line(&self, name: HeaderName) -> Option<&Line> {
        self.first_index(name).and_then(|index| self.lines.get(index))
    }

    pub(crate) fn first_index(&self, name: HeaderName) -> Option<usize> {
        self.first.get(name as usize).filter(|&&index| index != NONE).map(|&index| usize::from(index))
    }

    pub(crate) fn indices_of(&self, name: HeaderName) -> impl Iterator<Item = usize> + use<'_, 'a> {
        let range = match self.first_index(name) {
            None => 0..0,
            Some(first) if !self.is_repeated(name) => first..first + 1,
            Some(first) => first..self.count,
        };
        range.filter(move |&index| self.lines.get(index).is_some_and(|line| line.is(name)))
    }

    /// True when more than one line has this name.
    pub(crate) const fn is_repeated(&self, name: HeaderName) -> bool {
        self.repeated >> name as u32 & 1 != 0
    }

    /// A table without fields, for [`fill`](Self::fill). The two are apart so that the table is not moved in between.
    pub(crate) fn unread(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            lines: [Line::default(); LINES_MAX],
            count: 0,
            first: [NONE; HeaderName::COUNT],
            repeated: 0,
            start_line_end: 0,
            body: b"",
            is_response: bytes.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"SIP/")),
        }
    }

    /// Locates the fields. Returns the first fault.
    pub(crate) fn fill(&mut self, limits: &Limits) -> Option<Reason> {
        if self.bytes.len() > limits.message_bytes_max.min(Limits::MESSAGE_BYTES_CEILING) {
            let cut = limits.message_bytes_max.min(Limits::MESSAGE_BYTES_CEILING);
            self.bytes = self.bytes.get(..cut).unwrap_or_default();
            let _ = self.fill_lines(limits);
            return Some(Reason::MessageTooLarge);
        }
        self.fill_lines(limits)
    }

    fn fill_lines(&mut self, limits: &Limits) -> Option<Reason> {
        let bytes = self.bytes;
        let Some(lf) = memchr::memchr(b'\n', bytes) else { return Some(Reason::StartLine) };
        self.start_line_end = lf + 1;
        let count_max = limits.headers_max.min(LINES_MAX);
        let mut wrong = None;
        let mut at = lf + 1;
        let body_at = loop {
            let (field, end) = match plain_field(bytes, at) {
                Some(found) => found,
                None => match any_field(bytes, at) {
                    Next::Field(field, end) => {
                        if has_control(bytes, &field) {
                            wrong = wrong.or(Some(Reason::Header(field.name)));
                        }
                        (field, end)
                    }
                    Next::Body(body) => break body,
                    Next::End => return wrong.or(Some(Reason::HeaderLine)),
                    Next::Bad(end) => {
                        wrong = wrong.or(Some(Reason::HeaderLine));
                        at = end;
                        continue;
                    }
                },
            };
            if self.count >= count_max {
                return wrong.or(Some(Reason::TooManyHeaders));
            }
            let repeated = self.add(Line::new(&field), field.name);
            if repeated && is_single(field.name) {
                wrong = wrong.or(Some(Reason::Repeated(field.name)));
            }
            at = end;
        };
        wrong.or(self.cut_body(body_at))
    }

    /// True when a line of this name was there before.
    #[inline(always)]
    fn add(&mut self, line: Line, name: HeaderName) -> bool {
        // There are fewer lines than `NONE`.
        let index = self.count as u8;
        if let Some(slot) = self.lines.get_mut(self.count) {
            *slot = line;
        }
        self.count += 1;
        match self.first.get_mut(name as usize) {
            Some(first) if *first == NONE => {
                *first = index;
                false
            }
            _ => {
                self.repeated |= 1 << name as u32;
                true
            }
        }
    }

    /// RFC 3261 §18.3: bytes behind the body of a datagram are ignored; too few are an error.
    fn cut_body(&mut self, at: usize) -> Option<Reason> {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let mut length = None;
        for value in self.lines_of(HeaderName::ContentLength) {
            let value = crate::grammar::number_u32(value);
            if value.is_none() || (length.is_some() && length != value) {
                return Some(Reason::ContentLength);
            }
            length = value;
        }
        match length {
            None => self.body = rest,
            Some(length) => match usize::try_from(length).ok().and_then(|length| rest.get(..length)) {
                Some(body) => {
                    self.body = body;
                    self.bytes = self.bytes.get(..at + body.len()).unwrap_or_default();
                }
                None => return Some(Reason::ContentLength),
            },
        }
        None
    }
}

/// True when a value holds a control other than HTAB and those of a fold (RFC 3261 §25.1). A quoted display name may hold any
/// behind a backslash.
#[cold]
#[inline(never)]
fn has_control(bytes: &[u8], field: &FieldAt) -> bool {
    let value = bytes.get(field.value.clone()).unwrap_or_default();
    let has_display_name = matches!(field.name, HeaderName::From | HeaderName::To | HeaderName::Contact);
    let mut is_quoted = false;
    let mut bytes = value.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' if has_display_name => is_quoted = !is_quoted,
            b'\\' if is_quoted => {
                bytes.next();
            }
            b'\t' | b'\r' | b'\n' => {}
            ..b' ' | 127 => return true,
            _ => {}
        }
    }
    false
}

/// Fields that RFC 3261 §20 table 2 allows once and that decide where a message goes.
const fn is_single(name: HeaderName) -> bool {
    matches!(
        name,
        HeaderName::From | HeaderName::To | HeaderName::CallId | HeaderName::CSeq | HeaderName::MaxForwards
    )
}

const NONE: u8 = u8::MAX;

/// Room for the lines of a request of our own.
const LINES_MAX: usize = Limits::STORED.headers_max;

// An index of a line is a byte, and not `NONE`.
const _: () = assert!(LINES_MAX < NONE as usize);

// One bit for each name.
const _: () = assert!(HeaderName::COUNT <= u64::BITS as usize);
