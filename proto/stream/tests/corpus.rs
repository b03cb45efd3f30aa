//! Replay of the committed fuzz corpus and of past failures without a fuzzer, unchanged and with random changes.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../../../fuzz/changed.rs"]
mod changed;
#[path = "../../../fuzz/corpus.rs"]
mod corpus;
mod harness;

#[test]
fn websocket() {
    changed::replay("websocket", harness::websocket::run);
}
