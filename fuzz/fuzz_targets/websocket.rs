//! Any bytes as a handshake or as frames: what must hold is said in `proto/stream/tests/harness/websocket.rs`.
#![no_main]

#[path = "../../proto/stream/tests/harness/websocket.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
