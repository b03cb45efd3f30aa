//! Updates that wait to be written: the newest one of each address-of-record, in the order of the oldest one that it
//! replaced; and updates that are not in the store though their numbers are settled.

use crate::scripts::{self, AOR_BYTES_MAX};
use hashbrown::HashTable;
use ringway_location::{BYTES_MAX, Update};
use std::collections::{HashSet, VecDeque};
use std::mem;
use std::time::Instant;

/// Updates that wait.
#[derive(Default)]
pub(crate) struct Pending {
    slots: Vec<Slot>,
    free: Vec<usize>,
    index: HashTable<usize>,
    order: VecDeque<usize>,
    pub(crate) bytes: usize,
    pub(crate) counts: Counts,
    /// Number of the last update.
    pub(crate) last: u64,
    /// True while the writer waits for a first update.
    pub(crate) is_idle: bool,
    /// True after a drop, until all bindings are to be appended again.
    pub(crate) has_loss: bool,
    pub(crate) is_stopped: bool,
    /// True if answers wait for updates: numbers of refused ones are kept.
    is_strict: bool,
    pub(crate) refused: Refused,
}

/// Counters of [`Pending`].
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) replaced: u64,
    pub(crate) dropped: u64,
    pub(crate) refused: u64,
}

/// An update that waits or is being written. Its buffers are used again.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) hash: u64,
    pub(crate) aor: Vec<u8>,
    pub(crate) update: Vec<u8>,
    /// Time of the update, and of the first one that it replaced.
    pub(crate) at: Option<Instant>,
    pub(crate) since: Option<Instant>,
    /// Number of the first update that it replaced.
    first: u64,
    /// Its number and those that it replaced, if answers wait for them; [`NUMBERS_MAX`] at most.
    pub(crate) numbers: Vec<u64>,
    /// True if it removes bindings: nothing repeats that.
    is_change: bool,
    /// True if the store has it.
    pub(crate) is_done: bool,
}

/// Result of an append, with a step that must follow it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) number: u64,
    pub(crate) is_wake_due: bool,
}

impl Pending {
    pub(crate) fn new(is_strict: bool) -> Self {
        Self { is_strict, ..Self::default() }
    }

    /// Appends an update, with its [`scripts::hash`], at `now`.
    pub(crate) fn append(&mut self, (hash, aor): (u64, &[u8]), update: &[u8], now: Instant) -> Appended {
        self.last += 1;
        let mut appended = Appended { number: self.last, ..Appended::default() };
        let Some(is_change) = read(aor, update) else {
            self.counts.refused += 1;
            if self.is_strict {
                self.refused.add(&[self.last]);
            }
            return appended;
        };
        let known = self.index.find(hash, |slot| self.slots.get(*slot).is_some_and(|slot| slot.aor == aor));
        match known.copied() {
            Some(slot) => self.replace(slot, update, is_change, now),
            None => self.add((hash, aor), update, is_change, now),
        }
        while self.order.len() > RECORDS_MAX || self.bytes > WAITING_BYTES_MAX {
            self.has_loss = true;
            if !self.drop_one() {
                break;
            }
        }
        appended.is_wake_due = mem::take(&mut self.is_idle);
        appended
    }

    fn replace(&mut self, slot: usize, update: &[u8], is_change: bool, now: Instant) {
        let Some(slot) = self.slots.get_mut(slot) else { return };
        self.counts.replaced += 1;
        self.bytes -= slot.update.len();
        if slot.is_change {
            let mut newer = update.to_vec();
            Update::set_number(&mut newer, self.last);
            // Both were read when they were appended.
            let _ = Update::merge_removals(&mut newer, &slot.update, waited_ms(slot.at, now));
            slot.update = newer;
        } else {
            slot.update.clear();
            slot.update.extend_from_slice(update);
            Update::set_number(&mut slot.update, self.last);
        }
        slot.is_change |= is_change;
        slot.at = Some(now);
        if self.is_strict {
            if slot.numbers.len() >= NUMBERS_MAX {
                slot.numbers.remove(0);
            }
            slot.numbers.push(self.last);
        }
        self.bytes += slot.update.len();
    }

    fn add(&mut self, (hash, aor): (u64, &[u8]), update: &[u8], is_change: bool, now: Instant) {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        let Some(slot) = self.slots.get_mut(at) else { return };
        refill(&mut slot.aor, aor);
        refill(&mut slot.update, update);
        Update::set_number(&mut slot.update, self.last);
        (slot.hash, slot.first, slot.is_change, slot.is_done) = (hash, self.last, is_change, false);
        (slot.at, slot.since) = (Some(now), Some(now));
        slot.numbers.clear();
        slot.numbers.extend(self.is_strict.then_some(self.last));
        self.bytes += aor.len() + update.len();
        self.order.push_back(at);
        let slots = &self.slots;
        self.index.insert_unique(hash, at, |at| slots.get(*at).map_or(0, |slot| slot.hash));
    }

