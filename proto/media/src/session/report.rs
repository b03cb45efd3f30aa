//! Statistics of a session.

use super::control::RemoteReception;
use super::send::SentCounts;
use super::srtp_state::Security;
use crate::jitter_buffer::BufferCounts;
use crate::quality::{self, Impairments};
use crate::reception::ReceptionReport;
use core::net::SocketAddr;
use ringway_sdp::Codec;

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
