//! Framing of SIP on byte streams (RFC 3261 §18.3) and over transports that preserve boundaries (RFC 7118 §5).

use crate::HeaderName;
use crate::grammar::number_u32;
use crate::lines::{Next, next_field};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Collects the bytes of one connection and returns complete messages.
///
/// Content-Length gives the end of a message. A message without one, or with conflicting, negative, overflowing or
/// over-limit ones, and a header block that cannot be split into lines, end the stream: the start of the next message
/// is then unknown, and a guess that differs from the peer's is how messages are smuggled. On a transport that preserves
/// boundaries, [`StreamFramer::message_start`] and [`StreamFramer::message_end`] give the ends instead.
///
/// ```
/// use ringway_sip::StreamFramer;
///
/// let mut framer = StreamFramer::new(65_535);
/// framer.push(b"OPTIONS sip:a SIP/2.0\r\nContent-Length: 2\r\n\r\nh");
/// assert_eq!(framer.next_message()?, None);
/// framer.push(b"iBYE sip:a SIP/2.0\r\n");
/// let message = framer.next_message()?;
/// assert_eq!(message, Some(&b"OPTIONS sip:a SIP/2.0\r\nContent-Length: 2\r\n\r\nhi"[..]));
/// assert!(framer.is_partial());
/// # Ok::<(), ringway_sip::StreamError>(())
/// ```
#[derive(Debug)]
pub struct StreamFramer {
    bytes: Vec<u8>,
    /// Start of the message that is being collected.
    start: usize,
    /// Start of the bytes that were not searched for the end of the header yet.
    searched: usize,
    /// The whole length of the message, once its header is there.
    needed: Option<usize>,
    message_bytes_max: usize,
    /// Ends of the messages in `bytes`, if the transport preserves boundaries.
    ends: VecDeque<usize>,
    is_bounded: bool,
    pongs: usize,
    /// True when one CRLF of a CRLF CRLF keep-alive has come.
    is_half_ping: bool,
}

/// Error after which a stream can no longer be framed: the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamError {
    /// The header block has a line that is no header field.
    HeaderLine,
    /// No Content-Length (RFC 3261 §20.14 demands it on streams), or none that can be used.
    ContentLength,
    /// The message is larger than allowed.
    TooLarge,
}

impl StreamError {
    /// Description for logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HeaderLine => "a header line that cannot be read",
            Self::ContentLength => "no usable Content-Length",
            Self::TooLarge => "a message over the size limit",
        }
    }
}

