//! Batches of datagrams: `recvmmsg` and `sendmmsg`.

use super::socket::{Name, empty_header};
use super::stamps::{STAMP_WORDS, waited_of};
use std::io;
use std::marker::PhantomData;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Maximum number of datagrams per call.
pub const BATCH_MAX: usize = 64;

/// Size of the buffer of one datagram in bytes: the maximum of UDP's length field.
pub const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Distance of the buffers of a batch: at least the longest datagram, and not a multiple of a power of two, because
/// otherwise the first bytes of all buffers, where short datagrams are, would compete for the same cache lines.
pub const ROOM_BYTES: usize = 65_536 + 11 * 64;

/// Tells if receiving blocks when no datagram is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Returns `WouldBlock`.
    Never,
    /// Blocks until one datagram arrives, and returns it with the other available ones.
    ForOne,
}

/// Buffers for a batch of datagrams, and the last received batch.
///
/// The bytes are never cleared: the kernel returns the length of each datagram. Pages without a datagram use address
/// space only.
pub struct ReceiveBatch {
    bytes: Vec<u8>,
    names: Vec<Name>,
    /// Not read, but `headers` point into it; the same holds for `_control`, which is of the first datagram.
    _parts: Vec<libc::iovec>,
    _control: Box<[u64; STAMP_WORDS]>,
    headers: Vec<libc::mmsghdr>,
    filled: usize,
}

impl ReceiveBatch {
    /// Creates buffers for `datagrams` datagrams, 1 to [`BATCH_MAX`].
    pub fn new(datagrams: usize) -> Self {
        let datagrams = datagrams.clamp(1, BATCH_MAX);
        let mut bytes = vec![0_u8; datagrams * ROOM_BYTES];
        let mut names = vec![Name::empty(); datagrams];
        let mut parts: Vec<libc::iovec> = bytes
            .chunks_exact_mut(ROOM_BYTES)
            .map(|room| libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() })
            .collect();
        let mut headers: Vec<libc::mmsghdr> = names
            .iter_mut()
            .zip(parts.iter_mut())
            .map(|(name, part)| {
                let mut header = empty_header();
                header.msg_hdr.msg_name = std::ptr::from_mut(name).cast();
                header.msg_hdr.msg_namelen = size_of::<Name>() as libc::socklen_t;
                header.msg_hdr.msg_iov = part;
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        let mut control = Box::new([0; STAMP_WORDS]);
        if let Some(first) = headers.first_mut() {
            first.msg_hdr.msg_control = control.as_mut_ptr().cast();
        }
        Self { bytes, names, _parts: parts, _control: control, headers, filled: 0 }
    }

    /// Writes all rooms, as the longest datagrams do.
    pub fn fill(&mut self) {
        self.bytes.fill(1);
    }

    /// Receives a batch, replacing the last one; returns the number of datagrams.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, wait: Wait) -> io::Result<usize> {
        // The kernel has overwritten the buffer's length with the actual one.
        for header in self.headers.iter_mut().take(self.filled) {
            header.msg_hdr.msg_namelen = size_of::<Name>() as libc::socklen_t;
        }
        self.filled = 0;
        if let Some(first) = self.headers.first_mut() {
            first.msg_hdr.msg_controllen = size_of::<[u64; STAMP_WORDS]>() as _;
        }
        let flags = match wait {
            Wait::Never => libc::MSG_DONTWAIT,
            Wait::ForOne => libc::MSG_WAITFORONE,
        };
        // SAFETY: the headers point to names, parts and bytes in vectors that live as long as `self`, are never
        // grown, and are not borrowed now because `self` is borrowed mutably. The count is that of the headers.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                flags,
                std::ptr::null_mut(),
            )
        };
        self.filled = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        Ok(self.filled)
    }

    /// Sender and bytes of a datagram of the last batch.
    pub fn datagram(&self, index: usize) -> Option<(SocketAddr, &[u8])> {
        let header = self.headers.get(..self.filled)?.get(index)?;
        let start = index * ROOM_BYTES;
        let bytes = self.bytes.get(start..start + header.msg_len as usize)?;
        Some((self.names.get(index)?.address()?, bytes))
    }

    /// Time for which the first datagram of the last batch waited in the socket, and the others no longer; zero without
    /// [`stamp_arrivals`](super::stamp_arrivals).
    pub fn waited(&self) -> Duration {
        self.headers
            .get(..self.filled)
            .and_then(<[_]>::first)
            .map_or(Duration::ZERO, |header| waited_of(&header.msg_hdr))
    }

    /// Maximum number of datagrams of one call.
    pub fn capacity(&self) -> usize {
        self.headers.len()
    }
}

