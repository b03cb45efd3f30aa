//! State of the pages.
//!
//! Does: takes keys and the phone's events, one at a time, and gives out effects. Nothing here reads a clock, a file or
//! a terminal.
//!
//! Start reading at [`Model::update`]; keys are in `keys.rs`, the phone's events in `phone.rs`.

mod call;
mod keys;
mod ladder;
mod login;
mod past;
mod phone;
#[cfg(test)]
mod tests;

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

use ringway_phone::{CallNumber, NetworkFacts, PhoneCommand, PhoneEvent};

use super::Now;
use super::form::{Field, Form};
use super::settings::{Account, PasswordPlace, Secret, Settings};
use crate::keys::Key;
use crate::log::{Level, Log};
use crate::text::Shown;
pub(crate) use call::{Asked, Call, Origin, Outcome, PastCall, Phase, Series, lock_name};
pub(crate) use ladder::{Ladder, Rung};
use login::Login;
pub use past::PAST_CALLS_BYTES_MAX;

/// Time after which a notice goes.
const NOTICE_STAYS: Duration = Duration::from_secs(12);
/// The rhythm of ringing (ITU-T E.180: a second of tone, four of silence).
const RING_EVERY: Duration = Duration::from_secs(5);
const NOTICE_CHARS_MAX: usize = 300;

/// An input of the model.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A key.
    Key(Key),
    /// Pasted text.
    Paste(String),
    /// Time passed.
    Tick,
    /// An event of the phone.
    Phone(PhoneEvent),
    /// [`Effect::Save`] or [`Effect::KeepPassword`] failed: one line.
    NotSaved(String),
}

/// An output of the model: something for the program to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Use this account from now on, and register it if it is to be registered; then call [`Model::on_signed_in`] or
    /// [`Model::on_not_signed_in`].
    SignIn {
        /// The account.
        account: Account,
        /// Its password; empty: there is none.
        password: Secret,
        /// STUN server, `HOST[:PORT]`.
        stun: Option<String>,
    },
    /// A command to the phone.
    Phone(PhoneCommand),
    /// Save the settings.
    Save(Box<Settings>),
    /// Save a password; if the keyring fails, call [`Model::on_keyring_failed`].
    KeepPassword {
        /// Storage of the password.
        place: PasswordPlace,
        /// URI of its account.
        uri: String,
        /// The password.
        password: Secret,
    },
    /// Remove a password.
    ForgetPassword {
        /// Storage of the password.
        place: PasswordPlace,
        /// URI of its account.
        uri: String,
    },
    /// Keep the history of calls: [`Model::past_calls`].
    KeepCalls,
    /// Ring the terminal's bell: somebody calls.
    Bell,
    /// End the program.
    Leave,
}

/// The system that the phone runs on. It decides about the pages, and about the memory that they may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// An operating system. Account and contacts are saved in a file.
    System {
        /// Name of the file.
        file: String,
    },
    /// A machine without an operating system. Account and contacts cannot be changed, and there is a log.
    Machine,
}

impl Host {
    /// The pages, in the order of their keys from F2 on.
    pub(crate) const fn screens(&self) -> [Screen; 7] {
        use Screen::{Account, Call, Calls, Contacts, Keypad, Ladder, Log, Network};
        match self {
            Self::System { .. } => [Keypad, Contacts, Calls, Call, Network, Ladder, Account],
            Self::Machine => [Keypad, Contacts, Calls, Call, Network, Ladder, Log],
        }
    }

    /// Limits of what is kept.
    pub(super) const fn limits(&self) -> Limits {
        match self {
            Self::System { .. } => {
                Limits { calls: 64, past_calls: 500, messages: 2000, message_bytes: 8 << 20 }
            }
            Self::Machine => Limits { calls: 1, past_calls: 100, messages: 100, message_bytes: 256 << 10 },
        }
    }

    /// True if account and contacts can be changed.
    pub(crate) const fn can_save(&self) -> bool {
        matches!(self, Self::System { .. })
    }
}

/// Limits of what is kept; the oldest go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Calls at once. The phone itself may allow fewer.
    calls: usize,
    /// Calls that are over.
    past_calls: usize,
    /// Messages of the ladder.
    messages: usize,
    /// Their bytes.
    message_bytes: usize,
}

/// A page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Screen {
    Keypad,
    Contacts,
    Calls,
    Call,
    Network,
    Ladder,
    Account,
    Log,
}

