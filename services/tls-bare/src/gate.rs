//! Limits of handshakes: in number, by source, and in time.
//!
//! There is one core and one task for all connections. A handshake takes the core for some tenths of a millisecond, so a
//! flood of them would delay the datagrams of all other users. A handshake therefore begins only once for each turn of the
//! task, and [`PER_SECOND`] times a second; others wait with their first record until their deadline.

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
    now: Instant,
    /// Unused time of [`PER_SECOND`].
    credit: Duration,
    has_begun: bool,
    counters: HandshakeCounters,
    failure: Option<(SocketAddr, String)>,
}

/// A counter of [`HandshakeCounters`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Completed,
    Waited,
    NotTls,
}

impl Gate {
    pub(crate) fn new(now: Instant) -> Self {
        Self(RefCell::new(State {
            sources: Vec::new(),
            now,
            credit: CREDIT_MAX,
            has_begun: false,
            counters: HandshakeCounters::default(),
            failure: None,
        }))
    }

    /// Begins a turn: one more handshake may begin.
    pub(crate) fn begin_turn(&self, now: Instant) {
        self.change(|state| {
            state.credit = (state.credit + now.since(state.now)).min(CREDIT_MAX);
            state.now = now;
            state.has_begun = false;
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
            let left = state.credit.checked_sub(TIME_OF_ONE);
            let may = !state.has_begun && left.is_some();
            if may {
                state.has_begun = true;
                state.credit = left.unwrap_or_default();
            }
            may
        })
    }

    pub(crate) fn count(&self, what: Count) {
        self.change(|state| match what {
            Count::Completed => state.counters.completed += 1,
            Count::Waited => state.counters.waited += 1,
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

/// Maximum number of handshakes that begin in a second. With 1 ms for each on a slow processor they take a twentieth of it.
const PER_SECOND: u32 = 50;
const TIME_OF_ONE: Duration = Duration::from_millis(1000 / PER_SECOND as u64);

/// Maximum number of handshakes that begin after a pause, one in each turn.
const BURST: u32 = 10;
const CREDIT_MAX: Duration = Duration::from_millis(1000 / PER_SECOND as u64 * BURST as u64);

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

    #[test]
    fn one_handshake_begins_in_a_turn_and_fifty_in_a_second() {
        let mut now = Instant::from_secs(1);
        let gate = Gate::new(now);
        let mut began = 0;
        for _ in 0..10_000 {
            now = now + Duration::from_millis(1);
            gate.begin_turn(now);
            let first = gate.may_begin();
            began += u32::from(first);
            assert!(!(first && gate.may_begin()), "two in one turn");
        }
        assert!((10 * PER_SECOND..=10 * PER_SECOND + BURST).contains(&began), "{began} in ten seconds");
    }
}
