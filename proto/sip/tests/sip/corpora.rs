//! Replays what the fuzzers found, without needing what fuzzing needs: the committed corpora, the torture messages, and
//! the inputs that once broke something.

use crate::corpus;
use crate::harness;

/// Runs `harness` on the target's corpus and on the torture messages.
fn replay(target: &str, harness: fn(&[u8])) {
    let torture = corpus::files("testdata/rfc4475");
    assert!(torture.len() >= 50, "the torture messages are missing");
    corpus::replay(target, torture, harness);
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
