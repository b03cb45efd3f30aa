//! One call that nobody sits in front of: what is done when, until it is over.

use crate::failure::Failure;
use crate::output::printable;
use crate::phone::known_phones::KnownPhones;
use crate::phone::line::{Line, Told};
use crate::phone::outcome::{Outcome, Verdict};
use crate::phone::script::{Script, Step};
use crate::phone::settings::ScriptSettings;
use crate::phone::telephone::Telephone;
use ringway_agent::{AgentEvent, By, CallId, Ended, MessageDirection, Role};
use ringway_audio::Levels;
use ringway_media::session::Report;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// A call that is being attended.
#[derive(Debug)]
pub(crate) struct Attended {
    pub(crate) call: CallId,
    role: Role,
    peer: String,
    begun: Instant,
    answered: Option<Instant>,
    script: Option<Script>,
    /// Why we ended it, when it was not asked for.
    failure: Option<String>,
    /// When we ended it before its time.
    cancelled: Option<Instant>,
    status: u16,
    /// What happens is said aloud.
    is_aloud: bool,
    /// How the sound is too.
    is_metered: bool,
}

impl Attended {
    /// A call that began at `begun`.
    pub(crate) fn new(call: CallId, role: Role, peer: &str, begun: Instant) -> Self {
        Self {
            call,
            role,
            peer: peer.to_owned(),
            begun,
            answered: None,
            script: None,
            failure: None,
            cancelled: None,
            status: 0,
            is_aloud: true,
            is_metered: false,
        }
    }

    /// The same, and nothing of it is said aloud.
    pub(crate) fn quiet(call: CallId, role: Role, peer: &str, begun: Instant) -> Self {
        Self { is_aloud: false, ..Self::new(call, role, peer, begun) }
    }

    /// Takes what its signalling tells; how it ended, when it has.
    pub(crate) fn on_event(
        &mut self,
        at: Instant,
        event: &AgentEvent,
        settings: &ScriptSettings,
    ) -> Option<Ended> {
        let call = self.call;
        match event {
            AgentEvent::Progress { call: of, status } if *of == call => {
                self.say(&match status {
                    180 => "it rings there".to_owned(),
                    status => format!("progress: {status}"),
                });
            }
            AgentEvent::EarlyMedia { call: of, .. } if *of == call => self.say("sound before the answer"),
            AgentEvent::Answered { call: of, .. } if *of == call => {
                self.answered = Some(at);
                self.status = 200;
                self.script = Some(Script::begin(settings, at));
                self.is_metered = settings.is_metered;
                self.say(&format!("{} is connected", printable(&self.peer)));
            }
            AgentEvent::HeldByPeer { call: of } if *of == call => self.say("the other side holds the call"),
            AgentEvent::ResumedByPeer { call: of } if *of == call => self.say("the other side is back"),
            AgentEvent::ChangeRefused { call: of, status, reason } if *of == call => {
                self.say(&format!("hold or resume failed: {status} {}", printable(reason)));
            }
            AgentEvent::OfferRefused { call: of, status, reason } if *of == call => {
                self.say(&format!("a change by the other side was refused: {status} {}", printable(reason)));
            }
            AgentEvent::Ended { call: of, cause } if *of == call => return Some(cause.clone()),
            _ => {}
        }
        None
    }

    /// Takes what its sound tells; `known` is the memory of other phones, if there is one.
    pub(crate) fn on_told(
        &mut self,
        told: &Told,
        telephone: &mut Telephone,
        known: &mut Option<KnownPhones>,
    ) {
        match told {
            Told::Secured(security) => self.say(&format!("sound: {security}")),
            Told::SecurityFailed(why) => {
                self.say(&format!("the call is ended: {}", printable(why)));
                self.failure = Some(why.clone());
                self.end(telephone);
            }
            Told::Digit(digit) => self.say(&format!("key pressed there: {digit}")),
            Told::DigitNotSent(why) => self.say(&format!("a key was not sent: {why}")),
            Told::Figures(report) if self.is_metered => {
                if let Some(line) = telephone.line(self.call) {
                    self.say(&meter(report, line.levels()));
                }
            }
            Told::Audio(what) => self.say(what),
            Told::NotMapped(why) => self.say(&format!("no public address, the local one is offered: {why}")),
            Told::Retain(retained) => {
                self.complain(known.as_mut().map(|known| known.remember(retained.clone())))
            }
            Told::Forget(zid) => self.complain(known.as_mut().map(|known| known.forget(zid))),
            Told::Figures(_) | Told::Mapped { .. } => {}
        }
    }

    /// Does what is due.
    pub(crate) fn on_time(&mut self, telephone: &mut Telephone) -> Result<(), Failure> {
        let Some(script) = &mut self.script else { return Ok(()) };
        while let Some(step) = script.due(Instant::now()) {
            match step {
                Step::Dtmf(digit) => {
                    if let Some(line) = telephone.line(self.call) {
                        line.dtmf(digit);
                    }
                }
                Step::Hold => telephone.hold(self.call)?,
                Step::Resume => telephone.resume(self.call)?,
                Step::HangUp => telephone.hang_up(self.call)?,
            }
        }
        Ok(())
    }

