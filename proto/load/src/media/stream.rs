//! One stream: packets of 20 ms in both directions, and what was received.

use super::Turn;
use crate::session::MediaStart;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_media::reception::{Jitter, PacketOrder, SequenceCounts, SequenceTracker};
use ringway_media::rtp::{RtpHeader, RtpPacket};
use ringway_sansio::{Flow, Instant, ListenerId, Outbox, Rng, Token};
use ringway_sdp::Protection;
use ringway_srtp::{KeyError, SrtpReceiver, SrtpSender, SrtpSettings};

/// Result of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamReport {
    /// Packets sent.
    pub sent: u64,
    /// Received packets by their sequence numbers: from the first to the last received one.
    pub received: SequenceCounts,
    /// Mean of the interarrival jitter J (RFC 3550 §6.4.1) over the received packets in milliseconds.
    pub jitter_mean_ms: f64,
    /// Maximum of J in milliseconds.
    pub jitter_max_ms: f64,
    /// SRTP packets whose tag does not match.
    pub authentication_failed: u64,
    /// SRTP packets that were received before, or are behind the replay window.
    pub replayed: u64,
    /// Packets that are not valid RTP, or not valid SRTP in another way.
    pub malformed: u64,
}

/// Stream of one attempt.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) call: u64,
    pub(super) flow: Flow,
    pub(super) remote_ssrc: Option<u32>,
    pub(super) state: Sending,
    header: RtpHeader,
    first_lap: Option<u64>,
    sender: Option<SrtpSender>,
    receiver: Option<SrtpReceiver>,
    sent: u64,
    received: Received,
}

/// State of the sending direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// The peer does not have the answer yet.
    NotYet,
    Active,
    Ended,
}

#[derive(Debug, Default)]
struct Received {
    ssrc: Option<u32>,
    tracker: SequenceTracker,
    /// Counts of earlier sources.
    past: SequenceCounts,
    jitter: Jitter,
    jitter_sum_ms: f64,
    jitter_max_ms: f64,
    jitters: u64,
    malformed: u64,
}

impl Stream {
    pub(super) fn new(listener: ListenerId, start: &MediaStart, rng: &mut Rng) -> Result<Self, KeyError> {
        let random = rng.next_u64();
        let header = RtpHeader {
            marker: true,
            payload_type: start.payload_type,
            // RFC 3711 §3.3.1: below 2^15, so that the first packets may be lost without doubt about the rollover counter.
            sequence: (random as u16) >> 1,
            timestamp: (random >> 32) as u32,
            ssrc: start.ssrc,
        };
        let settings = SrtpSettings { ssrcs_max: SSRCS_MAX, ..SrtpSettings::default() };
        let (sender, receiver) = match &start.protection {
            Protection::Sdes { suite, send, receive } => (
                Some(SrtpSender::with_settings(*suite, send, settings)?),
                Some(SrtpReceiver::with_settings(*suite, receive, settings)?),
            ),
            Protection::None | Protection::Zrtp { .. } | Protection::Dtls { .. } => (None, None),
        };
        Ok(Self {
            call: start.call,
            flow: Flow::udp(listener, start.remote),
            remote_ssrc: start.remote_ssrc,
            state: Sending::NotYet,
            header,
            first_lap: None,
            sender,
            receiver,
            sent: 0,
            received: Received::default(),
        })
    }

    /// Writes the packet of a turn; its payload begins with `mark` and the time, if both ends are ours. False: the key's
    /// lifetime is over.
    pub(super) fn send(&mut self, turn: Turn, now: Instant, mark: u64, out: &mut Outbox) -> bool {
        let laps = turn.lap - *self.first_lap.get_or_insert(turn.lap);
        let timestamp = self.header.timestamp.wrapping_add((laps as u32).wrapping_mul(TICKS));
        let header = RtpHeader { timestamp, ..self.header };
        let sender = &mut self.sender;
        let before = out.len();
        out.send_with(self.flow, Token::NONE, |arena| {
            let start = arena.len();
            arena.extend_from_slice(&header.to_bytes());
            arena.extend_from_slice(&mark.to_be_bytes());
            arena.extend_from_slice(&now.as_nanos().to_be_bytes());
            arena.extend_from_slice(&SILENCE);
            if let Some(sender) = sender {
                protect(sender, start, arena);
            }
        });
        self.header.sequence = self.header.sequence.wrapping_add(1);
        self.header.marker = false;
        let is_sent = out.len() > before;
        self.sent += u64::from(is_sent);
        is_sent
    }

