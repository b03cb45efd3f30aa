//! Any bytes as a description: what must hold is said in `proto/sdp/tests/harness/sdp.rs`.
#![no_main]

#[path = "../../proto/sdp/tests/harness/sdp.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
