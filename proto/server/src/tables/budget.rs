//! Memory limits of pending requests.

use alloc::sync::Arc;
use core::hash::Hash;
use core::net::IpAddr;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::{Defence, MemoryBound, Seed, TableSize, WideNetwork, source_of};

/// Account that the memory of a request is booked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Payer {
    /// A source without a password (of IPv6 a /64 network; [`WideNetwork`]s have the limits of several).
    Stranger(IpAddr),
    /// Any other source.
    Known(IpAddr),
    /// One side of the dialog with this Record-Route mark. What ends a call must not be refused for room that new calls took.
    Dialog(u64),
    /// The end of that dialog by this side: its BYE.
    End(u64),
}

/// Limits of the bytes of all pending requests, and of those of each account.
///
/// Several budgets can share the limit of all ([`MemoryBudget::of`]); each account belongs to one of them.
#[derive(Debug)]
pub struct MemoryBudget {
    all: Arc<MemoryBound>,
    /// Number of budgets that share `all`.
    budgets: usize,
    /// Accounts with pending requests.
    accounts: BookedMap<Payer, Kept>,
    /// Memory of the strangers of each network.
    networks: BookedMap<WideNetwork, Kept>,
    /// Bytes of all dialogs.
    of_dialogs: usize,
}

/// Reserved memory of one account.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    bytes: usize,
    requests: usize,
    /// Requests without a final response.
    open: usize,
}

impl MemoryBudget {
    /// Maximum bytes of a source without a password.
    pub const STRANGER_BYTES_MAX: usize = 8 << 20;
    /// Maximum pending requests of a source without a password.
    pub const STRANGER_REQUESTS_MAX: usize = 4000;
    /// Any other source may have 1 / `SOURCE_SHARE` of all bytes.
    pub const SOURCE_SHARE: usize = 4;
    /// 1 / `RESERVED_SHARE` of all bytes is reserved for sources with a password, and for dialogs.
    pub const RESERVED_SHARE: usize = 4;
    /// 1 / `DIALOG_RESERVE` of all bytes is reserved for requests inside dialogs.
    pub const DIALOG_RESERVE: usize = 16;
    /// 1 / `END_RESERVE` of all bytes is reserved for BYEs.
    pub const END_RESERVE: usize = 64;
    /// All dialogs together have 1 / `DIALOGS_SHARE` of all bytes before others. Above that they leave as much as strangers.
    pub const DIALOGS_SHARE: usize = 8;
    /// Maximum requests of a side of a dialog without a final response.
    pub const DIALOG_REQUESTS_MAX: usize = 4;
    /// Maximum BYEs of a side of a dialog without a final response.
    pub const ENDS_MAX: usize = 2;
    /// Maximum bytes of a BYE that has room of its own.
    pub const END_BYTES_MAX: usize = 64 << 10;
    /// Maximum bytes of a dialog.
    pub const DIALOG_BYTES_MAX: usize = 512 << 10;

    /// 1 / `SLOTS_RESERVE` of the slots of accounts are reserved for dialogs: their table need not grow for what ends a call.
    const SLOTS_RESERVE: usize = 8;

    /// Memory of the accounts of a budget that is not booked.
    pub(crate) const fn size() -> TableSize {
        TableSize::of_bytes("accounts of requests under way", 0, 2 * FREE_BYTES)
    }

    /// Creates a budget of `max` bytes.
    pub fn new(max: usize, seed: &Seed) -> Self {
        Self::of(Arc::new(MemoryBound::new(max)), 1, seed)
    }

    /// Creates one of `budgets` budgets that share the bytes of `all`.
    pub fn of(all: Arc<MemoryBound>, budgets: usize, seed: &Seed) -> Self {
        let hash = SeededHash::new(seed);
        let (accounts, networks) = (BookedMap::new(hash), BookedMap::new(hash));
        Self { all, budgets: budgets.max(1), accounts, networks, of_dialogs: 0 }
    }

    /// Reserves `bytes` for a request; false if the limit of its account or of all is reached.
    pub fn reserve(&mut self, payer: Payer, bytes: usize) -> bool {
        self.take(payer, bytes, 1)
    }

