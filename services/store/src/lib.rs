//! Persistent subscribers, permanent contacts and bindings.
//!
//! Does: stores subscribers, permanent contacts and forwards in SQLite ([`Store`]), bindings in a journal beside it ([`Bindings`]), and
//! credentials in memory for lookups from many threads ([`Directory`]). User names and lists of users are in
//! `ringway-users`, the format of the journal is in `ringway-journal`.
//!
//! Does not: interpret a binding (the journal stores bytes), or perform I/O on the caller's thread while messages are
//! handled.
//!
//! The two files differ in their load: an administrator changes the database a few times a day, phones refresh their
//! bindings thousands of times a second, and an upsert in SQLite costs more than the whole REGISTER. Start reading at
//! [`Store`].

mod backup;
mod bindings;
mod blocks;
mod changes;
mod directory;
mod error;
mod forwards;
mod provisioned;
mod records;
mod rows;
mod schema;
mod subscribers;
mod user_pages;

pub use backup::{Backups, Restoration, Restored};
pub use bindings::Bindings;
pub use blocks::{BLOCKS_MAX, BlockKind, BlockLists, BlockRow, NewBlockRow, USER_BLOCKS_MAX};
pub use changes::{Change, ChangeKind};
pub use directory::Directory;
pub use error::StoreError;
pub use provisioned::{Incoming, IncomingRows, Position, Provisioned, UserState};
pub use records::{REMOVED_MAX, RecordDatabase, RecordFile, RecordOrigin, RecordRow};
pub use ringway_journal::{
    BUFFER_BYTES_MAX, Durability, KEY_BYTES_MAX, MEMORY_BYTES_MAX, SnapshotSource, VALUE_BYTES_MAX, Writer,
    WriterStats,
};
pub use ringway_users::{Condition, ForwardUri, Forwards, Ha1, Hashes, NoAnswer, UnusableForward, UserName};
pub use rows::check_contact;
pub use subscribers::{Imported, Loaded, OtherRealm, Store, StoreUrl, SubscriberRow};
pub use user_pages::{FoundUsers, UserFilter, UserPages, UserRow};