impl Screen {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Keypad => "Keypad",
            Self::Contacts => "Contacts",
            Self::Calls => "Calls",
            Self::Call => "Call",
            Self::Network => "Network",
            Self::Ladder => "Ladder",
            Self::Account => "Account",
            Self::Log => "Log",
        }
    }
}

/// A window over the page, which takes the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Overlay {
    /// Help on keys.
    Help { top: usize },
    /// Question before leaving with live calls.
    Leave,
    /// Target of a transfer.
    Transfer { call: CallNumber, to: Field, error: Option<Cow<'static, str>> },
    /// A contact, new (`None`) or by its index.
    Contact { at: Option<usize>, form: Form },
    /// Question before a contact is deleted.
    Forget { at: usize },
}

/// State of the registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Registered {
    /// Not registered, and not to be.
    No,
    /// A REGISTER is sent.
    Trying,
    /// Until this time, if it is not refreshed.
    Yes {
        until: Duration,
    },
    Failed {
        reason: Shown,
        retry_at: Option<Duration>,
    },
}

/// Severity of a notice; a word says it, not colour alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    Note,
    Careful,
    Failed,
}

/// One line for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) weight: Weight,
    pub(crate) text: Shown,
    until: Duration,
}

/// Result of STUN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mapping {
    Unknown,
    At { local: SocketAddr, mapped: SocketAddr },
    Failed(Shown),
}

/// State of the pages.
#[derive(Debug)]
pub struct Model {
    pub(crate) host: Host,
    pub(crate) settings: Settings,
    pub(crate) screen: Screen,
    pub(crate) overlay: Option<Overlay>,
    pub(crate) notice: Option<Notice>,
    pub(crate) registered: Registered,
    /// Of the account in use.
    password: Secret,
    /// A login that is not in use yet; nothing of it is saved.
    pending: Option<Login>,
    pub(crate) login: Form,
    pub(crate) address: Field,
    pub(crate) address_error: Option<Cow<'static, str>>,
    /// Dialled addresses, the newest first.
    dialled: Vec<String>,
    /// Index of the one in the address line.
    recalled: Option<usize>,
    pub(crate) contact: usize,
    /// Live calls, the oldest first.
    pub(crate) calls: Vec<Call>,
    /// The call of the call screen.
    pub(crate) shown: Option<CallNumber>,
    /// The ringing call that is shown over another page.
    pub(crate) front: Option<Front>,
    /// The last call that ended, for the call screen while there is no other.
    pub(crate) last: Option<Call>,
    /// Calls that are over, the newest first.
    pub(crate) history: VecDeque<PastCall>,
    /// The chosen line of the call list: live calls first, then the history.
    pub(crate) chosen: usize,
    pub(crate) network: NetworkFacts,
    pub(crate) mapping: Mapping,
    /// Failure of the sound card during the present calls.
    pub(crate) sound_failure: Option<Shown>,
    pub(crate) ladder: Ladder,
    /// Only on a machine without an operating system.
    pub(crate) log: Log,
    /// Time of the next bell, while somebody calls.
    ring_due: Option<Duration>,
}

impl Model {
    /// The pages at the start. Without an account they ask for one.
    pub fn new(settings: Settings, host: Host) -> Self {
        let asks = settings.account.is_none() && host.can_save();
        Self {
            screen: if asks { Screen::Account } else { Screen::Keypad },
            ladder: Ladder::new(host.limits()),
            host,
            overlay: None,
            notice: None,
            registered: Registered::No,
            password: Secret::default(),
            pending: None,
            login: login::form(&settings),
            settings,
            address: Field::default(),
            address_error: None,
            dialled: Vec::new(),
            recalled: None,
            contact: 0,
            calls: Vec::new(),
            shown: None,
            front: None,
            last: None,
            history: VecDeque::new(),
            chosen: 0,
            network: NetworkFacts::default(),
            mapping: Mapping::Unknown,
            sound_failure: None,
            log: Log::new(),
            ring_due: None,
        }
    }

    /// Handles an event; appends what the program has to do to `effects`.
    pub fn update(&mut self, now: Now, event: Event, effects: &mut Vec<Effect>) {
        if self.notice.as_ref().is_some_and(|notice| now.elapsed >= notice.until) {
            self.notice = None;
        }
        match event {
            Event::Key(key) => self.on_key(now, key, effects),
            Event::Paste(text) => self.on_paste(&text),
            Event::Tick => self.ring(now, effects),
            Event::Phone(event) => self.on_phone(now, event, effects),
            Event::NotSaved(why) => self.notify(now, Weight::Failed, &why),
        }
    }

