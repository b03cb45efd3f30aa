//! Passwords of the users and digest algorithms of their servers.

/// Password of all users.
pub const PASSWORD: &str = "correct horse battery";

/// Digest algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// SHA-256.
    Sha256,
    /// MD5.
    Md5,
}

impl Algorithm {
    /// Name in `[auth] algorithms` and in the challenge.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SHA-256",
            Self::Md5 => "MD5",
        }
    }
}
