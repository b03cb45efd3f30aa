//! Any history of offers and answers: what must hold is said in `proto/sdp/tests/harness/offer_answer.rs`.
#![no_main]

#[path = "../../proto/sdp/tests/harness/offer_answer.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::run(data));
