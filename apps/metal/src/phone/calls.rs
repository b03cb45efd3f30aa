//! What a call goes through: asked for by a key or by the other side, told by signalling and by its sound.
//!
//! ```text
//!  dial ──► Mapping ──► Calling ──► RingsThere ──► EarlySound ─┐ answered
//!              ▲  STUN said how our port looks, or 3 s         ├──────────► Talking ──► Ending ──► none
//!  called ─► RingsHere ──► Mapping ──► Answering ──────────────┘
//! ```
//! Without a STUN server nothing is mapped. One call at a time: a second one gets 486.

use super::call::{Call, Phase};
use super::machine::{ACCOUNT, PhoneMachine};
use super::settings::{Answer, Srtp};
use super::stream::{Ask, Heard, Stream};
use super::view;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use ringway_agent::{Action, AgentEvent, By, CallError, CallId, Ended, Role, UserAgent};
use ringway_ethernet::{Card, PacedCounters};
use ringway_media::session::{self, MediaEvent, MediaSession, PortRow, SessionConfig, ZrtpSettings};
use ringway_phone::{CallNumber, Hold, PhoneCommand, PhoneEvent, Protection, SasStatus, Side, SipMessage};
use ringway_sansio::{Context, Entropy, Instant, Seed};
use ringway_sdp::{Codec, CryptoSuite, KeyManagement, LocalMedia, MediaParams, SecurityPolicy};
use ringway_srtp::SrtpSettings;
use ringway_ui::Level;
use ringway_zrtp::{SasCheck, ZidCache, ZrtpConfig};

impl<C: Card> PhoneMachine<C> {
    /// Executes a command of the user. There is one call at most.
    pub(super) fn on_command(&mut self, now: Instant, command: PhoneCommand) {
        match command {
            PhoneCommand::Call { to } => self.dial(now, to),
            PhoneCommand::Answer { .. } => self.answer(now),
            PhoneCommand::Reject { .. } | PhoneCommand::HangUp { .. } => self.hang_up(now),
            PhoneCommand::Hold { .. } => self.set_hold(now, true),
            PhoneCommand::Resume { .. } => self.set_hold(now, false),
            PhoneCommand::Mute { .. } => {
                self.station.command(now, Ask::Mute(true));
            }
            PhoneCommand::Unmute { .. } => {
                self.station.command(now, Ask::Mute(false));
            }
            PhoneCommand::Dtmf { digit, .. } => {
                self.station.command(now, Ask::Digit(digit.face()));
            }
            PhoneCommand::MarkSasVerified { .. } => self.on_compared(now),
            PhoneCommand::MarkSasDifferent { .. } => {
                self.station.command(now, Ask::Compared(SasCheck::Differs));
            }
            PhoneCommand::Transfer { .. } => {
                let what = "transfers are not supported on this machine".into();
                self.pages.on_phone(now, PhoneEvent::Refused { what });
            }
            // A transfer that the peer requests is rejected already, and the account is that of the command line.
            PhoneCommand::AcceptTransfer { .. }
            | PhoneCommand::RejectTransfer { .. }
            | PhoneCommand::Register
            | PhoneCommand::Quit => {}
        }
    }

    fn on_compared(&mut self, now: Instant) {
        let Some(call) = &mut self.call else { return };
        if let Protection::Zrtp { status, .. } = &mut call.protection {
            *status = SasStatus::Compared;
            self.station.command(now, Ask::Compared(SasCheck::Matches));
            self.show_protection(now);
        }
    }

    /// Passes an event of the present call to the pages.
    fn show(&mut self, now: Instant, event: impl FnOnce(CallNumber) -> PhoneEvent) {
        if let Some(call) = &self.call {
            self.pages.on_phone(now, event(call.number));
        }
    }

    fn show_hold(&mut self, now: Instant) {
        let hold = self.call.as_ref().map_or(Hold::None, Call::hold);
        self.show(now, |call| PhoneEvent::Held { call, hold });
    }

    fn show_protection(&mut self, now: Instant) {
        let protection = self.call.as_ref().map(|call| call.protection.clone()).unwrap_or_default();
        self.show(now, |call| PhoneEvent::Secured { call, protection });
    }

