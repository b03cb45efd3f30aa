//! Errors of a store.

use std::fmt;

/// Error of a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The scheme is another one. Only the scheme is shown: the rest can have a password.
    #[error(
        "the URL {0}:… is of neither Redis nor Valkey; write as redis://HOST:PORT or, over TLS, rediss://HOST:PORT"
    )]
    Scheme(String),
    /// A host is missing or not valid. The part before `@` is not shown.
    #[error(
        "`{0}` is not a host and port; write as redis://HOST:PORT[,HOST:PORT…], with IPv6 addresses in brackets"
    )]
    Host(String),
    /// There are more hosts than the limit.
    #[error("the URL has more than {0} hosts; name a few of the store's, the others are found")]
    TooManyHosts(usize),
    /// The part before `@` is not valid.
    #[error(
        "the user or password before @ is not valid; write : / ? # @ , and % in them as %3A %2F %3F %23 %40 %2C %25"
    )]
    User,
    /// The path is not a name of Sentinel.
    #[error(
        "`/{0}` is not the name of a Sentinel's master; write letters, digits, . - _ or leave it out (mymaster)"
    )]
    Master(String),
    /// The URL has parameters behind a question mark, or a fragment.
    #[error("the URL has parameters; leave out the part from the ? or # on")]
    Parameters,
}

/// Error of a connection or a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError(String);

impl StoreError {
    pub(crate) fn new(reason: impl fmt::Display) -> Self {
        Self(reason.to_string().chars().take(REASON_CHARS_MAX).collect())
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StoreError {}

/// Maximum length of the reason of an error, which has text of the server.
const REASON_CHARS_MAX: usize = 1_024;
