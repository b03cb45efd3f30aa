//! DTMF as telephone events (RFC 4733): digits to packets, packets to digits.

use crate::rtp::RtpHeader;
use alloc::collections::VecDeque;

/// A key of a telephone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digit(u8);

impl Digit {
    /// The key of this name: `0`-`9`, `*`, `#`, `A`-`D`.
    pub fn from_char(name: char) -> Option<Self> {
        let code = NAMES.iter().position(|known| char::from(*known) == name.to_ascii_uppercase())?;
        u8::try_from(code).ok().map(Self)
    }

    /// The key of this event code (RFC 4733 §3.2), 0-15.
    pub fn from_event(code: u8) -> Option<Self> {
        (usize::from(code) < NAMES.len()).then_some(Self(code))
    }

    /// Its name.
    pub fn as_char(self) -> char {
        NAMES.get(usize::from(self.0)).map_or('?', |name| char::from(*name))
    }

    /// Its event code (RFC 4733 §3.2).
    pub const fn event(self) -> u8 {
        self.0
    }
}

/// Turns queued digits into event payloads, one for each packet time.
#[derive(Debug)]
pub struct DigitSender {
    queue: VecDeque<(Digit, u16)>,
    queued_max: usize,
    state: Sending,
}

/// One event payload to send in place of a packet of sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPacket {
    /// The first packet of a new event (RFC 4733 §2.5.1.1).
    pub marker: bool,
    /// The moment the event began; the same for all its packets.
    pub timestamp: u32,
    /// Event, end bit and volume, duration (RFC 4733 §2.3).
    pub payload: [u8; 4],
}

#[derive(Clone, Copy, Debug)]
enum Sending {
    Idle,
    /// The key is down since `timestamp`; `duration` ticks were said so far.
    Down {
        digit: Digit,
        timestamp: u32,
        duration: u16,
        total: u16,
    },
    /// The key is up; its end is said `left` more times (RFC 4733 §2.5.1.4).
    Ended {
        digit: Digit,
        timestamp: u32,
        duration: u16,
        left: u8,
    },
    /// Silence between two keys, this many ticks more.
    Pause {
        ticks: u32,
    },
}

impl DigitSender {
    /// A sender that lets at most `queued_max` digits wait.
    pub fn new(queued_max: usize) -> Self {
        Self { queue: VecDeque::with_capacity(queued_max), queued_max, state: Sending::Idle }
    }

    /// Queues a digit to be held down for `duration` ticks of the stream's clock. False: the queue is full.
    pub fn push(&mut self, digit: Digit, duration: u16) -> bool {
        let has_room = self.queue.len() < self.queued_max;
        if has_room {
            self.queue.push_back((digit, duration.max(1)));
        }
        has_room
    }

    /// What goes out at `timestamp` in place of `ticks` of sound. `None`: sound does.
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

    /// Digits that were not begun yet are forgotten.
    pub fn clear(&mut self) {
        self.queue.clear();
    }

    /// True when a digit is being sent or waits.
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

/// Turns event payloads into digits: each key once, however often its packets come, in whatever order.
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
    /// Takes a packet and hands every key that begins with it to `pressed`.
    pub fn on_packet(&mut self, header: RtpHeader, payload: &[u8], mut pressed: impl FnMut(Digit)) {
        if payload.len() < 4 {
            self.malformed += 1;
        }
        let mut timestamp = header.timestamp;
        // RFC 4733 §2.5.1.5: short events may follow each other in one packet, each beginning where the last ended.
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

    /// A new source: its time stamps have nothing to do with the old one's.
    pub fn on_new_source(&mut self) {
        self.last = None;
    }

    /// Packets that said again what was known.
    pub const fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Packets too short for an event.
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

    /// RFC 4733 §2.5.1.3: a key held down for more than 65,535 ticks goes on as a further segment of the same event.
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

/// The names in the order of their event codes (RFC 4733 §3.2).
const NAMES: [u8; 16] = *b"0123456789*#ABCD";
/// How often the end is said, so that its loss is unlikely (RFC 4733 §2.5.1.4).
const END_PACKETS: u8 = 3;
/// Power of the tone, in dB below 0 dBm0.
const VOLUME_DBM0: u8 = 10;
/// 60 ms at 8,000 Hz: what separates two presses of the same key (ITU-T Q.24 asks for 40 ms at least).
const PAUSE_TICKS: u32 = 480;

#[cfg(test)]
#[path = "dtmf_tests.rs"]
mod tests;
