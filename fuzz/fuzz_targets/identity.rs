//! Any bytes as the value of an Identity header field: what must hold is said in `proto/auth/tests/harness/identity.rs`.
#![no_main]

#[path = "../../proto/auth/tests/harness/identity.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
