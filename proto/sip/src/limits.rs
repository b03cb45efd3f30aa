//! Limits on the parts of a message that are read.

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
