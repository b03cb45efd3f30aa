//! Any bytes as digest credentials, and as a realm: what must hold is said in `proto/sip/tests/harness/digest_header.rs`.
#![no_main]

#[path = "../../proto/sip/tests/harness/digest_header.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
