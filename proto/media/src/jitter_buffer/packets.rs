//! The packets a jitter buffer holds: in no order, in memory taken once.

use super::SoundPacket;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use ringway_sdp::Codec;

/// What was done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It waits.
    Yes,
    /// Its moment has passed.
    Late,
    /// It waits already.
    Duplicate,
    /// It waits, and the oldest one does no longer: there was no room.
    InPlaceOfOldest,
    /// It is longer than a packet's payload may be, or has no sound in it.
    TooLong,
}

/// What is at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// This packet, from this sample on, for this many.
    Sound { index: usize, offset: usize, len: usize },
    /// Nothing, for this many samples at least.
    Gap { samples: usize },
}

#[derive(Debug)]
pub(super) struct PacketStore {
    packets: Vec<Waiting>,
    /// A place of [`PAYLOAD_BYTES_MAX`] for each packet.
    places: Box<[u8]>,
    /// Places whose packet was heard.
    free: Vec<usize>,
    /// The newest stamp, for counting on over the wraps.
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
            places: vec![0; packets_max * PAYLOAD_BYTES_MAX].into_boxed_slice(),
            free: (0..packets_max).collect(),
            newest: None,
        }
    }

    /// The stamp counted on over the wraps, by the one that is nearest to the newest.
    pub(super) fn extend(&mut self, timestamp: u32) -> i64 {
        let newest = self.newest.unwrap_or(1 << 32 | i64::from(timestamp));
        let stamp = newest + i64::from(timestamp.wrapping_sub(newest as u32) as i32);
        self.newest = Some(newest.max(stamp));
        stamp
    }

    /// The next stamp has nothing to do with those before.
    pub(super) fn forget_stamps(&mut self) {
        self.newest = None;
    }

    pub(super) fn insert(&mut self, stamp: i64, packet: &SoundPacket<'_>, position: Option<i64>) -> Kept {
        let len = packet.payload.len();
        if len == 0 || len > PAYLOAD_BYTES_MAX {
            return Kept::TooLong;
        }
        if position.is_some_and(|position| stamp + len as i64 <= position) {
            return Kept::Late;
        }
        if self.packets.iter().any(|waiting| waiting.number == packet.number) {
            return Kept::Duplicate;
        }
        let mut kept = Kept::Yes;
        if self.free.is_empty() {
            let oldest =
                (0..self.packets.len()).min_by_key(|index| self.packets.get(*index).map(|w| w.stamp));
            self.forget(oldest.unwrap_or(0));
            kept = Kept::InPlaceOfOldest;
        }
        if let Some(place) = self.free.pop() {
            let start = place * PAYLOAD_BYTES_MAX;
            if let Some(room) = self.places.get_mut(start..start + len) {
                room.copy_from_slice(packet.payload);
            }
            self.packets.push(Waiting { stamp, number: packet.number, codec: packet.codec, len, place });
        }
        kept
    }

    /// What is to be heard at `position`.
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
        Head::Gap { samples: usize::try_from(next - position).unwrap_or(usize::MAX) }
    }

    /// The coded samples `range` of a packet that [`PacketStore::head`] named.
    pub(super) fn coded(&self, index: usize, range: Range<usize>) -> (Codec, &[u8]) {
        let Some(waiting) = self.packets.get(index) else { return (Codec::Pcmu, &[]) };
        let start = waiting.place * PAYLOAD_BYTES_MAX;
        let coded = self.places.get(start..start + waiting.len).and_then(|coded| coded.get(range));
        (waiting.codec, coded.unwrap_or_default())
    }

    /// The number of such a packet.
    pub(super) fn number(&self, index: usize) -> u64 {
        self.packets.get(index).map_or(0, |waiting| waiting.number)
    }

    /// Packets that end before `position` were heard, or never will be.
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

/// The longest payload that is kept: 200 ms of G.711.
pub(super) const PAYLOAD_BYTES_MAX: usize = 1600;
