//! What the screen knows, and what each event makes of it.
//!
//! Does: takes keys and what happened at the phone, one at a time; gives out what is to be done. Nothing here reads a
//! clock, a file or a terminal, so a test is a story.
//!
//! Start reading at [`Model::update`]; keys are in `keys.rs`, the phone's events in `phone.rs`.

mod call;
mod contacts;
mod keys;
mod ladder;
mod login;
mod phone;
#[cfg(test)]
mod tests;

pub(crate) use call::{Asked, Call, Origin, Outcome, PastCall, Phase, Series};
pub(crate) use ladder::{Ladder, Rung};

use super::event::{Now, Secret};
use super::field::Field;
use super::form::Form;
use super::key::Key;
use super::settings::{Account, PasswordPlace, Settings};
use super::text::Shown;
use ringway_phone::{CallNumber, NetworkFacts, PhoneCommand, PhoneEvent};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a notice stays.
const NOTICE_STAYS: Duration = Duration::from_secs(12);
/// The rhythm of ringing (ITU-T E.180: a second of tone, four of silence).
const RING_EVERY: Duration = Duration::from_secs(5);
const NOTICE_CHARS_MAX: usize = 300;

/// What the model is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Key(Key),
    /// Text that the terminal was given as a whole.
    Paste(String),
    /// Time went on.
    Tick,
    Phone(PhoneEvent),
    /// `Effect::Save` or `Effect::KeepPassword` did not work: one line.
    NotSaved(String),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Use this account from now on, and register it where it says so.
    SignIn {
        account: Account,
        password: Secret,
    },
    Phone(PhoneCommand),
    /// Write account and contacts to `phone.toml`.
    Save(Box<Settings>),
    KeepPassword {
        place: PasswordPlace,
        uri: String,
        password: Secret,
    },
    /// Take the password away from where it was kept before.
    ForgetPassword {
        place: PasswordPlace,
        uri: String,
    },
    /// Make the terminal's noise: somebody calls.
    Bell,
    /// The person wants to leave.
    Leave,
}

/// What fills the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Screen {
    Keypad,
    Contacts,
    Calls,
    Call,
    Network,
    Ladder,
    Account,
}

impl Screen {
    /// All of them, in the order of their keys F2 to F8.
    pub(crate) const ALL: [Self; 7] =
        [Self::Keypad, Self::Contacts, Self::Calls, Self::Call, Self::Network, Self::Ladder, Self::Account];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Keypad => "Keypad",
            Self::Contacts => "Contacts",
            Self::Calls => "Calls",
            Self::Call => "Call",
            Self::Network => "Network",
            Self::Ladder => "Ladder",
            Self::Account => "Account",
        }
    }
}

/// What lies over the screen and takes the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Overlay {
    /// What the keys do.
    Help { top: usize },
    /// Calls are live: really leave?
    Leave,
    /// To whom shall the call be transferred?
    Transfer { call: CallNumber, to: Field, error: Option<&'static str> },
    /// A contact, new (`None`) or known by its place.
    Contact { at: Option<usize>, form: Form },
    /// Really take this contact out?
    Forget { at: usize },
}

/// Whether the server knows us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Registered {
    /// We are not and do not try.
    No,
    /// We try.
    Trying,
    /// Until this moment, if it is not renewed.
    Yes {
        until: Duration,
    },
    Failed {
        reason: Shown,
        retry_at: Option<Duration>,
    },
}

/// How bad a notice is; each is told by a word, not by colour alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Note,
    Careful,
    Failed,
}

/// One line for the person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) weight: Weight,
    pub(crate) text: Shown,
    until: Duration,
}

/// What STUN told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mapping {
    Unknown,
    At { local: SocketAddr, mapped: SocketAddr },
    Failed(Shown),
}

/// The phone as its person sees it.
#[derive(Debug)]
pub(crate) struct Model {
    /// Where `settings` live; the password file stands beside it.
    file: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) screen: Screen,
    pub(crate) overlay: Option<Overlay>,
    pub(crate) notice: Option<Notice>,
    pub(crate) registered: Registered,
    /// Of the account in use.
    password: Secret,
    pub(crate) login: Form,
    pub(crate) address: Field,
    pub(crate) address_error: Option<&'static str>,
    /// What was dialled, the newest first.
    dialled: Vec<String>,
    /// Which of them the address line shows.
    recalled: Option<usize>,
    pub(crate) contact: usize,
    /// Live calls, the oldest first.
    pub(crate) calls: Vec<Call>,
    /// The call of the call screen.
    pub(crate) shown: Option<CallNumber>,
    /// The last call that ended, for the call screen while there is no other.
    pub(crate) last: Option<Call>,
    /// Calls that are over, the newest first.
    pub(crate) history: VecDeque<PastCall>,
    /// The chosen line of the call list: live calls first, then the history.
    pub(crate) chosen: usize,
    pub(crate) network: NetworkFacts,
    pub(crate) mapping: Mapping,
    pub(crate) ladder: Ladder,
    /// When the terminal makes its noise again, while somebody calls.
    ring_due: Option<Duration>,
}

