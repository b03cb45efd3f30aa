//! RTCP of the session: our reports, and evaluation of the peer's; statistics of the session.

use super::send::{Outgoing, SentCounts};
use super::srtp_state::Security;
use crate::jitter_buffer::BufferCounts;
use crate::quality;
use crate::quality::Impairments;
use crate::reception::{Reception, ReceptionReport};
use crate::rtcp::{
    Compound, OwnReport, REPORT_BYTES_MAX, ReportBlock, ReportKind, ReportSchedule, RtcpPacket, ntp_middle,
    ntp_time,
};
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::{Instant, Rng};
use ringway_sdp::{Codec, MediaParams};
use ringway_srtp::SrtpSender;

/// State of sent and received reports.
#[derive(Debug)]
pub(super) struct Control {
    schedule: Option<ReportSchedule>,
    /// NTP time (middle 32 bits) and arrival time of the peer's last sender report.
    last_report: Option<(u32, Instant)>,
    round_trip: Option<Duration>,
    remote: Option<RemoteReception>,
    /// Number of packets sent at the last report and at the one before.
    sent_before: [u64; 2],
    sent: u64,
    received: u64,
    has_left: bool,
}

/// Subject of a report.
pub(super) struct Reported<'a> {
    pub(super) outgoing: &'a Outgoing,
    pub(super) reception: &'a mut Reception,
    pub(super) params: &'a MediaParams,
    pub(super) cname: &'a str,
}

/// Reception of our stream by the peer, from its last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteReception {
    /// Fraction of our packets lost since its previous report, in 1/256.
    pub fraction_lost: u8,
    /// Cumulative number of our packets lost.
    pub cumulative_lost: i32,
    /// Interarrival jitter, in ticks of the stream's clock.
    pub jitter: u32,
}

/// Buffer for a report with the SRTCP trailer.
pub(super) type ReportBuffer = [u8; REPORT_BYTES_MAX + SrtpSender::OVERHEAD_BYTES_MAX];

/// Content of the peer's compound packet: with or without a BYE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReportContent {
    Report,
    Bye,
}

impl Control {
    pub(super) const fn new() -> Self {
        Self {
            schedule: None,
            last_report: None,
            round_trip: None,
            remote: None,
            sent_before: [0; 2],
            sent: 0,
            received: 0,
            has_left: false,
        }
    }

    /// Starts the report schedule.
    pub(super) fn start(&mut self, now: Instant, rng: &mut Rng) {
        self.schedule.get_or_insert_with(|| ReportSchedule::new(now, rng));
    }

    /// Time of the next report.
    pub(super) fn due(&self) -> Option<Instant> {
        self.schedule.as_ref().map(ReportSchedule::due)
    }

    /// Writes a report and schedules the next.
    pub(super) fn write(
        &mut self,
        now: Instant,
        rng: &mut Rng,
        reported: Reported<'_>,
        kind: ReportKind,
        room: &mut ReportBuffer,
    ) -> usize {
        let Reported { outgoing, reception, params, cname } = reported;
        let packets = outgoing.counts().packets;
        // RFC 3550 §6.4: a sender has sent packets since the last report but one.
        let is_sender = packets > self.sent_before[1];
        self.sent_before = [packets, self.sent_before[0]];
        let report = OwnReport {
            ssrc: outgoing.ssrc(),
            sent: is_sender.then(|| outgoing.info(now, params.codec.clock_rate_hz())),
            reception: self.block(now, reception),
            cname,
            kind,
        };
        if let Some(schedule) = &mut self.schedule {
            schedule.on_sent(now, rng);
        }
        if kind == ReportKind::Bye {
            self.schedule = None;
        }
        self.sent += 1;
        room.first_chunk_mut::<REPORT_BYTES_MAX>().map_or(0, |room| report.write(room))
    }

    /// Evaluates the peer's compound packet; `our_ssrc` selects the report blocks on our stream.
    pub(super) fn on_compound(
        &mut self,
        arrived: Instant,
        compound: &Compound<'_>,
        our_ssrc: u32,
    ) -> ReportContent {
        self.received += 1;
        let mut content = ReportContent::Report;
        for packet in compound.packets() {
            match packet {
                RtcpPacket::SenderReport { info, blocks, .. } => {
                    self.last_report = Some((ntp_middle(info.ntp), arrived));
                    blocks.iter().for_each(|block| self.on_block(arrived, &block, our_ssrc));
                }
                RtcpPacket::ReceiverReport { blocks, .. } => {
                    blocks.iter().for_each(|block| self.on_block(arrived, &block, our_ssrc));
                }
                RtcpPacket::Goodbye(_) if !self.has_left => {
                    self.has_left = true;
                    content = ReportContent::Bye;
                }
                RtcpPacket::Goodbye(_) | RtcpPacket::SourceDescription { .. } | RtcpPacket::Other(_) => {}
            }
        }
        content
    }

    /// Round-trip time by the last report that refers to one of ours.
    pub(super) const fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    pub(super) const fn remote(&self) -> Option<RemoteReception> {
        self.remote
    }

    /// Number of reports sent and received.
    pub(super) const fn counts(&self) -> (u64, u64) {
        (self.sent, self.received)
    }

    fn block(&self, now: Instant, reception: &mut Reception) -> Option<ReportBlock> {
        let block = reception.receiver_report()?;
        let (last_report, delay) =
            self.last_report.map_or((0, Duration::ZERO), |(name, at)| (name, now.since(at)));
        let delay = (delay.as_micros() << 16) / 1_000_000;
        let delay_since_last_report = u32::try_from(delay).unwrap_or(u32::MAX);
        Some(ReportBlock { last_report, delay_since_last_report, ..block })
    }

