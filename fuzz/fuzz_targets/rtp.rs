//! Any bytes as an RTP packet, and as a stream of them: what must hold is said in `proto/media/tests/harness/rtp.rs`.
#![no_main]

#[path = "../../proto/media/tests/harness/rtp.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
