//! `ringway answer`: waits for calls and answers them.

use crate::failure::Failure;
use crate::output::printable;
use crate::phone::args::AnswerArgs;
use crate::phone::attend::{Attended, say, say_any, say_message};
use crate::phone::known_phones::KnownPhones;
use crate::phone::outcome::Verdict;
use crate::phone::settings::{ScriptSettings, Settings};
use crate::phone::telephone::{Behaviour, Telephone};
use crate::phone::{print_outcome, private_file, register};
use ringway_agent::Role;
use ringway_linux::process::{Signal, watch};
use ringway_phone::{CallNumber, IncomingPolicy, PhoneCommand, PhoneEvent, SrtpPolicy, TransferPolicy};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Answers calls until there were as many as asked for, or a signal comes.
pub(crate) fn run(args: &AnswerArgs) -> Result<(), Failure> {
    let mut settings = Settings::for_answer(&args.phone, &args.aor)?.with_audio()?;
    settings.caller_auth =
        args.challenge.as_deref().map(|file| private_file::of_callers(file, &args.aor)).transpose()?;
    let known = settings.zrtp_cache.as_deref().map(KnownPhones::open).transpose()?;
    let signals = watch().map_err(|error| Failure::failed(format!("cannot take signals: {error}")))?;
    let behaviour = Behaviour {
        ring: Duration::from_secs(u64::from(args.ring_s)) + RING_GRACE,
        incoming: args.reject.map_or(IncomingPolicy::Ask, IncomingPolicy::Reject),
        transfers: TransferPolicy::Reject,
        calls_max: 1,
    };
    let (script, registers, srtp) = (settings.script.clone(), settings.register, settings.media.srtp);
    let mut telephone = Telephone::start(settings, behaviour, known)?;
    let done = Answering {
        telephone: &mut telephone,
        script,
        srtp,
        args,
        waiting: None,
        attended: None,
        has_failed: false,
        is_ending: false,
        done: 0,
    }
    .run(registers, &signals);
    telephone.shut_down().iter().for_each(say_message);
    done
}

/// The state of it.
struct Answering<'a> {
    telephone: &'a mut Telephone,
    script: ScriptSettings,
    srtp: SrtpPolicy,
    args: &'a AnswerArgs,
    /// A call that rings, and when it is answered.
    waiting: Option<(CallNumber, Instant)>,
    /// The call that rings or is established: one at a time.
    attended: Option<Attended>,
    has_failed: bool,
    is_ending: bool,
    done: u32,
}

impl Answering<'_> {
    fn run(mut self, registers: bool, signals: &Receiver<Signal>) -> Result<(), Failure> {
        if registers {
            register(self.telephone, signals)?;
        }
        let listeners: Vec<String> = self.telephone.listeners().iter().map(ToString::to_string).collect();
        say(&format!("ready {}", listeners.join(" ")));
        while !self.is_done() {
            let wait = self.attended.as_ref().map_or(WAIT_IDLE, Attended::wait);
            if let Some((at, event)) = self.telephone.wait(wait)? {
                self.on_event(at, &event)?;
            }
            self.answer_when_due()?;
            if let Some(attended) = &mut self.attended {
                attended.on_time(self.telephone)?;
            }
            if let Ok(Signal::Terminate) = signals.try_recv() {
                self.is_ending = true;
                if let Some(attended) = &mut self.attended {
                    attended.cancel(self.telephone);
                }
            }
        }
        if self.has_failed { Err(Failure::said()) } else { Ok(()) }
    }

    fn is_done(&self) -> bool {
        self.attended.is_none() && (self.is_ending || self.args.count.is_some_and(|count| self.done >= count))
    }

    fn on_event(&mut self, at: Instant, event: &PhoneEvent) -> Result<(), Failure> {
        say_any(event);
        match event {
            PhoneEvent::CallerProven { uri, user } => {
                say(&format!("{} has proved the password of {}", printable(uri), printable(user)));
            }
            PhoneEvent::CallerRefused { uri, user, source } => {
                let (uri, user) = (printable(uri), printable(user));
                say(&format!("{uri} at {source} gave a wrong password of {user}, and was refused"));
            }
            PhoneEvent::Incoming { call, uri, is_sips, .. } => {
                let how = if *is_sips { ", with TLS on every hop" } else { "" };
                say(&format!("{} calls{how}", printable(uri)));
                let attended = Attended::new(*call, Role::Callee, uri, at).with_srtp(self.srtp);
                self.attended = Some(attended.over_sips(*is_sips));
                let answer_at = Instant::now() + Duration::from_secs(u64::from(self.args.ring_s));
                self.waiting = self.args.reject.is_none().then_some((*call, answer_at));
            }
            PhoneEvent::RegistrationFailed { status, reason, retry_s } => {
                let next = retry_s.map_or(String::new(), |retry_s| format!("; next attempt in {retry_s} s"));
                say(&format!("not registered any more: {status} {}{next}", printable(reason)));
            }
            _ => {}
        }
        let Some(attended) = &mut self.attended else { return Ok(()) };
        let Some(end) = attended.on_event(at, event, &self.script) else { return Ok(()) };
        let Some(attended) = self.attended.take() else { return Ok(()) };
        self.waiting = None;
        self.done += 1;
        let outcome = attended.outcome(end, self.telephone)?;
        self.has_failed |= match outcome.verdict {
            Verdict::Answered | Verdict::Cancelled => false,
            Verdict::Failed => true,
            // Not as this command was asked to: the two sides have no sound in common.
            Verdict::Rejected => {
                self.args.reject.is_none() && (!self.is_ending || outcome.is_not_acceptable())
            }
        };
        print_outcome(&outcome, self.args.phone.account.json)
    }

    fn answer_when_due(&mut self) -> Result<(), Failure> {
        let Some((call, _)) = self.waiting.filter(|(_, at)| *at <= Instant::now()) else { return Ok(()) };
        self.waiting = None;
        self.telephone.command(PhoneCommand::Answer { call })
    }
}

/// Time that a call may stay unanswered beyond its ringing.
const RING_GRACE: Duration = Duration::from_secs(60);

/// Signals are looked for that often.
const WAIT_IDLE: Duration = Duration::from_millis(100);
