//! Forms: of the account page, and of a contact.

use super::call::REASON_CHARS_MAX;
use super::{Effect, Host, Model, Registered, Screen, Weight};
use crate::phone::Now;
use crate::phone::form::{Entry, Field, Form, choice};
use crate::phone::settings::{
    Account, Contact, PasswordPlace, Registration, Secret, Settings, complete_uri, is_host_port, is_sips,
};
use crate::text::Shown;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use ringway_sansio::Transport;

const ADDRESS: usize = 0;
const PASSWORD: usize = 1;
const SERVER: usize = 2;
const TRANSPORT: usize = 3;
const REGISTER: usize = 4;
const STUN: usize = 5;
const KEEP: usize = 6;

const TRANSPORTS: &[&str] = &[Transport::Udp.name(), Transport::Tcp.name(), Transport::Tls.name()];
const REGISTERS: &[&str] = &["yes", "no, for direct calls"];
const KEEPS: &[&str] = &[
    "in the kernel's keyring, until this machine restarts",
    "in phone.password, mode 600",
    "nowhere, ask at each start",
];
/// The file of the second of them, beside `phone.toml`.
const PASSWORD_FILE: &str = "phone.password";

/// The form, filled from the settings.
pub(super) fn form(settings: &Settings) -> Form {
    let account = settings.account.as_ref();
    let text = |text: Option<&str>| Entry::Text(Field::new(text.unwrap_or_default()));
    let transport = account.map_or(Transport::DEFAULT, |account| account.transport);
    let register = match account.map(|account| account.registration) {
        Some(Registration::Unwanted) => REGISTERS[1],
        Some(Registration::Wanted) | None => REGISTERS[0],
    };
    let keep = match account.map(|account| &account.password) {
        Some(PasswordPlace::Keyring) | None => KEEPS[0],
        Some(PasswordPlace::File(_)) => KEEPS[1],
        Some(PasswordPlace::Ask) => KEEPS[2],
    };
    let mut form = Form::new(vec![
        ("Address", text(account.map(|account| account.uri.as_str()))),
        ("Password", Entry::Hidden(Field::default())),
        ("Server", text(account.and_then(|account| account.server.as_deref()))),
        ("Transport", choice(TRANSPORTS, transport.name())),
        ("Register", choice(REGISTERS, register)),
        ("STUN server", text(settings.stun.as_deref())),
        ("Keep password", choice(KEEPS, keep)),
    ]);
    if account.is_some() {
        form.focus = PASSWORD;
    }
    form
}

impl Model {
    /// Signs in to the account of the form. It is saved once that succeeded. An empty password is the one that the same
    /// account had.
    pub(super) fn try_account(&mut self, now: Now, mut login: Login, effects: &mut Vec<Effect>) {
        let before = self.settings.account.as_ref();
        let is_same = before.is_some_and(|before| before.uri == login.account.uri);
        if is_same && login.password == Secret::default() {
            login.password = self.password.clone();
        }
        effects.push(Effect::SignIn {
            account: login.account.clone(),
            password: login.password.clone(),
            stun: login.stun.clone(),
        });
        self.pending = Some(login);
        self.notify(now, Weight::Note, "signing in…");
    }

    /// Saves the account that is in use now, if it is a new one. Its events come after this.
    pub fn on_signed_in(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.registered = Registered::No;
        let Some(Login { account, stun, password }) = self.pending.take() else { return };
        let (uri, place) = (account.uri.clone(), account.password.clone());
        self.settings.stun = stun;
        let before = self.settings.account.replace(account);
        effects.push(Effect::Save(Box::new(self.settings.clone())));
        if let Some(before) = before.filter(|before| before.uri != uri || before.password != place) {
            effects.push(Effect::ForgetPassword { place: before.password, uri: before.uri });
        }
        if password != Secret::default() {
            effects.push(Effect::KeepPassword { place, uri, password: password.clone() });
        }
        self.password = password;
        self.login = form(&self.settings);
        if self.screen == Screen::Account {
            self.go(Screen::Keypad);
        }
        if let Host::System { file } = &self.host {
            let text = format!("saved in {file}");
            self.notify(now, Weight::Note, &text);
        }
    }

