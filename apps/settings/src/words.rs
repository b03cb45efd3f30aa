//! Words of a kernel's command line: `key=value`, separated by blanks; double quotes protect blanks.

use crate::listeners::{EntryFault, domain, port_number};
use crate::network::{addressing, host};
use crate::sections::{MODES, algorithm, check_realm};
use crate::{Addressing, ConfigError};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use ringway_server::{Algorithm, Mode};

/// Settings of a command line. `None`: not given.
#[derive(Debug, Default)]
pub(crate) struct Words {
    pub(crate) addressing: Option<Addressing>,
    pub(crate) tftp: Option<Ipv4Addr>,
    pub(crate) users: Option<FileWord>,
    pub(crate) config: Option<FileWord>,
    pub(crate) domains: Option<Vec<String>>,
    pub(crate) mode: Option<Mode>,
    pub(crate) stateful: Option<bool>,
    pub(crate) record_route: Option<bool>,
    pub(crate) auth: Option<bool>,
    pub(crate) realm: Option<String>,
    pub(crate) algorithms: Option<Vec<Algorithm>>,
    pub(crate) udp: Option<PortWord>,
    pub(crate) tcp: Option<PortWord>,
    pub(crate) tls: Option<PortWord>,
    /// Words that are not recognised, as they were written.
    pub(crate) passed_over: Vec<String>,
    /// They go with an address that may come after them.
    gateway: Option<Ipv4Addr>,
    name_servers: Option<Vec<Ipv4Addr>>,
    errors: Vec<ConfigError>,
}

/// A file, or that there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileWord {
    Nothing,
    Named(String),
}

impl FileWord {
    pub(crate) fn name(self) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::Named(name) => Some(name),
        }
    }
}

/// Ports of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortWord {
    Off,
    Number(u16),
}

impl Words {
    /// Reads a command line. All errors are returned.
    pub(crate) fn read(command_line: &str) -> (Self, Vec<ConfigError>) {
        let mut words = Self::default();
        for word in split_words(command_line) {
            words.take(&word);
        }
        words.complete_addressing();
        let errors = core::mem::take(&mut words.errors);
        (words, errors)
    }

    fn take(&mut self, word: &str) {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let Some((_, give)) = WORDS.iter().find(|(known, _)| *known == name) else {
            self.passed_over.push(visible(word));
            return;
        };
        if let Err(why) = self.set(name, value) {
            self.error(word, format!("{why}; give {give}"));
        }
    }

    /// Reads a word that is one of [`WORDS`].
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "ip" => once(&mut self.addressing, addressing(value)?),
            "gateway" => once(&mut self.gateway, host_of(value)?),
            "dns" => once(&mut self.name_servers, value.split(',').map(host_of).collect::<Result<_, _>>()?),
            "tftp" => once(&mut self.tftp, host_of(value)?),
            "users" => once(&mut self.users, file(value)?),
            "config" => once(&mut self.config, file(value)?),
            "domains" => once(&mut self.domains, list(value, "domain", domain)?),
            "mode" => {
                let mode = MODES.iter().find(|(word, _)| *word == value);
                once(&mut self.mode, mode.ok_or_else(|| format!("{value:?} is unknown"))?.1)
            }
            "stateful" => once(&mut self.stateful, switch(value)?),
            "record_route" => once(&mut self.record_route, switch(value)?),
            "auth" => once(&mut self.auth, switch(value)?),
            "realm" => {
                check_realm(value).map_err(|_| format!("{value:?} cannot be a realm"))?;
                once(&mut self.realm, value.to_owned())
            }
            "algorithms" => once(&mut self.algorithms, list(value, "algorithm", algorithm)?),
            "udp" => once(&mut self.udp, port(value)?),
            "tcp" => once(&mut self.tcp, port(value)?),
            "tls" => once(&mut self.tls, port(value)?),
            _ => Ok(()),
        }
    }

    /// Gives gateway and name servers to the address that they are for.
    fn complete_addressing(&mut self) {
        let (gateway, name_servers) = (self.gateway.take(), self.name_servers.take());
        if self.errors.iter().any(|error| error.key.starts_with("ip=") || error.key == "ip") {
            return;
        }
        let mut by_dhcp = Addressing::Dhcp;
        let addressing = self.addressing.as_mut().unwrap_or(&mut by_dhcp);
        let of_gateway = gateway.map_or(Ok(()), |gateway| addressing.set_gateway(gateway));
        let of_servers = name_servers.map_or(Ok(()), |servers| addressing.set_name_servers(servers));
        for (word, result) in [("gateway", of_gateway), ("dns", of_servers)] {
            if let Err(why) = result {
                self.error(word, why);
            }
        }
    }

    fn error(&mut self, word: &str, message: String) {
        let file = COMMAND_LINE.to_owned();
        self.errors.push(ConfigError { file, line: 0, key: visible(word), message });
    }
}