    /// Reserves `bytes` more for a request that has some; false as [`MemoryBudget::reserve`].
    pub fn reserve_more(&mut self, payer: Payer, bytes: usize) -> bool {
        self.take(payer, bytes, 0)
    }

    fn take(&mut self, payer: Payer, bytes: usize, requests: usize) -> bool {
        let payer = payer.account();
        let all = self.all.max();
        // Bytes, requests, open requests, and what is left to others.
        let (bytes_max, requests_max, open_max, rest) = match payer {
            Payer::Stranger(_) if !Defence::SourceRequests.is_on() => (all, usize::MAX, usize::MAX, 0),
            Payer::Stranger(_) => (
                (all / Self::SOURCE_SHARE).min(Self::STRANGER_BYTES_MAX),
                Self::STRANGER_REQUESTS_MAX,
                usize::MAX,
                all / Self::RESERVED_SHARE,
            ),
            Payer::Known(_) => (all / Self::SOURCE_SHARE, usize::MAX, usize::MAX, all / Self::DIALOG_RESERVE),
            Payer::Dialog(_) => {
                let left = (all / Self::DIALOGS_SHARE / self.budgets).saturating_sub(self.of_dialogs);
                let rest = if bytes > left { all / Self::RESERVED_SHARE } else { all / Self::END_RESERVE };
                (Self::DIALOG_BYTES_MAX, usize::MAX, Self::DIALOG_REQUESTS_MAX, rest)
            }
            Payer::End(_) => (Self::END_BYTES_MAX, usize::MAX, Self::ENDS_MAX, 0),
        };
        let is_over = |wide: WideNetwork| {
            let (kept, sources) = (self.networks.get(&wide)?, wide.sources() as usize);
            let bytes_max = (all / Self::SOURCE_SHARE).min(bytes_max * sources);
            let is_over = kept.bytes.saturating_add(bytes) > bytes_max
                || kept.requests + requests > requests_max * sources;
            is_over.then_some(())
        };
        if payer.networks().any(|wide| is_over(wide).is_some()) {
            return false;
        }
        let kept = self.accounts.get(&payer).copied().unwrap_or_default();
        if kept.bytes.saturating_add(bytes) > bytes_max
            || kept.requests + requests > requests_max
            || kept.open + requests > open_max
            || !self.has_slots(payer, rest)
            || !self.all.take_and_leave(bytes, rest)
        {
            return false;
        }
        if matches!(payer, Payer::Dialog(_)) {
            self.of_dialogs += bytes;
        }
        let kept = self.accounts.entry(payer);
        kept.bytes += bytes;
        kept.requests += requests;
        kept.open += requests;
        for wide in payer.networks() {
            let kept = self.networks.entry(wide);
            kept.bytes += bytes;
            kept.requests += requests;
        }
        true
    }

    /// True if the tables have room for an account.
    fn has_slots(&mut self, payer: Payer, rest: usize) -> bool {
        let spare_share = match payer {
            Payer::Stranger(_) | Payer::Known(_) => Self::SLOTS_RESERVE,
            Payer::Dialog(_) | Payer::End(_) => 0,
        };
        let networks = payer.networks().count();
        self.accounts.has_room(&self.all, Room { entries: 1, spare_share, rest })
            && self.networks.has_room(&self.all, Room { entries: networks, spare_share: 0, rest })
    }

    /// Releases a part of the bytes of an answered request.
    pub fn shrink(&mut self, payer: Payer, bytes: usize) {
        let payer = payer.account();
        let Some(kept) = self.accounts.get_mut(&payer) else { return };
        let given = bytes.min(kept.bytes);
        kept.bytes -= given;
        self.give(payer, given, 0);
    }

    /// Counts a request as answered: it stays until its end, and no longer counts among the open ones of its dialog.
    pub fn answered(&mut self, payer: Payer) {
        if let Some(kept) = self.accounts.get_mut(&payer.account()) {
            kept.open = kept.open.saturating_sub(1);
        }
    }

