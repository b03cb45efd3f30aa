//! Media session: one stream of a call, composed of the other modules.
//!
//! ```text
//!  datagrams ─► on_rtp, on_rtcp ─► SRTP ─► latch ─► incoming (statistics, jitter buffer) ─► playout ─► sound
//!  sound ─► prepare ─► outgoing (digits, G.711) ─► SRTP ─► datagram          on_timeout ─► RTCP, STUN, ZRTP, port row
//! ```
//! Datagrams are handled in `datagram`, timers in `timed`.

mod config;
mod control;
mod datagram;
mod dtls_state;
#[cfg_attr(not(feature = "ice"), path = "session/no_ice.rs")]
mod ice_lite;
mod latch;
mod receive;
mod send;
mod srtp_state;
mod stun_mapping;
mod timed;

use alloc::collections::VecDeque;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;

use ringway_sansio::{Entropy, Flow, Instant, ListenerId, Rng, Seed};
use ringway_sdp::{Direction, KeyManagement, MediaParams, Protection};
use ringway_zrtp::{SasCheck, Zrtp};

use crate::dtmf::Digit;
use crate::quality;
pub use config::{MediaEvent, Sas, SecurityFailure};
pub use config::{PortRow, SessionConfig, SessionLimits, ZrtpSettings};
use control::Control;
pub use control::RemoteReception;
pub use control::{Refused, Report, SentReport};
use dtls_state::DtlsState;
use ice_lite::IceLite;
pub use latch::OfferedSound;
use latch::{Latch, Offered, PortProbe};
use receive::Incoming;
use send::Outgoing;
pub use srtp_state::Security;
use srtp_state::{KeyChange, SendError, SrtpState};
use stun_mapping::StunMapping;

/// One media stream of a call, from before the first answer to after the last packet.
///
/// The driver passes the datagrams of both ports, calls [`MediaSession::prepare`] once per packet time,
/// [`MediaSession::playout`] once per block of sound, and [`MediaSession::on_timeout`] at
/// [`MediaSession::next_deadline`]. Packets in an outbox name their port by [`RTP_PORT`] or [`RTCP_PORT`].
pub struct MediaSession {
    config: SessionConfig,
    params: Option<MediaParams>,
    /// Only before the first parameters.
    offered: Option<Offered>,
    is_closed: bool,
    srtp: SrtpState,
    /// Keys of RTCP from a DTLS association of its own; `None`: RTCP has those of RTP.
    control_srtp: Option<SrtpState>,
    /// `None` before the first parameters.
    latch: Option<Latch>,
    outgoing: Outgoing,
    incoming: Incoming,
    control: Control,
    /// Source address of the peer's last RTCP packet.
    control_from: Option<SocketAddr>,
    stun: Option<StunMapping>,
    zrtp: Option<Deferred<Zrtp>>,
    /// Source address of ZRTP before any packet was authenticated.
    zrtp_from: Option<SocketAddr>,
    dtls: Option<DtlsState>,
    /// Decides about all addresses of the peer, if it is in use; the latch then only shows the source of its packets.
    ice: Option<IceLite>,
    /// Time of the last parameters.
    agreed_at: Instant,
    port_probe: PortProbe,
    rng: Rng,
    events: VecDeque<MediaEvent>,
    events_dropped: u64,
    digits_dropped: u64,
    refused: Refused,
}

/// A state machine that starts with the next outbox, from `start_at` on.
struct Deferred<T> {
    machine: T,
    start_at: Option<Instant>,
}

/// RTP port in the flows of an outbox; with `rtcp_mux` also for RTCP.
pub const RTP_PORT: ListenerId = ListenerId(0);
/// RTCP port in the flows of an outbox.
pub const RTCP_PORT: ListenerId = ListenerId(1);

impl MediaSession {
    /// Number of samples of the longest packet that can be negotiated: 200 ms of G.711.
    pub const PACKET_SAMPLES_MAX: usize = 1600;

