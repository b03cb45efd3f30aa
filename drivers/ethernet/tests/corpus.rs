//! Replays what the fuzzers found, without needing what fuzzing needs: the committed corpora, and the inputs that once
//! broke something.
#![allow(clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod harness;

use std::fs;
use std::path::{Path, PathBuf};

use ringway_sansio::{Rng, Seed};

/// Runs `harness` on every file of the target's corpus, and on what broke anything.
fn replay(target: &str, harness: fn(&[u8])) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let corpus = files(&root.join("fuzz/corpus").join(target));
    assert!(corpus.len() >= 10, "the corpus of {target} is missing");
    for file in corpus.into_iter().chain(files(&root.join("testdata/regress"))) {
        let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        // Said for whoever sees it fail; passing tests show nothing.
        println!("{}", file.display());
        harness(&bytes);
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

#[test]
fn tftp() {
    replay("tftp", harness::tftp::run);
}

/// Histories that no fuzzer had to find.
#[test]
fn tftp_at_random() {
    for seed in 0..2_000 {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let mut history = vec![0x10, 0];
        for _ in 0..rng.below(60) {
            let what = rng.next_u64() as u8;
            let length = rng.below(24) as u8;
            history.extend([what, length]);
            // Codes of packets are small.
            history.extend(
                (0..length).map(|place| if place < 4 { rng.below(9) as u8 } else { rng.next_u64() as u8 }),
            );
        }
        println!("seed {seed}");
        harness::tftp::run(&history);
    }
}