    /// Releases the bytes of a request at its end.
    pub fn release(&mut self, payer: Payer, bytes: usize) {
        let payer = payer.account();
        let Some(kept) = self.accounts.get_mut(&payer) else { return };
        let given = bytes.min(kept.bytes);
        kept.bytes -= given;
        kept.requests = kept.requests.saturating_sub(1);
        kept.open = kept.open.min(kept.requests);
        if kept.requests == 0 {
            self.accounts.remove(&self.all, &payer);
        }
        self.give(payer, given, 1);
    }

    fn give(&mut self, payer: Payer, bytes: usize, requests: usize) {
        for wide in payer.networks() {
            if let Some(kept) = self.networks.get_mut(&wide) {
                kept.bytes = kept.bytes.saturating_sub(bytes);
                kept.requests = kept.requests.saturating_sub(requests);
                if kept.requests == 0 {
                    self.networks.remove(&self.all, &wide);
                }
            }
        }
        if matches!(payer, Payer::Dialog(_)) {
            self.of_dialogs = self.of_dialogs.saturating_sub(bytes);
        }
        self.all.give(bytes);
    }

    /// True if no account has a pending request.
    pub fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// Bytes in use by all that share the limit.
    pub fn used(&self) -> usize {
        self.all.used()
    }
}

impl Payer {
    /// The account of a request from `source`.
    pub const fn of_source(source: IpAddr, is_stranger: bool) -> Self {
        if is_stranger { Self::Stranger(source) } else { Self::Known(source) }
    }

    /// Networks that it is counted in too.
    fn networks(self) -> impl Iterator<Item = WideNetwork> {
        let stranger = match self {
            Self::Stranger(source) => Some(source),
            Self::Known(_) | Self::Dialog(_) | Self::End(_) => None,
        };
        stranger.into_iter().flat_map(WideNetwork::around)
    }

    /// Its key in the table.
    fn account(self) -> Self {
        match self {
            Self::Stranger(source) => Self::Stranger(source_of(source)),
            Self::Known(source) => Self::Known(source_of(source)),
            Self::Dialog(mark) => Self::Dialog(mark),
            Self::End(mark) => Self::End(mark),
        }
    }
}

/// Values by keys that peers choose. Memory of the table beyond [`FREE_BYTES`] is booked on a [`MemoryBound`].
#[derive(Debug)]
struct BookedMap<K, V> {
    entries: HashMap<K, V, SeededHash>,
    booked: usize,
}

/// Request for room in a [`BookedMap`].
#[derive(Clone, Copy, Debug)]
struct Room {
    /// Number of new entries.
    entries: usize,
    /// 1 / `spare_share` of the slots is left to others; 0: none.
    spare_share: usize,
    /// Bytes of the limit that are left to others.
    rest: usize,
}

