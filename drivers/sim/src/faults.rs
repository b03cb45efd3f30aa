//! Faults of a link.

use ringway_sansio::{Instant, Rng};
use std::ops::Range;
use std::time::Duration;

/// Faults of a link in one direction.
///
/// Packets of one link stay in order for any delays, except those that [`Faults::reorder_per_mille`] selects. A stream
/// loses, duplicates and reorders nothing: lost segments arrive later and delay those after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Datagrams of a thousand that are lost; 1000 cuts the link, for streams too.
    pub loss_per_mille: u32,
    /// Datagrams of a thousand that arrive twice.
    pub duplicate_per_mille: u32,
    /// Datagrams of a thousand that are delayed until later ones have overtaken them.
    pub reorder_per_mille: u32,
    /// Delay of a packet; an empty range means its start.
    pub delay: Range<Duration>,
}

impl Default for Faults {
    /// Good local network: no loss, 1 to 2 ms of delay.
    fn default() -> Self {
        Self {
            loss_per_mille: 0,
            duplicate_per_mille: 0,
            reorder_per_mille: 0,
            delay: Duration::from_millis(1)..Duration::from_millis(2),
        }
    }
}

impl Faults {
    /// Link that carries nothing.
    pub fn cut() -> Self {
        Self { loss_per_mille: 1000, ..Self::default() }
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.loss_per_mille >= 1000
    }

    pub(crate) fn draw_delay(&self, rng: &mut Rng) -> Duration {
        let spread = self.delay.end.saturating_sub(self.delay.start);
        self.delay.start + below(rng, spread)
    }

    /// Arrival times of a datagram sent at `now`: none, one or two. `last` is the latest arrival on the link.
    pub(crate) fn arrivals(&self, now: Instant, last: &mut Instant, rng: &mut Rng) -> Vec<Instant> {
        if rng.random_bool(self.loss_per_mille) {
            return Vec::new();
        }
        let copies = if rng.random_bool(self.duplicate_per_mille) { 2 } else { 1 };
        let mut arrivals = Vec::with_capacity(copies);
        for _ in 0..copies {
            let arrival = now + self.draw_delay(rng);
            if rng.random_bool(self.reorder_per_mille) {
                arrivals.push(arrival + OVERTAKEN_MIN + below(rng, OVERTAKEN_SPREAD));
            } else {
                *last = arrival.max(*last);
                arrivals.push(*last);
            }
        }
        arrivals
    }

    /// Arrival time of a stream's bytes sent at `now`; `None` if the link is cut.
    pub(crate) fn stream_arrival(&self, now: Instant, last: &mut Instant, rng: &mut Rng) -> Option<Instant> {
        if self.is_cut() {
            return None;
        }
        let mut arrival = now + self.draw_delay(rng);
        let mut again = STREAM_RETRANSMISSION;
        for _ in 0..STREAM_LOSSES_MAX {
            if !rng.random_bool(self.loss_per_mille) {
                break;
            }
            arrival = arrival + again;
            again *= 2;
        }
        *last = arrival.max(*last);
        Some(*last)
    }
}

fn below(rng: &mut Rng, duration: Duration) -> Duration {
    Duration::from_nanos(rng.below(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
}

/// Additional delay of a reordered datagram, 20 to 220 ms: longer than most responses take, shorter than the first
/// retransmission.
const OVERTAKEN_MIN: Duration = Duration::from_millis(20);
const OVERTAKEN_SPREAD: Duration = Duration::from_millis(200);

/// Time until the first retransmission of a TCP segment; each further one takes twice as long. A segment is therefore at
/// most 6.2 s late, less than the time limit of an incomplete message.
const STREAM_RETRANSMISSION: Duration = Duration::from_millis(200);
const STREAM_LOSSES_MAX: usize = 5;
