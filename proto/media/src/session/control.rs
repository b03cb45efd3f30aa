//! Our side of RTCP: what we report, and what the peer's reports say.

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

/// Reports sent and received.
#[derive(Debug)]
pub(super) struct Control {
    schedule: Option<ReportSchedule>,
    /// The peer's last sender report: its name for the time, and when it came.
    last_report: Option<(u32, Instant)>,
    round_trip: Option<Duration>,
    remote: Option<RemoteReception>,
    /// Packets we had sent at the last report and at the one before.
    sent_before: [u64; 2],
    sent: u64,
    received: u64,
    has_left: bool,
}

/// Reception of our stream by the peer, from its last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteReception {
    /// Share of our packets it lost lately, in 1/256.
    pub fraction_lost: u8,
    /// Packets of ours it lost so far.
    pub cumulative_lost: i32,
    /// Jitter it sees, in ticks of the stream's clock.
    pub jitter: u32,
}

/// Buffer for a report with the SRTCP trailer.
pub(super) type ReportBuffer = [u8; REPORT_BYTES_MAX + SrtpSender::OVERHEAD_BYTES_MAX];

/// Whether the peer said that it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Report,
    Goodbye,
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

    /// The stream begins.
    pub(super) fn start(&mut self, now: Instant, rng: &mut Rng) {
        self.schedule.get_or_insert_with(|| ReportSchedule::new(now, rng));
    }

    /// When the next report is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.schedule.as_ref().map(ReportSchedule::due)
    }

    /// Writes a report, and plans the next.
    pub(super) fn write(
        &mut self,
        now: Instant,
        (rng, cname): (&mut Rng, &str),
        (outgoing, reception, params): (&Outgoing, &mut Reception, &MediaParams),
        kind: ReportKind,
        room: &mut ReportBuffer,
    ) -> usize {
        let packets = outgoing.counts().packets;
        // RFC 3550 §6.4: a sender is who sent since the last report but one.
        let is_sender = packets > self.sent_before[1];
        self.sent_before = [packets, self.sent_before[0]];
        let report = OwnReport {
            ssrc: outgoing.ssrc(),
            sent: is_sender.then(|| outgoing.info(now, params.codec.clock_rate_hz())),
            heard: self.block(now, reception),
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

    /// Reads the peer's report; `our_ssrc`: whose reports are about us.
    pub(super) fn on_compound(&mut self, arrived: Instant, compound: &Compound<'_>, our_ssrc: u32) -> Heard {
        self.received += 1;
        let mut heard = Heard::Report;
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
                    heard = Heard::Goodbye;
                }
                RtcpPacket::Goodbye(_) | RtcpPacket::SourceDescription { .. } | RtcpPacket::Other(_) => {}
            }
        }
        heard
    }

    /// There and back, as the last report that answered one of ours says.
    pub(super) const fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    pub(super) const fn remote(&self) -> Option<RemoteReception> {
        self.remote
    }

    /// Reports sent and received.
    pub(super) const fn counts(&self) -> (u64, u64) {
        (self.sent, self.received)
    }

    fn block(&self, now: Instant, reception: &mut Reception) -> Option<ReportBlock> {
        let heard = reception.receiver_report()?;
        let (last_report, delay) =
            self.last_report.map_or((0, Duration::ZERO), |(name, at)| (name, now.since(at)));
        let delay_since_last_report = (delay.as_micros() << 16) / 1_000_000;
        Some(ReportBlock {
            ssrc: heard.ssrc,
            fraction_lost: heard.fraction_lost,
            cumulative_lost: heard.cumulative_lost,
            highest_sequence: heard.highest_sequence,
            jitter: heard.jitter,
            last_report,
            delay_since_last_report: u32::try_from(delay_since_last_report).unwrap_or(u32::MAX),
        })
    }

    fn on_block(&mut self, arrived: Instant, block: &ReportBlock, our_ssrc: u32) {
        if block.ssrc != our_ssrc {
            return;
        }
        let ReportBlock { fraction_lost, cumulative_lost, jitter, .. } = *block;
        self.remote = Some(RemoteReception { fraction_lost, cumulative_lost, jitter });
        if block.last_report != 0 {
            // RFC 3550 §6.4.1: A - LSR - DLSR, in 2^-16 s; what is negative or absurd comes from a clock that jumped.
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
