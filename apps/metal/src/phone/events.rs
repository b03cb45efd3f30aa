//! The front end of the phone: carries out its actions, and logs its events.

use super::machine::{self, PhoneMachine};
use super::source::MachineSound;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use ringway_ethernet::{Card, PacedCounters};
use ringway_media::MediaSession;
use ringway_phone::{
    Action, CallMedia, CallNumber, Hold, MediaCommand, Phone, PhoneCommand, PhoneEvent, Protection,
    SasStatus, Side,
};
use ringway_sansio::{Context, Instant};
use ringway_ui::Level;

impl<C: Card> PhoneMachine<C> {
    /// Gives a command of the user to the phone.
    pub(super) fn on_command(&mut self, now: Instant, command: PhoneCommand) {
        if self.with_phone(now, |phone, cx| phone.command(cx, command)).is_none() {
            let what = "the phone is not ready for a call".into();
            self.pages.on_phone(now, PhoneEvent::Refused { what });
        }
    }

    /// Passes events of the media to the phone, and carries out its actions.
    pub(super) fn run_phone(&mut self, now: Instant) {
        self.poll_media(now);
        loop {
            let actions: Vec<Action> = self.station.station_mut().take_actions().collect();
            if actions.is_empty() {
                break;
            }
            for action in actions {
                self.carry_out(now, action);
            }
        }
    }

    /// Ends the calls of a phone whose address is gone: nothing reaches their peers.
    pub(super) fn drop_calls(&mut self, now: Instant) {
        self.stop_media();
        self.is_ringing = false;
        let phone = self.station.station().node();
        let calls: Vec<CallNumber> =
            phone.into_iter().flat_map(Phone::calls).map(ringway_phone::Call::number).collect();
        for call in calls {
            let reason = "the network is gone".to_string();
            self.pages.on_phone(now, PhoneEvent::Ended { call, by: Side::Failure, status: 0, reason });
        }
    }

    fn carry_out(&mut self, now: Instant, action: Action) {
        match action {
            Action::Resolve { query, target } => self.station.station_mut().resolve(now, query, target),
            Action::Event(event) => self.on_event(now, event),
            Action::OpenMedia { call, session } => self.open_media(now, call, *session),
            Action::Media { command, .. } => {
                self.station.command(now, command);
            }
            Action::CloseMedia { call } => self.close_media(now, call),
            Action::StartRinging => {
                self.is_ringing = true;
                if let Some(headset) = &mut self.headset {
                    headset.start();
                }
            }
            Action::StopRinging => self.is_ringing = false,
            // Nothing is retained without an identity.
            Action::Retain(_) | Action::Forget(_) => {}
        }
    }

    fn open_media(&mut self, now: Instant, call: CallNumber, session: MediaSession) {
        let Some(own) = self.station.station().lease().map(|lease| lease.address) else { return };
        self.stop_media();
        let sound = MachineSound::new(self.source.clone(), self.headset.take());
        let port = self.settings.rtp_port;
        self.station.start(CallMedia::new(session, sound, now), [port, port + 1], now);
        self.media_call = Some(call);
        let ip = self.settings.outside.map_or(own, |outside| *outside.ip());
        let rtp = SocketAddr::new(IpAddr::V4(ip), port);
        self.with_phone(now, |phone, cx| phone.on_media_opened(cx, call, Ok(rtp)));
    }

    /// Ends the media of a call, and logs their figures.
    fn close_media(&mut self, now: Instant, call: CallNumber) {
        self.station.command(now, MediaCommand::Close);
        self.poll_media(now);
        let counters = self.station.paced_counters().unwrap_or_default();
        let media = self.station.machine().filter(|media| media.is_negotiated());
        let texts = media.map(|media| (summary(media, &counters), media.sound().headset_summary()));
        if let Some((sound, headset)) = texts {
            self.say(now, &sound);
            headset.into_iter().for_each(|text| self.say(now, &text));
        }
        self.stop_media();
        self.with_phone(now, |phone, cx| phone.on_media_closed(cx, call));
    }

    /// Ends the media; loudspeaker and microphone are the machine's again.
    fn stop_media(&mut self) {
        self.media_call = None;
        if let Some((media, _)) = self.station.stop() {
            self.headset = media.into_sound().into_headset();
        }
    }

    fn poll_media(&mut self, now: Instant) {
        while let Some(event) = self.station.poll_report(now) {
            if let Some(call) = self.media_call {
                self.with_phone(now, |phone, cx| phone.on_media(cx, call, event));
            }
        }
    }

    fn on_event(&mut self, now: Instant, event: PhoneEvent) {
        self.log_event(now, &event);
        if let Some(observer) = &mut self.observer {
            observer(&event);
        }
        // A requested transfer is rejected already: there is nothing to ask the user.
        if !matches!(event, PhoneEvent::TransferAsked { .. }) {
            self.pages.on_phone(now, event);
        }
    }