    fn on_block(&mut self, arrived: Instant, block: &ReportBlock, our_ssrc: u32) {
        if block.ssrc != our_ssrc {
            return;
        }
        let ReportBlock { fraction_lost, cumulative_lost, jitter, .. } = *block;
        self.remote = Some(RemoteReception { fraction_lost, cumulative_lost, jitter });
        if block.last_report != 0 {
            // RFC 3550 §6.4.1: A - LSR - DLSR, in 2^-16 s; negative or very large values come from a clock
            // that was set.
            let passed = ntp_middle(ntp_time(arrived)).wrapping_sub(block.last_report);
            let way = passed.wrapping_sub(block.delay_since_last_report);
            if way < ROUND_TRIP_MAX {
                self.round_trip = Some(Duration::from_nanos((u64::from(way) * 1_000_000_000) >> 16));
            }
        }
    }
}

/// Statistics of a stream. Creating and copying it does not allocate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Protection in force; `None` if there is none, or not yet.
    pub security: Option<Security>,
    /// Sent packets.
    pub sent: SentReport,
    /// Received packets: loss, delta, jitter, bit rate.
    pub received: ReceptionReport,
    /// Counters of the jitter buffer.
    pub sound: BufferCounts,
    /// Current delay of the jitter buffer in milliseconds.
    pub buffer_delay_ms: u32,
    /// Datagrams that were discarded.
    pub refused: Refused,
    /// Digits that did not fit into the queue.
    pub digits_dropped: u64,
    /// Events that were dropped because nobody polled them.
    pub events_dropped: u64,
    /// RTCP reports sent.
    pub reports_sent: u64,
    /// RTCP reports received.
    pub reports_received: u64,
    /// Round-trip time by RTCP in milliseconds.
    pub round_trip_ms: Option<f64>,
    /// Reception of our stream by the peer, by RTCP.
    pub remote: Option<RemoteReception>,
    /// Destination of our packets.
    pub target: Option<SocketAddr>,
    /// Source address of the peer's packets.
    pub heard_from: Option<SocketAddr>,
    /// Mapped address of our RTP port.
    pub stun_mapped: Option<SocketAddr>,
    /// Rating R of the received sound, 0 to 93.2; `None` if nothing was received.
    pub rating: Option<f64>,
    /// The same as mean opinion score, 1 to 4.41.
    pub mos: Option<f64>,
}

/// Sent packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SentReport {
    /// Number of RTP packets.
    pub packets: u64,
    /// Bytes of their payloads.
    pub octets: u64,
    /// Bit rate of the IP packets in kbit/s.
    pub kbit_s: f64,
}

impl SentReport {
    pub(super) fn new(counts: &SentCounts) -> Self {
        let seconds = counts.last_at.since(counts.first_at).as_secs_f64();
        // The bytes of the last packet belong to the interval after it.
        let bits = 8.0 * counts.ip_bytes.saturating_sub(u64::from(counts.last_ip_bytes)) as f64;
        let kbit_s = if seconds > 0.0 { bits / seconds / 1000.0 } else { 0.0 };
        Self { packets: counts.packets, octets: counts.octets, kbit_s }
    }
}

/// Numbers of datagrams that were discarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Datagrams from addresses that are not the peer's; with ICE, those that passed no check.
    pub strangers: u64,
    /// Datagrams that arrived before anything was negotiated.
    pub early: u64,
    /// Datagrams of the peer that arrived after the end.
    pub after_end: u64,
    /// SRTP and SRTCP packets with a wrong tag.
    pub auth_failures: u64,
    /// SRTP and SRTCP packets that were received before, or are behind the replay window.
    pub replays: u64,
    /// SRTP and SRTCP packets rejected for another reason: unknown key, lifetime over, wrong encryption.
    pub srtp_other: u64,
    /// Packets that arrived before there were keys to authenticate them.
    pub unprotected: u64,
    /// DTLS datagrams beyond the limit of a handshake.
    pub dtls_excess: u64,
    /// Binding requests that are not a valid check of the peer; they get no response.
    pub checks: u64,
    /// Malformed RTP, RTCP, STUN or ZRTP.
    pub malformed: u64,
    /// Datagrams of another protocol, and STUN, ZRTP or DTLS of the peer while not in use.
    pub unknown: u64,
    /// RTP of payload types that were not negotiated.
    pub unknown_payload: u64,
}

/// Rating of the received sound; `None` if nothing was received.
pub(super) fn rating(
    codec: Codec,
    received: &ReceptionReport,
    sound: &BufferCounts,
    delay_ms: f64,
) -> Option<f64> {
    if received.counts.received == 0 {
        return None;
    }
    let played = sound.played_samples + sound.concealed_samples;
    // Concealed samples are the loss: lost packets and late packets.
    let loss = if played > 0 { sound.concealed_samples as f64 / played as f64 } else { 0.0 };
    let counts = &received.counts;
    let burst_ratio = quality::burst_ratio(counts.lost(), counts.loss_bursts, counts.expected);
    Some(quality::rating(&Impairments { codec, loss, burst_ratio, delay_ms }))
}

/// 30 s, in 2^-16 s.
const ROUND_TRIP_MAX: u32 = 30 << 16;
