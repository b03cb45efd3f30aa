//! Media of calls: opened, mapped by STUN, offered, and their events.

use crate::call::{Mapping, Media, Origin};
use crate::phone::{ACCOUNT, Phone};
use crate::{
    Action, Call, CallEnd, CallMediaEvent, CallNumber, MediaCommand, Phase, PhoneEvent, Protection, Side,
    Signalling, SrtpPolicy,
};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_agent::{CallId, CallState, Role};
use ringway_media::MediaSession;
use ringway_media::session::{MediaEvent, OfferedSound, SessionConfig, ZrtpSettings};
use ringway_sansio::{Context, Entropy, Seed};
use ringway_sdp::{CryptoSuite, Fingerprint, LocalMedia, SecurityPolicy};
use ringway_zrtp::{ZidCache, ZrtpConfig};

impl Phone {
    /// Takes the result of [`Action::OpenMedia`]: the address of RTP that is offered (RTCP has the next port), or why the
    /// ports or the sound cannot be opened.
    pub fn on_media_opened(
        &mut self,
        cx: &mut Context<'_, Action>,
        number: CallNumber,
        opened: Result<SocketAddr, String>,
    ) {
        match opened {
            Ok(rtp) => self.offer_media(cx, number, rtp),
            Err(reason) => {
                if let Some(call) = self.call_mut(number) {
                    call.media = Media::Closed;
                }
                self.fail_media(cx, number, reason);
                self.finish(cx, number);
            }
        }
        self.settle(cx);
    }

    /// Takes the confirmation of [`Action::CloseMedia`], after the last event of the media.
    pub fn on_media_closed(&mut self, cx: &mut Context<'_, Action>, number: CallNumber) {
        if let Some(call) = self.call_mut(number) {
            call.media = Media::Closed;
        }
        self.finish(cx, number);
        self.settle(cx);
    }

    /// Takes an event of a call's media.
    pub fn on_media(&mut self, cx: &mut Context<'_, Action>, number: CallNumber, event: CallMediaEvent) {
        match event {
            CallMediaEvent::Session(event) => self.on_session_event(cx, number, event),
            CallMediaEvent::DigitNotSent(error) => {
                cx.emit(PhoneEvent::DigitNotSent { call: number, reason: error.to_string() });
            }
            CallMediaEvent::Silent(is_silent) => cx.emit(PhoneEvent::Silent { call: number, is_silent }),
            CallMediaEvent::Levels(levels) => {
                if let Some(call) = self.call_mut(number) {
                    call.levels = Some(levels);
                    cx.emit(PhoneEvent::Levels { call: number, levels });
                }
            }
            CallMediaEvent::Report(report) => {
                if let Some(call) = self.call_mut(number) {
                    call.report = Some(report);
                    cx.emit(PhoneEvent::Media { call: number, report });
                }
            }
        }
        self.settle(cx);
    }

    fn on_session_event(&mut self, cx: &mut Context<'_, Action>, number: CallNumber, event: MediaEvent) {
        match event {
            MediaEvent::Digit(digit) => cx.emit(PhoneEvent::Digit { call: number, digit }),
            MediaEvent::Secured { suite, key_management, sas } => {
                let signalling = self.signalling_of(number);
                let protection = Protection::new(suite, key_management, sas, signalling);
                self.set_protection(cx, number, protection);
            }
            MediaEvent::Unprotected => self.set_protection(cx, number, Protection::None),
            MediaEvent::SecurityFailed(failure) => self.fail_security(cx, number, failure.to_string()),
            MediaEvent::PeerNotZrtp => {
                let reason = "ZRTP: the other phone does not answer it, so the call cannot be protected";
                self.fail_security(cx, number, reason.into());
            }
            MediaEvent::StunMapped { rtp, rtcp } => self.on_mapped(cx, number, rtp, rtcp),
            MediaEvent::StunFailed(failure) => {
                cx.emit(PhoneEvent::StunFailed { reason: failure.to_string() });
                self.end_mapping(cx, number);
            }
            MediaEvent::Retain(retained) => {
                if let Some(zrtp) = &mut self.config.zrtp {
                    zrtp.cache.insert(retained.clone());
                    cx.emit(Action::Retain(retained));
                }
            }
            MediaEvent::Forget(zid) => {
                if let Some(zrtp) = &mut self.config.zrtp {
                    zrtp.cache.remove(&zid);
                    cx.emit(Action::Forget(zid));
                }
            }
            MediaEvent::EarlySound => self.on_early_sound(cx, number),
            MediaEvent::LatchedTo(_) | MediaEvent::PeerLeft => {}
        }
    }

