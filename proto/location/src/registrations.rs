//! The rule by which a store joins updates, as a model in memory.

use crate::{EntryId, NodeName, Record, RecordEntry, Registered, Update};
use alloc::vec::Vec;

/// Maximum number of bindings of an address-of-record in the store.
pub const ENTRIES_MAX: usize = 64;

/// Bindings of one address-of-record in a store. The reference for scripts of real stores, and the store of simulations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registrations {
    entries: Vec<Stored>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored {
    id: EntryId,
    node: NodeName,
    incarnation: u64,
    expires_at_ms: u64,
    registered_at_ms: u64,
    call: u64,
    cseq: u32,
    body: Vec<u8>,
}

impl Registrations {
    /// Joins an update at the time `now_ms` of the store, in milliseconds since the epoch, in this order:
    /// 1. Expired bindings are removed, and those that no update makes: they end more than 50 days later, or were registered more
    ///    than a minute later than now.
    /// 2. Contact `*`: bindings that are not newer than it are removed.
    /// 3. Bindings of the same node and incarnation that the update does not have are removed.
    /// 4. Each removal removes a binding that is not newer than it.
    /// 5. Each entry replaces a binding that is not newer than it, or is added while there are fewer than [`ENTRIES_MAX`].
    ///
    /// A binding of the same node and incarnation is never newer. Another one is, with the same Call-ID, if its CSeq is not lower
    /// (RFC 3261 §10.3 step 7); with another Call-ID, if its REGISTER came later.
    pub fn apply(&mut self, update: &Update<'_>, now_ms: u64) {
        let can_be = |entry: &Stored| {
            entry.expires_at_ms <= now_ms.saturating_add(LASTS_MAX_MS)
                && entry.registered_at_ms <= now_ms.saturating_add(AHEAD_MAX_MS)
        };
        self.entries.retain(|entry| entry.expires_at_ms > now_ms && can_be(entry));
        let time_of = |age_ms: u32| {
            now_ms.saturating_sub(u64::from(age_ms)).saturating_sub(u64::from(update.waited_ms))
        };
        if let Some(age_ms) = update.clear_age_ms {
            self.entries.retain(|entry| entry.registered_at_ms > time_of(age_ms));
        }
        let is_own = |entry: &Stored| entry.node == update.node && entry.incarnation == update.incarnation;
        self.entries.retain(|entry| !is_own(entry) || update.entries().any(|kept| kept.id == entry.id));
        let is_newer = |entry: &Stored, than: Registered| {
            !is_own(entry)
                && match entry.call == than.call {
                    true => entry.cseq >= than.cseq,
                    false => entry.registered_at_ms > time_of(than.age_ms),
                }
        };
        for removal in update.removals() {
            self.entries.retain(|entry| entry.id != removal.id || is_newer(entry, removal.registered));
        }
        for entry in update.entries() {
            let expires_in = u64::from(entry.expires_in_ms).saturating_sub(u64::from(update.waited_ms));
            let stored = Stored {
                id: entry.id,
                node: update.node,
                incarnation: update.incarnation,
                expires_at_ms: now_ms + expires_in,
                registered_at_ms: time_of(entry.registered.age_ms),
                call: entry.registered.call,
                cseq: entry.registered.cseq,
                body: entry.body.to_vec(),
            };
            let has_room = self.entries.len() < ENTRIES_MAX;
            match self.entries.iter_mut().find(|known| known.id == entry.id) {
                Some(known) if is_newer(known, entry.registered) => {}
                Some(_) if expires_in == 0 => self.entries.retain(|known| known.id != entry.id),
                Some(known) => *known = stored,
                None if expires_in > 0 && has_room => self.entries.push(stored),
                None => {}
            }
        }
    }

    /// True without bindings, expired ones included.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Latest end of a binding, in milliseconds since the epoch: the end of the key in the store.
    pub fn expires_at_ms(&self) -> Option<u64> {
        self.entries.iter().map(|entry| entry.expires_at_ms).max()
    }

    /// Bindings that have not expired at `now_ms`.
    pub fn entries(&self, now_ms: u64) -> impl Iterator<Item = RecordEntry<'_>> {
        self.entries.iter().filter(move |entry| entry.expires_at_ms > now_ms).map(|entry| RecordEntry {
            id: entry.id,
            node: entry.node,
            incarnation: entry.incarnation,
            expires_at_ms: entry.expires_at_ms,
            registered_at_ms: entry.registered_at_ms,
            call: entry.call,
            cseq: entry.cseq,
            body: &entry.body,
        })
    }

    /// Appends the encoded [`Record`] after an update; `number` is 0 for a lookup.
    pub fn write_record(
        &self,
        (by, incarnation, number): (&NodeName, u64, u64),
        now_ms: u64,
        out: &mut Vec<u8>,
    ) {
        let values: Vec<(EntryId, Vec<u8>)> = self
            .entries(now_ms)
            .map(|entry| {
                let mut value = Vec::new();
                entry.write_value(&mut value);
                (entry.id, value)
            })
            .collect();
        Record::write(
            (by, incarnation, number),
            values.iter().map(|(id, value)| (*id, value.as_slice())),
            out,
        );
    }
}

/// Maximum time that a binding lasts: more than 32 bits of milliseconds.
const LASTS_MAX_MS: u64 = 50 * 86_400_000;
/// Maximum time by which a binding was registered later than now: the clock of a store can be set back.
const AHEAD_MAX_MS: u64 = 60_000;

#[cfg(test)]
#[path = "registrations_tests.rs"]
mod tests;
