//! Cost of what is refused before the library gets it.
//!
//! `cargo test --release -p ringway-dtls --lib cost -- --ignored --nocapture` prints it; the processor should do nothing else.

use crate::inbound::Inbound;
use ringway_sdp::DtlsRole;
use std::time::{Duration, Instant};

/// Bytes of a datagram that is refused.
const BYTES: usize = 10_000;
/// Maximum cost of it, in optimized code.
const COST_MAX: Duration = Duration::from_micros(50);

/// A fragment of the message `sequence`, a Certificate of 14,000 bytes.
fn fragment(sequence: u8, offset: usize, bytes: usize) -> Vec<u8> {
    let number = |number: usize| (number as u32).to_be_bytes()[1..].to_vec();
    let header = [vec![11], number(14_000), vec![0, sequence], number(offset), number(bytes)].concat();
    [header, vec![7; bytes]].concat()
}

fn record(payload: &[u8]) -> Vec<u8> {
    let header = [22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 9];
    [&header, &(payload.len() as u16).to_be_bytes()[..], payload].concat()
}

/// One record with fragments of so many bytes each, every second of which is missing.
fn chain(sequence: u8, bytes: usize) -> Vec<u8> {
    let count = (BYTES - 13) / (12 + bytes);
    let offsets = (0..count).map(|at| (2 * at * bytes + bytes) % (14_000 - bytes));
    record(&offsets.flat_map(|offset| fragment(sequence, offset, bytes)).collect::<Vec<_>>())
}

/// The same in a record each.
fn records(sequence: u8, bytes: usize) -> Vec<u8> {
    let count = BYTES / (13 + 12 + bytes);
    let offsets = (0..count).map(|at| (2 * at * bytes + bytes) % (14_000 - bytes));
    offsets.flat_map(|offset| record(&fragment(sequence, offset, bytes))).collect()
}

#[test]
#[ignore = "a measurement, with optimization"]
fn the_cost_of_refused_fragments() {
    let rows = [
        ("fragments of 1 byte", chain(1, 1)),
        ("fragments of 100 bytes", chain(1, 100)),
        ("fragments of 1,000 bytes", chain(1, 1000)),
        ("fragments of 1 byte, a record each", records(1, 1)),
        ("fragments of 100 bytes, a record each", records(1, 100)),
        ("fragments of 1,000 bytes, a record each", records(1, 1000)),
        ("fragments of the next message", chain(0, 1)),
        ("fragments of a message too far ahead", chain(99, 1)),
        ("empty records", record(&[]).repeat(BYTES / 13)),
    ];
    let mut missed = Vec::new();
    for (what, datagram) in rows {
        let mut inbound = Inbound::new(DtlsRole::Active);
        // As many fragments as may be kept, of the two messages that are not complete.
        for bytes in [1, 3, 50] {
            inbound.admit(&chain(1, bytes));
        }
        let kept = inbound.kept_bytes();
        let mut costs: Vec<Duration> = (0..2000)
            .map(|_| {
                let begun = Instant::now();
                std::hint::black_box(inbound.admit(&datagram));
                begun.elapsed()
            })
            .collect();
        costs.sort();
        assert_eq!(inbound.kept_bytes(), kept, "{what}: something was kept");
        let (median, highest) = (costs[costs.len() / 2], costs[costs.len() * 99 / 100]);
        println!("{what}: {median:?} for {} bytes, 99th percentile {highest:?}", datagram.len());
        if median > COST_MAX {
            missed.push(what);
        }
    }
    assert!(missed.is_empty() || cfg!(debug_assertions), "more than {COST_MAX:?}: {missed:?}");
}
