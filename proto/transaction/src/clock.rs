//! The running timers of a transaction.

use crate::slab::SlabKey;
use crate::state::Timer;
use core::time::Duration;
use ringway_sansio::{Instant, TimerKey, Wheel};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub(crate) of: Side,
    pub(crate) key: SlabKey,
    pub(crate) timer: Timer,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Server,
    Client,
    CancelOfClient,
}

/// The running timers of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    retransmission: TimerKey,
    /// The timer that bounds the state.
    state: TimerKey,
    /// The last interval of the retransmission timer.
    pub(crate) interval: Duration,
}

impl Clock {
    /// No timer runs.
    pub(crate) const STOPPED: Self =
        Self { retransmission: TimerKey::NONE, state: TimerKey::NONE, interval: Duration::ZERO };

    /// Starts a timer.
    pub(crate) fn start(&mut self, wheel: &mut Wheel<Due>, now: Instant, length: Duration, due: Due) {
        if due.timer.is_retransmission() {
            self.repeat(wheel, now, length, due);
        } else {
            wheel.cancel(self.state);
            let at = now + length;
            self.state = wheel.arm(if due.timer.only_removes() { rounded_up(at) } else { at }, due);
        }
    }

    /// Starts the retransmission timer, which has expired, with the next interval.
    pub(crate) fn repeat(&mut self, wheel: &mut Wheel<Due>, now: Instant, interval: Duration, due: Due) {
        self.interval = interval;
        self.retransmission = wheel.arm(now + interval, due);
    }

    pub(crate) fn stop_retransmission(&self, wheel: &mut Wheel<Due>) {
        wheel.cancel(self.retransmission);
    }

    /// Stops the timer that bounds the state.
    pub(crate) fn stop_waiting(&self, wheel: &mut Wheel<Due>) {
        wheel.cancel(self.state);
    }

    pub(crate) fn stop(&self, wheel: &mut Wheel<Due>) {
        self.stop_retransmission(wheel);
        self.stop_waiting(wheel);
    }
}

/// Next multiple of [`REMOVAL_INTERVAL`].
const fn rounded_up(at: Instant) -> Instant {
    let interval = REMOVAL_INTERVAL.as_nanos() as u64;
    Instant::from_nanos(at.as_nanos().div_ceil(interval).saturating_mul(interval))
}

/// Interval at which transactions that only absorb retransmissions are removed. A wake-up costs more than the removal:
/// one for each of them would cost a server more than forwarding a message.
const REMOVAL_INTERVAL: Duration = Duration::from_millis(32);
