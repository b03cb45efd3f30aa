//! The keys of `phone.toml`, each with its default and its limits.

use super::Settings;
use crate::config::{ConfigError, Reader, Section, read_document};
use crate::failure::Failure;
use crate::phone::{self, args};
use ringway_audio::pulse::Names;
use ringway_phone::SrtpPolicy;
use ringway_sansio::Transport;
use ringway_ui::phone::{Account, Contact, PasswordPlace, Registration, complete_uri, is_host_port, is_sips};
use std::ops::RangeInclusive;
use std::path::Path;

/// More would not fit a screen, nor a memory.
const CONTACTS_MAX: usize = 10_000;
const TEXT_CHARS_MAX: usize = 255;
/// Value of `play` for the microphone, which is the default; silence where there is no sound card.
pub(crate) const MICROPHONE: &str = "microphone";

pub(super) fn read(text: &str, file: &Path) -> Result<Settings, Vec<ConfigError>> {
    let name = file.display().to_string();
    read_document(text, Some(&name), |reader, top| {
        let mut settings = Settings {
            pages: ringway_ui::phone::Settings { account: account(reader, top), ..Default::default() },
            play: String::new(),
            record: None,
            replay_window: 0,
            audio: None,
            bind: None,
            port_row: 0,
            instance: None,
            ca: None,
            certificate: None,
            private_key: None,
        };
        call(reader, top, &mut settings);
        settings.audio = audio(reader, top);
        network(reader, top, &mut settings);
        tls(reader, top, &mut settings);
        settings.pages.contacts = contacts(reader, top);
        settings
    })
}

