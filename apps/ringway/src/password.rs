//! Passwords, generated or read from standard input so that they do not appear in a list of processes, and random bytes of
//! the operating system.

use crate::failure::Failure;
use ringway_sansio::Seed;
use std::io::{self, BufRead, IsTerminal, Read};

/// Reads the first line of standard input, without its end. It does not wait for the end of the input, so that it works
/// for typed input, which it asks for, and for an open pipe.
pub(crate) fn from_stdin() -> Result<String, Failure> {
    if io::stdin().is_terminal() {
        eprint!("password, and Enter (it is visible): ");
    }
    let mut text = String::new();
    io::stdin().lock().take(PASSWORD_BYTES_MAX + LINE_END_BYTES_MAX).read_line(&mut text).map_err(
        |error| match error.kind() {
            io::ErrorKind::InvalidData => {
                Failure::usage("the password on standard input is not valid UTF-8; send it in UTF-8")
            }
            _ => Failure::failed(format!("cannot read the password from standard input: {error}")),
        },
    )?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let password = line.strip_suffix('\r').unwrap_or(line);
    if password.len() as u64 > PASSWORD_BYTES_MAX {
        return Err(Failure::usage(
            "the password on standard input is longer than 1024 bytes; give a shorter one",
        ));
    }
    Ok(password.to_owned())
}

/// Generates a password from 100 random bits.
pub(crate) fn generated() -> Result<String, Failure> {
    let mut random = [0; GENERATED_SYMBOLS];
    getrandom::fill(&mut random).map_err(|error| {
        Failure::failed(format!(
            "the operating system returned no random bytes ({error}); use --password-stdin"
        ))
    })?;
    Ok(random.iter().map(|byte| char::from(SYMBOLS[usize::from(byte % 32)])).collect())
}

/// Maximum length of a password in bytes.
const PASSWORD_BYTES_MAX: u64 = 1024;

/// CR and LF.
const LINE_END_BYTES_MAX: u64 = 2;

/// Symbols of generated passwords: 32, without similar ones.
const SYMBOLS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Length of a generated password; 5 bits per symbol, 100 bits in total.
const GENERATED_SYMBOLS: usize = 20;

/// Seed of a protocol machine; all of its randomness is derived from it.
pub(crate) fn seed() -> Result<Seed, Failure> {
    Ok(Seed::from_bytes(bytes()?))
}

/// Random bytes.
pub(crate) fn bytes<const LEN: usize>() -> Result<[u8; LEN], Failure> {
    let mut bytes = [0; LEN];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::failed(format!("the operating system returned no random bytes: {error}"))
    })?;
    Ok(bytes)
}
