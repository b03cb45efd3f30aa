//! Events of the phone. Every text in them may come from a stranger.

use super::call::{Call, Origin, PastCall, Phase, REASON_CHARS_MAX, URI_CHARS_MAX};
use super::{Effect, Mapping, Model, Overlay, Registered, Screen, Weight};
use crate::phone::Now;
use crate::phone::model::call::{DIRECT, NAME_CHARS_MAX, Party};
use crate::text::Shown;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;
use ringway_phone::{CallNumber, Hold, PhoneCommand, PhoneEvent, Protection, SasStatus, Side, TransferStep};

impl Model {
    pub(super) fn on_phone(&mut self, now: Now, event: PhoneEvent, effects: &mut Vec<Effect>) {
        match event {
            PhoneEvent::Registering => {
                // A refresh is no news.
                if !matches!(self.registered, Registered::Yes { .. }) {
                    self.registered = Registered::Trying;
                }
            }
            PhoneEvent::Registered { expires_s } => {
                let until = now.elapsed + Duration::from_secs(expires_s.into());
                self.registered = Registered::Yes { until };
            }
            PhoneEvent::RegistrationFailed { status, reason, retry_s } => {
                let reason = format!("{status} {reason}");
                self.notify(now, Weight::Failed, &format!("not registered: {reason}"));
                let retry_at = retry_s.map(|s| now.elapsed + Duration::from_secs(s.into()));
                self.registered =
                    Registered::Failed { reason: Shown::new(&reason, REASON_CHARS_MAX), retry_at };
            }
            PhoneEvent::Unregistered => self.registered = Registered::No,
            PhoneEvent::Calling { call, to } => {
                self.begin(Call::new(call, Origin::Ours, self.party("", &to), now));
                self.shown = Some(call);
                self.go(Screen::Call);
            }
            PhoneEvent::Incoming { call, name, uri, bypasses_server, is_sips: _, replaces } => {
                let party = match bypasses_server {
                    true => Party::direct(&name, &uri),
                    false => self.party(&name, &uri),
                };
                let theirs = Call::new(call, Origin::Theirs, party, now);
                self.ring_here(now, Call { is_replacing: replaces.is_some(), ..theirs }, effects);
            }
            PhoneEvent::Message(message) => self.ladder.push(now, message),
            PhoneEvent::Network(facts) => self.network = facts,
            PhoneEvent::StunMapped { local, mapped } => self.mapping = Mapping::At { local, mapped },
            PhoneEvent::StunFailed { reason } => {
                self.mapping = Mapping::Failed(Shown::new(&reason, REASON_CHARS_MAX))
            }
            PhoneEvent::Sound { what, is_working } => {
                self.notify(now, Weight::Careful, &what);
                self.sound_failure = (!is_working).then(|| Shown::new(&what, REASON_CHARS_MAX));
            }
            PhoneEvent::Refused { what } => self.refuse(now, &what),
            PhoneEvent::Postponed { wait, .. } => self.postpone(now, wait),
            PhoneEvent::HoldRefused { status, reason, .. } => {
                self.refuse(now, &format!("hold or resume failed: {status} {reason}"));
            }
            PhoneEvent::SecurityFailed { reason, .. } => {
                self.refuse(now, &format!("the call is ended: {reason}"));
            }
            PhoneEvent::MediaFailed { reason, .. } | PhoneEvent::DigitNotSent { reason, .. } => {
                self.refuse(now, &reason);
            }
            // The call list has the call already, and nobody needs to be asked about one that got 486.
            PhoneEvent::Inviting { .. }
            | PhoneEvent::Progress { .. }
            | PhoneEvent::Busy { .. }
            | PhoneEvent::CallerProven { .. }
            | PhoneEvent::CallerRefused { .. }
            | PhoneEvent::OptionsAnswered { .. } => {}
            PhoneEvent::Ended { call, by, status, reason } => {
                self.end(now, call, by, status, &reason);
                self.keep_past_calls(effects);
            }
            PhoneEvent::Ringing { call }
            | PhoneEvent::Early { call }
            | PhoneEvent::Answered { call, .. }
            | PhoneEvent::Secured { call, .. }
            | PhoneEvent::Securing { call }
            | PhoneEvent::Levels { call, .. }
            | PhoneEvent::Media { call, .. }
            | PhoneEvent::Held { call, .. }
            | PhoneEvent::Silent { call, .. }
            | PhoneEvent::Transfer { call, .. }
            | PhoneEvent::TransferAsked { call, .. }
            | PhoneEvent::OfferRefused { call, .. }
            | PhoneEvent::Digit { call, .. } => self.on_call(now, call, event),
        }
    }

