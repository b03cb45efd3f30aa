//! Points in time. A protocol machine gets the current time as an argument and never reads a clock. A hierarchical timer
//! wheel: arming and cancelling a timer take constant time.
//!
//! Four levels of 256 slots; a tick is one millisecond, so the first level spans 256 ms and the last 49 days. A timer
//! lives in a slab and hangs in a doubly linked list by index; no timer is ever searched for. A bitmap of used
//! slots for each level makes the next deadline a matter of a few words.

use crate::TableSize;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in time: nanoseconds since the Unix epoch, on a clock that never runs backwards.
///
/// The driver sets the epoch once, at start, from the wall clock and then counts with a monotonic clock. So a stored
/// expiry is valid after a restart, and no timer jumps. Range: to the year 2554.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The furthest point in time; a timer set there never fires in practice.
    pub const FAR: Self = Self(u64::MAX);

    /// From nanoseconds since the Unix epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// From whole seconds since the Unix epoch; saturates.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the Unix epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the Unix epoch, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Whole seconds since the Unix epoch, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// The time passed since `earlier`, zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(nanos(rhs)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(rhs)))
    }
}

/// Time of the next call that a machine needs, and the reason as text for a log or a failing simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// Earliest time to call [`Node::on_timeout`](crate::Node::on_timeout).
    pub at: Instant,
    /// The event that is waited for.
    pub reason: &'static str,
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Key of an armed timer. After the timer has fired or was cancelled its key is invalid: a generation distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerKey {
    index: u32,
    generation: u32,
}

impl TimerKey {
    /// Key of no timer.
    pub const NONE: Self = Self { index: u32::MAX, generation: 0 };
}

/// Timers that each carry a `T` and fire no earlier than asked and, driven in time, less than 1 ms late.
///
/// ```
/// use core::time::Duration;
/// use ringway_sansio::{Instant, Wheel};
///
/// let now = Instant::from_secs(1);
/// let mut wheel = Wheel::new(now);
/// let key = wheel.arm(now + Duration::from_millis(500), "timer A");
/// wheel.arm(now + Duration::from_secs(32), "timer B");
/// assert_eq!(wheel.expire(now + Duration::from_millis(499)), None);
/// assert_eq!(wheel.expire(now + Duration::from_millis(500)), Some("timer A"));
/// assert_eq!(wheel.cancel(key), None);
/// ```
#[derive(Debug)]
pub struct Wheel<T> {
    entries: Vec<Entry<T>>,
    free: u32,
    len: usize,
    /// Heads of the lists: level × 256 + slot.
    heads: Box<[u32]>,
    used: [[u64; 4]; LEVELS],
    /// The tick up to which everything has fired.
    tick: u64,
    /// The generation of a new entry. It rises when the entries are given back, so that no key comes twice.
    first: u32,
    /// No timer is due before this tick. Cancelling leaves it, so it can be too early.
    earliest: u64,
}

#[derive(Debug)]
struct Entry<T> {
    due: u64,
    next: u32,
    previous: u32,
    generation: u32,
    /// Level × 256 + slot of the list it hangs in.
    slot: u16,
    value: Option<T>,
}

impl<T> Wheel<T> {
    /// An empty wheel whose time starts at `now`.
    pub fn new(now: Instant) -> Self {
        Self {
            entries: Vec::new(),
            free: NIL,
            len: 0,
            heads: vec![NIL; LEVELS * SLOTS].into_boxed_slice(),
            used: [[0; 4]; LEVELS],
            tick: now.as_millis(),
            first: 0,
            earliest: u64::MAX,
        }
    }

    /// Memory of a wheel of so many timers.
    pub const fn bytes_of(timers: usize) -> u64 {
        TableSize::list_bytes(timers, size_of::<Entry<T>>()) + (LEVELS * SLOTS * size_of::<u32>()) as u64
    }

