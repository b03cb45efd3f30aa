//! State of each SSRC (RFC 3711 §3.2.3): the packet index, which is rollover counter and sequence number in 48 bits (§3.3.1),
//! and the replay window (§3.3.2).

use alloc::boxed::Box;
use alloc::vec;

/// State of one SSRC. The rollover counter is part of the window's highest index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    ssrc: u32,
    pub(crate) rtp: ReplayWindow,
    pub(crate) rtcp: ReplayWindow,
    /// No RTP packet has been received under the current key: the sender may have restarted its counter.
    pub(crate) rtp_may_restart: bool,
    /// Same for RTCP.
    pub(crate) rtcp_may_restart: bool,
}

/// Candidate indices of a received packet, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexCandidates {
    /// Estimate by RFC 3711 §3.3.1.
    pub(crate) first: Result<u64, IndexError>,
    /// Index to try if the packet does not authenticate with the first.
    pub(crate) second: Option<u64>,
}

impl Stream {
    fn new(window_packets: usize) -> Self {
        let window = ReplayWindow::new(window_packets);
        Self { ssrc: 0, rtp: window.clone(), rtcp: window, rtp_may_restart: false, rtcp_may_restart: false }
    }
}

/// Table of the tracked SSRCs, allocated when the context is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Streams {
    slots: Box<[Stream]>,
    used: usize,
}

impl Streams {
    /// Creates a table for `ssrcs_max` streams.
    pub(crate) fn new(ssrcs_max: usize, window_packets: usize) -> Self {
        Self { slots: (0..ssrcs_max).map(|_| Stream::new(window_packets)).collect(), used: 0 }
    }

    /// Stream at an index returned by [`Self::find`], or a new one for this SSRC; `None` if the table is
    /// full.
    #[inline]
    pub(crate) fn at_or_new(&mut self, at: Option<usize>, ssrc: u32) -> Option<&mut Stream> {
        let at = match at {
            Some(at) => at,
            None => {
                let at = self.used;
                self.slots.get_mut(at)?.ssrc = ssrc;
                self.used += 1;
                at
            }
        };
        self.slots.get_mut(at)
    }

    /// Notes a key change: the sender may continue or restart its counters.
    pub(crate) fn allow_restart(&mut self) {
        for stream in &mut self.slots {
            stream.rtp_may_restart = stream.rtp.highest().is_some();
            stream.rtcp_may_restart = stream.rtcp.highest().is_some();
        }
    }

    /// Index of the stream with this SSRC.
    #[inline]
    pub(crate) fn find(&self, ssrc: u32) -> Option<usize> {
        self.slots.iter().take(self.used).position(|stream| stream.ssrc == ssrc)
    }

    /// Stream at an index returned by [`Self::find`].
    #[inline]
    pub(crate) fn at(&self, at: Option<usize>) -> Option<&Stream> {
        self.slots.get(at?)
    }

    /// True if no further SSRC can be tracked.
    pub(crate) fn is_full(&self) -> bool {
        self.used == self.slots.len()
    }

    /// Number of tracked SSRCs.
    pub(crate) fn len(&self) -> usize {
        self.used
    }
}

/// Candidate indices of a received packet with `sequence`; `stream` is the state of its SSRC, if any.
#[inline]
pub(crate) fn index_candidates(stream: Option<&Stream>, sequence: u16) -> IndexCandidates {
    let from_zero = u64::from(sequence);
    let Some((stream, highest)) = stream.and_then(|stream| Some((stream, stream.rtp.highest()?))) else {
        // RFC 3711 §3.3.1: a stream begins with a rollover counter of 0. If it began near the end of the
        // sequence number space and its first packets were lost, the counter is 1 in the first packet
        // received.
        let second = (sequence < 1 << 15).then_some((1 << 16) | from_zero);
        return IndexCandidates { first: Ok(from_zero), second };
    };
    let first = estimate(highest, sequence);
    // RFC 3711 §3.3.1 continues the counter under a new key; RFC 4568 §7.1.4 restarts it with a new context.
    let second = (stream.rtp_may_restart && first != Ok(from_zero)).then_some(from_zero);
    IndexCandidates { first, second }
}

