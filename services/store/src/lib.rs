//! What survives a restart: subscribers, permanent contacts and bindings.
//!
//! Does: keeps subscribers and permanent contacts in SQLite ([`Store`]), bindings in an append-only journal beside it
//! ([`Journal`], written by the thread of a [`Writer`]), and credentials in memory for lookups from many threads
//! ([`Directory`]). Who a user is and how lists of users are read is in `ringway-users`.
//!
//! Does not: know what a binding looks like (the journal carries bytes), or touch a disk on the caller's thread while
//! messages are handled.
//!
//! Two files, because they are written by different hands: an administrator changes the database a few times a day,
//! phones refresh their bindings thousands of times a second, and an upsert in SQLite costs more than the whole
//! REGISTER. Start reading at [`Writer`].

mod changes;
mod damage;
mod directory;
mod disk;
mod error;
mod import;
mod journal;
mod record;
mod recovery;
mod scan;
mod schema;
mod segment;
mod snapshot;
mod subscribers;
mod writer;
mod writer_thread;

pub use changes::{Change, ChangeKind};
pub use damage::{Damage, LostUsers};
pub use directory::Directory;
pub use disk::{Disk, DiskFile, LocalDisk};
pub use error::StoreError;
pub use import::Imported;
pub use journal::Journal;
pub use record::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use recovery::Recovery;
pub use ringway_users::{Ha1, UserName};
pub use snapshot::SnapshotSource;
pub use subscribers::{Loaded, Store, StoreUrl, SubscriberRow};
pub use writer::{BUFFER_BYTES_MAX, Batch, Durability, Writer, WriterStats};
