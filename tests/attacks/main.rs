//! Attacks on Ringway, each with the defence that it is tried against (docs/decisions/0077).
//!
//! Does: tries every attack in [`rows`] with its defence on: it must fail. With the feature `attack-control` tries it once more with
//! that defence off: it must succeed, or the row proves nothing. `cargo xtask attacks` runs both and writes docs/attacks.md.
//!
//! Does not: floods of a running server for minutes; those are `cargo xtask bench attacks`.
//!
//! Start reading at [`row::Row`].
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "the tests of the server use all of it")]
#[path = "../../proto/server/tests/server/harness.rs"]
mod harness;
#[allow(dead_code, reason = "the tests of the server use all of it")]
#[path = "../../proto/server/tests/server/login.rs"]
mod login;
#[cfg(feature = "attack-control")]
mod report;
mod row;
mod rows;

use row::Row;

/// All rows, by door.
fn all() -> Vec<&'static Row> {
    rows::ALL.iter().flat_map(|rows| rows.iter()).collect()
}

#[cfg(not(feature = "attack-control"))]
#[test]
fn every_attack_fails() {
    for row in all() {
        let seen = (row.attack)();
        let (door, thesis) = (row.door.name(), row.thesis.name());
        let bytes = (seen.received_bytes, seen.sent_bytes);
        assert!(!seen.succeeded, "{door}: {} ({thesis}): the attack succeeds, bytes {bytes:?}", row.name);
    }
}

#[test]
fn every_defence_has_a_row_and_every_row_a_name_of_its_own() {
    let rows = all();
    for defence in ringway_sansio::Defence::ALL {
        assert!(rows.iter().any(|row| row.defence == *defence), "no attack for {}", defence.name());
    }
    let names: std::collections::BTreeSet<_> = rows.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), rows.len());
}

/// The table of docs/attacks.md, in the file that `RINGWAY_ATTACKS` names.
#[cfg(feature = "attack-control")]
#[test]
fn every_attack_succeeds_without_its_defence() {
    let tried = report::try_all(&all());
    if let Some(file) = std::env::var_os("RINGWAY_ATTACKS") {
        std::fs::write(file, report::page(&tried)).expect("the table is written");
    }
    let weak: Vec<_> = tried.iter().filter(|tried| !tried.is_proven()).map(|tried| tried.row.name).collect();
    assert!(weak.is_empty(), "these prove nothing: {weak:#?}");
}
