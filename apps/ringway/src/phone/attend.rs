//! A call without a user: its script of timed commands, and its outcome.

use crate::failure::Failure;
use crate::output::printable;
use crate::phone::outcome::{MediaOutcome, Outcome, Verdict};
use crate::phone::settings::ScriptSettings;
use crate::phone::telephone::Telephone;
use ringway_agent::Role;
use ringway_media::session::Report;
use ringway_phone::{
    CallEnd, CallNumber, Digit, Hold, Levels, MediaReport, MessageDirection, PhoneCommand, PhoneEvent,
    Protection, Side, SrtpPolicy,
};
use std::collections::VecDeque;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// A call that is attended to.
#[derive(Debug)]
pub(crate) struct Attended {
    pub(crate) call: CallNumber,
    role: Role,
    peer: String,
    is_sips: bool,
    begun: Instant,
    /// The INVITE was sent: a STUN server may delay it.
    is_invited: bool,
    answered: Option<Instant>,
    script: Option<Script>,
    /// The error that ends it.
    failure: Option<String>,
    /// Time at which we ended it early.
    cancelled: Option<Instant>,
    status: u16,
    protection: Protection,
    /// Protection without which it has failed, if that needs a handshake.
    required: Option<&'static str>,
    /// Digits of the peer.
    digits: String,
    /// Sides that hold it.
    hold: Hold,
    /// No RTP came, although the peer may send.
    is_silent: bool,
    levels: Option<Levels>,
    /// Events are written to standard error.
    is_aloud: bool,
    /// So are the figures.
    is_metered: bool,
}

impl Attended {
    /// A call that began at `begun`.
    pub(crate) fn new(call: CallNumber, role: Role, peer: &str, begun: Instant) -> Self {
        Self {
            call,
            role,
            peer: peer.to_owned(),
            is_sips: false,
            begun,
            is_invited: role == Role::Callee,
            answered: None,
            script: None,
            failure: None,
            cancelled: None,
            status: 0,
            protection: Protection::None,
            required: None,
            digits: String::new(),
            hold: Hold::None,
            is_silent: false,
            levels: None,
            is_aloud: true,
            is_metered: false,
        }
    }

    /// The same for a call whose protection a handshake with the other phone must bring about.
    pub(crate) fn with_srtp(self, srtp: SrtpPolicy) -> Self {
        let required = match srtp {
            SrtpPolicy::Dtls => Some("DTLS-SRTP"),
            SrtpPolicy::Zrtp => Some("ZRTP"),
            SrtpPolicy::None | SrtpPolicy::Best | SrtpPolicy::Sdes => None,
        };
        Self { required, ..self }
    }

    /// The same for a call to a `sips:` URI, if it is one.
    pub(crate) fn over_sips(self, is_sips: bool) -> Self {
        Self { is_sips, ..self }
    }

    /// The same silently.
    pub(crate) fn quiet(call: CallNumber, role: Role, peer: &str, begun: Instant) -> Self {
        Self { is_aloud: false, ..Self::new(call, role, peer, begun) }
    }

