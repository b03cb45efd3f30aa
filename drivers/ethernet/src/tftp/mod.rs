//! TFTP client that reads files (RFC 1350 with the options of RFC 2347, 2348 and 2349).
//!
//! Does: one [`Download`] for one request: options, blocks, retransmissions, limits.
//!
//! Does not: write files, perform I/O, read clocks, choose ports. The caller passes in datagrams and the time, and
//! sends the datagram of [`DownloadOutput`].
//!
//! Start reading at `download.rs`.

mod download;
mod error;
mod packet;
mod transfer;

pub use download::{Download, DownloadOutput, DownloadProgress};
pub use error::{DownloadError, DownloadFailure};
pub use transfer::DownloadLimits;

/// Port of TFTP requests (RFC 1350 §4).
pub const TFTP_PORT: u16 = 69;
