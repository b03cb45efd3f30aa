//! Queues in front of a machine.

use crate::Instant;
use core::cell::Cell;
use core::time::Duration;

/// Queue of received messages in front of a machine: a datagram socket of a thread, or its stream connections of one listener.
///
/// The driver makes one for each and passes it with each message; a machine keeps in it what the waiting times of its messages show.
/// Messages of one queue are for all shards, and come by one thread.
#[derive(Debug, Default)]
pub struct Queue {
    above_since: Cell<Option<Instant>>,
    above_at: Cell<Instant>,
    refuses_until: Cell<Instant>,
}

impl Queue {
    /// Notes a message that waited. Returns the time for which each message of this queue has waited longer than `target`, without a pause
    /// in which it was empty; `None`: this one did not.
    pub fn note(&self, now: Instant, waited: Duration, target: Duration) -> Option<Duration> {
        if waited <= target {
            self.above_since.set(None);
            return None;
        }
        // The queue was empty before it came, unless it came while the last one waited.
        let is_standing = now.since(self.above_at.get()) <= waited;
        self.above_at.set(now);
        let since = self.above_since.get().filter(|_| is_standing).unwrap_or(now);
        self.above_since.set(Some(since));
        Some(now.since(since))
    }

    /// Time until which its requests are refused as soon as they wait too long, because others were before.
    pub const fn refuses_until(&self) -> Instant {
        self.refuses_until.get()
    }

    /// Sets [`Queue::refuses_until`].
    pub fn refuse_until(&self, until: Instant) {
        self.refuses_until.set(until);
    }
}

/// Waiting time of a message, and where it waited.
#[derive(Clone, Copy, Debug)]
pub struct Waited<'q> {
    /// Time from its arrival in this machine until it was read.
    pub time: Duration,
    /// Queue that it waited in.
    pub queue: &'q Queue,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Duration = Duration::from_millis(5);
    const LONG: Duration = Duration::from_millis(8);

    #[test]
    fn a_queue_stands_while_each_message_came_before_the_last_one_was_read() {
        let (queue, start) = (Queue::default(), Instant::from_secs(10));
        let at = |ms: u64, waited| queue.note(start + Duration::from_millis(ms), waited, TARGET);
        assert_eq!(at(0, LONG), Some(Duration::ZERO));
        assert_eq!(at(7, LONG), Some(Duration::from_millis(7)));
        assert_eq!(at(15, LONG), Some(Duration::from_millis(15)));
        assert_eq!(at(24, LONG), Some(Duration::ZERO), "it was empty before this one came");
        assert_eq!(at(25, TARGET), None);
        assert_eq!(at(26, LONG), Some(Duration::ZERO));
    }
}