    /// Takes what signalling tells.
    pub(super) fn on_agent(&mut self, now: Instant, event: AgentEvent) {
        match event {
            AgentEvent::Registered { expires_s, .. } => self.on_registered(now, expires_s),
            AgentEvent::RegistrationFailed { status, reason, retry_s, .. } => {
                self.on_not_registered(now, status, reason, retry_s);
            }
            AgentEvent::Incoming { call, from, display_name, .. } => {
                self.on_incoming(now, call, from, display_name);
            }
            AgentEvent::Progress { call, status } if self.is_wanted(call) => self.on_progress(now, status),
            AgentEvent::EarlyMedia { call, params } if self.is_wanted(call) => {
                self.set_phase(Phase::EarlySound);
                self.show(now, |call| PhoneEvent::Early { call });
                self.station.command(now, Ask::Params(Box::new(params)));
            }
            AgentEvent::Answered { call, params } if self.is_ours(call) => self.on_answered(now, params),
            AgentEvent::MediaChanged { call, params } if self.is_ours(call) => {
                self.say(now, &format!("call: sound is {} now", params.direction.name()));
                self.station.command(now, Ask::Params(Box::new(params)));
            }
            AgentEvent::HeldByPeer { call } if self.is_ours(call) => self.on_peer_hold(now, true),
            AgentEvent::ResumedByPeer { call } if self.is_ours(call) => self.on_peer_hold(now, false),
            AgentEvent::ChangeRefused { call, status, reason } if self.is_ours(call) => {
                self.on_hold_refused(now, status, reason);
            }
            AgentEvent::OfferRefused { call, status, reason } if self.is_ours(call) => {
                self.warn(now, &format!("call: a change by the other side was refused: {status} {reason}"));
                self.show(now, |call| PhoneEvent::OfferRefused { call, status, reason });
            }
            AgentEvent::Ended { call, cause } if self.is_ours(call) => self.on_ended(now, &cause),
            AgentEvent::Message { direction, flow, line, cseq, bytes, whole, .. } => {
                let (transport, peer, length) = (flow.transport, flow.remote, bytes);
                let message = SipMessage { direction, transport, peer, line, cseq, length, bytes: whole };
                self.pages.on_phone(now, PhoneEvent::Message(message));
            }
            AgentEvent::TransferRequested { call, target, .. } => {
                self.warn(now, &format!("call: the other side wants us to call {target}: refused"));
                self.ask_call(now, |agent, cx| agent.reject_transfer(cx, call));
            }
            // Of a call that was refused, or of something that this phone never asks for.
            AgentEvent::Progress { .. }
            | AgentEvent::EarlyMedia { .. }
            | AgentEvent::Answered { .. }
            | AgentEvent::MediaChanged { .. }
            | AgentEvent::HeldByPeer { .. }
            | AgentEvent::ResumedByPeer { .. }
            | AgentEvent::ChangeRefused { .. }
            | AgentEvent::OfferRefused { .. }
            | AgentEvent::Ended { .. }
            | AgentEvent::Unregistered { .. }
            | AgentEvent::TransferProgress { .. }
            | AgentEvent::TransferDone { .. }
            | AgentEvent::QueryAnswered { .. }
            | AgentEvent::CallerRefused { .. } => {}
        }
    }

    fn on_progress(&mut self, now: Instant, status: u16) {
        self.set_phase(Phase::RingsThere);
        if status == RINGING {
            self.station.command(now, Ask::RingThere(true));
            self.show(now, |call| PhoneEvent::Ringing { call });
        }
        self.say(now, if status == RINGING { "call: it rings there" } else { "call: it goes on there" });
    }

    fn on_hold_refused(&mut self, now: Instant, status: u16, reason: String) {
        if let Some(call) = &mut self.call {
            call.is_held_by_us = !call.is_held_by_us;
            self.station.command(now, Ask::Hold(call.is_held_by_us));
        }
        self.warn(now, &format!("call: hold or resume failed: {status} {reason}"));
        self.show_hold(now);
        self.show(now, |call| PhoneEvent::HoldRefused { call, status, reason });
    }

