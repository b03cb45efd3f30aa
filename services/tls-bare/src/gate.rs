//! Limits of handshakes: in number, by source, and in time.
//!
//! There is one core and one task for all connections. A handshake takes the core for some tenths of a millisecond, on a slow
//! one longer, so a flood of them would delay the datagrams of all other users. A handshake therefore begins only once in each
//! turn of the task, [`PER_SECOND`] times a second, and less often if the turns with a handshake take more than one of
//! [`SHARE`] parts of the time. Others wait with their first record until their deadline.

use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use ringway_sansio::{Instant, source_of};

/// Counters of handshakes since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandshakeCounters {
    /// Handshakes completed.
    pub completed: u64,
    /// Handshakes that failed: invalid bytes, no common version, suite or group, a certificate that the client refused.
    pub failed: u64,
    /// Handshakes that waited, because too many began.
    pub waited: u64,
    /// Connections refused because [`HANDSHAKES_MAX`] handshakes were in progress.
    pub refused: u64,
    /// Connections refused because too many handshakes of their source were in progress.
    pub refused_source: u64,
    /// Connections to the TLS port that began with something else than TLS.
    pub not_tls: u64,
}

/// State of all handshakes of a station.
#[derive(Debug)]
pub(crate) struct Gate(RefCell<State>);

#[derive(Debug)]
struct State {
    /// One entry for each handshake in progress.
    sources: Vec<IpAddr>,
    /// Number of those that wait for their turn.
    waiting: usize,
    /// Beginning of this turn.
    now: Instant,
    /// Earliest time of the next handshake at an even rate; at most [`BURST_TIME`] after now if one may begin.
    due: Instant,
    /// True if a handshake began in this turn.
    has_begun: bool,
    counters: HandshakeCounters,
    failure: Option<(SocketAddr, String)>,
}

/// A counter of [`HandshakeCounters`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Completed,
    NotTls,
}

impl Gate {
    pub(crate) fn new(now: Instant) -> Self {
        Self(RefCell::new(State {
            sources: Vec::new(),
            waiting: 0,
            now,
            due: now,
            has_begun: false,
            counters: HandshakeCounters::default(),
            failure: None,
        }))
    }

    /// Begins a turn: one more handshake may begin.
    pub(crate) fn begin_turn(&self, now: Instant) {
        self.change(|state| {
            if core::mem::replace(&mut state.has_begun, false) {
                let share = now.since(state.now).saturating_mul(SHARE);
                state.due = state.due + share.saturating_sub(INTERVAL).min(PAUSE_MAX);
            }
            state.now = now;
        });
    }

    /// Counts a handshake in progress. False: there are too many.
    pub(crate) fn enter(&self, address: IpAddr) -> bool {
        let source = source_of(address);
        self.change(|state| {
            if state.sources.len() >= HANDSHAKES_MAX {
                state.counters.refused += 1;
                return false;
            }
            if state.sources.iter().filter(|other| **other == source).count() >= OF_ONE_SOURCE_MAX {
                state.counters.refused_source += 1;
                return false;
            }
            state.sources.push(source);
            true
        })
    }

    /// Ends a handshake in progress.
    pub(crate) fn leave(&self, address: IpAddr) {
        let source = source_of(address);
        self.change(|state| {
            if let Some(index) = state.sources.iter().position(|other| *other == source) {
                state.sources.swap_remove(index);
            }
        });
    }

    /// Lets the computation of a handshake begin. False: not in this turn.
    pub(crate) fn may_begin(&self) -> bool {
        self.change(|state| {
            let may = !state.has_begun && state.due <= state.now + BURST_TIME;
            if may {
                state.has_begun = true;
                state.due = state.due.max(state.now) + INTERVAL;
            }
            may
        })
    }

    /// Notes that a handshake in progress waits for its turn.
    pub(crate) fn wait(&self) {
        self.change(|state| {
            state.waiting += 1;
            state.counters.waited += 1;
        });
    }

    /// Notes that a handshake that waited began or ended.
    pub(crate) fn waited(&self) {
        self.change(|state| state.waiting = state.waiting.saturating_sub(1));
    }

