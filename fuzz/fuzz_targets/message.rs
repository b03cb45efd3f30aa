//! Any bytes as a datagram: what must hold is said in `proto/sip/tests/harness/message.rs`.
#![no_main]

#[path = "../../proto/sip/tests/harness/message.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
