//! Between the screen and the telephone: commands one way, what happens the other way, on a thread of its own, because
//! a call that is begun may wait for a STUN server, and the screen must not.

use super::settings::Settings;
use super::wire::{self, Counted, Wired};
use crate::failure::Failure;
use crate::phone::known_phones::KnownPhones;
use crate::phone::line::{Line, Mute, Told};
use crate::phone::telephone::{Happening, Telephone};
use ringway_agent::{AgentEvent, By, CallId, Ended};
use ringway_audio::Ringer;
use ringway_phone::{
    CallNumber, Hold, Levels, PhoneCommand, PhoneEvent, Protection, SasStatus, Side, SipMessage, TransferStep,
};
use ringway_ui::phone::{Account, Registration, Secret};
use ringway_zrtp::SasCheck;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a call may ring.
const RING_WITHIN: Duration = Duration::from_secs(180);
/// How often commands are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(30);
/// How often the meters are told how loud it is.
const LEVELS_EVERY: Duration = Duration::from_millis(100);
/// RFC 3261 §21.2.1: what ends a call that was hung up.
const OK: u16 = 200;
/// RFC 3261 §21.4.24: our person does not want to talk now.
const BUSY: u16 = 486;

/// The telephone's thread, from the screen's side.
pub(super) struct Desk {
    requests: Sender<Request>,
    thread: JoinHandle<()>,
}

impl Desk {
    /// Begins; `tell` gets what happens, until it returns false.
    pub(super) fn open(
        file: &Path,
        settings: &Settings,
        tell: impl Fn(PhoneEvent) -> bool + Send + 'static,
    ) -> Result<Self, Failure> {
        let (requests, from) = channel();
        let clerk = Clerk {
            file: file.to_owned(),
            settings: settings.clone(),
            tell,
            telephone: None,
            serving: Vec::new(),
            levels_due: Instant::now(),
            recorded: 0,
            known: KnownPhones::open(&file.with_extension("zrtp"))?,
        };
        let thread = std::thread::Builder::new()
            .name("desk".to_owned())
            .spawn(move || clerk.serve(&from))
            .map_err(|error| Failure::failed(format!("cannot start threads: {error}")))?;
        Ok(Self { requests, thread })
    }

    /// Uses this account from now on.
    pub(super) fn sign_in(&self, account: Account, password: Secret) {
        let _ = self.requests.send(Request::SignIn { account, password });
    }

    /// Asks for something.
    pub(super) fn command(&self, command: PhoneCommand) {
        // A desk that is gone is seen by `is_gone`.
        let _ = self.requests.send(Request::Phone(command));
    }

    /// True when the thread has ended.
    pub(super) fn is_gone(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends calls and registration and waits until the others know, or two seconds.
    pub(super) fn close(self) -> Result<(), Failure> {
        self.command(PhoneCommand::Quit);
        self.thread.join().map_err(|_| Failure::failed("the phone ended badly; please report it"))
    }
}

/// A request of the screen.
enum Request {
    SignIn { account: Account, password: Secret },
    Phone(PhoneCommand),
}

/// Who serves the telephone.
struct Clerk<T> {
    file: PathBuf,
    settings: Settings,
    tell: T,
    telephone: Option<(Telephone, Wired)>,
    serving: Vec<Served>,
    levels_due: Instant,
    /// Recordings that were begun.
    recorded: u32,
    known: KnownPhones,
}

/// What our person wants of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Talk,
    Hold,
}

/// A call, as far as the clerk must know it.
struct Served {
    call: CallId,
    wish: Wish,
    is_held_by_us: bool,
    is_held_by_peer: bool,
    /// Our person has ended it, or refused it.
    is_ending: bool,
    /// Whom the other side wants us to call instead.
    asks_for: Option<String>,
    /// What protects it.
    protection: Protection,
    /// Rings until it is answered.
    ringer: Option<Ringer>,
    /// What its last report counted, to tell the last second.
    counted: Counted,
}

impl<T: Fn(PhoneEvent) -> bool> Clerk<T> {
    fn serve(mut self, requests: &Receiver<Request>) {
        loop {
            match self.serve_once(requests) {
                Ok(true) => {}
                Ok(false) => break,
                // What a command could not do, or a telephone that has ended: the person is told, and may sign in again.
                Err(failure) => {
                    if !self.refuse(&failure) {
                        break;
                    }
                }
            }
        }
        if let Some((telephone, _)) = self.telephone.take() {
            telephone.shut_down();
        }
    }

