//! Replay of the committed fuzz corpus and of past failures without a fuzzer, unchanged and with random changes.

use crate::harness;

#[path = "../../../../fuzz/changed.rs"]
mod changed;

#[test]
fn websocket() {
    changed::replay("websocket", harness::websocket::run);
}
