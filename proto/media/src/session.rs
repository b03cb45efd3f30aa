//! One stream of a call: everything else of this crate, bound together.
//!
//! ```text
//!  datagrams ─► on_rtp, on_rtcp ─► SRTP ─► latch ─► incoming (statistics, jitter buffer) ─► playout ─► sound
//!  sound ─► prepare ─► outgoing (digits, G.711) ─► SRTP ─► datagram          on_timeout ─► RTCP, STUN, ZRTP, port row
//! ```
//! What datagrams do is in `datagram`, what time does in `timed`.

mod config;
mod control;
mod datagram;
mod event;
mod latch;
mod port_probe;
mod receive;
mod receive_contexts;
mod report;
mod send;
mod srtp_state;
mod stun_mapping;
mod timed;

pub use config::{PortRow, SessionConfig, SessionLimits, SymmetricRtp, ZrtpSettings};
pub use control::RemoteReception;
pub use event::{MediaEvent, Sas, SecurityFailure};
pub use report::{Refused, Report, SentReport};
pub use srtp_state::Security;

use crate::dtmf::Digit;
use crate::quality;
use alloc::collections::VecDeque;
use control::Control;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use latch::Latch;
use port_probe::PortProbe;
use receive::Incoming;
use ringway_sansio::{Entropy, Flow, Instant, ListenerId, Rng, Seed};
use ringway_sdp::{Direction, MediaParams, Protection};
use ringway_zrtp::{SasCheck, Zrtp};
use send::Outgoing;
use srtp_state::{KeyChange, SendError, SrtpState};
use stun_mapping::StunMapping;

/// One stream of a call, from before the first answer to after the last packet.
///
/// Who runs it gives it the datagrams of its two ports, calls [`MediaSession::prepare`] once per packet time and
/// [`MediaSession::playout`] once per block of sound, and [`MediaSession::on_timeout`] when
/// [`MediaSession::next_deadline`] says. What it writes into an outbox names its port by [`RTP_PORT`] or [`RTCP_PORT`].
pub struct MediaSession {
    config: SessionConfig,
    params: Option<MediaParams>,
    is_closed: bool,
    srtp: SrtpState,
    /// `None` before the first parameters.
    latch: Option<Latch>,
    outgoing: Outgoing,
    incoming: Incoming,
    control: Control,
    /// Where the peer's RTCP came from last.
    control_from: Option<SocketAddr>,
    stun: Option<StunMapping>,
    zrtp: Option<Deferred<Zrtp>>,
    /// Where ZRTP came from before anything authenticated.
    zrtp_from: Option<SocketAddr>,
    port_probe: PortProbe,
    rng: Rng,
    events: VecDeque<MediaEvent>,
    events_dropped: u64,
    digits_dropped: u64,
    refused: Refused,
}

/// A state machine that is started with the next outbox, at `start_at`.
struct Deferred<T> {
    machine: T,
    start_at: Option<Instant>,
}

/// The port of RTP in the flows of an outbox; with `rtcp_mux` of everything.
pub const RTP_PORT: ListenerId = ListenerId(0);
/// The port of RTCP in the flows of an outbox.
pub const RTCP_PORT: ListenerId = ListenerId(1);

impl MediaSession {
    /// Samples in the longest packet that can be agreed on: 200 ms of G.711.
    pub const PACKET_SAMPLES_MAX: usize = 1600;

    /// A session that waits for its parameters. All memory for packets is taken here. `seed` must be unpredictable:
    /// our SSRC, and the secrets of ZRTP, come from it.
    pub fn new(config: SessionConfig, seed: Seed, now: Instant) -> Self {
        let mut entropy = Entropy::new(&seed.part(0));
        let stun =
            config.stun_server.map(|server| StunMapping::new(server, [seed.part(1), seed.part(4)], now));
        let zrtp = config.zrtp.as_ref().map(|settings| Deferred::<Zrtp>::new(settings, &seed.part(2)));
        Self {
            params: None,
            is_closed: false,
            srtp: SrtpState::None,
            latch: None,
            outgoing: Outgoing::new(config.limits.digits_max, &mut entropy, now),
            incoming: Incoming::new(config.limits.buffer.clone()),
            control: Control::new(),
            control_from: None,
            stun,
            zrtp,
            zrtp_from: None,
            port_probe: PortProbe::new(config.port_row),
            rng: Rng::new(&seed.part(3)),
            events: VecDeque::with_capacity(config.limits.events_max),
            events_dropped: 0,
            digits_dropped: 0,
            refused: Refused::default(),
            config,
        }
    }

