//! Measurement of the cost of messages on this processor (`measure=N` on the command line), printed on the serial port.
//!
//! It covers the time from polling the card's receive ring to the notification for the replies, in cycles of the
//! time-stamp counter; with QEMU's `-icount shift=0` these are instructions, independent of the computer's load. Polls
//! without a frame are not counted.

use alloc::vec::Vec;

use crate::say;

/// Cost of operations, each of `messages` messages.
#[derive(Debug)]
pub(crate) struct Measure {
    messages: usize,
    /// Messages of the current operation so far, and their cycles.
    taken: usize,
    cycles: u64,
    /// Cycles of the operations since the last printed line.
    operations: Vec<u64>,
}

impl Measure {
    /// Creates a measurement with `messages` messages per operation; `None` if it is not a positive number.
    pub(crate) fn of(messages: &str) -> Option<Self> {
        let messages = messages.parse().ok().filter(|messages| *messages > 0)?;
        Some(Self { messages, taken: 0, cycles: 0, operations: Vec::with_capacity(OPERATIONS) })
    }

    /// Records the cycles of a number of messages.
    pub(crate) fn note(&mut self, messages: usize, cycles: u64) {
        self.taken += messages;
        self.cycles += cycles;
        if self.taken < self.messages {
            return;
        }
        self.operations.push(self.cycles);
        (self.taken, self.cycles) = (0, 0);
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
