//! TFTP client that reads files (RFC 1350 with the options of RFC 2347, 2348 and 2349), and a running download with its
//! UDP socket.
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

use crate::stack::{Stack, socket_address};
use alloc::vec::Vec;
use ringway_sansio::Instant;
use smoltcp::iface::SocketHandle;

pub(crate) struct Fetch {
    download: Download,
    handle: SocketHandle,
    out: DownloadOutput,
}

impl Fetch {
    pub(crate) fn new(download: Download, handle: SocketHandle) -> Self {
        Self { download, handle, out: DownloadOutput::default() }
    }

    /// Bytes received, and the file's size if the server announced it.
    pub(crate) fn received(&self) -> (usize, Option<usize>) {
        self.download.received()
    }

    /// Processes received datagrams and due timers; returns the file or the error once.
    pub(crate) fn run(&mut self, stack: &mut Stack, now: Instant) -> Option<Result<Vec<u8>, DownloadError>> {
        let Self { download, handle, out } = self;
        let mut end = None;
        let socket = stack.datagrams(*handle);
        loop {
            let progress = match socket.recv() {
                Ok((bytes, from)) => download.on_datagram(now, socket_address(from.endpoint), bytes, out),
                Err(_) if download.next_deadline().is_some_and(|deadline| deadline.at <= now) => {
                    download.on_timeout(now, out)
                }
                Err(_) => break,
            };
            if let Some((to, bytes)) = out.datagram() {
                // If the send buffer is full the packet is lost, and TFTP retransmits it.
                let _ = socket.send_slice(bytes, to);
            }
            match progress {
                DownloadProgress::Pending => {}
                DownloadProgress::Finished(file) => end = Some(Ok(file)),
                DownloadProgress::Failed(error) => end = Some(Err(error)),
            }
        }
        end
    }

    /// True if the socket is no longer needed.
    pub(crate) fn is_over(&self) -> bool {
        self.download.next_deadline().is_none()
    }

    pub(crate) fn close(self, stack: &mut Stack) {
        stack.close_datagrams(self.handle);
    }
}

/// Port of TFTP requests (RFC 1350 §4).
pub const TFTP_PORT: u16 = 69;