    fn postpone(&mut self, now: Now, wait: Duration) {
        let what = format!("the server is busy; calling again in {:.1} s", wait.as_secs_f64());
        self.notify(now, Weight::Careful, &what);
    }

    fn ring_here(&mut self, now: Now, call: Call, effects: &mut Vec<Effect>) {
        let number = call.number;
        self.begin(call);
        super::bring(self, number);
        self.ring_due = Some(now.elapsed);
        self.ring(now, effects);
    }

    /// Handles an event of one call.
    fn on_call(&mut self, now: Now, number: CallNumber, event: PhoneEvent) {
        if matches!(event, PhoneEvent::Answered { .. })
            && self.front.take_if(|front| front.call == number).is_some()
        {
            self.shown = Some(number);
        }
        let Some(call) = self.call_mut(number) else { return };
        let who = call.party.short().to_owned();
        let mut notice = None;
        match event {
            PhoneEvent::Ringing { .. } if call.phase == Phase::Calling => call.phase = Phase::RingsThere,
            PhoneEvent::Early { .. } if matches!(call.phase, Phase::Calling | Phase::RingsThere) => {
                call.phase = Phase::Early;
            }
            PhoneEvent::Answered { codec, .. } => {
                call.codec = Shown::new(&codec, NAME_CHARS_MAX);
                call.asked = None;
                if !call.is_talking() {
                    call.phase = Phase::Talking { since: now };
                }
            }
            PhoneEvent::Securing { .. } => call.is_securing = true,
            PhoneEvent::Secured { protection, .. } => notice = secure(call, safe(protection)),
            PhoneEvent::Levels { levels, .. } => call.note_levels(levels),
            PhoneEvent::Media { report, .. } => call.note_report(report),
            PhoneEvent::Held { hold, .. } => {
                let is_new = |hold| matches!(hold, Hold::Theirs | Hold::Both);
                match (is_new(call.hold), is_new(hold)) {
                    (false, true) => notice = Some((Weight::Note, format!("{who} has put you on hold"))),
                    (true, false) => notice = Some((Weight::Note, format!("{who} has taken you back"))),
                    (false, false) | (true, true) => {}
                }
                call.hold = hold;
                call.asked = None;
            }
            PhoneEvent::Silent { is_silent, .. } => {
                call.is_silent = is_silent;
                if is_silent {
                    let text = format!("no sound comes from {who}: a firewall or NAT may stop it");
                    notice = Some((Weight::Careful, text));
                }
            }
            PhoneEvent::Transfer { step, .. } => notice = transfer(call, step),
            PhoneEvent::TransferAsked { to, .. } => call.asks_for = Some(Shown::new(&to, URI_CHARS_MAX)),
            PhoneEvent::OfferRefused { status, reason, .. } => {
                let text = format!("refused a change that {who} wanted: {status} {reason}");
                notice = Some((Weight::Careful, text));
            }
            PhoneEvent::Digit { digit, .. } => call.note_digit_received(digit),
            // A 180 that comes behind a 183 or a 200 changes nothing; the others are not about one call.
            // `on_phone` handles the events that are not about one call.
            _ => {}
        }
        if let Some((weight, text)) = notice {
            self.notify(now, weight, &text);
        }
    }

    fn refuse(&mut self, now: Now, what: &str) {
        for call in &mut self.calls {
            call.asked = None;
        }
        self.notify(now, Weight::Failed, what);
    }

    fn begin(&mut self, call: Call) {
        if self.calls.len() >= self.host.limits().calls || self.call(call.number).is_some() {
            return;
        }
        // The chosen line of an open call list stays on the call it was on.
        if self.screen == Screen::Calls && self.chosen >= self.calls.len() && !self.history.is_empty() {
            self.chosen += 1;
        }
        self.calls.push(call);
    }