    /// True if a handshake waits for its turn.
    pub(crate) fn is_awaited(&self) -> bool {
        self.change(|state| state.waiting > 0)
    }

    pub(crate) fn count(&self, what: Count) {
        self.change(|state| match what {
            Count::Completed => state.counters.completed += 1,
            Count::NotTls => state.counters.not_tls += 1,
        });
    }

    /// Counts a failed handshake. The first failure since the last [`Gate::take_failure`] is kept.
    pub(crate) fn failed(&self, peer: SocketAddr, why: impl FnOnce() -> String) {
        self.change(|state| {
            state.counters.failed += 1;
            if state.failure.is_none() {
                state.failure = Some((peer, why()));
            }
        });
    }

    pub(crate) fn take_failure(&self) -> Option<(SocketAddr, String)> {
        self.change(|state| state.failure.take())
    }

    pub(crate) fn counters(&self) -> HandshakeCounters {
        self.change(|state| state.counters)
    }

    pub(crate) fn in_progress(&self) -> usize {
        self.change(|state| state.sources.len())
    }

    /// No method calls back, so the state is never borrowed twice.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.borrow_mut())
    }
}

/// Maximum number of handshakes in progress: a handshake that waits for its turn and one whose client does not answer
/// included.
pub const HANDSHAKES_MAX: usize = 32;

/// Maximum number of handshakes in progress of one source (an IPv4 address).
const OF_ONE_SOURCE_MAX: usize = 8;

/// Maximum number of handshakes that begin in a second.
const PER_SECOND: u64 = 50;
const INTERVAL: Duration = Duration::from_millis(1000 / PER_SECOND);

/// Time in which the handshakes that begin after a pause do not wait for their interval: ten, one in each turn.
const BURST_TIME: Duration = Duration::from_millis(9 * 1000 / PER_SECOND);

/// Handshakes take one of this many parts of the time at most: 2 ms of each interval.
const SHARE: u32 = 10;

/// Maximum pause after a handshake: also that on a very slow core, or after a turn that took long for another reason.
const PAUSE_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn handshakes_are_limited_by_source_and_together() {
        let gate = Gate::new(Instant::from_secs(1));
        for _ in 0..OF_ONE_SOURCE_MAX {
            assert!(gate.enter(address(1)));
        }
        assert!(!gate.enter(address(1)), "one source has its share");
        for other in 2..=4 {
            for _ in 0..OF_ONE_SOURCE_MAX {
                assert!(gate.enter(address(other)));
            }
        }
        assert_eq!(gate.in_progress(), HANDSHAKES_MAX);
        assert!(!gate.enter(address(9)), "all are in progress");
        gate.leave(address(3));
        assert!(gate.enter(address(9)));
        let counters = gate.counters();
        assert_eq!((counters.refused, counters.refused_source), (1, 1));
    }

    /// Handshakes that begin in ten seconds of turns, if a turn with a handshake takes `cost`.
    fn begun_in_ten_seconds(cost: Duration) -> u64 {
        let begin = Instant::from_secs(1);
        let (mut now, mut begun) = (begin, 0);
        let gate = Gate::new(now);
        while now.since(begin) < Duration::from_secs(10) {
            gate.begin_turn(now);
            let first = gate.may_begin();
            begun += u64::from(first);
            assert!(!(first && gate.may_begin()), "two in one turn");
            now = now + if first { cost } else { Duration::from_millis(1) };
        }
        begun
    }

    #[test]
    fn handshakes_are_limited_in_number_and_by_their_share_of_the_time() {
        let burst = 10;
        let cheap = begun_in_ten_seconds(Duration::from_micros(500));
        assert!((10 * PER_SECOND..=10 * PER_SECOND + burst).contains(&cheap), "{cheap}");
        for cost_ms in [4, 20, 50] {
            let begun = begun_in_ten_seconds(Duration::from_millis(cost_ms));
            let share = 1000 / cost_ms;
            assert!((share - 1..=share + burst).contains(&begun), "{begun} of {cost_ms} ms");
        }
    }
}
