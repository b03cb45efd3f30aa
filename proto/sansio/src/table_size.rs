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
    pub const fn of_filled_map(name: &'static str, entries: usize, entry_bytes: usize) -> Self {
        Self { name, entries: entries as u64, bytes: Self::filled_map_bytes(entries, entry_bytes) }
    }

    /// The same whose entries come and go.
    pub const fn of_map(name: &'static str, entries: usize, entry_bytes: usize) -> Self {
        Self { name, entries: entries as u64, bytes: Self::map_bytes(entries, entry_bytes) }
    }

    /// A tree (`BTreeMap`, `BTreeSet`).
    pub const fn of_tree(name: &'static str, entries: usize, entry_bytes: usize) -> Self {
        Self { name, entries: entries as u64, bytes: Self::tree_bytes(entries, entry_bytes) }
    }

    /// A list that grows (`Vec`, `VecDeque`).
    pub const fn of_list(name: &'static str, entries: usize, entry_bytes: usize) -> Self {
        Self { name, entries: entries as u64, bytes: Self::list_bytes(entries, entry_bytes) }
    }

    /// Entries that are limited in bytes.
    pub const fn of_bytes(name: &'static str, entries: usize, bytes: usize) -> Self {
        Self { name, entries: entries as u64, bytes: bytes as u64 }
    }

    /// The same entries with an index of them, a hash table.
    #[must_use]
    pub const fn with_map(self, entries: usize, entry_bytes: usize) -> Self {
        self.with_bytes(Self::map_bytes(entries, entry_bytes))
    }

    /// The same entries with an index of them, a tree.
    #[must_use]
    pub const fn with_tree(self, entries: usize, entry_bytes: usize) -> Self {
        self.with_bytes(Self::tree_bytes(entries, entry_bytes))
    }

    /// The same entries with a list of them.
    #[must_use]
    pub const fn with_list(self, entries: usize, entry_bytes: usize) -> Self {
        self.with_bytes(Self::list_bytes(entries, entry_bytes))
    }

    /// The same entries with so many bytes elsewhere.
    #[must_use]
    pub const fn with_bytes(self, bytes: u64) -> Self {
        Self { bytes: self.bytes.saturating_add(bytes), ..self }
    }

    /// The same entries, each with `bytes` of its own elsewhere.
    #[must_use]
    pub const fn with_each(self, bytes: usize) -> Self {
        self.with_bytes(self.entries.saturating_mul(bytes as u64))
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

    /// Of its slots, a power of two, seven in eight are used, and each has one byte more.
    const fn filled_map_bytes(entries: usize, entry_bytes: usize) -> u64 {
        let slots = (entries as u64 * 8 / 7 + 1).next_power_of_two();
        slots * (entry_bytes as u64 + 1) + 64
    }

    /// Bytes of a hash table whose entries come and go. A removed entry can leave a mark in its slot; a table that is more than half full when no
    /// slot is left doubles, and never shrinks.
    pub const fn map_bytes(entries: usize, entry_bytes: usize) -> u64 {
        Self::filled_map_bytes(2 * entries + 1, entry_bytes)
    }

    /// Nodes of eleven entries, of which five are used at least, and the links between them.
    const fn tree_bytes(entries: usize, entry_bytes: usize) -> u64 {
        let nodes = entries as u64 / 5 + 1;
        nodes * (11 * entry_bytes as u64 + 40) + 128
    }

    /// Bytes of a list that grows: it is twice as long when it was full.
    pub const fn list_bytes(entries: usize, entry_bytes: usize) -> u64 {
        (entries as u64).next_power_of_two() * entry_bytes as u64
    }
}
