//! Calls of those that have a limit of them, trunks, users and domains: those under way, and those of the present second.

use crate::Trunk;
use crate::config::TrunkLimits;
use crate::tables::owned::Lifetime;
use alloc::boxed::Box;
use core::hash::BuildHasher;
use core::time::Duration;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::{Instant, Seed, TableSize};
use smallvec::SmallVec;

/// Counted calls, shared by all shards in [`SharedTables`](crate::SharedTables). A trunk is its name, so that a reload keeps its calls.
///
/// There are no more calls of trunks than their limits permit; those of users and domains have limits of their own.
#[derive(Debug)]
pub(crate) struct CallCounts {
    /// By the hash of Call-ID and caller's tag, which a caller may use for several calls.
    calls: HashMap<u64, SmallVec<[Call; 1]>, SeededHash>,
    accounts: HashMap<u64, Count, SeededHash>,
    /// Number of entries in `calls` of users and domains.
    of_callers: usize,
    /// Time of the last search for calls that have ended without a BYE.
    swept: Instant,
}

/// Subject of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Account<'a> {
    /// Calls to this trunk.
    ToTrunk(&'a str),
    /// Calls from this trunk.
    FromTrunk(&'a str),
    /// Both.
    Trunk(&'a str),
    /// Calls of this user, `user@domain`.
    User(&'a [u8]),
    /// Calls of the users of this domain.
    Domain(&'a [u8]),
}

/// Account of a call, with its limits.
pub(crate) type Limited<'a> = (Account<'a>, TrunkLimits);

/// Call that was counted: its own hash, and its accounts that have a limit of calls under way.
#[derive(Debug)]
pub(crate) struct CountedCall {
    call: u64,
    accounts: SmallVec<[u64; 2]>,
}

/// Reason why a call is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotCounted {
    /// It would be one too many for the account with this index.
    Full(usize, ReachedLimit),
    /// There is no room to count it.
    NoRoom,
}

/// Limit of an account that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReachedLimit {
    UnderWay,
    PerSecond,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    account: u64,
    /// Hash of the callee's tag once it is answered: a BYE with another tag ends nothing.
    callee: Option<u64>,
    until: Instant,
    is_of_caller: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    under_way: u32,
    second: u64,
    in_second: u32,
}

impl Account<'_> {
    /// True for a user or a domain, of which there can be any number.
    const fn is_caller(&self) -> bool {
        match self {
            Self::User(_) | Self::Domain(_) => true,
            Self::ToTrunk(_) | Self::FromTrunk(_) | Self::Trunk(_) => false,
        }
    }
}

impl CallCounts {
    /// Maximum number of calls under way of users and domains that are counted; a call counts for its user and for its domain. 96 bytes
    /// each.
    const CALLERS_CALLS_MAX: usize = 262_144;

    /// Maximum number of users and domains with a call under way, or one in the present second; 40 bytes each.
    const CALLERS_MAX: usize = 262_144;

    /// Creates it without calls.
    pub(crate) fn new(seed: &Seed) -> Self {
        let hash = SeededHash::new(seed);
        Self {
            calls: HashMap::with_hasher(hash),
            accounts: HashMap::with_hasher(hash),
            of_callers: 0,
            swept: Instant::default(),
        }
    }

    /// Memory of the calls of users and domains, and of `of_trunks` of trunks.
    pub(crate) const fn sizes(of_trunks: usize) -> [TableSize; 2] {
        let calls = Self::CALLERS_CALLS_MAX.saturating_add(of_trunks);
        let accounts = Self::CALLERS_MAX + 3 * Trunk::TRUNKS_MAX;
        let call_bytes = size_of::<(u64, SmallVec<[Call; 1]>)>();
        [
            TableSize::of_map("calls that count for a limit", calls, call_bytes),
            TableSize::of_map("trunks, users and domains with a limit", accounts, size_of::<(u64, Count)>()),
        ]
    }

