//! Subscribers, permanent contacts and bindings on a disk.
//!
//! Does: keeps subscribers and permanent contacts in SQLite ([`Store`]), bindings in a journal beside it ([`Bindings`]), and
//! credentials in memory for lookups from many threads ([`Directory`]). Who a user is and how lists of users are read is
//! in `ringway-users`, the format of the journal in `ringway-journal`.
//!
//! Does not: interpret a binding (the journal carries bytes), or touch a disk on the caller's thread while messages are
//! handled.
//!
//! Two files, because they are written by different hands: an administrator changes the database a few times a day,
//! phones refresh their bindings thousands of times a second, and an upsert in SQLite costs more than the whole
//! REGISTER. Start reading at [`Store`].

mod bindings;
mod change_log;
mod changes;
mod directory;
mod error;
mod import;
mod schema;
mod subscribers;

pub use bindings::Bindings;
pub use changes::{Change, ChangeKind};
pub use directory::Directory;
pub use error::StoreError;
pub use import::Imported;
pub use ringway_journal::{Durability, KEY_BYTES_MAX, SnapshotSource, VALUE_BYTES_MAX, Writer, WriterStats};
pub use ringway_users::{Ha1, UserName};
pub use subscribers::{Loaded, Store, StoreUrl, SubscriberRow};
