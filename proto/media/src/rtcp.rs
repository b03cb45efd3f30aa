//! RTCP (RFC 3550 §6): parsing and writing of compound packets, and the report interval.

use core::time::Duration;
use ringway_sansio::{Instant, Rng};

/// A received compound packet whose lengths have been checked (RFC 3550 §A.2), without a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compound<'a> {
    bytes: &'a [u8],
}

impl<'a> Compound<'a> {
    /// Parses an unencrypted compound packet.
    ///
    /// # Errors
    /// The first fault found.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RtcpError> {
        let first = bytes.get(1).ok_or(RtcpError::Short)?;
        if !matches!(*first, SENDER_REPORT | RECEIVER_REPORT) {
            return Err(RtcpError::FirstPacket);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let (packet, behind) = split(rest)?;
            // RFC 3550 §6.4.1: only the last packet of a compound packet may be padded.
            if packet.first().is_some_and(|flags| flags & PADDING != 0) && !behind.is_empty() {
                return Err(RtcpError::Padding);
            }
            read(packet)?;
            rest = behind;
        }
        Ok(Self { bytes })
    }

    /// Packets of the compound packet, in their order.
    pub fn packets(&self) -> impl Iterator<Item = RtcpPacket<'a>> {
        let mut rest = self.bytes;
        core::iter::from_fn(move || {
            let (packet, behind) = split(rest).ok()?;
            rest = behind;
            read(packet).ok()
        })
    }

    /// SSRC of the sender, from the first report.
    pub fn ssrc(&self) -> u32 {
        self.bytes.get(4..).and_then(word).unwrap_or(0)
    }
}

/// A packet of a compound packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtcpPacket<'a> {
    /// SR (RFC 3550 §6.4.1): sender information and report blocks.
    SenderReport {
        /// SSRC of the sender.
        ssrc: u32,
        /// Sender information.
        info: SenderInfo,
        /// Report blocks.
        blocks: ReportBlocks<'a>,
    },
    /// RR (RFC 3550 §6.4.2): report blocks.
    ReceiverReport {
        /// SSRC of the sender.
        ssrc: u32,
        /// Report blocks.
        blocks: ReportBlocks<'a>,
    },
    /// SDES (RFC 3550 §6.5): SSRC and CNAME of the first chunk.
    SourceDescription {
        /// SSRC that is described.
        ssrc: u32,
        /// Canonical name, up to 255 bytes.
        cname: Option<&'a [u8]>,
    },
    /// BYE (RFC 3550 §6.6): these sources leave.
    Goodbye(Sources<'a>),
    /// Any other type, which is skipped.
    Other(u8),
}

/// Sender information of a report (RFC 3550 §6.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderInfo {
    /// Wall-clock time of the report in NTP format: seconds since 1900 and 2^-32 s.
    pub ntp: u64,
    /// RTP timestamp of the same time.
    pub timestamp: u32,
    /// Packets sent so far.
    pub packets: u32,
    /// Payload bytes sent so far.
    pub octets: u32,
}

/// Reception of one source (RFC 3550 §6.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportBlock {
    /// SSRC of the source.
    pub ssrc: u32,
    /// Fraction of packets lost since the previous report, in 1/256.
    pub fraction_lost: u8,
    /// Cumulative number of packets lost: 24 bits, negative if there were more duplicates.
    pub cumulative_lost: i32,
    /// Extended highest sequence number received, with the number of cycles in the upper half.
    pub highest_sequence: u32,
    /// Interarrival jitter in ticks of the stream's clock.
    pub jitter: u32,
    /// Middle 32 bits of the NTP time of the last sender report; 0 if none was received.
    pub last_report: u32,
    /// Delay between receiving that report and sending this one, in 2^-16 s.
    pub delay_since_last_report: u32,
}

/// Report blocks of a packet, at most 31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportBlocks<'a>(&'a [u8]);