    /// Counts a call for all these accounts, or for none, for this time at most.
    ///
    /// # Errors
    /// It would be one too many for an account, or there is no room to count it.
    pub(crate) fn begin(
        &mut self,
        lifetime: Lifetime,
        accounts: &[Limited<'_>],
        call: u64,
    ) -> Result<Box<CountedCall>, NotCounted> {
        let Lifetime { now, until } = lifetime;
        for (index, account) in accounts.iter().enumerate() {
            if let Some(reached) = self.reached(now, account) {
                return Err(NotCounted::Full(index, reached));
            }
        }
        if accounts.iter().any(|(account, _)| account.is_caller()) && !self.has_room(now) {
            return Err(NotCounted::NoRoom);
        }
        let mut counted = CountedCall { call, accounts: SmallVec::new() };
        for (account, limits) in accounts {
            let (key, is_of_caller) = (self.key_of(account), account.is_caller());
            let count = self.accounts.entry(key).or_default();
            count.in_second = count.in_second_of(now) + 1;
            count.second = now.as_secs();
            if limits.under_way.is_some() {
                count.under_way += 1;
                self.of_callers += usize::from(is_of_caller);
                self.calls.entry(call).or_default().push(Call {
                    account: key,
                    callee: None,
                    until,
                    is_of_caller,
                });
                counted.accounts.push(key);
            }
        }
        Ok(Box::new(counted))
    }

    /// Limit of an account that permits no further call at present.
    pub(crate) fn reached(&mut self, now: Instant, limited: &Limited<'_>) -> Option<ReachedLimit> {
        let (account, limits) = limited;
        let key = self.key_of(account);
        let count = self.accounts.get(&key).copied()?;
        if limits.per_second.is_some_and(|most| count.in_second_of(now) >= most) {
            return Some(ReachedLimit::PerSecond);
        }
        let most = limits.under_way.filter(|most| count.under_way >= *most)?;
        self.sweep(now);
        let count = self.accounts.get(&key)?;
        (count.under_way >= most).then_some(ReachedLimit::UnderWay)
    }

    /// Notes that a call was answered by the callee with this hash: its BYE ends it, and `until` at the latest.
    pub(crate) fn answered(&mut self, counted: &CountedCall, callee: u64, until: Instant) {
        let Some(list) = self.calls.get_mut(&counted.call) else { return };
        for account in &counted.accounts {
            let is_it = |of: &&mut Call| of.account == *account && of.callee.is_none();
            if let Some(of) = list.iter_mut().find(is_it) {
                (of.callee, of.until) = (Some(callee), until);
            }
        }
    }

    /// Notes that the answered call with these hashes goes on until `until`.
    pub(crate) fn extend(&mut self, call: u64, callee: u64, until: Instant) {
        let list = self.calls.get_mut(&call).into_iter().flatten();
        list.filter(|of| of.callee == Some(callee)).for_each(|of| of.until = until);
    }

    /// Ends a call that was not answered.
    pub(crate) fn end(&mut self, counted: &CountedCall) {
        for account in &counted.accounts {
            self.end_one(counted.call, |of| of.account == *account && of.callee.is_none());
        }
    }

    /// Ends the answered call with these hashes: one of each account.
    pub(crate) fn end_answered(&mut self, call: u64, callee: u64) {
        let list = self.calls.get(&call).into_iter().flatten();
        let mut accounts: SmallVec<[u64; 4]> =
            list.filter(|of| of.callee == Some(callee)).map(|of| of.account).collect();
        accounts.sort_unstable();
        accounts.dedup();
        for account in accounts {
            self.end_one(call, |of| of.account == account && of.callee == Some(callee));
        }
    }

    /// Number of calls of an account that are under way.
    pub(crate) fn len_of(&self, account: &Account<'_>) -> u32 {
        self.accounts.get(&self.key_of(account)).map_or(0, |count| count.under_way)
    }

    fn key_of(&self, account: &Account<'_>) -> u64 {
        self.calls.hasher().hash_one(account)
    }

    /// True if one more user and its domain can be counted.
    fn has_room(&mut self, now: Instant) -> bool {
        let has = |table: &Self| {
            table.of_callers + 2 <= Self::CALLERS_CALLS_MAX && table.accounts.len() + 2 <= Self::CALLERS_MAX
        };
        if !has(self) {
            self.sweep(now);
        }
        has(self)
    }

    fn end_one(&mut self, call: u64, is_it: impl FnMut(&Call) -> bool) {
        let Some(list) = self.calls.get_mut(&call) else { return };
        let Some(at) = list.iter().position(is_it) else { return };
        let ended = list.swap_remove(at);
        if list.is_empty() {
            self.calls.remove(&call);
        }
        self.of_callers -= usize::from(ended.is_of_caller);
        Self::release(&mut self.accounts, ended.account);
    }

    /// Ends the calls whose time has passed, at most once a second, and less often the more there are.
    fn sweep(&mut self, now: Instant) {
        let entries = self.calls.len() + self.accounts.len();
        let interval = Duration::from_secs(1 + (entries / SWEPT_PER_S) as u64);
        if now.since(self.swept) < interval {
            return;
        }
        self.swept = now;
        let Self { calls, accounts, of_callers, .. } = self;
        calls.retain(|_, list| {
            list.retain(|call| {
                let is_live = call.until > now;
                if !is_live {
                    *of_callers -= usize::from(call.is_of_caller);
                    Self::release(accounts, call.account);
                }
                is_live
            });
            !list.is_empty()
        });
        accounts.retain(|_, count| count.under_way > 0 || count.second == now.as_secs());
    }

    fn release(accounts: &mut HashMap<u64, Count, SeededHash>, account: u64) {
        if let Some(count) = accounts.get_mut(&account) {
            count.under_way = count.under_way.saturating_sub(1);
        }
    }
}

impl Count {
    /// Number of calls that began in the second of `now`.
    fn in_second_of(&self, now: Instant) -> u32 {
        if self.second == now.as_secs() { self.in_second } else { 0 }
    }
}

/// Entries that a second of searches looks at: so many cost some 0.1 ms.
const SWEPT_PER_S: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec::Vec;

