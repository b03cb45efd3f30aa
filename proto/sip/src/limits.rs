//! How much of a message is read at most.

/// Bounds on what a peer can make the parser work on. Each is counted as its own [`Reason`](crate::Reason) where it is
/// reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a whole message, 1 to 65,535 (positions are 16 bits wide). Over it: 513.
    pub message_bytes_max: usize,
    /// Header fields in a message, at most 128. Over it: 400.
    pub headers_max: usize,
    /// Bytes of the Request-URI. Over it: 414.
    pub request_uri_bytes_max: usize,
}

impl Limits {
    /// Header fields a message can have at the most, whatever is configured.
    pub const HEADERS_CEILING: usize = 128;
    /// Message bytes at the most, whatever is configured.
    pub const MESSAGE_BYTES_CEILING: usize = 65_535;
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
