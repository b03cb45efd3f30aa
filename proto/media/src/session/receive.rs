//! The stream that comes in: counted, sorted into sound and keys, and played out.

use crate::dtmf::DigitReceiver;
use crate::jitter_buffer::{BufferLimits, JitterBuffer, SoundPacket};
use crate::reception::{Arrival, Clock, Place, Reception};
use crate::rtp::{RtpHeader, RtpPacket};
use core::time::Duration;
use ringway_sansio::Instant;
use ringway_sdp::{Codec, MediaParams};

/// What we hear of one peer.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) reception: Reception,
    pub(super) buffer: JitterBuffer,
    digits: DigitReceiver,
    source: Option<Source>,
    /// Another source, and the number that its next packet must have to be followed.
    rival: Option<(u32, u16)>,
    is_heard: bool,
    unknown_payload: u64,
}

/// Who is followed.
#[derive(Clone, Copy, Debug)]
struct Source {
    ssrc: u32,
    last_at: Instant,
}

/// When a packet came, and how long it was on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transit {
    pub(super) now: Instant,
    /// By the kernel's clock.
    pub(super) arrived: Instant,
    pub(super) ip_bytes: u32,
    /// KeyGeneration a key that the peer has given up since.
    pub(super) is_late: bool,
}

/// What a payload type stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    Sound(Codec),
    Event,
    Unknown,
}

impl Payload {
    /// As both sides agreed.
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

    /// Whether we listen. What waits when we stop is not heard when we listen again.
    pub(super) fn set_heard(&mut self, is_heard: bool) {
        if is_heard && !self.is_heard {
            self.buffer.on_new_source();
        }
        self.is_heard = is_heard;
    }

    /// Takes a packet of the peer; `pressed` gets the keys it tells.
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
        let place = self.reception.on_packet(&Arrival {
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
        let number = match place {
            Place::Newest(number) | Place::Reordered(number) => number,
            Place::Restarted(number) => {
                self.buffer.on_new_source();
                number
            }
            Place::Duplicate(_) | Place::Stray => return,
        };
        self.on_payload(transit.now, packet, payload, number, pressed);
    }

    /// The next sound to be heard; silence while we do not listen.
    pub(super) fn playout(&mut self, now: Instant, sound: &mut [i16]) {
        if self.is_heard {
            self.buffer.playout(now, sound);
        } else {
            sound.fill(0);
        }
    }

    /// Packets of payload types that nobody agreed on.
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

    /// Whether a packet belongs to the source we follow. Another one is followed when the first is silent, or when two
    /// of its packets came in a row: one forged packet must not make us change.
    fn follows(&mut self, transit: Transit, header: RtpHeader) -> bool {
        let Transit { now, is_late, .. } = transit;
        if let Some(source) = self.source.as_mut().filter(|source| source.ssrc == header.ssrc) {
            source.last_at = now;
            return true;
        }
        if is_late && self.source.is_some() {
            // A peer may begin another source with its new key, and does not come back to the old one.
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

/// A source that sent nothing for so long may be succeeded at once.
const SOURCE_SILENCE: Duration = Duration::from_millis(100);