/// Upper limit of packet indices, exclusive.
const INDEX_END: u64 = 1 << 48;

/// Half of the sequence number space.
const HALF: u16 = 1 << 15;

/// Reason why no index can be estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexError {
    /// The index would be before the first one of the stream.
    BeforeStart,
    /// The rollover counter would overflow.
    Overflow,
}

/// Estimates the index of the packet with `sequence`; `highest` is the highest authenticated index so far.
///
/// RFC 3711 §3.3.1: the nearest of the candidates with the current rollover counter, one less and one more.
/// Of two equally near candidates, the one with the current counter (Appendix A).
pub(crate) fn estimate(highest: u64, sequence: u16) -> Result<u64, IndexError> {
    let ahead = sequence.wrapping_sub(highest as u16);
    let same_rollover = (highest & !0xffff) | u64::from(sequence);
    let index = if ahead == HALF {
        same_rollover
    } else if ahead < HALF {
        highest + u64::from(ahead)
    } else {
        let behind = u64::from(ahead.wrapping_neg());
        highest.checked_sub(behind).ok_or(IndexError::BeforeStart)?
    };
    if index < INDEX_END { Ok(index) } else { Err(IndexError::Overflow) }
}

/// Result of checking an index against the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    No,
    Yes,
    /// Behind the window.
    TooOld,
}

/// Sliding window over the last indices, one bit each.
///
/// The bits form a ring: an index has its bit at `index mod bits`. Advancing clears the bits that are passed
/// over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplayWindow {
    /// Highest index received.
    highest: Option<u64>,
    /// Number of indices in the window, including the highest.
    size: u64,
    /// Power-of-two number of words with at least `size` bits in total.
    words: Box<[u64]>,
}

impl ReplayWindow {
    /// Creates an empty window of `size` indices.
    pub(crate) fn new(size: usize) -> Self {
        let words = size.div_ceil(64).next_power_of_two();
        Self { highest: None, size: size as u64, words: vec![0; words].into_boxed_slice() }
    }

