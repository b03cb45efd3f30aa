//! Calls to trunks that have a limit: those under way, and those of the present second.

use crate::config::TrunkLimits;
use core::hash::BuildHasher;
use core::time::Duration;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::{Instant, Seed};
use smallvec::SmallVec;

/// Calls of all trunks, shared by all shards in [`SharedTables`](crate::SharedTables). A trunk is its name, so that a reload keeps its calls.
///
/// There are no more of them than the limits of all trunks permit.
#[derive(Debug)]
pub(crate) struct TrunkCalls {
    /// By the hash of Call-ID and caller's tag, which a caller may use for several calls.
    calls: HashMap<u64, Calls, SeededHash>,
    trunks: HashMap<u64, Count, SeededHash>,
    /// Time of the last search for calls that have ended without a BYE.
    swept: Instant,
}

/// Call that was counted: its trunk, and its own hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CountedCall {
    trunk: u64,
    call: u64,
}

/// Calls with the same Call-ID and caller's tag.
#[derive(Debug)]
struct Calls {
    until: Instant,
    list: SmallVec<[Call; 1]>,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    trunk: u64,
    /// Hash of the callee's tag once it is answered: a BYE with another tag ends nothing.
    callee: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    under_way: u32,
    second: u64,
    in_second: u32,
}

impl TrunkCalls {
    /// Creates it without calls.
    pub(crate) fn new(seed: &Seed) -> Self {
        let hash = SeededHash::new(seed);
        Self {
            calls: HashMap::with_hasher(hash),
            trunks: HashMap::with_hasher(hash),
            swept: Instant::default(),
        }
    }

    /// Counts a call to a trunk until `until` at most; `None`: it would be one too many.
    pub(crate) fn begin(
        &mut self,
        (now, until): (Instant, Instant),
        (trunk, limits): (&str, &TrunkLimits),
        call: u64,
    ) -> Option<CountedCall> {
        let trunk = self.calls.hasher().hash_one(trunk);
        let has_room = |count: &Count| limits.under_way.is_none_or(|most| count.under_way < most);
        if !self.trunks.get(&trunk).is_none_or(has_room) && now.since(self.swept) >= SWEEP_INTERVAL {
            self.sweep(now);
        }
        let count = self.trunks.entry(trunk).or_default();
        let second = now.as_secs();
        if count.second != second {
            (count.second, count.in_second) = (second, 0);
        }
        if !has_room(count) || limits.per_second.is_some_and(|most| count.in_second >= most) {
            return None;
        }
        count.in_second += 1;
        if limits.under_way.is_some() {
            count.under_way += 1;
            let calls = self.calls.entry(call).or_insert_with(|| Calls { until, list: SmallVec::new() });
            calls.until = calls.until.max(until);
            calls.list.push(Call { trunk, callee: None });
        }
        Some(CountedCall { trunk, call })
    }

    /// True if a trunk can take no further call at present.
    pub(crate) fn is_full(&mut self, now: Instant, (trunk, limits): (&str, &TrunkLimits)) -> bool {
        let Some(count) = self.trunks.get(&self.calls.hasher().hash_one(trunk)).copied() else {
            return false;
        };
        let is_second_full = |most| count.second == now.as_secs() && count.in_second >= most;
        if limits.under_way.is_some_and(|most| count.under_way >= most)
            && now.since(self.swept) >= SWEEP_INTERVAL
        {
            self.sweep(now);
        }
        limits.under_way.is_some_and(|most| self.len_of(trunk) >= most)
            || limits.per_second.is_some_and(is_second_full)
    }

    /// Notes that a call was answered by the callee with this hash: its BYE ends it.
    pub(crate) fn answered(&mut self, call: CountedCall, callee: u64) {
        let calls = self.calls.get_mut(&call.call);
        let mut list = calls.into_iter().flat_map(|calls| calls.list.iter_mut());
        if let Some(of) = list.find(|of| of.trunk == call.trunk && of.callee.is_none()) {
            of.callee = Some(callee);
        }
    }

    /// Ends a call that was not answered.
    pub(crate) fn end(&mut self, call: CountedCall) {
        self.end_where(call.call, |of| of.trunk == call.trunk && of.callee.is_none());
    }

    /// Ends the answered call with these hashes.
    pub(crate) fn end_answered(&mut self, call: u64, callee: u64) {
        self.end_where(call, |of| of.callee == Some(callee));
    }

    /// Number of calls to a trunk that are under way.
    pub(crate) fn len_of(&self, trunk: &str) -> u32 {
        self.trunks.get(&self.calls.hasher().hash_one(trunk)).map_or(0, |count| count.under_way)
    }

    fn end_where(&mut self, call: u64, is_it: impl FnMut(&Call) -> bool) {
        let Some(calls) = self.calls.get_mut(&call) else { return };
        let Some(at) = calls.list.iter().position(is_it) else { return };
        let trunk = calls.list.swap_remove(at).trunk;
        if calls.list.is_empty() {
            self.calls.remove(&call);
        }
        Self::release(&mut self.trunks, trunk);
    }

