//! Timers of the session: reports, keep-alives, retransmissions; and its end.

use super::config::{MediaEvent, Sas, SecurityFailure};
use super::control::{ReportBuffer, Reported};
use super::ice_lite::IceLite;
use super::latch::Latch;
use super::srtp_state::SrtpState;
use super::stun_mapping::StunMapping;
use super::{Deferred, MediaSession, RTCP_PORT, RTP_PORT, ZrtpSettings, is_reachable};
use crate::rtcp::{REPORT_BYTES_MAX, ReportKind};
use alloc::boxed::Box;
use core::net::SocketAddr;
use ringway_sansio::{Deadline, Entropy, Flow, Instant, Outbox, Seed, Token};
use ringway_sdp::{KeyManagement, Protection};
use ringway_srtp::SrtpSender;
use ringway_zrtp::{Secured, Zrtp, ZrtpEvent};

impl MediaSession {
    /// Performs the actions that are due at `now`; calling it early is harmless.
    pub fn on_timeout(&mut self, now: Instant, out: &mut Outbox) {
        if self.is_closed {
            return;
        }
        self.srtp.on_time(now);
        if let Some(ice) = &mut self.ice {
            ice.on_time(now);
        }
        if let Some(event) = self.stun.as_mut().and_then(|stun| stun.on_timeout(now, out)) {
            self.emit(event);
        }
        self.on_zrtp_time(now, out);
        self.on_dtls_time(now, out);
        if self.control.due().is_some_and(|due| due <= now) {
            self.send_report(now, ReportKind::Periodic, out);
        }
        let signalled = self.latch.as_ref().map(Latch::signalled);
        if let Some(port) = signalled.and_then(|signalled| self.port_probe.next(now, signalled))
            && self.sound_target().is_some()
        {
            out.send(Flow::udp(RTP_PORT, port), Token::NONE, self.outgoing.last_packet());
        }
    }

    /// Ends the stream: sends an RTCP BYE (RFC 3550 §6.6) and discards what arrives later.
    pub fn close(&mut self, now: Instant, out: &mut Outbox) {
        if self.params.is_some() && !self.is_closed {
            self.send_report(now, ReportKind::Bye, out);
        }
        self.is_closed = true;
        self.incoming.set_heard(false);
        self.port_probe.stop();
        if let Some(stun) = &mut self.stun {
            stun.stop();
        }
        if let Some(dtls) = &mut self.dtls {
            dtls.stop();
        }
    }

    /// Time of the next call of [`MediaSession::on_timeout`]; `None` if no timer is running.
    pub fn next_deadline(&self) -> Option<Deadline> {
        if self.is_closed {
            return None;
        }
        let named = |at: Option<Instant>, reason| at.map(|at| Deadline { at, reason });
        [
            self.stun.as_ref().and_then(StunMapping::next_deadline),
            self.zrtp_deadline(),
            self.dtls.as_ref().and_then(|dtls| dtls.next_deadline(self.agreed_at, self.awaits_check())),
            self.ice.as_ref().and_then(IceLite::next_deadline),
            named(self.control.due(), "RTCP report"),
            named(self.port_probe.due(), "no packet received: probe the next port"),
            named(self.srtp.previous_until(), "the peer's previous key expires"),
        ]
        .into_iter()
        .flatten()
        .min_by_key(|deadline| deadline.at)
    }

    /// Only with an agreement and a destination, or the deadline would never be served.
    fn zrtp_deadline(&self) -> Option<Deadline> {
        let zrtp =
            self.zrtp.as_ref().filter(|_| self.zrtp_hash().is_some() && self.zrtp_target().is_some())?;
        let first = zrtp.start_at.map(|at| Deadline { at, reason: "first ZRTP Hello" });
        first.or_else(|| zrtp.machine.next_deadline())
    }

    fn on_zrtp_time(&mut self, now: Instant, out: &mut Outbox) {
        let ssrc = self.outgoing.ssrc();
        let (hash, target) = (self.zrtp_hash(), self.zrtp_target());
        let (Some(hash), Some(target), Some(zrtp)) = (hash, target, &mut self.zrtp) else { return };
        let flow = Flow::udp(RTP_PORT, target);
        let mut send = |bytes: &[u8]| out.send(flow, Token::NONE, bytes);
        if zrtp.start_at.take_if(|at| *at <= now).is_some() {
            zrtp.machine.start(now, ssrc, hash, &mut send);
        }
        zrtp.machine.on_timeout(now, &mut send);
        self.follow_zrtp();
    }

    /// RFC 6189 §4.6: an authenticated packet shows that the peer has the keys.
    pub(super) fn on_first_authenticated(&mut self, now: Instant) {
        if let Some(zrtp) = &mut self.zrtp {
            zrtp.machine.on_authenticated_srtp(now);
        }
        self.follow_zrtp();
    }

