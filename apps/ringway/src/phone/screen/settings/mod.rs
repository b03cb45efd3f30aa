//! `phone.toml`: account, calls, sound, contacts; writing it back, so that what a person wrote there by hand stays.
//!
//! Does: reads it as `ringway.toml` is read (an unknown key is an error with its line), writes account and contacts back
//! without touching the rest, keeps the password where the account says.
//!
//! Start reading at [`Settings::load`].

pub(crate) mod password;
mod read;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ringway_audio::pulse::Names;
use ringway_ui::phone::{Account, Contact, Registration};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

use crate::config::{Config, ConfigError};
use crate::failure::Failure;
use crate::phone::private_file;
pub(crate) use read::MICROPHONE;

/// File that is read, or created, without `--config`.
pub(crate) const DEFAULT_FILE: &str = "phone.toml";

/// A checked `phone.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Settings that the pages show and change.
    pub(crate) pages: ringway_ui::phone::Settings,
    /// Sound that is sent: `microphone`, `silence`, `speech`, `tone:HZ` or a WAV file.
    pub(crate) play: String,
    /// Folder for the received sound, a WAV file for each call; `None`: it is not recorded.
    pub(crate) record: Option<PathBuf>,
    /// Size of the replay window of SRTP, in packets.
    pub(crate) replay_window: u16,
    /// `[audio]`: the devices; `None`: no sound card is used.
    pub(crate) audio: Option<Names>,
    /// Local address of SIP; port 0 takes a free one. `None`: the address towards the server, any port; without a
    /// server, port 5060.
    pub(crate) bind: Option<SocketAddr>,
    /// Consecutive ports of the other side that are tried while no packet arrives.
    pub(crate) port_row: u8,
    /// Name of the phone at its registrar (RFC 5626).
    pub(crate) instance: Option<String>,
    /// Authorities of TLS servers, PEM; `None`: those of the operating system.
    pub(crate) ca: Option<PathBuf>,
    /// Certificate chain and private key for TLS servers that ask for one, PEM.
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) private_key: Option<PathBuf>,
}

impl Settings {
    /// Reads `file`. A file that is not there gives the defaults: the login screen will make it.
    pub(crate) fn load(file: &Path) -> Result<Self, Failure> {
        let text = if file.exists() { Config::read(file)? } else { String::new() };
        Self::parse(&text, file)
            .map_err(|errors| Failure::configuration(errors.iter().map(ConfigError::to_string).collect()))
    }

    /// Parses the text of `file`. Returns all errors, by line.
    pub(crate) fn parse(text: &str, file: &Path) -> Result<Self, Vec<ConfigError>> {
        read::read(text, file)
    }
}

/// Start of a new file.
const HEAD: &str =
    "# The phone of `ringway phone`. The login screen and the contacts screen write here; comments stay.\n\n";

/// Writes account and contacts to `file`; everything else in it, comments too, stays as it is.
///
/// # Errors
/// One line for the user.
pub(crate) fn save(settings: &ringway_ui::phone::Settings, file: &Path) -> Result<(), String> {
    let name = file.display();
    // The file may be a link, and what is there now may have been changed since it was read.
    let target = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let (text, mode) = match fs::read_to_string(&target) {
        Ok(text) => {
            let mode = fs::metadata(&target)
                .map_or(private_file::MODE, |metadata| metadata.permissions().mode() & 0o777);
            (text, mode)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (HEAD.to_owned(), private_file::MODE),
        Err(error) => return Err(format!("{name}: cannot read it: {error}; nothing is saved")),
    };
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        let at = error.span().map_or(0, |span| span.start);
        let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        format!("{name}:{line}: not TOML; correct the line; nothing is saved")
    })?;
    // In a document without keys comments are behind everything that is inserted.
    let head = if document.is_empty() { std::mem::take(&mut document).to_string() } else { String::new() };
    if let Some(account) = &settings.account {
        write_account(&mut document, account)?;
    }
    write_contacts(&mut document, &settings.contacts);
    if let Some(stun) = &settings.stun {
        table(&mut document, "network")?.insert("stun", value(stun));
    } else if let Some(network) = document.get_mut("network").and_then(Item::as_table_mut) {
        network.remove("stun");
    }
    private_file::replace(&target, format!("{head}{document}").as_bytes(), mode)
        .map_err(|error| format!("{name}: cannot write it: {error}; check the folder"))
}

fn write_account(document: &mut DocumentMut, account: &Account) -> Result<(), String> {
    let Account { uri, name, auth_user, realm, server, transport, registration, password } = account;
    let table = table(document, "account")?;
    table.insert("uri", value(uri));
    let texts = [
        ("name", Some(name)),
        ("auth_user", auth_user.as_ref()),
        ("realm", realm.as_ref()),
        ("server", server.as_ref()),
    ];
    for (key, text) in texts {
        match text.filter(|text| !text.is_empty()) {
            Some(text) => table.insert(key, value(text)),
            None => table.remove(key),
        };
    }
    table.insert("transport", value(transport.name()));
    table.insert("register", value(*registration == Registration::Wanted));
    table.insert("password", value(password.text()));
    Ok(())
}

fn write_contacts(document: &mut DocumentMut, contacts: &[Contact]) {
    let mut tables = ArrayOfTables::new();
    for contact in contacts {
        let mut table = Table::new();
        table.insert("name", value(&contact.name));
        table.insert("uri", value(&contact.uri));
        if let Some(quick) = contact.quick {
            table.insert("quick", value(i64::from(quick)));
        }
        tables.push(table);
    }
    document.remove("contact");
    if !tables.is_empty() {
        document.insert("contact", Item::ArrayOfTables(tables));
    }
}

/// The section `name`, made if it is not there.
fn table<'d>(document: &'d mut DocumentMut, name: &str) -> Result<&'d mut Table, String> {
    let item = document.entry(name).or_insert_with(|| Item::Table(Table::new()));
    if let Some(inline) = item.as_inline_table() {
        *item = Item::Table(inline.clone().into_table());
    }
    item.as_table_mut().ok_or_else(|| format!("{name} is a section; write [{name}] on a line of its own"))
}

#[cfg(test)]
mod tests;
