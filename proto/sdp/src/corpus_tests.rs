//! Replay of the committed fuzz corpora and of past failures without a fuzzer, and random sequences of offers
//! and answers.

#[path = "../../../fuzz/corpus.rs"]
mod corpus;
#[path = "../tests/harness/mod.rs"]
mod harness;

use alloc::vec::Vec;
use ringway_sansio::{Rng, Seed};
use std::println;

#[test]
fn sdp() {
    corpus::replay("sdp", Vec::new(), harness::sdp::run);
}

#[test]
fn offer_answer() {
    corpus::replay("offer_answer", Vec::new(), harness::offer_answer::run);
}

#[test]
fn offer_answer_at_random() {
    for seed in 0..300 {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let history: Vec<u8> = (0..200).map(|_| rng.next_u64() as u8).collect();
        println!("seed {seed}");
        harness::offer_answer::run(&history);
    }
}