    /// Takes what the call's sound tells.
    pub(super) fn on_heard(&mut self, now: Instant, heard: Heard) {
        let event = match heard {
            Heard::Event(event) => *event,
            Heard::DigitNotSent(why) => {
                let reason = format!("a key was not sent: {why}");
                self.warn(now, &format!("call: {reason}"));
                return self.show(now, |call| PhoneEvent::DigitNotSent { call, reason });
            }
        };
        match event {
            MediaEvent::Digit(digit) => {
                self.say(now, &format!("call: key pressed there: {digit}"));
                self.show(now, |call| PhoneEvent::Digit { call, digit });
            }
            MediaEvent::Secured { suite, sas } => self.on_secured(now, suite, sas),
            MediaEvent::Unprotected => {
                self.warn(now, "sound: NOT PROTECTED any more");
                if let Some(call) = &mut self.call {
                    call.protection = Protection::None;
                }
                self.show_protection(now);
            }
            MediaEvent::SecurityFailed(why) => self.give_up(now, &why.to_string()),
            MediaEvent::PeerNotZrtp => {
                self.give_up(
                    now,
                    "ZRTP: the other phone does not answer it, so the call cannot be protected",
                );
            }
            MediaEvent::StunMapped { rtp, rtcp } => self.on_mapped(now, rtp, rtcp),
            MediaEvent::StunFailed(why) => {
                self.warn(now, &format!("stun: {why}; our own address is offered"));
                self.pages.on_phone(now, PhoneEvent::StunFailed { reason: why.to_string() });
                self.end_mapping(now);
            }
            // There is no memory for other phones.
            MediaEvent::Retain(_)
            | MediaEvent::Forget(_)
            | MediaEvent::LatchedTo(_)
            | MediaEvent::PeerLeft => {}
        }
    }

    /// Goes on with a call whose STUN server says nothing.
    pub(super) fn mind_mapping(&mut self, now: Instant) {
        if let Some(Call { phase: Phase::Mapping { until, seen_as, .. }, .. }) = &self.call
            && *until <= now
        {
            if seen_as.is_none() {
                self.warn(now, "stun: the server does not answer; our own address is offered");
            }
            self.end_mapping(now);
        }
    }

    /// Forgets the call without telling anybody: there is no way to anybody.
    pub(super) fn drop_call(&mut self, now: Instant) {
        self.stop_stream();
        let reason = "the network is gone".to_string();
        self.show(now, |call| PhoneEvent::Ended { call, by: Side::Failure, status: 0, reason });
        self.call = None;
    }

    fn dial(&mut self, now: Instant, uri: String) {
        if self.call.is_some() || !self.is_ready() {
            let what = "the phone is not ready for a call".into();
            return self.pages.on_phone(now, PhoneEvent::Refused { what });
        }
        self.say(now, &format!("call: calling {uri}"));
        let number = self.next_call();
        self.pages.on_phone(now, PhoneEvent::Calling { call: number, to: uri.clone() });
        self.call = Some(Call::new(number, None, Role::Caller, uri, Phase::Calling));
        self.open_line(now, Role::Caller);
    }

    fn on_incoming(&mut self, now: Instant, id: CallId, from: String, name: String) {
        if self.call.is_some() {
            self.say(now, &format!("call: {from} calls too, and is told that we are busy"));
            self.ask_call(now, |agent, cx| agent.reject(cx, id, BUSY));
            return;
        }
        self.say(now, &format!("call: {from} calls"));
        if let Some(headset) = &mut self.headset {
            headset.start();
        }
        let number = self.next_call();
        self.pages.on_phone(now, PhoneEvent::Incoming { call: number, name, uri: from.clone() });
        self.call = Some(Call::new(number, Some(id), Role::Callee, from, Phase::RingsHere));
        match self.settings.answer {
            Answer::Auto => self.answer(now),
            Answer::Ask => {
                self.ask_call(now, |agent, cx| agent.ring(cx, id, RINGING));
            }
        }
    }

    fn next_call(&mut self) -> CallNumber {
        self.calls += 1;
        CallNumber(self.calls)
    }

    fn answer(&mut self, now: Instant) {
        if matches!(self.call, Some(Call { phase: Phase::RingsHere, .. })) {
            self.open_line(now, Role::Callee);
        }
    }