    /// False: it is over.
    fn serve_once(&mut self, requests: &Receiver<Request>) -> Result<bool, Failure> {
        loop {
            match requests.try_recv() {
                Ok(Request::Phone(PhoneCommand::Quit)) | Err(TryRecvError::Disconnected) => return Ok(false),
                Ok(request) => self.take(request)?,
                Err(TryRecvError::Empty) => break,
            }
        }
        let Some((telephone, _)) = &mut self.telephone else {
            return match requests.recv() {
                Ok(Request::Phone(PhoneCommand::Quit)) | Err(_) => Ok(false),
                Ok(request) => self.take(request).map(|()| true),
            };
        };
        match telephone.wait(LOOK_EVERY) {
            Ok(Some(Happening::Agent { event, .. })) => self.on_agent(event),
            Ok(Some(Happening::Media(call, told))) => self.on_told(call, told),
            Ok(None) => {}
            Err(failure) => {
                self.break_off(&failure);
                return Err(failure);
            }
        }
        self.tell_levels();
        Ok(true)
    }

    /// The telephone has ended by itself, and everything with it.
    fn break_off(&mut self, failure: &Failure) {
        self.telephone = None;
        let reason = failure.lines().join("; ");
        for served in self.serving.drain(..) {
            let (call, by) = (CallNumber(served.call.0), Side::Failure);
            (self.tell)(PhoneEvent::Ended { call, by, status: 0, reason: reason.clone() });
        }
        (self.tell)(PhoneEvent::RegistrationFailed { status: 503, reason, retry_s: None });
    }

    fn take(&mut self, request: Request) -> Result<(), Failure> {
        match request {
            Request::SignIn { account, password } => {
                if let Some((old, _)) = self.telephone.take() {
                    old.shut_down();
                }
                self.serving.clear();
                self.start(&account, &password)
            }
            Request::Phone(command) => self.obey(command),
        }
    }

    fn obey(&mut self, command: PhoneCommand) -> Result<(), Failure> {
        let Some((telephone, wired)) = &mut self.telephone else {
            return Err(Failure::failed("the phone is not signed in; F8 does that"));
        };
        let id = |call: CallNumber| CallId(call.0);
        match command {
            PhoneCommand::Call { to } => {
                let (call, _) = telephone
                    .call(&wired.target(&to), &wired.media(&self.known, &mut self.recorded, &self.tell)?)?;
                self.begin(call);
                (self.tell)(PhoneEvent::Calling { call: CallNumber(call.0), to });
                self.tell_network();
            }
            PhoneCommand::Answer { call } => {
                let media = wired.media(&self.known, &mut self.recorded, &self.tell)?;
                telephone.answer(id(call), &media)?;
                self.stop_ringing(id(call));
                self.tell_network();
            }
            PhoneCommand::Reject { call } => {
                telephone.reject(id(call), BUSY)?;
                self.note_ending(id(call));
            }
            PhoneCommand::HangUp { call } => {
                telephone.hang_up(id(call))?;
                self.note_ending(id(call));
            }
            PhoneCommand::Hold { call } => {
                telephone.hold(id(call))?;
                self.note_wish(id(call), Wish::Hold);
            }
            PhoneCommand::Resume { call } => {
                telephone.resume(id(call))?;
                self.note_wish(id(call), Wish::Talk);
            }
            PhoneCommand::Transfer { call, to } => telephone.transfer(id(call), &to)?,
            PhoneCommand::AcceptTransfer { call } => {
                let served = self.serving.iter_mut().find(|served| served.call == id(call));
                let Some(to) = served.and_then(|served| served.asks_for.take()) else { return Ok(()) };
                let media = wired.media(&self.known, &mut self.recorded, &self.tell)?;
                let call = telephone.accept_transfer(id(call), &media)?;
                self.begin(call);
                (self.tell)(PhoneEvent::Calling { call: CallNumber(call.0), to });
                self.tell_network();
            }
            PhoneCommand::RejectTransfer { call } => telephone.reject_transfer(id(call))?,
            PhoneCommand::Mute { call } => on_line(telephone, call, |line| line.mute(Mute::On)),
            PhoneCommand::Unmute { call } => on_line(telephone, call, |line| line.mute(Mute::Off)),
            PhoneCommand::Dtmf { call, digit } => on_line(telephone, call, |line| line.dtmf(digit.face())),
            PhoneCommand::MarkSasVerified { call } => {
                on_line(telephone, call, |line| line.sas_compared(SasCheck::Matches));
                self.note_compared(id(call));
            }
            PhoneCommand::MarkSasDifferent { call } => {
                on_line(telephone, call, |line| line.sas_compared(SasCheck::Differs));
            }
            PhoneCommand::Register => telephone.register()?,
            PhoneCommand::Quit => {}
        }
        Ok(())
    }

