//! Nonce counts that were used.

use crate::NonceId;
use core::hash::{BuildHasherDefault, Hasher};
use core::time::Duration;
use hashbrown::HashMap;
use ringway_sansio::{Instant, TableSize};

/// Nonce counts that proved a password, so that none is accepted twice.
///
/// Two generations of nonces are kept. When the younger is full or half a nonce lifetime old, the older is dropped. A
/// nonce that is not found, and is older than the dropped ones may be, is stale: its counts may have been dropped. Memory
/// is therefore bounded and no replay is accepted; at worst a client is challenged once more.
#[derive(Debug)]
pub struct ReplayWindows {
    young: HashMap<NonceId, Window, InOrder>,
    old: HashMap<NonceId, Window, InOrder>,
    young_since: Instant,
    /// Nonces created up to this time are only accepted if they are found.
    forgotten_through: Instant,
    generation_life: Duration,
    nonces_max: usize,
    evicted: u64,
}

/// Result of using a nonce count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonceUse {
    /// Not used before.
    First,
    /// The last one again, by the same request from the same source, within the time of retransmissions.
    Repeated,
    /// Used before, or too far below the highest one to decide.
    Replayed,
    /// The nonce may have been dropped.
    Forgotten,
}

/// Highest count, the use of it and of the 63 counts below it, and the request that used the highest.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    highest: u32,
    seen: u64,
    request: u64,
    used_at: Instant,
}

impl ReplayWindows {
    /// Creates it empty. Nonces created before `now` are stale, because their counts are not known.
    pub fn new(nonces_max: usize, nonce_lifetime: Duration, now: Instant) -> Self {
        Self {
            young: HashMap::default(),
            old: HashMap::default(),
            young_since: now,
            forgotten_through: now - Duration::from_millis(1),
            generation_life: generation_life(nonce_lifetime),
            nonces_max: nonces_max / 2,
            evicted: 0,
        }
    }

    /// Memory of a table of this many nonces.
    pub const fn size(nonces_max: usize) -> TableSize {
        TableSize::of_filled_map("nonces in use", nonces_max / 2, size_of::<(NonceId, Window)>()).times(2)
    }

    /// Changes the lifetime of nonces. Counts that were dropped under a shorter one stay forgotten: their nonces are stale.
    pub fn set_lifetime(&mut self, nonce_lifetime: Duration) {
        self.generation_life = generation_life(nonce_lifetime);
    }

    /// Uses a count of a nonce that [`NonceMaker`](crate::NonceMaker) verified. `request` identifies the request and its
    /// source.
    pub fn use_count(&mut self, now: Instant, nonce: NonceId, count: u32, request: u64) -> NonceUse {
        if now.since(self.young_since) >= self.generation_life || self.young.len() >= self.nonces_max {
            self.turn(now);
        }
        if let Some(window) = self.young.get_mut(&nonce) {
            return window.take(now, count, request);
        }
        if let Some(window) = self.old.get_mut(&nonce) {
            return window.take(now, count, request);
        }
        if nonce.made_ms <= self.forgotten_through.as_millis() {
            return NonceUse::Forgotten;
        }
        let mut window = Window::default();
        let first = window.take(now, count, request);
        self.young.insert(nonce, window);
        first
    }

    /// Number of nonces in the table.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of nonces that were dropped early because there were too many.
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    fn turn(&mut self, now: Instant) {
        if now.since(self.young_since) < self.generation_life {
            self.evicted += self.old.len() as u64;
        }
        core::mem::swap(&mut self.young, &mut self.old);
        self.young.clear();
        // Nonces that are dropped now were used before the generation that becomes the older one began, or in the same
        // millisecond.
        self.forgotten_through = self.young_since.max(self.forgotten_through);
        self.young_since = now;
    }
}

fn generation_life(nonce_lifetime: Duration) -> Duration {
    nonce_lifetime / 2 + Duration::from_secs(1)
}

/// Hash that puts nonces in the order of their numbers. Clients use them in about the order in which they were made, so
/// that the next nonce is beside the last one in memory; at random positions each would miss the caches. Nobody can choose
/// the keys: they are numbers of ours, under a MAC.
type InOrder = BuildHasherDefault<OrderHasher>;

#[derive(Clone, Copy, Debug, Default)]
struct OrderHasher {
    position: u64,
    all: u64,
}

impl Hasher for OrderHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.all = self.all.wrapping_mul(MIX).wrapping_add(u64::from(byte));
        }
    }

    /// Time of creation.
    fn write_u64(&mut self, value: u64) {
        self.all ^= value;
    }

    /// Number in its shard.
    fn write_u32(&mut self, value: u32) {
        self.position = self.position.wrapping_add(u64::from(value));
        self.all ^= u64::from(value) << 32;
    }

    /// Shard. Each begins at a position of its own, because their numbers are about the same.
    fn write_u16(&mut self, value: u16) {
        self.position = self.position.wrapping_add(u64::from(value).wrapping_mul(MIX));
        self.all ^= u64::from(value);
    }

    /// The table compares the upper seven bits before it compares keys; the lower ones are the position.
    fn finish(&self) -> u64 {
        let tag = self.all.wrapping_mul(MIX);
        (tag & TAG_BITS) | (self.position & !TAG_BITS)
    }
}

/// Upper seven bits.
const TAG_BITS: u64 = 0x7f << 57;

/// 2^64 divided by the golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

