//! Any changes to any message: what must hold is said in `proto/sip/tests/harness/edit.rs`.
#![no_main]

#[path = "../../proto/sip/tests/harness/edit.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