    /// Takes an event of the phone; returns the end of the call.
    pub(crate) fn on_event(
        &mut self,
        at: Instant,
        event: &PhoneEvent,
        settings: &ScriptSettings,
    ) -> Option<CallEnd> {
        let is_ours = |call: &CallNumber| *call == self.call;
        match event {
            PhoneEvent::Inviting { call } if is_ours(call) => (self.begun, self.is_invited) = (at, true),
            PhoneEvent::Ringing { call } if is_ours(call) => self.say("it rings there"),
            PhoneEvent::Progress { call, status } if is_ours(call) => {
                self.say(&format!("progress: {status}"));
            }
            PhoneEvent::Postponed { call, wait } if is_ours(call) => {
                self.say(&format!("the server is busy; calling again in {:.1} s", wait.as_secs_f64()));
            }
            PhoneEvent::Early { call } if is_ours(call) => self.say("sound before the answer"),
            PhoneEvent::Answered { call, .. } if is_ours(call) => {
                self.answered = Some(at);
                self.status = 200;
                self.script = Some(Script::begin(settings, at));
                self.is_metered = settings.is_metered;
                self.say(&format!("{} is connected", printable(&self.peer)));
            }
            PhoneEvent::Held { call, hold } if is_ours(call) => self.on_held(*hold),
            PhoneEvent::HoldRefused { call, status, reason } if is_ours(call) => {
                self.say(&format!("hold or resume failed: {status} {}", printable(reason)));
            }
            PhoneEvent::OfferRefused { call, status, reason } if is_ours(call) => {
                self.say(&format!("a change by the other side was refused: {status} {}", printable(reason)));
            }
            PhoneEvent::Secured { call, protection } if is_ours(call) => {
                self.say(&format!("sound: {protection}"));
                self.protection = protection.clone();
            }
            PhoneEvent::SecurityFailed { call, reason } if is_ours(call) => {
                self.say(&format!("the call is ended: {}", printable(reason)));
                self.failure = Some(reason.clone());
            }
            PhoneEvent::Silent { call, is_silent } if is_ours(call) => {
                self.is_silent = *is_silent;
                self.say(if *is_silent { NO_SOUND } else { "sound comes now" });
            }
            PhoneEvent::MediaFailed { call, reason } if is_ours(call) => {
                // The caller's program ends with it.
                if self.role == Role::Callee {
                    self.say(reason);
                }
                self.failure = Some(reason.clone());
            }
            PhoneEvent::Digit { call, digit } if is_ours(call) => {
                if self.digits.len() < DIGITS_MAX {
                    self.digits.push(*digit);
                }
                self.say(&format!("key pressed there: {digit}"));
            }
            PhoneEvent::DigitNotSent { call, reason } if is_ours(call) => {
                self.say(&format!("a key was not sent: {reason}"));
            }
            PhoneEvent::Levels { call, levels } if is_ours(call) => self.levels = Some(*levels),
            PhoneEvent::Media { call, report } if is_ours(call) && self.is_metered => {
                self.say(&meter(report, self.levels));
            }
            PhoneEvent::StunFailed { reason } => {
                self.say(&format!("no public address, the local one is offered: {reason}"));
            }
            // The outcome of a call that is not answered has the reason of its end.
            PhoneEvent::Refused { .. } if self.role == Role::Callee && self.answered.is_none() => {}
            PhoneEvent::Sound { what, .. } | PhoneEvent::Refused { what } => self.say(what),
            PhoneEvent::Ended { call, by, status, reason } if is_ours(call) => {
                return Some(CallEnd { by: *by, status: *status, reason: reason.clone() });
            }
            _ => {}
        }
        None
    }

    /// Executes the steps of the script that are due.
    pub(crate) fn on_time(&mut self, telephone: &Telephone) -> Result<(), Failure> {
        let Some(script) = &mut self.script else { return Ok(()) };
        let call = self.call;
        while let Some(step) = script.due(Instant::now()) {
            let command = match step {
                Step::Dtmf(digit) => Digit::new(digit).map(|digit| PhoneCommand::Dtmf { call, digit }),
                Step::Hold => Some(PhoneCommand::Hold { call }),
                Step::Resume => Some(PhoneCommand::Resume { call }),
                Step::HangUp => Some(PhoneCommand::HangUp { call }),
            };
            command.map_or(Ok(()), |command| telephone.command(command))?;
        }
        Ok(())
    }

    /// Time to the next step.
    pub(crate) fn wait(&self) -> Duration {
        let next = self.script.as_ref().and_then(|script| script.wait(Instant::now()));
        next.map_or(WAIT_MAX, |next| next.min(WAIT_MAX))
    }

    /// Ends it now.
    pub(crate) fn cancel(&mut self, telephone: &Telephone) {
        self.cancelled.get_or_insert_with(Instant::now);
        // A phone without a worker has no calls to end.
        let _ = telephone.command(PhoneCommand::HangUp { call: self.call });
    }

    /// True when it is neither answered nor cancelled after `ring`.
    pub(crate) fn rings_longer_than(&self, ring: Duration) -> bool {
        let is_waiting = self.is_invited && self.answered.is_none() && self.cancelled.is_none();
        is_waiting && self.begun.elapsed() >= ring
    }

    /// The end of a cancelled call whose peer does not respond: a CANCEL must wait for the first response (RFC 3261 §9.1), we
    /// need not.
    pub(crate) fn given_up(&self) -> Option<CallEnd> {
        let cancelled = self.cancelled?;
        (self.answered.is_none() && cancelled.elapsed() > LAST_WORD).then(|| CallEnd {
            status: REQUEST_TIMEOUT,
            reason: "nobody answered".to_owned(),
            by: Side::Us,
        })
    }

