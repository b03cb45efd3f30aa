//! Replays the corpora of the fuzz targets `stun` and `zrtp`, without needing what fuzzing needs.
#![allow(clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "harness/stun.rs"]
mod stun;
#[path = "harness/zrtp.rs"]
mod zrtp;

use std::fs;
use std::path::{Path, PathBuf};

fn replay(target: &str, harness: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut corpus: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    corpus.sort();
    assert!(corpus.len() >= 10, "the corpus of {target} is missing");
    for file in corpus {
        let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        // Said for whoever sees it fail; passing tests show nothing.
        println!("{}", file.display());
        harness(&bytes);
    }
}

#[test]
fn stun_corpus() {
    replay("stun", stun::run);
}

#[test]
fn zrtp_corpus() {
    replay("zrtp", zrtp::run);
}

#[test]
fn steps_by_chance() {
    let mut rng = ringway_sansio::Rng::new(&ringway_sansio::Seed::from_number(1));
    for _ in 0..60 {
        let mut data = vec![rng.next_u64() as u8];
        for _ in 0..rng.below(60) {
            // Mostly packets pass, so that every state is reached.
            let operation = if rng.chance(700) { rng.below(2) as u8 } else { rng.next_u64() as u8 };
            let bytes: Vec<u8> = (0..rng.below(9)).map(|_| rng.next_u64() as u8).collect();
            data.extend_from_slice(&[operation, bytes.len() as u8]);
            data.extend_from_slice(&bytes);
        }
        zrtp::run(&data);
    }
}
