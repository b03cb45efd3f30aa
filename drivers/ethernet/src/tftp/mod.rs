//! TFTP, as far as fetching a file needs it (RFC 1350 with the options of RFC 2347, 2348 and 2349).
//!
//! Does: one [`Download`] by one request: options, blocks, repetitions, limits.
//!
//! Does not: send files, wait, choose ports, or hold a socket. Whoever has one gives it what arrives and the time, and
//! sends what it puts into a [`DownloadOutput`].
//!
//! Start reading at `download.rs`.

mod download;
mod error;
mod limits;
mod packet;
mod transfer;

pub use download::{Download, DownloadOutput, DownloadProgress};
pub use error::{DownloadError, DownloadFailure};
pub use limits::DownloadLimits;

/// Where a TFTP server takes requests (RFC 1350 §4).
pub const TFTP_PORT: u16 = 69;