    /// Shows why an account cannot be used, such as for a server that cannot be resolved. A new one is not saved, and its form
    /// is shown again; the former account, if there was one, is still in use.
    pub fn on_not_signed_in(&mut self, now: Now, why: &str) {
        self.notify(now, Weight::Failed, why);
        let reason = Shown::new(why, REASON_CHARS_MAX);
        if self.pending.take().is_some() {
            self.login.error = Some(format!("nothing is saved: {reason}"));
            self.go(Screen::Account);
        } else {
            self.registered = Registered::Failed { reason, retry_at: None };
        }
    }

    /// Keeps the password in a file instead of the keyring.
    pub fn on_keyring_failed(&mut self, now: Now, why: &str, effects: &mut Vec<Effect>) {
        let Some(account) = &mut self.settings.account else { return };
        let place = PasswordPlace::File(PASSWORD_FILE.to_owned());
        account.password = place.clone();
        let (uri, password) = (account.uri.clone(), self.password.clone());
        effects.push(Effect::Save(Box::new(self.settings.clone())));
        effects.push(Effect::KeepPassword { place, uri, password });
        self.login = form(&self.settings);
        let text = format!("the password is in the file {PASSWORD_FILE} (mode 600): {why}");
        self.notify(now, Weight::Careful, &text);
    }
}

/// The values of a valid form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) account: Account,
    pub(super) stun: Option<String>,
    pub(super) password: Secret,
}

/// Reads the form; `None`: a value is invalid, and the form has the error.
pub(super) fn read(form: &mut Form, settings: &Settings) -> Option<Login> {
    form.error = None;
    let uri = match complete_uri(&form.text(ADDRESS), None) {
        Ok(uri) if uri.contains('@') => uri,
        Err(why) if form.text(ADDRESS).contains('@') => {
            form.complain(ADDRESS, why);
            return None;
        }
        Ok(_) | Err(_) => {
            form.complain(ADDRESS, "this is no SIP address; write for example alice@example.org");
            return None;
        }
    };
    for index in [SERVER, STUN] {
        let text = form.text(index);
        if !text.trim().is_empty() && !is_host_port(text.trim()) {
            form.complain(index, "this is no host; write HOST or HOST:PORT, or leave it empty");
            return None;
        }
    }
    let transport = Transport::from_name(&form.text(TRANSPORT)).unwrap_or(Transport::DEFAULT);
    if is_sips(&uri) && transport != Transport::Tls {
        form.complain(TRANSPORT, "a sips: address needs tls; choose it, or write the sip: address");
        return None;
    }
    let host = |index| Some(form.text(index).trim().to_owned()).filter(|text| !text.is_empty());
    let before = settings.account.as_ref();
    let password = match (form.text(KEEP), before.map(|account| &account.password)) {
        (keep, _) if keep == KEEPS[0] => PasswordPlace::Keyring,
        // A file that the person chose by hand stays chosen.
        (keep, Some(place @ PasswordPlace::File(_))) if keep == KEEPS[1] => place.clone(),
        (keep, _) if keep == KEEPS[1] => PasswordPlace::File(PASSWORD_FILE.to_owned()),
        _ => PasswordPlace::Ask,
    };
    // Another address has another user, and perhaps another realm.
    let same = before.filter(|account| account.uri == uri);
    let account = Account {
        name: before.map(|account| account.name.clone()).unwrap_or_default(),
        auth_user: same.and_then(|account| account.auth_user.clone()),
        realm: same.and_then(|account| account.realm.clone()),
        uri,
        server: host(SERVER),
        transport,
        registration: if form.text(REGISTER) == REGISTERS[0] {
            Registration::Wanted
        } else {
            Registration::Unwanted
        },
        password,
    };
    Some(Login { account, stun: host(STUN), password: Secret(form.text(PASSWORD)) })
}

