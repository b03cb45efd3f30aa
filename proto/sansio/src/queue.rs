//! Queues in front of a machine.

use crate::{Instant, Shedding};
use alloc::boxed::Box;
use core::cell::{Cell, RefCell};
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
    new_requests: [Cell<NewRequests>; 2],
    shedding: RefCell<Option<Box<Shedding>>>,
}

/// New requests of a queue in this period, and the part of them that the driver keeps.
#[derive(Clone, Copy, Debug)]
struct NewRequests {
    begins_at: Instant,
    ends_at: Instant,
    handled: u32,
    refused: u32,
    /// In 65,536ths.
    kept: u16,
}

impl Default for NewRequests {
    fn default() -> Self {
        Self {
            begins_at: Instant::default(),
            ends_at: Instant::default(),
            handled: 0,
            refused: 0,
            kept: u16::MAX,
        }
    }
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

    /// Counts a new request that waited so long, of a source that sends many or few, and was handled or refused now. True if
    /// it is time to tell the driver the parts that it is to keep.
    ///
    /// Periods are those of arrivals: what was in the queue when the driver was told shows nothing of the effect.
    pub fn count_new(&self, now: Instant, waited: Duration, is_of_many: bool, is_refused: bool) -> bool {
        let [few, many] = &self.new_requests;
        let place = if is_of_many { many } else { few };
        let mut of = place.get();
        let arrived = Instant::from_nanos(now.as_nanos().saturating_sub(waited.as_nanos() as u64));
        if arrived < of.begins_at {
            return false;
        }
        let is_over = arrived >= of.ends_at;
        if is_over {
            let kept = if of.is_past(arrived) { u16::MAX } else { of.next_kept() };
            of = NewRequests { begins_at: now, ends_at: now + PERIOD, handled: 0, refused: 0, kept };
        }
        if is_refused {
            of.refused += 1;
        } else {
            of.handled += 1;
        }
        place.set(of);
        is_over && self.kept_of_new(now) != [u16::MAX; 2]
    }

    /// Parts of the new requests that the driver is to keep, of sources that send few and of those that send many, in 65,536ths: so many that
    /// those that are refused are an eighth of those that are handled.
    pub fn kept_of_new(&self, now: Instant) -> [u16; 2] {
        self.new_requests.each_ref().map(Cell::get).map(|of| if of.is_past(now) { u16::MAX } else { of.kept })
    }

    /// Tells the driver what to drop.
    pub fn shed(&self, shedding: Shedding) {
        self.shedding.replace(Some(Box::new(shedding)));
    }

    /// Takes the last message of [`Queue::shed`]; `None`: there was none since the last call.
    pub fn take_shedding(&self) -> Option<Box<Shedding>> {
        self.shedding.take()
    }

    /// Sets [`Queue::refuses_until`].
    pub fn refuse_until(&self, until: Instant) {
        self.refuses_until.set(until);
    }
}

impl NewRequests {
    /// True if the queue was not overloaded in between.
    fn is_past(&self, now: Instant) -> bool {
        now > self.ends_at + PERIOD * 4
    }

    fn next_kept(&self) -> u16 {
        let allowed = self.handled / 8 + REFUSED_MIN;
        let kept = u64::from(self.kept);
        let next = if self.refused > allowed {
            let part = kept * u64::from(self.handled + allowed) / u64::from(self.handled + self.refused);
            // Those that are refused in one period waited before it.
            part.max(kept / 2).max(KEPT_MIN)
        } else {
            kept * 9 / 8
        };
        u16::try_from(next).unwrap_or(u16::MAX)
    }
}

/// Time after which the part is computed again.
const PERIOD: Duration = Duration::from_millis(100);

/// Requests of a period that may be refused in any case.
const REFUSED_MIN: u32 = 4;

/// Least part that is kept.
const KEPT_MIN: u64 = 64;

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

    /// Kept part after some periods in which `offered` new requests come, of which the kept part arrives and `handled` can be handled.
    fn kept_of(offered: u32, handled: u32) -> u16 {
        let queue = Queue::default();
        let mut kept = u16::MAX;
        for period in 0..60 {
            let now = Instant::from_secs(10) + PERIOD * period;
            let arrived = offered * u32::from(kept) / u32::from(u16::MAX);
            for number in 0..arrived {
                if queue.count_new(now, Duration::ZERO, false, number >= handled) {
                    kept = queue.kept_of_new(now)[0];
                }
            }
        }
        kept
    }

    #[test]
    fn so_many_are_kept_that_few_are_refused() {
        assert_eq!(kept_of(100, 100), u16::MAX);
        for times in [2, 5, 10] {
            let (kept, part) = (f64::from(kept_of(100 * times, 100)), 65_536.0 / f64::from(times));
            assert!(kept > part * 0.9 && kept < part * 1.45, "{times}: {kept} of {part}");
        }
        let queue = Queue::default();
        let start = Instant::from_secs(10);
        let refuse = |periods| queue.count_new(start + PERIOD * periods, Duration::ZERO, true, true);
        assert!(!(0..200).any(|_| refuse(0)));
        assert!(refuse(1));
        let kept = queue.kept_of_new(start + PERIOD);
        assert_eq!(kept, [u16::MAX, u16::MAX / 2], "sources that send few have a part of their own");
        assert!(!refuse(10), "it was over in between");
    }
}
