//! Replay of the corpus of the fuzz target `events`: what must hold is said in `harness/events.rs`.

use crate::corpus;

#[path = "../../../../fuzz/changed.rs"]
mod changed;
#[path = "../harness/events.rs"]
mod harness;

#[test]
fn everything_that_a_datagram_begins_ends() {
    changed::replay("events", harness::run);
}
