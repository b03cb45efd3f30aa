//! Owners of open calls: who has how many, so that nobody takes the whole table.

use crate::report::NameHash;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use ringway_transaction::SlabKey;

/// Open calls by owner: a user, or an address. An owner without open calls has no entry.
#[derive(Debug)]
pub(super) struct Owners {
    /// The names are keyed hashes.
    owners: HashMap<u64, Owner, NameHash>,
    /// Number of calls above which an owner is in `over`.
    share: usize,
    /// Owners of more than their share: fewer than [`SHARES`], as the table has so many shares.
    over: Vec<u64>,
}

/// Calls of an owner.
#[derive(Debug, Default)]
struct Owner {
    open: usize,
    /// Order in which they began; ended ones are removed later.
    order: VecDeque<SlabKey>,
}

impl Owners {
    pub(super) fn new(calls_max: usize) -> Self {
        let share = (calls_max / SHARES).max(1);
        Self { owners: HashMap::default(), share, over: Vec::new() }
    }

    pub(super) fn add(&mut self, owner: u64, key: SlabKey) {
        let entry = self.owners.entry(owner).or_default();
        entry.open += 1;
        entry.order.push_back(key);
        if entry.open == self.share + 1 {
            self.over.push(owner);
        }
    }

    /// Notes the end of a call; `is_open` is false for the ended ones.
    pub(super) fn remove(&mut self, owner: u64, is_open: impl Fn(SlabKey) -> bool) {
        let Entry::Occupied(mut entry) = self.owners.entry(owner) else { return };
        let calls = entry.get_mut();
        calls.open = calls.open.saturating_sub(1);
        if calls.open == self.share {
            self.over.retain(|other| *other != owner);
        }
        if calls.open == 0 {
            entry.remove();
        } else if calls.order.len() > 2 * calls.open + ENDED_MIN {
            calls.order.retain(|key| is_open(*key));
        }
    }

    /// True if a further call of this owner is above its share.
    pub(super) fn has_share(&self, owner: u64) -> bool {
        self.owners.get(&owner).is_some_and(|calls| calls.open >= self.share)
    }

    /// Owner of the most calls above the share.
    pub(super) fn largest(&self) -> Option<u64> {
        let open = |owner: &&u64| self.owners.get(*owner).map_or(0, |calls| calls.open);
        self.over.iter().max_by_key(open).copied()
    }

    /// Oldest open call of an owner.
    pub(super) fn oldest(&mut self, owner: u64, is_open: impl Fn(SlabKey) -> bool) -> Option<SlabKey> {
        oldest(&mut self.owners.get_mut(&owner)?.order, is_open)
    }
}

/// Oldest open call of an order.
pub(super) fn oldest(order: &mut VecDeque<SlabKey>, is_open: impl Fn(SlabKey) -> bool) -> Option<SlabKey> {
    while let Some(&key) = order.front() {
        if is_open(key) {
            return Some(key);
        }
        order.pop_front();
    }
    None
}

/// Shares of a table: the part of it that is safe for an owner is the table divided by their number.
const SHARES: usize = 16;
/// Ended calls that may always be in an order.
const ENDED_MIN: usize = 8;