impl Model {
    /// The phone at its start. Without an account the person is asked for one.
    pub(crate) fn new(settings: Settings, file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            screen: if settings.account.is_some() { Screen::Keypad } else { Screen::Account },
            overlay: None,
            notice: None,
            registered: Registered::No,
            password: Secret::default(),
            login: login::form(&settings),
            settings,
            address: Field::default(),
            address_error: None,
            dialled: Vec::new(),
            recalled: None,
            contact: 0,
            calls: Vec::new(),
            shown: None,
            last: None,
            history: VecDeque::new(),
            chosen: 0,
            network: NetworkFacts::default(),
            mapping: Mapping::Unknown,
            ladder: Ladder::default(),
            ring_due: None,
        }
    }

    /// Takes one event; what is to be done is put into `effects`.
    pub(crate) fn update(&mut self, now: Now, event: Event, effects: &mut Vec<Effect>) {
        if self.notice.as_ref().is_some_and(|notice| now.elapsed >= notice.until) {
            self.notice = None;
        }
        match event {
            Event::Key(key) => self.on_key(now, key, effects),
            Event::Paste(text) => self.on_paste(&text),
            Event::Tick => self.ring(now, effects),
            Event::Phone(event) => self.on_phone(now, event, effects),
            Event::NotSaved(why) => self.tell(now, Weight::Failed, &why),
        }
    }

    /// Uses the account with a password that was kept.
    pub(crate) fn sign_in(&mut self, password: Secret, effects: &mut Vec<Effect>) {
        if let Some(account) = self.settings.account.clone() {
            self.password = password.clone();
            effects.push(Effect::SignIn { account, password });
        }
    }

    /// Asks for the password of the account.
    pub(crate) fn ask_password(&mut self, why: &str) {
        self.login = login::form(&self.settings);
        self.login.error = Some(Shown::new(why, NOTICE_CHARS_MAX).to_string());
        self.screen = Screen::Account;
    }

    /// Makes a noise every few seconds while somebody waits for an answer.
    fn ring(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if self.ringing().is_none() {
            self.ring_due = None;
        }
        if self.ring_due.is_some_and(|due| now.elapsed >= due) {
            self.ring_due = Some(now.elapsed + RING_EVERY);
            effects.push(Effect::Bell);
        }
    }

    fn go(&mut self, screen: Screen) {
        if screen == Screen::Calls && self.screen != Screen::Calls {
            self.chosen = 0;
        }
        self.screen = screen;
    }

    fn tell(&mut self, now: Now, weight: Weight, text: &str) {
        let text = Shown::new(text, NOTICE_CHARS_MAX);
        self.notice = Some(Notice { weight, text, until: now.elapsed + NOTICE_STAYS });
    }

    fn call_mut(&mut self, number: CallNumber) -> Option<&mut Call> {
        self.calls.iter_mut().find(|call| call.number == number)
    }

    /// A live call.
    pub(crate) fn call(&self, number: CallNumber) -> Option<&Call> {
        self.calls.iter().find(|call| call.number == number)
    }

    /// What the call screen is about: the shown call, else any live one, else the last.
    pub(crate) fn shown_call(&self) -> Option<&Call> {
        let shown = self.shown.and_then(|number| self.call(number));
        shown.or(self.calls.first()).or(self.last.as_ref())
    }

    /// The call that has rung here longest.
    pub(crate) fn ringing(&self) -> Option<&Call> {
        self.calls.iter().find(|call| call.rings_here())
    }

    /// A call whose other side wants us to call somebody else.
    pub(crate) fn transfer_asked(&self) -> Option<&Call> {
        self.calls.iter().find(|call| call.asks_for.is_some())
    }

    /// Our own address.
    pub(crate) fn own_uri(&self) -> Option<&str> {
        self.settings.account.as_ref().map(|account| account.uri.as_str())
    }

    /// Whom the address line stands for: a lone digit is a quick dial key if somebody has it.
    pub(crate) fn quick_dial(&self) -> Option<&super::settings::Contact> {
        let text = self.address.text();
        let key: u8 = Some(text.trim()).filter(|text| text.len() == 1)?.parse().ok()?;
        self.settings.contacts.iter().find(|contact| contact.quick == Some(key))
    }
}
