//! Names of keys in the store.

use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// Number of tags. All keys of an address-of-record have its tag, and are in one slot of a cluster.
pub(crate) const TAGS: usize = 64;

/// Maximum length in bytes of an address-of-record.
pub(crate) const AOR_BYTES_MAX: usize = 1024;

/// Hash of an address-of-record, equal on all nodes.
pub(crate) fn hash(aor: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(aor);
    hasher.finish()
}

/// Tag of a hash.
pub(crate) const fn tag_of(hash: u64) -> usize {
    (hash % TAGS as u64) as usize
}

/// Tag of an address-of-record.
pub fn tag_of_user(aor: &[u8]) -> usize {
    tag_of(hash(aor))
}

/// Start of the keys of records.
pub(crate) fn records(tag: usize) -> String {
    format!("rw:{{{tag:02}}}:b:")
}

/// Addresses-of-record by the end of their records.
pub(crate) fn all(tag: usize) -> String {
    format!("rw:{{{tag:02}}}:all")
}

/// Stream of changed records.
pub(crate) fn log(tag: usize) -> String {
    format!("rw:{{{tag:02}}}:log")
}

/// Mark of the store's data: it changes when data was lost.
pub(crate) fn epoch(tag: usize) -> String {
    format!("rw:{{{tag:02}}}:epoch")
}

/// Hash of nodes, in the slot of [`NODES_TAG`].
pub(crate) const NODES: &str = "rw:{00}:nodes";
pub(crate) const NODES_TAG: usize = 0;
