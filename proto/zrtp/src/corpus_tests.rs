//! Replay of the committed fuzz corpora and of past failures without a fuzzer, and random steps of two ends.

#[path = "../../../fuzz/corpus.rs"]
mod corpus;
#[path = "../tests/harness/mod.rs"]
mod harness;

use alloc::vec;
use alloc::vec::Vec;
use ringway_sansio::{Rng, Seed};

#[test]
fn zrtp() {
    corpus::replay("zrtp", Vec::new(), harness::zrtp::run);
}

#[test]
fn random_zrtp_steps() {
    let mut rng = Rng::new(&Seed::from_number(1));
    for _ in 0..60 {
        let mut data = vec![rng.next_u64() as u8];
        for _ in 0..rng.below(60) {
            // Most packets pass, so that every state is reached.
            let operation = if rng.random_bool(700) { rng.below(2) as u8 } else { rng.next_u64() as u8 };
            let bytes: Vec<u8> = (0..rng.below(9)).map(|_| rng.next_u64() as u8).collect();
            data.extend_from_slice(&[operation, bytes.len() as u8]);
            data.extend_from_slice(&bytes);
        }
        harness::zrtp::run(&data);
    }
}
