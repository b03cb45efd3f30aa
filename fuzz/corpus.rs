//! Reading the committed corpora, without needing what fuzzing needs: part of the tests `corpus` in `proto/`, whose crates
//! have no prelude of `std`.

use std::format;
use std::fs;
use std::path::{Path, PathBuf};
use std::println;
use std::vec::Vec;

/// Runs `harness` on every file of the target's corpus, on `more`, and on what once broke anything, in this order.
pub(crate) fn replay(target: &str, more: Vec<PathBuf>, mut harness: impl FnMut(&[u8])) {
    let corpus = files(&format!("fuzz/corpus/{target}"));
    assert!(corpus.len() >= 10, "the corpus of {target} is missing");
    for file in corpus.into_iter().chain(more).chain(files("testdata/regress")) {
        let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        // Shown when the test fails.
        println!("{}", file.display());
        harness(&bytes);
    }
}

/// The files of a folder of the project, in the order of their names.
pub(crate) fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}
