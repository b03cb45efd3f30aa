//! Measurement of the cost of messages on this processor (`measure=N` on the command line), printed on the serial port.
//!
//! It covers the time from polling the card's receive ring to the notification for the replies, in cycles of the
//! time-stamp counter; with QEMU's `-icount shift=0` these are instructions, independent of the computer's load. Polls
//! without a frame are not counted. With `measure=stream` an operation is one message over TCP or TLS, and the task Main, which
//! answers it, is counted when a frame began work for it; so are the frames with the peer's acknowledgements.

use alloc::vec::Vec;

use crate::say;

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
    /// neither `stream` nor a positive number.
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