    /// Number of armed timers.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when no timer is armed.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Arms a timer. A time that has passed fires at the next [`Wheel::expire`].
    pub fn arm(&mut self, at: Instant, value: T) -> TimerKey {
        let due = at.as_nanos().div_ceil(NANOS_PER_TICK).max(self.tick + 1);
        let index = self.take_free(due, value);
        self.earliest = self.earliest.min(due);
        self.link(index);
        self.len += 1;
        let generation = self.entries.get(index as usize).map_or(0, |entry| entry.generation);
        TimerKey { index, generation }
    }

    /// Cancels a timer and returns its value; `None` if it has fired or was cancelled.
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        let entry = self.entries.get_mut(key.index as usize)?;
        if entry.generation != key.generation {
            return None;
        }
        let value = entry.value.take()?;
        self.unlink(key.index);
        self.release(key.index);
        Some(value)
    }

    /// Fires one timer that is due at `now` and returns its value; call it until it returns `None`. Values come in the
    /// order of their milliseconds.
    pub fn expire(&mut self, now: Instant) -> Option<T> {
        let target = now.as_millis();
        if target < self.earliest {
            return None;
        }
        loop {
            let slot = (self.tick % SLOTS as u64) as usize;
            let head = self.heads.get(slot).copied().unwrap_or(NIL);
            if head != NIL {
                let value = self.entries.get_mut(head as usize).and_then(|entry| entry.value.take());
                self.unlink(head);
                self.release(head);
                if value.is_some() {
                    return value;
                }
                continue;
            }
            if self.tick >= target {
                self.earliest = self.next_tick().unwrap_or(u64::MAX);
                return None;
            }
            self.advance(target);
        }
    }

    /// The earliest time at which something may be due. It can be early (that timer was cancelled, or a coarse slot opens
    /// then), never late.
    pub fn next_due(&self) -> Option<Instant> {
        (self.len > 0).then(|| Instant::from_nanos(self.earliest.saturating_mul(NANOS_PER_TICK)))
    }

    fn next_tick(&self) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        (0..LEVELS).filter_map(|level| self.next_tick_of(level)).min()
    }

    /// Moves time on to the next tick at which a slot is used, at most to `target`, and opens the coarser slots that
    /// begin there.
    fn advance(&mut self, target: u64) {
        let next = match self.next_tick() {
            Some(tick) => tick.clamp(self.tick + 1, target),
            None => target,
        };
        self.tick = next;
        for level in 1..LEVELS {
            let width = 1_u64 << (level * BITS);
            if next % width != 0 {
                break;
            }
            let slot = ((next >> (level * BITS)) % SLOTS as u64) as usize;
            self.cascade(level * SLOTS + slot);
        }
    }

    fn cascade(&mut self, list: usize) {
        let mut index = self.heads.get(list).copied().unwrap_or(NIL);
        if let Some(head) = self.heads.get_mut(list) {
            *head = NIL;
        }
        self.mark(list, false);
        while index != NIL {
            let next = self.entries.get(index as usize).map_or(NIL, |entry| entry.next);
            self.link(index);
            index = next;
        }
    }

    /// The first tick after `self.tick` at which a list of `level` begins to matter.
    fn next_tick_of(&self, level: usize) -> Option<u64> {
        let shift = level * BITS;
        let position = self.tick >> shift;
        let here = (position % SLOTS as u64) as usize;
        // The current slot of a coarse level was opened when its time began; on the first level it may still hold
        // timers that are due now.
        let from = if level == 0 { 0 } else { 1 };
        let words = self.used.get(level)?;
        let mut ahead = from;
        while ahead < SLOTS + from {
            let slot = (here + ahead) % SLOTS;
            let rest = words.get(slot / 64).copied().unwrap_or(0) >> (slot % 64);
            if rest == 0 {
                ahead += 64 - slot % 64;
                continue;
            }
            ahead += rest.trailing_zeros() as usize;
            if ahead < SLOTS + from {
                return Some((position + ahead as u64) << shift);
            }
        }
        None
    }

    fn take_free(&mut self, due: u64, value: T) -> u32 {
        self.free_entry(due).map_or_else(
            || NIL,
            |index| {
                if let Some(entry) = self.entries.get_mut(index as usize) {
                    entry.value = Some(value);
                }
                index
            },
        )
    }

    fn free_entry(&mut self, due: u64) -> Option<u32> {
        if self.free == NIL {
            let index = u32::try_from(self.entries.len()).ok().filter(|&index| index != NIL)?;
            self.entries.push(Entry {
                due,
                next: NIL,
                previous: NIL,
                generation: self.first,
                slot: 0,
                value: None,
            });
            return Some(index);
        }
        let index = self.free;
        let entry = self.entries.get_mut(index as usize)?;
        self.free = entry.next;
        entry.due = due;
        Some(index)
    }

    fn release(&mut self, index: u32) {
        if let Some(entry) = self.entries.get_mut(index as usize) {
            entry.generation = entry.generation.wrapping_add(1);
            entry.next = self.free;
            entry.value = None;
            self.free = index;
            self.len -= 1;
        }
        if self.len == 0 && self.entries.len() > KEPT_ENTRIES_MAX {
            self.first = self.entries.iter().map(|entry| entry.generation).max().unwrap_or(self.first);
            self.entries = Vec::new();
            self.free = NIL;
        }
    }

    fn link(&mut self, index: u32) {
        let Some(due) = self.entries.get(index as usize).map(|entry| entry.due) else { return };
        let list = self.list_for(due);
        let head = self.heads.get(list).copied().unwrap_or(NIL);
        if let Some(entry) = self.entries.get_mut(index as usize) {
            entry.slot = list as u16;
            entry.previous = NIL;
            entry.next = head;
        }
        if let Some(entry) = self.entries.get_mut(head as usize) {
            entry.previous = index;
        }
        if let Some(head) = self.heads.get_mut(list) {
            *head = index;
        }
        self.mark(list, true);
    }

    fn unlink(&mut self, index: u32) {
        let Some(entry) = self.entries.get(index as usize) else { return };
        let (next, previous, list) = (entry.next, entry.previous, usize::from(entry.slot));
        if let Some(entry) = self.entries.get_mut(next as usize) {
            entry.previous = previous;
        }
        match self.entries.get_mut(previous as usize) {
            Some(entry) => entry.next = next,
            None => {
                if let Some(head) = self.heads.get_mut(list) {
                    *head = next;
                }
                if next == NIL {
                    self.mark(list, false);
                }
            }
        }
    }

    /// Level and slot for a due tick, relative to the current tick. A timer beyond the last level is put into its last
    /// slot and is sorted again when that slot opens.
    fn list_for(&self, due: u64) -> usize {
        let due = due.max(self.tick);
        let mut distance = due - self.tick;
        let mut level = 0;
        while distance >= SLOTS as u64 && level < LEVELS - 1 {
            distance >>= BITS;
            level += 1;
        }
        if distance >= SLOTS as u64 {
            let last = ((self.tick >> (level * BITS)) + SLOTS as u64 - 1) % SLOTS as u64;
            return level * SLOTS + last as usize;
        }
        level * SLOTS + ((due >> (level * BITS)) % SLOTS as u64) as usize
    }

    fn mark(&mut self, list: usize, set: bool) {
        let (level, slot) = (list / SLOTS, list % SLOTS);
        if let Some(word) = self.used.get_mut(level).and_then(|words| words.get_mut(slot / 64)) {
            let bit = 1_u64 << (slot % 64);
            if set { *word |= bit } else { *word &= !bit }
        }
    }
}

/// Entries that an empty wheel keeps.
const KEPT_ENTRIES_MAX: usize = 4096;
const NANOS_PER_TICK: u64 = 1_000_000;
const BITS: usize = 8;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = 4;
const NIL: u32 = u32::MAX;

#[cfg(test)]
#[path = "time_tests.rs"]
mod tests;
