//! Storage of the password: the kernel's keyring, a file that only its owner may read, or none.

use crate::phone::private_file;
use keyring_core::api::CredentialStoreApi;
use linux_keyutils_keyring_store::Store;
use ringway_ui::phone::{PasswordPlace, Secret};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Name that separates these entries of the keyring from those of other programs.
const SERVICE: &str = "ringway-phone";
/// A longer file holds no password.
const PASSWORD_BYTES_MAX: u64 = 1024;

/// Reads the password of the account `uri`, if it is there; `config` is the file with the settings.
///
/// # Errors
/// One line for the user.
pub(crate) fn read(place: &PasswordPlace, config: &Path, uri: &str) -> Result<Option<Secret>, String> {
    match place {
        PasswordPlace::Ask => Ok(None),
        PasswordPlace::File(name) => read_file(&beside(config, name)),
        PasswordPlace::Keyring => match entry(uri)?.get_password() {
            Ok(password) => Ok(Some(Secret(password))),
            Err(keyring_core::Error::NoEntry) => Ok(None),
            Err(error) => Err(keyring_failed(&error)),
        },
    }
}

/// Saves the password of the account `uri`, and reads it back.
///
/// # Errors
/// One line for the user.
pub(crate) fn keep(place: &PasswordPlace, config: &Path, uri: &str, password: &Secret) -> Result<(), String> {
    match place {
        PasswordPlace::Ask => return Ok(()),
        PasswordPlace::File(name) => {
            let path = beside(config, name);
            private_file::replace(&path, format!("{}\n", password.0).as_bytes(), private_file::MODE)
                .map_err(|error| {
                    format!("{}: cannot write the password: {error}; check the folder", path.display())
                })?;
        }
        PasswordPlace::Keyring if password.0.is_empty() => return Ok(()),
        PasswordPlace::Keyring => {
            entry(uri)?.set_password(&password.0).map_err(|error| keyring_failed(&error))?;
        }
    }
    is_kept(&read(place, config, uri)?, password)
}

/// Compares what was read back: a keyring may accept a password and not give it back.
fn is_kept(read_back: &Option<Secret>, password: &Secret) -> Result<(), String> {
    if read_back.as_ref() == Some(password) {
        return Ok(());
    }
    Err("the stored password cannot be read back; store it elsewhere".to_owned())
}

/// Removes the password of the account `uri`, if it is there.
///
/// # Errors
/// One line for the user.
pub(crate) fn forget(place: &PasswordPlace, config: &Path, uri: &str) -> Result<(), String> {
    match place {
        PasswordPlace::Ask => Ok(()),
        PasswordPlace::File(name) => {
            let path = beside(config, name);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    Err(format!("{}: cannot remove the old password: {error}; remove it", path.display()))
                }
                Ok(()) | Err(_) => Ok(()),
            }
        }
        PasswordPlace::Keyring => match entry(uri)?.delete_credential() {
            Ok(()) | Err(keyring_core::Error::NoEntry) => Ok(()),
            Err(error) => Err(keyring_failed(&error)),
        },
    }
}

/// A file in the folder of `config`.
fn beside(config: &Path, name: &str) -> PathBuf {
    config.parent().unwrap_or(Path::new("")).join(name)
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