    /// Begins a telephone for an account.
    fn start(&mut self, account: &Account, password: &Secret) -> Result<(), Failure> {
        let wired = Wired::new(&self.file, &self.settings, account, password)?;
        let mut telephone = Telephone::start(&wired.settings, RING_WITHIN)?;
        if account.registration == Registration::Wanted {
            (self.tell)(PhoneEvent::Registering);
            telephone.register()?;
        } else {
            (self.tell)(PhoneEvent::Unregistered);
        }
        self.telephone = Some((telephone, wired));
        self.tell_network();
        Ok(())
    }

    fn on_incoming(&mut self, call: CallId, uri: String, name: String, replaces: Option<CallId>) {
        self.begin(call);
        let number = CallNumber(call.0);
        (self.tell)(PhoneEvent::Incoming { call: number, name, uri });
        // A call that replaces another (RFC 3891 §3) is answered without asking the user.
        let done = match replaces {
            Some(_) => self.obey(PhoneCommand::Answer { call: number }),
            None => self.with_telephone(|telephone| telephone.ring(call)).map(|()| self.ring(call)),
        };
        self.complain_of(done);
    }

    fn on_agent(&mut self, event: AgentEvent) {
        let number = |call: CallId| CallNumber(call.0);
        let told = match event {
            AgentEvent::Registered { expires_s, .. } => PhoneEvent::Registered { expires_s },
            AgentEvent::RegistrationFailed { status, reason, retry_s, .. } => {
                PhoneEvent::RegistrationFailed { status, reason, retry_s }
            }
            AgentEvent::Unregistered { .. } => PhoneEvent::Unregistered,
            AgentEvent::Incoming { call, from, display_name, replaces, .. } => {
                return self.on_incoming(call, from, display_name, replaces);
            }
            AgentEvent::Progress { call, status: 180 } => PhoneEvent::Ringing { call: number(call) },
            AgentEvent::EarlyMedia { call, .. } => PhoneEvent::Early { call: number(call) },
            AgentEvent::Answered { call, params } => {
                let codec = params.codec.name().to_owned();
                (self.tell)(PhoneEvent::Answered { call: number(call), codec });
                let true = matches!(params.protection, ringway_sdp::Protection::Zrtp { .. }) else { return };
                PhoneEvent::Securing { call: number(call) }
            }
            AgentEvent::MediaChanged { call, params } => {
                // Where neither side sends, it may be the other one that holds.
                return self.note_hold(call, |served| {
                    served.is_held_by_us = served.wish == Wish::Hold && !params.direction.receives();
                });
            }
            AgentEvent::HeldByPeer { call } => {
                return self.note_hold(call, |served| served.is_held_by_peer = true);
            }
            AgentEvent::ResumedByPeer { call } => {
                return self.note_hold(call, |served| served.is_held_by_peer = false);
            }
            AgentEvent::ChangeRefused { call, status, reason } => {
                self.forget_wish(call);
                PhoneEvent::HoldRefused { call: number(call), status, reason }
            }
            AgentEvent::OfferRefused { call, status, reason } => {
                PhoneEvent::OfferRefused { call: number(call), status, reason }
            }
            AgentEvent::Ended { call, cause } => return self.end(call, cause),
            AgentEvent::TransferRequested { call, target, .. } => {
                if let Some(served) = self.serving.iter_mut().find(|served| served.call == call) {
                    served.asks_for = Some(target.clone());
                }
                PhoneEvent::TransferAsked { call: number(call), to: target }
            }
            AgentEvent::TransferProgress { call, status } => {
                let step = TransferStep::Trying { status };
                PhoneEvent::Transfer { call: number(call), step }
            }
            AgentEvent::TransferDone { call, status, reason } => {
                let step = match status {
                    200..300 => TransferStep::Done,
                    _ => TransferStep::Failed { status, reason },
                };
                PhoneEvent::Transfer { call: number(call), step }
            }
            AgentEvent::Message { direction, flow, line, cseq, bytes, whole, .. } => {
                let (transport, peer) = (flow.transport, flow.remote);
                PhoneEvent::Message(SipMessage {
                    direction,
                    transport,
                    peer,
                    line,
                    cseq,
                    length: bytes,
                    bytes: whole,
                })
            }
            AgentEvent::Progress { .. }
            | AgentEvent::QueryAnswered { .. }
            | AgentEvent::CallerRefused { .. } => return,
        };
        (self.tell)(told);
    }