    /// What both sides agreed on: for the first time, or again (hold, resume, another address or key). Our SSRC and
    /// numbers go on; an SRTP context whose key is the same is kept, with its rollover counters (RFC 3711 §3.3.1). Of a
    /// peer that has another key and is where it was, packets under the previous key are heard for 2 s more.
    pub fn set_params(&mut self, now: Instant, params: MediaParams) {
        if self.is_closed {
            return;
        }
        let remote = Flow::canonical(params.remote);
        let was = self.latch.as_ref().map(Latch::signalled);
        let has_moved = was.is_none() || is_reachable(remote) && was != Some(remote);
        if has_moved {
            self.port_probe.start(now);
            self.control_from = None;
        }
        match &mut self.latch {
            // An address of zeros is an old way to say hold (RFC 3264 §8.4): the peer has not moved.
            Some(latch) if is_reachable(remote) => latch.on_signalled(remote),
            Some(_) => {}
            None => self.latch = Some(Latch::new(self.config.symmetric, remote)),
        }
        self.set_protection(now, &params.protection);
        if has_moved {
            // It may be somebody else now: who has been left must not be heard any longer, nor draw our sound back.
            self.srtp.forget_previous();
        }
        self.incoming.set_heard(params.direction.receives());
        self.control.start(now, &mut self.rng);
        self.params = Some(params);
    }

