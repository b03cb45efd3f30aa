//! The account page's form.

use crate::phone::field::Field;
use crate::phone::form::{Entry, Form, choice};
use crate::phone::settings::Secret;
use crate::phone::settings::{Account, PasswordPlace, Registration, Settings, complete_uri, is_host_port};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec;
use ringway_sansio::Transport;

const ADDRESS: usize = 0;
const PASSWORD: usize = 1;
const SERVER: usize = 2;
const TRANSPORT: usize = 3;
const REGISTER: usize = 4;
const STUN: usize = 5;
const KEEP: usize = 6;

const TRANSPORTS: &[&str] = &[Transport::Udp.name(), Transport::Tcp.name()];
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
        transport: Transport::from_name(&form.text(TRANSPORT)).unwrap_or(Transport::DEFAULT),
        registration: if form.text(REGISTER) == REGISTERS[0] {
            Registration::Wanted
        } else {
            Registration::Unwanted
        },
        password,
    };
    Some(Login { account, stun: host(STUN), password: Secret(form.text(PASSWORD)) })
}