fn account(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> Option<Account> {
    let at = top.place("account");
    let mut section = top.section(reader, "account");
    let uri = section.text(reader, "uri");
    if let (Some(at), None) = (at, uri) {
        reader.error(at, section.path("uri"), "is missing; write who you are, as \"sip:alice@example.org\"");
    }
    let checked = uri.map(|(text, at)| match complete_uri(text, None) {
        Ok(uri) if uri.contains('@') => uri,
        Ok(_) => {
            reader.error(
                at,
                section.path("uri"),
                format!("{text:?} has no user; write \"sip:alice@example.org\""),
            );
            text.to_owned()
        }
        Err(why) => {
            reader.error(at, section.path("uri"), format!("{text:?}: {why}"));
            text.to_owned()
        }
    });
    let transports = args::TRANSPORTS.map(|transport| (transport.name(), transport));
    let registers = section.switch(reader, "register", true);
    let is_sips = checked.as_deref().is_some_and(is_sips);
    let default = if is_sips { Transport::Tls } else { Transport::DEFAULT };
    let transport = word(reader, &mut section, "transport", default, &transports, &["ws", "wss"]);
    if is_sips && transport != Transport::Tls {
        let at = section.place("transport").unwrap_or_default();
        let message = "a sips: address needs \"tls\"; leave it out, or use the sip: address";
        reader.error(at, section.path("transport"), message);
    }
    let account = Account {
        uri: checked.clone().unwrap_or_default(),
        name: plain(reader, &mut section, "name").unwrap_or_default(),
        auth_user: plain(reader, &mut section, "auth_user").filter(|text| !text.is_empty()),
        realm: accepted(reader, &mut section, "realm", args::realm),
        server: host(reader, &mut section, "server"),
        transport,
        registration: if registers { Registration::Wanted } else { Registration::Unwanted },
        password: password(reader, &mut section),
    };
    section.finish(reader);
    checked.map(|_| account)
}

/// Text that the option of the same name accepts.
fn accepted(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    key: &'static str,
    check: impl Fn(&str) -> Result<String, String>,
) -> Option<String> {
    let (text, at) = section.text(reader, key)?;
    match check(text) {
        Ok(text) => Some(text),
        Err(why) => {
            reader.error(at, section.path(key), why);
            None
        }
    }
}

fn password(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> PasswordPlace {
    let Some((text, at)) = section.text(reader, "password") else { return PasswordPlace::Ask };
    PasswordPlace::from_text(text).unwrap_or_else(|| {
        // The text may be the password itself: it is not repeated.
        let message = "is not the password but where it is: give \"keyring\", \"file:NAME\" or \"ask\"";
        reader.error(at, section.path("password"), message);
        PasswordPlace::Ask
    })
}

fn call(reader: &mut Reader<'_>, top: &mut Section<'_, '_>, settings: &mut Settings) {
    let mut section = top.section(reader, "call");
    let words = SrtpPolicy::ALL.map(|srtp| (srtp.name(), srtp));
    settings.pages.srtp = word(reader, &mut section, "srtp", SrtpPolicy::Best, &words, &[]);
    settings.play = plain(reader, &mut section, "play").unwrap_or_else(|| MICROPHONE.to_owned());
    if let (Some(at), Err(why)) = (section.place("play"), playable(&settings.play)) {
        reader.error(at, section.path("play"), why);
    }
    settings.record = plain(reader, &mut section, "record").filter(|text| !text.is_empty()).map(Into::into);
    settings.replay_window =
        number(reader, &mut section, "replay_window", args::REPLAY_WINDOW_DEFAULT, &args::REPLAY_WINDOW);
    section.finish(reader);
}

/// Checks what `--play` would refuse; `Err` is that, without the option's name.
fn playable(play: &str) -> Result<(), String> {
    if play == MICROPHONE {
        return Ok(());
    }
    let refused = |failure: Failure| failure.lines().join("; ").trim_start_matches("--play ").to_owned();
    phone::settings::source(play).map(drop).map_err(refused)
}

fn audio(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> Option<Names> {
    let mut section = top.section(reader, "audio");
    let is_enabled = section.switch(reader, "enabled", true);
    let mut device = |key| plain(reader, &mut section, key).filter(|text| !text.is_empty());
    let names = Names { microphone: device("in"), loudspeaker: device("out") };
    section.finish(reader);
    is_enabled.then_some(names)
}

fn network(reader: &mut Reader<'_>, top: &mut Section<'_, '_>, settings: &mut Settings) {
    let mut section = top.section(reader, "network");
    if let Some((text, at)) = section.text(reader, "bind") {
        match text.parse() {
            Ok(address) => settings.bind = Some(address),
            Err(_) => {
                let message = format!("{text:?} is no address; write ADDRESS:PORT, as \"0.0.0.0:5060\"");
                reader.error(at, section.path("bind"), message);
            }
        }
    }
    settings.pages.stun = host(reader, &mut section, "stun");
    settings.port_row = number(reader, &mut section, "port_row", 0, &args::PORT_ROW);
    settings.instance = accepted(reader, &mut section, "instance", args::instance);
    section.finish(reader);
}

fn tls(reader: &mut Reader<'_>, top: &mut Section<'_, '_>, settings: &mut Settings) {
    let mut section = top.section(reader, "tls");
    let mut file = |key| plain(reader, &mut section, key).filter(|text| !text.is_empty()).map(Into::into);
    settings.ca = file("ca");
    settings.certificate = file("certificate");
    settings.private_key = file("private_key");
    if settings.certificate.is_some() != settings.private_key.is_some() {
        let key = if settings.certificate.is_some() { "private_key" } else { "certificate" };
        let at = top.place("tls").unwrap_or_default();
        reader.error(
            at,
            section.path(key),
            "is missing: a certificate and its private key are given together",
        );
    }
    section.finish(reader);
}

fn number<T: Copy + Into<u32> + TryFrom<u32>>(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    key: &'static str,
    default: T,
    range: &RangeInclusive<T>,
) -> T {
    let within = (*range.start()).into()..=(*range.end()).into();
    T::try_from(section.number(reader, key, default.into(), within)).unwrap_or(default)
}

fn contacts(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> Vec<Contact> {
    let mut contacts: Vec<Contact> = Vec::new();
    let sections = top.sections(reader, "contact");
    if sections.len() > CONTACTS_MAX {
        let at = top.place("contact").unwrap_or_default();
        reader.error(at, "[[contact]]", format!("more than {CONTACTS_MAX} contacts; take some out"));
        return contacts;
    }
    for (mut section, at) in sections {
        let name = plain(reader, &mut section, "name");
        let uri = section.text(reader, "uri");
        for (key, is_there) in [("name", name.is_some()), ("uri", uri.is_some())] {
            if !is_there {
                reader.error(at, section.path(key), "is missing; a contact has a name and a uri");
            }
        }
        let uri = uri.map(|(text, at)| {
            complete_uri(text, None).unwrap_or_else(|why| {
                reader.error(at, section.path("uri"), format!("{text:?}: {why}"));
                String::new()
            })
        });
        let quick = section.number(reader, "quick", 0, 1..=9);
        let quick = u8::try_from(quick).ok().filter(|quick| *quick != 0);
        if quick.is_some() && contacts.iter().any(|other| other.quick == quick) {
            let at = section.place("quick").unwrap_or(at);
            reader.error(at, section.path("quick"), "another contact has this key; give each its own");
        }
        section.finish(reader);
        if let (Some(name), Some(uri)) = (name, uri) {
            contacts.push(Contact { name, uri, quick });
        }
    }
    contacts
}

/// One of a few words, of which some are known and not there yet.
fn word<T: Copy>(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    key: &'static str,
    default: T,
    words: &[(&str, T)],
    later: &[&str],
) -> T {
    let Some((text, at)) = section.text(reader, key) else { return default };
    if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == text) {
        return *meaning;
    }
    let wrong = if later.contains(&text) { "is not supported in this build" } else { "is unknown" };
    let known: Vec<_> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
    reader.error(at, section.path(key), format!("{text:?} {wrong}; give one of {}", known.join(", ")));
    default
}

/// A short text without control characters.
fn plain(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, key: &'static str) -> Option<String> {
    let (text, at) = section.text(reader, key)?;
    if text.chars().count() > TEXT_CHARS_MAX || text.contains(char::is_control) {
        reader.error(at, section.path(key), "give at most 255 characters, no control characters");
    }
    Some(text.to_owned())
}

/// `HOST[:PORT]`; empty is none.
fn host(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, key: &'static str) -> Option<String> {
    let (text, at) = section.text(reader, key)?;
    if !text.is_empty() && !is_host_port(text) {
        let message = format!("{text:?} is no host; write HOST or HOST:PORT, as \"192.0.2.10:5060\"");
        reader.error(at, section.path(key), message);
    }
    (!text.is_empty()).then(|| text.to_owned())
}