    /// Drops the oldest refresh, or the oldest update if none is near.
    fn drop_one(&mut self) -> bool {
        let is_refresh = |at: &usize| self.slots.get(*at).is_some_and(|slot| !slot.is_change);
        let oldest = self.order.iter().take(DROP_SEARCH_MAX).position(is_refresh).unwrap_or(0);
        let Some(at) = self.order.remove(oldest) else { return false };
        self.counts.dropped += 1;
        if let Some(slot) = self.slots.get(at) {
            self.refused.add(&slot.numbers);
        }
        self.release(at);
        true
    }

    /// Moves the oldest updates to `batch` until it has `max`; `pool` has emptied slots.
    pub(crate) fn take(&mut self, max: usize, batch: &mut Vec<Slot>, pool: &mut Vec<Slot>) {
        while batch.len() < max {
            let Some(at) = self.order.pop_front() else { break };
            self.release(at);
            if let Some(slot) = self.slots.get_mut(at) {
                batch.push(mem::replace(slot, pool.pop().unwrap_or_default()));
            }
        }
        if self.order.is_empty() && self.slots.len() > SLOTS_KEPT {
            (self.slots, self.free) = (Vec::new(), Vec::new());
            self.index = HashTable::new();
        }
    }

    fn release(&mut self, at: usize) {
        let Some(slot) = self.slots.get(at) else { return };
        self.bytes -= slot.aor.len() + slot.update.len();
        if let Ok(entry) = self.index.find_entry(slot.hash, |known| *known == at) {
            entry.remove();
        }
        self.free.push(at);
    }

    /// Number of updates that wait.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Number up to which nothing waits.
    pub(crate) fn settled(&self) -> u64 {
        self.order.front().and_then(|at| self.slots.get(*at)).map_or(self.last, |slot| slot.first - 1)
    }

    /// Time of the oldest update that waits.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.order.front().and_then(|at| self.slots.get(*at)).and_then(|slot| slot.since)
    }
}

/// Replaces the content of a buffer, which gives back memory that it does not need.
fn refill(buffer: &mut Vec<u8>, bytes: &[u8]) {
    buffer.clear();
    buffer.shrink_to(2 * bytes.len() + BUFFER_BYTES_MIN);
    buffer.extend_from_slice(bytes);
}

/// Milliseconds between two times.
pub(crate) fn waited_ms(at: Option<Instant>, now: Instant) -> u32 {
    let waited = at.map_or(0, |at| now.saturating_duration_since(at).as_millis());
    u32::try_from(waited).unwrap_or(u32::MAX)
}

/// Checks an update. True: it removes bindings.
fn read(aor: &[u8], update: &[u8]) -> Option<bool> {
    if aor.is_empty() || aor.len() > AOR_BYTES_MAX || update.len() > BYTES_MAX {
        return None;
    }
    let update = Update::read(update).ok()?;
    let removes = update.clear_age_ms.is_some() || update.removals().next().is_some();
    Some(removes || update.entries().next().is_none())
}

/// Maximum number of updates that wait.
const RECORDS_MAX: usize = 200_000;
/// Maximum number of bytes of updates that wait.
pub const WAITING_BYTES_MAX: usize = 64 << 20;
/// Bytes of memory of them: buffers that are used again have up to twice the bytes.
pub const MEMORY_BYTES_MAX: usize = 2 * WAITING_BYTES_MAX
    + RECORDS_MAX.next_power_of_two() * (size_of::<Slot>() + 4 * size_of::<usize>() + 2 * BUFFER_BYTES_MIN);
/// Bytes that a buffer may have beyond twice its content.
const BUFFER_BYTES_MIN: usize = 64;
/// Maximum number of updates of a user, within the time of a batch, whose answers become refusals if the store refuses the last of them.
const NUMBERS_MAX: usize = 16;
/// Number of the oldest updates among which a refresh is looked for when one must be dropped.
const DROP_SEARCH_MAX: usize = 64;
/// Slots that are kept when nothing waits.
const SLOTS_KEPT: usize = 4_096;

/// The hash and the address-of-record.
pub(crate) fn hashed(aor: &[u8]) -> (u64, &[u8]) {
    (scripts::hash(aor), aor)
}

/// Numbers of the last updates that the store refused, or that were dropped.
#[derive(Default)]
pub(crate) struct Refused {
    order: VecDeque<u64>,
    numbers: HashSet<u64>,
}

impl Refused {
    /// Adds numbers; beyond [`REFUSED_MAX`] the oldest are forgotten.
    pub(crate) fn add(&mut self, numbers: &[u64]) {
        for number in numbers {
            if self.numbers.insert(*number) {
                self.order.push_back(*number);
            }
        }
        while self.order.len() > REFUSED_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.numbers.remove(&oldest);
            }
        }
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.numbers.contains(&number)
    }
}

/// Maximum number of refused updates that are remembered, about 20 bytes each. An answer is held for 32 s at most.
const REFUSED_MAX: usize = 65_536;

#[cfg(test)]
#[path = "pending_tests.rs"]
mod tests;
