//! The telephone's thread: takes commands of the screen and passes events to it, because signing in and out waits for the
//! network, and the screen must not.

use super::settings::Settings;
use super::{Input, setup};
use crate::failure::Failure;
use crate::phone::known_phones::KnownPhones;
use crate::phone::telephone::{Behaviour, Telephone};
use ringway_linux::Listen;
use ringway_phone::{
    CallNumber, IncomingPolicy, NetworkFacts, PhoneCommand, PhoneEvent, Side, TransferPolicy,
};
use ringway_ui::phone::{Account, Event, Secret};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Treatment of calls by a phone with a user.
const BEHAVIOUR: Behaviour = Behaviour {
    ring: Duration::from_secs(180),
    incoming: IncomingPolicy::Ask,
    transfers: TransferPolicy::Ask,
    calls_max: 8,
};
/// Requests are looked for that often.
const POLL_EVERY: Duration = Duration::from_millis(30);

/// The telephone's thread, from the screen.
pub(super) struct PhoneHandle {
    requests: Sender<Request>,
    thread: JoinHandle<()>,
}

/// A request of the screen.
enum Request {
    SignIn { account: Account, password: Secret, stun: Option<String> },
    Phone(PhoneCommand),
}

impl PhoneHandle {
    /// Starts the thread; `send_input` gets the events, until it returns false.
    pub(super) fn open(
        file: &Path,
        settings: &Settings,
        send_input: impl Fn(Input) -> bool + Send + 'static,
    ) -> Result<Self, Failure> {
        let (requests, from) = channel();
        let worker = PhoneWorker {
            file: file.to_owned(),
            settings: settings.clone(),
            send_input,
            telephone: None,
            in_use: None,
            calls: Vec::new(),
        };
        // A file that cannot be read is a reason not to start.
        worker.known_phones()?;
        let thread = std::thread::Builder::new()
            .name("phone".to_owned())
            .spawn(move || worker.run(&from))
            .map_err(|error| Failure::failed(format!("cannot start threads: {error}")))?;
        Ok(Self { requests, thread })
    }

    /// Uses this account from now on.
    pub(super) fn sign_in(&self, account: Account, password: Secret, stun: Option<String>) {
        let _ = self.requests.send(Request::SignIn { account, password, stun });
    }

    /// Gives a command to the telephone.
    pub(super) fn command(&self, command: PhoneCommand) {
        // `is_gone` reports a thread that has ended.
        let _ = self.requests.send(Request::Phone(command));
    }

    /// True when the thread has ended.
    pub(super) fn is_gone(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends calls and registration, and waits for the responses, two seconds at most.
    pub(super) fn close(self) -> Result<(), Failure> {
        self.command(PhoneCommand::Quit);
        self.thread.join().map_err(|_| Failure::failed("the phone ended badly; please report it"))
    }
}

/// Owner of the telephone.
struct PhoneWorker<T> {
    file: PathBuf,
    settings: Settings,
    send_input: T,
    telephone: Option<Telephone>,
    /// Settings of the telephone.
    in_use: Option<crate::phone::settings::Settings>,
    /// Calls that are not over.
    calls: Vec<CallNumber>,
}

impl<T: Fn(Input) -> bool> PhoneWorker<T> {
    fn run(mut self, requests: &Receiver<Request>) {
        loop {
            match self.run_once(requests) {
                Ok(true) => {}
                Ok(false) => break,
                // A request that failed, or a telephone that has ended: the user gets a message, and may sign in again.
                Err(failure) => {
                    if !self.send(PhoneEvent::Refused { what: failure.lines().join("; ") }) {
                        break;
                    }
                }
            }
        }
        if let Some(telephone) = self.telephone.take() {
            telephone.shut_down();
        }
    }

    /// Returns false at the end.
    fn run_once(&mut self, requests: &Receiver<Request>) -> Result<bool, Failure> {
        loop {
            match requests.try_recv() {
                Ok(Request::Phone(PhoneCommand::Quit)) | Err(TryRecvError::Disconnected) => return Ok(false),
                Ok(request) => self.take(request)?,
                Err(TryRecvError::Empty) => break,
            }
        }
        let Some(telephone) = &mut self.telephone else {
            return match requests.recv() {
                Ok(Request::Phone(PhoneCommand::Quit)) | Err(_) => Ok(false),
                Ok(request) => self.take(request).map(|()| true),
            };
        };
        match telephone.wait(POLL_EVERY) {
            Ok(Some((_, event))) => self.pass_on(event),
            Ok(None) => Ok(true),
            Err(failure) => {
                self.break_off(&failure);
                Err(failure)
            }
        }
    }

