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
    is_heard: bool,
    unknown_payload: u64,
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
            PacketOrder::Newest(number) | PacketOrder::Reordered(number) => number,
            PacketOrder::Restarted(number) => {
                self.buffer.on_new_source();
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
        self.buffer.on_new_source();
        self.digits.on_new_source();
        true
    }
}

/// Time without a packet after which another source is accepted at once.
const SOURCE_SILENCE: Duration = Duration::from_millis(100);
