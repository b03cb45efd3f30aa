//! Timer values and limits, and the running timers of a transaction.

use crate::slab::SlabKey;
use crate::state::{Timer, non_invite_client};
use core::time::Duration;
use ringway_sansio::{Instant, TimerKey, Wheel};

/// Base values of the timers (RFC 3261 §17.1.1.1, table 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Round-trip time estimate, 500 ms.
    pub t1: Duration,
    /// Maximum interval between retransmissions of non-INVITE requests and INVITE responses, 4 s.
    pub t2: Duration,
    /// Maximum duration of a message in the network, 5 s.
    pub t4: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Self { t1: Duration::from_millis(500), t2: Duration::from_secs(4), t4: Duration::from_secs(5) }
    }
}

impl Timers {
    /// First interval of a retransmission timer, or duration of a state.
    pub fn length(&self, timer: Timer) -> Duration {
        match timer {
            Timer::A | Timer::E | Timer::G => self.t1,
            // RFC 3261 §17.1.1.2: at least 32 s for any T1, because the T1 of the peer counts.
            Timer::D => (self.t1 * 64).max(TIMER_D_MIN),
            Timer::B | Timer::F | Timer::H | Timer::J | Timer::L | Timer::M => self.t1 * 64,
            Timer::I | Timer::K => self.t4,
        }
    }

    /// Interval after `interval`: twice as long; at most T2 for timers E and G.
    pub fn next_interval(&self, timer: Timer, interval: Duration) -> Duration {
        let next = interval * 2;
        if timer == Timer::A { next } else { next.min(self.t2) }
    }

    /// Next interval of a non-INVITE client transaction in `state`: T2 after a provisional response (RFC 3261 §17.1.2.2).
    pub(crate) fn interval_after(
        &self,
        timer: Timer,
        interval: Duration,
        state: non_invite_client::State,
    ) -> Duration {
        match state {
            non_invite_client::State::Proceeding => self.t2,
            non_invite_client::State::Trying
            | non_invite_client::State::Completed
            | non_invite_client::State::Terminated => self.next_interval(timer, interval),
        }
    }
}

const TIMER_D_MIN: Duration = Duration::from_secs(32);

/// Maximum number of transactions in one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Server transactions; above the limit a new request gets 503 without a transaction.
    pub servers_max: usize,
    /// Client transactions.
    pub clients_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { servers_max: 200_000, clients_max: 200_000 }
    }
}

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
