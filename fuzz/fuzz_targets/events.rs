//! Any bytes as a datagram for a server with presence: what must hold is said in `proto/server/tests/harness/events.rs`.
#![no_main]

#[path = "../../proto/server/tests/harness/events.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
