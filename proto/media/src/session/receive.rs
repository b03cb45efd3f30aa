//! Receiving direction: statistics, payload types and playout.

use crate::dtmf::DigitReceiver;
use crate::jitter_buffer::{BufferLimits, JitterBuffer, SoundPacket};
use crate::reception::{Arrival, Clock, PacketOrder, Reception};
use crate::rtp::{RtpHeader, RtpPacket};
use core::time::Duration;
use ringway_sansio::Instant;
use ringway_sdp::{Codec, MediaParams};

/// Received stream of one peer.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) reception: Reception,
    pub(super) buffer: JitterBuffer,
    digits: DigitReceiver,
    source: Option<Source>,
    /// Another source, and the sequence number with which it would be accepted.
    rival: Option<(u32, u16)>,
    /// Timestamps of the newest packet with sound and of the newest with an event.
    newest: Newest,
    is_heard: bool,
    unknown_payload: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Newest {
    sound: Option<u32>,
    event: Option<u32>,
}

/// The accepted source.
#[derive(Clone, Copy, Debug)]
struct Source {
    ssrc: u32,
    last_at: Instant,
}

/// Arrival time of a packet and its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transit {
    pub(super) now: Instant,
    /// Arrival by the kernel's clock.
    pub(super) arrived: Instant,
    pub(super) ip_bytes: u32,
    /// Protected with a key that the peer has replaced since.
    pub(super) is_late: bool,
}

/// Meaning of a payload type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    Sound(Codec),
    Event,
    Unknown,
}

impl Payload {
    /// Looks up a payload type in the negotiated parameters.
    pub(super) fn of(params: &MediaParams, payload_type: u8) -> Self {
        if params.receive_telephone_event == Some(payload_type) {
            return Self::Event;
        }
        let agreed = params.receive.iter().find(|(number, _)| *number == payload_type);
        agreed.map_or(Self::Unknown, |(_, codec)| Self::Sound(*codec))
    }
}

impl Incoming {
    pub(super) fn new(limits: BufferLimits) -> Self {
        Self {
            reception: Reception::new(),
            buffer: JitterBuffer::new(limits),
            digits: DigitReceiver::default(),
            source: None,
            rival: None,
            newest: Newest::default(),
            is_heard: false,
            unknown_payload: 0,
        }
    }

    /// Sets whether received sound is played. Stopping discards the buffered sound.
    pub(super) fn set_heard(&mut self, is_heard: bool) {
        if is_heard && !self.is_heard {
            self.buffer.on_new_source();
        }
        self.is_heard = is_heard;
        self.reception.set_paused(!is_heard);
    }

    /// Handles a packet of the peer; `pressed` is called for each digit.
    pub(super) fn on_packet(
        &mut self,
        transit: Transit,
        packet: &RtpPacket<'_>,
        payload: Payload,
        pressed: impl FnMut(char),
    ) {
        let header = packet.header();
        if !self.follows(transit, header) {
            return;
        }
        let order = self.reception.on_packet(&Arrival {
            at: transit.arrived,
            ssrc: header.ssrc,
            sequence: header.sequence,
            timestamp: header.timestamp,
            marker: header.marker,
            clock: match payload {
                Payload::Sound(codec) => Clock::Hz(codec.clock_rate_hz()),
                Payload::Event | Payload::Unknown => Clock::Still,
            },
            ip_bytes: transit.ip_bytes,
        });
        let number = match order {
            PacketOrder::Newest(number) => {
                if self.newest.is_restart(payload, header.timestamp) {
                    self.restart();
                }
                self.newest.note(payload, header.timestamp);
                number
            }
            PacketOrder::Reordered(number) => number,
            PacketOrder::Restarted(number) => {
                self.restart();
                self.newest.note(payload, header.timestamp);
                number
            }
            PacketOrder::Duplicate(_) | PacketOrder::Stray => return,
        };
        self.on_payload(transit.now, packet, payload, number, pressed);
    }

