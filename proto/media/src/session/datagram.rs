//! What the datagrams of a stream's two ports do.

use super::config::SymmetricRtp;
use super::control::Heard;
use super::event::MediaEvent;
use super::latch::{Latch, Sender};
use super::receive::{Payload, Transit};
use super::receive_contexts::KeyGeneration;
use super::srtp_state::Opened;
use super::{MediaSession, RTCP_PORT, RTP_PORT, ip_header_bytes};
use crate::rtcp::Compound;
use crate::rtp::{DatagramKind, RtpPacket};
use core::net::SocketAddr;
use ringway_sansio::{Flow, Instant, ListenerId, Outbox, Token};
use ringway_sdp::{MediaParams, Protection};
use ringway_srtp::UnprotectError;
use ringway_zrtp::ZrtpCounts;

impl MediaSession {
    /// Takes a datagram of the port that `flow` names: see [`Self::on_rtp`] and [`Self::on_rtcp`]. There are no others.
    pub fn on_datagram(
        &mut self,
        now: Instant,
        arrived: Instant,
        flow: Flow,
        datagram: &mut [u8],
        out: &mut Outbox,
    ) {
        match flow.listener {
            RTP_PORT => self.on_rtp(now, arrived, flow.remote, datagram, out),
            RTCP_PORT => self.on_rtcp(now, arrived, flow.remote, datagram),
            _ => {}
        }
    }

    /// Takes a datagram of the RTP port: RTP, RTCP if it shares the port, STUN or ZRTP. `arrived` is the kernel's
    /// stamp where there is one. Protected packets are opened in place. Bad ones and those of strangers are counted.
    pub fn on_rtp(
        &mut self,
        now: Instant,
        arrived: Instant,
        from: SocketAddr,
        datagram: &mut [u8],
        out: &mut Outbox,
    ) {
        let from = Flow::canonical(from);
        match DatagramKind::of(datagram) {
            DatagramKind::Stun => self.on_stun(now, RTP_PORT, from, datagram),
            DatagramKind::Zrtp => self.on_zrtp(now, from, datagram, out),
            DatagramKind::Rtp => self.on_sound(now, arrived, from, datagram),
            DatagramKind::Rtcp if self.params.as_ref().is_some_and(|params| params.rtcp_mux) => {
                self.on_control((now, arrived), from, datagram);
            }
            DatagramKind::Rtcp | DatagramKind::Dtls | DatagramKind::Unknown => {
                self.refuse(from, |refused| &mut refused.unknown);
            }
        }
    }

    /// Takes a datagram of the RTCP port, which nothing but RTCP and STUN may use.
    pub fn on_rtcp(&mut self, now: Instant, arrived: Instant, from: SocketAddr, datagram: &mut [u8]) {
        let from = Flow::canonical(from);
        match DatagramKind::of(datagram) {
            DatagramKind::Rtcp => self.on_control((now, arrived), from, datagram),
            DatagramKind::Stun => self.on_stun(now, RTCP_PORT, from, datagram),
            DatagramKind::Rtp | DatagramKind::Zrtp | DatagramKind::Dtls | DatagramKind::Unknown => {
                self.refuse(from, |refused| &mut refused.unknown);
            }
        }
    }

    fn on_sound(&mut self, now: Instant, arrived: Instant, from: SocketAddr, datagram: &mut [u8]) {
        let ip_bytes = datagram.len() as u32 + ip_header_bytes(from);
        let (Some(_), false) = (&self.params, self.is_closed) else { return self.turn_away(from) };
        let (len, proof) = match self.srtp.open_rtp(now, datagram) {
            Opened::Plain => (datagram.len(), None),
            Opened::Authenticated(len, under) => (len, Some(under)),
            Opened::Refused(error) => return self.refuse_srtp(from, error),
            Opened::NotYet => return self.refuse(from, |refused| &mut refused.unprotected),
        };
        let clear = datagram.get(..len).unwrap_or_default();
        let Ok(packet) = RtpPacket::parse(clear) else {
            return self.refuse(from, |refused| &mut refused.malformed);
        };
        let (Some(params), Some(latch)) = (&self.params, &mut self.latch) else { return };
        let payload = Payload::of(params, packet.header().payload_type);
        let sender = match proof {
            // Only the present key proves that the peer has moved.
            Some(KeyGeneration::Previous) if !latch.is_peer(from) => Sender::Stranger,
            Some(KeyGeneration::Current | KeyGeneration::Previous) => latch.on_authenticated(now, from),
            None if payload == Payload::Unknown && !latch.is_peer(from) => Sender::Stranger,
            None => latch.on_plain(now, from, packet.header()),
        };
        match sender {
            Sender::Stranger => {
                self.refused.strangers += 1;
                return;
            }
            Sender::NewPeer => self.on_new_peer(from),
            Sender::Peer => {}
        }
        let (events, events_max) = (&mut self.events, self.config.limits.events_max);
        let dropped = &mut self.events_dropped;
        let is_late = proof == Some(KeyGeneration::Previous);
        self.incoming.on_packet(Transit { now, arrived, ip_bytes, is_late }, &packet, payload, |digit| {
            if events.len() < events_max {
                events.push_back(MediaEvent::Digit(digit));
            } else {
                *dropped += 1;
            }
        });
        if proof.is_some() && !self.srtp.may_send() {
            self.on_first_authenticated(now);
        }
    }

    fn on_new_peer(&mut self, from: SocketAddr) {
        self.port_probe.stop();
        // RFC 8489 would keep the ways open for ever; from here on the sound and its reports do.
        if let Some(stun) = &mut self.stun {
            stun.stop();
        }
        self.tell(MediaEvent::LatchedTo(from));
    }