impl<K: Eq + Hash, V: Default> BookedMap<K, V> {
    fn new(hash: SeededHash) -> Self {
        Self { entries: HashMap::with_hasher(hash), booked: 0 }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key)
    }

    /// True if there is room for new entries; the table grows if the limit permits it.
    fn has_room(&mut self, all: &MemoryBound, room: Room) -> bool {
        let slots = self.entries.capacity();
        let spare = slots.checked_div(room.spare_share).unwrap_or(0);
        let wanted = room.entries + spare;
        self.entries.len() + wanted <= slots || self.grow(all, wanted, room.rest)
    }

    /// The value of a key, a new one if there is none. [`BookedMap::has_room`] returned true for it.
    fn entry(&mut self, key: K) -> &mut V {
        self.entries.entry(key).or_default()
    }

    fn remove(&mut self, all: &MemoryBound, key: &K) {
        self.entries.remove(key);
        if self.entries.is_empty() {
            self.entries.shrink_to_fit();
        } else if self.booked > 0 && self.entries.len() * SHRINK_SHARE < self.slots() {
            self.entries.shrink_to(4 * self.entries.len());
        } else {
            return;
        }
        self.settle(all);
    }

    #[cold]
    fn grow(&mut self, all: &MemoryBound, wanted: usize, rest: usize) -> bool {
        // Twice as many slots at most.
        let most = (2 * self.entries.allocation_size()).saturating_sub(FREE_BYTES);
        let more = most.saturating_sub(self.booked);
        if more > 0 && !all.take_and_leave(more, rest) {
            return self.rebuild(wanted);
        }
        self.booked += more;
        self.entries.reserve(wanted);
        self.settle(all);
        true
    }

    /// Removes the marks that removed entries left, and true if there is room now. One slot in eight is free afterwards, so that this is rare.
    fn rebuild(&mut self, wanted: usize) -> bool {
        let slots = self.slots() / 8 * 7;
        if self.entries.len() + wanted.max(slots / 8) > slots {
            return false;
        }
        let hash = *self.entries.hasher();
        let mut fresh = HashMap::with_capacity_and_hasher(slots, hash);
        fresh.extend(self.entries.drain());
        self.entries = fresh;
        self.entries.len() + wanted <= self.entries.capacity()
    }

    /// Number of slots, used or not.
    fn slots(&self) -> usize {
        self.entries.allocation_size() / (size_of::<(K, V)>() + 1)
    }

    /// Returns what is booked and not used.
    fn settle(&mut self, all: &MemoryBound) {
        let used = self.entries.allocation_size().saturating_sub(FREE_BYTES);
        all.give(self.booked.saturating_sub(used));
        self.booked = self.booked.min(used);
    }
}

/// Bytes of a table that are not booked.
const FREE_BYTES: usize = 16 << 10;