    const T: u64 = 1_800_000_000;

    fn table() -> CallCounts {
        CallCounts::new(&Seed::from_number(1))
    }

    fn at(second: u64) -> Lifetime {
        let now = Instant::from_secs(T + second);
        Lifetime { now, until: now + Duration::from_secs(100) }
    }

    fn lines(trunk: &str, most: u32) -> Limited<'_> {
        (Account::ToTrunk(trunk), TrunkLimits { under_way: Some(most), per_second: None })
    }

    impl CallCounts {
        fn of(&self, trunk: &str) -> u32 {
            self.len_of(&Account::ToTrunk(trunk))
        }
    }

    #[test]
    fn calls_under_way_are_limited_for_each_trunk_and_end() {
        let mut table = table();
        let begin = |table: &mut CallCounts, trunk, call| table.begin(at(0), &[lines(trunk, 2)], call);
        let first = begin(&mut table, "a", 1).unwrap();
        let second = begin(&mut table, "a", 2).unwrap();
        assert_eq!(begin(&mut table, "a", 3).unwrap_err(), NotCounted::Full(0, ReachedLimit::UnderWay));
        let other = begin(&mut table, "b", 1).unwrap();
        assert_eq!((table.of("a"), table.of("b"), table.of("c")), (2, 1, 0));
        table.end(&other);
        table.end(&other);
        assert_eq!((table.of("a"), table.of("b")), (2, 0), "the call to the other trunk goes on");
        table.end(&first);
        assert!(begin(&mut table, "a", 4).is_ok() && begin(&mut table, "a", 5).is_err());
        table.end_answered(2, 9);
        assert_eq!(table.of("a"), 2, "it is not answered");
        table.answered(&second, 9, at(0).until);
        table.end(&second);
        table.end_answered(2, 8);
        assert_eq!(table.of("a"), 2, "the BYE of another callee ends nothing");
        table.end_answered(2, 9);
        table.end_answered(2, 9);
        assert_eq!((table.of("a"), table.calls.len()), (1, 1));
    }

    #[test]
    fn calls_with_the_same_identifiers_are_counted_each() {
        let mut table = table();
        let admitted: Vec<_> = (0..10).filter_map(|_| table.begin(at(0), &[lines("a", 3)], 7).ok()).collect();
        assert_eq!((admitted.len(), table.of("a")), (3, 3));
        table.answered(&admitted[0], 1, at(0).until);
        table.answered(&admitted[1], 1, at(0).until);
        table.end_answered(7, 1);
        assert_eq!(table.of("a"), 2, "one BYE ends one call, also of two with the same tags");
        table.end(&admitted[2]);
        assert_eq!(table.of("a"), 1);
        table.end_answered(7, 1);
        assert_eq!(table.of("a"), 0);
    }

    /// The first trunk of a route is silent, the second one answers: the BYE ends the call of the second one.
    #[test]
    fn a_bye_ends_the_call_of_the_trunk_that_answered() {
        let mut table = table();
        let [silent, other] = ["a", "b"].map(|trunk| table.begin(at(0), &[lines(trunk, 3)], 7).unwrap());
        table.answered(&other, 1, at(0).until);
        table.end_answered(7, 1);
        assert_eq!((table.of("a"), table.of("b")), (1, 0));
        table.end(&silent);
        assert_eq!((table.of("a"), table.calls.len()), (0, 0));
    }

    #[test]
    fn a_call_counts_for_all_its_accounts_or_for_none() {
        let mut table = table();
        let of = |most| TrunkLimits { under_way: Some(most), per_second: None };
        let accounts = [(Account::User(b"a@x"), of(5)), (Account::Domain(b"x"), of(1)), lines("t", 5)];
        let call = table.begin(at(0), &accounts, 1).unwrap();
        assert_eq!(
            table.begin(at(0), &accounts, 2).unwrap_err(),
            NotCounted::Full(1, ReachedLimit::UnderWay)
        );
        let under_way = |table: &CallCounts| accounts.map(|(account, _)| table.len_of(&account));
        assert_eq!((under_way(&table), table.of_callers), ([1, 1, 1], 2));
        table.answered(&call, 3, at(0).until);
        table.end(&call);
        assert_eq!(under_way(&table), [1, 1, 1], "it is answered");
        table.end_answered(1, 3);
        assert_eq!((under_way(&table), table.of_callers, table.calls.len()), ([0, 0, 0], 0, 0));
        assert!(table.begin(at(0), &accounts, 2).is_ok());
    }

    #[test]
    fn a_call_without_a_bye_ends_in_time_or_with_its_session() {
        let mut table = table();
        assert!(table.begin(at(0), &[lines("a", 1)], 1).is_ok());
        assert!(table.begin(at(99), &[lines("a", 1)], 2).is_err());
        let is_full =
            |table: &mut CallCounts, second| table.reached(at(second).now, &lines("a", 1)).is_some();
        assert!(is_full(&mut table, 99) && !is_full(&mut table, 101));
        let second = table.begin(at(101), &[lines("a", 1)], 2).unwrap();
        assert_eq!((table.of("a"), table.calls.len()), (1, 1));
        table.answered(&second, 7, at(110).now);
        table.extend(2, 8, at(500).now);
        table.extend(2, 7, at(120).now);
        assert!(is_full(&mut table, 119) && !is_full(&mut table, 121));
    }

    #[test]
    fn calls_of_a_second_are_limited() {
        let mut table = table();
        let limits = TrunkLimits { under_way: None, per_second: Some(5) };
        for second in 0..3 {
            let mut begin = |call| table.begin(at(second), &[(Account::ToTrunk("a"), limits)], call);
            assert_eq!((0..20).filter(|call| begin(*call).is_ok()).count(), 5);
        }
        assert_eq!((table.of("a"), table.calls.len()), (0, 0), "without another limit none is kept");
    }

    #[test]
    fn users_are_bounded_in_number_and_trunks_are_counted_beside_them() {
        let mut table = table();
        let limits = TrunkLimits { under_way: Some(9), per_second: None };
        let mut begun = 0;
        for number in 0..CallCounts::CALLERS_MAX as u64 + 100 {
            let name = format!("{number}@x");
            begun +=
                u64::from(table.begin(at(0), &[(Account::User(name.as_bytes()), limits)], number).is_ok());
        }
        assert_eq!(begun, CallCounts::CALLERS_MAX as u64 - 1, "room for a user and a domain");
        assert!(table.begin(at(0), &[lines("a", 1)], 1).is_ok());
        let user = [(Account::User(b"late@x".as_slice()), limits)];
        assert_eq!(table.begin(at(50), &user, 2).unwrap_err(), NotCounted::NoRoom);
        assert!(table.begin(at(150), &user, 2).is_ok(), "the others have ended");
        assert_eq!((table.calls.len(), table.of_callers), (1, 1));
    }
}