    fn on_told(&mut self, id: CallId, told: Told) {
        let call = CallNumber(id.0);
        let told = match told {
            Told::Secured(protection) => {
                if let Some(served) = self.serving.iter_mut().find(|served| served.call == id) {
                    served.protection = protection.clone();
                }
                PhoneEvent::Secured { call, protection }
            }
            Told::Retain(retained) => {
                let kept = self.known.remember(retained);
                return self.complain(kept);
            }
            Told::Forget(zid) => {
                let kept = self.known.forget(&zid);
                return self.complain(kept);
            }
            Told::SecurityFailed(why) => {
                // Nothing is sent or heard any more: a call that looks alive would be a lie.
                let done = self.with_telephone(|telephone| telephone.hang_up(id));
                self.complain_of(done);
                PhoneEvent::SecurityFailed { call, reason: why }
            }
            Told::Digit(digit) => PhoneEvent::Digit { call, digit },
            Told::DigitNotSent(why) => PhoneEvent::DigitNotSent { call, reason: why },
            Told::Mapped { local, mapped } => PhoneEvent::StunMapped { local, mapped },
            Told::Audio(what) => PhoneEvent::Sound { what },
            Told::NotMapped(reason) => PhoneEvent::StunFailed { reason },
            Told::Figures(report) => {
                let Some(served) = self.serving.iter_mut().find(|served| served.call == id) else { return };
                let report = wire::media_report(&report, &mut served.counted);
                PhoneEvent::Media { call, report }
            }
        };
        (self.tell)(told);
    }

    fn begin(&mut self, call: CallId) {
        self.serving.push(Served {
            call,
            wish: Wish::Talk,
            is_held_by_us: false,
            is_held_by_peer: false,
            is_ending: false,
            asks_for: None,
            protection: Protection::None,
            ringer: None,
            counted: Counted::default(),
        });
    }

    fn note_wish(&mut self, call: CallId, wish: Wish) {
        if let Some(served) = self.serving.iter_mut().find(|served| served.call == call) {
            served.wish = wish;
        }
    }

    /// What was wanted is refused: it stays as it is.
    fn forget_wish(&mut self, call: CallId) {
        if let Some(served) = self.serving.iter_mut().find(|served| served.call == call) {
            served.wish = if served.is_held_by_us { Wish::Hold } else { Wish::Talk };
        }
    }

    /// Rings at the loudspeaker, unless a person talks: for a second call the terminal's bell is enough.
    fn ring(&mut self, call: CallId) {
        let [served] = self.serving.as_mut_slice() else { return };
        let audio = self.telephone.as_ref().and_then(|(_, wired)| wired.audio());
        // A fault of the sound card is reported when the call is answered.
        if let (Some(Ok(audio)), true) = (audio, served.call == call) {
            served.ringer = audio.ring().ok();
        }
    }

    fn stop_ringing(&mut self, call: CallId) {
        if let Some(served) = self.serving.iter_mut().find(|served| served.call == call) {
            served.ringer = None;
        }
    }

    fn note_ending(&mut self, call: CallId) {
        if let Some(served) = self.serving.iter_mut().find(|served| served.call == call) {
            served.is_ending = true;
            served.ringer = None;
        }
    }

