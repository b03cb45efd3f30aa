//! Tests of the transactions of one shard on a virtual clock.
//!
//! Tested: retransmission schedules and every timer, matching of requests and responses, ACK and CANCEL, broken
//! connections, limits, branches without state. Not tested here: single steps of the machines (`machines.rs`), that
//! nothing grows over random histories (`src/layer_tests.rs`).

mod branch;
mod cancel;
mod client;
mod harness;
mod icmp;
mod matching;
mod server;
