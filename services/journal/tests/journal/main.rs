//! The journal on real files and on a disk that fails.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod damage;
mod fake_disk;
mod files;
mod load;
