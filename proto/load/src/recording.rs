//! Recorded packets.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

/// Payloads of UDP packets with their times, as a file of packets has them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Recording {
    packets: Vec<Recorded>,
    bytes: Vec<u8>,
}

/// One packet of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Recorded {
    /// Time after the first packet, not below that of the packet before.
    at: Duration,
    port_offset: u16,
    /// Start of its payload in the bytes.
    start: usize,
    length: usize,
}

/// Reason why a packet cannot be a part of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingError {
    /// It has no payload, or more than [`Recording::PAYLOAD_BYTES_MAX`] bytes.
    Length,
    /// There are [`Recording::PACKETS_MAX`] already.
    Full,
}

impl Recording {
    /// Maximum number of packets.
    pub const PACKETS_MAX: usize = 100_000;
    /// Maximum length of a payload in bytes.
    pub const PAYLOAD_BYTES_MAX: usize = 1500;

    /// Adds a packet that was recorded `at` after the first one; one that is before the last one is sent with that. It goes to the port
    /// of the peer's description plus `port_offset`.
    ///
    /// # Errors
    /// A limit is reached; the packet is not added.
    pub fn push(&mut self, at: Duration, port_offset: u16, payload: &[u8]) -> Result<(), RecordingError> {
        let length = payload.len();
        if length == 0 || length > Self::PAYLOAD_BYTES_MAX {
            return Err(RecordingError::Length);
        }
        if self.packets.len() >= Self::PACKETS_MAX {
            return Err(RecordingError::Full);
        }
        let at = self.packets.last().map_or(at, |last| at.max(last.at));
        self.packets.push(Recorded { at, port_offset, start: self.bytes.len(), length });
        self.bytes.extend_from_slice(payload);
        Ok(())
    }

    /// Number of packets.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// True without packets.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Time, offset of the port, and payload, of the packet with this index.
    pub fn packet(&self, index: usize) -> Option<(Duration, u16, &[u8])> {
        let Recorded { at, port_offset, start, length } = *self.packets.get(index)?;
        Some((at, port_offset, self.bytes.get(start..start + length)?))
    }
}

/// The bytes of a recording are not for people.
impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").field("packets", &self.len()).finish_non_exhaustive()
    }
}
