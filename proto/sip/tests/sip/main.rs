//! Messages of the RFCs, messages that once broke something, the fuzz corpora, and allocations.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod allocations;
mod corpora;
#[path = "../../../../fuzz/corpus.rs"]
mod corpus;
#[path = "../harness/mod.rs"]
mod harness;
mod regress;
mod rfc4475;
mod rfc5118;