    /// How long nothing is due.
    pub(crate) fn wait(&self) -> Duration {
        let next = self.script.as_ref().and_then(|script| script.wait(Instant::now()));
        next.map_or(WAIT_MAX, |next| next.min(WAIT_MAX))
    }

    /// Ends it now.
    pub(crate) fn cancel(&mut self, telephone: &mut Telephone) {
        self.cancelled.get_or_insert_with(Instant::now);
        self.end(telephone);
    }

    /// It cannot be answered; why, for a person.
    pub(crate) fn fail(&mut self, why: String) {
        self.failure = Some(why);
    }

    /// True when it is neither answered nor given up since `ring`.
    pub(crate) fn rings_longer_than(&self, ring: Duration) -> bool {
        self.answered.is_none() && self.cancelled.is_none() && self.begun.elapsed() >= ring
    }

    /// How a call ended that was given up, and that the other side says nothing about: a CANCEL must wait for its first
    /// answer (RFC 3261 §9.1), we need not.
    pub(crate) fn given_up(&self) -> Option<Ended> {
        let cancelled = self.cancelled?;
        (self.answered.is_none() && cancelled.elapsed() > LAST_WORD).then(|| Ended {
            status: NOBODY,
            reason: "nobody answered".to_owned(),
            by: By::Local,
        })
    }

    /// How it went.
    pub(crate) fn outcome(
        mut self,
        ended: Ended,
        telephone: &mut Telephone,
        known: &mut Option<KnownPhones>,
    ) -> Result<Outcome, Failure> {
        let closed = telephone.take_line(self.call).map(Line::close).transpose()?;
        let (heard, last) = closed.unzip();
        for told in last.unwrap_or_default() {
            self.on_told(&told, telephone, known);
        }
        let verdict = match (&self.failure, self.answered) {
            (Some(_), _) => Verdict::Failed,
            (None, Some(_)) => Verdict::Answered,
            (None, None) if self.cancelled.is_some() || ended.status == CANCELLED => Verdict::Cancelled,
            (None, None) => match (self.role, ended.by) {
                (Role::Caller, By::Remote) | (Role::Callee, By::Local) => Verdict::Rejected,
                // It could not be sent, nobody answered, or what came was of no use.
                (Role::Caller, By::Local) | (Role::Callee, By::Remote) => Verdict::Failed,
            },
        };
        let is_plain_end = self.answered.is_some() && ended.status == 200;
        let reason = self.failure.or((!is_plain_end).then_some(ended.reason));
        Ok(Outcome {
            verdict,
            status: if self.answered.is_some() { self.status } else { ended.status },
            reason,
            peer: self.peer,
            setup: self.answered.map(|answered| answered - self.begun),
            duration: self.answered.map(|answered| answered.elapsed()).unwrap_or_default(),
            heard: heard.filter(|_| self.answered.is_some()),
        })
    }

    /// A memory that cannot be written ends no call.
    fn complain(&self, done: Option<Result<(), String>>) {
        if let Some(Err(why)) = done {
            self.say(&why);
        }
    }

    fn say(&self, text: &str) {
        if self.is_aloud {
            say(text);
        }
    }

    fn end(&self, telephone: &mut Telephone) {
        // It is over already when that fails, and `Ended` is on its way.
        let _ = telephone.hang_up(self.call);
    }
}

/// How the sound is, in one line.
fn meter(report: &Report, levels: &Levels) -> String {
    let received = &report.received;
    format!(
        "sent {} packets at {:.0} dB; received {} at {:.0} dB, {} lost, delta {:.2} ms, jitter {:.2} ms, MOS {}",
        report.sent.packets,
        levels.captured().dbfs(),
        received.counts.received,
        levels.played().dbfs(),
        received.counts.lost(),
        received.delta_max_ms,
        received.jitter_last_ms,
        report.mos.map_or("-".to_owned(), |mos| format!("{mos:.2}")),
    )
}

/// Tells a person; results go to standard output, this does not.
pub(crate) fn say(text: &str) {
    // Whoever closed standard error does not want to know; the call goes on.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Does what is done with every event, whatever the call: a message is shown, a transfer is refused, because nobody is
/// there to ask.
pub(crate) fn on_any(event: &AgentEvent, telephone: &mut Telephone) {
    if let AgentEvent::TransferRequested { call, target, .. } = event {
        say(&format!("the other side wants us to call {}: refused", printable(target)));
        // Who asked may have taken it back meanwhile.
        let _ = telephone.reject_transfer(*call);
    }
    say_message(event);
}

/// Shows a message.
pub(crate) fn say_message(event: &AgentEvent) {
    if let AgentEvent::Message { direction, flow, line, cseq, bytes, .. } = event {
        let way = match direction {
            MessageDirection::Sent => "->",
            MessageDirection::Received => "<-",
        };
        let (transport, peer) = (flow.transport, flow.remote);
        say(&format!("{way} {transport}:{peer} {} [{}, {bytes} bytes]", printable(line), printable(cseq)));
    }
}

/// RFC 3261 §21.4.25.
const CANCELLED: u16 = 487;

/// RFC 3261 §21.4.9.
const NOBODY: u16 = 408;

/// How long the other side has to agree that a call is given up.
const LAST_WORD: Duration = Duration::from_secs(1);

/// So that signals are seen soon.
const WAIT_MAX: Duration = Duration::from_millis(100);
