//! What a session reports.

use super::control::RemoteReception;
use super::send::SentCounts;
use super::srtp_state::Security;
use crate::jitter_buffer::BufferCounts;
use crate::quality::{self, Concealment, Impairments};
use crate::reception::ReceptionReport;
use core::net::SocketAddr;
use ringway_sdp::Codec;

/// Everything known about a stream. A value without memory of its own: making and moving it allocates nothing.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Protection in force; `None`: none, or not yet.
    pub security: Option<Security>,
    /// What we sent.
    pub sent: SentReport,
    /// What the peer's packets say: loss, delta, jitter, kbit/s.
    pub received: ReceptionReport,
    /// What became of the sound in them.
    pub sound: BufferCounts,
    /// How long sound waits in the jitter buffer, in milliseconds.
    pub buffer_delay_ms: u32,
    /// What came and was not heard.
    pub refused: Refused,
    /// Keys of ours that found no room in the queue.
    pub digits_dropped: u64,
    /// Events that nobody polled in time.
    pub events_dropped: u64,
    /// RTCP reports sent.
    pub reports_sent: u64,
    /// RTCP reports received.
    pub reports_received: u64,
    /// There and back, by RTCP, in milliseconds.
    pub round_trip_ms: Option<f64>,
    /// How the peer hears us, by RTCP.
    pub remote: Option<RemoteReception>,
    /// Where our sound goes.
    pub target: Option<SocketAddr>,
    /// Where the peer is heard from.
    pub heard_from: Option<SocketAddr>,
    /// How our RTP port looks from outside.
    pub stun_mapped: Option<SocketAddr>,
    /// The rating R of what we hear, 0-93.2; `None` when nothing came.
    pub rating: Option<f64>,
    /// The same as mean opinion score, 1-4.41.
    pub mos: Option<f64>,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SentReport {
    /// RTP packets.
    pub packets: u64,
    /// Bytes of their payloads.
    pub octets: u64,
    /// Thousand bits of IP packets a second.
    pub kbit_s: f64,
}

impl SentReport {
    pub(super) fn new(counts: &SentCounts) -> Self {
        let seconds = counts.last_at.since(counts.first_at).as_secs_f64();
        // The last packet's bytes belong to the interval behind it.
        let bits = 8.0 * counts.ip_bytes.saturating_sub(u64::from(counts.last_ip_bytes)) as f64;
        let kbit_s = if seconds > 0.0 { bits / seconds / 1000.0 } else { 0.0 };
        Self { packets: counts.packets, octets: counts.octets, kbit_s }
    }
}

/// Datagrams that were counted and neither heard nor answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Datagrams of any kind from addresses that are not the peer's.
    pub strangers: u64,
    /// Datagrams that came before anything was agreed on: whose they are, nobody can say yet.
    pub early: u64,
    /// Datagrams of the peer's that came after the end.
    pub after_end: u64,
    /// SRTP and SRTCP packets whose tag is wrong.
    pub auth_failures: u64,
    /// SRTP and SRTCP packets that came before, or are too old to know.
    pub replays: u64,
    /// SRTP and SRTCP packets refused for another reason: no known key, key used up, encryption not as agreed.
    pub srtp_other: u64,
    /// Packets that came before there were keys to check them.
    pub unprotected: u64,
    /// RTP, RTCP, STUN or ZRTP that cannot be read.
    pub malformed: u64,
    /// Datagrams of another kind, and STUN and ZRTP of the peer's where there is none.
    pub unknown: u64,
    /// RTP of payload types that nobody agreed on.
    pub unknown_payload: u64,
}

/// The rating of what is heard. `None` when nothing came.
pub(super) fn rating(
    codec: Codec,
    received: &ReceptionReport,
    sound: &BufferCounts,
    delay_ms: f64,
) -> Option<f64> {
    if received.counts.received == 0 {
        return None;
    }
    let heard = sound.played_samples + sound.concealed_samples;
    // What was made up is what the listener misses: packets lost, and packets too late.
    let loss = if heard > 0 { sound.concealed_samples as f64 / heard as f64 } else { 0.0 };
    let counts = &received.counts;
    let burst_ratio = quality::burst_ratio(counts.lost(), counts.loss_bursts, counts.expected);
    let concealment = Concealment::WaveForm;
    Some(quality::rating(&Impairments { codec, concealment, loss, burst_ratio, delay_ms }))
}
