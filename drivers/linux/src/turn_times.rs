//! Histogram of the workers' turns: the time in which messages are answered or forwarded.

use crate::counter::Counter;
use std::time::Duration;

/// Durations of one worker's turns. It has one writer, as the counters have.
#[derive(Debug, Default)]
pub(crate) struct TurnTimes {
    buckets: [Counter; BUCKETS],
    nanos: Counter,
}

/// Histogram of turns: the time from a worker's wake-up for packets until everything that they caused is handed to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnCounts {
    /// Turns of at most [`TurnCounts::bound`] that are longer than the bound before; the last has those above all bounds.
    pub buckets: [u64; BUCKETS],
    /// Sum of the durations in nanoseconds.
    pub nanos: u64,
}

impl TurnTimes {
    pub(crate) fn note(&self, turn: Duration) {
        let nanos = u64::try_from(turn.as_nanos()).unwrap_or(u64::MAX);
        // Units of the first bound; the number of bits is the index of the first power of two that is not less.
        let units = nanos.saturating_sub(1) / FIRST_NANOS;
        let index = (u64::BITS - units.leading_zeros()) as usize;
        self.buckets[index.min(BUCKETS - 1)].increment();
        self.nanos.add(nanos);
    }

    pub(crate) fn add_to(&self, counts: &mut TurnCounts) {
        for (sum, bucket) in counts.buckets.iter_mut().zip(&self.buckets) {
            *sum = sum.wrapping_add(bucket.read());
        }
        counts.nanos = counts.nanos.wrapping_add(self.nanos.read());
    }
}

impl TurnCounts {
    /// Longest turn of a bucket; `None`: it has no bound.
    pub fn bound(index: usize) -> Option<Duration> {
        (index + 1 < BUCKETS).then(|| Duration::from_nanos(FIRST_NANOS << index))
    }
}

/// Number of buckets: bounds from 16 µs to 524 ms.
const BUCKETS: usize = 17;
const FIRST_NANOS: u64 = 16_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_in_the_first_bucket_whose_bound_is_not_less() {
        let counted = |micros_10th: u64| {
            let (times, mut counts) = (TurnTimes::default(), TurnCounts::default());
            times.note(Duration::from_nanos(micros_10th * 100));
            times.add_to(&mut counts);
            assert_eq!((counts.buckets.iter().sum::<u64>(), counts.nanos), (1, micros_10th * 100));
            counts.buckets.iter().position(|count| *count == 1).unwrap()
        };
        assert_eq!([0, 1, 160, 161, 320, 321, 640, 641].map(counted), [0, 0, 0, 1, 1, 2, 2, 3]);
        assert_eq!(counted(u64::MAX / 1000), BUCKETS - 1);
        for index in 0..BUCKETS - 1 {
            let bound = TurnCounts::bound(index).unwrap();
            assert_eq!(counted(bound.as_nanos() as u64 / 100), index);
        }
        assert_eq!(TurnCounts::bound(BUCKETS - 1), None);
    }
}