    /// Makes the next packet of `sound` ([`MediaSession::packet_samples`] samples), protected and ready to be sent at
    /// its deadline, and says where to. `None` when nothing is to be sent. It must be called for every packet time, so
    /// that the stamps go on.
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
                self.tell(MediaEvent::SecurityFailed(SecurityFailure::KeyUsedUp));
                None
            }
            Err(SendError::NotReady | SendError::Malformed) => None,
        }
    }

    /// The next sound to be heard, as much as `sound` has room for; silence where there is none.
    pub fn playout(&mut self, now: Instant, sound: &mut [i16]) {
        self.incoming.playout(now, sound);
    }

    /// Sends keys by RFC 4733, one after the other, in place of sound. All of them or none.
    ///
    /// # Errors
    /// The peer does not take them, one is no key, or too many wait.
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

    /// The users compared the short authentication strings (RFC 6189 §7.1).
    pub fn on_sas_compared(&mut self, now: Instant, check: SasCheck) {
        if let Some(zrtp) = &mut self.zrtp {
            zrtp.machine.on_sas_compared(now, check);
        }
        self.follow_zrtp();
    }

    /// What happened; call it until it gives nothing.
    pub fn poll_event(&mut self) -> Option<MediaEvent> {
        self.events.pop_front()
    }

    /// What `a=zrtp-hash` is to say of us (RFC 6189 §8.1); `None` without ZRTP.
    pub fn zrtp_hello_hash(&self) -> Option<[u8; 32]> {
        self.zrtp.as_ref().map(|zrtp| zrtp.machine.hello_hash())
    }

    /// True while sound is sent: there is a target, the agreed direction sends, and what must protect it does.
    pub fn is_sending(&self) -> bool {
        self.sound_target().is_some()
    }

    /// The parameters in force.
    pub const fn params(&self) -> Option<&MediaParams> {
        self.params.as_ref()
    }

    /// Samples in a packet of ours, at most [`Self::PACKET_SAMPLES_MAX`]; 20 ms before the first parameters.
    pub fn packet_samples(&self) -> usize {
        self.params.as_ref().map_or(160, |params| {
            usize::from(params.ptime_ms.clamp(10, 200)) * params.codec.clock_rate_hz() as usize / 1000
        })
    }

    /// From one packet of ours to the next; 20 ms before the first parameters.
    pub fn packet_time(&self) -> Duration {
        let ptime_ms = self.params.as_ref().map_or(20, |params| params.ptime_ms.clamp(10, 200));
        Duration::from_millis(u64::from(ptime_ms))
    }

    /// Our source.
    pub const fn ssrc(&self) -> u32 {
        self.outgoing.ssrc()
    }

    /// Everything known about the stream.
    pub fn report(&self) -> Report {
        let received = self.incoming.reception.report();
        let sound = self.incoming.buffer.counts();
        let buffer_delay_ms = self.incoming.buffer.delay_ms();
        let round_trip_ms = self.control.round_trip().map(|way| way.as_secs_f64() * 1000.0);
        let ptime_ms = self.params.as_ref().map_or(20, |params| params.ptime_ms);
        let delay_ms = round_trip_ms.unwrap_or(0.0) / 2.0 + f64::from(buffer_delay_ms) + f64::from(ptime_ms);
        let codec = self.params.as_ref().map(|params| params.codec);
        let rating = codec.and_then(|codec| report::rating(codec, &received, &sound, delay_ms));
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

    fn set_protection(&mut self, now: Instant, protection: &Protection) {
        match protection {
            Protection::None => {
                if self.srtp.security().is_some() {
                    self.tell(MediaEvent::Unprotected);
                }
                self.srtp = SrtpState::None;
            }
            Protection::Sdes { suite, send, receive } => {
                match self.srtp.set_sdes(now, *suite, (send, receive), self.config.srtp) {
                    Ok(KeyChange::Changed) => self.tell(MediaEvent::Secured { suite: *suite, sas: None }),
                    Ok(KeyChange::Unchanged) => {}
                    Err(failure) => self.tell(MediaEvent::SecurityFailed(failure)),
                }
            }
            Protection::Zrtp { peer_hello_hash } => self.set_zrtp(now, *peer_hello_hash),
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
            // The agreement is for the whole call; a Hello that was announced later must be the one that came.
            Some(zrtp) => match peer_hello_hash {
                Some(hash) if !zrtp.machine.announce_peer_hello(hash) => {
                    Some(SecurityFailure::Zrtp(ringway_zrtp::ZrtpFailure::HelloNotAnnounced))
                }
                Some(_) | None => None,
            },
        };
        if let Some(failure) = failure {
            self.srtp = SrtpState::Failed;
            self.tell(MediaEvent::SecurityFailed(failure));
        }
    }

    /// Where our sound goes at present.
    fn sound_target(&self) -> Option<SocketAddr> {
        let params = self.params.as_ref()?;
        let may_send = !self.is_closed
            && params.direction.sends()
            && self.srtp.may_send()
            && is_reachable(Flow::canonical(params.remote));
        self.latch.as_ref().filter(|_| may_send).map(Latch::target).filter(|target| is_reachable(*target))
    }

    fn tell(&mut self, event: MediaEvent) {
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

/// Why keys were not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigitsError {
    /// The peer does not take telephone events, or there is no call.
    NotAgreed,
    /// This is no key of a telephone.
    NoDigit(char),
    /// So many found no room behind those that wait.
    TooMany {
        /// How many of the last ones.
        dropped: usize,
    },
}

impl fmt::Display for DigitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAgreed => f.write_str("the other phone takes no DTMF (telephone-event) in this call"),
            Self::NoDigit(other) => write!(f, "{other:?} is no key of a telephone: use 0-9, *, #, A-D"),
            Self::TooMany { dropped } => write!(f, "too many keys wait: the last {dropped} were not taken"),
        }
    }
}

impl core::error::Error for DigitsError {}

/// True for an address that packets can be sent to.
fn is_reachable(address: SocketAddr) -> bool {
    !address.ip().is_unspecified() && address.port() != 0
}

/// What IP and UDP add to a datagram.
fn ip_header_bytes(address: SocketAddr) -> u32 {
    if address.is_ipv6() { 48 } else { 28 }
}

#[cfg(test)]
mod rekey_tests;
#[cfg(test)]
mod session_tests;
#[cfg(test)]
mod wire;
