//! Checks that need a running image (`check=memory` on the command line).

use alloc::vec;
use alloc::vec::Vec;
use core::hint::black_box;

use crate::fault::exit_emulator;
use crate::say;

/// Compares memcpy, memmove, memset, memcmp and bcmp of memory.s with byte-wise loops, for all short lengths,
/// alignments and overlaps. Then ends QEMU with exit status 1. Panics if a result differs.
pub(crate) fn memory_functions() {
    let mut cases = 0_u32;
    for bytes in (0..=LENGTH_MAX).chain([255, 256, 257, 300]) {
        for from in 0..ALIGNMENTS {
            for to in (0..ALIGNMENTS).chain([bytes / 2, bytes, bytes + 7]) {
                check_move(bytes, from, to);
                cases += 1;
            }
            check_fill(bytes, from);
            check_comparison(bytes, from);
        }
    }
    say!("memory functions: {cases} moves, fills and comparisons are as byte by byte");
    exit_emulator(0);
}

/// Moves within one buffer, so that the ranges may overlap; and copies into another buffer.
fn check_move(bytes: usize, from: usize, to: usize) {
    let original = pattern();
    let mut expected = original.clone();
    for index in 0..bytes {
        put(&mut expected, to + index, original[from + index]);
    }
    let mut moved = original.clone();
    moved.copy_within(black_box(from..from + bytes), to);
    assert!(is_same(&moved, &expected), "memmove of {bytes} bytes from {from} to {to}");
    let mut copied = original.clone();
    copied[to..to + bytes].copy_from_slice(black_box(&original[from..from + bytes]));
    assert!(is_same(&copied, &expected), "memcpy of {bytes} bytes from {from} to {to}");
}

fn check_fill(bytes: usize, from: usize) {
    let mut expected = pattern();
    for index in 0..bytes {
        put(&mut expected, from + index, 0xA5);
    }
    let mut filled = pattern();
    filled[from..from + bytes].fill(black_box(0xA5));
    assert!(is_same(&filled, &expected), "memset of {bytes} bytes at {from}");
}

/// Compares equal ranges, and ranges that differ by one in a single byte.
fn check_comparison(bytes: usize, from: usize) {
    let one = pattern();
    let mut other = pattern();
    let range = from..from + bytes;
    assert!(
        black_box(&one[range.clone()]) == black_box(&other[range.clone()]),
        "bcmp of {bytes} bytes at {from}"
    );
    for index in range.clone() {
        let byte = other[index];
        for different in [byte.wrapping_add(1), byte.wrapping_sub(1)] {
            put(&mut other, index, different);
            let (a, b) = (black_box(&one[range.clone()]), black_box(&other[range.clone()]));
            assert!(
                a != b && a.cmp(b) == byte.cmp(&different),
                "memcmp of {bytes} bytes at {from}, different in {index}"
            );
        }
        put(&mut other, index, byte);
    }
}

fn pattern() -> Vec<u8> {
    let mut bytes = vec![0; BUFFER_BYTES];
    for index in 0..BUFFER_BYTES {
        put(&mut bytes, index, (index * 7 + index / 251) as u8);
    }
    bytes
}

/// Writes one byte; `black_box` prevents that the compiler merges or vectorises the writes.
fn put(bytes: &mut [u8], index: usize, byte: u8) {
    bytes[black_box(index)] = black_box(byte);
}

fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.iter().zip(other).all(|(a, b)| black_box(*a) == black_box(*b))
}

const LENGTH_MAX: usize = 160;
const ALIGNMENTS: usize = 17;
const BUFFER_BYTES: usize = 700;
