//! Any bytes as one or two URIs: what must hold is said in `proto/sip/tests/harness/uri.rs`.
#![no_main]

#[path = "../../proto/sip/tests/harness/uri.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
