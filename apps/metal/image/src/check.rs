//! Checks that need a running image: `check=memory`, deliberate faults (`provoke=NAME`) that test their reports, and
//! measurement of the cost of messages on this processor (`measure=N`), all on the command line.
//!
//! It covers the time from polling the card's receive ring to the notification for the replies, in cycles of the
//! time-stamp counter; with QEMU's `-icount shift=0` these are instructions, independent of the computer's load. Polls
//! without a frame are not counted. With `measure=stream` an operation is one message over TCP or TLS, and the task Main, which
//! answers it, is counted when a frame began work for it; so are the frames with the peer's acknowledgements. `measure=steps`
//! turns on the server's own timing points, which the machine prints.

use alloc::vec;
use alloc::vec::Vec;
use core::hint::black_box;

use crate::fault::exit_emulator;
use crate::paging::layout;
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

/// Provokes the named fault; returns if the name is unknown.
pub(crate) fn provoke(name: &str) {
    match name {
        "panic" => panic!("provoked"),
        "null" => read(8),
        "nothing" => read(0x7000_0000_0000),
        "text" => write(layout().text.start),
        "rodata" => write(layout().rodata.start),
        "run-data" => run(layout().data.start),
        "stack" => {
            black_box(recurse(0));
        }
        "divide" => {
            // SAFETY: this ends in the report of a divide error.
            unsafe { core::arch::asm!("div {0:e}", in(reg) 0, out("eax") _, inout("edx") 0 => _) };
        }
        "memory" => {
            let mut allocations = Vec::new();
            loop {
                allocations.push(black_box(Vec::<u8>::with_capacity(1 << 20)));
            }
        }
        _ => {}
    }
}

fn read(address: u64) {
    // SAFETY: nothing is mapped there, which ends in the report of a page fault.
    black_box(unsafe { (black_box(address) as *const u8).read_volatile() });
}

fn write(address: u64) {
    // SAFETY: it is read-only, which ends in the report of a page fault.
    unsafe { (black_box(address) as *mut u8).write_volatile(0) };
}

fn run(address: u64) {
    // SAFETY: it is not executable, which ends in the report of a page fault.
    let function =
        unsafe { core::mem::transmute::<*const (), extern "C" fn()>(black_box(address) as *const ()) };
    function();
}

#[expect(unconditional_recursion, reason = "this is what it is for")]
fn recurse(depth: u64) -> u64 {
    let room = black_box([depth; 64]);
    room[0] + recurse(depth + 1) + room[1]
}

/// Cost of operations.
#[derive(Debug)]
pub(crate) struct Measure {
    what: What,
    /// Cycles of the current operation so far.
    cycles: u64,
    /// Cycles of the operations since the last printed line.
    operations: Vec<u64>,
}

/// Operation that is measured.
#[derive(Debug)]
enum What {
    /// This many datagrams; the second number is that of the current operation so far.
    Datagrams(usize, usize),
    /// One message over a stream; with the number of messages before it.
    StreamMessage(u64),
}

impl Measure {
    /// Creates a measurement of operations with that many datagrams each, or of one message over a stream; `None` if it is
    /// neither `stream` nor a positive number, as for `steps`.
    pub(crate) fn of(word: &str) -> Option<Self> {
        let what = match word {
            "stream" => What::StreamMessage(0),
            number => What::Datagrams(number.parse().ok().filter(|number| *number > 0)?, 0),
        };
        Some(Self { what, cycles: 0, operations: Vec::with_capacity(OPERATIONS) })
    }

    /// Records the cycles of `frames` frames that were answered at once.
    pub(crate) fn note_answered(&mut self, frames: usize, cycles: u64) {
        self.cycles += cycles;
        if let What::Datagrams(messages, taken) = &mut self.what {
            *taken += frames;
            if taken >= messages {
                *taken = 0;
                self.end_operation();
            }
        }
    }

    /// Records the cycles of the task Main after a frame that began work for it; `messages` is the number of messages over
    /// streams since the start.
    pub(crate) fn note_begun(&mut self, messages: u64, cycles: u64) {
        let What::StreamMessage(before) = &mut self.what else { return };
        self.cycles += cycles;
        if messages > *before {
            *before = messages;
            self.end_operation();
        }
    }

    fn end_operation(&mut self) {
        self.operations.push(core::mem::take(&mut self.cycles));
        if self.operations.len() == OPERATIONS {
            self.operations.sort_unstable();
            let at = |part: usize| self.operations.get(part).copied().unwrap_or_default();
            say!("measure: {OPERATIONS} operations, {} cycles, {} at least", at(OPERATIONS / 2), at(0));
            self.operations.clear();
        }
    }
}

/// Operations of a printed line.
const OPERATIONS: usize = 1000;
