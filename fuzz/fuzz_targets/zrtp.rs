//! Any steps on the wire between two ends of ZRTP: what must hold is said in `proto/zrtp/tests/harness/zrtp.rs`.
#![no_main]

#[path = "../../proto/zrtp/tests/harness/zrtp.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
