//! Timer values and limits.

use crate::state::{Timer, non_invite_client};
use core::time::Duration;

/// The times everything else follows from (RFC 3261 §17.1.1.1, table 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// The round-trip time estimate, 500 ms.
    pub t1: Duration,
    /// The longest interval between retransmissions of non-INVITE requests and INVITE responses, 4 s.
    pub t2: Duration,
    /// How long a message stays in the network, 5 s.
    pub t4: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Self { t1: Duration::from_millis(500), t2: Duration::from_secs(4), t4: Duration::from_secs(5) }
    }
}

impl Timers {
    /// The first interval of a retransmission timer, or the length of a state.
    pub fn length(&self, timer: Timer) -> Duration {
        match timer {
            Timer::A | Timer::E | Timer::G => self.t1,
            // RFC 3261 §17.1.1.2: at least 32 s whatever our T1, because the peer's T1 counts here.
            Timer::D => (self.t1 * 64).max(TIMER_D_MIN),
            Timer::B | Timer::F | Timer::H | Timer::J | Timer::L | Timer::M => self.t1 * 64,
            Timer::I | Timer::K => self.t4,
        }
    }

    /// The interval after `interval`: doubled; timers E and G stop growing at T2.
    pub fn next_interval(&self, timer: Timer, interval: Duration) -> Duration {
        let doubled = interval * 2;
        if timer == Timer::A { doubled } else { doubled.min(self.t2) }
    }

    /// The same for a non-INVITE client in `state`: T2 once a provisional response has come (RFC 3261 §17.1.2.2).
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

/// How many transactions there may be at once, in one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Server transactions; over it a new request is answered 503 without one.
    pub servers_max: usize,
    /// Client transactions.
    pub clients_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { servers_max: 200_000, clients_max: 200_000 }
    }
}
