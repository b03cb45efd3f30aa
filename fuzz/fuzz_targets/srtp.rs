//! Any bytes as an SRTP packet, and any change to a protected one: what must hold is said in `proto/srtp/tests/harness/srtp.rs`.
#![no_main]

#[path = "../../proto/srtp/tests/harness/srtp.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
