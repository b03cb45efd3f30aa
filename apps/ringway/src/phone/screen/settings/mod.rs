//! `phone.toml`: account, calls, sound, contacts.
//!
//! Does: reads it as `ringway.toml` is read (an unknown key is an error with its line), writes account and contacts back
//! without touching the rest, keeps the password where the account says.
//!
//! Start reading at [`Settings::load`].

pub(crate) mod password;
mod read;
mod save;
#[cfg(test)]
mod tests;

pub(crate) use read::MICROPHONE;
pub(crate) use save::save;

use crate::config::{Config, ConfigError};
use crate::failure::Failure;
use ringway_audio::pulse::Names;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

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
