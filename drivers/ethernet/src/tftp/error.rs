//! Errors of a download, with messages for the user.

use alloc::string::String;
use core::fmt;
use core::net::SocketAddrV4;
use core::time::Duration;

/// A failed download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownloadError {
    /// Requested file.
    pub file: String,
    /// Address of the server.
    pub server: SocketAddrV4,
    /// Cause of the failure.
    pub failure: DownloadFailure,
}

impl fmt::Display for DownloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, server, failure } = self;
        write!(f, "{file:?} from the TFTP server {server}: {failure}")
    }
}

impl core::error::Error for DownloadError {}

/// Cause of a failed download. `text` is the server's text, in visible ASCII, at most 100 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DownloadFailure {
    /// The file name cannot be requested.
    UnusableName,
    /// The file does not exist (error 1).
    NotFound {
        /// The server's text.
        text: String,
    },
    /// The server refused the request.
    Refused {
        /// Error code of RFC 1350 §5 or RFC 2347; servers use 2 for missing permission.
        code: u16,
        /// The server's text.
        text: String,
    },
    /// The file is larger than the limit.
    TooLarge {
        /// Size announced by the server; `None`: the data exceeded the limit.
        bytes: Option<u64>,
        /// [`DownloadLimits::file_bytes_max`](super::DownloadLimits::file_bytes_max).
        bytes_max: usize,
    },
    /// The server did not answer the request.
    NoAnswer {
        /// Number of requests sent.
        tries: u32,
    },
    /// The server stopped sending.
    Silent {
        /// Bytes received before.
        received: usize,
        /// Number of transmissions of the last acknowledgement.
        tries: u32,
    },
    /// The download took too long.
    TooSlow {
        /// Bytes received.
        received: usize,
        /// [`DownloadLimits::duration_max`](super::DownloadLimits::duration_max).
        duration_max: Duration,
    },
    /// A block out of sequence.
    WrongBlock {
        /// Expected block number.
        expected: u16,
        /// Received block number.
        found: u16,
    },
    /// A block is longer than the agreed size (RFC 2348).
    BlockTooLong {
        /// Size of the block in bytes.
        bytes: usize,
        /// Agreed block size in bytes.
        agreed: usize,
    },
    /// The data does not have the announced size (RFC 2349).
    WrongSize {
        /// Announced size in bytes.
        announced: u64,
        /// Bytes received.
        received: usize,
    },
    /// The server accepted an option that was not requested, or changed a value (RFC 2347).
    WrongOption {
        /// The option as the server wrote it, in visible ASCII, at most 100 bytes.
        option: String,
    },
    /// The server reports an unknown transfer ID (error 5).
    UnknownTransfer,
}

impl fmt::Display for DownloadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnusableName => {
                f.write_str("a file name has 1 to 255 bytes and no control characters; correct the name")
            }
            Self::NotFound { text } => {
                write!(
                    f,
                    "there is no such file{}; put it into the server's folder, or correct the name",
                    ServerText(text)
                )
            }
            Self::Refused { code: 2, text } => {
                write!(f, "the server is not permitted to read it{}; make it readable for the server", ServerText(text))
            }
            Self::Refused { code, text } => {
                write!(f, "the server refuses with error {code}{}; see the server's log", ServerText(text))
            }
            Self::TooLarge { bytes: Some(bytes), bytes_max } => {
                write!(f, "it has {bytes} bytes, and the limit is {bytes_max}; make it smaller")
            }
            Self::TooLarge { bytes: None, bytes_max } => {
                write!(f, "it has more than the limit of {bytes_max} bytes; make it smaller")
            }
            Self::NoAnswer { tries } => write!(
                f,
                "no answer to {tries} requests; check the address, and that the server runs and is not behind a firewall"
            ),
            Self::Silent { received, tries } => write!(
                f,
                "the server stopped sending after {received} bytes and did not answer {tries} times; check the network and \
                 the server"
            ),
            Self::TooSlow { received, duration_max } => write!(
                f,
                "only {received} bytes came in {} seconds; check the network and the server",
                duration_max.as_secs()
            ),
            Self::WrongBlock { expected, found } => {
                write!(f, "received block {found} instead of {expected}; {USE_ANOTHER_SERVER}")
            }
            Self::BlockTooLong { bytes, agreed } => {
                write!(f, "received a block of {bytes} bytes, and the agreed size is {agreed}; {USE_ANOTHER_SERVER}")
            }
            Self::WrongSize { announced, received } => write!(
                f,
                "the server announced {announced} bytes and sent {received}; try again when the file is not being written"
            ),
            Self::WrongOption { option } => {
                write!(f, "the server accepted {option:?}, which was not requested; {USE_ANOTHER_SERVER}")
            }
            Self::UnknownTransfer => f.write_str(
                "the server does not have this transfer any more; try again, or check whether it was restarted",
            ),
        }
    }
}

impl DownloadFailure {
    /// Converts an ERROR packet (RFC 1350 §5).
    pub(super) fn of_error(code: u16, text: &[u8]) -> Self {
        match code {
            super::packet::FILE_NOT_FOUND => Self::NotFound { text: visible(text) },
            super::packet::UNKNOWN_TRANSFER => Self::UnknownTransfer,
            code => Self::Refused { code, text: visible(text) },
        }
    }
}

/// The server's text as visible ASCII; other bytes become `?`.
pub(super) fn visible(text: &[u8]) -> String {
    let visible = |byte: &u8| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '?' };
    text.iter().take(TEXT_BYTES_MAX).map(visible).collect()
}

/// The server's text in brackets; empty if there is none.
struct ServerText<'a>(&'a str);

impl fmt::Display for ServerText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " ({:?})", self.0) }
    }
}

const TEXT_BYTES_MAX: usize = 100;
const USE_ANOTHER_SERVER: &str = "this is a defect of the server; use another one";
