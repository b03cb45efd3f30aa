//! Any bytes as a stream, split anywhere: what must hold is said in `proto/sip/tests/harness/stream.rs`.
#![no_main]

#[path = "../../proto/sip/tests/harness/stream.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
