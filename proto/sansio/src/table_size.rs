//! The most memory that a table takes.

/// The most memory that a table, or several like it, takes.
///
/// Bytes are those that the allocator gives, without its own: some sixteen for each allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSize {
    /// Name of its entries.
    pub name: &'static str,
    /// Maximum number of entries.
    pub entries: u64,
    /// Bytes of all of them, and of the room that the table has besides.
    pub bytes: u64,
}

impl TableSize {
    /// A hash table (hashbrown) with entries of `entry_bytes` that are removed all at once or not at all.
    ///
    /// Of its slots, a power of two, seven in eight are used, and each has one byte more.
    pub const fn of_filled_map(name: &'static str, entries: usize, entry_bytes: usize) -> Self {
        let slots = (entries as u64 * 8 / 7 + 1).next_power_of_two();
        Self { name, entries: entries as u64, bytes: slots * (entry_bytes as u64 + 1) + 64 }
    }

    /// The same whose entries come and go. A removed entry can leave a mark in its slot; a table that is more than half full when no slot is left
    /// doubles, and never shrinks.
    pub const fn of_map(name: &'static str, entries: usize, entry_bytes: usize) -> Self {
        Self { entries: entries as u64, ..Self::of_filled_map(name, 2 * entries + 1, entry_bytes) }
    }

    /// A tree (`BTreeMap`, `BTreeSet`) with entries of `entry_bytes`: nodes of eleven entries, of which five are used at least, and the links
    /// between them.
    pub const fn of_tree(name: &'static str, entries: usize, entry_bytes: usize) -> Self {
        let nodes = entries as u64 / 5 + 1;
        Self { name, entries: entries as u64, bytes: nodes * (11 * entry_bytes as u64 + 40) + 128 }
    }

    /// A list that grows (`Vec`, `VecDeque`): twice as long when it is full.
    pub const fn of_list(name: &'static str, entries: usize, entry_bytes: usize) -> Self {
        let slots = (entries as u64).next_power_of_two();
        Self { name, entries: entries as u64, bytes: slots * entry_bytes as u64 }
    }

    /// Entries that are limited in bytes.
    pub const fn of_bytes(name: &'static str, entries: usize, bytes: usize) -> Self {
        Self { name, entries: entries as u64, bytes: bytes as u64 }
    }

    /// The same entries with what another table has of them.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), ..self }
    }

    /// The same entries, each with `bytes` of its own elsewhere.
    #[must_use]
    pub const fn with_each(self, bytes: usize) -> Self {
        Self { bytes: self.bytes.saturating_add(self.entries.saturating_mul(bytes as u64)), ..self }
    }

    /// So many tables like it.
    #[must_use]
    pub const fn times(self, count: usize) -> Self {
        let count = count as u64;
        Self {
            name: self.name,
            entries: self.entries.saturating_mul(count),
            bytes: self.bytes.saturating_mul(count),
        }
    }
}
