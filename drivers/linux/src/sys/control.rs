//! Batches of datagrams with control messages: `recvmmsg` with room for what the kernel adds to each datagram.

use super::name::{Name, empty_header};
use std::io;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Buffers for a batch of datagrams of `ROOM_BYTES` bytes with `CONTROL_WORDS` × 8 bytes of control messages each, and the
/// last received batch.
pub(super) struct ControlBatch<const ROOM_BYTES: usize, const CONTROL_WORDS: usize> {
    bytes: Vec<u8>,
    names: Vec<Name>,
    /// Not read directly, but `headers` point into it; the same holds for `_parts`. Words have the alignment of a control
    /// message.
    _controls: Vec<[u64; CONTROL_WORDS]>,
    _parts: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    filled: usize,
}

impl<const ROOM_BYTES: usize, const CONTROL_WORDS: usize> ControlBatch<ROOM_BYTES, CONTROL_WORDS> {
    /// Creates buffers for `datagrams` datagrams, 1 to [`BATCH_MAX`](super::BATCH_MAX).
    pub(super) fn new(datagrams: usize) -> Self {
        let datagrams = datagrams.clamp(1, super::BATCH_MAX);
        let mut bytes = vec![0_u8; datagrams * ROOM_BYTES];
        let mut names = vec![Name::empty(); datagrams];
        let mut controls = vec![[0; CONTROL_WORDS]; datagrams];
        let mut parts: Vec<libc::iovec> = bytes
            .chunks_exact_mut(ROOM_BYTES)
            .map(|room| libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() })
            .collect();
        let headers = names
            .iter_mut()
            .zip(parts.iter_mut())
            .zip(controls.iter_mut())
            .map(|((name, part), control)| {
                let mut header = empty_header();
                header.msg_hdr.msg_name = std::ptr::from_mut(name).cast();
                header.msg_hdr.msg_iov = part;
                header.msg_hdr.msg_iovlen = 1;
                header.msg_hdr.msg_control = std::ptr::from_mut(control).cast();
                header
            })
            .collect();
        Self { bytes, names, _controls: controls, _parts: parts, headers, filled: 0 }
    }

    /// Receives a batch without blocking, replacing the last one; returns the number of datagrams. `flags` are those of
    /// `recvmmsg`.
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>, flags: libc::c_int) -> io::Result<usize> {
        self.filled = 0;
        // The kernel has overwritten the buffers' lengths with the actual ones.
        for header in &mut self.headers {
            header.msg_hdr.msg_namelen = size_of::<Name>() as libc::socklen_t;
            header.msg_hdr.msg_controllen = size_of::<[u64; CONTROL_WORDS]>() as _;
        }
        // SAFETY: the headers point to names, controls, parts and bytes in vectors that live as long as `self`, are
        // never grown, and are not borrowed now because `self` is borrowed mutably. The count is that of the headers.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                flags | libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        self.filled = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        Ok(self.filled)
    }

    /// Header of a datagram of the last batch; its control messages are whole.
    pub(super) fn header(&self, index: usize) -> Option<&libc::msghdr> {
        self.headers.get(..self.filled)?.get(index).map(|header| &header.msg_hdr)
    }

    /// Address of a datagram.
    pub(super) fn address(&self, index: usize) -> Option<SocketAddr> {
        self.names.get(index)?.address()
    }

    /// Bytes of a datagram, truncated to the buffer.
    pub(super) fn bytes(&self, index: usize) -> Option<&[u8]> {
        self.bytes.get(self.range(index)?)
    }

    /// Mutable bytes of a datagram, truncated to the buffer.
    pub(super) fn bytes_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        let range = self.range(index)?;
        self.bytes.get_mut(range)
    }

    fn range(&self, index: usize) -> Option<std::ops::Range<usize>> {
        let header = self.headers.get(..self.filled)?.get(index)?;
        let start = index * ROOM_BYTES;
        Some(start..start + (header.msg_len as usize).min(ROOM_BYTES))
    }
}
