//! `phone.toml`: who we are, how calls are made, whom we know.
//!
//! Does: reads it as `ringway.toml` is read (an unknown key is an error with its line), writes account and contacts back
//! without touching the rest, keeps the password where the account says.
//!
//! Start reading at [`Settings::load`].

mod password;
mod read;
mod save;
#[cfg(test)]
mod tests;

pub(crate) use password::PasswordPlace;
pub(crate) use read::MICROPHONE;

use crate::config::{Config, ConfigError};
use crate::failure::Failure;
use ringway_audio::pulse::Names;
use ringway_phone::SrtpPolicy;
use ringway_sansio::Transport;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// What is read, and made, without `--config`.
pub(crate) const DEFAULT_FILE: &str = "phone.toml";

/// A checked `phone.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `None`: the login screen asks.
    pub(crate) account: Option<Account>,
    pub(crate) call: CallSettings,
    /// `[audio]`: the chosen devices; `None`: no sound card is used.
    pub(crate) audio: Option<Names>,
    pub(crate) network: NetworkSettings,
    pub(crate) contacts: Vec<Contact>,
}

/// `[account]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// `sip:alice@example.org`
    pub(crate) uri: String,
    /// What others see; may be empty.
    pub(crate) name: String,
    /// The user name for digest; `None`: the URI's.
    pub(crate) auth_user: Option<String>,
    /// The one realm whose challenges are answered; `None`: the one that the server asks for at the registration.
    pub(crate) realm: Option<String>,
    /// `HOST[:PORT]` that everything goes through; `None`: to the host of each URI.
    pub(crate) server: Option<String>,
    pub(crate) transport: Transport,
    pub(crate) registration: Registration,
    pub(crate) password: PasswordPlace,
}

/// Whether the phone tells a server where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registration {
    Wanted,
    /// For calls without a server.
    Unwanted,
}

/// `[call]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallSettings {
    pub(crate) srtp: SrtpPolicy,
    /// Sound that the other side hears: `microphone`, `silence`, `speech`, `tone:HZ` or a WAV file.
    pub(crate) play: String,
    /// The folder that what we hear is written to, a WAV file for each call; `None`: nowhere.
    pub(crate) record: Option<PathBuf>,
    /// Size of the replay window of SRTP, in packets.
    pub(crate) replay_window: u16,
}

/// `[network]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NetworkSettings {
    /// Where SIP is received; port 0 takes a free one. `None`: the address towards the server, any port; without a
    /// server, port 5060.
    pub(crate) bind: Option<SocketAddr>,
    /// `HOST[:PORT]`; `None`: no STUN.
    pub(crate) stun: Option<String>,
    /// Consecutive ports of the other side that are tried while nobody is heard.
    pub(crate) port_row: u8,
}

/// `[[contact]]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contact {
    pub(crate) name: String,
    pub(crate) uri: String,
    /// Its quick dial key, 1 to 9; no two have the same.
    pub(crate) quick: Option<u8>,
}

impl Settings {
    /// Reads `file`. A file that is not there gives the defaults: the login screen will make it.
    pub(crate) fn load(file: &Path) -> Result<Self, Failure> {
        let text = if file.exists() { Config::read(file)? } else { String::new() };
        Self::parse(&text, file)
            .map_err(|errors| Failure::configuration(errors.iter().map(ConfigError::to_string).collect()))
    }

    /// Reads text that stands in `file`. All errors are given, by line.
    pub(crate) fn parse(text: &str, file: &Path) -> Result<Self, Vec<ConfigError>> {
        read::read(text, file)
    }

    /// Writes account and contacts to `file`; everything else in it, comments too, stays as it is. The error is one line.
    pub(crate) fn save(&self, file: &Path) -> Result<(), String> {
        save::save(self, file)
    }
}

/// `text` as a SIP URI that can be called: `sip:…` as it is; `bob` and numbers at the host of `own`.
pub(crate) fn complete_uri(text: &str, own: Option<&str>) -> Result<String, &'static str> {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    if lower.starts_with("sips:") {
        return Err("sips: needs TLS, which this version does not have yet; call the sip: address");
    }
    if lower.starts_with("tel:") {
        return Err("tel: cannot be called; write the number alone, or sip:NUMBER@HOST");
    }
    let uri = if lower.starts_with("sip:") {
        text.to_owned()
    } else if text.contains('@') {
        format!("sip:{text}")
    } else {
        let host =
            own.and_then(|own| own.rsplit_once('@')).and_then(|(_, host)| host.split([';', '?']).next());
        let host = host.ok_or("say where: NAME@HOST")?;
        let is_number = text.chars().all(|c| c.is_ascii_digit() || "+-*#() ./".contains(c));
        let user = if is_number { text.replace(['-', ' ', '(', ')', '.', '/'], "") } else { text.to_owned() };
        // In a URI the hash key is escaped (RFC 3261 §25.1: it is no `user-unreserved`).
        format!("sip:{}@{host}", user.replace('#', "%23"))
    };
    let example = "this is no SIP address; write for example bob@example.org or sip:bob@192.0.2.7:5060";
    match ringway_sip::Uri::parse(uri.as_bytes()) {
        Ok(parsed)
            if parsed.scheme() == ringway_sip::Scheme::Sip && parsed.user().is_none_or(|u| !u.is_empty()) =>
        {
            Ok(uri)
        }
        Ok(_) | Err(_) => Err(example),
    }
}

/// True for `HOST` or `HOST:PORT`, an IPv6 address in brackets.
pub(crate) fn is_host_port(text: &str) -> bool {
    !text.contains(['@', ';', '?', ' ', '\t'])
        && ringway_sip::Uri::parse(format!("sip:{text}").as_bytes()).is_ok_and(|uri| uri.port() != Some(0))
}