impl<'a> ReportBlocks<'a> {
    /// Report blocks in their order.
    pub fn iter(&self) -> impl Iterator<Item = ReportBlock> + 'a {
        self.0.as_chunks::<24>().0.iter().map(read_block)
    }
}

/// SSRCs of a BYE, at most 31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources<'a>(&'a [u8]);

impl<'a> Sources<'a> {
    /// SSRCs in their order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + 'a {
        self.0.as_chunks::<4>().0.iter().map(|bytes| u32::from_be_bytes(*bytes))
    }
}

/// Reason why a datagram is not a valid compound packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RtcpError {
    /// Shorter than a header.
    #[error("an RTCP packet shorter than a header")]
    Short,
    /// A version other than 2.
    #[error("an RTCP packet of a version other than 2")]
    Version,
    /// The first packet is not a report (RFC 3550 §6.1).
    #[error("an RTCP packet that does not begin with a report")]
    FirstPacket,
    /// A packet is longer than the datagram, or shorter than its count requires.
    #[error("an RTCP packet whose lengths do not fit")]
    Length,
    /// Padding of a packet that is not the last, or of a wrong length.
    #[error("an RTCP packet whose padding does not fit")]
    Padding,
}

/// Contents of a report of ours.
#[derive(Clone, Copy, Debug)]
pub struct OwnReport<'a> {
    /// Our SSRC.
    pub ssrc: u32,
    /// Sender information; `None` if nothing was sent since the last report but one, which gives a receiver
    /// report (RFC 3550 §6.4).
    pub sent: Option<SenderInfo>,
    /// Reception of the peer, if any.
    pub reception: Option<ReportBlock>,
    /// Our CNAME (RFC 3550 §6.5.1); truncated after [`CNAME_BYTES_MAX`] bytes.
    pub cname: &'a str,
    /// Kind of the report.
    pub kind: ReportKind,
}

/// Kind of a report: with or without a BYE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportKind {
    /// Sent at the report interval.
    Periodic,
    /// Last report, with a BYE packet (RFC 3550 §6.6).
    Bye,
}

/// Maximum length of our CNAME in bytes.
pub const CNAME_BYTES_MAX: usize = 64;

/// Maximum length of a report in bytes: SR with one block, SDES with a CNAME, BYE.
pub const REPORT_BYTES_MAX: usize = 28 + 24 + 8 + 2 + CNAME_BYTES_MAX + 4 + 8;

impl OwnReport<'_> {
    /// Writes a compound packet (report, SDES, BYE; RFC 3550 §6.1) and returns its length in bytes.
    pub fn write(&self, out: &mut [u8; REPORT_BYTES_MAX]) -> usize {
        let mut writer = Writer { out, len: 0 };
        let start = match self.sent {
            Some(info) => {
                let start = writer.begin(SENDER_REPORT, u8::from(self.reception.is_some()), self.ssrc);
                writer.put(&info.ntp.to_be_bytes());
                for word in [info.timestamp, info.packets, info.octets] {
                    writer.put(&word.to_be_bytes());
                }
                start
            }
            None => writer.begin(RECEIVER_REPORT, u8::from(self.reception.is_some()), self.ssrc),
        };
        if let Some(block) = &self.reception {
            writer.put_block(block);
        }
        writer.end(start);
        let start = writer.begin(SOURCE_DESCRIPTION, 1, self.ssrc);
        let cname = self.cname.as_bytes();
        let cname = cname.get(..cname.len().min(CNAME_BYTES_MAX)).unwrap_or_default();
        writer.put(&[SDES_CNAME, cname.len() as u8]);
        writer.put(cname);
        // RFC 3550 §6.5: the items of a chunk end with one to four zero bytes, at a word boundary.
        writer.put(&[0; 4][..4 - writer.len % 4]);
        writer.end(start);
        if self.kind == ReportKind::Bye {
            let start = writer.begin(GOODBYE, 1, self.ssrc);
            writer.end(start);
        }
        writer.len
    }
}

