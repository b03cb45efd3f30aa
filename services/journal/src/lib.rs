//! An append-only, checksummed log of keys and values on a disk.
//!
//! Does: appends records in batches from any number of threads ([`Writer`]), replaces old segments by snapshots of the
//! live table, and reads all intact records after a stop, a crash, a power failure or damage ([`Journal::recover`]). It
//! reports losses ([`Recovery`]) and keeps the damaged file.
//!
//! Does not: interpret keys and values, answer queries, repair records, or perform I/O on the caller's thread.
//!
//! Start reading at [`Writer`]; the file format is in `record.rs` and `segment.rs`.

mod damage;
mod disk;
mod journal;
mod record;
mod recovery;
mod scan;
mod segment;
mod shared;
mod snapshot;
mod writer;
mod writer_thread;

pub use damage::{Damage, JournalError, LostKeys};
pub use disk::{Disk, DiskFile, LocalDisk};
pub use journal::Journal;
pub use record::{KEY_BYTES_MAX, LostKey, VALUE_BYTES_MAX};
pub use recovery::Recovery;
pub use snapshot::SnapshotSource;
pub use writer::{BUFFER_BYTES_MAX, Batch, MEMORY_BYTES_MAX, Writer, WriterStats};
pub use writer_thread::{Durability, WriterEvent};
