//! A change of an address-of-record, as its node writes it.
//!
//! Encoding, integers little-endian: version (1 byte), flags (1), waited_ms (4), number (8), incarnation (8), clear age_ms (4), number of
//! entries (2), number of removals (2), length of the node's name (1), name; for each entry id (16), age_ms (4), expires_in_ms
//! (4), call (8), cseq (4), length of the body (2), body; for each removal id (16), age_ms (4), call (8), cseq (4).

use crate::record::{take, take_slice, take_u16, take_u32, take_u64};
use crate::{BadEntry, Entry, EntryId, NodeName, Registered, Removal};
use alloc::vec::Vec;

/// View of an encoded update: all bindings that the node holds for an address-of-record, and what a REGISTER at it removed.
///
/// An update replaces the earlier ones of its node: a writer may send the newest one only, if it joins the removals
/// ([`Update::merge_removals`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update<'a> {
    /// Node that wrote it.
    pub node: NodeName,
    /// Start of the node's process, in milliseconds since the epoch. Tells its bindings from those of its earlier process.
    pub incarnation: u64,
    /// Number of the update at its node, from the writer; rising.
    pub number: u64,
    /// Milliseconds between the making of the update and its sending. Added to ages and subtracted from expiries.
    pub waited_ms: u32,
    /// All bindings registered at or before this age are removed first (Contact `*`).
    pub clear_age_ms: Option<u32>,
    entries: (u16, &'a [u8]),
    removals: (u16, &'a [u8]),
}

/// Writer of an encoded update.
#[derive(Debug)]
pub struct UpdateWriter<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    entries: u16,
    removals: u16,
}

impl<'o> UpdateWriter<'o> {
    /// Begins an update at the end of `out`. Entries come before removals.
    pub fn new(out: &'o mut Vec<u8>, node: &NodeName, incarnation: u64, clear_age_ms: Option<u32>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[VERSION, u8::from(clear_age_ms.is_some())]);
        out.extend_from_slice(&[0; 4 + 8]);
        out.extend_from_slice(&incarnation.to_le_bytes());
        out.extend_from_slice(&clear_age_ms.unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&[0; 2 + 2]);
        out.push(node.as_bytes().len() as u8);
        out.extend_from_slice(node.as_bytes());
        Self { out, start, entries: 0, removals: 0 }
    }

    /// Appends a binding; `body` appends its body. Bodies over 65,535 bytes are left out.
    pub fn entry(
        &mut self,
        id: EntryId,
        registered: Registered,
        expires_in_ms: u32,
        body: impl FnOnce(&mut Vec<u8>),
    ) {
        let begin = self.out.len();
        self.out.extend_from_slice(&id.0);
        self.out.extend_from_slice(&registered.age_ms.to_le_bytes());
        self.out.extend_from_slice(&expires_in_ms.to_le_bytes());
        self.out.extend_from_slice(&registered.call.to_le_bytes());
        self.out.extend_from_slice(&registered.cseq.to_le_bytes());
        let len_at = self.out.len();
        self.out.extend_from_slice(&[0; 2]);
        body(self.out);
        let Ok(len) = u16::try_from(self.out.len() - len_at - 2) else {
            self.out.truncate(begin);
            return;
        };
        self.patch(len_at - self.start, &len.to_le_bytes());
        self.entries += 1;
    }

    /// Appends a removal.
    pub fn removal(&mut self, removal: &Removal) {
        self.out.extend_from_slice(&removal.id.0);
        self.out.extend_from_slice(&removal.registered.age_ms.to_le_bytes());
        self.out.extend_from_slice(&removal.registered.call.to_le_bytes());
        self.out.extend_from_slice(&removal.registered.cseq.to_le_bytes());
        self.removals += 1;
    }

    /// Completes the update.
    pub fn finish(mut self) {
        let (entries, removals) = (self.entries, self.removals);
        self.patch(COUNTS_AT, &entries.to_le_bytes());
        self.patch(COUNTS_AT + 2, &removals.to_le_bytes());
    }

    fn patch(&mut self, at: usize, bytes: &[u8]) {
        let at = self.start + at;
        if let Some(to) = self.out.get_mut(at..at + bytes.len()) {
            to.copy_from_slice(bytes);
        }
    }
}

