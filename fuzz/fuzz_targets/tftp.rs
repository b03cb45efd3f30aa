//! Any datagrams around a TFTP download: what must hold is said in `drivers/ethernet/tests/harness/tftp.rs`.
#![no_main]

#[path = "../../drivers/ethernet/tests/harness/tftp.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
