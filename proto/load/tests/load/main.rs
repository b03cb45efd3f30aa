//! The load generator as a protocol machine.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod connections;
mod window;
