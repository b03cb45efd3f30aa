//! Any bytes as a compound RTCP packet: what must hold is said in `proto/media/tests/harness/rtcp.rs`.
#![no_main]

#[path = "../../proto/media/tests/harness/rtcp.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
