//! The SQLite file: users, block lists, backups.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod backup;
mod blocks;
mod load;
mod subscribers;
