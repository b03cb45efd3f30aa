//! Packet store of the jitter buffer: unordered, in memory allocated once.

use super::SoundPacket;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use ringway_sdp::Codec;

/// Result of inserting a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// Stored.
    Stored,
    /// Its playout time has passed.
    Late,
    /// Already stored.
    Duplicate,
    /// Stored after dropping the oldest packet, because the buffer was full.
    OldestDropped,
    /// Longer than the maximum payload, or empty.
    TooLong,
}

/// Content at a playout position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// `len` samples of a packet, from its sample `offset` on.
    Sound { index: usize, offset: usize, len: usize },
    /// No packet for this many samples, and then one.
    Gap { samples: usize },
    /// No packet from here on.
    Empty,
}

#[derive(Debug)]
pub(super) struct PacketStore {
    packets: Vec<Waiting>,
    /// One slot of [`PAYLOAD_BYTES_MAX`] for each packet.
    slots: Box<[u8]>,
    /// Free slots.
    free: Vec<usize>,
    /// Newest extended timestamp.
    newest: Option<i64>,
}

#[derive(Debug)]
struct Waiting {
    stamp: i64,
    number: u64,
    codec: Codec,
    len: usize,
    place: usize,
}

impl Waiting {
    const fn end(&self) -> i64 {
        self.stamp + self.len as i64
    }
}

impl PacketStore {
    pub(super) fn new(packets_max: usize) -> Self {
        let packets_max = packets_max.max(1);
        Self {
            packets: Vec::with_capacity(packets_max),
            slots: vec![0; packets_max * PAYLOAD_BYTES_MAX].into_boxed_slice(),
            free: (0..packets_max).collect(),
            newest: None,
        }
    }

    /// Extended timestamp: the one nearest to the newest.
    pub(super) fn extend(&mut self, timestamp: u32) -> i64 {
        let newest = self.newest.unwrap_or(1 << 32 | i64::from(timestamp));
        let stamp = newest + i64::from(timestamp.wrapping_sub(newest as u32) as i32);
        self.newest = Some(newest.max(stamp));
        stamp
    }

    /// Forgets the newest timestamp, because the next one is unrelated.
    pub(super) fn forget_stamps(&mut self) {
        self.newest = None;
    }

    pub(super) fn insert(&mut self, stamp: i64, packet: &SoundPacket<'_>, position: Option<i64>) -> Inserted {
        let len = packet.payload.len();
        if len == 0 || len > PAYLOAD_BYTES_MAX {
            return Inserted::TooLong;
        }
        if position.is_some_and(|position| stamp + len as i64 <= position) {
            return Inserted::Late;
        }
        if self.packets.iter().any(|waiting| waiting.number == packet.number) {
            return Inserted::Duplicate;
        }
        let mut result = Inserted::Stored;
        if self.free.is_empty() {
            let oldest =
                (0..self.packets.len()).min_by_key(|index| self.packets.get(*index).map(|w| w.stamp));
            self.forget(oldest.unwrap_or(0));
            result = Inserted::OldestDropped;
        }
        if let Some(place) = self.free.pop() {
            let start = place * PAYLOAD_BYTES_MAX;
            if let Some(room) = self.slots.get_mut(start..start + len) {
                room.copy_from_slice(packet.payload);
            }
            self.packets.push(Waiting { stamp, number: packet.number, codec: packet.codec, len, place });
        }
        result
    }

    /// Content at `position`.
    pub(super) fn head(&self, position: i64) -> Head {
        let mut next = i64::MAX;
        for (index, waiting) in self.packets.iter().enumerate() {
            if waiting.stamp <= position && position < waiting.end() {
                let offset = (position - waiting.stamp) as usize;
                return Head::Sound { index, offset, len: waiting.len - offset };
            }
            if waiting.stamp > position {
                next = next.min(waiting.stamp);
            }
        }
        if next == i64::MAX {
            return Head::Empty;
        }
        Head::Gap { samples: usize::try_from(next - position).unwrap_or(usize::MAX) }
    }

    /// Encoded samples `range` of a packet returned by [`PacketStore::head`].
    pub(super) fn coded(&self, index: usize, range: Range<usize>) -> (Codec, &[u8]) {
        let Some(waiting) = self.packets.get(index) else { return (Codec::Pcmu, &[]) };
        let start = waiting.place * PAYLOAD_BYTES_MAX;
        let coded = self.slots.get(start..start + waiting.len).and_then(|coded| coded.get(range));
        (waiting.codec, coded.unwrap_or_default())
    }

    /// Sequence number of such a packet.
    pub(super) fn number(&self, index: usize) -> u64 {
        self.packets.get(index).map_or(0, |waiting| waiting.number)
    }

    /// Removes the packets that end before `position`.
    pub(super) fn forget_before(&mut self, position: i64) {
        let mut index = 0;
        while let Some(waiting) = self.packets.get(index) {
            if waiting.end() <= position {
                self.forget(index);
            } else {
                index += 1;
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.free.extend(self.packets.drain(..).map(|waiting| waiting.place));
    }

    /// Timestamp of the oldest packet.
    pub(super) fn oldest(&self) -> Option<i64> {
        self.packets.iter().map(|waiting| waiting.stamp).min()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    fn forget(&mut self, index: usize) {
        if index < self.packets.len() {
            let waiting = self.packets.swap_remove(index);
            self.free.push(waiting.place);
        }
    }
}

/// Maximum length of a stored payload: 200 ms of G.711.
pub(super) const PAYLOAD_BYTES_MAX: usize = 1600;
