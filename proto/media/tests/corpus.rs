//! Replay of the committed fuzz corpora and of past failures without a fuzzer, unchanged and with random
//! changes.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../../../fuzz/changed.rs"]
mod changed;
#[path = "../../../fuzz/corpus.rs"]
mod corpus;
mod harness;

#[test]
fn rtp() {
    changed::replay("rtp", harness::rtp::run);
}

#[test]
fn rtcp() {
    changed::replay("rtcp", harness::rtcp::run);
}

#[test]
fn stun() {
    corpus::replay("stun", Vec::new(), harness::stun::run);
}
