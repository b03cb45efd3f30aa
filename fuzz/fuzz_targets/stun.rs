//! Any bytes as a STUN message and as an answer: what must hold is said in `proto/media/tests/harness/stun.rs`.
#![no_main]

#[path = "../../proto/media/tests/harness/stun.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
