//! The client of a media relay.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod client;
#[path = "../../../../fuzz/corpus.rs"]
mod corpus;
#[path = "../harness/datagram.rs"]
mod harness;
mod hostile;
