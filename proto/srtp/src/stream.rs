//! State of each SSRC (RFC 3711 §3.2.3).

use crate::index::{IndexError, estimate};
use crate::replay::ReplayWindow;
use alloc::boxed::Box;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