    /// Fills `sound` with the next samples to play; silence while receiving is off.
    pub(super) fn playout(&mut self, now: Instant, sound: &mut [i16]) {
        if self.is_heard {
            self.buffer.playout(now, sound);
        } else {
            sound.fill(0);
        }
    }

    /// Number of packets with payload types that were not negotiated.
    pub(super) const fn unknown_payload(&self) -> u64 {
        self.unknown_payload
    }

    fn on_payload(
        &mut self,
        now: Instant,
        packet: &RtpPacket<'_>,
        payload: Payload,
        number: u64,
        mut pressed: impl FnMut(char),
    ) {
        match payload {
            Payload::Sound(codec) if self.is_heard => {
                let timestamp = packet.header().timestamp;
                self.buffer.insert(now, &SoundPacket { number, timestamp, codec, payload: packet.payload() });
            }
            Payload::Sound(_) => {}
            Payload::Event => {
                self.buffer.on_event(number);
                self.digits.on_packet(packet.header(), packet.payload(), |digit| pressed(digit.as_char()));
            }
            Payload::Unknown => {
                self.buffer.on_event(number);
                self.unknown_payload += 1;
            }
        }
    }

    /// True if a packet belongs to the accepted source. Another source is accepted when the first is silent,
    /// or after two packets in a row: a single forged packet must not change the source.
    fn follows(&mut self, transit: Transit, header: RtpHeader) -> bool {
        let Transit { now, is_late, .. } = transit;
        if let Some(source) = self.source.as_mut().filter(|source| source.ssrc == header.ssrc) {
            source.last_at = now;
            self.rival = None;
            return true;
        }
        if is_late && self.source.is_some() {
            // A peer may use another SSRC with its new key; it does not return to the old one.
            return false;
        }
        let is_silent = self.source.is_none_or(|source| now.since(source.last_at) > SOURCE_SILENCE);
        if !is_silent && self.rival != Some((header.ssrc, header.sequence)) {
            self.rival = Some((header.ssrc, header.sequence.wrapping_add(1)));
            return false;
        }
        self.source = Some(Source { ssrc: header.ssrc, last_at: now });
        self.rival = None;
        self.restart();
        true
    }

    /// Resets the state that depends on the source's numbers: it has another SSRC, or began its numbers or timestamps anew.
    fn restart(&mut self) {
        self.buffer.on_new_source();
        self.digits.on_new_source();
        self.newest = Newest::default();
    }
}

impl Newest {
    /// True if the timestamp of a packet with a higher sequence number than all before is lower than theirs. An event that
    /// is sent beside sound keeps the timestamp of its start.
    fn is_restart(&self, payload: Payload, timestamp: u32) -> bool {
        let since = |before: Option<u32>| before.map_or(0, |before| timestamp.wrapping_sub(before) as i32);
        match payload {
            Payload::Sound(_) => since(self.sound) < 0,
            Payload::Event => since(self.event) < 0 || since(self.sound) < -EVENT_TICKS_MAX,
            Payload::Unknown => false,
        }
    }

    fn note(&mut self, payload: Payload, timestamp: u32) {
        match payload {
            Payload::Sound(_) => self.sound = Some(timestamp),
            Payload::Event => self.event = Some(timestamp),
            Payload::Unknown => {}
        }
    }
}

/// Age of an event's timestamp, beside sound, that is no restart: its duration has 16 bits, and its end is sent three times.
const EVENT_TICKS_MAX: i32 = 1 << 17;