    /// Creates a session without parameters and allocates the memory for its packets. `seed` must be
    /// unpredictable: our SSRC and the secrets of ZRTP are derived from it.
    pub fn new(config: SessionConfig, seed: Seed, now: Instant) -> Self {
        let mut entropy = Entropy::new(&seed.part(0));
        let stun =
            config.stun_server.map(|server| StunMapping::new(server, [seed.part(1), seed.part(4)], now));
        let zrtp = config.zrtp.as_ref().map(|settings| Deferred::<Zrtp>::new(settings, &seed.part(2)));
        Self {
            params: None,
            offered: None,
            is_closed: false,
            srtp: SrtpState::None,
            control_srtp: None,
            latch: None,
            outgoing: Outgoing::new(config.limits.digits_max, &mut entropy, now),
            incoming: Incoming::new(config.limits.buffer.clone()),
            control: Control::new(),
            control_from: None,
            stun,
            zrtp,
            zrtp_from: None,
            dtls: config.dtls.clone().map(DtlsState::new),
            ice: None,
            agreed_at: now,
            port_probe: PortProbe::new(config.port_row),
            rng: Rng::new(&seed.part(3)),
            events: VecDeque::with_capacity(config.limits.events_max),
            events_dropped: 0,
            digits_dropped: 0,
            refused: Refused::default(),
            config,
        }
    }

    /// Sets the negotiated parameters, initially or again (hold, resume, another address or key). SSRC,
    /// sequence numbers and timestamps continue. An SRTP context with an unchanged key is kept with its
    /// rollover counters (RFC 3711 §3.3.1). After a key change of a peer with an unchanged address, packets
    /// with the previous key are accepted for 2 s.
    pub fn set_params(&mut self, now: Instant, params: MediaParams) {
        if self.is_closed {
            return;
        }
        self.offered = None;
        let remote = Flow::canonical(params.remote);
        let was = self.latch.as_ref().map(Latch::signalled);
        self.ice = IceLite::agreed(self.ice.take(), &params, now);
        let uses_ice = self.ice.is_some();
        let has_moved = !uses_ice && (was.is_none() || is_reachable(remote) && was != Some(remote));
        if uses_ice {
            self.port_probe.stop();
        } else if has_moved {
            self.port_probe.start(now);
            self.control_from = None;
        }
        match &mut self.latch {
            // An unspecified address is an old form of hold (RFC 3264 §8.4): the peer has not moved.
            Some(latch) if is_reachable(remote) => latch.on_signalled(remote),
            Some(_) => {}
            None => self.latch = Some(Latch::new(remote)),
        }
        self.agreed_at = now;
        self.set_protection(now, &params);
        if has_moved {
            // It may be another endpoint: the old one must neither be played any longer nor attract our
            // packets again.
            self.srtp.forget_previous();
        }
        self.incoming.set_heard(params.direction.receives());
        self.control.start(now, &mut self.rng);
        self.params = Some(params);
    }

    /// Plays sound of the offered formats until the first parameters. Nothing is sent to its source.
    pub fn set_offered(&mut self, sound: OfferedSound) {
        if self.params.is_none() && !self.is_closed {
            self.incoming.set_heard(true);
            self.offered = Some(Offered::new(sound));
        }
    }

    /// Prepares the next packet from `sound` ([`MediaSession::packet_samples`] samples), protected and to be
    /// sent at its deadline, and returns it with its destination. `None` if nothing is to be sent. Must be
    /// called for every packet time, so that the timestamps advance.
    pub fn prepare(&mut self, now: Instant, sound: &[i16]) -> Option<(&[u8], SocketAddr)> {
        let target = self.sound_target();
        let (Some(params), Some(target)) = (&self.params, target) else {
            self.outgoing.skip(now, sound.len());
            return None;
        };
        let result = self.outgoing.prepare(now, sound, params, &mut self.srtp, ip_header_bytes(target));
        match result.map(<[u8]>::len) {
            Ok(_) => Some((self.outgoing.last_packet(), target)),
            Err(SendError::KeyUsedUp) => {
                self.srtp = SrtpState::Failed;
                self.emit(MediaEvent::SecurityFailed(SecurityFailure::KeyUsedUp));
                None
            }
            Err(SendError::NotReady | SendError::Malformed) => None,
        }
    }

    /// Fills `sound` with the next samples to play; silence if there are none.
    pub fn playout(&mut self, now: Instant, sound: &mut [i16]) {
        self.incoming.playout(now, sound);
    }

