//! RTCP of the session: our reports, and evaluation of the peer's.

use super::send::Outgoing;
use crate::reception::Reception;
use crate::rtcp::{
    Compound, OwnReport, REPORT_BYTES_MAX, ReportBlock, ReportKind, ReportSchedule, RtcpPacket, ntp_middle,
    ntp_time,
};
use core::time::Duration;
use ringway_sansio::{Instant, Rng};
use ringway_sdp::MediaParams;
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
        (rng, cname): (&mut Rng, &str),
        (outgoing, reception, params): (&Outgoing, &mut Reception, &MediaParams),
        kind: ReportKind,
        room: &mut ReportBuffer,
    ) -> usize {
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

/// 30 s, in 2^-16 s.
const ROUND_TRIP_MAX: u32 = 30 << 16;
