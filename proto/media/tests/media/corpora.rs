//! Replay of the committed fuzz corpora and of past failures without a fuzzer, unchanged and with random
//! changes.

use crate::corpus;
use crate::harness;

#[path = "../../../../fuzz/changed.rs"]
mod changed;

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
