//! What is remembered of each SSRC (RFC 3711 §3.2.3).

use crate::index::{IndexError, estimate};
use crate::replay::ReplayWindow;
use alloc::boxed::Box;

/// The state of one SSRC. The rollover counter is in the window's highest index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    ssrc: u32,
    pub(crate) rtp: ReplayWindow,
    pub(crate) rtcp: ReplayWindow,
    /// The key is new and no packet has come under it: the sender may have started counting anew.
    pub(crate) rtp_may_restart: bool,
    /// The same of SRTCP.
    pub(crate) rtcp_may_restart: bool,
}

/// Which index a packet may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guesses {
    /// The estimate of RFC 3711 §3.3.1.
    pub(crate) first: Result<u64, IndexError>,
    /// What to try when the first one does not authenticate.
    pub(crate) second: Option<u64>,
}

impl Stream {
    fn new(window_packets: usize) -> Self {
        let window = ReplayWindow::new(window_packets);
        Self { ssrc: 0, rtp: window.clone(), rtcp: window, rtp_may_restart: false, rtcp_may_restart: false }
    }
}

/// The SSRCs followed: all room is taken at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Streams {
    slots: Box<[Stream]>,
    used: usize,
}

impl Streams {
    /// Room for `ssrcs_max` streams.
    pub(crate) fn new(ssrcs_max: usize, window_packets: usize) -> Self {
        Self { slots: (0..ssrcs_max).map(|_| Stream::new(window_packets)).collect(), used: 0 }
    }

    /// The stream at a place that [`Self::find`] told, or a new one for this SSRC; None when there is no room.
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

    /// The key has changed: whoever sends may count on or start anew.
    pub(crate) fn allow_restart(&mut self) {
        for stream in &mut self.slots {
            stream.rtp_may_restart = stream.rtp.highest().is_some();
            stream.rtcp_may_restart = stream.rtcp.highest().is_some();
        }
    }

    /// Where the stream of this SSRC is.
    #[inline]
    pub(crate) fn find(&self, ssrc: u32) -> Option<usize> {
        self.slots.iter().take(self.used).position(|stream| stream.ssrc == ssrc)
    }

    /// The stream at a place that [`Self::find`] told.
    #[inline]
    pub(crate) fn at(&self, at: Option<usize>) -> Option<&Stream> {
        self.slots.get(at?)
    }

    /// True when no further SSRC can be followed.
    pub(crate) fn is_full(&self) -> bool {
        self.used == self.slots.len()
    }

    /// How many SSRCs are followed.
    pub(crate) fn len(&self) -> usize {
        self.used
    }
}

/// The indices that a received packet with `sequence` may have in `stream`, if that is known.
#[inline]
pub(crate) fn guess(stream: Option<&Stream>, sequence: u16) -> Guesses {
    let from_zero = u64::from(sequence);
    let Some((stream, highest)) = stream.and_then(|stream| Some((stream, stream.rtp.highest()?))) else {
        // RFC 3711 §3.3.1: a stream begins with a rollover counter of 0. One that began near the end of the sequence
        // numbers and lost its first packets has 1 when we first hear of it.
        let second = (sequence < 1 << 15).then_some((1 << 16) | from_zero);
        return Guesses { first: Ok(from_zero), second };
    };
    let first = estimate(highest, sequence);
    // RFC 3711 §3.3.1 lets the counter go on under a new key, RFC 4568 §7.1.4 lets it start at 0 with a new context.
    let second = (stream.rtp_may_restart && first != Ok(from_zero)).then_some(from_zero);
    Guesses { first, second }
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
    fn only_what_is_uncertain_is_guessed_twice() {
        let mut streams = Streams::new(1, 64);
        assert_eq!(guess(None, 3), Guesses { first: Ok(3), second: Some(0x1_0003) });
        assert_eq!(guess(None, 40_000), Guesses { first: Ok(40_000), second: None });
        streams.at_or_new(None, 1).unwrap().rtp.note(0x5_ffff);
        let known = |streams: &Streams| guess(streams.at(Some(0)), 3);
        assert_eq!(known(&streams), Guesses { first: Ok(0x6_0003), second: None });
        streams.allow_restart();
        assert_eq!(known(&streams), Guesses { first: Ok(0x6_0003), second: Some(3) });
    }
}