    fn take(&mut self, request: Request) -> Result<(), Failure> {
        match request {
            Request::SignIn { account, password, stun } => {
                self.settings.pages.stun = stun;
                let event = match self.sign_in(&account, &password) {
                    Ok(()) => Input::SignedIn,
                    Err(failure) => Input::NotSignedIn(failure.lines().join("; ")),
                };
                (self.send_input)(event);
                self.send_network();
                Ok(())
            }
            Request::Phone(command) => {
                let Some(telephone) = &self.telephone else {
                    return Err(Failure::failed("the phone is not signed in; F8 does that"));
                };
                telephone.command(match command {
                    PhoneCommand::Call { to } => PhoneCommand::Call { to: telephone.target(&to) },
                    command => command,
                })
            }
        }
    }

    /// Uses another account. The old one stays in use until server and STUN server of the new one are resolved, and is
    /// used again if the telephone does not start with the new one.
    fn sign_in(&mut self, account: &Account, password: &Secret) -> Result<(), Failure> {
        let settings = setup::phone_settings(&self.file, &self.settings, account, password)?;
        if let Some(old) = self.telephone.take() {
            old.shut_down();
        }
        self.calls.clear();
        let started = self.start(settings.clone());
        match (&started, self.in_use.clone()) {
            (Ok(()), _) => self.in_use = Some(settings),
            // The failure that counts is the first one.
            (Err(_), Some(old)) => drop(self.start(old)),
            (Err(_), None) => {}
        }
        started
    }

    fn start(&mut self, settings: crate::phone::settings::Settings) -> Result<(), Failure> {
        self.telephone = Some(Telephone::start(settings, BEHAVIOUR, Some(self.known_phones()?))?);
        Ok(())
    }

    /// Passes an event of the telephone to the screen; false: nobody reads it any more.
    fn send(&self, event: PhoneEvent) -> bool {
        (self.send_input)(Input::Event(Event::Phone(event)))
    }

    fn known_phones(&self) -> Result<KnownPhones, Failure> {
        KnownPhones::open(&self.file.with_extension("zrtp"))
    }

    /// Passes an event to the screen; false: nobody reads it any more.
    fn pass_on(&mut self, event: PhoneEvent) -> Result<bool, Failure> {
        let mut closed = Ok(());
        let has_network_changed = match &event {
            PhoneEvent::Calling { call, .. } | PhoneEvent::Incoming { call, .. } => {
                self.calls.push(*call);
                false
            }
            PhoneEvent::Inviting { .. } | PhoneEvent::Answered { .. } => true,
            PhoneEvent::Ended { call, .. } => {
                self.calls.retain(|live| live != call);
                let media = self.telephone.as_mut().and_then(|telephone| telephone.take_media(*call));
                closed = media.transpose().map(|_| ());
                true
            }
            _ => false,
        };
        let is_read = self.send(event);
        if has_network_changed {
            self.send_network();
        }
        closed.map(|()| is_read)
    }

    /// Reports that the telephone has ended unexpectedly, and its calls with it.
    fn break_off(&mut self, failure: &Failure) {
        self.telephone = None;
        let reason = failure.lines().join("; ");
        for call in std::mem::take(&mut self.calls) {
            let reason = reason.clone();
            self.send(PhoneEvent::Ended { call, by: Side::Failure, status: 0, reason });
        }
        self.send(PhoneEvent::RegistrationFailed { status: 503, reason, retry_s: None });
    }

    /// Reports the addresses, which change when a call begins or ends.
    fn send_network(&self) {
        let Some(telephone) = &self.telephone else { return };
        let interfaces = if_addrs::get_if_addrs().unwrap_or_default().into_iter();
        let sip = |listen: &Listen| (format!("SIP {}", listen.transport.name()), listen.address);
        let mut facts = NetworkFacts {
            addresses: interfaces.map(|interface| (interface.name.clone(), interface.ip())).collect(),
            listening: telephone.listeners().iter().map(sip).collect(),
            timing: String::new(),
        };
        for (rtp, priority) in telephone.lines() {
            facts.listening.push(("RTP".to_owned(), rtp));
            facts.timing = format!("every packet at its time, thread priority: {priority}");
        }
        self.send(PhoneEvent::Network(facts));
    }
}
