//! The network loop without an operating system: stations, downloads, and the corpus of the fuzz target `tftp`.
#![allow(clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod corpora;
#[path = "../../../../fuzz/corpus.rs"]
mod corpus;
#[path = "../harness/mod.rs"]
mod harness;
mod station;
mod tftp;
