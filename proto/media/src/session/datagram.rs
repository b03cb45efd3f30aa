//! Handling of received datagrams.

use super::config::MediaEvent;
use super::control::ReportContent;
use super::latch::{Latch, Sender};
use super::receive::{Payload, Transit};
use super::srtp_state::{KeyGeneration, Opened};
use super::{MediaSession, RTCP_PORT, RTP_PORT, ip_header_bytes};
use crate::rtcp::Compound;
use crate::rtp::{DatagramKind, RtpPacket};
use core::net::SocketAddr;
use ringway_sansio::{Flow, Instant, ListenerId, Outbox, Token};
use ringway_sdp::{MediaParams, Protection};
use ringway_srtp::UnprotectError;
use ringway_zrtp::ZrtpCounts;

impl MediaSession {
    /// Handles a datagram on the port that `flow` names, by [`Self::on_rtp`] or [`Self::on_rtcp`].
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
            RTCP_PORT => self.on_rtcp(now, arrived, flow.remote, datagram, out),
            _ => {}
        }
    }

    /// Handles a datagram on the RTP port: RTP, multiplexed RTCP, STUN, ZRTP or DTLS, told apart by the first byte (RFC
    /// 7983). `arrived` is the kernel's
    /// timestamp if available. SRTP packets are decrypted in place. Invalid datagrams and those of other
    /// senders are counted.
    pub fn on_rtp(
        &mut self,
        now: Instant,
        arrived: Instant,
        from: SocketAddr,
        datagram: &mut [u8],
        out: &mut Outbox,
    ) {
        let from = Flow::canonical(from);
        let kind = DatagramKind::of(datagram);
        if !self.is_admitted(kind, from) {
            self.refused.strangers += 1;
            return;
        }
        match kind {
            DatagramKind::Stun => self.on_stun(now, RTP_PORT, from, datagram, out),
            DatagramKind::Zrtp => self.on_zrtp(now, from, datagram, out),
            DatagramKind::Rtp => self.on_sound(now, arrived, from, datagram),
            DatagramKind::Rtcp if self.params.as_ref().is_some_and(|params| params.rtcp_mux) => {
                self.on_control(now, arrived, from, datagram);
            }
            DatagramKind::Dtls => self.on_dtls(now, RTP_PORT, from, datagram, out),
            DatagramKind::Rtcp | DatagramKind::Unknown => {
                self.count_discarded(from, |refused| &mut refused.unknown);
            }
        }
    }

    /// Handles a datagram on the RTCP port: RTCP, STUN or DTLS.
    pub fn on_rtcp(
        &mut self,
        now: Instant,
        arrived: Instant,
        from: SocketAddr,
        datagram: &mut [u8],
        out: &mut Outbox,
    ) {
        let from = Flow::canonical(from);
        let kind = DatagramKind::of(datagram);
        if !self.is_admitted(kind, from) {
            self.refused.strangers += 1;
            return;
        }
        match kind {
            DatagramKind::Rtcp => self.on_control(now, arrived, from, datagram),
            DatagramKind::Stun => self.on_stun(now, RTCP_PORT, from, datagram, out),
            DatagramKind::Dtls => self.on_dtls(now, RTCP_PORT, from, datagram, out),
            DatagramKind::Rtp | DatagramKind::Zrtp | DatagramKind::Unknown => {
                self.count_discarded(from, |refused| &mut refused.unknown);
            }
        }
    }

    /// False for a sender that passed no check, if ICE is in use; STUN is checked separately.
    fn is_admitted(&self, kind: DatagramKind, from: SocketAddr) -> bool {
        kind == DatagramKind::Stun || self.ice.as_ref().is_none_or(|ice| ice.admits(from))
    }

    fn on_sound(&mut self, now: Instant, arrived: Instant, from: SocketAddr, datagram: &mut [u8]) {
        let ip_bytes = datagram.len() as u32 + ip_header_bytes(from);
        if self.is_closed {
            return self.count_by_sender(from);
        }
        if self.params.is_none() {
            return self.on_early(Transit { now, arrived, ip_bytes, is_late: false }, from, datagram);
        }
        let (len, proof) = match self.srtp.open_rtp(now, datagram) {
            Opened::Plain => (datagram.len(), None),
            Opened::Authenticated(len, under) => (len, Some(under)),
            Opened::Refused(error) => return self.count_srtp_discarded(from, error),
            Opened::NotYet => return self.count_discarded(from, |refused| &mut refused.unprotected),
        };
        let clear = datagram.get(..len).unwrap_or_default();
        let Ok(packet) = RtpPacket::parse(clear) else {
            return self.count_discarded(from, |refused| &mut refused.malformed);
        };
        let (Some(params), Some(latch)) = (&self.params, &mut self.latch) else { return };
        let payload = Payload::of(params, packet.header().payload_type);
        let sender = match proof {
            // Only a packet under the current key proves that the peer has moved.
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
        if let Some(ice) = &mut self.ice {
            ice.hear(now, from);
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

    /// Handles a packet before the first parameters.
    fn on_early(&mut self, transit: Transit, from: SocketAddr, datagram: &[u8]) {
        let packet = RtpPacket::parse(datagram).ok();
        let accepted = self.offered.as_mut().zip(packet).and_then(|(offered, packet)| {
            let (codec, sender) = offered.accept(transit.now, from, &packet)?;
            Some((packet, codec, sender))
        });
        let Some((packet, codec, sender)) = accepted else {
            self.refused.early += 1;
            return;
        };
        self.incoming.on_packet(transit, &packet, Payload::Sound(codec), |_| {});
        if sender == Sender::NewPeer {
            self.emit(MediaEvent::EarlySound);
        }
    }

    pub(super) fn on_new_peer(&mut self, from: SocketAddr) {
        self.port_probe.stop();
        // RFC 8489 would keep the mappings open for ever; from here on RTP and RTCP do.
        if let Some(stun) = &mut self.stun {
            stun.stop();
        }
        self.emit(MediaEvent::LatchedTo(from));
    }

    fn on_control(&mut self, now: Instant, arrived: Instant, from: SocketAddr, datagram: &mut [u8]) {
        let (Some(params), false) = (&self.params, self.is_closed) else { return self.count_by_sender(from) };
        let is_peer = is_control_peer(params, self.latch.as_ref(), from);
        let srtp = self.control_srtp.as_mut().unwrap_or(&mut self.srtp);
        let len = match srtp.open_rtcp(now, datagram) {
            Opened::Plain if is_peer => datagram.len(),
            Opened::Authenticated(len, KeyGeneration::Current) => len,
            Opened::Authenticated(len, KeyGeneration::Previous) if is_peer => len,
            Opened::Plain | Opened::Authenticated(_, KeyGeneration::Previous) => {
                self.refused.strangers += 1;
                return;
            }
            Opened::Refused(error) => return self.count_srtp_discarded(from, error),
            Opened::NotYet => return self.count_discarded(from, |refused| &mut refused.unprotected),
        };
        let Ok(compound) = Compound::parse(datagram.get(..len).unwrap_or_default()) else {
            return self.count_discarded(from, |refused| &mut refused.malformed);
        };
        self.control_from = Some(from);
        if let Some(ice) = &mut self.ice {
            ice.hear(now, from);
        }
        match self.control.on_compound(arrived, &compound, self.outgoing.ssrc()) {
            ReportContent::Report => {}
            ReportContent::Bye => self.emit(MediaEvent::PeerLeft),
        }
    }

    /// Handles a check of ICE, or a response of the STUN server.
    fn on_stun(
        &mut self,
        now: Instant,
        port: ListenerId,
        from: SocketAddr,
        datagram: &[u8],
        out: &mut Outbox,
    ) {
        let may_be_check = !self.is_closed && port == RTP_PORT && datagram.starts_with(&BINDING_REQUEST);
        if let Some(ice) = self.ice.as_mut().filter(|_| may_be_check) {
            match ice.answer(now, from, datagram) {
                Some(response) => out.send(Flow::udp(port, from), Token::NONE, &response),
                None => self.refused.checks += 1,
            }
            return;
        }
        let stun = self.stun.as_mut().filter(|stun| stun.server() == from && !self.is_closed);
        let Some(stun) = stun else { return self.count_unexpected(from) };
        if let Some(event) = stun.on_datagram(now, port, from, datagram) {
            self.emit(event);
        }
    }

    /// Handles ZRTP from the peer's latched or signalled address. Before that a Hello may come from
    /// elsewhere; its source is then kept. The users find out who that is by comparing the string.
    fn on_zrtp(&mut self, now: Instant, from: SocketAddr, datagram: &[u8], out: &mut Outbox) {
        let is_agreed =
            matches!(self.params.as_ref().map(|params| &params.protection), Some(Protection::Zrtp { .. }));
        let is_peer =
            self.latch.as_ref().is_some_and(|latch| latch.is_peer(from)) || self.zrtp_from == Some(from);
        let may_begin = self.zrtp_from.is_none() && datagram.get(16..24) == Some(b"Hello   ");
        let (Some(zrtp), true, true, false) =
            (&mut self.zrtp, is_agreed, is_peer || may_begin, self.is_closed)
        else {
            return self.count_unexpected(from);
        };
        let before = zrtp.machine.counts();
        let flow = Flow::udp(RTP_PORT, from);
        zrtp.machine.on_packet(now, datagram, &mut |bytes| out.send(flow, Token::NONE, bytes));
        let after = zrtp.machine.counts();
        if refused_by_zrtp(&before) == refused_by_zrtp(&after) {
            self.zrtp_from = Some(from);
        } else {
            self.count_discarded(from, |refused| &mut refused.malformed);
        }
        self.follow_zrtp();
    }

    /// Counts a packet that SRTP rejected; this never ends a call.
    fn count_srtp_discarded(&mut self, from: SocketAddr, error: UnprotectError) {
        self.count_discarded(from, |refused| match error {
            UnprotectError::AuthenticationFailed => &mut refused.auth_failures,
            UnprotectError::Replayed | UnprotectError::TooOld => &mut refused.replays,
            UnprotectError::Malformed => &mut refused.malformed,
            UnprotectError::UnknownMki
            | UnprotectError::WrongEncryption
            | UnprotectError::LifetimeOver
            | UnprotectError::TooManySsrcs => &mut refused.srtp_other,
        });
    }

    /// Counts a datagram by its fault, or as one of another sender.
    fn count_discarded(&mut self, from: SocketAddr, count: impl FnOnce(&mut super::Refused) -> &mut u64) {
        *count(&mut self.refused) += 1;
        if self.is_closed || !self.is_peer(from) {
            self.count_by_sender(from);
        }
    }

    /// Counts a datagram of an unexpected kind.
    pub(super) fn count_unexpected(&mut self, from: SocketAddr) {
        if self.is_closed || !self.is_peer(from) {
            self.count_by_sender(from);
        } else {
            self.refused.unknown += 1;
        }
    }

    /// Counts a datagram of another sender, or one that arrived before or after the call.
    pub(super) fn count_by_sender(&mut self, from: SocketAddr) {
        let is_peer = self.is_peer(from);
        let count = match (&self.params, is_peer) {
            (None, _) => &mut self.refused.early,
            // During a call the caller counts a datagram of the peer by its fault.
            (Some(_), true) => &mut self.refused.after_end,
            (Some(_), false) => &mut self.refused.strangers,
        };
        *count += 1;
    }

    /// True for a known source address of the peer.
    fn is_peer(&self, from: SocketAddr) -> bool {
        if let Some(ice) = &self.ice {
            return ice.admits(from);
        }
        self.params.as_ref().is_some_and(|params| {
            let is_sound_peer = self.latch.as_ref().is_some_and(|latch| latch.is_peer(from));
            is_sound_peer || is_control_peer(params, self.latch.as_ref(), from)
        })
    }
}

/// True for RTCP from the signalled address or from the host that the peer's RTP comes from.
fn is_control_peer(params: &MediaParams, latch: Option<&Latch>, from: SocketAddr) -> bool {
    let heard_from = latch.and_then(Latch::heard_from);
    Flow::canonical(params.remote_rtcp) == from || heard_from.is_some_and(|heard| heard.ip() == from.ip())
}

/// First bytes of a Binding request (RFC 8489 §5).
const BINDING_REQUEST: [u8; 2] = [0, 1];

/// Number of packets that ZRTP could not parse or authenticate, without duplicates and late packets.
const fn refused_by_zrtp(counts: &ZrtpCounts) -> u64 {
    counts.damaged + counts.malformed + counts.strangers + counts.not_announced + counts.forged
}
