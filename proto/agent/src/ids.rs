//! Identifiers of accounts, calls and queries.

use ringway_transaction::SlabKey;

/// Identifies an account: its index in [`Config::accounts`](crate::Config::accounts).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub usize);

/// Identifies a call. A number is not reused for a long time after the call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// Identifies a query (OPTIONS).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueryId(pub u64);

impl CallId {
    pub(crate) fn from_key(key: SlabKey) -> Self {
        Self(number_of(key))
    }

    pub(crate) const fn key(self) -> SlabKey {
        key_of(self.0)
    }
}

/// A slab key as one number, for a lookup's query or a [`CallId`].
pub(crate) fn number_of(key: SlabKey) -> u64 {
    (u64::from(key.generation) << 32) | u64::from(key.index)
}

/// The inverse of [`number_of`].
pub(crate) const fn key_of(number: u64) -> SlabKey {
    SlabKey { index: number as u32, generation: (number >> 32) as u32 }
}