    /// Protection of a call's SIP. A call that came past our server, or in clear text from its address, has none; neither
    /// has one that came without a server, because nobody has verified the caller.
    fn signalling_of(&self, number: CallNumber) -> Signalling {
        let Some((call, id)) = self.call(number).and_then(|call| Some((call, call.id?))) else {
            return Signalling::Open;
        };
        let server = self.account().and_then(|account| account.server.as_ref());
        let is_verified = match server {
            Some(server) => server.transport.is_secure() && !call.bypasses_server,
            None => call.origin != Origin::Incoming,
        };
        // Before the answer there is no dialog, and the INVITE went to the server.
        let is_invite_only = server.is_some() && self.agent.call_state(id) == Some(CallState::Calling);
        let uses_tls = is_invite_only || self.agent.call_uses_tls(id);
        if is_verified && uses_tls { Signalling::TlsToServer } else { Signalling::Open }
    }

    fn set_protection(&mut self, cx: &mut Context<'_, Action>, number: CallNumber, protection: Protection) {
        let Some(call) = self.call_mut(number) else { return };
        call.is_securing = false;
        call.protection.clone_from(&protection);
        cx.emit(PhoneEvent::Secured { call: number, protection });
    }

    /// Ends a call that would go on without the protection that was negotiated.
    fn fail_security(&mut self, cx: &mut Context<'_, Action>, number: CallNumber, reason: String) {
        let Some(call) = self.call_mut(number) else { return };
        if call.phase != Phase::Ending {
            call.failure = Some(reason.clone());
            cx.emit(PhoneEvent::SecurityFailed { call: number, reason });
            self.hang_up(cx, number);
        }
    }

    /// Makes the media session of a call, and asks the front end to run it.
    pub(crate) fn open_media(&mut self, cx: &mut Context<'_, Action>, number: CallNumber) {
        let seed = Seed::from_bytes(self.entropy.bytes());
        let settings = || self.config.zrtp.clone().unwrap_or_else(|| one_time_zrtp(&seed));
        let zrtp = self.config.srtp.uses_zrtp().then(settings);
        let template = self.config.session.clone();
        let dtls = template.dtls.filter(|_| self.config.srtp.uses_dtls());
        let config = SessionConfig { stun_server: self.stun, zrtp, dtls, ..self.config.session.clone() };
        let session = Box::new(MediaSession::new(config, seed.part(SESSION), cx.now));
        let role = self.call(number).map_or(Role::Caller, Call::role);
        let policy = self.policy(role, session.zrtp_hello_hash(), session.dtls_fingerprint());
        if let Some(call) = self.call_mut(number) {
            call.media = Media::Open;
            call.policy = policy;
            cx.emit(Action::OpenMedia { call: number, session });
        }
    }

    /// Offers media at `rtp`, once its mapped ports are known.
    fn offer_media(&mut self, cx: &mut Context<'_, Action>, number: CallNumber, rtp: SocketAddr) {
        let (stun, codecs) = (self.stun, self.config.codecs.clone());
        let Some(call) = self.call_mut(number).filter(|call| call.phase == Phase::Opening) else { return };
        let local = LocalMedia {
            rtp,
            rtcp_port: rtp.port().wrapping_add(1),
            codecs,
            ptime_ms: PTIME_MS,
            telephone_event: true,
            policy: call.policy.clone(),
            rtcp_mux: false,
        };
        call.rtp = Some(rtp);
        match stun {
            Some(_) => {
                call.phase = Phase::Mapping;
                call.mapping = Some(Mapping { until: cx.now + STUN_WITHIN, local, mapped: None });
            }
            None => self.send_media(cx, number, local),
        }
    }

