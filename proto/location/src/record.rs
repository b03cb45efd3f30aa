//! All bindings of an address-of-record, as nodes read them from the store: a binding, the names of nodes, the little-endian
//! encoding.
//!
//! Encoding, integers little-endian: version (1 byte), length of the name of the node that wrote the update (1), name, incarnation (8),
//! number (8), number of entries (2); for each entry id (16) and its value: length of the node's name (1), name, incarnation (8),
//! expires_at_ms (8), registered_at_ms (8), call (8), cseq (4), length of the body (2), body. Times are those of the store, in
//! milliseconds since the epoch. An entry without a body is the trace of a removal; they follow the bindings. A store keeps the value of
//! an entry as these bytes.

use alloc::vec::Vec;
use core::fmt;
use siphasher::sip128::{Hasher128, SipHasher13};

/// Identity of an update of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateId {
    /// Node that made it.
    pub node: NodeName,
    /// Incarnation of that node.
    pub incarnation: u64,
    /// Number of the update; 0 in a record that was looked up.
    pub number: u64,
}

/// View of an encoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Node whose update led to it.
    pub by: NodeName,
    /// Incarnation of that node.
    pub incarnation: u64,
    /// Number of that update; 0 for a record that was looked up.
    pub number: u64,
    entries: (u16, &'a [u8]),
}

/// Binding in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordEntry<'a> {
    /// Identity.
    pub id: EntryId,
    /// Node that it was registered at.
    pub node: NodeName,
    /// Incarnation of that node.
    pub incarnation: u64,
    /// End, in milliseconds since the epoch by the clock of the store.
    pub expires_at_ms: u64,
    /// Time of its REGISTER by the clock of the store.
    pub registered_at_ms: u64,
    /// Hash of the Call-ID.
    pub call: u64,
    /// CSeq of the REGISTER.
    pub cseq: u32,
    /// Contact and way to it, as the server encodes them.
    pub body: &'a [u8],
}

impl<'a> Record<'a> {
    /// Reads an encoded record.
    ///
    /// # Errors
    /// It is cut short, has more bytes than it says, or a version of a later server.
    pub fn read(bytes: &'a [u8]) -> Result<Self, BadEntry> {
        let (UpdateId { node: by, incarnation, number }, mut rest) = Self::read_head(bytes)?;
        let rest = &mut rest;
        let count = take_u16(rest)?;
        let all = *rest;
        for _ in 0..count {
            read_entry(rest)?;
        }
        if !rest.is_empty() {
            return Err(BadEntry);
        }
        Ok(Self { by, incarnation, number, entries: (count, all) })
    }

    /// Update that led to an encoded record, from its head, and the rest.
    ///
    /// # Errors
    /// It is cut short, or a version of a later server.
    pub fn read_head(mut bytes: &'a [u8]) -> Result<(UpdateId, &'a [u8]), BadEntry> {
        let rest = &mut bytes;
        let [VERSION] = take(rest)? else { return Err(BadEntry) };
        let update =
            UpdateId { node: read_name(rest)?, incarnation: take_u64(rest)?, number: take_u64(rest)? };
        Ok((update, rest))
    }

    /// The bindings.
    pub fn entries(&self) -> impl Iterator<Item = RecordEntry<'a>> {
        self.all().filter(|entry| !entry.body.is_empty())
    }

    /// Number of the traces of removals.
    pub fn traces_len(&self) -> usize {
        self.all().filter(|entry| entry.body.is_empty()).count()
    }

    fn all(&self) -> impl Iterator<Item = RecordEntry<'a>> {
        let (_, mut rest) = self.entries;
        core::iter::from_fn(move || read_entry(&mut rest).ok())
    }

    /// Sets the number of an encoded record.
    pub fn set_number(record: &mut [u8], number: u64) {
        let Some(name) = record.get(1).copied().map(usize::from) else { return };
        if let Some(to) = record.get_mut(2 + name + 8..2 + name + 16) {
            to.copy_from_slice(&number.to_le_bytes());
        }
    }

    /// Appends an encoded record as the one that an update of a node led to.
    pub fn write_as(record: &[u8], update: &UpdateId, out: &mut Vec<u8>) {
        let name = record.get(1).copied().map_or(0, usize::from);
        write_head(update, out);
        out.extend_from_slice(record.get(2 + name + 16..).unwrap_or_default());
    }

    /// Appends a record of these bindings, for a store that keeps ids and values apart.
    pub fn write<'v>(
        update: &UpdateId,
        entries: impl Iterator<Item = (EntryId, &'v [u8])>,
        out: &mut Vec<u8>,
    ) {
        write_head(update, out);
        let count_at = out.len();
        out.extend_from_slice(&[0; 2]);
        let mut count = 0_u16;
        for (id, value) in entries {
            out.extend_from_slice(&id.0);
            out.extend_from_slice(value);
            count = count.saturating_add(1);
        }
        if let Some(to) = out.get_mut(count_at..count_at + 2) {
            to.copy_from_slice(&count.to_le_bytes());
        }
    }
}

impl RecordEntry<'_> {
    /// Appends the value of the entry, which is all but its id.
    pub fn write_value(&self, out: &mut Vec<u8>) {
        write_name(&self.node, out);
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.extend_from_slice(&self.expires_at_ms.to_le_bytes());
        out.extend_from_slice(&self.registered_at_ms.to_le_bytes());
        out.extend_from_slice(&self.call.to_le_bytes());
        out.extend_from_slice(&self.cseq.to_le_bytes());
        let body = self.body.get(..usize::from(u16::MAX)).unwrap_or(self.body);
        out.extend_from_slice(&(body.len() as u16).to_le_bytes());
        out.extend_from_slice(body);
    }
}