    /// Signs in to the account, with a saved password.
    pub fn sign_in(&mut self, password: Secret, effects: &mut Vec<Effect>) {
        if let Some(account) = self.settings.account.clone() {
            self.password = password.clone();
            effects.push(Effect::SignIn { account, password, stun: self.settings.stun.clone() });
        }
    }

    /// Shows this account.
    pub fn set_account(&mut self, account: Account) {
        self.settings.account = Some(account);
    }

    /// Asks for the password of the account.
    pub fn ask_password(&mut self, why: &str) {
        self.login = login::form(&self.settings);
        self.login.error = Some(Shown::new(why, NOTICE_CHARS_MAX).to_string());
        self.screen = Screen::Account;
    }

    /// The history as text, newest first, at most [`PAST_CALLS_BYTES_MAX`] bytes.
    pub fn past_calls(&self) -> String {
        past::text_of(&self.history)
    }

    /// Sets the history, and returns the number of lines that are no calls and were left out.
    pub fn set_past_calls(&mut self, text: &str) -> usize {
        let (mut history, wrong) = past::calls_of(text, self.host.limits().past_calls);
        for past in &mut history {
            past.party = self.party(past.party.name.as_str(), &past.party.address);
        }
        self.history = history;
        wrong
    }

    fn keep_past_calls(&self, effects: &mut Vec<Effect>) {
        if self.host.can_save() {
            effects.push(Effect::KeepCalls);
        }
    }

    /// Adds a line to the log.
    pub fn on_log(&mut self, now: Now, level: Level, text: &str) {
        self.log.push(now.elapsed, level, text);
    }

    /// True while letters are text.
    pub fn takes_text(&self) -> bool {
        match &self.overlay {
            Some(Overlay::Transfer { .. } | Overlay::Contact { .. }) => true,
            Some(Overlay::Help { .. } | Overlay::Leave | Overlay::Forget { .. }) => false,
            None => {
                let screen = self.front.map_or(self.screen, |front| front.behind);
                matches!(screen, Screen::Keypad | Screen::Account)
            }
        }
    }

    /// Rings the bell every few seconds while somebody calls.
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
        self.front = None;
        if screen == Screen::Calls && self.screen != Screen::Calls {
            self.chosen = 0;
        }
        self.screen = screen;
    }

    fn notify(&mut self, now: Now, weight: Weight, text: &str) {
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

    /// The call of the call page: the one in front, else the chosen one, else any live one, else the last.
    pub(crate) fn shown_call(&self) -> Option<&Call> {
        let shown = self.front.map(|front| front.call).or(self.shown).and_then(|number| self.call(number));
        shown.or(self.calls.first()).or(self.last.as_ref())
    }

    /// The call that has rung here longest.
    pub(crate) fn ringing(&self) -> Option<&Call> {
        self.calls.iter().find(|call| call.rings_here())
    }

    /// A call whose peer requests a transfer.
    pub(crate) fn transfer_asked(&self) -> Option<&Call> {
        self.calls.iter().find(|call| call.asks_for.is_some())
    }

    /// Our own URI.
    pub(crate) fn own_uri(&self) -> Option<&str> {
        self.settings.account.as_ref().map(|account| account.uri.as_str())
    }

    /// The contact whose quick dial key is in the address line, alone.
    pub(crate) fn quick_dial(&self) -> Option<&super::settings::Contact> {
        let text = self.address.text();
        let key: u8 = Some(text.trim()).filter(|text| text.len() == 1)?.parse().ok()?;
        self.settings.contacts.iter().find(|contact| contact.quick == Some(key))
    }
}

/// A call in front of a page.
///
/// Its keys are Enter, Esc, and those that work everywhere. Any other key goes back to the page before and has its function
/// there, so that somebody who is about to type neither answers nor rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Front {
    pub(crate) call: CallNumber,
    /// The page before.
    pub(crate) behind: Screen,
}

/// Brings a call to the front, unless something is being typed, or another live call is shown.
fn bring(model: &mut Model, call: CallNumber) {
    let is_free = match (&model.overlay, model.screen) {
        (Some(Overlay::Help { .. }), _) => true,
        (
            Some(
                Overlay::Leave | Overlay::Transfer { .. } | Overlay::Contact { .. } | Overlay::Forget { .. },
            ),
            _,
        )
        | (None, Screen::Call) => false,
        (None, Screen::Keypad) => model.address.is_empty(),
        (None, Screen::Account) => model.login.entries == login::form(&model.settings).entries,
        (None, Screen::Contacts | Screen::Calls | Screen::Network | Screen::Ladder | Screen::Log) => true,
    };
    if is_free && model.call(call).is_some() {
        model.overlay = None;
        if model.screen != Screen::Call {
            model.front = Some(Front { call, behind: model.screen });
            model.screen = Screen::Call;
        }
    }
}

