//! The client with real servers of Redis.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod kinds;
mod single;