const NAME: usize = 0;
const CONTACT_ADDRESS: usize = 1;
const QUICK: usize = 2;
const QUICKS: &[&str] = &["none", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
const NAME_CHARS_MAX: usize = 128;

/// The form for a contact; `None`: a new one, perhaps with a known address.
pub(super) fn contact_form(contact: Option<&Contact>, address: &str) -> Form {
    let quick =
        contact.and_then(|contact| contact.quick).map_or("none".to_owned(), |quick| quick.to_string());
    Form::new(vec![
        ("Name", Entry::Text(Field::new(contact.map_or("", |contact| &contact.name)))),
        ("Address", Entry::Text(Field::new(contact.map_or(address, |contact| &contact.uri)))),
        ("Quick dial", choice(QUICKS, &quick)),
    ])
}

/// Reads the form; `None`: a value is invalid, and the form has the error.
pub(super) fn read_contact(form: &mut Form, own: Option<&str>) -> Option<Contact> {
    form.error = None;
    let name = form.text(NAME).trim().to_owned();
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
        form.complain(NAME, "give a name of 1 to 128 characters");
        return None;
    }
    match complete_uri(&form.text(CONTACT_ADDRESS), own) {
        Ok(uri) => Some(Contact { name, uri, quick: form.text(QUICK).parse().ok() }),
        Err(why) => {
            form.complain(CONTACT_ADDRESS, why);
            None
        }
    }
}

