//! Ring of sending times: 20 slots of 1 ms, one packet interval in all.

use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::Instant;
use ringway_transaction::SlabKey;

/// Time between two packets of a stream.
pub(super) const PACKET_INTERVAL: Duration = Duration::from_millis(20);
/// Largest delay of a slot; packets of older ones are skipped.
pub(super) const BEHIND_MAX: Duration = Duration::from_millis(200);

const SLOTS: u64 = 20;
const SLOT: Duration = Duration::from_millis(1);

/// Streams by the millisecond of the packet interval in which they send.
#[derive(Debug)]
pub(super) struct Ring {
    slots: [Vec<SlabKey>; SLOTS as usize],
    origin: Instant,
    /// Number of the next slot since the origin.
    next: u64,
    /// Number of streams of the next slot that have sent.
    sent: usize,
}

/// Turn of one stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) key: SlabKey,
    /// Planned time.
    pub(super) due: Instant,
    /// Number of the packet interval since the origin.
    pub(super) lap: u64,
}

impl Ring {
    pub(super) fn new(origin: Instant) -> Self {
        Self { slots: Default::default(), origin, next: 0, sent: 0 }
    }

    /// Adds a stream to the slot with the fewest streams; among equals to the next one.
    pub(super) fn add(&mut self, now: Instant, key: SlabKey) {
        if self.slots.iter().all(Vec::is_empty) {
            self.next = now.since(self.origin).as_millis() as u64 + 1;
            self.sent = 0;
        }
        let first = self.next;
        let slots = (first..first + SLOTS).map(|number| (number % SLOTS) as usize);
        let least = slots.min_by_key(|&slot| self.slots.get(slot).map_or(0, Vec::len));
        if let Some(slot) = least.and_then(|slot| self.slots.get_mut(slot)) {
            slot.push(key);
        }
    }

    /// Time of the next slot with streams.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let has_streams =
            |number: &u64| self.slots.get((number % SLOTS) as usize).is_some_and(|s| !s.is_empty());
        (self.next..self.next + SLOTS).find(has_streams).map(|number| self.due_at(number))
    }

    /// Next stream whose packet is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Turn> {
        loop {
            let due = self.due_at(self.next);
            if due > now || self.slots.iter().all(Vec::is_empty) {
                return None;
            }
            let slot = self.slots.get((self.next % SLOTS) as usize)?;
            if let Some(&key) = slot.get(self.sent) {
                self.sent += 1;
                return Some(Turn { key, due, lap: self.next / SLOTS });
            }
            self.next += 1;
            self.sent = 0;
        }
    }

    /// Removes the stream that [`Ring::take_due`] has returned last.
    pub(super) fn remove_taken(&mut self) {
        let Some(slot) = self.slots.get_mut((self.next % SLOTS) as usize) else { return };
        if let Some(last) = self.sent.checked_sub(1).filter(|&last| last < slot.len()) {
            slot.swap_remove(last);
            self.sent = last;
        }
    }

    /// Passes over packet intervals that are more than [`BEHIND_MAX`] late; returns the number of packets that were due in
    /// them.
    pub(super) fn skip_late(&mut self, now: Instant) -> u64 {
        let late = now.since(self.due_at(self.next));
        if late <= BEHIND_MAX {
            return 0;
        }
        let laps = (late.as_nanos() / PACKET_INTERVAL.as_nanos()) as u64;
        self.next += laps * SLOTS;
        laps * self.slots.iter().map(|slot| slot.len() as u64).sum::<u64>()
    }

    fn due_at(&self, number: u64) -> Instant {
        self.origin + Duration::from_nanos(number.saturating_mul(SLOT.as_nanos() as u64))
    }
}
