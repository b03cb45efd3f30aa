//! DTMF as telephone events (RFC 4733): sender and receiver.

use crate::rtp::RtpHeader;
use alloc::collections::VecDeque;

/// A DTMF digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digit(u8);

impl Digit {
    /// Digit of this name: `0`-`9`, `*`, `#`, `A`-`D`.
    pub fn from_char(name: char) -> Option<Self> {
        let code = NAMES.iter().position(|known| char::from(*known) == name.to_ascii_uppercase())?;
        u8::try_from(code).ok().map(Self)
    }

    /// Digit of this event code (RFC 4733 §3.2), 0 to 15.
    pub fn from_event(code: u8) -> Option<Self> {
        (usize::from(code) < NAMES.len()).then_some(Self(code))
    }

    /// Name of the digit.
    pub fn as_char(self) -> char {
        NAMES.get(usize::from(self.0)).map_or('?', |name| char::from(*name))
    }

    /// Event code (RFC 4733 §3.2).
    pub const fn event(self) -> u8 {
        self.0
    }
}

/// Converts queued digits to event payloads, one for each packet time.
#[derive(Debug)]
pub struct DigitSender {
    queue: VecDeque<(Digit, u16)>,
    queued_max: usize,
    state: Sending,
}

/// An event payload, sent instead of an audio packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPacket {
    /// First packet of a new event (RFC 4733 §2.5.1.1).
    pub marker: bool,
    /// RTP timestamp of the event's start, equal in all its packets.
    pub timestamp: u32,
    /// Event, end bit and volume, duration (RFC 4733 §2.3).
    pub payload: [u8; 4],
}

#[derive(Clone, Copy, Debug)]
enum Sending {
    Idle,
    /// The key is pressed since `timestamp`; the last packet had this `duration` in ticks.
    Down {
        digit: Digit,
        timestamp: u32,
        duration: u16,
        total: u16,
    },
    /// The key is released; the end packet is sent `left` more times (RFC 4733 §2.5.1.4).
    Ended {
        digit: Digit,
        timestamp: u32,
        duration: u16,
        left: u8,
    },
    /// Pause between two digits, with this many ticks left.
    Pause {
        ticks: u32,
    },
}

impl DigitSender {
    /// Creates a sender whose queue has at most `queued_max` digits.
    pub fn new(queued_max: usize) -> Self {
        Self { queue: VecDeque::with_capacity(queued_max), queued_max, state: Sending::Idle }
    }

    /// Queues a digit with a duration in ticks of the stream's clock. Returns false if the queue is full.
    pub fn push(&mut self, digit: Digit, duration: u16) -> bool {
        let has_room = self.queue.len() < self.queued_max;
        if has_room {
            self.queue.push_back((digit, duration.max(1)));
        }
        has_room
    }

    /// Event payload to send at `timestamp` instead of `ticks` of sound; `None` if no event is sent.
    pub fn next(&mut self, timestamp: u32, ticks: u16) -> Option<EventPacket> {
        if let Sending::Pause { ticks: left } = self.state {
            self.state = match left.checked_sub(u32::from(ticks)) {
                Some(left @ 1..) => Sending::Pause { ticks: left },
                Some(0) | None => Sending::Idle,
            };
            return None;
        }
        if let Sending::Idle = self.state {
            let (digit, total) = self.queue.pop_front()?;
            self.state = Sending::Down { digit, timestamp, duration: 0, total };
        }
        match self.state {
            Sending::Down { digit, timestamp, duration, total } => {
                Some(self.hold(digit, timestamp, duration, total, ticks))
            }
            Sending::Ended { digit, timestamp, duration, left } => {
                self.state = match left.checked_sub(1) {
                    Some(left @ 1..) => Sending::Ended { digit, timestamp, duration, left },
                    Some(0) | None => Sending::Pause { ticks: PAUSE_TICKS },
                };
                Some(packet(digit, End::Yes, false, timestamp, duration))
            }
            Sending::Idle | Sending::Pause { .. } => None,
        }
    }

    /// Removes the digits that have not been started.
    pub fn clear(&mut self) {
        self.queue.clear();
    }