/// Schedule of reports (RFC 3550 §6.2, §6.3): with two participants always the minimum interval, 5 s
/// randomised.
#[derive(Clone, Copy, Debug)]
pub struct ReportSchedule {
    due: Instant,
}

impl ReportSchedule {
    /// Creates the schedule; the first report is due after half the interval (RFC 3550 §6.2).
    pub fn new(now: Instant, rng: &mut Rng) -> Self {
        Self { due: now + randomised(INTERVAL / 2, rng) }
    }

    /// Time of the next report.
    pub const fn due(&self) -> Instant {
        self.due
    }

    /// Schedules the next report after one was sent.
    pub fn on_sent(&mut self, now: Instant, rng: &mut Rng) {
        self.due = now + randomised(INTERVAL, rng);
    }
}

/// Time in NTP format: seconds since 1900 in the upper half, 2^-32 s in the lower (RFC 3550 §4).
pub fn ntp_time(now: Instant) -> u64 {
    let seconds = now.as_secs() + NTP_OFFSET_S;
    let fraction = ((now.as_nanos() % 1_000_000_000) << 32) / 1_000_000_000;
    seconds << 32 | fraction
}

/// Middle 32 bits of an NTP time, in 2^-16 s, as used in reports.
pub const fn ntp_middle(ntp: u64) -> u32 {
    (ntp >> 16) as u32
}

/// RFC 3550 §6.3.1: 0.5 to 1.5 times the interval, divided by e - 3/2 to compensate for timer
/// reconsideration.
fn randomised(interval: Duration, rng: &mut Rng) -> Duration {
    let per_mille = 500 + rng.below(1001) as u32;
    interval * per_mille / 1000 * 100_000 / 121_828
}

/// Splits the first packet off a compound packet.
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), RtcpError> {
    let head = bytes.first_chunk::<4>().ok_or(RtcpError::Short)?;
    if head[0] >> 6 != 2 {
        return Err(RtcpError::Version);
    }
    let len = 4 + 4 * usize::from(u16::from_be_bytes([head[2], head[3]]));
    bytes.split_at_checked(len).ok_or(RtcpError::Length)
}

fn read(packet: &[u8]) -> Result<RtcpPacket<'_>, RtcpError> {
    let (head, body) = packet.split_first_chunk::<4>().ok_or(RtcpError::Short)?;
    let body = match head[0] & PADDING {
        0 => body,
        _ => {
            let padding = usize::from(body.last().copied().unwrap_or(0));
            let len = body.len().checked_sub(padding).ok_or(RtcpError::Padding)?;
            // RFC 3550 §6.4.1: a multiple of four that includes itself.
            if padding == 0 || padding % 4 != 0 {
                return Err(RtcpError::Padding);
            }
            body.get(..len).unwrap_or_default()
        }
    };
    let count = usize::from(head[0] & 0x1f);
    match head[1] {
        SENDER_REPORT => {
            let (ssrc, rest) = split_word(body)?;
            let (info, rest) = rest.split_first_chunk::<20>().ok_or(RtcpError::Length)?;
            Ok(RtcpPacket::SenderReport { ssrc, info: read_info(info), blocks: read_blocks(rest, count)? })
        }
        RECEIVER_REPORT => {
            let (ssrc, rest) = split_word(body)?;
            Ok(RtcpPacket::ReceiverReport { ssrc, blocks: read_blocks(rest, count)? })
        }
        SOURCE_DESCRIPTION if count > 0 => {
            let (ssrc, items) = split_word(body)?;
            Ok(RtcpPacket::SourceDescription { ssrc, cname: find_cname(items)? })
        }
        GOODBYE => Ok(RtcpPacket::Goodbye(Sources(body.get(..4 * count).ok_or(RtcpError::Length)?))),
        other => Ok(RtcpPacket::Other(other)),
    }
}