/// Time without a packet after which another source is accepted at once.
const SOURCE_SILENCE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;

    /// A source that sends a packet every 20 ms, and what was received of it.
    struct Call {
        incoming: Incoming,
        now: Instant,
        ssrc: u32,
        sequence: u16,
        timestamp: u32,
        digits: String,
        loud_blocks: usize,
    }

    impl Call {
        fn new() -> Self {
            let mut incoming = Incoming::new(BufferLimits::default());
            incoming.set_heard(true);
            let now = Instant::from_secs(1000);
            Self {
                incoming,
                now,
                ssrc: 7,
                sequence: 100,
                timestamp: 5_000_000,
                digits: String::new(),
                loud_blocks: 0,
            }
        }

        fn send(&mut self, payload: Payload, timestamp: u32, bytes: &[u8]) {
            let payload_type = if payload == Payload::Event { 101 } else { 0 };
            let mut packet = vec![0x80, payload_type];
            packet.extend(self.sequence.to_be_bytes());
            packet.extend(timestamp.to_be_bytes());
            packet.extend(self.ssrc.to_be_bytes());
            packet.extend(bytes);
            self.sequence = self.sequence.wrapping_add(1);
            let transit = Transit { now: self.now, arrived: self.now, ip_bytes: 200, is_late: false };
            let digits = &mut self.digits;
            let parsed = RtpPacket::parse(&packet).unwrap();
            self.incoming.on_packet(transit, &parsed, payload, |digit| digits.push(digit));
            self.timestamp = self.timestamp.wrapping_add(160);
            self.now = self.now + Duration::from_millis(20);
            let mut block = [0; 160];
            self.incoming.playout(self.now, &mut block);
            self.loud_blocks += usize::from(block.iter().any(|sample| sample.unsigned_abs() > 100));
        }

        fn talk(&mut self, packets: u32) {
            for _ in 0..packets {
                // Mu-law: loud, in both directions.
                let sound: Vec<u8> = (0..160).map(|at| if at / 20 % 2 == 0 { 0x10 } else { 0x90 }).collect();
                self.send(Payload::Sound(Codec::Pcmu), self.timestamp, &sound);
            }
        }

        fn press(&mut self, digit: u8) {
            let start = self.timestamp;
            for (at, duration) in (1_u16..).map(|at| at * 160).take(6).enumerate() {
                let [high, low] = duration.to_be_bytes();
                self.send(Payload::Event, start, &[digit, if at < 3 { 10 } else { 0x8A }, high, low]);
            }
        }
    }

    #[test]
    fn digits_and_sound_survive_each_kind_of_restart() {
        type Restart = fn(&mut Call);
        let restarts: [(&str, Restart); 8] = [
            ("nothing", |_| {}),
            ("another SSRC", |call| (call.ssrc, call.timestamp) = (8, 100)),
            ("sequence numbers", |call| call.sequence = 40_000),
            ("sequence numbers and timestamps", |call| (call.sequence, call.timestamp) = (40_000, 100)),
            ("timestamps far back", |call| call.timestamp = 100_000),
            ("timestamps 1 s back", |call| call.timestamp -= 8000),
            ("timestamps 1 s forward", |call| call.timestamp += 8000),
            ("timestamps far forward", |call| call.timestamp += 1 << 29),
        ];
        for (name, restart) in restarts {
            let mut call = Call::new();
            call.talk(75);
            call.press(1);
            restart(&mut call);
            call.talk(75);
            call.press(2);
            call.talk(50);
            assert_eq!(call.digits, "12", "{name}");
            assert!(call.loud_blocks >= 190, "{name}: {} of 200 blocks", call.loud_blocks);
            // The first packets after it are an event.
            restart(&mut call);
            call.press(3);
            assert_eq!(call.digits, "123", "{name}");
        }
    }

    #[test]
    fn a_second_source_beside_the_first_changes_nothing() {
        let mut call = Call::new();
        let (mut other_sequence, mut other_timestamp) = (7000_u16, 9_000_000_u32);
        for at in 0..300 {
            if at == 50 {
                call.press(1);
            }
            call.talk(1);
            let own = (call.ssrc, call.sequence, call.timestamp, call.now);
            (call.ssrc, call.sequence, call.timestamp) = (8, other_sequence, other_timestamp);
            call.send(Payload::Sound(Codec::Pcmu), other_timestamp, &[0xFF; 160]);
            (other_sequence, other_timestamp) = (other_sequence + 1, other_timestamp + 160);
            (call.ssrc, call.sequence, call.timestamp, call.now) = own;
        }
        assert_eq!(call.digits, "1");
        assert_eq!(call.incoming.buffer.counts().restarts, 0);
    }
}