    /// Queues digits to be sent one after the other as telephone events (RFC 4733) instead of sound, all or
    /// none.
    ///
    /// # Errors
    /// The peer does not support telephone events, a character is not a digit, or the queue has too little
    /// room.
    pub fn send_digits(&mut self, digits: &str) -> Result<(), DigitsError> {
        let params = self.params.as_ref().filter(|_| !self.is_closed).ok_or(DigitsError::NotAgreed)?;
        params.telephone_event.ok_or(DigitsError::NotAgreed)?;
        if let Some(other) = digits.chars().find(|name| Digit::from_char(*name).is_none()) {
            return Err(DigitsError::NoDigit(other));
        }
        let ticks = self.config.digit_duration.as_millis() * u128::from(params.codec.clock_rate_hz()) / 1000;
        let ticks = u16::try_from(ticks).unwrap_or(u16::MAX);
        let dropped = digits
            .chars()
            .filter_map(Digit::from_char)
            .map(|digit| self.outgoing.push_digit(digit, ticks))
            .filter(|is_queued| !is_queued)
            .count();
        self.digits_dropped += dropped as u64;
        if dropped > 0 { Err(DigitsError::TooMany { dropped }) } else { Ok(()) }
    }

    /// Reports that the users have compared the short authentication strings (RFC 6189 §7.1).
    pub fn on_sas_compared(&mut self, now: Instant, check: SasCheck) {
        if let Some(zrtp) = &mut self.zrtp {
            zrtp.machine.on_sas_compared(now, check);
        }
        self.follow_zrtp();
    }

    /// Next event, if any; call until it returns `None`.
    pub fn poll_event(&mut self) -> Option<MediaEvent> {
        self.events.pop_front()
    }

    /// Value of our `a=zrtp-hash` (RFC 6189 §8.1); `None` without ZRTP.
    pub fn zrtp_hello_hash(&self) -> Option<[u8; 32]> {
        self.zrtp.as_ref().map(|zrtp| zrtp.machine.hello_hash())
    }

    /// True while sound is sent: there is a target, the agreed direction sends, and what must protect it does.
    pub fn is_sending(&self) -> bool {
        self.sound_target().is_some()
    }

    /// True while the peer may send and can be heard: nobody holds the stream, and what must protect it does.
    pub fn is_due_to_receive(&self) -> bool {
        let is_both_ways = self.params.as_ref().is_some_and(|params| params.direction == Direction::SendRecv);
        is_both_ways && !self.is_closed && self.srtp.may_send()
    }

    /// Arrival of the last RTP packet of the peer; `None`: there was none.
    pub const fn last_received_at(&self) -> Option<Instant> {
        self.incoming.reception.last_at()
    }

    /// Current parameters.
    pub const fn params(&self) -> Option<&MediaParams> {
        self.params.as_ref()
    }

    /// Number of samples of our packets, at most [`Self::PACKET_SAMPLES_MAX`]; 20 ms before the first
    /// parameters.
    pub fn packet_samples(&self) -> usize {
        self.params.as_ref().map_or(160, |params| {
            usize::from(params.ptime_ms.clamp(10, 200)) * params.codec.clock_rate_hz() as usize / 1000
        })
    }

    /// Interval of our packets; 20 ms before the first parameters.
    pub fn packet_time(&self) -> Duration {
        let ptime_ms = self.params.as_ref().map_or(20, |params| params.ptime_ms.clamp(10, 200));
        Duration::from_millis(u64::from(ptime_ms))
    }

    /// Our SSRC.
    pub const fn ssrc(&self) -> u32 {
        self.outgoing.ssrc()
    }

    /// All statistics of the stream.
    pub fn report(&self) -> Report {
        let received = self.incoming.reception.report();
        let sound = self.incoming.buffer.counts();
        let buffer_delay_ms = self.incoming.buffer.delay_ms();
        let round_trip_ms = self.control.round_trip().map(|way| way.as_secs_f64() * 1000.0);
        let ptime_ms = self.params.as_ref().map_or(20, |params| params.ptime_ms);
        let delay_ms = round_trip_ms.unwrap_or(0.0) / 2.0 + f64::from(buffer_delay_ms) + f64::from(ptime_ms);
        let codec = self.params.as_ref().map(|params| params.codec);
        let rating = codec.and_then(|codec| control::rating(codec, &received, &sound, delay_ms));
        let (reports_sent, reports_received) = self.control.counts();
        Report {
            security: self.srtp.security(),
            sent: SentReport::new(self.outgoing.counts()),
            received,
            sound,
            buffer_delay_ms,
            refused: Refused { unknown_payload: self.incoming.unknown_payload(), ..self.refused },
            digits_dropped: self.digits_dropped,
            events_dropped: self.events_dropped,
            reports_sent,
            reports_received,
            round_trip_ms,
            remote: self.control.remote(),
            target: self.sound_target(),
            heard_from: self.latch.as_ref().and_then(Latch::heard_from),
            stun_mapped: self.stun.as_ref().and_then(StunMapping::mapped),
            rating,
            mos: rating.map(quality::mean_opinion_score),
        }
    }

