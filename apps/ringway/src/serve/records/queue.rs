//! Ended calls on their way from the workers to the thread that writes them.

use ringway_server::CallRecord;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Bounded queue. Nobody is woken: the thread looks every 200 ms.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    records: VecDeque<CallRecord>,
    bytes: usize,
    lost: u64,
}

impl Queue {
    /// Adds a record, or counts it as lost.
    pub(super) fn push(&self, record: CallRecord) {
        let mut waiting = self.lock();
        let size = record.size();
        if waiting.records.len() >= RECORDS_MAX || waiting.bytes + size > BYTES_MAX {
            waiting.lost += 1;
            return;
        }
        waiting.bytes += size;
        waiting.records.push_back(record);
    }

    pub(super) fn take(&self) -> VecDeque<CallRecord> {
        let mut waiting = self.lock();
        waiting.bytes = 0;
        std::mem::take(&mut waiting.records)
    }

    /// True if there is room for [`ROOM`] records of any length.
    pub(super) fn has_room(&self) -> bool {
        let waiting = self.lock();
        waiting.records.len() + ROOM <= RECORDS_MAX && waiting.bytes <= BYTES_MAX / 2
    }

    /// Records that did not fit.
    pub(super) fn lost(&self) -> u64 {
        self.lock().lost
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum number of ended calls that wait: those of 200 ms.
const RECORDS_MAX: usize = 10_000;
const BYTES_MAX: usize = 8 << 20;
/// Number of records that one round adds when all calls end; half of the bytes are enough for the longest ones.
pub(super) const ROOM: usize = 1000;