/// A table with fewer entries than 1 / `SHRINK_SHARE` of its slots shrinks.
const SHRINK_SHARE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    fn stranger(number: u32) -> Payer {
        Payer::Stranger(ip(number))
    }

    fn known(number: u32) -> Payer {
        Payer::Known(ip(number))
    }

    #[test]
    fn strangers_have_eight_mebibytes_and_four_thousand_requests_each() {
        let mut budget = MemoryBudget::new(1 << 30, &Seed::from_number(1));
        assert!(budget.reserve(stranger(1), 8 << 20) && !budget.reserve(stranger(1), 1));
        assert!(budget.reserve(known(1), 1 << 20), "the same address with a password");
        assert_eq!((0..9000).filter(|_| budget.reserve(stranger(2), 1)).count(), 4000);
        assert!((0..9000).all(|_| budget.reserve(known(2), 1)), "they are counted apart");
        budget.release(stranger(2), 1);
        assert!(budget.reserve(stranger(2), 1));
    }

    #[test]
    fn strangers_of_a_home_have_the_limits_of_four() {
        let mut budget = MemoryBudget::new(1 << 30, &Seed::from_number(1));
        let of = |network: u16| Payer::Stranger(IpAddr::from([0x2001, 0xdb8, 0, network, 0, 0, 0, 1]));
        assert_eq!((0..256).filter(|&network| budget.reserve(of(network), 8 << 20)).count(), 4);
        assert!(budget.reserve(of(256), 8 << 20), "another one");
        (0..257).for_each(|network| budget.release(of(network), 8 << 20));
        let requests = (0..10).flat_map(|network| (0..4000).map(move |_| network));
        assert_eq!(requests.filter(|&network| budget.reserve(of(network), 1)).count(), 16_000);
        (0..10).for_each(|network| (0..4000).for_each(|_| budget.release(of(network), 1)));
        assert!(budget.is_empty() && budget.networks.is_empty());
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn strangers_together_leave_a_quarter_to_others_and_all_leave_room_for_dialogs() {
        let mut budget = MemoryBudget::new(64 << 20, &Seed::from_number(1));
        let taken = (0..20).filter(|&source| budget.reserve(stranger(source), 8 << 20)).count();
        assert_eq!((taken, budget.used()), (6, 48 << 20));
        assert!(!budget.reserve(stranger(30), 1));
        assert!(budget.reserve(known(30), 8 << 20) && budget.reserve(known(31), 4 << 20));
        assert!(!budget.reserve(known(32), 1));
        assert!((0..6).all(|mark| budget.reserve(Payer::Dialog(mark), 512 << 10)));
        assert!(!budget.reserve(Payer::Dialog(9), 1), "the rest is for BYEs");
        assert!((0..16).all(|mark| budget.reserve(Payer::End(mark), 64 << 10)));
        assert!(!budget.reserve(Payer::End(99), 1), "all is used");
    }

    #[test]
    fn a_dialog_has_four_open_requests_whatever_its_source_has() {
        let mut budget = MemoryBudget::new(64 << 20, &Seed::from_number(1));
        while budget.reserve(stranger(1), 100) {}
        let dialog = Payer::Dialog(7);
        assert_eq!((0..9).filter(|_| budget.reserve(dialog, 1000)).count(), 4);
        assert!(budget.reserve(Payer::Dialog(8), 1000), "another dialog");
        budget.answered(dialog);
        assert!(budget.reserve(dialog, 1000) && !budget.reserve(dialog, 1000));
        budget.release(dialog, 1000);
        assert!(!budget.reserve(dialog, 1000), "the answered one ended");
        budget.answered(dialog);
        assert!(!budget.reserve(dialog, 600 << 10), "its bytes are limited too");
        for _ in 0..4 {
            budget.release(dialog, 1000);
        }
        budget.release(Payer::Dialog(8), 1000);
        assert_eq!((budget.of_dialogs, budget.accounts.len()), (0, 1));
    }

    #[test]
    fn dialogs_have_an_eighth_of_all_before_others_and_leave_a_quarter_above_it() {
        let all = Arc::new(MemoryBound::new(64 << 20));
        let mut budget = MemoryBudget::of(all, 2, &Seed::from_number(1));
        let taken = (0..200).filter(|&mark| budget.reserve(Payer::Dialog(mark), 512 << 10)).count();
        assert_eq!(taken, 96, "48 MiB");
        assert!(budget.reserve(known(1), 8 << 20));
    }

    #[test]
    fn a_dialog_ends_whatever_else_it_has_open() {
        let mut budget = MemoryBudget::new(64 << 20, &Seed::from_number(1));
        while budget.reserve(Payer::Dialog(7), 1000) {}
        assert!(budget.reserve(Payer::End(7), 5000) && budget.reserve(Payer::End(7), 5000));
        assert!(!budget.reserve(Payer::End(7), 5000));
        budget.answered(Payer::End(7));
        assert!(budget.reserve(Payer::End(7), 5000));
        assert!(!budget.reserve(Payer::End(8), 65 << 10), "a large one is no end");
    }

    #[test]
    fn all_together_have_the_limit_and_everything_is_released() {
        let all = Arc::new(MemoryBound::new(1024));
        let mut one = MemoryBudget::of(Arc::clone(&all), 2, &Seed::from_number(1));
        let mut other = MemoryBudget::of(all, 2, &Seed::from_number(2));
        for source in 0..4 {
            let budget = if source % 2 == 0 { &mut one } else { &mut other };
            assert!(budget.reserve(known(source), 240), "a quarter for each");
        }
        assert!(!one.reserve(known(9), 1) && !other.reserve(stranger(8), 1));
        for source in 0..4 {
            let budget = if source % 2 == 0 { &mut one } else { &mut other };
            budget.release(known(source), 240);
        }
        assert_eq!((one.used(), one.accounts.len(), other.accounts.len()), (0, 0, 0));
    }

    #[test]
    fn the_accounts_take_what_is_booked() {
        let all = Arc::new(MemoryBound::new(64 << 20));
        let mut budget = MemoryBudget::of(Arc::clone(&all), 1, &Seed::from_number(1));
        let (mut booked, mut count) = (0, 0_u32);
        let of = |number: u32| Payer::Stranger(IpAddr::from((u128::from(number) << 72).to_be_bytes()));
        let taken = allocation_counter::measure(|| {
            while budget.reserve(of(count), 2048) {
                (booked, count) = (booked + 2048, count + 1);
            }
        });
        let taken = taken.bytes_current as usize;
        assert!(count > 10_000 && all.used() <= all.max() * 3 / 4, "{count} accounts, {} bytes", all.used());
        assert!(
            taken <= all.used() - booked + MemoryBudget::size().bytes as usize,
            "{taken}, {booked} booked"
        );
        // A dialog needs no further slot.
        assert!((0..100).all(|mark| budget.reserve(Payer::Dialog(mark), 1000)));
        (0..100).for_each(|mark| budget.release(Payer::Dialog(mark), 1000));
        (0..count).for_each(|number| budget.release(of(number), 2048));
        assert_eq!((all.used(), budget.is_empty()), (0, true));
    }

    #[test]
    fn an_ipv6_network_is_one_source() {
        let mut budget = MemoryBudget::new(1000, &Seed::from_number(1));
        assert!(budget.reserve(Payer::Known("2001:db8::1".parse().unwrap()), 250));
        assert!(!budget.reserve(Payer::Known("2001:db8::2".parse().unwrap()), 1));
    }
}

