//! Replay of the committed corpora with random changes: part of the tests of `proto/`.

use super::corpus;
use ringway_sansio::{Rng, Seed};
use std::vec::Vec;

/// Runs `harness` on the target's corpus, and on each of its files with random bit errors and cut short.
pub(crate) fn replay(target: &str, harness: fn(&[u8])) {
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
