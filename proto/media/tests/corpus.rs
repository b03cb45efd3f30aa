//! Replays what the fuzzers found, without needing what fuzzing needs: the committed corpora, and the inputs that once
//! broke something. And what no fuzzer had to find: bytes and histories made at random.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../../../fuzz/corpus.rs"]
mod corpus;
mod harness;

use ringway_sansio::{Rng, Seed};

/// Runs `harness` on the target's corpus.
fn replay(target: &str, harness: fn(&[u8])) {
    corpus::replay(target, Vec::new(), harness);
}

/// Runs `harness` on the target's corpus, and on each of its files changed at random and cut short.
fn replay_changed(target: &str, harness: fn(&[u8])) {
    let mut seeds = 0..;
    corpus::replay(target, Vec::new(), |bytes| {
        harness(bytes);
        let mut rng = Rng::new(&Seed::from_number(seeds.next().unwrap()));
        for _ in 0..30 {
            harness(&changed(bytes, &mut rng));
        }
        for len in 0..bytes.len().min(100) {
            harness(&bytes[..len]);
        }
    });
}

fn changed(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len() as u64) as usize;
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << rng.below(8);
        }
    }
    bytes
}

#[test]
fn sdp() {
    replay("sdp", harness::sdp::run);
}

#[test]
fn offer_answer() {
    replay("offer_answer", harness::offer_answer::run);
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

#[test]
fn rtp() {
    replay_changed("rtp", harness::rtp::run);
}

#[test]
fn rtcp() {
    replay_changed("rtcp", harness::rtcp::run);
}

#[test]
fn srtp() {
    replay_changed("srtp", harness::srtp::run);
}

#[test]
fn stun() {
    replay("stun", harness::stun::run);
}

#[test]
fn zrtp() {
    replay("zrtp", harness::zrtp::run);
}

#[test]
fn zrtp_steps_by_chance() {
    let mut rng = Rng::new(&Seed::from_number(1));
    for _ in 0..60 {
        let mut data = vec![rng.next_u64() as u8];
        for _ in 0..rng.below(60) {
            // Mostly packets pass, so that every state is reached.
            let operation = if rng.chance(700) { rng.below(2) as u8 } else { rng.next_u64() as u8 };
            let bytes: Vec<u8> = (0..rng.below(9)).map(|_| rng.next_u64() as u8).collect();
            data.extend_from_slice(&[operation, bytes.len() as u8]);
            data.extend_from_slice(&bytes);
        }
        harness::zrtp::run(&data);
    }
}