/// Replaces the contact at index `at`, or appends it. A quick dial key that another has becomes its.
pub(super) fn put(contacts: &mut Vec<Contact>, at: Option<usize>, contact: Contact) {
    for other in contacts.iter_mut() {
        if contact.quick.is_some() && other.quick == contact.quick {
            other.quick = None;
        }
    }
    match at.and_then(|at| contacts.get_mut(at)) {
        Some(place) => *place = contact,
        None => contacts.push(contact),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Key;
    use crate::phone::scene::Scene;

    #[test]
    fn the_first_start_asks_who_one_is_and_saves_it() {
        let mut scene = Scene::with(Settings::default());
        assert_eq!(scene.model.screen, Screen::Account);
        scene.types("alice@example.org");
        scene.press(Key::Down);
        scene.types("secret?");
        scene.press(Key::Down);
        scene.types("192.0.2.10:5060");
        scene.press(Key::Down);
        scene.press(Key::Right);
        scene.press(Key::Enter);
        let tried = scene.effects();
        let [Effect::SignIn { account, .. }] = tried.as_slice() else { panic!("{tried:?}") };
        assert_eq!(scene.model.screen, Screen::Account, "it is saved once it works");
        scene.on_model(Model::on_signed_in);
        let effects = scene.effects();
        let [Effect::Save(settings), Effect::KeepPassword { place, uri, password }] = effects.as_slice()
        else {
            panic!("{effects:?}");
        };
        assert_eq!(settings.account.as_ref(), Some(account));
        assert_eq!((uri.as_str(), password), ("sip:alice@example.org", &Secret("secret?".to_owned())));
        assert_eq!((place, &account.password), (&PasswordPlace::Keyring, &PasswordPlace::Keyring));
        assert_eq!(account.server.as_deref(), Some("192.0.2.10:5060"));
        assert_eq!(
            (account.transport, account.registration),
            (ringway_sansio::Transport::Tcp, Registration::Wanted)
        );
        assert_eq!(scene.model.screen, Screen::Keypad);
        assert!(!format!("{tried:?} {effects:?}").contains("secret?"), "a password is never printed");
    }

    #[test]
    fn changing_the_account_keeps_the_password_unless_it_is_another_one() {
        let mut scene = Scene::new();
        let mut effects = Vec::new();
        let kept = Secret("kept".to_owned());
        scene.model.sign_in(kept.clone(), &mut effects);
        assert!(matches!(effects.as_slice(), [Effect::SignIn { password, .. }] if *password == kept));
        scene.press(Key::Function(8));
        // The last field: from asking to the file.
        scene.press(Key::Up);
        scene.press(Key::BackTab);
        scene.press(Key::Left);
        scene.press(Key::Enter);
        scene.on_model(Model::on_signed_in);
        let effects = scene.effects();
        let [
            _,
            _,
            Effect::ForgetPassword { place: PasswordPlace::Ask, .. },
            Effect::KeepPassword { place, password, .. },
        ] = effects.as_slice()
        else {
            panic!("{effects:?}");
        };
        assert_eq!((place.text().as_str(), password), ("file:phone.password", &kept));
        // Another account has another password.
        scene.press(Key::Function(8));
        scene.press(Key::Up);
        scene.press(Key::Ctrl('u'));
        scene.types("dan@example.org");
        scene.press(Key::Enter);
        scene.on_model(Model::on_signed_in);
        let effects = scene.effects();
        let [Effect::SignIn { account, password, .. }, _, Effect::ForgetPassword { uri, .. }] =
            effects.as_slice()
        else {
            panic!("{effects:?}");
        };
        assert_eq!((uri.as_str(), account.uri.as_str()), ("sip:alice@example.org", "sip:dan@example.org"));
        assert_eq!(password, &Secret::default());
    }

    #[test]
    fn a_wrong_account_is_said_at_its_field() {
        let mut scene = Scene::with(Settings::default());
        scene.types("not an address");
        scene.press(Key::Enter);
        assert!(scene.model.login.error.as_ref().unwrap().contains("alice@example.org"));
        assert_eq!((scene.model.login.focus, scene.effects()), (0, vec![]));
        scene.press(Key::Ctrl('u'));
        scene.types("sip:alice@example.org");
        scene.press(Key::Down);
        scene.press(Key::Down);
        scene.types("host:99999");
        scene.press(Key::Up);
        scene.press(Key::Enter);
        assert_eq!((scene.model.login.focus, scene.effects()), (2, vec![]));
    }

    #[test]
    fn a_sips_address_needs_tls() {
        let mut scene = Scene::with(Settings::default());
        scene.types("sips:alice@example.org");
        scene.press(Key::Enter);
        assert!(scene.model.login.error.as_ref().unwrap().contains("needs tls"));
        assert_eq!((scene.model.login.focus, scene.effects()), (TRANSPORT, vec![]));
        scene.press(Key::Left);
        scene.press(Key::Enter);
        let effects = scene.effects();
        let [Effect::SignIn { account, .. }] = effects.as_slice() else { panic!("{effects:?}") };
        assert_eq!((account.uri.as_str(), account.transport), ("sips:alice@example.org", Transport::Tls));
    }

    #[test]
    fn an_account_that_cannot_be_used_is_not_saved_and_the_old_one_stays() {
        let mut scene = Scene::new();
        let before = scene.model.settings.clone();
        scene.press(Key::Function(8));
        for key in [Key::Down, Key::Ctrl('u')] {
            scene.press(key);
        }
        scene.types("nowhere.invalid");
        scene.press(Key::Enter);
        let tried = scene.effects();
        let [Effect::SignIn { account, .. }] = tried.as_slice() else { panic!("{tried:?}") };
        assert_eq!(account.server.as_deref(), Some("nowhere.invalid"));
        scene.press(Key::Function(2));
        scene.on_model(|model, now, _| {
            model.on_not_signed_in(now, "cannot resolve nowhere.invalid; check the name")
        });
        assert_eq!((scene.effects(), &scene.model.settings), (vec![], &before));
        assert!(scene.shows("! nothing is saved: cannot resolve nowhere.invalid; check the name"));
        assert_eq!(scene.model.login.text(2), "nowhere.invalid", "the form keeps what was typed");
        // At the start there is nothing to be saved.
        let mut scene = Scene::new();
        scene.on_model(|model, now, _| model.on_not_signed_in(now, "cannot resolve nowhere.invalid"));
        assert!(scene.line("Ringway").contains("NOT REGISTERED: cannot resolve"), "{:#?}", scene.lines());
    }

    #[test]
    fn a_password_that_the_keyring_does_not_keep_goes_into_a_file_and_that_is_said() {
        let mut scene = Scene::new();
        let secret = Secret("kept".to_owned());
        scene.model.sign_in(secret.clone(), &mut Vec::new());
        scene.on_model(|model, now, effects| {
            model.on_keyring_failed(now, "the stored password cannot be read back", effects);
        });
        let effects = scene.effects();
        let [Effect::Save(settings), Effect::KeepPassword { place, password, .. }] = effects.as_slice()
        else {
            panic!("{effects:?}");
        };
        assert_eq!(
            (settings.account.as_ref().map(|account| &account.password), password),
            (Some(place), &secret)
        );
        assert_eq!(place, &PasswordPlace::File("phone.password".to_owned()));
        assert!(scene.shows("careful: the password is in the file phone.password (mode 600): the stored"));
    }
}
