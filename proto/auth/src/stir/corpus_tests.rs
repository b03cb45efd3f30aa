//! Replay of the committed fuzz corpus and of past failures without a fuzzer, unchanged and with random changes.

#[path = "../../../../fuzz/changed.rs"]
mod changed;
#[path = "../../../../fuzz/corpus.rs"]
mod corpus;
#[path = "../../tests/harness/identity.rs"]
mod harness;

#[test]
fn identity() {
    changed::replay("identity", harness::run);
}
