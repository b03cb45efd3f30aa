//! Trait of protocol machines that send at a fixed packet interval.

use crate::{Deadline, Flow, Instant, Outbox};
use core::time::Duration;

/// Protocol machine that sends at a fixed packet interval, for example the audio of a call with one packet every 20 ms.
///
/// Each packet is encoded and encrypted one tick (packet interval) ahead, so that nothing but the sending happens at the
/// tick. All other packets (responses, reports, keep-alives) go into an [`Outbox`] as with a [`Node`](crate::Node) and
/// are sent at once. The listener of a [`Flow`] is the index of the port: RTP has 0, RTCP 1.
///
/// A driver runs a machine on one thread, which must not block or allocate. A machine should therefore allocate only in
/// [`PacedNode::on_command`].
pub trait PacedNode {
    /// Command from the program.
    type Command;

    /// Report to the program.
    type Report;

    /// Time between two ticks. A change applies from the next tick on.
    fn packet_interval(&self) -> Duration;

    /// Prepares the packet of the tick at `due`; `now` is right after the previous tick. If the driver was late and
    /// skipped ticks, `due` is later by a multiple of the interval.
    fn prepare(&mut self, now: Instant, due: Instant, out: &mut Outbox);

    /// Handles a datagram of `flow` that arrived at `arrived`, at or before `now`. The bytes may be changed in place.
    fn on_datagram(&mut self, now: Instant, arrived: Instant, flow: Flow, bytes: &mut [u8], out: &mut Outbox);

    /// Executes a command of the program.
    fn on_command(&mut self, now: Instant, command: Self::Command, out: &mut Outbox);

    /// Performs everything that is due at `now` except the tick. An early call has no effect.
    fn on_timeout(&mut self, now: Instant, out: &mut Outbox);

    /// Time of the next necessary call of [`PacedNode::on_timeout`]. `None`: not before another input.
    fn next_deadline(&self) -> Option<Deadline>;

    /// Next report to the program; call it until it returns `None`.
    fn poll_report(&mut self, now: Instant) -> Option<Self::Report>;
}

/// Time of the tick after the one that was `due` and sent at `now`, and the number of ticks skipped in between.
///
/// Packets that are less than five ticks late are still sent, one right after the other; later ones are skipped, because
/// the peer has played on without them. Ticks keep their phase. The interval is at least 1 ms, so that a wrong value does
/// not occupy the processor.
pub fn tick_after(due: Instant, now: Instant, interval: Duration) -> (Instant, u64) {
    let (late, interval) = (now.since(due), interval.max(INTERVAL_MIN));
    if late < interval * SKIP_FROM_TICKS {
        return (due + interval, 0);
    }
    let skipped = late.as_nanos() / interval.as_nanos();
    let skipped = u32::try_from(skipped).unwrap_or(u32::MAX);
    (due + interval * skipped.saturating_add(1), u64::from(skipped))
}

/// Number of late ticks from which on they are skipped.
const SKIP_FROM_TICKS: u32 = 5;

const INTERVAL_MIN: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_late_packets_are_still_sent_and_many_are_skipped() {
        let (due, interval) = (Instant::from_secs(1), Duration::from_millis(20));
        let after = |late_ms| {
            let (next, skipped) = tick_after(due, due + Duration::from_millis(late_ms), interval);
            (next.since(due).as_millis(), skipped)
        };
        assert_eq!([after(0), after(19), after(99)], [(20, 0); 3]);
        assert_eq!([after(100), after(119), after(1000)], [(120, 5), (120, 5), (1020, 50)]);
        assert_eq!(tick_after(due, due, Duration::ZERO), (due + INTERVAL_MIN, 0));
    }
}
