//! Replays what the fuzzers found, without needing what fuzzing needs: the committed corpora, the torture messages, and
//! the inputs that once broke something.
#![allow(clippy::panic, reason = "a test fails by panicking")]

mod harness;

use std::fs;
use std::path::{Path, PathBuf};

/// Runs `harness` on every file of the target's corpus, and on `more`.
fn replay(target: &str, harness: fn(&[u8])) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let corpus = files(&root.join("fuzz/corpus").join(target));
    assert!(corpus.len() >= 10, "the corpus of {target} is missing");
    let torture = files(&root.join("testdata/rfc4475"));
    assert!(torture.len() >= 50, "the torture messages are missing");
    for file in corpus.into_iter().chain(torture).chain(files(&root.join("testdata/regress"))) {
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
fn message() {
    replay("message", harness::message::run);
}

#[test]
fn stream() {
    replay("stream", harness::stream::run);
}

#[test]
fn uri() {
    replay("uri", harness::uri::run);
}

#[test]
fn digest_header() {
    replay("digest_header", harness::digest_header::run);
}

#[test]
fn edit() {
    replay("edit", harness::edit::run);
}
