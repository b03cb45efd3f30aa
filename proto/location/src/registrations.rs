//! The rule by which a store joins updates, as a model in memory.

use crate::{EntryId, NodeName, Record, RecordEntry, Registered, Removal, Update, UpdateId};
use alloc::vec::Vec;

/// Maximum number of bindings of an address-of-record in the store.
pub const ENTRIES_MAX: usize = 64;

/// Maximum number of removals of an address-of-record that the store remembers.
pub const TRACES_MAX: usize = 16;

/// Bindings of one address-of-record in a store. The reference for scripts of real stores, and the store of simulations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registrations {
    entries: Vec<Stored>,
    /// Traces of removals, the oldest first: entries without a body, of the node that removed.
    traces: Vec<Stored>,
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
    ///    than a minute later than now. The same with traces of removals.
    /// 2. Contact `*`: bindings that are not newer than it are removed.
    /// 3. Bindings of the same node and incarnation that the update does not have are removed.
    /// 4. Each removal removes a binding that is not newer than it.
    /// 5. Each entry replaces a binding that is not newer than it, or is added while there are fewer than [`ENTRIES_MAX`]. One without a
    ///    body is none.
    ///
    /// A binding of the same node and incarnation is never newer. Another one is, with the same Call-ID, if its CSeq is not lower
    /// (RFC 3261 §10.3 step 7); with another Call-ID, if its REGISTER came later.
    ///
    /// In steps 2 and 4 a removal leaves a trace, unless a newer binding stays: until the latest binding that was there ends, 15 minutes
    /// at least. The trace of another node and incarnation keeps out an entry that is older than the removal, so that an update that
    /// waited does not bring a binding back: with the same Call-ID one of a lower CSeq, if its REGISTER did not come more than 5 s later
    /// from a phone that counts anew; otherwise one of an earlier REGISTER. A newer entry ends it, and beyond [`TRACES_MAX`] the oldest
    /// ends.
    pub fn apply(&mut self, update: &Update<'_>, now_ms: u64) {
        self.entries.retain(|entry| entry.is_live(now_ms));
        self.traces.retain(|trace| trace.is_live(now_ms));
        let latest = self.entries.iter().map(|entry| entry.expires_at_ms).max().unwrap_or_default();
        let trace_ends_ms = latest.max(now_ms + TRACE_LASTS_MS);
        let time_of = |age_ms: u32| {
            now_ms.saturating_sub(u64::from(age_ms)).saturating_sub(u64::from(update.waited_ms))
        };
        let is_own = |entry: &Stored| entry.node == update.node && entry.incarnation == update.incarnation;
        let trace = |id, registered: Registered| Stored {
            id,
            node: update.node,
            incarnation: update.incarnation,
            expires_at_ms: trace_ends_ms,
            registered_at_ms: time_of(registered.age_ms),
            call: registered.call,
            cseq: registered.cseq,
            body: Vec::new(),
        };
        if let Some(age_ms) = update.clear_age_ms {
            self.entries.retain(|entry| entry.registered_at_ms > time_of(age_ms));
            let all = trace(EntryId::ALL, Registered { age_ms, call: 0, cseq: 0 });
            let is_later = |known: &Stored| known.registered_at_ms > all.registered_at_ms;
            self.leave(all.clone(), is_later);
        }
        let sent = || update.entries().filter(|entry| !entry.body.is_empty());
        self.entries.retain(|entry| !is_own(entry) || sent().any(|kept| kept.id == entry.id));
        let is_newer = |entry: &Stored, than: Registered| {
            !is_own(entry)
                && match entry.call == than.call {
                    true => entry.cseq >= than.cseq,
                    false => entry.registered_at_ms > time_of(than.age_ms),
                }
        };
        let is_later = |trace: &Stored, than: Registered| {
            let (removed_ms, is_same) =
                (trace.registered_at_ms, trace.call == than.call && trace.id != EntryId::ALL);
            !is_own(trace)
                && match is_same {
                    true => {
                        trace.cseq > than.cseq && time_of(than.age_ms) <= removed_ms.saturating_add(ANEW_MS)
                    }
                    false => removed_ms > time_of(than.age_ms),
                }
        };
        for Removal { id, registered } in update.removals() {
            match self.entries.iter().position(|entry| entry.id == id) {
                Some(at) if self.entries.get(at).is_some_and(|entry| is_newer(entry, registered)) => continue,
                Some(at) => drop(self.entries.remove(at)),
                None => {}
            }
            self.leave(trace(id, registered), |known| is_later(known, registered));
        }
        for entry in sent() {
            let is_of = |trace: &Stored| trace.id == entry.id || trace.id == EntryId::ALL;
            if self.traces.iter().any(|trace| is_of(trace) && is_later(trace, entry.registered)) {
                continue;
            }
            let expires_in = u64::from(entry.expires_in_ms).saturating_sub(u64::from(update.waited_ms));
            let stored = Stored {
                expires_at_ms: now_ms + expires_in,
                body: entry.body.to_vec(),
                ..trace(entry.id, entry.registered)
            };
            let has_room = self.entries.len() < ENTRIES_MAX;
            match self.entries.iter_mut().find(|known| known.id == entry.id) {
                Some(known) if is_newer(known, entry.registered) => continue,
                Some(_) if expires_in == 0 => self.entries.retain(|known| known.id != entry.id),
                Some(known) => *known = stored,
                None if expires_in > 0 && has_room => self.entries.push(stored),
                None => continue,
            }
            self.traces.retain(|trace| trace.id != entry.id);
        }
        let more = self.traces.len().saturating_sub(TRACES_MAX);
        self.traces.drain(..more);
    }

    /// Leaves a trace, unless that of an earlier removal of the same binding is later.
    fn leave(&mut self, trace: Stored, is_later: impl Fn(&Stored) -> bool) {
        match self.traces.iter().position(|known| known.id == trace.id) {
            Some(at) if self.traces.get(at).is_some_and(is_later) => return,
            Some(at) => drop(self.traces.remove(at)),
            None => {}
        }
        self.traces.push(trace);
    }

    /// True without bindings, expired ones included.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Latest end of a binding, in milliseconds since the epoch.
    pub fn expires_at_ms(&self) -> Option<u64> {
        self.entries.iter().map(|entry| entry.expires_at_ms).max()
    }

    /// Latest end of a binding or of a removal's trace, in milliseconds since the epoch: the end of the key in the store.
    pub fn ends_at_ms(&self) -> Option<u64> {
        self.entries.iter().chain(&self.traces).map(|entry| entry.expires_at_ms).max()
    }

    /// Bindings that have not expired at `now_ms`.
    pub fn entries(&self, now_ms: u64) -> impl Iterator<Item = RecordEntry<'_>> {
        self.entries.iter().filter(move |entry| entry.expires_at_ms > now_ms).map(Stored::shown)
    }

    /// Appends the encoded [`Record`], traces of removals included, after an update.
    pub fn write_record(&self, update: &UpdateId, now_ms: u64, out: &mut Vec<u8>) {
        let traces = self.traces.iter().filter(|trace| trace.expires_at_ms > now_ms).map(Stored::shown);
        let values: Vec<(EntryId, Vec<u8>)> = self
            .entries(now_ms)
            .chain(traces)
            .map(|entry| {
                let mut value = Vec::new();
                entry.write_value(&mut value);
                (entry.id, value)
            })
            .collect();
        Record::write(update, values.iter().map(|(id, value)| (*id, value.as_slice())), out);
    }
}

