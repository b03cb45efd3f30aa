//! Lines, fields and numbers of a description; limits and errors of the parser.

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

/// Limits on the size of a description; exceeding one is a [`Fault`](crate::Fault).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of a description in bytes.
    pub bytes_max: usize,
    /// Maximum number of lines of a description.
    pub lines_max: usize,
    /// Maximum number of media sections (`m=`).
    pub media_max: usize,
    /// Maximum number of attributes (`a=`) of the session, and of each media section.
    pub attributes_max: usize,
    /// Maximum number of formats in one `m=` line.
    pub formats_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes_max: 32_768, lines_max: 1024, media_max: 16, attributes_max: 256, formats_max: 64 }
    }
}

/// First fault of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SDP line {line}: {}", .fault.words())]
pub struct Malformed {
    /// Line number, from 1.
    pub line: usize,
    /// Kind of the fault.
    pub fault: Fault,
}

/// Fault of a line of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// More bytes than [`Limits::bytes_max`](crate::Limits::bytes_max).
    TooManyBytes,
    /// More lines than [`Limits::lines_max`](crate::Limits::lines_max).
    TooManyLines,
    /// More media sections than [`Limits::media_max`](crate::Limits::media_max).
    TooManyMedia,
    /// More attributes than [`Limits::attributes_max`](crate::Limits::attributes_max).
    TooManyAttributes,
    /// More formats than [`Limits::formats_max`](crate::Limits::formats_max).
    TooManyFormats,
    /// Not a letter, `=` and a value.
    Line,
    /// A NUL, or a carriage return that does not end a line: implementations would disagree on the end of the
    /// line.
    ControlCharacter,
    /// The description does not begin with `v=0` and an `o=` line, or one of them is repeated.
    Start,
    /// An `o=` line without its six fields, or with fields that must be numbers and are not.
    Origin,
    /// A second line of a type that may occur once; it is ambiguous which one applies.
    Repeated,
    /// A line of the session inside a media section.
    Misplaced,
    /// A `c=` line without network type, address type and address, or with an invalid address.
    Connection,
    /// A `t=` line without two numbers.
    Time,
    /// An `m=` line without medium, port and protocol, or whose port is not 0-65,535.
    Media,
    /// A media section in use without a `c=` line of its own or of the session (RFC 8866 §5.7).
    NoConnection,
}

impl Fault {
    /// True for faults of descriptions that may be valid but exceed a limit.
    pub const fn is_limit(self) -> bool {
        match self {
            Self::TooManyBytes
            | Self::TooManyLines
            | Self::TooManyMedia
            | Self::TooManyAttributes
            | Self::TooManyFormats => true,
            Self::Line
            | Self::ControlCharacter
            | Self::Start
            | Self::Origin
            | Self::Repeated
            | Self::Misplaced
            | Self::Connection
            | Self::Time
            | Self::Media
            | Self::NoConnection => false,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::TooManyBytes => "too many bytes",
            Self::TooManyLines => "too many lines",
            Self::TooManyMedia => "too many media sections",
            Self::TooManyAttributes => "too many attributes",
            Self::TooManyFormats => "too many formats",
            Self::Line => "not a line of SDP",
            Self::ControlCharacter => "a control character inside a line",
            Self::Start => "v=0 and o= must come first, once",
            Self::Origin => "bad o= line",
            Self::Repeated => "a line that may occur once occurs twice",
            Self::Misplaced => "a session line inside a media section",
            Self::Connection => "bad c= line",
            Self::Time => "bad t= line",
            Self::Media => "bad m= line",
            Self::NoConnection => "media section without a c= line",
        }
    }
}
