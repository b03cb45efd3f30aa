//! Replay of the committed fuzz corpus and of past failures without a fuzzer, unchanged and with random changes.

#[path = "../../../fuzz/changed.rs"]
mod changed;
#[path = "../../../fuzz/corpus.rs"]
mod corpus;
#[path = "../tests/harness/mod.rs"]
mod harness;

#[test]
fn client_hello() {
    changed::replay("client_hello", harness::client_hello::run);
}