    fn log_event(&mut self, now: Instant, event: &PhoneEvent) {
        match event {
            PhoneEvent::Registered { expires_s } => {
                if !self.is_registered {
                    self.say(now, &format!("account: {} is registered for {expires_s} s", self.own));
                }
                self.is_registered = true;
            }
            PhoneEvent::RegistrationFailed { status, reason, .. } => {
                self.warn(now, &format!("account: {} is NOT registered: {status} {reason}", self.own));
                self.is_registered = false;
            }
            PhoneEvent::Calling { to, .. } => self.say(now, &format!("call: calling {to}")),
            PhoneEvent::Incoming { uri, .. } => self.say(now, &format!("call: {uri} calls")),
            PhoneEvent::Busy { uri, .. } => {
                self.say(now, &format!("call: {uri} calls too, and gets 486 Busy Here"));
            }
            PhoneEvent::Ringing { .. } => self.say(now, "call: it rings there"),
            PhoneEvent::Progress { .. } => self.say(now, "call: it goes on there"),
            PhoneEvent::Postponed { .. } => self.say(now, "call: the server is busy; calling again"),
            PhoneEvent::Answered { codec, .. } => self.say(now, &format!("call: connected, {codec}")),
            PhoneEvent::Held { hold, .. } => self.log_hold(now, *hold),
            PhoneEvent::HoldRefused { status, reason, .. } => {
                self.warn(now, &format!("call: hold or resume failed: {status} {reason}"));
            }
            PhoneEvent::OfferRefused { status, reason, .. } => {
                self.warn(now, &format!("call: a change by the other side was refused: {status} {reason}"));
            }
            PhoneEvent::Secured { protection, .. } => match protection {
                Protection::None => self.warn(now, "sound: NOT PROTECTED any more"),
                Protection::Zrtp { suite, status: SasStatus::Compared, .. } => {
                    self.say(now, &format!("sound: SRTP {} by ZRTP, compared", suite.name()));
                }
                Protection::Sdes { .. } | Protection::Dtls { .. } | Protection::Zrtp { .. } => {
                    self.say(now, &format!("sound: {protection}"));
                }
            },
            PhoneEvent::SecurityFailed { reason, .. } => {
                self.warn(now, &format!("the call is ended: {reason}"));
            }
            PhoneEvent::TransferAsked { to, .. } => {
                self.warn(now, &format!("call: the other side wants us to call {to}: refused"));
            }
            PhoneEvent::Digit { digit, .. } => self.say(now, &format!("call: key pressed there: {digit}")),
            PhoneEvent::DigitNotSent { reason, .. } => {
                self.warn(now, &format!("call: a key was not sent: {reason}"));
            }
            PhoneEvent::Silent { is_silent: true, .. } => {
                self.warn(now, "call: no sound comes from the other side, which may send");
            }
            PhoneEvent::Silent { is_silent: false, .. } => self.say(now, "call: sound comes now"),
            PhoneEvent::MediaFailed { reason, .. } | PhoneEvent::Refused { what: reason } => {
                self.warn(now, &format!("call: {reason}"));
            }
            PhoneEvent::StunMapped { mapped, .. } => {
                self.say(now, &format!("stun: our port for sound is mapped to {mapped}"));
            }
            PhoneEvent::StunFailed { reason } => {
                self.warn(now, &format!("stun: {reason}; our own address is offered"));
            }
            PhoneEvent::Ended { call, status, reason, .. } => self.log_end(now, *call, *status, reason),
            PhoneEvent::Registering
            | PhoneEvent::Unregistered
            | PhoneEvent::Inviting { .. }
            | PhoneEvent::Early { .. }
            | PhoneEvent::Securing { .. }
            | PhoneEvent::CallerProven { .. }
            | PhoneEvent::CallerRefused { .. }
            | PhoneEvent::OptionsAnswered { .. }
            | PhoneEvent::Transfer { .. }
            | PhoneEvent::Levels { .. }
            | PhoneEvent::Media { .. }
            | PhoneEvent::Message(_)
            | PhoneEvent::Network(_)
            | PhoneEvent::Sound { .. } => {}
        }
    }

    fn log_hold(&mut self, now: Instant, hold: Hold) {
        let by_peer = |hold| matches!(hold, Hold::Theirs | Hold::Both);
        match (by_peer(self.hold), by_peer(hold)) {
            (false, true) => self.say(now, "call: the other side holds it"),
            (true, false) => self.say(now, "call: the other side is back"),
            (false, false) | (true, true) => {}
        }
        self.hold = hold;
    }

    fn log_end(&mut self, now: Instant, number: CallNumber, status: u16, reason: &str) {
        self.hold = Hold::None;
        let phone = self.station.station().node();
        let past = phone.and_then(|phone| phone.history().find(|past| past.number == number));
        let (uri, talked) = past.map_or((String::new(), None), |past| (past.uri.clone(), past.talked));
        let words = match (status, talked) {
            (200, Some(_)) => "ended".to_string(),
            (0, _) => reason.to_string(),
            (_, _) => format!("{status} {reason}"),
        };
        self.say(now, &format!("call: {uri}: {words}"));
    }

    fn with_phone<R>(
        &mut self,
        now: Instant,
        f: impl FnOnce(&mut Phone, &mut Context<'_, Action>) -> R,
    ) -> Option<R> {
        self.station.station_mut().call(now, f)
    }

    pub(super) fn say(&mut self, now: Instant, text: &str) {
        self.log(now, Level::Info, text);
    }

    fn warn(&mut self, now: Instant, text: &str) {
        self.log(now, Level::Warning, text);
    }
}

/// Figures of a call's media, for a person.
fn summary(media: &CallMedia<MachineSound>, counters: &PacedCounters) -> String {
    let report = media.report();
    let received = &report.received;
    format!(
        "sound: {}; sent {} packets, the latest {:.2} ms behind its time, {} left out; received {}, {} lost, {} with a \
         wrong tag, {} again, delta at most {:.2} ms, jitter {:.2} ms, MOS {}",
        machine::security_in_words(report.security),
        report.sent.packets,
        counters.late_max.as_secs_f64() * 1000.0,
        counters.ticks_skipped,
        received.counts.received,
        received.counts.lost(),
        report.refused.auth_failures,
        report.refused.replays,
        received.delta_max_ms,
        received.jitter_max_ms,
        report.mos.map_or("unknown".to_string(), |mos| format!("{mos:.2}")),
    )
}
