//! Passwords, generated or read from standard input so that they do not appear in a list of processes, and random bytes of
//! the operating system.

use crate::failure::Failure;
use ringway_sansio::Seed;
use std::io::{self, BufRead, IsTerminal, Read};
use zxcvbn::zxcvbn;

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

/// Fault of a password that is easy to guess, and the remedy; `None` for a strong one. `known`: words that an attacker tries first,
/// as the name of its user.
pub(crate) fn weakness_of(password: &str, known: &[&str]) -> Option<String> {
    let guesses = guesses_log10(password, known);
    (guesses < GUESSES_LOG10_MIN).then(|| {
        format!(
            "the password is easy to guess: about 10^{guesses:.0} guesses are enough, and 10^{GUESSES_LOG10_MIN:.0} are required; give a \
             longer one without words and dates, leave out --password-stdin to have one made, or add --danger-weak"
        )
    })
}

fn guesses_log10(password: &str, known: &[&str]) -> f64 {
    zxcvbn(password, known).guesses_log10()
}

/// Count of passwords that are easy to guess among those of a list.
#[derive(Debug, Default)]
pub(crate) struct WeakPasswords {
    first: Vec<(String, String)>,
}

impl WeakPasswords {
    /// Notes the password of a user, unless there are [`WeakPasswords::CHECKED_MAX`] already: the check takes up to a millisecond.
    pub(crate) fn note(&mut self, user: &str, password: &str) {
        if self.first.len() < Self::CHECKED_MAX {
            self.first.push((user.to_owned(), password.to_owned()));
        }
    }

    /// Number of those that are easy to guess, and of those that were checked.
    pub(crate) fn count(&self) -> (usize, usize) {
        let is_weak = |(user, password): &&(String, String)| {
            guesses_log10(password, &[user.as_str()]) < GUESSES_LOG10_MIN
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let part = self.first.len().div_ceil(threads).max(1);
        let weak = std::thread::scope(|scope| {
            let counts: Vec<_> = self
                .first
                .chunks(part)
                .map(|part| scope.spawn(move || part.iter().filter(is_weak).count()))
                .collect();
            counts.into_iter().filter_map(|count| count.join().ok()).sum()
        });
        (weak, self.first.len())
    }

    /// Warning with their number; `None` without any. `all`: number of rows with a password.
    pub(crate) fn warning(&self, all: u64) -> Option<String> {
        let (weak, checked) = self.count();
        let of = match all > checked as u64 {
            true => format!("of the first {checked} passwords"),
            false => format!("of {checked} passwords"),
        };
        (weak > 0).then(|| {
            format!(
                "{weak} {of} are easy to guess, with fewer than 10^{GUESSES_LOG10_MIN:.0} guesses; `ringway user passwd NAME` makes a strong one"
            )
        })
    }

    /// Maximum number of passwords that are checked.
    const CHECKED_MAX: usize = 10_000;
}

/// Power of ten of the guesses that a password must need.
const GUESSES_LOG10_MIN: f64 = 15.0;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_refused_by_its_guesses() {
        for (password, is_taken) in [
            ("", false),
            ("secret", false),
            ("correcthorse", false),
            ("Alice.Example.org.2026", false),
            ("P@ssw0rd12345", false),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
            ("t7#kQ9!vLx2mZpRw", true),
            ("umbrella-tungsten-giraffe-sonata", true),
        ] {
            let weakness = weakness_of(password, &["alice", "example.org"]);
            assert_eq!(weakness.is_none(), is_taken, "{password}: {:?}", guesses_log10(password, &[]));
        }
        for _ in 0..20 {
            assert_eq!(weakness_of(&generated().unwrap(), &["alice", "example.org"]), None);
        }
    }

    #[test]
    fn weak_passwords_of_a_list_are_counted() {
        let mut passwords = WeakPasswords::default();
        assert_eq!((passwords.count(), passwords.warning(0)), ((0, 0), None));
        for (user, password) in [("alice", "secret"), ("bob", "t7#kQ9!vLx2mZpRw"), ("carol", "carol1")] {
            passwords.note(user, password);
        }
        assert_eq!(passwords.count(), (2, 3));
        assert!(passwords.warning(3).unwrap().starts_with("2 of 3 passwords are easy to guess"));
        assert!(passwords.warning(4).unwrap().starts_with("2 of the first 3 passwords"));
    }
}
