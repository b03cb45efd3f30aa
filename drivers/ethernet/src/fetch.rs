//! A running TFTP download with its UDP socket.

use crate::stack::{Stack, socket_address};
use crate::tftp::{Download, DownloadError, DownloadOutput, DownloadProgress};
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
