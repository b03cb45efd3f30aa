//! The fuzz corpora of media, and allocations.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod allocations;
mod corpora;
#[path = "../../../../fuzz/corpus.rs"]
mod corpus;
#[path = "../harness/mod.rs"]
mod harness;