#[cfg(test)]
mod booked_map_tests {
    use super::*;
    use ringway_sansio::Seed;

    const ONE: Room = Room { entries: 1, spare_share: 0, rest: 0 };

    fn map() -> BookedMap<u64, [u64; 3]> {
        BookedMap::new(SeededHash::new(&Seed::from_number(1)))
    }

    /// Adds entries from `first` on until one is refused, `count` at most; returns their number.
    fn fill(
        map: &mut BookedMap<u64, [u64; 3]>,
        all: &MemoryBound,
        room: Room,
        first: u64,
        count: u64,
    ) -> u64 {
        (first..first + count)
            .take_while(|key| {
                let has_room = map.has_room(all, room);
                if has_room {
                    map.entry(*key);
                }
                has_room
            })
            .count() as u64
    }

    #[test]
    fn the_table_takes_what_is_booked_and_no_more() {
        let all = MemoryBound::new(1 << 20);
        let mut table = map();
        let taken = allocation_counter::measure(|| {
            assert!(fill(&mut table, &all, ONE, 0, 1 << 20) > 10_000);
        });
        let taken = taken.bytes_current as usize;
        assert_eq!(taken, all.used() + FREE_BYTES);
        assert!(all.used() > all.max() / 4 && all.used() <= all.max(), "{}", all.used());
        assert_eq!(taken, table.entries.allocation_size());
        // Entries come and go in the eighth that new ones leave to others, without further memory.
        let count = table.len() as u64;
        (0..=count / 8).for_each(|key| table.remove(&all, &key));
        for key in 1_000_000..1_200_000 {
            assert!(table.has_room(&all, ONE), "{key}");
            table.entry(key);
            table.remove(&all, &key);
        }
        assert_eq!(taken, table.entries.allocation_size());
    }

    #[test]
    fn a_table_that_was_full_returns_its_memory_before_it_is_empty() {
        let all = MemoryBound::new(1 << 20);
        let mut table = map();
        let count = fill(&mut table, &all, ONE, 0, 1 << 20);
        (100..count).for_each(|key| table.remove(&all, &key));
        assert_eq!(table.len(), 100);
        assert!(all.used() < 2 * FREE_BYTES, "{}", all.used());
        assert!((0..100).all(|key| table.get(&key).is_some()));
        (0..100).for_each(|key| table.remove(&all, &key));
        assert_eq!((table.is_empty(), table.entries.allocation_size()), (true, 0));
    }

    #[test]
    fn slots_are_left_to_others_and_the_limit_holds() {
        let all = MemoryBound::new(64 << 10);
        let mut table = map();
        let new = Room { entries: 1, spare_share: 8, rest: 16 << 10 };
        let count = fill(&mut table, &all, new, 0, 1 << 20);
        let slots = table.entries.capacity() as u64;
        assert!(count <= slots - slots / 8 && count + 2 > slots - slots / 8, "{count} of {slots}");
        let others = Room { spare_share: 0, ..new };
        assert_eq!(fill(&mut table, &all, others, count, 1 << 20), slots - count);
        assert!(all.used() <= 48 << 10, "{}", all.used());
    }
}
