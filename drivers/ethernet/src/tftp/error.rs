//! Why a file did not come, in words for the person who waits for it.

use alloc::string::String;
use core::fmt;
use core::net::SocketAddrV4;
use core::time::Duration;

/// A file that did not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownloadError {
    /// The file that was asked for.
    pub file: String,
    /// Where it was asked for.
    pub server: SocketAddrV4,
    /// What happened.
    pub failure: DownloadFailure,
}

impl fmt::Display for DownloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, server, failure } = self;
        write!(f, "{file:?} from the TFTP server {server}: {failure}")
    }
}

impl core::error::Error for DownloadError {}

/// What happened to a download. `said` is the server's own text, in visible ASCII, at most 100 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DownloadFailure {
    /// No request can carry this name.
    UnusableName,
    /// The server does not have it (error 1).
    NotFound {
        /// The server's own text.
        said: String,
    },
    /// The server does not give it.
    Refused {
        /// RFC 1350 §5: 2 is a lack of permission.
        code: u16,
        /// The server's own text.
        said: String,
    },
    /// It is larger than we take.
    TooLarge {
        /// What the server says it has; `None`: more came than we take.
        bytes: Option<u64>,
        /// [`DownloadLimits::file_bytes_max`](super::DownloadLimits::file_bytes_max).
        bytes_max: usize,
    },
    /// Nobody answered the request.
    NoAnswer {
        /// How often it was sent.
        tries: u32,
    },
    /// The server fell silent.
    Silent {
        /// Bytes that came before.
        received: usize,
        /// How often the last acknowledgement was sent.
        tries: u32,
    },
    /// It takes too long.
    TooSlow {
        /// Bytes that came.
        received: usize,
        /// [`DownloadLimits::duration_max`](super::DownloadLimits::duration_max).
        duration_max: Duration,
    },
    /// A block came that it is not the turn of.
    WrongBlock {
        /// Whose turn it was.
        expected: u16,
        /// The number that came.
        found: u16,
    },
    /// A block is longer than agreed (RFC 2348).
    BlockTooLong {
        /// How long it is, in bytes.
        bytes: usize,
        /// How long blocks are.
        agreed: usize,
    },
    /// What came is not as large as the server said (RFC 2349).
    WrongSize {
        /// What it said, in bytes.
        told: u64,
        /// What came, in bytes.
        received: usize,
    },
    /// The server agrees to an option that we did not ask for, or to a value that we did not offer (RFC 2347).
    WrongOption {
        /// The option as the server wrote it, in visible ASCII, at most 100 bytes.
        option: String,
    },
    /// The server does not know this transfer any more (error 5).
    UnknownTransfer,
}

impl fmt::Display for DownloadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnusableName => {
                f.write_str("a file name has 1 to 255 bytes and no control characters; correct the name")
            }
            Self::NotFound { said } => {
                write!(
                    f,
                    "there is no such file{}; put it into the server's folder, or correct the name",
                    Said(said)
                )
            }
            Self::Refused { code: 2, said } => {
                write!(f, "the server may not read it{}; make it readable for everybody there", Said(said))
            }
            Self::Refused { code, said } => {
                write!(f, "the server refuses with error {code}{}; look into the server's log", Said(said))
            }
            Self::TooLarge { bytes: Some(bytes), bytes_max } => {
                write!(f, "it has {bytes} bytes and at most {bytes_max} are taken; make it smaller")
            }
            Self::TooLarge { bytes: None, bytes_max } => {
                write!(f, "it has more than the {bytes_max} bytes that are taken at most; make it smaller")
            }
            Self::NoAnswer { tries } => write!(
                f,
                "no answer to {tries} requests; check the address, and that the server runs and is not behind a firewall"
            ),
            Self::Silent { received, tries } => write!(
                f,
                "the server fell silent after {received} bytes and did not answer {tries} times; check the network and \
                 the server"
            ),
            Self::TooSlow { received, duration_max } => write!(
                f,
                "only {received} bytes came in {} seconds; check the network and the server",
                duration_max.as_secs()
            ),
            Self::WrongBlock { expected, found } => {
                write!(f, "block {found} came and it was the turn of {expected}; {USE_ANOTHER_SERVER}")
            }
            Self::BlockTooLong { bytes, agreed } => {
                write!(f, "a block of {bytes} bytes came and {agreed} are agreed on; {USE_ANOTHER_SERVER}")
            }
            Self::WrongSize { told, received } => write!(
                f,
                "the server said {told} bytes and sent {received}; try again when nobody writes to the file"
            ),
            Self::WrongOption { option } => {
                write!(f, "the server agrees to {option:?}, which was not asked for; {USE_ANOTHER_SERVER}")
            }
            Self::UnknownTransfer => f.write_str(
                "the server lost track of the transfer; try again, or see whether it was restarted",
            ),
        }
    }
}

impl DownloadFailure {
    /// What an error packet means (RFC 1350 §5).
    pub(super) fn of_error(code: u16, said: &[u8]) -> Self {
        match code {
            super::packet::FILE_NOT_FOUND => Self::NotFound { said: visible(said) },
            super::packet::UNKNOWN_TRANSFER => Self::UnknownTransfer,
            code => Self::Refused { code, said: visible(said) },
        }
    }
}

/// What a server wrote, fit for a screen.
pub(super) fn visible(text: &[u8]) -> String {
    let visible = |byte: &u8| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '?' };
    text.iter().take(TEXT_BYTES_MAX).map(visible).collect()
}

/// The server's text in brackets, if it wrote any.
struct Said<'a>(&'a str);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " ({:?})", self.0) }
    }
}

const TEXT_BYTES_MAX: usize = 100;
const USE_ANOTHER_SERVER: &str = "this is a fault of the server, use another one";
