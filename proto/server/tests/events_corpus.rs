//! Replay of the corpus of the fuzz target `events`: what must hold is said in `harness/events.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "../../../fuzz/changed.rs"]
mod changed;
#[path = "../../../fuzz/corpus.rs"]
mod corpus;
#[path = "harness/events.rs"]
mod harness;

#[test]
fn everything_that_a_datagram_begins_ends() {
    changed::replay("events", harness::run);
}
