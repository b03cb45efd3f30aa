//! Batches of datagrams: `recvmmsg` and `sendmmsg`.

use super::name::{Name, empty_header};
use std::io;
use std::marker::PhantomData;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The most datagrams one call receives or sends.
pub const BATCH_MAX: usize = 64;

/// The room for one datagram, bytes: UDP's length field allows no more.
pub const DATAGRAM_BYTES_MAX: usize = 65_535;

/// How far the rooms of a batch are apart: enough for the longest datagram, and no multiple of a power of two, for then
/// the beginnings of all of them, which is what short datagrams fill, would compete for the same few lines of the cache.
const ROOM_BYTES: usize = 65_536 + 11 * 64;

/// Whether receiving waits when nothing is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Returns `WouldBlock`.
    Never,
    /// Waits for one datagram and takes with it what else is there.
    ForOne,
}

/// Room for a batch of datagrams, and the last batch that came in.
///
/// The bytes are never cleared: the kernel says how many of them are a datagram. Pages that no datagram has reached
/// cost address space only.
pub struct ReceiveBatch {
    bytes: Vec<u8>,
    names: Vec<Name>,
    /// Not read by us, but `headers` point into it.
    _parts: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    filled: usize,
}

impl ReceiveBatch {
    /// Room for `datagrams`, 1 to [`BATCH_MAX`].
    pub fn new(datagrams: usize) -> Self {
        let datagrams = datagrams.clamp(1, BATCH_MAX);
        let mut bytes = vec![0_u8; datagrams * ROOM_BYTES];
        let mut names = vec![Name::empty(); datagrams];
        let mut parts: Vec<libc::iovec> = bytes
            .chunks_exact_mut(ROOM_BYTES)
            .map(|room| libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() })
            .collect();
        let headers = names
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
        Self { bytes, names, _parts: parts, headers, filled: 0 }
    }

    /// Receives up to a batch, forgetting the last one, and says how many came.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, wait: Wait) -> io::Result<usize> {
        // The kernel wrote the real length over the room's.
        for header in self.headers.iter_mut().take(self.filled) {
            header.msg_hdr.msg_namelen = size_of::<Name>() as libc::socklen_t;
        }
        self.filled = 0;
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

    /// One datagram of the last batch and who sent it.
    pub fn datagram(&self, index: usize) -> Option<(SocketAddr, &[u8])> {
        let header = self.headers.get(..self.filled)?.get(index)?;
        let start = index * ROOM_BYTES;
        let bytes = self.bytes.get(start..start + header.msg_len as usize)?;
        Some((self.names.get(index)?.address()?, bytes))
    }

    /// How many datagrams one call can bring.
    pub fn capacity(&self) -> usize {
        self.headers.len()
    }
}

/// The lists that a batch to be sent is written into, kept from batch to batch.
pub struct SendBatch {
    names: Vec<Name>,
    parts: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    tags: Vec<u64>,
}

impl SendBatch {
    /// Room for batches of `datagrams`, 1 to [`BATCH_MAX`].
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

/// A batch being filled and sent. What was not sent when it is dropped is not sent.
pub struct Sending<'s, 'b> {
    batch: &'s mut SendBatch,
    next: usize,
    end: usize,
    bytes: PhantomData<&'b [u8]>,
}

impl<'b> Sending<'_, 'b> {
    /// Adds a datagram; `tag` is given back by [`Sending::skip`]. False: the batch is full, send first.
    pub fn push(&mut self, to: SocketAddr, bytes: &'b [u8], tag: u64) -> bool {
        let index = self.end;
        let (Some(header), Some(name), Some(part), Some(kept)) = (
            self.batch.headers.get_mut(index),
            self.batch.names.get_mut(index),
            self.batch.parts.get_mut(index),
            self.batch.tags.get_mut(index),
        ) else {
            return false;
        };
        header.msg_hdr.msg_namelen = name.set(to);
        // The kernel only reads what is sent; the interface has one type for both directions.
        part.iov_base = bytes.as_ptr().cast_mut().cast();
        part.iov_len = bytes.len();
        *kept = tag;
        self.end += 1;
        true
    }

    /// Sends as many as the socket takes, in order, without waiting; says how many. An error speaks of the first one
    /// that is left: wait and call again, or [`Sending::skip`] it.
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

    /// Leaves out the first one that is not sent yet and gives back its tag.
    pub fn skip(&mut self) -> Option<u64> {
        let tag = self.batch.tags.get(self.next..self.end)?.first().copied()?;
        self.next += 1;
        Some(tag)
    }

    /// How many are not sent yet.
    pub fn left(&self) -> usize {
        self.end - self.next
    }

    /// Begins again with an empty batch.
    pub fn clear(&mut self) {
        self.next = 0;
        self.end = 0;
    }
}