fn read_blocks(bytes: &[u8], count: usize) -> Result<ReportBlocks<'_>, RtcpError> {
    Ok(ReportBlocks(bytes.get(..24 * count).ok_or(RtcpError::Length)?))
}

fn read_info(bytes: &[u8; 20]) -> SenderInfo {
    let at = |start: usize| bytes.get(start..).and_then(word).unwrap_or(0);
    SenderInfo {
        ntp: u64::from(at(0)) << 32 | u64::from(at(4)),
        timestamp: at(8),
        packets: at(12),
        octets: at(16),
    }
}

fn read_block(bytes: &[u8; 24]) -> ReportBlock {
    let at = |start: usize| bytes.get(start..).and_then(word).unwrap_or(0);
    ReportBlock {
        ssrc: at(0),
        fraction_lost: bytes[4],
        // Shifted left and right again to extend the sign of the 24 bits.
        cumulative_lost: ((at(4) << 8) as i32) >> 8,
        highest_sequence: at(8),
        jitter: at(12),
        last_report: at(16),
        delay_since_last_report: at(20),
    }
}

/// Parses the items of the first chunk, which must all fit (RFC 3550 §6.5).
fn find_cname(items: &[u8]) -> Result<Option<&[u8]>, RtcpError> {
    let mut rest = items;
    loop {
        match rest {
            [] => return Err(RtcpError::Length),
            [0, ..] => return Ok(None),
            [kind, behind @ ..] => {
                let (len, behind) = behind.split_first().ok_or(RtcpError::Length)?;
                let (text, behind) = behind.split_at_checked(usize::from(*len)).ok_or(RtcpError::Length)?;
                if *kind == SDES_CNAME {
                    return Ok(Some(text));
                }
                rest = behind;
            }
        }
    }
}

fn split_word(bytes: &[u8]) -> Result<(u32, &[u8]), RtcpError> {
    let (word, rest) = bytes.split_first_chunk::<4>().ok_or(RtcpError::Length)?;
    Ok((u32::from_be_bytes(*word), rest))
}

fn word(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk::<4>().map(|word| u32::from_be_bytes(*word))
}

/// Writes into a buffer that is large enough; what does not fit is omitted.
struct Writer<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl Writer<'_> {
    /// Writes the header of a packet, whose length [`Writer::end`] sets.
    fn begin(&mut self, kind: u8, count: u8, ssrc: u32) -> usize {
        let start = self.len;
        self.put(&[VERSION_2 | count, kind, 0, 0]);
        self.put(&ssrc.to_be_bytes());
        start
    }

    fn end(&mut self, start: usize) {
        let words = (self.len - start) / 4 - 1;
        if let Some(field) = self.out.get_mut(start + 2..start + 4) {
            field.copy_from_slice(&(words as u16).to_be_bytes());
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some(room) = self.out.get_mut(self.len..self.len + bytes.len()) {
            room.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    fn put_block(&mut self, block: &ReportBlock) {
        let lost = block.cumulative_lost.clamp(-0x80_0000, 0x7f_ffff) as u32 & 0xff_ffff;
        for word in [
            block.ssrc,
            u32::from(block.fraction_lost) << 24 | lost,
            block.highest_sequence,
            block.jitter,
            block.last_report,
            block.delay_since_last_report,
        ] {
            self.put(&word.to_be_bytes());
        }
    }
}

const VERSION_2: u8 = 0x80;
const PADDING: u8 = 0x20;
const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const SOURCE_DESCRIPTION: u8 = 202;
const GOODBYE: u8 = 203;
const SDES_CNAME: u8 = 1;
/// Minimum report interval (RFC 3550 §6.2).
const INTERVAL: Duration = Duration::from_secs(5);
/// Seconds between 1900 and 1970.
const NTP_OFFSET_S: u64 = 2_208_988_800;

#[cfg(test)]
#[path = "rtcp_tests.rs"]
mod tests;
