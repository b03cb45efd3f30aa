//! Sequence numbers: new, late, duplicated and lost packets (RFC 3550 §A.1, §A.3).

/// Classification of a packet by its sequence number, with the extended sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketOrder {
    /// Higher than all before.
    Newest(u64),
    /// Lower than the highest, and not received before.
    Reordered(u64),
    /// Received before.
    Duplicate(u64),
    /// Far from all others; if the next packet follows it, the sender has restarted.
    Stray,
    /// First packet after a restart of the sender at an unrelated number.
    Restarted(u64),
}

/// Numbers of packets by their sequence numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceCounts {
    /// Packets expected by the sequence numbers.
    pub expected: u64,
    /// Packets received, without duplicates.
    pub received: u64,
    /// Received packets that were overtaken by a later one.
    pub reordered: u64,
    /// Duplicates.
    pub duplicates: u64,
    /// Bursts of lost packets.
    pub loss_bursts: u64,
    /// Packets with a sequence number far from all others that was not followed.
    pub strays: u64,
}

impl SequenceCounts {
    /// Packets lost.
    pub const fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.received)
    }

    /// Sum of both.
    pub const fn and(&self, other: &Self) -> Self {
        Self {
            expected: self.expected + other.expected,
            received: self.received + other.received,
            reordered: self.reordered + other.reordered,
            duplicates: self.duplicates + other.duplicates,
            loss_bursts: self.loss_bursts + other.loss_bursts,
            strays: self.strays + other.strays,
        }
    }
}

/// Tracks the sequence numbers of one source.
///
/// `window` has one bit for each of the last 128 sequence numbers, the lowest bit for `highest`, set when the
/// packet has arrived. A packet whose bit leaves the window unset is lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct SequenceTracker {
    run: Option<Run>,
    /// Counters before the last restart of the sender.
    past: SequenceCounts,
    /// Sequence number of the next packet if the sender has restarted.
    restart_at: Option<u16>,
    strays: u64,
}

/// Sequence numbers since a restart.
#[derive(Clone, Copy, Debug)]
struct Run {
    base: u64,
    highest: u64,
    window: u128,
    received: u64,
    reordered: u64,
    duplicates: u64,
    bursts: u64,
    in_burst: bool,
}

impl SequenceTracker {
    /// Counts a packet and classifies its number.
    pub fn on_packet(&mut self, sequence: u16) -> PacketOrder {
        let Some(run) = self.run.as_mut() else {
            // One cycle ahead, so that a packet overtaken by the first one has a number too.
            let first = LAP + u64::from(sequence);
            self.run = Some(Run::new(first));
            return PacketOrder::Newest(first);
        };
        let ahead = sequence.wrapping_sub(run.highest as u16);
        let behind = ahead.wrapping_neg();
        if ahead != 0 && ahead < DROPOUT_MAX {
            self.restart_at = None;
            PacketOrder::Newest(run.advance(u64::from(ahead)))
        } else if u32::from(behind) < u128::BITS {
            self.restart_at = None;
            run.look_back(u32::from(behind))
        } else if self.restart_at == Some(sequence) {
            self.past = self.past.and(&run.counts());
            // The packet before was counted as a stray and is the first of the new run.
            let first = LAP + u64::from(sequence);
            let mut run = Run::new(first - 1);
            run.advance(1);
            self.strays = self.strays.saturating_sub(1);
            self.run = Some(run);
            self.restart_at = None;
            PacketOrder::Restarted(first)
        } else {
            self.restart_at = Some(sequence.wrapping_add(1));
            self.strays += 1;
            PacketOrder::Stray
        }
    }

    /// Numbers of packets so far.
    pub fn counts(&self) -> SequenceCounts {
        let run = self.run.map(|run| run.counts()).unwrap_or_default();
        SequenceCounts { strays: self.strays, ..self.past.and(&run) }
    }

    /// Extended highest sequence number for receiver reports.
    pub(super) fn highest(&self) -> u32 {
        self.run.map_or(0, |run| run.highest.saturating_sub(LAP) as u32)
    }
}

impl Run {
    const fn new(first: u64) -> Self {
        Self {
            base: first,
            highest: first,
            window: 1,
            received: 1,
            reordered: 0,
            duplicates: 0,
            bursts: 0,
            in_burst: false,
        }
    }

    fn advance(&mut self, ahead: u64) -> u64 {
        for _ in 0..ahead {
            let is_full = self.highest - self.base >= u64::from(u128::BITS) - 1;
            if is_full {
                self.settle(self.window >> (u128::BITS - 1) != 0);
            }
            self.window <<= 1;
            self.highest += 1;
        }
        self.window |= 1;
        self.received += 1;
        self.highest
    }

