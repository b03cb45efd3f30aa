//! Runs the fuzzers' committed corpora and regression inputs without a fuzzer.
#![allow(clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use crate::corpus;
use crate::harness;
use ringway_sansio::{Rng, Seed};

#[test]
fn tftp() {
    corpus::replay("tftp", Vec::new(), harness::tftp::run);
}

/// Random histories.
#[test]
fn tftp_at_random() {
    for seed in 0..2_000 {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let mut history = vec![0x10, 0];
        for _ in 0..rng.below(60) {
            let what = rng.next_u64() as u8;
            let length = rng.below(24) as u8;
            history.extend([what, length]);
            // Packet codes are small numbers.
            history.extend(
                (0..length).map(|place| if place < 4 { rng.below(9) as u8 } else { rng.next_u64() as u8 }),
            );
        }
        println!("seed {seed}");
        harness::tftp::run(&history);
    }
}