    fn on_control(&mut self, (now, arrived): (Instant, Instant), from: SocketAddr, datagram: &mut [u8]) {
        let (Some(params), false) = (&self.params, self.is_closed) else { return self.turn_away(from) };
        let is_peer = is_control_peer(params, self.latch.as_ref(), from);
        let len = match self.srtp.open_rtcp(now, datagram) {
            Opened::Plain if is_peer => datagram.len(),
            Opened::Authenticated(len, KeyGeneration::Current) => len,
            Opened::Authenticated(len, KeyGeneration::Previous) if is_peer => len,
            Opened::Plain | Opened::Authenticated(_, KeyGeneration::Previous) => {
                self.refused.strangers += 1;
                return;
            }
            Opened::Refused(error) => return self.refuse_srtp(from, error),
            Opened::NotYet => return self.refuse(from, |refused| &mut refused.unprotected),
        };
        let Ok(compound) = Compound::parse(datagram.get(..len).unwrap_or_default()) else {
            return self.refuse(from, |refused| &mut refused.malformed);
        };
        self.control_from = Some(from);
        match self.control.on_compound(arrived, &compound, self.outgoing.ssrc()) {
            Heard::Report => {}
            Heard::Goodbye => self.tell(MediaEvent::PeerLeft),
        }
    }

    fn on_stun(&mut self, now: Instant, port: ListenerId, from: SocketAddr, datagram: &[u8]) {
        let stun = self.stun.as_mut().filter(|stun| stun.server() == from && !self.is_closed);
        let Some(stun) = stun else { return self.refuse_kind(from) };
        if let Some(event) = stun.on_datagram(now, port, from, datagram) {
            self.tell(event);
        }
    }

    /// ZRTP is taken from where the peer is heard, or is to be by its signalling. Before that a Hello may come from
    /// elsewhere, and its source is kept to: who that is, the users find out by comparing the string.
    fn on_zrtp(&mut self, now: Instant, from: SocketAddr, datagram: &[u8], out: &mut Outbox) {
        let is_agreed =
            matches!(self.params.as_ref().map(|params| &params.protection), Some(Protection::Zrtp { .. }));
        let is_peer =
            self.latch.as_ref().is_some_and(|latch| latch.is_peer(from)) || self.zrtp_from == Some(from);
        let may_begin = self.zrtp_from.is_none()
            && self.config.symmetric == SymmetricRtp::Latch
            && datagram.get(16..24) == Some(b"Hello   ");
        let (Some(zrtp), true, true, false) =
            (&mut self.zrtp, is_agreed, is_peer || may_begin, self.is_closed)
        else {
            return self.refuse_kind(from);
        };
        let before = zrtp.machine.counts();
        let flow = Flow::udp(RTP_PORT, from);
        zrtp.machine.on_packet(now, datagram, &mut |bytes| out.send(flow, Token::NONE, bytes));
        let after = zrtp.machine.counts();
        if refused_by_zrtp(&before) == refused_by_zrtp(&after) {
            self.zrtp_from = Some(from);
        } else {
            self.refuse(from, |refused| &mut refused.malformed);
        }
        self.follow_zrtp();
    }

    /// Counts a packet that SRTP refused. It never ends a call.
    fn refuse_srtp(&mut self, from: SocketAddr, error: UnprotectError) {
        self.refuse(from, |refused| match error {
            UnprotectError::AuthenticationFailed => &mut refused.auth_failures,
            UnprotectError::Replayed | UnprotectError::TooOld => &mut refused.replays,
            UnprotectError::Malformed => &mut refused.malformed,
            UnprotectError::UnknownMki
            | UnprotectError::WrongEncryption
            | UnprotectError::LifetimeOver
            | UnprotectError::TooManySsrcs => &mut refused.srtp_other,
        });
    }

    /// Counts a datagram by its fault, and as a stranger's if it is one.
    fn refuse(&mut self, from: SocketAddr, count: impl FnOnce(&mut super::Refused) -> &mut u64) {
        *count(&mut self.refused) += 1;
        if self.is_closed || !self.is_peer(from) {
            self.turn_away(from);
        }
    }

    /// Counts a datagram of a kind that is not wanted from there.
    fn refuse_kind(&mut self, from: SocketAddr) {
        if self.is_closed || !self.is_peer(from) {
            self.turn_away(from);
        } else {
            self.refused.unknown += 1;
        }
    }

    /// Counts a datagram by who sent it and when: by somebody else, or not in the call.
    fn turn_away(&mut self, from: SocketAddr) {
        let is_peer = self.is_peer(from);
        let count = match (&self.params, is_peer) {
            (None, _) => &mut self.refused.early,
            // In a call there is something else to say of the peer's.
            (Some(_), true) => &mut self.refused.after_end,
            (Some(_), false) => &mut self.refused.strangers,
        };
        *count += 1;
    }

    /// True for an address that the peer sends from, as far as we know.
    fn is_peer(&self, from: SocketAddr) -> bool {
        self.params.as_ref().is_some_and(|params| {
            let is_sound_peer = self.latch.as_ref().is_some_and(|latch| latch.is_peer(from));
            is_sound_peer || is_control_peer(params, self.latch.as_ref(), from)
        })
    }
}

/// True for RTCP from the address that signalling told, or from the host that the peer's sound comes from.
fn is_control_peer(params: &MediaParams, latch: Option<&Latch>, from: SocketAddr) -> bool {
    let heard_from = latch.and_then(Latch::heard_from);
    Flow::canonical(params.remote_rtcp) == from || heard_from.is_some_and(|heard| heard.ip() == from.ip())
}

/// Packets that a key agreement could not read or did not believe; not those that came again or too late.
const fn refused_by_zrtp(counts: &ZrtpCounts) -> u64 {
    counts.damaged + counts.malformed + counts.strangers + counts.not_announced + counts.forged
}