    /// Counts a datagram that arrived at `arrived`; returns the time since it was sent, if the other end is ours.
    pub(super) fn receive(&mut self, arrived: Instant, bytes: &mut [u8], mark: u64) -> Option<Duration> {
        let len = match &mut self.receiver {
            // The receiver counts what it rejects.
            Some(receiver) => receiver.unprotect_rtp(bytes).ok()?,
            None => bytes.len(),
        };
        let Ok(packet) = RtpPacket::parse(bytes.get(..len)?) else {
            self.received.malformed += 1;
            return None;
        };
        self.received.note(arrived, packet.header());
        let (marked, rest) = packet.payload().split_first_chunk::<8>()?;
        let (sent, _) = rest.split_first_chunk::<8>()?;
        let is_ours = u64::from_be_bytes(*marked) == mark;
        is_ours.then(|| arrived.since(Instant::from_nanos(u64::from_be_bytes(*sent))))
    }

    pub(super) fn report(&self) -> StreamReport {
        let received = &self.received;
        let srtp = self.receiver.as_ref().map(|receiver| *receiver.counts()).unwrap_or_default();
        StreamReport {
            sent: self.sent,
            received: received.past.and(&received.tracker.counts()),
            jitter_mean_ms: received.jitter_sum_ms / (received.jitters as f64).max(1.0),
            jitter_max_ms: received.jitter_max_ms,
            authentication_failed: srtp.authentication_failed,
            replayed: srtp.replayed + srtp.too_old,
            malformed: received.malformed
                + srtp.malformed
                + srtp.unknown_mki
                + srtp.lifetime_over
                + srtp.too_many_ssrcs,
        }
    }
}

impl Received {
    fn note(&mut self, arrived: Instant, header: RtpHeader) {
        if self.ssrc != Some(header.ssrc) {
            self.past = self.past.and(&self.tracker.counts());
            self.tracker = SequenceTracker::default();
            self.jitter = Jitter::default();
            self.ssrc = Some(header.ssrc);
        }
        match self.tracker.on_packet(header.sequence) {
            PacketOrder::Duplicate(_) | PacketOrder::Stray => return,
            PacketOrder::Newest(_) | PacketOrder::Reordered(_) | PacketOrder::Restarted(_) => {}
        }
        self.jitter.on_packet(arrived, header.timestamp, CLOCK_HZ);
        self.jitters += 1;
        self.jitter_sum_ms += self.jitter.ms();
        self.jitter_max_ms = self.jitter_max_ms.max(self.jitter.ms());
    }
}

/// Protects the packet from `start` on; removes it if the key's lifetime is over.
fn protect(sender: &mut SrtpSender, start: usize, arena: &mut Vec<u8>) {
    let len = arena.len() - start;
    arena.resize(start + len + sender.rtp_overhead_bytes(), 0);
    let protected = arena.get_mut(start..).and_then(|packet| sender.protect_rtp(packet, len).ok());
    arena.truncate(start + protected.unwrap_or(0));
}

/// Clock rate of G.711.
const CLOCK_HZ: u32 = 8000;
/// Ticks of a packet.
const TICKS: u32 = 160;
/// Payload behind mark and time: the lowest level of PCMU.
const SILENCE: [u8; 144] = [0xff; 144];
/// Maximum number of SSRCs of a peer: one, and another after a restart.
const SSRCS_MAX: usize = 2;