impl<'a> Update<'a> {
    /// Reads an encoded update.
    ///
    /// # Errors
    /// It is cut short, has more bytes than it says, a version of a later server, or an invalid name of its node.
    pub fn read(mut bytes: &'a [u8]) -> Result<Self, BadEntry> {
        let rest = &mut bytes;
        let [VERSION, flags] = take(rest)? else { return Err(BadEntry) };
        let (waited_ms, number) = (take_u32(rest)?, take_u64(rest)?);
        let (incarnation, clear_age) = (take_u64(rest)?, take_u32(rest)?);
        let (entries, removals) = (take_u16(rest)?, take_u16(rest)?);
        let [len] = take(rest)?;
        let node = NodeName::read(take_slice(rest, usize::from(len))?).ok_or(BadEntry)?;
        let all = *rest;
        for _ in 0..entries {
            read_entry(rest)?;
        }
        let entries = (entries, all.get(..all.len() - rest.len()).unwrap_or_default());
        if rest.len() != usize::from(removals) * REMOVAL_BYTES {
            return Err(BadEntry);
        }
        let clear_age_ms = (flags & 1 != 0).then_some(clear_age);
        Ok(Self { node, incarnation, number, waited_ms, clear_age_ms, entries, removals: (removals, rest) })
    }

    /// Bindings of the node.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'a>> {
        let (_, mut rest) = self.entries;
        core::iter::from_fn(move || read_entry(&mut rest).ok())
    }

    /// Bindings that a REGISTER removed.
    pub fn removals(&self) -> impl Iterator<Item = Removal> {
        let (_, mut rest) = self.removals;
        core::iter::from_fn(move || read_removal(&mut rest).ok())
    }

    /// Sets the number of an encoded update.
    pub fn set_number(update: &mut [u8], number: u64) {
        if let Some(to) = update.get_mut(NUMBER_AT..NUMBER_AT + 8) {
            to.copy_from_slice(&number.to_le_bytes());
        }
    }

    /// Sets the time that an encoded update waited.
    pub fn set_waited(update: &mut [u8], waited_ms: u32) {
        if let Some(to) = update.get_mut(WAITED_AT..WAITED_AT + 4) {
            to.copy_from_slice(&waited_ms.to_le_bytes());
        }
    }

    /// Joins the removals of an earlier update, which was not sent, into `newer`, which replaces it; `older_by_ms` is the time between
    /// the two. At most [`REMOVALS_MAX`] are kept, the newest ones.
    ///
    /// # Errors
    /// One of them is not valid; nothing is changed.
    pub fn merge_removals(newer: &mut Vec<u8>, older: &[u8], older_by_ms: u32) -> Result<(), BadEntry> {
        let (old, new) = (Update::read(older)?, Update::read(newer)?);
        let mut removals: Vec<Removal> = new.removals().collect();
        for mut removal in old.removals() {
            let is_known = removals.iter().any(|known| known.id == removal.id);
            let is_back = new.entries().any(|entry| entry.id == removal.id);
            if !is_known && !is_back && removals.len() < REMOVALS_MAX {
                removal.registered.age_ms = removal.registered.age_ms.saturating_add(older_by_ms);
                removals.push(removal);
            }
        }
        let older_clear = old.clear_age_ms.map(|age| age.saturating_add(older_by_ms));
        let clear = match (new.clear_age_ms, older_clear) {
            (Some(new), Some(old)) => Some(new.min(old)),
            (new, old) => new.or(old),
        };
        let mut joined = Vec::with_capacity(newer.len() + REMOVAL_BYTES * removals.len());
        let mut writer = UpdateWriter::new(&mut joined, &new.node, new.incarnation, clear);
        for entry in new.entries() {
            writer.entry(entry.id, entry.registered, entry.expires_in_ms, |out| {
                out.extend_from_slice(entry.body)
            });
        }
        removals.iter().for_each(|removal| writer.removal(removal));
        writer.finish();
        Update::set_number(&mut joined, new.number);
        Update::set_waited(&mut joined, new.waited_ms);
        *newer = joined;
        Ok(())
    }
}

fn read_entry<'a>(rest: &mut &'a [u8]) -> Result<Entry<'a>, BadEntry> {
    let id = EntryId(take(rest)?);
    let (age_ms, expires_in_ms) = (take_u32(rest)?, take_u32(rest)?);
    let registered = Registered { age_ms, call: take_u64(rest)?, cseq: take_u32(rest)? };
    let len = usize::from(take_u16(rest)?);
    Ok(Entry { id, registered, expires_in_ms, body: take_slice(rest, len)? })
}

fn read_removal(rest: &mut &[u8]) -> Result<Removal, BadEntry> {
    let id = EntryId(take(rest)?);
    let registered = Registered { age_ms: take_u32(rest)?, call: take_u64(rest)?, cseq: take_u32(rest)? };
    Ok(Removal { id, registered })
}

/// Maximum number of removals of an update that replaces earlier ones.
pub const REMOVALS_MAX: usize = 64;

const VERSION: u8 = 1;
const WAITED_AT: usize = 2;
const NUMBER_AT: usize = 6;
const COUNTS_AT: usize = 26;
const REMOVAL_BYTES: usize = 32;
