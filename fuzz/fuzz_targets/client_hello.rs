//! Any bytes as a datagram of a peer without an association: what must hold is said in
//! `proto/datagram/tests/harness/client_hello.rs`.
#![no_main]

#[path = "../../proto/datagram/tests/harness/client_hello.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