/// Reusable arrays for a batch to be sent.
pub struct SendBatch {
    names: Vec<Name>,
    parts: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    tags: Vec<u64>,
}

impl SendBatch {
    /// Creates arrays for batches of `datagrams` datagrams, 1 to [`BATCH_MAX`].
    pub fn new(datagrams: usize) -> Self {
        let datagrams = datagrams.clamp(1, BATCH_MAX);
        let mut names = vec![Name::empty(); datagrams];
        let mut parts = vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; datagrams];
        let headers = names
            .iter_mut()
            .zip(parts.iter_mut())
            .map(|(name, part)| {
                let mut header = empty_header();
                header.msg_hdr.msg_name = std::ptr::from_mut(name).cast();
                header.msg_hdr.msg_iov = part;
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        Self { names, parts, headers, tags: vec![0; datagrams] }
    }

    /// Begins a batch of datagrams whose bytes live for `'b`.
    pub fn begin<'s, 'b>(&'s mut self) -> Sending<'s, 'b> {
        Sending { batch: self, next: 0, end: 0, bytes: PhantomData }
    }
}

/// A batch that is being filled and sent. Unsent datagrams are dropped with it.
pub struct Sending<'s, 'b> {
    batch: &'s mut SendBatch,
    next: usize,
    end: usize,
    bytes: PhantomData<&'b [u8]>,
}

impl<'b> Sending<'_, 'b> {
    /// Adds a datagram; [`Sending::skip`] returns `tag`. False: the batch is full.
    pub fn push(&mut self, to: SocketAddr, bytes: &'b [u8], tag: u64) -> bool {
        self.push_with(Some(to), bytes, tag)
    }

    /// The same for the peer of a connected socket, whose route the kernel then keeps.
    pub fn push_to_peer(&mut self, bytes: &'b [u8], tag: u64) -> bool {
        self.push_with(None, bytes, tag)
    }

    fn push_with(&mut self, to: Option<SocketAddr>, bytes: &'b [u8], tag: u64) -> bool {
        let index = self.end;
        let (Some(header), Some(name), Some(part), Some(kept)) = (
            self.batch.headers.get_mut(index),
            self.batch.names.get_mut(index),
            self.batch.parts.get_mut(index),
            self.batch.tags.get_mut(index),
        ) else {
            return false;
        };
        header.msg_hdr.msg_namelen = to.map_or(0, |to| name.set(to));
        // The kernel only reads sent bytes; the structure has one type for both directions.
        part.iov_base = bytes.as_ptr().cast_mut().cast();
        part.iov_len = bytes.len();
        *kept = tag;
        self.end += 1;
        true
    }

    /// Sends as many datagrams as the socket accepts, in order, without blocking; returns their number. An error
    /// concerns the first unsent datagram: wait and call again, or [`Sending::skip`] it.
    pub fn send(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let Some(left) = self.batch.headers.get_mut(self.next..self.end) else { return Ok(0) };
        if left.is_empty() {
            return Ok(0);
        }
        // SAFETY: the headers point to names and parts in vectors that live as long as the batch and are never
        // grown; the parts of `next..end` were set by `push` to bytes that outlive `self`.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                left.as_mut_ptr(),
                left.len() as libc::c_uint,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        let sent = usize::try_from(sent).map_err(|_| io::Error::last_os_error())?;
        self.next += sent;
        Ok(sent)
    }

    /// Skips the first unsent datagram; returns its tag.
    pub fn skip(&mut self) -> Option<u64> {
        let tag = self.batch.tags.get(self.next..self.end)?.first().copied()?;
        self.next += 1;
        Some(tag)
    }

    /// Number of unsent datagrams.
    pub fn left(&self) -> usize {
        self.end - self.next
    }

    /// Empties the batch.
    pub fn clear(&mut self) {
        self.next = 0;
        self.end = 0;
    }
}
