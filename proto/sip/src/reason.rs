//! Reasons to reject a message, the response to a rejected request, and limits on the parts of a message that are read.

use crate::HeaderName;

/// The first fault of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The first line is neither a request line nor a status line.
    StartLine,
    /// A SIP version other than 2.0.
    Version,
    /// A line of the header block is no header field, or the block has no end.
    HeaderLine,
    /// A header field that every message needs is missing.
    Missing(HeaderName),
    /// A header field that is allowed once occurs more than once.
    Repeated(HeaderName),
    /// A header field's value is not what its grammar allows.
    Header(HeaderName),
    /// The Request-URI is not a URI.
    RequestUri,
    /// The method in CSeq is not the request's (RFC 3261 §8.1.1.5).
    CSeqMethod,
    /// Content-Length is larger than what arrived, conflicting, negative or too large.
    ContentLength,
    /// More bytes than [`Limits::message_bytes_max`](crate::Limits::message_bytes_max).
    MessageTooLarge,
    /// More header fields than [`Limits::headers_max`](crate::Limits::headers_max).
    TooManyHeaders,
    /// A Request-URI longer than [`Limits::request_uri_bytes_max`](crate::Limits::request_uri_bytes_max).
    RequestUriTooLong,
}

impl Reason {
    /// Number of different [`Reason::index`] values.
    pub const COUNT: usize = 12;

    /// The status code a request is answered with (RFC 3261 §21.4, §21.5).
    pub const fn status(self) -> u16 {
        match self {
            Self::Version => 505,
            Self::MessageTooLarge => 513,
            Self::RequestUriTooLong => 414,
            Self::StartLine
            | Self::HeaderLine
            | Self::Missing(_)
            | Self::Repeated(_)
            | Self::Header(_)
            | Self::RequestUri
            | Self::CSeqMethod
            | Self::ContentLength
            | Self::TooManyHeaders => 400,
        }
    }

    /// The reason phrase, which names the fault (RFC 3261 §21.4.1).
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::StartLine => "Bad Request-Line",
            Self::Version => "Version Not Supported",
            Self::HeaderLine => "Bad Header Line",
            Self::Missing(_) => "Missing Mandatory Header",
            Self::Repeated(_) => "Repeated Header",
            Self::Header(_) => "Bad Header Value",
            Self::RequestUri => "Bad Request-URI",
            Self::CSeqMethod => "CSeq Method Does Not Match",
            Self::ContentLength => "Bad Content-Length",
            Self::MessageTooLarge => "Message Too Large",
            Self::TooManyHeaders => "Too Many Headers",
            Self::RequestUriTooLong => "Request-URI Too Long",
        }
    }

    /// Index of this reason in a table of counters, 0 to [`Reason::COUNT`] - 1.
    pub const fn index(self) -> usize {
        match self {
            Self::StartLine => 0,
            Self::Version => 1,
            Self::HeaderLine => 2,
            Self::Missing(_) => 3,
            Self::Repeated(_) => 4,
            Self::Header(_) => 5,
            Self::RequestUri => 6,
            Self::CSeqMethod => 7,
            Self::ContentLength => 8,
            Self::MessageTooLarge => 9,
            Self::TooManyHeaders => 10,
            Self::RequestUriTooLong => 11,
        }
    }
}

impl core::fmt::Display for Reason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Missing(name) | Self::Repeated(name) | Self::Header(name) if *name != HeaderName::Other => {
                write!(f, "{} ({})", self.phrase(), core::str::from_utf8(name.as_bytes()).unwrap_or_default())
            }
            _ => f.write_str(self.phrase()),
        }
    }
}

/// Limits on messages from peers. Each has its own [`Reason`](crate::Reason), which is counted when the limit is
/// reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a whole message, 1 to 65,535 (positions are 16 bits wide). Over it: 513.
    pub message_bytes_max: usize,
    /// Header fields in a message; [`Limits::HEADERS_CEILING`] for those that arrive. Over it: 400.
    pub headers_max: usize,
    /// Bytes of the Request-URI. Over it: 414.
    pub request_uri_bytes_max: usize,
}

impl Limits {
    /// Default maximum number of header fields in a message that arrives.
    pub const HEADERS_CEILING: usize = 128;
    /// Maximum number of header fields that forwarding adds: Via, two Record-Routes, two Routes, Max-Forwards, Max-Breadth,
    /// Content-Length.
    pub const HEADERS_ADDED_MAX: usize = 8;
    /// Maximum number of bytes in a message.
    pub const MESSAGE_BYTES_CEILING: usize = 65_535;
    /// Maximum number of bytes that forwarding adds: a contact as Request-URI, and the header fields above.
    pub const BYTES_ADDED_MAX: usize = 4096;

    /// Limits for reading a message once more that was accepted, or that this program has written: an INVITE that was accepted has grown
    /// by what forwarding adds when its CANCEL and its ACK are made from it.
    pub const STORED: Self = Self {
        message_bytes_max: Self::MESSAGE_BYTES_CEILING,
        headers_max: Self::HEADERS_CEILING + Self::HEADERS_ADDED_MAX,
        request_uri_bytes_max: Self::MESSAGE_BYTES_CEILING,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes_max: Self::MESSAGE_BYTES_CEILING,
            headers_max: Self::HEADERS_CEILING,
            request_uri_bytes_max: 2048,
        }
    }
}