impl StreamFramer {
    /// A framer for a new connection. Messages larger than `message_bytes_max` end the stream.
    pub fn new(message_bytes_max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            start: 0,
            searched: 0,
            needed: None,
            message_bytes_max,
            ends: VecDeque::new(),
            is_bounded: false,
            pongs: 0,
            is_half_ping: false,
        }
    }

    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.compact();
        self.bytes.extend_from_slice(bytes);
    }

    /// Marks the start of a message on a transport that preserves boundaries. [`StreamFramer::message_end`] marks its end,
    /// so that it needs no Content-Length (RFC 7118 §5).
    pub const fn message_start(&mut self) {
        self.is_bounded = true;
    }

    /// Marks the end of a message, after [`StreamFramer::message_start`]. An empty message is ignored.
    pub fn message_end(&mut self) {
        if self.is_bounded && self.ends.back().copied().unwrap_or(self.start) < self.bytes.len() {
            self.ends.push_back(self.bytes.len());
        }
    }

    /// The next whole message, or `None` when more bytes are needed.
    pub fn next_message(&mut self) -> Result<Option<&[u8]>, StreamError> {
        if self.is_bounded {
            return self.next_bounded();
        }
        if self.needed.is_none() {
            self.find_length()?;
        }
        let end = self.needed.map(|needed| self.start + needed).filter(|end| *end <= self.bytes.len());
        let Some(end) = end else {
            self.compact();
            return Ok(None);
        };
        let range = self.start..end;
        self.start = range.end;
        self.searched = range.end;
        self.needed = None;
        Ok(self.bytes.get(range))
    }

    /// Takes the number of keep-alive pings (RFC 5626 §3.5.1: CRLF CRLF between messages) since the last call, at most
    /// 16; each is answered with one CRLF.
    pub fn take_pongs(&mut self) -> usize {
        core::mem::take(&mut self.pongs)
    }

    /// True while a message is incomplete.
    pub fn is_partial(&self) -> bool {
        !matches!(self.bytes.get(self.start..), None | Some([] | [b'\r']))
    }

    /// Bytes of memory that it holds, unused capacity included.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    /// Next message of a transport that preserves boundaries. One of CRLFs is a keep-alive (RFC 7118 §6).
    fn next_bounded(&mut self) -> Result<Option<&[u8]>, StreamError> {
        loop {
            let end = self.ends.front().copied();
            let message = self.bytes.get(self.start..end.unwrap_or(self.bytes.len())).unwrap_or_default();
            if message.len() > self.message_bytes_max {
                return Err(StreamError::TooLarge);
            }
            let Some(end) = end else {
                self.compact();
                return Ok(None);
            };
            let crlfs = message.as_chunks().0.iter().take_while(|pair| *pair == b"\r\n").count();
            let begin = self.start + 2 * crlfs;
            self.ends.pop_front();
            self.start = end;
            if begin < end {
                return Ok(self.bytes.get(begin..end));
            }
            self.pongs = self.pongs.saturating_add(crlfs / 2).min(PONGS_MAX);
        }
    }

    /// Searches for the end of the header; Content-Length then gives the length of the message.
    fn find_length(&mut self) -> Result<(), StreamError> {
        if !self.skip_keep_alives() {
            return Ok(());
        }
        let rest = self.bytes.get(self.start..).unwrap_or_default();
        // Usually the whole header is there at once, and is read once. A header that comes in pieces is searched for its end
        // first, so that no byte is read again with each piece.
        let at_once = if self.searched == self.start { read_header(rest) } else { None };
        let (end, length) = match at_once {
            Some((end, length)) if rest.get(..end).is_some_and(|header| header.ends_with(b"\r\n\r\n")) => {
                (end, length)
            }
            _ => {
                let from = self.searched.saturating_sub(self.start).saturating_sub(3);
                let Some(end) = header_end(rest, from) else {
                    self.searched = self.bytes.len();
                    if rest.len() > self.message_bytes_max {
                        return Err(StreamError::TooLarge);
                    }
                    return Ok(());
                };
                let read = read_header(rest.get(..end).unwrap_or_default());
                (end, read.map_or(Err(StreamError::HeaderLine), |(_, length)| length))
            }
        };
        if end > self.message_bytes_max {
            return Err(StreamError::TooLarge);
        }
        let length = length?;
        let needed = usize::try_from(length).ok().and_then(|length| length.checked_add(end));
        match needed {
            Some(needed) if needed <= self.message_bytes_max => {
                self.needed = Some(needed);
                Ok(())
            }
            _ => Err(StreamError::TooLarge),
        }
    }

    /// RFC 3261 §7.5: CRLFs before a start line are skipped; two in a row are a ping. False until a message has begun.
    fn skip_keep_alives(&mut self) -> bool {
        loop {
            match (self.bytes.get(self.start), self.bytes.get(self.start + 1)) {
                (Some(b'\r'), Some(b'\n')) => {
                    self.start += 2;
                    if self.is_half_ping {
                        self.pongs = self.pongs.saturating_add(1).min(PONGS_MAX);
                    }
                    self.is_half_ping = !self.is_half_ping;
                }
                (None, _) | (Some(b'\r'), None) => return false,
                _ => {
                    self.is_half_ping = false;
                    self.searched = self.searched.max(self.start);
                    return true;
                }
            }
        }
    }

    fn compact(&mut self) {
        if self.start == 0 {
            return;
        }
        if self.start >= self.bytes.len() {
            self.bytes.clear();
        } else {
            self.bytes.drain(..self.start);
        }
        self.searched = self.searched.saturating_sub(self.start);
        self.ends.iter_mut().for_each(|end| *end = end.saturating_sub(self.start));
        self.start = 0;
        if self.bytes.capacity() > KEEP_BYTES_MAX && self.bytes.len() < KEEP_BYTES_MAX {
            self.bytes.shrink_to(KEEP_BYTES_MAX);
        }
    }
}

/// Position of the body, and the value of the Content-Length fields, of bytes that begin with a header block. `None`: the
/// block is incomplete or has a line that is no header field.
fn read_header(bytes: &[u8]) -> Option<(usize, Result<u32, StreamError>)> {
    let mut at = memchr::memchr(b'\n', bytes)? + 1;
    let mut found = None;
    let mut is_clear = true;
    let body = loop {
        match next_field(bytes, at) {
            Next::Body(body) => break body,
            Next::Bad(_) | Next::End => return None,
            Next::Field(field, end) => {
                at = end;
                if field.name == HeaderName::ContentLength {
                    let value = number_u32(bytes.get(field.value).unwrap_or_default());
                    is_clear &= value.is_some() && (found.is_none() || found == value);
                    found = value;
                }
            }
        }
    };
    Some((body, found.filter(|_| is_clear).ok_or(StreamError::ContentLength)))
}

/// Position of the body.
fn header_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let found = at + memchr::memchr(b'\n', bytes.get(at..)?)?;
        if bytes.get(found.saturating_sub(3)..=found) == Some(b"\r\n\r\n") {
            return Some(found + 1);
        }
        at = found + 1;
    }
}

/// Maximum number of pongs owed; further pings of one read get no answer.
const PONGS_MAX: usize = 16;

/// Capacity that is kept for the next message.
const KEEP_BYTES_MAX: usize = 4 * 1024;

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