    /// Marks an index as received; an index that was received or is behind the window changes nothing.
    pub(crate) fn note(&mut self, index: u64) {
        match self.highest {
            None => self.highest = Some(index),
            Some(highest) if index > highest => {
                self.clear_between(highest, index);
                self.highest = Some(index);
            }
            Some(highest) if highest - index >= self.size => return,
            Some(_) => {}
        }
        let (at, bit) = self.bit_of(index);
        if let Some(word) = self.words.get_mut(at) {
            *word |= bit;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.highest = None;
        self.words.fill(0);
    }

    #[inline]
    pub(crate) fn check(&self, index: u64) -> Seen {
        match self.highest {
            None => Seen::No,
            Some(highest) if index > highest => Seen::No,
            Some(highest) if highest - index >= self.size => Seen::TooOld,
            Some(_) => {
                let (at, bit) = self.bit_of(index);
                if self.words.get(at).is_some_and(|word| word & bit != 0) { Seen::Yes } else { Seen::No }
            }
        }
    }

    /// Highest index received.
    #[inline]
    pub(crate) fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// Clears the bits of the indices above `from`, up to and including `to`.
    fn clear_between(&mut self, from: u64, to: u64) {
        if to - from >= self.words.len() as u64 * 64 {
            self.words.fill(0);
            return;
        }
        let mut next = from + 1;
        while next <= to {
            let (at, _) = self.bit_of(next);
            // The bits of this word for the indices from `next` to the end of the word or to `to`.
            let first = next % 64;
            let last = (first + (to - next)).min(63);
            let mask = (u64::MAX << first) & (u64::MAX >> (63 - last));
            if let Some(word) = self.words.get_mut(at) {
                *word &= !mask;
            }
            next += last - first + 1;
        }
    }

    /// Word and mask of the bit of `index`.
    #[inline]
    fn bit_of(&self, index: u64) -> (usize, u64) {
        ((index / 64) as usize & (self.words.len() - 1), 1 << (index % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use ringway_sansio::{Rng, Seed};

    #[test]
    fn the_table_takes_as_many_ssrcs_as_it_has_room_for() {
        let mut streams = Streams::new(2, 64);
        assert!(streams.at_or_new(None, 0).is_some());
        assert!(streams.at_or_new(None, 7).is_some());
        assert!(streams.is_full() && streams.at_or_new(None, 8).is_none());
        assert_eq!((streams.find(0), streams.find(7), streams.find(8)), (Some(0), Some(1), None));
    }

    #[test]
    fn a_second_index_is_tried_only_after_a_start_or_a_key_change() {
        let mut streams = Streams::new(1, 64);
        assert_eq!(index_candidates(None, 3), IndexCandidates { first: Ok(3), second: Some(0x1_0003) });
        assert_eq!(index_candidates(None, 40_000), IndexCandidates { first: Ok(40_000), second: None });
        streams.at_or_new(None, 1).unwrap().rtp.note(0x5_ffff);
        let known = |streams: &Streams| index_candidates(streams.at(Some(0)), 3);
        assert_eq!(known(&streams), IndexCandidates { first: Ok(0x6_0003), second: None });
        streams.allow_restart();
        assert_eq!(known(&streams), IndexCandidates { first: Ok(0x6_0003), second: Some(3) });
    }

    /// Literal transcription of RFC 3711 Appendix A; `None` if the counter would leave its range.
    fn appendix_a(roc: u32, s_l: u16, sequence: u16) -> Option<u64> {
        let (s, seq) = (i64::from(s_l), i64::from(sequence));
        let v = if s < 32_768 {
            if seq - s > 32_768 { roc.checked_sub(1)? } else { roc }
        } else if s - 32_768 > seq {
            roc.checked_add(1)?
        } else {
            roc
        };
        Some((u64::from(v) << 16) | u64::from(sequence))
    }

    #[test]
    fn the_estimate_agrees_with_appendix_a() {
        let edges = [0, 1, 2, 100, 32_766, 32_767, 32_768, 32_769, 32_770, 65_434, 65_534, 65_535];
        for roc in [0, 1, 7, u32::MAX - 1, u32::MAX] {
            for s_l in edges {
                for sequence in edges.into_iter().chain((0..=65_535).step_by(251)) {
                    let highest = (u64::from(roc) << 16) | u64::from(s_l);
                    let ours = estimate(highest, sequence).ok();
                    assert_eq!(ours, appendix_a(roc, s_l, sequence), "{roc} {s_l} {sequence}");
                }
            }
        }
    }

    #[test]
    fn every_estimated_index_is_in_range() {
        assert_eq!(estimate(5, 65_000), Err(IndexError::BeforeStart));
        assert_eq!(estimate(INDEX_END - 1, 0), Err(IndexError::Overflow));
    }

    #[test]
    fn an_index_is_new_once() {
        let mut window = ReplayWindow::new(64);
        window.note(100);
        assert_eq!(window.check(100), Seen::Yes);
        assert_eq!(window.check(99), Seen::No);
        assert_eq!(window.check(37), Seen::No);
        assert_eq!(window.check(36), Seen::TooOld);
        window.note(163);
        assert_eq!((window.check(100), window.check(99)), (Seen::Yes, Seen::TooOld));
    }

    #[test]
    fn the_window_agrees_with_a_set_of_everything_received() {
        for (seed, size) in (0..40).flat_map(|seed| [64, 65, 100, 128, 1000, 32_768].map(|size| (seed, size)))
        {
            let mut rng = Rng::new(&Seed::from_number(seed));
            let mut window = ReplayWindow::new(size);
            let mut received = BTreeSet::new();
            let mut at = rng.below(100_000);
            for step in 0..2000 {
                at += match rng.below(20) {
                    0 => rng.below(2 * size as u64),
                    1 => rng.below(200),
                    _ => rng.below(3),
                };
                let index = at.saturating_sub(rng.below(size as u64 * 5 / 4));
                let highest = received.last().copied().unwrap_or(0);
                let expected = if received.contains(&index) && highest - index < size as u64 {
                    Seen::Yes
                } else if index + size as u64 <= highest {
                    Seen::TooOld
                } else {
                    Seen::No
                };
                assert_eq!(window.check(index), expected, "seed {seed}, size {size}, step {step}");
                window.note(index);
                if expected == Seen::No {
                    received.insert(index);
                }
                assert_eq!(window.highest(), received.last().copied());
            }
        }
    }
}