    /// The media session takes it as said and has nothing to tell.
    fn note_compared(&mut self, call: CallId) {
        let Some(served) = self.serving.iter_mut().find(|served| served.call == call) else { return };
        if let Protection::Zrtp { status, .. } = &mut served.protection {
            *status = SasStatus::Compared;
            let protection = served.protection.clone();
            (self.tell)(PhoneEvent::Secured { call: CallNumber(call.0), protection });
        }
    }

    fn note_hold(&mut self, call: CallId, change: impl FnOnce(&mut Served)) {
        let Some(served) = self.serving.iter_mut().find(|served| served.call == call) else { return };
        change(served);
        let hold = match (served.is_held_by_us, served.is_held_by_peer) {
            (false, false) => Hold::None,
            (true, false) => Hold::Ours,
            (false, true) => Hold::Theirs,
            (true, true) => Hold::Both,
        };
        (self.tell)(PhoneEvent::Held { call: CallNumber(call.0), hold });
    }

    fn end(&mut self, call: CallId, cause: Ended) {
        let place = self.serving.iter().position(|served| served.call == call);
        let is_ours =
            place.map(|place| self.serving.swap_remove(place)).is_some_and(|served| served.is_ending);
        let line = self.telephone.as_mut().and_then(|(telephone, _)| telephone.take_line(call));
        match line.map(Line::close) {
            Some(Ok((_, last))) => {
                let is_memory = |told: &Told| matches!(told, Told::Retain(_) | Told::Forget(_));
                last.into_iter().filter(is_memory).for_each(|told| self.on_told(call, told));
            }
            Some(Err(failure)) => {
                self.refuse(&failure);
            }
            None => {}
        }
        self.tell_network();
        let by = match (cause.by, is_ours) {
            (_, true) => Side::Us,
            (By::Remote, false) => Side::Peer,
            // After a transfer the agent hangs up, as it was asked to.
            (By::Local, false) if cause.status == OK => Side::Us,
            (By::Local, false) => Side::Failure,
        };
        let (status, reason) = (cause.status, cause.reason);
        (self.tell)(PhoneEvent::Ended { call: CallNumber(call.0), by, status, reason });
    }

    /// Where the phone is, anew when a call has begun or ended.
    fn tell_network(&mut self) {
        let Some((telephone, _)) = &mut self.telephone else { return };
        let mut facts = wire::network_facts(telephone.listeners());
        for served in &self.serving {
            if let Some(line) = telephone.line(served.call) {
                facts.listening.push(("RTP".to_owned(), line.rtp_address()));
                facts.timing = format!("every packet at its time, thread priority: {}", line.priority());
            }
        }
        (self.tell)(PhoneEvent::Network(facts));
    }

    fn tell_levels(&mut self) {
        let now = Instant::now();
        if now < self.levels_due {
            return;
        }
        self.levels_due = now + LEVELS_EVERY;
        let Some((telephone, _)) = &mut self.telephone else { return };
        for served in &self.serving {
            if let Some(line) = telephone.line(served.call) {
                let levels = line.levels();
                let levels =
                    Levels { sent_db: levels.captured().dbfs(), received_db: levels.played().dbfs() };
                (self.tell)(PhoneEvent::Levels { call: CallNumber(served.call.0), levels });
            }
        }
    }

    fn with_telephone(
        &mut self,
        ask: impl FnOnce(&mut Telephone) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.telephone.as_mut().map_or(Ok(()), |(telephone, _)| ask(telephone))
    }

    fn complain_of(&self, done: Result<(), Failure>) {
        if let Err(failure) = done {
            self.refuse(&failure);
        }
    }

    fn complain(&self, kept: Result<(), String>) {
        if let Err(why) = kept {
            (self.tell)(PhoneEvent::Refused { what: why });
        }
    }

    /// False: nobody listens any more.
    fn refuse(&self, failure: &Failure) -> bool {
        (self.tell)(PhoneEvent::Refused { what: failure.lines().join("; ") })
    }
}

fn on_line(telephone: &mut Telephone, call: CallNumber, ask: impl FnOnce(&mut Line)) {
    if let Some(line) = telephone.line(CallId(call.0)) {
        ask(line);
    }
}