    fn hang_up(&mut self, now: Instant) {
        let Some(call) = &mut self.call else { return };
        let phase = core::mem::replace(&mut call.phase, Phase::Ending);
        let Some(id) = call.id else { return self.end_call(now, Side::Us, 0, "given up".to_string()) };
        let is_unanswered =
            call.role == Role::Callee && matches!(phase, Phase::RingsHere | Phase::Mapping { .. });
        // The other side may take its time to end it; nothing is heard or said meanwhile.
        self.close_line(now);
        self.ask_call(now, |agent, cx| match is_unanswered {
            true => agent.reject(cx, id, DECLINED),
            false => agent.hang_up(cx, id),
        });
    }

    fn set_hold(&mut self, now: Instant, is_wanted: bool) {
        let Some(call) = &mut self.call else { return };
        let (Some(id), true) = (call.id, call.is_talking()) else { return };
        call.is_held_by_us = is_wanted;
        self.station.command(now, Ask::Hold(is_wanted));
        self.ask_call(now, |agent, cx| match is_wanted {
            true => agent.hold(cx, id),
            false => agent.resume(cx, id),
        });
        self.show_hold(now);
    }

    /// Begins the call's sound; when our port's address is known, the call goes on.
    fn open_line(&mut self, now: Instant, role: Role) {
        let Some(own) = self.station.station().lease().map(|lease| lease.address) else { return };
        let seed = Seed::from_bytes(self.entropy.bytes());
        let settings = &self.settings;
        // Whoever says how we look from outside knows better than a STUN server.
        let stun_server = self.stun_server().filter(|_| settings.outside.is_none());
        let zrtp = matches!(settings.srtp, Srtp::Best | Srtp::Zrtp).then(|| zrtp(&seed));
        let config = SessionConfig {
            stun_server,
            port_row: PortRow::of(settings.port_row),
            srtp: SrtpSettings { window_packets: settings.replay_window, ..SrtpSettings::default() },
            zrtp,
            ..SessionConfig::default()
        };
        let session = MediaSession::new(config, seed.part(SESSION), now);
        let policy = policy(settings.srtp, role, session.zrtp_hello_hash());
        let port = settings.rtp_port;
        let ip = settings.outside.map_or(own, |outside| *outside.ip());
        let local = LocalMedia {
            rtp: SocketAddr::new(IpAddr::V4(ip), port),
            rtcp_port: port + 1,
            codecs: [Codec::Pcmu, Codec::Pcma].into(),
            ptime_ms: 20,
            telephone_event: true,
            policy,
            rtcp_mux: false,
        };
        self.stop_stream();
        let stream = Stream::new(session, self.source.clone(), self.headset.take(), now);
        self.station.start(stream, [port, port + 1], now);
        match stun_server {
            Some(_) => self.set_phase(Phase::Mapping { until: now + STUN_WITHIN, local, seen_as: None }),
            None => self.go_on(now, local),
        }
    }

    /// How our ports look from outside, as far as it is known.
    fn on_mapped(&mut self, now: Instant, rtp: SocketAddr, rtcp: Option<SocketAddr>) {
        if let Some(Call { phase: Phase::Mapping { seen_as, .. }, .. }) = &mut self.call {
            let is_new = seen_as.is_none();
            *seen_as = Some((rtp, rtcp));
            if is_new {
                self.say(now, &format!("stun: our port for sound looks like {rtp} from outside"));
                if let Some(lease) = self.station.station().lease() {
                    let local = SocketAddr::from((lease.address, self.settings.rtp_port));
                    self.pages.on_phone(now, PhoneEvent::StunMapped { local, mapped: rtp });
                }
            }
            if rtcp.is_some() {
                self.end_mapping(now);
            }
        }
    }

    /// Goes on with what is known of how our ports look from outside.
    fn end_mapping(&mut self, now: Instant) {
        let Some(call) = &mut self.call else { return };
        if !matches!(call.phase, Phase::Mapping { .. }) {
            return;
        }
        let phase = core::mem::replace(&mut call.phase, Phase::Ending);
        if let Phase::Mapping { mut local, seen_as, .. } = phase {
            if let Some((rtp, rtcp)) = seen_as {
                local.seen_as(rtp, rtcp);
            }
            self.go_on(now, local);
        }
    }

