//! Valid user names and passwords.

use crate::Ha1;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::fmt;

/// A user's name and domain, checked: fit for an address-of-record and for a digest.
///
/// ```
/// use ringway_users::UserName;
///
/// let name = UserName::new("bob", "example.org")?;
/// assert_eq!(name.to_string(), "bob@example.org");
/// assert!(UserName::new("", "example.org").is_err());
/// # Ok::<(), ringway_users::Unusable>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserName {
    name: String,
    domain: String,
}

impl UserName {
    /// Checks the parts; the domain is made lower-case, because domains compare without case (RFC 3261 §19.1.4).
    ///
    /// # Errors
    /// A part is empty or longer than 255 bytes, or has characters that are not allowed in the user part or the host of
    /// a SIP URI.
    pub fn new(name: &str, domain: &str) -> Result<Self, Unusable> {
        let unusable = |what: &str, why| {
            let start: String = what.chars().take(SHOWN_CHARS_MAX).collect();
            Unusable { what: format!("{start:?}"), why }
        };
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(unusable(name, "a user name has 1 to 255 bytes"));
        }
        if name.chars().any(|c| c.is_control() || c.is_whitespace() || "@:\"\\<>".contains(c)) {
            return Err(unusable(
                name,
                "a user name has no spaces, control characters, or any of @ : \" \\ < >",
            ));
        }
        if domain.is_empty() || domain.len() > NAME_BYTES_MAX {
            return Err(unusable(domain, "a domain has 1 to 255 bytes"));
        }
        if !domain.chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c)) {
            return Err(unusable(domain, "a domain has letters, digits, dots and hyphens only"));
        }
        Ok(Self { name: name.to_owned(), domain: domain.to_ascii_lowercase() })
    }

    /// The user part, as it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The domain, lower-case.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Computes H(A1) of this user's password for `realm` (RFC 7616 §3.4.2).
    ///
    /// # Errors
    /// The password is empty or has control characters, which cannot be entered at a phone.
    pub fn ha1(&self, realm: &str, password: &str) -> Result<Ha1, Unusable> {
        let unusable = |why| Unusable { what: format!("the password of {self}"), why };
        if password.is_empty() {
            return Err(unusable("it is empty; give one of at least 1 character"));
        }
        if password.chars().any(char::is_control) {
            return Err(unusable("it has control characters; give one without"));
        }
        Ok(Ha1::new(self.name.as_bytes(), realm.as_bytes(), password.as_bytes()))
    }

    /// Computes the hashes of this user's password for `realm`.
    ///
    /// # Errors
    /// Those of [`UserName::ha1`].
    pub fn hashes(&self, realm: &str, password: &str) -> Result<Hashes, Unusable> {
        let ha1 = self.ha1(realm, password)?;
        let full = Ha1::new(format!("{self}").as_bytes(), realm.as_bytes(), password.as_bytes());
        Ok(Hashes { ha1, full: Some(full) })
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.domain)
    }
}

/// Hashes of a user's password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hashes {
    /// H(A1) of the user name.
    pub ha1: Ha1,
    /// H(A1) of `user@domain`, which some phones write as the user name; `None`: not known.
    pub full: Option<Ha1>,
}

impl From<Ha1> for Hashes {
    fn from(ha1: Ha1) -> Self {
        Self { ha1, full: None }
    }
}

/// A name, a domain or a password that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Unusable {
    /// The input, quoted as far as it is safe to print.
    pub what: String,
    /// The fault, and the remedy.
    pub why: &'static str,
}

/// Longest user name and longest domain, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// Maximum length of a value in an error.
pub(crate) const SHOWN_CHARS_MAX: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;
    use base16ct::lower::encode_string as hex;

    #[test]
    fn names_and_passwords_that_could_not_work_are_refused() {
        for name in ["", "a b", "a@b", "a:b", "a\r\nb", "a\"b", &"x".repeat(256)] {
            assert!(UserName::new(name, "example.org").is_err(), "{name:?}");
        }
        for domain in ["", "exa mple", "example.org\r\n", "ex@mple", &"x".repeat(256)] {
            assert!(UserName::new("alice", domain).is_err(), "{domain:?}");
        }
        let alice = UserName::new("alice", "Example.ORG").unwrap();
        assert_eq!(format!("{alice}"), "alice@example.org");
        for password in ["", "a\nb", "\u{7f}"] {
            assert!(alice.ha1("r", password).is_err(), "{password:?}");
        }
        let error = alice.ha1("r", "").unwrap_err();
        assert_eq!(
            format!("{error}"),
            "the password of alice@example.org: it is empty; give one of at least 1 character"
        );
    }

    #[test]
    fn a_password_becomes_the_hashes_of_the_rfc() {
        // RFC 7616 §3.9.1: the realm there, Mufasa's password.
        let mufasa = UserName::new("Mufasa", "example.org").unwrap();
        let ha1 = mufasa.ha1("http-auth@example.org", "Circle of Life").unwrap();
        assert_eq!(hex(&ha1.md5), "3d78807defe7de2157e2b0b6573a855f");
        assert_eq!(hex(&ha1.sha256), "7987c64c30e25f1b74be53f966b49b90f2808aa92faf9a00262392d7b4794232");
    }
}