impl Stored {
    /// False if it has expired, or no update makes it.
    fn is_live(&self, now_ms: u64) -> bool {
        self.expires_at_ms > now_ms
            && self.expires_at_ms <= now_ms.saturating_add(LASTS_MAX_MS)
            && self.registered_at_ms <= now_ms.saturating_add(AHEAD_MAX_MS)
    }

    fn shown(&self) -> RecordEntry<'_> {
        RecordEntry {
            id: self.id,
            node: self.node,
            incarnation: self.incarnation,
            expires_at_ms: self.expires_at_ms,
            registered_at_ms: self.registered_at_ms,
            call: self.call,
            cseq: self.cseq,
            body: &self.body,
        }
    }
}

/// Time after which a lower CSeq is that of a phone that counts anew.
const ANEW_MS: u64 = 5_000;
/// Time that the trace of a removal lasts at least.
const TRACE_LASTS_MS: u64 = 15 * 60_000;
/// Maximum time that a binding lasts: more than 32 bits of milliseconds.
const LASTS_MAX_MS: u64 = 50 * 86_400_000;
/// Maximum time by which a binding was registered later than now: the clock of a store can be set back.
const AHEAD_MAX_MS: u64 = 60_000;

#[cfg(test)]
#[path = "registrations_tests.rs"]
mod tests;
