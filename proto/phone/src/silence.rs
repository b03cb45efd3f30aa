//! Detection of a peer that may send sound and does not.

use core::time::Duration;
use ringway_sansio::Instant;

/// Reports when no packet of an answered call arrives although the peer may send. One packet is enough: a peer with silence
/// suppression or comfort noise (RFC 3389) sends no further ones while its user is silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SilenceWatch {
    /// The peer need not send: the call is not answered, one side holds it, or there are no keys yet.
    #[default]
    Idle,
    /// The peer may send since this time.
    Waiting(Instant),
    /// No packet has arrived since this time, and that was reported.
    Silent(Instant),
    /// A packet has arrived.
    Heard,
}

impl SilenceWatch {
    /// Takes the present state: `is_due` if the peer may send, and the arrival of its last packet. Returns true when the
    /// silence is to be reported, false when it has ended after that.
    pub(crate) fn check(&mut self, now: Instant, is_due: bool, last_packet: Option<Instant>) -> Option<bool> {
        let has_come = |since: Instant| last_packet.is_some_and(|at| at >= since);
        match *self {
            Self::Waiting(since) if has_come(since) => *self = Self::Heard,
            Self::Silent(since) if has_come(since) => {
                *self = Self::Heard;
                return Some(false);
            }
            Self::Idle if is_due => *self = Self::Waiting(now),
            Self::Waiting(_) if !is_due => *self = Self::Idle,
            Self::Waiting(since) if now.since(since) >= SILENCE => {
                *self = Self::Silent(since);
                return Some(true);
            }
            Self::Idle | Self::Waiting(_) | Self::Silent(_) | Self::Heard => {}
        }
        None
    }
}

/// Time without a packet after which the silence is reported.
const SILENCE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a watch with a tick every 20 ms; `due` has the ticks from and to which the peer may send. Returns the reports with
    /// their ticks.
    fn run(due: &[(u64, u64)], packets: &[u64], ticks: u64) -> alloc::vec::Vec<(u64, bool)> {
        let (mut watch, mut last) = (SilenceWatch::default(), None);
        let at = |tick: u64| Instant::from_secs(1) + Duration::from_millis(20) * tick as u32;
        let mut reports = alloc::vec::Vec::new();
        for tick in 0..ticks {
            if packets.contains(&tick) {
                last = Some(at(tick));
            }
            let is_due = due.iter().any(|&(from, to)| (from..to).contains(&tick));
            reports.extend(watch.check(at(tick), is_due, last).map(|report| (tick, report)));
        }
        reports
    }

    #[test]
    fn three_seconds_without_a_packet_are_reported_once_and_the_first_packet_after_them() {
        assert_eq!(run(&[(0, 1000)], &[], 1000), [(150, true)]);
        assert_eq!(run(&[(0, 1000)], &[400, 401], 1000), [(150, true), (400, false)]);
        assert_eq!(run(&[(0, 149)], &[], 149), [], "a shorter call is not judged");
        assert_eq!(run(&[(0, 1000)], &[100], 1000), [], "one packet of comfort noise");
    }

    #[test]
    fn a_held_call_and_one_without_keys_are_not_due() {
        assert_eq!(run(&[], &[], 1000), []);
        assert_eq!(run(&[(0, 140), (200, 340)], &[], 1000), [], "each time it begins anew");
        assert_eq!(run(&[(0, 140), (200, 1000)], &[], 1000), [(350, true)]);
        assert_eq!(run(&[(100, 1000)], &[50], 1000), [(250, true)], "sound before the answer does not count");
    }
}
