//! What a link does to what it carries.

use ringway_sansio::{Instant, Rng};
use std::ops::Range;
use std::time::Duration;

/// The faults of a link, in one direction.
///
/// Packets of one link stay in order, whatever delays they draw, except for those that [`Faults::reorder_per_mille`]
/// picks. A stream loses, doubles and reorders nothing: what would be lost arrives later, and holds up what is behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// How many of a thousand datagrams never arrive; 1000 cuts the link, for streams too.
    pub loss_per_mille: u32,
    /// How many of a thousand datagrams arrive twice.
    pub duplicate_per_mille: u32,
    /// How many of a thousand datagrams are held back so long that later ones overtake them.
    pub reorder_per_mille: u32,
    /// How long a packet is on its way; an empty range means its start, always.
    pub delay: Range<Duration>,
}

impl Default for Faults {
    /// A good local network: nothing is lost, 1 to 2 ms.
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
    /// A link that carries nothing.
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

    /// When datagrams sent at `now` arrive: none, one or two. `last` is when the link's latest one does.
    pub(crate) fn arrivals(&self, now: Instant, last: &mut Instant, rng: &mut Rng) -> Vec<Instant> {
        if rng.chance(self.loss_per_mille) {
            return Vec::new();
        }
        let copies = if rng.chance(self.duplicate_per_mille) { 2 } else { 1 };
        let mut arrivals = Vec::with_capacity(copies);
        for _ in 0..copies {
            let arrival = now + self.draw_delay(rng);
            if rng.chance(self.reorder_per_mille) {
                arrivals.push(arrival + OVERTAKEN_MIN + below(rng, OVERTAKEN_SPREAD));
            } else {
                *last = arrival.max(*last);
                arrivals.push(*last);
            }
        }
        arrivals
    }

    /// When bytes of a stream sent at `now` arrive; `None` over a link that is cut.
    pub(crate) fn stream_arrival(&self, now: Instant, last: &mut Instant, rng: &mut Rng) -> Option<Instant> {
        if self.is_cut() {
            return None;
        }
        let mut arrival = now + self.draw_delay(rng);
        let mut again = STREAM_RETRANSMISSION;
        for _ in 0..STREAM_LOSSES_MAX {
            if !rng.chance(self.loss_per_mille) {
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

/// Held back by 20 to 220 ms: longer than most answers take, shorter than the first retransmission.
const OVERTAKEN_MIN: Duration = Duration::from_millis(20);
const OVERTAKEN_SPREAD: Duration = Duration::from_millis(200);

/// A TCP segment's first retransmission; it doubles. So a segment is late by 6.2 s at most, less than a connection allows for the
/// rest of a message.
const STREAM_RETRANSMISSION: Duration = Duration::from_millis(200);
const STREAM_LOSSES_MAX: usize = 5;
