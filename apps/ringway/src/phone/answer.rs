//! `ringway answer`: waits for calls and answers them.

use crate::failure::Failure;
use crate::output::printable;
use crate::phone::args::AnswerArgs;
use crate::phone::attend::{Attended, on_any, say, say_message};
use crate::phone::audio::Audio;
use crate::phone::known_phones::KnownPhones;
use crate::phone::outcome::Verdict;
use crate::phone::passwords;
use crate::phone::settings::Settings;
use crate::phone::telephone::{Happening, Telephone};
use crate::phone::{register, tell};
use ringway_agent::{AgentEvent, CallId, Role};
use ringway_audio::Ringer;
use ringway_linux::signals::{Signal, watch};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Answers calls until there were as many as asked for, or a signal comes.
pub(crate) fn run(args: &AnswerArgs) -> Result<(), Failure> {
    let mut settings = Settings::for_answer(&args.phone, &args.aor)?.with_audio()?;
    settings.caller_auth =
        args.challenge.as_deref().map(|file| passwords::of_callers(file, &args.aor)).transpose()?;
    let known = settings.zrtp_cache.as_deref().map(KnownPhones::open).transpose()?;
    let signals = watch().map_err(|error| Failure::failed(format!("cannot take signals: {error}")))?;
    let ring = Duration::from_secs(u64::from(args.ring_s)) + RING_GRACE;
    let mut telephone = Telephone::start(&settings, ring)?;
    let done = Answering {
        telephone: &mut telephone,
        settings: &settings,
        args,
        known,
        waiting: None,
        ringer: None,
        attended: None,
        has_failed: false,
        done: 0,
    }
    .run(&signals);
    telephone.shut_down().iter().for_each(say_message);
    done
}

/// The state of it.
struct Answering<'a> {
    telephone: &'a mut Telephone,
    settings: &'a Settings,
    args: &'a AnswerArgs,
    /// The phones of earlier calls, where they are remembered.
    known: Option<KnownPhones>,
    /// A call that rings, and when it is answered.
    waiting: Option<(CallId, Instant)>,
    /// Rings while the call waits.
    ringer: Option<Ringer>,
    /// The call that rings or stands: one at a time.
    attended: Option<Attended>,
    has_failed: bool,
    done: u32,
}

impl Answering<'_> {
    fn run(mut self, signals: &Receiver<Signal>) -> Result<(), Failure> {
        if self.settings.register {
            register(self.telephone, signals)?;
        }
        let listeners: Vec<String> = self.telephone.listeners().iter().map(ToString::to_string).collect();
        say(&format!("ready {}", listeners.join(" ")));
        let mut is_ending = false;
        while !self.is_done(is_ending) {
            let wait = self.attended.as_ref().map_or(WAIT_IDLE, Attended::wait);
            match self.telephone.wait(wait)? {
                Some(Happening::Agent { at, event }) => self.on_event(at, &event)?,
                Some(Happening::Media(call, told)) => {
                    if let Some(attended) = self.attended.as_mut().filter(|attended| attended.call == call) {
                        attended.on_told(&told, self.telephone, &mut self.known);
                    }
                }
                None => {}
            }
            self.answer_when_due()?;
            if let Some(attended) = &mut self.attended {
                attended.on_time(self.telephone)?;
            }
            if let Ok(Signal::Terminate) = signals.try_recv() {
                is_ending = true;
                if let Some(attended) = &mut self.attended {
                    attended.cancel(self.telephone);
                }
            }
        }
        if self.has_failed { Err(Failure::said()) } else { Ok(()) }
    }

    fn is_done(&self, is_ending: bool) -> bool {
        self.attended.is_none() && (is_ending || self.args.count.is_some_and(|count| self.done >= count))
    }

    fn on_event(&mut self, at: Instant, event: &AgentEvent) -> Result<(), Failure> {
        on_any(event, self.telephone);
        match event {
            AgentEvent::Incoming { call, from, proven_user, .. } => {
                if let Some(user) = proven_user {
                    say(&format!("{} has proved the password of {}", printable(from), printable(user)));
                }
                return self.on_incoming(at, *call, from);
            }
            AgentEvent::CallerRefused { from, user, source } => {
                let (from, user) = (printable(from), printable(user));
                say(&format!("{from} at {source} gave a wrong password of {user}, and was refused"));
            }
            AgentEvent::RegistrationFailed { status, reason, .. } => {
                say(&format!("not registered any more: {status} {}", printable(reason)));
            }
            _ => {}
        }
        let Some(attended) = &mut self.attended else { return Ok(()) };
        let Some(ended) = attended.on_event(at, event, &self.settings.script) else { return Ok(()) };
        let Some(attended) = self.attended.take() else { return Ok(()) };
        (self.waiting, self.ringer) = (None, None);
        self.done += 1;
        let outcome = attended.outcome(ended, self.telephone, &mut self.known)?;
        self.has_failed |= outcome.verdict == Verdict::Failed;
        tell(&outcome, self.args.phone.account.json)
    }

    fn on_incoming(&mut self, at: Instant, call: CallId, from: &str) -> Result<(), Failure> {
        if self.attended.is_some() {
            return self.telephone.reject(call, BUSY);
        }
        say(&format!("{} calls", printable(from)));
        self.attended = Some(Attended::new(call, Role::Callee, from, at));
        if let Some(status) = self.args.reject {
            return self.telephone.reject(call, status);
        }
        self.telephone.ring(call)?;
        self.ringer = self.settings.media.audio.as_ref().map(Audio::ring).transpose()?;
        self.waiting = Some((call, Instant::now() + Duration::from_secs(u64::from(self.args.ring_s))));
        Ok(())
    }

    fn answer_when_due(&mut self) -> Result<(), Failure> {
        let Some((call, _)) = self.waiting.filter(|(_, at)| *at <= Instant::now()) else { return Ok(()) };
        (self.waiting, self.ringer) = (None, None);
        match self.telephone.answer(call, &self.settings.media.known_to(self.known.as_ref())) {
            Ok(()) => Ok(()),
            Err(failure) => {
                for line in failure.lines() {
                    say(line);
                }
                // Where the caller's offer was at fault it has been told, and `Ended` is on its way. Else it is this
                // machine, and without a word the caller would let it ring.
                if self.telephone.is_ringing(call)? {
                    if let Some(attended) = &mut self.attended {
                        attended.fail(failure.lines().join("; "));
                    }
                    self.telephone.reject(call, INTERNAL_ERROR)?;
                }
                Ok(())
            }
        }
    }
}

/// RFC 3261 §21.4.24.
const BUSY: u16 = 486;

/// RFC 3261 §21.5.1.
const INTERNAL_ERROR: u16 = 500;

/// How much longer than it is to ring a call may stay unanswered.
const RING_GRACE: Duration = Duration::from_secs(60);

/// So that signals are seen soon.
const WAIT_IDLE: Duration = Duration::from_millis(100);
