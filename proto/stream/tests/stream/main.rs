//! WebSocket with the crate tungstenite as peer, and the fuzz corpora.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod corpora;
#[path = "../../../../fuzz/corpus.rs"]
mod corpus;
#[path = "../harness/mod.rs"]
mod harness;
mod tungstenite;