impl Window {
    fn take(&mut self, now: Instant, count: u32, request: u64) -> NonceUse {
        if count == 0 {
            return NonceUse::Replayed;
        }
        if count == self.highest && request == self.request && now.since(self.used_at) <= RETRANSMISSIONS_LAST
        {
            return NonceUse::Repeated;
        }
        if count > self.highest {
            let ahead = count - self.highest;
            self.seen = if ahead >= 64 { 0 } else { self.seen << ahead };
            self.seen |= 1;
            self.highest = count;
            self.request = request;
            self.used_at = now;
            return NonceUse::First;
        }
        let behind = self.highest - count;
        if behind >= 64 || self.seen & (1 << behind) != 0 {
            return NonceUse::Replayed;
        }
        self.seen |= 1 << behind;
        NonceUse::First
    }
}

/// 64·T1 (RFC 3261 §17.1.2.2).
const RETRANSMISSIONS_LAST: Duration = Duration::from_secs(32);

#[cfg(test)]
mod tests {
    use super::*;

    fn nonce(made: Instant, counter: u32) -> NonceId {
        NonceId { made_ms: made.as_millis(), counter, shard: 0 }
    }

    #[test]
    fn a_count_is_accepted_once_in_any_order_within_the_window() {
        let start = Instant::from_secs(1000);
        let mut windows = ReplayWindows::new(100, Duration::from_secs(300), start);
        let nonce = nonce(start, 1);
        for (count, expected) in [
            (1, NonceUse::First),
            (1, NonceUse::Repeated),
            (3, NonceUse::First),
            (2, NonceUse::First),
            (2, NonceUse::Replayed),
            (100, NonceUse::First),
            (37, NonceUse::First),
            (36, NonceUse::Replayed),
            (0, NonceUse::Replayed),
            (u32::MAX, NonceUse::First),
            (100, NonceUse::Replayed),
        ] {
            assert_eq!(
                windows.use_count(start, nonce, count, u64::MAX - u64::from(count)),
                expected,
                "{count}"
            );
        }
    }

    #[test]
    fn a_longer_lifetime_brings_no_dropped_nonce_back() {
        let start = Instant::from_secs(1000);
        let mut windows = ReplayWindows::new(100, Duration::from_secs(10), start);
        let old = nonce(start, 1);
        assert_eq!(windows.use_count(start, old, 1, 7), NonceUse::First);
        // Two generations of 6 s later its counts are gone.
        for (after_s, counter) in [(7, 2), (14, 3)] {
            let now = start + Duration::from_secs(after_s);
            assert_eq!(windows.use_count(now, nonce(now, counter), 1, 8), NonceUse::First);
        }
        windows.set_lifetime(Duration::from_secs(3600));
        let now = start + Duration::from_secs(15);
        assert_eq!(windows.use_count(now, old, 1, 9), NonceUse::Forgotten);
        let young = nonce(now, 4);
        assert_eq!(windows.use_count(now, young, 1, 9), NonceUse::First);
        let later = now + Duration::from_secs(1700);
        assert_eq!(
            windows.use_count(later, young, 1, 10),
            NonceUse::Replayed,
            "it is kept for the new lifetime"
        );
    }

    #[test]
    fn a_retransmission_is_not_a_replay() {
        let start = Instant::from_secs(1000);
        let mut windows = ReplayWindows::new(100, Duration::from_secs(300), start);
        let nonce = nonce(start, 1);
        assert_eq!(windows.use_count(start, nonce, 1, 7), NonceUse::First);
        assert_eq!(windows.use_count(start + Duration::from_secs(32), nonce, 1, 7), NonceUse::Repeated);
        assert_eq!(windows.use_count(start, nonce, 1, 8), NonceUse::Replayed);
        assert_eq!(windows.use_count(start + Duration::from_secs(33), nonce, 1, 7), NonceUse::Replayed);
    }

    #[test]
    fn no_replay_is_accepted_after_nonces_are_dropped() {
        let start = Instant::from_secs(1000);
        let mut windows = ReplayWindows::new(20, Duration::from_secs(300), start);
        for number in 0..1000 {
            let now = start + Duration::from_millis(number);
            assert_eq!(windows.use_count(now, nonce(now, number as u32), 1, 1), NonceUse::First, "{number}");
            assert!(windows.len() <= 20);
            for earlier in 0..=number {
                let earlier_at = start + Duration::from_millis(earlier);
                let again = windows.use_count(now, nonce(earlier_at, earlier as u32), 1, 2);
                assert_ne!(again, NonceUse::First, "{earlier} at {number}");
            }
        }
        assert!(windows.evicted() > 0);
    }

    #[test]
    fn the_memory_of_a_full_table_is_the_published_one_at_most() {
        let start = Instant::from_secs(1000);
        let mut windows = ReplayWindows::new(10_000, Duration::from_secs(300), start);
        let taken = allocation_counter::measure(|| {
            for number in 0..50_000 {
                windows.use_count(start, nonce(start + Duration::from_millis(1), number), 1, 1);
            }
        });
        assert_eq!(windows.len(), 10_000);
        let (taken, size) = (taken.bytes_current as u64, ReplayWindows::size(10_000).bytes);
        assert!((size / 2..=size).contains(&taken), "{taken} of {size}");
    }

    #[test]
    fn a_nonce_from_before_a_restart_is_stale() {
        let start = Instant::from_secs(1000);
        let mut windows = ReplayWindows::new(20, Duration::from_secs(300), start);
        let before = nonce(start - Duration::from_secs(1), 1);
        assert_eq!(windows.use_count(start, before, 1, 1), NonceUse::Forgotten);
    }
}