    /// Handles the events of the ZRTP agreement.
    pub(super) fn follow_zrtp(&mut self) {
        while let Some(event) = self.zrtp.as_mut().and_then(|zrtp| zrtp.machine.poll_event()) {
            match event {
                ZrtpEvent::ReadyToReceive { suite, receive } => {
                    if let Err(error) = self.srtp.set_receive(suite, &receive, self.config.srtp) {
                        self.fail(SecurityFailure::Key(error));
                    }
                }
                ZrtpEvent::Secured(secured) => self.on_zrtp_secured(secured),
                ZrtpEvent::Retain(retained) => self.emit(MediaEvent::Retain(retained)),
                ZrtpEvent::Forget(zid) => self.emit(MediaEvent::Forget(zid)),
                ZrtpEvent::PeerNotZrtp => self.emit(MediaEvent::PeerNotZrtp),
                ZrtpEvent::Failed(failure) => self.fail(SecurityFailure::Zrtp(failure)),
                // Refused, as required; nothing changed.
                ZrtpEvent::GoClearRefused => {}
            }
        }
    }

    fn on_zrtp_secured(&mut self, secured: Box<Secured>) {
        let (Secured { suite, send, receive, .. }, settings) = (&*secured, self.config.srtp);
        if let Err(error) = self.srtp.set_agreed(KeyManagement::Zrtp, *suite, send, receive, settings) {
            return self.fail(SecurityFailure::Key(error));
        }
        let secured = *secured;
        self.emit(MediaEvent::Secured {
            suite: secured.suite,
            key_management: KeyManagement::Zrtp,
            sas: Some(Sas {
                text: secured.sas,
                is_verified: secured.sas_verified,
                continuity: secured.continuity,
                is_hello_announced: secured.is_hello_announced,
                peer_client: secured.peer_client,
                peer_discloses: secured.peer_discloses,
            }),
        });
    }

    pub(super) fn fail(&mut self, failure: SecurityFailure) {
        self.srtp = SrtpState::Failed;
        self.emit(MediaEvent::SecurityFailed(failure));
    }

    /// Sends a report if there is a destination and it can be protected; schedules the next in any case.
    fn send_report(&mut self, now: Instant, kind: ReportKind, out: &mut Outbox) {
        let Some(params) = &self.params else { return };
        let mut room: ReportBuffer = [0; REPORT_BYTES_MAX + SrtpSender::OVERHEAD_BYTES_MAX];
        let reported = Reported {
            outgoing: &self.outgoing,
            reception: &mut self.incoming.reception,
            params,
            cname: &self.config.cname,
        };
        let may_send = self.control_srtp.as_ref().unwrap_or(&self.srtp).may_send();
        let len = self.control.write(now, &mut self.rng, reported, kind, &mut room);
        let listener = if params.rtcp_mux { RTP_PORT } else { RTCP_PORT };
        let Some(target) = self.control_target().filter(|_| may_send) else { return };
        let srtp = self.control_srtp.as_mut().unwrap_or(&mut self.srtp);
        if let Ok(len) = srtp.protect_rtcp(&mut room, len) {
            out.send(Flow::udp(listener, target), Token::NONE, room.get(..len).unwrap_or_default());
        }
    }

    /// Destination of reports: the source of the peer's reports; else, if its RTP comes from elsewhere than
    /// signalled, the port above that (RFC 3550 §11); else the signalled one.
    fn control_target(&self) -> Option<SocketAddr> {
        let params = self.params.as_ref()?;
        if let Some(ice) = &self.ice {
            return ice.selected();
        }
        let latch = self.latch.as_ref()?;
        let target = match (params.rtcp_mux, self.control_from) {
            (true, _) => latch.target(),
            (false, Some(from)) => from,
            (false, None) if latch.target() != latch.signalled() => {
                SocketAddr::new(latch.target().ip(), latch.target().port().checked_add(1)?)
            }
            (false, None) => Flow::canonical(params.remote_rtcp),
        };
        Some(target).filter(|target| is_reachable(*target))
    }

    /// Hash of the peer's Hello from its SDP, if ZRTP was negotiated.
    fn zrtp_hash(&self) -> Option<Option<[u8; 32]>> {
        match &self.params.as_ref()?.protection {
            Protection::Zrtp { peer_hello_hash } => Some(*peer_hello_hash),
            Protection::None | Protection::Sdes { .. } | Protection::Dtls { .. } => None,
        }
    }

    fn zrtp_target(&self) -> Option<SocketAddr> {
        let target = self.latch.as_ref()?.target();
        Some(self.zrtp_from.unwrap_or(target)).filter(|target| is_reachable(*target))
    }
}

impl Deferred<Zrtp> {
    pub(super) fn new(settings: &ZrtpSettings, seed: &Seed) -> Self {
        let ZrtpSettings { config, cache } = settings.clone();
        Self { machine: Zrtp::new(config, cache, Entropy::new(seed)), start_at: None }
    }
}