    /// The outcome of the call, which has ended.
    pub(crate) fn outcome(self, end: CallEnd, telephone: &mut Telephone) -> Result<Outcome, Failure> {
        let media = telephone.take_media(self.call).transpose()?;
        if let Some(card) = media.as_ref().and_then(|media| media.card.as_ref()) {
            self.say(card);
        }
        // Neither an INVITE nor a response to one was sent.
        if self.role == Role::Caller && end.status == 0 {
            return Err(Failure::failed(end.reason));
        }
        let no_sound = || silence_reason(media.as_ref().map(|media| &media.report));
        // A call whose handshake was not over at its end was answered, and had no sound.
        let unprotected = || match self.required {
            Some(name) if self.answered.is_some() && self.protection == Protection::None => {
                Some(format!("it ended before {name} protected it: no sound was sent or played"))
            }
            Some(_) | None => None,
        };
        let failure = self.failure.or_else(|| self.is_silent.then(no_sound)).or_else(unprotected);
        // Without an acceptable session it failed, also if we end it before the BYE has a response.
        let was_cancelled = end.status == REQUEST_TERMINATED
            || (self.cancelled.is_some() && end.status != NOT_ACCEPTABLE_HERE);
        let verdict = match (&failure, self.answered) {
            (Some(_), _) => Verdict::Failed,
            (None, Some(_)) if end.status == OK => Verdict::Answered,
            // It was not acknowledged, a change of the session failed, or the other side lost it.
            (None, Some(_)) => Verdict::Failed,
            (None, None) if was_cancelled => Verdict::Cancelled,
            (None, None) => match (self.role, end.by) {
                (Role::Caller, Side::Peer) | (Role::Callee, Side::Us | Side::Failure) => Verdict::Rejected,
                // It could not be sent, nobody answered, or the answer was of no use.
                (Role::Caller, Side::Us | Side::Failure) | (Role::Callee, Side::Peer) => Verdict::Failed,
            },
        };
        let is_plain_end = self.answered.is_some() && end.status == OK;
        let reason = failure.or((!is_plain_end).then_some(end.reason));
        let media = media.filter(|_| self.answered.is_some());
        Ok(Outcome {
            verdict,
            status: if self.answered.is_some() { self.status } else { end.status },
            reason,
            peer: self.peer,
            is_sips: self.is_sips,
            hold: self.hold,
            setup: self.answered.map(|answered| answered - self.begun),
            duration: self.answered.map(|answered| answered.elapsed()).unwrap_or_default(),
            media: media.map(|media| MediaOutcome {
                security: self.protection,
                digits: self.digits,
                ..media
            }),
        })
    }

    fn on_held(&mut self, hold: Hold) {
        let by_peer = |hold| matches!(hold, Hold::Theirs | Hold::Both);
        match (by_peer(self.hold), by_peer(hold)) {
            (false, true) => self.say("the other side holds the call"),
            (true, false) => self.say("the other side is back"),
            (false, false) | (true, true) => {}
        }
        self.hold = hold;
    }

    fn say(&self, text: &str) {
        if self.is_aloud {
            say(text);
        }
    }
}

/// Reason of a call's failure whose peer was not media, with what was refused instead of its sound.
fn silence_reason(report: Option<&Report>) -> String {
    let refused = report.map(|report| report.refused).unwrap_or_default();
    match (refused.auth_failures, refused.strangers) {
        (0, 0) => format!("{NO_SOUND}; check the firewalls and NATs between the two phones (--stun)"),
        (0, strangers) => {
            format!(
                "{NO_SOUND}; {strangers} packets came from other addresses than its own, and were refused"
            )
        }
        (failures, _) => format!("{NO_SOUND}; {failures} packets with a wrong SRTP tag were refused"),
    }
}

/// The figures in one line.
fn meter(report: &MediaReport, levels: Option<Levels>) -> String {
    let levels = levels.unwrap_or(Levels { sent_db: -96.0, received_db: -96.0 });
    format!(
        "sent {} packets at {:.0} dB; received {} at {:.0} dB, {} lost, delta {:.2} ms, jitter {:.2} ms, MOS {}",
        report.sent_packets,
        levels.sent_db,
        report.received_packets,
        levels.received_db,
        report.lost_packets,
        report.delta_ms_max,
        report.jitter_ms,
        report.mos.map_or("-".to_owned(), |mos| format!("{mos:.2}")),
    )
}