    fn end(&mut self, now: Now, number: CallNumber, by: Side, status: u16, reason: &str) {
        let Some(at) = self.calls.iter().position(|call| call.number == number) else { return };
        let mut call = self.calls.remove(at);
        let after = call.talked(now);
        let reason = Shown::new(reason, REASON_CHARS_MAX);
        call.phase = Phase::Over { after, by, status, reason: reason.clone() };
        call.asked = None;
        call.is_silent = false;
        call.is_securing = false;
        let who = call.party.short();
        let text = match (after, call.origin, by) {
            _ if call.is_transferred => {
                format!("transfer done: {who} talks to {} now; this call is over", call.transfer_to)
            }
            (Some(_), _, Side::Peer) => format!("{who} has hung up"),
            (None, Origin::Theirs, Side::Peer | Side::Failure) => format!("missed call from {who}"),
            (None, Origin::Ours, Side::Peer) => format!("{who} did not take the call: {status} {reason}"),
            (_, _, Side::Failure) => format!("the call with {who} broke off: {reason}"),
            (Some(_), _, Side::Us) => format!("the call with {who} is over"),
            (None, Origin::Theirs, Side::Us) => format!("you rejected {who}"),
            (None, Origin::Ours, Side::Us) => format!("you gave up calling {who}"),
        };
        let weight = if by == Side::Failure { Weight::Failed } else { Weight::Note };
        self.notify(now, weight, &text);
        // The call that began last is first.
        let place = self.history.iter().take_while(|past| past.at.elapsed > call.began.elapsed).count();
        if let Some(past) = PastCall::of(&call) {
            self.history.insert(place, past);
        }
        self.history.truncate(self.host.limits().past_calls);
        // It moves from the live calls into the history, which is right behind them.
        let place = self.calls.len() + place;
        if self.chosen == at {
            self.chosen = place;
        } else if (at..=place).contains(&self.chosen) {
            self.chosen -= 1;
        }
        if self.shown == Some(number) {
            self.shown = None;
        }
        super::leave_if(self, number);
        if matches!(self.overlay, Some(Overlay::Transfer { call, .. }) if call == number) {
            self.overlay = None;
        }
        if self.calls.is_empty() {
            self.sound_failure = None;
        }
        self.last = Some(call);
    }

    /// Ends the program: live calls are over, and are kept in the history.
    pub fn quit(&mut self, now: Now, effects: &mut Vec<Effect>) {
        while let Some(number) = self.calls.first().map(|call| call.number) {
            self.end(now, number, Side::Us, 0, "");
            self.keep_past_calls(effects);
        }
        effects.extend([Effect::Phone(PhoneCommand::Quit), Effect::Leave]);
    }

    /// The other side; a contact's name is better than what it calls itself.
    pub(super) fn party(&self, name: &str, uri: &str) -> Party {
        if let Some(name) = name.strip_prefix(DIRECT) {
            return Party::direct(name, uri);
        }
        let plain = uri.split([';', '?']).next().unwrap_or(uri);
        let known = self.settings.contacts.iter().find(|contact| contact.uri.eq_ignore_ascii_case(plain));
        known.map_or_else(|| Party::new(name, uri), |contact| Party::contact(&contact.name, uri))
    }
}

/// Takes the progress of our transfer, and gives the notice about it.
fn transfer(call: &mut Call, step: TransferStep) -> Option<(Weight, String)> {
    let (who, to) = (call.party.short(), &call.transfer_to);
    let (text, notice) = match step {
        TransferStep::Trying { status } => (format!("under way: {status}"), None),
        TransferStep::Done => (
            format!("done: they talk to {to} now"),
            Some((Weight::Note, format!("transfer done: {who} talks to {to} now"))),
        ),
        TransferStep::Failed { status, reason } => (
            format!("failed: {status} {reason}"),
            Some((Weight::Failed, format!("transfer of {who}: {status} {reason}"))),
        ),
    };
    call.is_transferred = matches!(&notice, Some((Weight::Note, _)));
    call.transfer = Shown::new(&text, REASON_CHARS_MAX);
    notice
}

/// Takes the protection of a call, and gives the notice about it.
fn secure(call: &mut Call, protection: Protection) -> Option<(Weight, String)> {
    let who = call.party.short();
    let text = if matches!(protection, Protection::Zrtp { status: SasStatus::Broken, .. }) {
        Some(format!("{who} does not know the secret of your earlier calls: compare the SAS"))
    } else if protection.strength() < call.lock.strength() {
        let is = match protection {
            Protection::None => "no longer protected",
            Protection::Sdes { .. } | Protection::Dtls { .. } | Protection::Zrtp { .. } => {
                "protected less than before"
            }
        };
        Some(format!("the call with {who} is {is}"))
    } else {
        None
    };
    call.is_securing = false;
    call.lock = protection;
    text.map(|text| (Weight::Careful, text))
}

/// The protection with its texts made safe to show.
fn safe(protection: Protection) -> Protection {
    match protection {
        Protection::Zrtp { suite, sas, status } => {
            Protection::Zrtp { suite, sas: Shown::new(&sas, NAME_CHARS_MAX).to_string(), status }
        }
        Protection::None | Protection::Sdes { .. } | Protection::Dtls { .. } => protection,
    }
}