/// The entries of a list, with commas in between.
fn list<T>(
    value: &str,
    what: &str,
    parse: fn(&str, &[T]) -> Result<T, EntryFault>,
) -> Result<Vec<T>, String> {
    let mut entries = Vec::new();
    for entry in value.split(',') {
        entries.push(parse(entry, &entries).map_err(|fault| match fault {
            EntryFault::Wrong => format!("{entry:?} is no {what}"),
            EntryFault::Twice => format!("{entry:?} is there twice"),
        })?);
    }
    Ok(entries)
}

fn once<T>(place: &mut Option<T>, value: T) -> Result<(), String> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err("is there twice".to_owned()),
    }
}

fn host_of(value: &str) -> Result<Ipv4Addr, String> {
    host(value).map_err(|_| format!("{value:?} is no address of a machine"))
}

fn file(value: &str) -> Result<FileWord, String> {
    match value {
        "none" => Ok(FileWord::Nothing),
        name => file_name(name).map(|()| FileWord::Named(name.to_owned())),
    }
}

/// Checks the name of a file on a TFTP server.
///
/// # Errors
/// The name is empty, too long, or has control characters.
pub(crate) fn file_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > FILE_NAME_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(format!(
            "{name:?} is no name of a file, which has 1 to 255 bytes without control characters"
        ));
    }
    Ok(())
}

/// Maximum length of a file name, in bytes.
const FILE_NAME_BYTES_MAX: usize = 255;

fn switch(value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{value:?} is neither on nor off")),
    }
}

fn port(value: &str) -> Result<PortWord, String> {
    match value {
        "off" => Ok(PortWord::Off),
        number => port_number(number).map(PortWord::Number).ok_or_else(|| format!("{value:?} is no port")),
    }
}

/// The words of a command line, without their quotes.
pub fn split_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut is_quoted, mut is_word) = (false, false);
    for c in line.chars() {
        if c == '"' {
            is_quoted = !is_quoted;
            is_word = true;
        } else if is_quoted || !(c.is_whitespace() || c.is_control()) {
            word.push(c);
            is_word = true;
        } else if is_word {
            words.push(core::mem::take(&mut word));
            is_word = false;
        }
    }
    if is_word {
        words.push(word);
    }
    words
}

fn visible(word: &str) -> String {
    word.escape_debug().to_string()
}

pub(crate) const COMMAND_LINE: &str = "command line";

/// The recognised words, each with its syntax.
const WORDS: [(&str, &str); 16] = [
    ("ip", "ip=dhcp or ip=192.0.2.10/24"),
    ("gateway", "gateway=192.0.2.1"),
    ("dns", "dns=192.0.2.1,192.0.2.2"),
    ("tftp", "tftp=192.0.2.1"),
    ("users", "users=users.csv or users=none"),
    ("config", "config=ringway.toml or config=none"),
    ("domains", "domains=example.org,example.com"),
    ("mode", "mode=proxy or mode=redirect"),
    ("stateful", "stateful=on or stateful=off"),
    ("record_route", "record_route=on or record_route=off"),
    ("auth", "auth=on or auth=off"),
    ("realm", "realm=example.org, without quotes, backslashes and control characters"),
    ("algorithms", "algorithms=SHA-256,MD5 or one of them"),
    ("udp", "udp=5060 or udp=off"),
    ("tcp", "tcp=5060 or tcp=off"),
    ("tls", "tls=5061 or tls=off"),
];
