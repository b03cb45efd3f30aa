//! Passwords from standard input, so that no command line shows them.

use crate::failure::Failure;
use std::io::{self, Read};

/// What stands on standard input, without the end of its line.
pub(crate) fn from_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    io::stdin()
        .lock()
        .take(PASSWORD_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(|error| Failure::failed(format!("cannot read the password from standard input: {error}")))?;
    if text.len() as u64 > PASSWORD_BYTES_MAX {
        return Err(Failure::usage(
            "the password on standard input is longer than 1024 bytes; give a shorter one",
        ));
    }
    let password = text.strip_suffix('\n').unwrap_or(&text);
    Ok(password.strip_suffix('\r').unwrap_or(password).to_owned())
}

/// The longest password that is read.
const PASSWORD_BYTES_MAX: u64 = 1024;
