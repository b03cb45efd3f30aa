//! Replay of the committed fuzz corpus and of past failures without a fuzzer, unchanged and with random changes.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../../../fuzz/changed.rs"]
mod changed;
#[path = "../../../fuzz/corpus.rs"]
mod corpus;
mod harness;

#[test]
fn client_hello() {
    changed::replay("client_hello", harness::client_hello::run);
}