fn write_head(update: &UpdateId, out: &mut Vec<u8>) {
    out.push(VERSION);
    write_name(&update.node, out);
    out.extend_from_slice(&update.incarnation.to_le_bytes());
    out.extend_from_slice(&update.number.to_le_bytes());
}

fn write_name(name: &NodeName, out: &mut Vec<u8>) {
    out.push(name.as_bytes().len() as u8);
    out.extend_from_slice(name.as_bytes());
}

fn read_name(rest: &mut &[u8]) -> Result<NodeName, BadEntry> {
    let [len] = take(rest)?;
    NodeName::read(take_slice(rest, usize::from(len))?).ok_or(BadEntry)
}

fn read_entry<'a>(rest: &mut &'a [u8]) -> Result<RecordEntry<'a>, BadEntry> {
    let id = EntryId(take(rest)?);
    let node = read_name(rest)?;
    let incarnation = take_u64(rest)?;
    let (expires_at_ms, registered_at_ms) = (take_u64(rest)?, take_u64(rest)?);
    let (call, cseq) = (take_u64(rest)?, take_u32(rest)?);
    let len = usize::from(take_u16(rest)?);
    let body = take_slice(rest, len)?;
    Ok(RecordEntry { id, node, incarnation, expires_at_ms, registered_at_ms, call, cseq, body })
}

const VERSION: u8 = 1;

/// Error of an encoded update or record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadEntry;

/// Identity of a binding among those of its address-of-record, equal on all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(pub [u8; 16]);

/// Age and order of the REGISTER that made or removed a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Milliseconds since the REGISTER, when the update was made.
    pub age_ms: u32,
    /// Hash of its Call-ID ([`Registered::call`]).
    pub call: u64,
    /// Its CSeq.
    pub cseq: u32,
}

/// Binding of the node that writes the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Identity.
    pub id: EntryId,
    /// Its REGISTER.
    pub registered: Registered,
    /// Milliseconds until it expires, when the update was made.
    pub expires_in_ms: u32,
    /// Contact and way to it, as the server encodes them.
    pub body: &'a [u8],
}

/// Binding that a REGISTER at the writing node removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Identity.
    pub id: EntryId,
    /// REGISTER that removed it.
    pub registered: Registered,
}

impl EntryId {
    /// No binding: all bindings of an address-of-record, in the trace of a Contact `*`.
    pub(crate) const ALL: Self = Self([0xFF; 16]);

    /// Identity by a contact URI (RFC 3261 §10.2).
    pub fn of_contact(uri: &[u8]) -> Self {
        let mut hash = SipHasher13::new();
        core::hash::Hasher::write(&mut hash, b"c");
        core::hash::Hasher::write(&mut hash, uri);
        Self(hash.finish128().as_bytes())
    }

    /// Identity by instance and reg-id (RFC 5626 §6).
    pub fn of_flow(instance: &[u8], reg_id: u32) -> Self {
        let mut hash = SipHasher13::new();
        core::hash::Hasher::write(&mut hash, b"f");
        core::hash::Hasher::write(&mut hash, &reg_id.to_le_bytes());
        core::hash::Hasher::write(&mut hash, instance);
        Self(hash.finish128().as_bytes())
    }
}

impl Registered {
    /// Hash of a Call-ID, equal on all nodes. Somebody who makes two Call-IDs collide reorders his own registrations.
    pub fn call(call_id: &[u8]) -> u64 {
        let mut hash = SipHasher13::new();
        core::hash::Hasher::write(&mut hash, call_id);
        hash.finish128().h1
    }
}

/// Maximum length in bytes of a node's name.
pub const NODE_BYTES_MAX: usize = 32;

/// Name of a node: 1 to [`NODE_BYTES_MAX`] lower-case letters, digits and hyphens; a label of a host name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeName {
    bytes: [u8; NODE_BYTES_MAX],
    len: u8,
}

impl NodeName {
    /// Reads a name; `None` if it is not valid.
    pub fn read(name: &[u8]) -> Option<Self> {
        let is_valid = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
        let ends = name.first()?.is_ascii_alphanumeric() && name.last()?.is_ascii_alphanumeric();
        if !ends || !name.iter().all(is_valid) {
            return None;
        }
        let mut bytes = [0; NODE_BYTES_MAX];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        Some(Self { bytes, len: u8::try_from(name.len()).ok()? })
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// The name.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Takes `N` bytes from the front.
pub(crate) fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], BadEntry> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(BadEntry)?;
    *rest = tail;
    Ok(*head)
}

/// Takes `len` bytes from the front.
pub(crate) fn take_slice<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], BadEntry> {
    let (head, tail) = rest.split_at_checked(len).ok_or(BadEntry)?;
    *rest = tail;
    Ok(head)
}

pub(crate) fn take_u16(rest: &mut &[u8]) -> Result<u16, BadEntry> {
    take(rest).map(u16::from_le_bytes)
}

pub(crate) fn take_u32(rest: &mut &[u8]) -> Result<u32, BadEntry> {
    take(rest).map(u32::from_le_bytes)
}

pub(crate) fn take_u64(rest: &mut &[u8]) -> Result<u64, BadEntry> {
    take(rest).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_label_of_a_host_name() {
        for name in ["a", "node-1", "0", "x".repeat(32).as_str()] {
            assert_eq!(NodeName::read(name.as_bytes()).map(|name| name.as_str().len()), Some(name.len()));
        }
        for name in ["", "-", "a-", "-a", "A", "a.b", "a b", "ä", "x".repeat(33).as_str()] {
            assert_eq!(NodeName::read(name.as_bytes()), None, "{name}");
        }
    }
}
