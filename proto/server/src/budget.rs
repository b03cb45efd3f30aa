//! Memory limits of pending requests.

use alloc::sync::Arc;
use core::net::IpAddr;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use ringway_auth::SeededHash;
use ringway_sansio::{MemoryBound, Seed, source_of};

/// Limits of the bytes of all pending requests, and of those of each source (an IPv6 /64 network counts as one).
///
/// Several budgets can share the limit of all ([`MemoryBudget::of`]); each source belongs to one of them.
#[derive(Debug)]
pub struct MemoryBudget {
    all: Arc<MemoryBound>,
    /// Sources with pending requests. Peers choose the keys: a seeded hash.
    sources: HashMap<IpAddr, Kept, SeededHash>,
}

/// Reserved memory of one source.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    bytes: usize,
    requests: usize,
}

impl MemoryBudget {
    /// Maximum bytes of a source without a password.
    pub const STRANGER_BYTES_MAX: usize = 8 << 20;
    /// Maximum pending requests of a source without a password.
    pub const STRANGER_REQUESTS_MAX: usize = 4000;
    /// Any other source may have 1 / `SOURCE_SHARE` of all bytes.
    pub const SOURCE_SHARE: usize = 4;
    /// 1 / `RESERVED_SHARE` of all bytes is reserved for sources with a password.
    pub const RESERVED_SHARE: usize = 4;

    /// Creates a budget of `max` bytes.
    pub fn new(max: usize, seed: &Seed) -> Self {
        Self::of(Arc::new(MemoryBound::new(max)), seed)
    }

    /// Creates a budget that shares the bytes of `all`.
    pub fn of(all: Arc<MemoryBound>, seed: &Seed) -> Self {
        Self { all, sources: HashMap::with_hasher(SeededHash::new(seed)) }
    }

    /// Reserves `bytes` for a request from `source`; false if the limit of the source or of all is reached.
    pub fn reserve(&mut self, source: IpAddr, bytes: usize, is_stranger: bool) -> bool {
        self.take(source, bytes, 1, is_stranger)
    }

    /// Reserves `bytes` more for a request that has some; false as [`MemoryBudget::reserve`].
    pub fn reserve_more(&mut self, source: IpAddr, bytes: usize, is_stranger: bool) -> bool {
        self.take(source, bytes, 0, is_stranger)
    }

    fn take(&mut self, source: IpAddr, bytes: usize, requests: usize, is_stranger: bool) -> bool {
        let share = self.all.max() / Self::SOURCE_SHARE;
        let (bytes_max, requests_max) = match is_stranger {
            true => (share.min(Self::STRANGER_BYTES_MAX), Self::STRANGER_REQUESTS_MAX),
            false => (share, usize::MAX),
        };
        let source = source_of(source);
        let entry = self.sources.entry(source);
        let kept = match &entry {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(_) => Kept::default(),
        };
        if kept.bytes.saturating_add(bytes) > bytes_max || kept.requests + requests > requests_max {
            return false;
        }
        let rest = if is_stranger { self.all.max() / Self::RESERVED_SHARE } else { 0 };
        if !self.all.take_and_leave(bytes, rest) {
            return false;
        }
        entry.insert(Kept { bytes: kept.bytes + bytes, requests: kept.requests + requests });
        true
    }

    /// Releases a part of the bytes of an answered request.
    pub fn shrink(&mut self, source: IpAddr, bytes: usize) {
        if let Some(kept) = self.sources.get_mut(&source_of(source)) {
            let given = bytes.min(kept.bytes);
            kept.bytes -= given;
            self.all.give(given);
        }
    }

    /// Releases the bytes of a request at its end.
    pub fn release(&mut self, source: IpAddr, bytes: usize) {
        let source = source_of(source);
        let Entry::Occupied(mut entry) = self.sources.entry(source) else { return };
        let kept = entry.get_mut();
        let given = bytes.min(kept.bytes);
        kept.bytes -= given;
        kept.requests = kept.requests.saturating_sub(1);
        if kept.requests == 0 {
            entry.remove();
            if self.sources.is_empty() {
                self.sources.shrink_to_fit();
            }
        }
        self.all.give(given);
    }

    /// True if no source has a pending request.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Bytes in use by all that share the limit.
    pub fn used(&self) -> usize {
        self.all.used()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    #[test]
    fn strangers_have_eight_mebibytes_and_four_thousand_requests_each() {
        let mut budget = MemoryBudget::new(1 << 30, &Seed::from_number(1));
        assert!(budget.reserve(ip(1), 8 << 20, true) && !budget.reserve(ip(1), 1, true));
        assert!(budget.reserve(ip(1), 1 << 20, false), "the same address with a password");
        assert_eq!((0..9000).filter(|_| budget.reserve(ip(2), 1, true)).count(), 4000);
        budget.release(ip(2), 1);
        assert!(budget.reserve(ip(2), 1, true));
    }

    #[test]
    fn strangers_together_leave_a_quarter_to_others() {
        let mut budget = MemoryBudget::new(64 << 20, &Seed::from_number(1));
        let taken = (0..20).filter(|&source| budget.reserve(ip(source), 8 << 20, true)).count();
        assert_eq!((taken, budget.used()), (6, 48 << 20));
        assert!(!budget.reserve(ip(30), 1, true));
        assert!(budget.reserve(ip(30), 8 << 20, false) && budget.reserve(ip(31), 8 << 20, false));
        assert!(!budget.reserve(ip(32), 1, false));
    }

    #[test]
    fn all_together_have_the_limit_and_everything_is_released() {
        let all = Arc::new(MemoryBound::new(1000));
        let mut one = MemoryBudget::of(Arc::clone(&all), &Seed::from_number(1));
        let mut other = MemoryBudget::of(all, &Seed::from_number(2));
        for source in 0..4 {
            let budget = if source % 2 == 0 { &mut one } else { &mut other };
            assert!(budget.reserve(ip(source), 250, false), "a quarter for each");
        }
        assert!(!one.reserve(ip(9), 1, false) && !other.reserve(ip(8), 1, true));
        for source in 0..4 {
            let budget = if source % 2 == 0 { &mut one } else { &mut other };
            budget.release(ip(source), 250);
        }
        assert_eq!((one.used(), one.sources.len(), other.sources.len()), (0, 0, 0));
    }

    #[test]
    fn an_ipv6_network_is_one_source() {
        let mut budget = MemoryBudget::new(1000, &Seed::from_number(1));
        assert!(budget.reserve("2001:db8::1".parse().unwrap(), 250, false));
        assert!(!budget.reserve("2001:db8::2".parse().unwrap(), 1, false));
    }
}