    /// Sends the INVITE, or the answer to one.
    fn go_on(&mut self, now: Instant, local: LocalMedia) {
        let Some(call) = &mut self.call else { return };
        match call.id {
            None => {
                call.phase = Phase::Calling;
                let uri = call.uri.clone();
                let called = self.ask(now, |agent, cx| agent.call(cx, ACCOUNT, &uri, local));
                match (called, &mut self.call) {
                    (Some(Ok(id)), Some(call)) => call.id = Some(id),
                    (Some(Err(why)), _) => self.end_call(now, Side::Failure, 0, format!("not made: {why}")),
                    (None, _) | (_, None) => self.drop_call(now),
                }
            }
            Some(id) => {
                call.phase = Phase::Answering;
                let answered = self.ask(now, |agent, cx| agent.answer(cx, id, local));
                if let Some(Err(why)) = answered {
                    self.end_call(now, Side::Failure, 0, format!("not answered: {why}"));
                }
            }
        }
    }

    fn on_answered(&mut self, now: Instant, params: MediaParams) {
        if matches!(self.call, Some(Call { phase: Phase::Ending, .. })) {
            return;
        }
        self.set_phase(Phase::Talking);
        self.station.command(now, Ask::RingThere(false));
        let codec = params.codec.name();
        self.say(now, &format!("call: connected, {codec}"));
        self.show(now, |call| PhoneEvent::Answered { call, codec: codec.into() });
        if params.key_management() == Some(KeyManagement::Zrtp) {
            self.show(now, |call| PhoneEvent::Securing { call });
        }
        self.station.command(now, Ask::Params(Box::new(params)));
    }

    fn on_peer_hold(&mut self, now: Instant, is_held: bool) {
        if let Some(call) = &mut self.call {
            call.is_held_by_peer = is_held;
        }
        self.say(now, if is_held { "call: the other side holds it" } else { "call: the other side is back" });
        self.show_hold(now);
    }

    fn on_secured(&mut self, now: Instant, suite: CryptoSuite, sas: Option<session::Sas>) {
        let name = suite.name();
        let text = match &sas {
            Some(sas) => format!("sound: SRTP {name} by ZRTP; compare by voice: {}", sas.text),
            None => format!("sound: SRTP {name} with keys that SIP carried readable (weak)"),
        };
        self.say(now, &text);
        if let Some(call) = &mut self.call {
            call.protection = Protection::new(suite, sas);
        }
        self.show_protection(now);
    }

    /// Ends a call that would go on without the protection that was agreed on.
    fn give_up(&mut self, now: Instant, why: &str) {
        self.warn(now, &format!("the call is ended: {why}"));
        self.hang_up(now);
    }

    fn on_ended(&mut self, now: Instant, cause: &Ended) {
        let Ended { by, status, reason, .. } = cause;
        let is_ours = matches!(self.call, Some(Call { phase: Phase::Ending, .. }));
        let by = match by {
            _ if is_ours => Side::Us,
            By::Remote => Side::Peer,
            By::Local => Side::Failure,
        };
        self.end_call(now, by, *status, reason.clone());
    }

    fn end_call(&mut self, now: Instant, by: Side, status: u16, reason: String) {
        let Some(call) = &self.call else { return };
        let was_talking = matches!(call.phase, Phase::Talking | Phase::Ending);
        let words = match status {
            200 if was_talking => "ended".to_string(),
            0 => reason.clone(),
            _ => format!("{status} {reason}"),
        };
        let text = format!("call: {}: {words}", call.uri);
        self.show(now, |call| PhoneEvent::Ended { call, by, status, reason });
        self.call = None;
        self.say(now, &text);
        self.close_line(now);
    }

    /// Ends the call's sound, and says how it was.
    fn close_line(&mut self, now: Instant) {
        self.station.command(now, Ask::Leave);
        let counters = self.station.paced_counters().unwrap_or_default();
        let stream = self.station.machine().filter(|stream| stream.params().is_some());
        let texts = stream.map(|stream| (summary(stream, &counters), stream.headset_summary()));
        if let Some((sound, headset)) = texts {
            self.say(now, &sound);
            headset.into_iter().for_each(|text| self.say(now, &text));
        }
        self.stop_stream();
    }

