//! Any bytes as the datagram of a media relay: what must hold is said in `proto/ng/tests/harness/datagram.rs`.
#![no_main]

#[path = "../../proto/ng/tests/harness/datagram.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
