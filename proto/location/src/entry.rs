//! One binding in the store.

use siphasher::sip128::{Hasher128, SipHasher13};

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
