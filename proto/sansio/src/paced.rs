//! The trait between drivers and machines that must send on time.

use crate::{Deadline, Flow, Instant, Outbox};
use core::time::Duration;

/// A protocol machine that sends at a beat, such as the sound of a call: one packet every 20 ms, exactly then.
///
/// So that nothing but the sending happens at a beat, what belongs to it is prepared one beat ahead: encoded, encrypted,
/// ready. Everything else (answers, reports, keep-alives) goes into an [`Outbox`] as with a [`Node`](crate::Node), and is
/// sent at once. A [`Flow`]'s listener is the number of the port: media have RTP at 0 and RTCP at 1.
///
/// A driver runs a machine on one thread, which may neither wait nor allocate; so a machine should not either, but in
/// [`PacedNode::on_command`].
pub trait PacedNode {
    /// What the program asks of it while it runs.
    type Command;

    /// What it tells the program.
    type Report;

    /// The time between two beats. A change holds from the next beat on.
    fn beat(&self) -> Duration;

    /// Writes what is to be sent at `due`, the next beat; `now` is right after the one before. Where beats were left out,
    /// because the driver could not run for too long, `due` jumps over them by whole beats.
    fn prepare(&mut self, now: Instant, due: Instant, out: &mut Outbox);

    /// Takes a datagram that came in by `flow` and was at the machine's door at `arrived`, `now` or some time before. The
    /// bytes may be changed in place.
    fn on_datagram(&mut self, now: Instant, arrived: Instant, flow: Flow, bytes: &mut [u8], out: &mut Outbox);

    /// Does what the program asks.
    fn on_command(&mut self, now: Instant, command: Self::Command, out: &mut Outbox);

    /// Does what is due at `now`, other than the beat. Calling it early does no harm.
    fn on_timeout(&mut self, now: Instant, out: &mut Outbox);

    /// When [`PacedNode::on_timeout`] is wanted next. `None`: not before something else happens.
    fn next_deadline(&self) -> Option<Deadline>;

    /// What it has to tell, one at a time, until `None`.
    fn poll_report(&mut self, now: Instant) -> Option<Self::Report>;
}

/// The beat after one that was `due` and kept at `now`, and how many were left out in between.
///
/// A few late packets are worth sending, one right after the other. Many are not: the peer has played on without; from
/// five beats on, those that are over are left out. The beats themselves stay where they were, and none is shorter than
/// 1 ms, so that a wrong one does not take the processor.
pub fn beat_after(due: Instant, now: Instant, beat: Duration) -> (Instant, u64) {
    let (late, beat) = (now.since(due), beat.max(BEAT_MIN));
    if late < beat * CATCH_UP_BEATS {
        return (due + beat, 0);
    }
    let skipped = late.as_nanos() / beat.as_nanos();
    let skipped = u32::try_from(skipped).unwrap_or(u32::MAX);
    (due + beat * skipped.saturating_add(1), u64::from(skipped))
}

/// Beats that are made up for.
const CATCH_UP_BEATS: u32 = 5;

const BEAT_MIN: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_late_beats_are_made_up_for_and_many_are_left_out() {
        let (due, beat) = (Instant::from_secs(1), Duration::from_millis(20));
        let after = |late_ms| {
            let (next, skipped) = beat_after(due, due + Duration::from_millis(late_ms), beat);
            (next.since(due).as_millis(), skipped)
        };
        assert_eq!([after(0), after(19), after(99)], [(20, 0); 3]);
        assert_eq!([after(100), after(119), after(1000)], [(120, 5), (120, 5), (1020, 50)]);
        assert_eq!(beat_after(due, due, Duration::ZERO), (due + BEAT_MIN, 0));
    }
}