    fn set_protection(&mut self, now: Instant, params: &MediaParams) {
        if !matches!(params.protection, Protection::Dtls { .. }) {
            self.control_srtp = None;
            if let Some(dtls) = &mut self.dtls {
                dtls.stop();
            }
        }
        match &params.protection {
            Protection::None => {
                if self.srtp.security().is_some() {
                    self.emit(MediaEvent::Unprotected);
                }
                self.srtp = SrtpState::None;
            }
            Protection::Sdes { suite, send, receive } => {
                match self.srtp.set_sdes(now, *suite, send, receive, self.config.srtp) {
                    Ok(KeyChange::Changed) => {
                        let key_management = KeyManagement::Sdes;
                        self.emit(MediaEvent::Secured { suite: *suite, key_management, sas: None });
                    }
                    Ok(KeyChange::Unchanged) => {}
                    Err(failure) => self.emit(MediaEvent::SecurityFailed(failure)),
                }
            }
            Protection::Zrtp { peer_hello_hash } => self.set_zrtp(now, *peer_hello_hash),
            Protection::Dtls { .. } => self.set_dtls(now, params),
        }
    }

    fn set_zrtp(&mut self, now: Instant, peer_hello_hash: Option<[u8; 32]>) {
        let is_known =
            matches!(self.params.as_ref().map(|params| &params.protection), Some(Protection::Zrtp { .. }));
        let failure = match &mut self.zrtp {
            None => Some(SecurityFailure::NoZrtp),
            Some(zrtp) if !is_known && zrtp.machine.is_secured() => Some(SecurityFailure::ZrtpLeft),
            Some(zrtp) if !is_known => {
                zrtp.start_at = Some(now);
                self.srtp = SrtpState::Agreeing { receive: None };
                None
            }
            // One agreement lasts for the whole call; a hash announced later must be that of the received
            // Hello.
            Some(zrtp) => match peer_hello_hash {
                Some(hash) if !zrtp.machine.announce_peer_hello(hash) => {
                    Some(SecurityFailure::Zrtp(ringway_zrtp::ZrtpFailure::HelloNotAnnounced))
                }
                Some(_) | None => None,
            },
        };
        if let Some(failure) = failure {
            self.srtp = SrtpState::Failed;
            self.emit(MediaEvent::SecurityFailed(failure));
        }
    }

    /// Destination of our audio packets.
    fn sound_target(&self) -> Option<SocketAddr> {
        let params = self.params.as_ref()?;
        let may_send = !self.is_closed && params.direction.sends() && self.srtp.may_send();
        if let Some(ice) = &self.ice {
            return ice.selected().filter(|_| may_send);
        }
        let may_send = may_send && is_reachable(Flow::canonical(params.remote));
        self.latch.as_ref().filter(|_| may_send).map(Latch::target).filter(|target| is_reachable(*target))
    }

    fn emit(&mut self, event: MediaEvent) {
        if self.events.len() < self.config.limits.events_max {
            self.events.push_back(event);
        } else {
            self.events_dropped += 1;
        }
    }
}

impl fmt::Debug for MediaSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = self.params.as_ref().map_or(Direction::Inactive, |params| params.direction);
        write!(f, "MediaSession({:08x}, {}, {:?})", self.ssrc(), direction.name(), self.srtp)
    }
}

/// Reason why digits were not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigitsError {
    /// The peer does not support telephone events, or there is no call.
    #[error("the other phone does not support DTMF (telephone-event) in this call")]
    NotAgreed,
    /// Not a DTMF digit.
    #[error("{0:?} is not a DTMF digit: use 0-9, *, #, A-D")]
    NoDigit(char),
    /// The queue has too little room.
    #[error("too many digits queued: the last {dropped} were not accepted")]
    TooMany {
        /// Number of digits that do not fit.
        dropped: usize,
    },
}

/// True for an address to which packets can be sent.
fn is_reachable(address: SocketAddr) -> bool {
    !address.ip().is_unspecified() && address.port() != 0
}

/// Length of the IP and UDP headers in bytes.
fn ip_header_bytes(address: SocketAddr) -> u32 {
    if address.is_ipv6() { 48 } else { 28 }
}

#[cfg(test)]
mod dtls_tests;
#[cfg(feature = "ice")]
#[cfg(test)]
mod ice_tests;
#[cfg(test)]
mod offered_tests;
#[cfg(test)]
mod rekey_tests;
#[cfg(test)]
mod session_tests;
#[cfg(test)]
mod wire;
