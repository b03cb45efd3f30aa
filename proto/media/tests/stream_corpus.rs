//! Replays what the fuzzers found on RTP, RTCP and SRTP, and bytes made at random, without needing what fuzzing needs.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "harness/rtcp.rs"]
mod rtcp;
#[path = "harness/rtp.rs"]
mod rtp;
#[path = "harness/srtp.rs"]
mod srtp;

use std::fs;
use std::path::{Path, PathBuf};

use ringway_sansio::{Rng, Seed};

/// Runs `harness` on every file of the target's corpus, on what broke anything once, and on each of them changed.
fn replay(target: &str, harness: fn(&[u8])) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let corpus = files(&root.join("fuzz/corpus").join(target));
    assert!(corpus.len() >= 10, "the corpus of {target} is missing");
    for (number, file) in (0..).zip(corpus.into_iter().chain(files(&root.join("testdata/regress")))) {
        let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        // Said for whoever sees it fail; passing tests show nothing.
        println!("{}", file.display());
        harness(&bytes);
        let mut rng = Rng::new(&Seed::from_number(number));
        for _ in 0..30 {
            harness(&changed(&bytes, &mut rng));
        }
        for len in 0..bytes.len().min(100) {
            harness(&bytes[..len]);
        }
    }
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

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

#[test]
fn rtp() {
    replay("rtp", rtp::run);
}

#[test]
fn rtcp() {
    replay("rtcp", rtcp::run);
}

#[test]
fn srtp() {
    replay("srtp", srtp::run);
}