    /// Ends the call's stream; loudspeaker and microphone are the machine's again.
    fn stop_stream(&mut self) {
        if let Some((stream, _)) = self.station.stop() {
            self.headset = stream.into_headset();
        }
    }

    /// It is our call, and we have not hung up.
    fn is_wanted(&self, id: CallId) -> bool {
        self.is_ours(id) && !matches!(self.call, Some(Call { phase: Phase::Ending, .. }))
    }

    fn is_ours(&self, id: CallId) -> bool {
        self.call.as_ref().is_some_and(|call| call.id == Some(id))
    }

    fn set_phase(&mut self, phase: Phase) {
        if let Some(call) = &mut self.call {
            call.phase = phase;
        }
    }

    fn ask<R>(
        &mut self,
        now: Instant,
        f: impl FnOnce(&mut UserAgent, &mut Context<'_, Action>) -> R,
    ) -> Option<R> {
        self.station.station_mut().call(now, |node, cx| f(&mut node.agent, cx))
    }

    /// The same of something that can fail for a call that is over, or not that far.
    fn ask_call(
        &mut self,
        now: Instant,
        f: impl FnOnce(&mut UserAgent, &mut Context<'_, Action>) -> Result<(), CallError>,
    ) {
        if let Some(Err(why)) = self.ask(now, f) {
            self.warn(now, &format!("call: {why}"));
        }
    }

    pub(super) fn say(&mut self, now: Instant, text: &str) {
        self.log(now, Level::Info, text);
    }

    pub(super) fn warn(&mut self, now: Instant, text: &str) {
        self.log(now, Level::Warning, text);
    }
}

/// What protects the sound, as SDP negotiates it.
fn policy(srtp: Srtp, role: Role, hello_hash: Option<[u8; 32]>) -> SecurityPolicy {
    let suites = match role {
        Role::Caller => CryptoSuite::OFFERED.to_vec(),
        Role::Callee => CryptoSuite::ALL.to_vec(),
    };
    match (srtp, hello_hash) {
        (Srtp::None, _) => SecurityPolicy::None,
        (Srtp::Zrtp, Some(hello_hash)) => SecurityPolicy::Zrtp { hello_hash },
        (Srtp::Best, hello_hash) => SecurityPolicy::Opportunistic { suites, hello_hash },
        (Srtp::Sdes | Srtp::Zrtp, _) => SecurityPolicy::Sdes { suites },
    }
}

/// An identity for this call: without a memory there is none to keep.
fn zrtp(seed: &Seed) -> ZrtpSettings {
    let zid = Entropy::new(&seed.part(ZRTP_IDENTITY)).bytes();
    let config = ZrtpConfig { cache_interval_s: 0, ..ZrtpConfig::new(zid) };
    ZrtpSettings { config, cache: ZidCache::default() }
}

/// A call's sound, when it is over.
fn summary(stream: &Stream, counters: &PacedCounters) -> String {
    let report = stream.report();
    let received = &report.received;
    format!(
        "sound: {}; sent {} packets, the latest {:.2} ms behind its time, {} left out; received {}, {} lost, {} with a \
         wrong tag, {} again, delta at most {:.2} ms, jitter {:.2} ms, MOS {}",
        view::security_in_words(report.security),
        report.sent.packets,
        counters.late_max.as_secs_f64() * 1000.0,
        counters.beats_skipped,
        received.counts.received,
        received.counts.lost(),
        report.refused.auth_failures,
        report.refused.replays,
        received.delta_max_ms,
        received.jitter_max_ms,
        report.mos.map_or("unknown".to_string(), |mos| format!("{mos:.2}")),
    )
}

/// Parts of a call's seed.
const SESSION: u64 = 1;
const ZRTP_IDENTITY: u64 = 2;

/// How long a call waits for the STUN server.
const STUN_WITHIN: Duration = Duration::from_secs(3);

/// RFC 3261 §21.1.2, §21.4.24, §21.6.2.
const RINGING: u16 = 180;
const BUSY: u16 = 486;
const DECLINED: u16 = 603;
