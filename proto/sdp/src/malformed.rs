//! Errors of parsing a description.

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