    fn sweep(&mut self, now: Instant) {
        self.swept = now;
        let Self { calls, trunks, .. } = self;
        calls.retain(|_, calls| {
            let is_live = calls.until > now;
            if !is_live {
                calls.list.iter().for_each(|call| Self::release(trunks, call.trunk));
            }
            is_live
        });
        trunks.retain(|_, count| count.under_way > 0 || count.second + 1 >= now.as_secs());
    }

    fn release(trunks: &mut HashMap<u64, Count, SeededHash>, trunk: u64) {
        if let Some(count) = trunks.get_mut(&trunk) {
            count.under_way = count.under_way.saturating_sub(1);
        }
    }
}

const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const T: u64 = 1_800_000_000;

    fn table() -> TrunkCalls {
        TrunkCalls::new(&Seed::from_number(1))
    }

    fn at(second: u64) -> (Instant, Instant) {
        (Instant::from_secs(T + second), Instant::from_secs(T + second + 100))
    }

    #[test]
    fn calls_under_way_are_limited_for_each_trunk_and_end() {
        let (mut table, limits) = (table(), TrunkLimits { under_way: Some(2), per_second: None });
        let begin = |table: &mut TrunkCalls, trunk, call| table.begin(at(0), (trunk, &limits), call);
        let first = begin(&mut table, "a", 1).unwrap();
        let second = begin(&mut table, "a", 2).unwrap();
        assert!(begin(&mut table, "a", 3).is_none());
        let other = begin(&mut table, "b", 1).unwrap();
        assert_eq!((table.len_of("a"), table.len_of("b"), table.len_of("c")), (2, 1, 0));
        table.end(other);
        table.end(other);
        assert_eq!((table.len_of("a"), table.len_of("b")), (2, 0), "the call to the other trunk goes on");
        table.end(first);
        assert!(begin(&mut table, "a", 4).is_some() && begin(&mut table, "a", 5).is_none());
        table.end_answered(2, 9);
        assert_eq!(table.len_of("a"), 2, "it is not answered");
        table.answered(second, 9);
        table.end(second);
        table.end_answered(2, 8);
        assert_eq!(table.len_of("a"), 2, "the BYE of another callee ends nothing");
        table.end_answered(2, 9);
        table.end_answered(2, 9);
        assert_eq!((table.len_of("a"), table.calls.len()), (1, 1));
    }

    #[test]
    fn calls_with_the_same_identifiers_are_counted_each() {
        let (mut table, limits) = (table(), TrunkLimits { under_way: Some(3), per_second: None });
        let admitted: Vec<_> = (0..10).filter_map(|_| table.begin(at(0), ("a", &limits), 7)).collect();
        assert_eq!((admitted.len(), table.len_of("a")), (3, 3));
        table.answered(admitted[0], 1);
        table.answered(admitted[1], 2);
        table.end_answered(7, 2);
        assert_eq!(table.len_of("a"), 2);
        table.end(admitted[2]);
        assert_eq!(table.len_of("a"), 1);
        table.end_answered(7, 1);
        assert_eq!(table.len_of("a"), 0);
    }

    /// The first trunk of a route is silent, the second one answers: the BYE ends the call of the second one.
    #[test]
    fn a_bye_ends_the_call_of_the_trunk_that_answered() {
        let (mut table, limits) = (table(), TrunkLimits { under_way: Some(3), per_second: None });
        let [silent, other] = ["a", "b"].map(|trunk| table.begin(at(0), (trunk, &limits), 7).unwrap());
        table.answered(other, 1);
        table.end_answered(7, 1);
        assert_eq!((table.len_of("a"), table.len_of("b")), (1, 0));
        table.end(silent);
        assert_eq!((table.len_of("a"), table.calls.len()), (0, 0));
    }

    #[test]
    fn a_call_without_a_bye_ends_in_time() {
        let (mut table, limits) = (table(), TrunkLimits { under_way: Some(1), per_second: None });
        assert!(table.begin(at(0), ("a", &limits), 1).is_some());
        assert!(table.begin(at(99), ("a", &limits), 2).is_none());
        assert!(table.is_full(at(99).0, ("a", &limits)) && !table.is_full(at(101).0, ("a", &limits)));
        assert!(table.begin(at(101), ("a", &limits), 2).is_some());
        assert_eq!((table.len_of("a"), table.calls.len()), (1, 1));
    }

    #[test]
    fn calls_of_a_second_are_limited() {
        let (mut table, limits) = (table(), TrunkLimits { under_way: None, per_second: Some(5) });
        for second in 0..3 {
            let admitted = (0..20).filter_map(|call| table.begin(at(second), ("a", &limits), call)).count();
            assert_eq!(admitted, 5);
        }
        assert_eq!((table.len_of("a"), table.calls.len()), (0, 0), "without another limit none is kept");
    }
}