    fn on_mapped(
        &mut self,
        cx: &mut Context<'_, Action>,
        number: CallNumber,
        rtp: SocketAddr,
        rtcp: Option<SocketAddr>,
    ) {
        let Some(call) = self.call_mut(number) else { return };
        if let Some(mapping) = &mut call.mapping {
            mapping.mapped = Some((rtp, rtcp));
        }
        if call.mapped != Some(rtp)
            && let Some(local) = call.rtp
        {
            call.mapped = Some(rtp);
            cx.emit(PhoneEvent::StunMapped { local, mapped: rtp });
        }
        if rtcp.is_some() {
            self.end_mapping(cx, number);
        }
    }

    /// Continues calls whose STUN server does not answer in time.
    pub(crate) fn end_late_mappings(&mut self, cx: &mut Context<'_, Action>) {
        let now = cx.now;
        let is_late = |call: &&Call| call.mapping.as_ref().is_some_and(|mapping| mapping.until <= now);
        while let Some(call) = self.calls.iter().find(is_late) {
            let number = call.number;
            if call.mapping.as_ref().is_some_and(|mapping| mapping.mapped.is_none()) {
                let reason = "the STUN server does not answer".into();
                cx.emit(PhoneEvent::StunFailed { reason });
            }
            self.end_mapping(cx, number);
        }
    }

    /// Continues a call with the mapped ports that are known.
    fn end_mapping(&mut self, cx: &mut Context<'_, Action>, number: CallNumber) {
        let mapping = self.call_mut(number).and_then(|call| call.mapping.take());
        if let Some(Mapping { mut local, mapped, .. }) = mapping {
            if let Some((rtp, rtcp)) = mapped {
                local.seen_as(rtp, rtcp);
            }
            self.send_media(cx, number, local);
        }
    }

    /// Sends the INVITE, or the 200 to one.
    fn send_media(&mut self, cx: &mut Context<'_, Action>, number: CallNumber, local: LocalMedia) {
        let Some(call) = self.call(number) else { return };
        match (call.id, call.origin) {
            (Some(id), _) => self.send_answer(cx, number, id, local),
            (None, origin) => self.send_invite(cx, number, origin, local),
        }
    }

    fn send_invite(
        &mut self,
        cx: &mut Context<'_, Action>,
        number: CallNumber,
        origin: Origin,
        local: LocalMedia,
    ) {
        let to = self.call(number).map(|call| call.uri.clone()).unwrap_or_default();
        let called = self.with_agent(cx, |agent, cx| match origin {
            Origin::Transfer(of) => agent.accept_transfer(cx, of, local),
            Origin::Incoming | Origin::Command => agent.call(cx, ACCOUNT, &to, local),
        });
        match called {
            Ok(id) => {
                if let Some(call) = self.call_mut(number) {
                    call.id = Some(id);
                    call.phase = Phase::Calling(cx.now);
                }
                self.allow_downgrade(cx, number);
                self.expect_early_sound(cx, number, id);
                cx.emit(PhoneEvent::Inviting { call: number });
            }
            Err(error) => {
                let reason = format!("cannot call: {error}");
                self.end_call(cx, number, CallEnd { by: Side::Failure, status: 0, reason });
            }
        }
    }

    fn send_answer(
        &mut self,
        cx: &mut Context<'_, Action>,
        number: CallNumber,
        id: CallId,
        local: LocalMedia,
    ) {
        if let Some(call) = self.call_mut(number) {
            call.phase = Phase::Answering;
        }
        match self.with_agent(cx, |agent, cx| agent.answer(cx, id, local)) {
            Ok(()) => {
                self.allow_downgrade(cx, number);
                self.expect_early_sound(cx, number, id);
            }
            // The user agent has already refused an offer that is at fault.
            Err(error) if self.agent.call_state(id) != Some(CallState::Ringing) => {
                cx.emit(PhoneEvent::Refused { what: error.to_string() });
            }
            Err(error) => self.fail_media(cx, number, error.to_string()),
        }
    }

