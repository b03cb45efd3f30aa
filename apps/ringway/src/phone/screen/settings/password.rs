//! Where the password is kept: the kernel's keyring, a file only its owner may read, or nowhere.

use crate::phone::private_file;
use crate::phone::screen::event::Secret;
use keyring_core::api::CredentialStoreApi;
use linux_keyutils_keyring_store::Store;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What others of this machine's keyrings are told apart by.
const SERVICE: &str = "ringway-phone";
/// A longer file holds no password.
const PASSWORD_BYTES_MAX: u64 = 1024;

/// Where an account's password is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PasswordPlace {
    /// In the kernel's keyring: it outlives the program, not the machine's restart.
    Keyring,
    /// In a file of mode 600.
    File {
        /// As `phone.toml` says it.
        name: String,
        /// From where the program stands.
        path: PathBuf,
    },
    /// Nowhere: the login screen asks at every start.
    Ask,
}

impl PasswordPlace {
    /// `keyring`, `ask` or `file:NAME`; a relative name starts at the folder of `config`.
    pub(crate) fn from_text(text: &str, config: &Path) -> Option<Self> {
        match text {
            "keyring" => Some(Self::Keyring),
            "ask" => Some(Self::Ask),
            _ => {
                let name =
                    text.strip_prefix("file:").filter(|name| !name.is_empty() && !name.contains('\0'))?;
                let path = config.parent().unwrap_or(Path::new("")).join(name);
                Some(Self::File { name: name.to_owned(), path })
            }
        }
    }

    /// The same as `phone.toml` writes it.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Keyring => "keyring".to_owned(),
            Self::File { name, .. } => format!("file:{name}"),
            Self::Ask => "ask".to_owned(),
        }
    }

    /// The password of the account `uri`, if it is there. The error is one line.
    pub(crate) fn read(&self, uri: &str) -> Result<Option<Secret>, String> {
        match self {
            Self::Ask => Ok(None),
            Self::File { path, .. } => read_file(path),
            Self::Keyring => match entry(uri)?.get_password() {
                Ok(password) => Ok(Some(Secret(password))),
                Err(keyring_core::Error::NoEntry) => Ok(None),
                Err(error) => Err(keyring_failed(&error)),
            },
        }
    }

    /// Keeps the password of the account `uri`. The error is one line.
    pub(crate) fn keep(&self, uri: &str, password: &Secret) -> Result<(), String> {
        match self {
            Self::Ask => Ok(()),
            Self::File { path, .. } => {
                private_file::replace(path, format!("{}\n", password.0).as_bytes(), private_file::MODE)
                    .map_err(|error| {
                        format!("{}: cannot write the password: {error}; check the folder", path.display())
                    })
            }
            Self::Keyring if password.0.is_empty() => Ok(()),
            Self::Keyring => entry(uri)?.set_password(&password.0).map_err(|error| keyring_failed(&error)),
        }
    }

    /// Takes the password of the account `uri` away, if it is there. The error is one line.
    pub(crate) fn forget(&self, uri: &str) -> Result<(), String> {
        match self {
            Self::Ask => Ok(()),
            Self::File { path, .. } => match std::fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    Err(format!("{}: cannot remove the old password: {error}; remove it", path.display()))
                }
                Ok(()) | Err(_) => Ok(()),
            },
            Self::Keyring => match entry(uri)?.delete_credential() {
                Ok(()) | Err(keyring_core::Error::NoEntry) => Ok(()),
                Err(error) => Err(keyring_failed(&error)),
            },
        }
    }
}

fn entry(uri: &str) -> Result<keyring_core::Entry, String> {
    let built = Store::new().and_then(|store| store.build(SERVICE, uri, None));
    built.map_err(|error| keyring_failed(&error))
}

fn keyring_failed(error: &keyring_core::Error) -> String {
    format!(
        "the kernel's keyring: {error}; keep the password in a file instead (password = \"file:phone.password\")"
    )
}

fn read_file(path: &Path) -> Result<Option<Secret>, String> {
    let Some(text) = private_file::read(path, "this password", PASSWORD_BYTES_MAX)? else { return Ok(None) };
    let password = text.strip_suffix('\n').unwrap_or(&text);
    Ok(Some(Secret(password.strip_suffix('\r').unwrap_or(password).to_owned())))
}
