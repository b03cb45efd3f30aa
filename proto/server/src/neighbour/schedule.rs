//! Times of the neighbours, and the rate of their probes.

use crate::Neighbour;
use alloc::collections::BTreeSet;
use core::time::Duration;
use ringway_sansio::Instant;

/// Due times of neighbours by their numbers. A time at which a probe is sent waits for its turn while there are more than
/// [`Neighbour::PROBES_PER_S`]; the others, at which an attempt ends, do not.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    ends: BTreeSet<(Instant, u16)>,
    probes: BTreeSet<(Instant, u16)>,
    rate: Rate,
}

/// Time of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// A probe is sent, or an attempt begins with one.
    Probe(Instant),
    /// An attempt ends without an answer.
    End(Instant),
}

/// Neighbour that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) number: u16,
    /// It waited for its turn for [`DELAY_COUNTED`] at least.
    pub(super) is_delayed: bool,
}

impl Schedule {
    /// Replaces the time of a neighbour.
    pub(super) fn set(&mut self, number: u16, before: Option<Due>, next: Option<Due>) {
        match before {
            Some(Due::Probe(at)) => drop(self.probes.remove(&(at, number))),
            Some(Due::End(at)) => drop(self.ends.remove(&(at, number))),
            None => {}
        }
        match next {
            Some(Due::Probe(at)) => drop(self.probes.insert((at, number))),
            Some(Due::End(at)) => drop(self.ends.insert((at, number))),
            None => {}
        }
    }

    /// Takes the first neighbour that is due out of the schedule.
    pub(super) fn next(&mut self, now: Instant) -> Option<Turn> {
        if self.ends.first().is_some_and(|(at, _)| *at <= now) {
            return self.ends.pop_first().map(|(_, number)| Turn { number, is_delayed: false });
        }
        let is_due = self.probes.first().is_some_and(|(at, _)| *at <= now);
        if !is_due || !self.rate.take(now) {
            return None;
        }
        let (at, number) = self.probes.pop_first()?;
        // A check without a time is due now: at the start, or after a change of the settings.
        let is_delayed = at > Instant::from_secs(0) && now.since(at) >= DELAY_COUNTED;
        Some(Turn { number, is_delayed })
    }

    /// Time of the next [`Schedule::next`] that returns one.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let probe = self.probes.first().map(|(at, _)| (*at).max(self.rate.next_at()));
        self.ends.first().map(|(at, _)| *at).into_iter().chain(probe).min()
    }

    /// Forgets all times.
    pub(super) fn clear(&mut self) {
        self.ends.clear();
        self.probes.clear();
    }
}

/// Rate of probes: [`Neighbour::PROBES_PER_S`], of which [`BURST`] may be sent at once.
#[derive(Debug, Default)]
struct Rate {
    /// Time up to which the probes that were sent fill the rate.
    full_until: Instant,
}

impl Rate {
    fn take(&mut self, now: Instant) -> bool {
        let has_room = self.next_at() <= now;
        if has_room {
            self.full_until = self.full_until.max(now) + INTERVAL;
        }
        has_room
    }

    fn next_at(&self) -> Instant {
        let ahead = INTERVAL * (BURST - 1);
        Instant::from_nanos(self.full_until.as_nanos().saturating_sub(ahead.as_nanos() as u64))
    }
}

/// Probes that may be sent at once: no second has more than 200.
const BURST: u32 = 50;
const INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / Neighbour::PROBES_PER_S as u64);
/// Delay of a probe from which it is counted.
const DELAY_COUNTED: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const T: Instant = Instant::from_secs(1_800_000_000);

    #[test]
    fn probes_are_spread_and_ends_are_not() {
        let mut schedule = Schedule::default();
        (0..10_000).for_each(|number| schedule.set(number, None, Some(Due::Probe(Instant::default()))));
        let (mut now, mut sent) = (T, Vec::new());
        while let Some(due) = schedule.next_due() {
            now = now.max(due);
            let turn = schedule.next(now).unwrap();
            assert!(!turn.is_delayed, "all are due at the start");
            sent.push((now, turn.number));
        }
        assert!(sent.iter().map(|(_, number)| *number).eq(0..10_000));
        let in_second = |from: Instant| {
            sent.iter().filter(|(at, _)| *at >= from && *at < from + Duration::from_secs(1)).count()
        };
        let most = sent.iter().map(|(from, _)| in_second(*from)).max().unwrap();
        assert!((150..=200).contains(&most), "{most} in a second");
        let took = now.since(T).as_secs();
        assert!((60..=70).contains(&took), "{took} s");
        schedule.set(1, None, Some(Due::End(now)));
        schedule.set(2, None, Some(Due::End(now)));
        for number in [1, 2] {
            assert_eq!(schedule.next(now), Some(Turn { number, is_delayed: false }));
        }
        assert_eq!((schedule.next(now), schedule.next_due()), (None, None));
    }

    #[test]
    fn a_probe_that_waited_is_delayed_and_fifty_need_not_wait() {
        let mut schedule = Schedule::default();
        (0..51).for_each(|number| schedule.set(number, None, Some(Due::Probe(T))));
        for number in 0..50 {
            assert_eq!(schedule.next(T), Some(Turn { number, is_delayed: false }));
        }
        assert_eq!(schedule.next(T), None);
        assert_eq!(schedule.next_due(), Some(T + INTERVAL));
        assert_eq!(schedule.next(T + DELAY_COUNTED), Some(Turn { number: 50, is_delayed: true }));
        schedule.set(50, None, Some(Due::Probe(T)));
        schedule.set(50, Some(Due::Probe(T)), Some(Due::Probe(T + DELAY_COUNTED * 9)));
        assert_eq!(schedule.next_due(), Some(T + DELAY_COUNTED * 9));
        schedule.clear();
        assert_eq!(schedule.next_due(), None);
    }
}