    /// Ends a call that cannot have media. Without a response the caller of an incoming one would let it ring.
    fn fail_media(&mut self, cx: &mut Context<'_, Action>, number: CallNumber, reason: String) {
        let Some(call) = self.call_mut(number).filter(|call| call.phase != Phase::Ending) else { return };
        call.failure = Some(reason.clone());
        let is_outgoing = call.id.is_none();
        cx.emit(PhoneEvent::MediaFailed { call: number, reason: reason.clone() });
        match is_outgoing {
            true => self.end_call(cx, number, CallEnd { by: Side::Failure, status: 0, reason }),
            false => self.reject(cx, number, INTERNAL_ERROR),
        }
    }

    /// Lets the media play what the peer sends before its answer to our offer, unless sound must be protected: the keys come
    /// with the answer.
    fn expect_early_sound(&mut self, cx: &mut Context<'_, Action>, number: CallNumber, id: CallId) {
        let may_be_protected = match self.call(number).map(|call| &call.policy) {
            Some(SecurityPolicy::None) => false,
            Some(SecurityPolicy::Opportunistic { .. }) => true,
            Some(SecurityPolicy::Sdes { .. } | SecurityPolicy::Zrtp { .. } | SecurityPolicy::Dtls { .. })
            | None => return,
        };
        if let Some(receive) = self.agent.offered_codecs(id).map(<[_]>::to_vec) {
            self.media(cx, number, MediaCommand::Offered(OfferedSound { receive, may_be_protected }));
        }
    }

    fn on_early_sound(&mut self, cx: &mut Context<'_, Action>, number: CallNumber) {
        if let Some(call) = self.call_mut(number)
            && matches!(call.phase, Phase::Calling(_) | Phase::RingsThere)
        {
            call.phase = Phase::EarlyMedia;
            cx.emit(PhoneEvent::Early { call: number });
        }
    }

    fn allow_downgrade(&mut self, cx: &mut Context<'_, Action>, number: CallNumber) {
        if self.config.allows_downgrade {
            self.signal(cx, number, |agent, _, id| agent.allow_unprotected(id, true));
        }
    }

    /// Required protection, as SDP negotiates it.
    fn policy(
        &self,
        role: Role,
        hello_hash: Option<[u8; 32]>,
        fingerprint: Option<Fingerprint>,
    ) -> SecurityPolicy {
        let suites = match (self.config.suites.as_slice(), role) {
            ([], Role::Caller) => CryptoSuite::OFFERED.to_vec(),
            ([], Role::Callee) => CryptoSuite::ALL.to_vec(),
            (configured, Role::Caller | Role::Callee) => configured.to_vec(),
        };
        match (self.config.srtp, hello_hash) {
            (SrtpPolicy::None, _) => SecurityPolicy::None,
            (SrtpPolicy::Sdes, _) => SecurityPolicy::Sdes { suites },
            (SrtpPolicy::Best, hello_hash) => {
                SecurityPolicy::Opportunistic { suites, hello_hash, fingerprint }
            }
            // A session with this policy always has a Hello.
            (SrtpPolicy::Zrtp, hello_hash) => {
                SecurityPolicy::Zrtp { hello_hash: hello_hash.unwrap_or_default() }
            }
            (SrtpPolicy::Dtls, _) => match fingerprint {
                Some(fingerprint) => SecurityPolicy::Dtls { fingerprint },
                // A phone with this policy has a certificate. Without a suite no offer is accepted.
                None => SecurityPolicy::Sdes { suites: Vec::new() },
            },
        }
    }
}

/// An identity for one call: nothing is retained of it.
fn one_time_zrtp(seed: &Seed) -> ZrtpSettings {
    let zid = Entropy::new(&seed.part(ZRTP_IDENTITY)).bytes();
    let config = ZrtpConfig { cache_interval_s: 0, ..ZrtpConfig::new(zid) };
    ZrtpSettings { config, cache: ZidCache::default() }
}

/// Parts of a call's seed.
const SESSION: u64 = 1;
const ZRTP_IDENTITY: u64 = 2;

/// Time that a call waits for the STUN server.
const STUN_WITHIN: Duration = Duration::from_secs(3);

const PTIME_MS: u16 = 20;

/// RFC 3261 §21.5.1.
const INTERNAL_ERROR: u16 = 500;