/// Writes a line to standard error; results go to standard output.
pub(crate) fn say(text: &str) {
    // A closed standard error ends no call.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Writes the events of every call: messages, and transfers, which the phone rejects because there is no user.
pub(crate) fn say_any(event: &PhoneEvent) {
    if let PhoneEvent::TransferAsked { to, .. } = event {
        say(&format!("the other side wants us to call {}: refused", printable(to)));
    }
    say_message(event);
}

/// Writes a message.
pub(crate) fn say_message(event: &PhoneEvent) {
    if let PhoneEvent::Message(message) = event {
        let arrow = match message.direction {
            MessageDirection::Sent => "->",
            MessageDirection::Received => "<-",
        };
        let (transport, peer, length) = (message.transport, message.peer, message.length);
        let (line, cseq) = (printable(&message.line), printable(&message.cseq));
        say(&format!("{arrow} {transport}:{peer} {line} [{cseq}, {length} bytes]"));
    }
}

/// After [`PhoneEvent::Silent`].
const NO_SOUND: &str = "no sound: in 3 s no RTP packet came from the other side, which may send";

/// RFC 3261 §21.2.1: ended by BYE.
const OK: u16 = 200;

/// RFC 3261 §21.4.25.
const REQUEST_TERMINATED: u16 = 487;
const NOT_ACCEPTABLE_HERE: u16 = 488;

/// RFC 3261 §21.4.9.
const REQUEST_TIMEOUT: u16 = 408;

/// Time that the peer has to respond to a CANCEL.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Signals are looked for that often.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Digits of the peer that are kept.
const DIGITS_MAX: usize = 256;

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Send a digit.
    Dtmf(char),
    /// Put the call on hold.
    Hold,
    /// Take it up again.
    Resume,
    /// End it.
    HangUp,
}

/// Remaining commands of a call, in order.
#[derive(Debug)]
pub(crate) struct Script {
    begun: Instant,
    steps: VecDeque<(Duration, Step)>,
}

impl Script {
    /// Begins at the answer.
    pub(crate) fn begin(settings: &ScriptSettings, now: Instant) -> Self {
        let digits = settings.dtmf.chars().zip(0_u32..);
        let mut steps: Vec<(Duration, Step)> =
            digits.map(|(digit, place)| (DTMF_AFTER + DTMF_EVERY * place, Step::Dtmf(digit))).collect();
        for &at in &settings.hold_at {
            steps.push((at, Step::Hold));
            steps.push((at + settings.hold, Step::Resume));
        }
        steps.extend(settings.duration.map(|duration| (duration, Step::HangUp)));
        steps.sort_by_key(|(at, _)| *at);
        Self { begun: now, steps: steps.into() }
    }

    /// The next step that is due.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Step> {
        let (at, _) = self.steps.front()?;
        if now < self.begun + *at {
            return None;
        }
        self.steps.pop_front().map(|(_, step)| step)
    }

    /// Time until the next command.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        let (at, _) = self.steps.front()?;
        Some((self.begun + *at).saturating_duration_since(now))
    }
}

/// Time of the first digit: the other side should receive by then.
const DTMF_AFTER: Duration = Duration::from_millis(500);

/// A digit and the pause after it.
const DTMF_EVERY: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_in_the_order_of_their_times() {
        let settings = ScriptSettings {
            duration: Some(Duration::from_secs(5)),
            dtmf: "1#".to_owned(),
            hold_at: vec![Duration::from_secs(1), Duration::from_secs(3)],
            hold: Duration::from_secs(1),
            is_metered: false,
        };
        let begun = Instant::now();
        let mut script = Script::begin(&settings, begun);
        assert_eq!(script.due(begun), None);
        assert_eq!(script.wait(begun), Some(DTMF_AFTER));
        let mut seen = Vec::new();
        for tenth in 0..60 {
            while let Some(step) = script.due(begun + Duration::from_millis(100) * tenth) {
                seen.push((tenth, step));
            }
        }
        let steps = [
            (5, Step::Dtmf('1')),
            (8, Step::Dtmf('#')),
            (10, Step::Hold),
            (20, Step::Resume),
            (30, Step::Hold),
            (40, Step::Resume),
            (50, Step::HangUp),
        ];
        assert_eq!(seen, steps);
        assert_eq!(script.wait(begun), None);
    }
}
