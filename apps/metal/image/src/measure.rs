//! What a message costs on this processor (`measure=N` on the command line), said on the serial port.
//!
//! Counted is from the look into the card's ring that found messages to the bell that sends what they made, in cycles of the
//! time-stamp counter; with QEMU's `-icount shift=0` these are instructions, the same however busy the computer is. Looks
//! that find nothing do not count.

use alloc::vec::Vec;

use crate::say;

/// Counts the operations, each of `N` messages.
#[derive(Debug)]
pub(crate) struct Measure {
    messages: usize,
    /// Of the operation that is under way: its messages so far, and their cycles.
    taken: usize,
    cycles: u64,
    /// The operations since the last line, by their cycles.
    operations: Vec<u64>,
}

impl Measure {
    /// For operations of as many messages as this says; `None` where it says no number.
    pub(crate) fn of(messages: &str) -> Option<Self> {
        let messages = messages.parse().ok().filter(|messages| *messages > 0)?;
        Some(Self { messages, taken: 0, cycles: 0, operations: Vec::with_capacity(OPERATIONS) })
    }

    /// So many messages were taken and answered in so many cycles.
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

/// The operations of a line.
const OPERATIONS: usize = 1000;