    fn look_back(&mut self, behind: u32) -> PacketOrder {
        let number = self.highest.saturating_sub(u64::from(behind));
        if self.window >> behind & 1 == 1 {
            self.duplicates += 1;
            return PacketOrder::Duplicate(number);
        }
        self.window |= 1 << behind;
        self.base = self.base.min(number);
        self.received += 1;
        self.reordered += 1;
        PacketOrder::Reordered(number)
    }

    /// Counts a sequence number that leaves the window as arrived or lost.
    fn settle(&mut self, arrived: bool) {
        self.bursts += u64::from(!arrived && !self.in_burst);
        self.in_burst = !arrived;
    }

    fn counts(&self) -> SequenceCounts {
        let expected = self.highest - self.base + 1;
        let mut rest = *self;
        for at in (0..expected.min(u64::from(u128::BITS))).rev() {
            rest.settle(self.window >> at & 1 == 1);
        }
        SequenceCounts {
            expected,
            received: self.received,
            reordered: self.reordered,
            duplicates: self.duplicates,
            loss_bursts: rest.bursts,
            strays: 0,
        }
    }
}

/// Number of sequence numbers in a cycle.
const LAP: u64 = 1 << 16;
/// Gap that indicates a restart of the sender (RFC 3550 §A.1: MAX_DROPOUT).
const DROPOUT_MAX: u16 = 3000;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use ringway_sansio::{Rng, Seed};

    fn counts_of(numbers: impl IntoIterator<Item = u16>) -> SequenceCounts {
        let mut tracker = SequenceTracker::default();
        for number in numbers {
            tracker.on_packet(number);
        }
        tracker.counts()
    }

    #[test]
    fn a_wrap_is_not_loss() {
        let counts = counts_of((0..200).map(|at: u16| at.wrapping_add(65_500)));
        assert_eq!((counts.expected, counts.received, counts.lost(), counts.loss_bursts), (200, 200, 0, 0));
        let mut tracker = SequenceTracker::default();
        (65_530..=65_535).chain(0..10).for_each(|number| _ = tracker.on_packet(number));
        assert_eq!(tracker.highest(), 65_536 + 9);
    }

    #[test]
    fn each_packet_is_counted_once() {
        let counts = counts_of([10, 11, 13, 12, 12, 15, 15, 16, 20, 9]);
        let expected = SequenceCounts {
            expected: 12,
            received: 8,
            reordered: 2,
            duplicates: 2,
            loss_bursts: 2,
            strays: 0,
        };
        assert_eq!(counts, expected);
    }

    #[test]
    fn a_stray_changes_nothing_and_a_restart_is_followed() {
        let mut tracker = SequenceTracker::default();
        (100..110).for_each(|number| _ = tracker.on_packet(number));
        assert_eq!(tracker.on_packet(40_000), PacketOrder::Stray);
        assert_eq!(tracker.on_packet(110), PacketOrder::Newest(LAP + 110));
        assert_eq!(tracker.on_packet(50_000), PacketOrder::Stray);
        assert_eq!(tracker.on_packet(50_001), PacketOrder::Restarted(LAP + 50_001));
        assert_eq!(tracker.on_packet(50_002), PacketOrder::Newest(LAP + 50_002));
        let counts = tracker.counts();
        assert_eq!((counts.expected, counts.received, counts.strays), (14, 14, 1));
    }

    #[test]
    fn it_agrees_with_a_set_on_many_random_streams() {
        for seed in 0..200 {
            let mut rng = Rng::new(&Seed::from_number(seed));
            let start = rng.below(65_536) as u16;
            let mut sent: alloc::vec::Vec<u16> = (0..3000).collect();
            sent.retain(|number| *number == 0 || *number == 2999 || !rng.random_bool(300));
            let inner = 1..sent.len() - 1;
            for chunk in sent[inner].chunks_mut(40) {
                for at in 0..chunk.len() {
                    let other = rng.below(chunk.len() as u64) as usize;
                    chunk.swap(at, other);
                }
            }
            let unique: BTreeSet<u16> = sent.iter().copied().collect();
            let present: alloc::vec::Vec<bool> = (0..3000).map(|number| unique.contains(&number)).collect();
            let bursts = present.windows(2).filter(|pair| pair[0] && !pair[1]).count() as u64;
            let counts = counts_of(sent.iter().map(|number| start.wrapping_add(*number)));
            assert_eq!(counts.expected, 3000, "seed {seed}");
            assert_eq!(counts.received, unique.len() as u64, "seed {seed}");
            assert_eq!(counts.loss_bursts, bursts, "seed {seed}");
        }
    }
}