/// Goes back to the page before.
fn leave(model: &mut Model) {
    if let Some(front) = model.front.take() {
        model.screen = front.behind;
    }
}

/// The same if this call is in front.
fn leave_if(model: &mut Model, call: CallNumber) {
    if model.front.is_some_and(|front| front.call == call) {
        leave(model);
    }
}

/// Handles a key while a call is in front; true: it has no further function.
fn on_key(model: &mut Model, key: Key) -> bool {
    if model.front.is_none() || matches!(key, Key::Function(_) | Key::Tab | Key::BackTab | Key::Alt(_)) {
        return false;
    }
    leave(model);
    matches!(key, Key::Escape | Key::Enter)
}

#[cfg(test)]
mod front_tests {
    use crate::keys::Key;
    use crate::phone::model::{Event, Screen};
    use crate::phone::scene::Scene;
    use PhoneCommand as Do;
    use alloc::borrow::ToOwned;
    use alloc::string::String;
    use alloc::vec;
    use ringway_phone::{PhoneCommand, PhoneEvent, Side};

    #[test]
    fn a_call_comes_to_the_front_of_each_page_and_enter_answers_it() {
        for page in 2..=8 {
            for has_help in [false, true] {
                let mut scene = Scene::new();
                scene.press(Key::Function(page));
                if has_help {
                    scene.press(Key::Function(1));
                }
                let call = scene.bob_calls(1);
                assert!(scene.shows("rings here: Enter answers, "), "F{page}: {:#?}", scene.lines());
                assert!(scene.line(">>").contains("Enter answer"), "F{page}");
                scene.press(Key::Enter);
                assert_eq!(scene.commands(), [Do::Answer { call }], "F{page}");
                scene.phone(PhoneEvent::Answered { call, codec: "PCMU".to_owned() });
                scene.press(Key::Enter);
                assert_eq!((scene.model.screen, scene.commands()), (Screen::Call, vec![]), "answered once");
            }
        }
    }

    #[test]
    fn other_keys_go_back_to_the_page_before_and_have_their_function_there() {
        for page in [2, 3, 4, 6, 7, 8] {
            let mut scene = Scene::new();
            scene.press(Key::Function(page));
            let before = scene.model.screen;
            let call = scene.bob_calls(1);
            scene.press(Key::Escape);
            assert_eq!((scene.model.screen, scene.commands()), (before, vec![]), "F{page}");
            scene.phone(PhoneEvent::Ended { call, by: Side::Peer, status: 487, reason: String::new() });
            // Its caller gives up, or it is rejected.
            let call = scene.bob_calls(2);
            assert_eq!(scene.model.screen, Screen::Call);
            scene.phone(PhoneEvent::Ended { call, by: Side::Peer, status: 487, reason: String::new() });
            assert_eq!(scene.model.screen, before, "F{page}");
            let call = scene.bob_calls(3);
            scene.press(Key::Ctrl('r'));
            assert_eq!(
                (scene.model.screen, scene.commands()),
                (before, vec![Do::Reject { call }]),
                "F{page}"
            );
        }
        let mut scene = Scene::new();
        scene.bob_calls(1);
        assert!(scene.model.takes_text(), "letters are those of the keypad");
        scene.types("xar");
        assert_eq!((scene.model.address.text().as_str(), scene.commands()), ("xar", vec![]));
        let mut scene = Scene::new();
        scene.bob_calls(1);
        scene.event(Event::Paste("carol".to_owned()));
        assert_eq!(scene.model.address.text(), "carol");
    }

    #[test]
    fn a_call_does_not_come_to_the_front_of_what_is_typed_or_of_another_call() {
        let typing: [fn(&mut Scene); 4] = [
            |scene| scene.types("carol"),
            |scene| {
                scene.press(Key::Function(8));
                scene.types("x");
            },
            |scene| {
                scene.press(Key::Function(3));
                scene.press(Key::Char('n'));
            },
            |scene| {
                scene.talk_to(1, "sip:carol@example.org");
            },
        ];
        for prepare in typing {
            let mut scene = Scene::new();
            prepare(&mut scene);
            scene.commands();
            let before = (scene.model.screen, scene.model.overlay.clone(), scene.model.shown);
            scene.bob_calls(2);
            assert_eq!((scene.model.screen, scene.model.overlay.clone(), scene.model.shown), before);
            assert_eq!(scene.model.front, None);
        }
    }
}