    /// True if a digit is being sent or queued.
    pub fn is_busy(&self) -> bool {
        !self.queue.is_empty() || !matches!(self.state, Sending::Idle)
    }

    fn hold(&mut self, digit: Digit, timestamp: u32, before: u16, total: u16, ticks: u16) -> EventPacket {
        let duration = before.saturating_add(ticks).min(total);
        if duration < total {
            self.state = Sending::Down { digit, timestamp, duration, total };
            packet(digit, End::No, before == 0, timestamp, duration)
        } else {
            self.state = Sending::Ended { digit, timestamp, duration, left: END_PACKETS - 1 };
            packet(digit, End::Yes, before == 0, timestamp, duration)
        }
    }
}

/// Converts event payloads to digits, each once, in spite of retransmitted and reordered packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct DigitReceiver {
    last: Option<Last>,
    repeated: u64,
    malformed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    event: u8,
    timestamp: u32,
    duration: u16,
    end: End,
}

impl DigitReceiver {
    /// Handles a packet and calls `pressed` for each digit that starts in it.
    pub fn on_packet(&mut self, header: RtpHeader, payload: &[u8], mut pressed: impl FnMut(Digit)) {
        if payload.len() < 4 {
            self.malformed += 1;
        }
        let mut timestamp = header.timestamp;
        // RFC 4733 §2.5.1.5: several short events may be in one packet, each starting at the end of the
        // previous one.
        for block in payload.chunks_exact(4) {
            let [event, flags, high, low] = *block else { return };
            let end = if flags & 0x80 == 0 { End::No } else { End::Yes };
            let seen = Last { event, timestamp, duration: u16::from_be_bytes([high, low]), end };
            match self.last {
                Some(last) if !last.is_before(&seen) => self.repeated += 1,
                Some(last) if last.continues_in(&seen, header.marker) => self.last = Some(seen),
                Some(_) | None => {
                    self.last = Some(seen);
                    if let Some(digit) = Digit::from_event(event) {
                        pressed(digit);
                    }
                }
            }
            self.update(&seen);
            timestamp = timestamp.wrapping_add(u32::from(seen.duration));
        }
    }

    /// Resets the state for a new source, whose timestamps are unrelated.
    pub fn on_new_source(&mut self) {
        self.last = None;
    }

    /// Number of packets that repeated a known event.
    pub const fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Number of packets that are too short for an event.
    pub const fn malformed(&self) -> u64 {
        self.malformed
    }

    fn update(&mut self, seen: &Last) {
        if let Some(last) = self.last.as_mut().filter(|last| last.timestamp == seen.timestamp) {
            last.duration = last.duration.max(seen.duration);
            if seen.end == End::Yes {
                last.end = End::Yes;
            }
        }
    }
}

impl Last {
    fn is_before(&self, other: &Self) -> bool {
        other.timestamp.wrapping_sub(self.timestamp) as i32 > 0
    }

    /// RFC 4733 §2.5.1.3: an event longer than 65,535 ticks continues in a further segment.
    fn continues_in(&self, other: &Self, marker: bool) -> bool {
        let step = other.timestamp.wrapping_sub(self.timestamp);
        !marker && self.event == other.event && self.end == End::No && step == u32::from(u16::MAX)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    No,
    Yes,
}

fn packet(digit: Digit, end: End, marker: bool, timestamp: u32, duration: u16) -> EventPacket {
    let end_bit = match end {
        End::No => 0,
        End::Yes => 0x80,
    };
    let [high, low] = duration.to_be_bytes();
    EventPacket { marker, timestamp, payload: [digit.event(), end_bit | VOLUME_DBM0, high, low] }
}

/// Names in the order of their event codes (RFC 4733 §3.2).
const NAMES: [u8; 16] = *b"0123456789*#ABCD";
/// Number of end packets, so that losing all of them is unlikely (RFC 4733 §2.5.1.4).
const END_PACKETS: u8 = 3;
/// Power of the tone in -dBm0.
const VOLUME_DBM0: u8 = 10;
/// Pause between two digits, 60 ms at 8,000 Hz (ITU-T Q.24 requires at least 40 ms).
const PAUSE_TICKS: u32 = 480;

#[cfg(test)]
#[path = "dtmf_tests.rs"]
mod tests;
