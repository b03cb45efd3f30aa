//! Connections to PostgreSQL and MySQL, and their answers: values, errors, the limit in time for each step.
//!
//! Does: connects by a URL ([`DatabaseUrl`]), runs statements and passes rows as texts ([`Server`]), with a limit in time for each
//! connection and each row; waits for PostgreSQL's notifications. Each [`Server`] has a runtime of its own and blocks the calling
//! thread.
//!
//! Does not: have tables of its own, or connect again.
//!
//! Start reading at [`Server`].

mod mysql;
mod postgres;
mod server;
mod url;

pub use server::Server;
pub use url::{DatabaseAccess, DatabaseUrl, Engine};

use std::fmt;
use std::time::Duration;
use tokio::time::timeout;

/// Result of [`Server::wait`](Server::wait).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The server sent a notification.
    Notified,
    /// The time is over.
    TimedOut,
}

/// Receives a row's values; NULL and what is not UTF-8 is `None`.
pub(crate) type Each<'a> = &'a mut dyn FnMut(&[Option<&str>]);

/// Ends a step that takes longer than [`ANSWER_TIME_MAX`].
pub(crate) async fn in_time<T>(step: impl Future<Output = T>) -> Result<T, DatabaseError> {
    timeout(ANSWER_TIME_MAX, step).await.map_err(|_| DatabaseError::new("no answer within 60 s"))
}

/// Maximum time for the next row.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

/// Error of a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The text is no URL of PostgreSQL or MySQL with a host and the name of a database. Its scheme is all that is shown: the rest can
    /// have a password.
    #[error("the URL {0}:… names no database; write as postgres://USER@HOST/NAME or mysql://USER@HOST/NAME")]
    NoDatabase(String),
    /// The URL names no user.
    #[error("{0} names no user; write as postgres://USER@HOST/NAME or mysql://USER@HOST/NAME")]
    NoUser(String),
    /// The URL has parameters behind a question mark, or a fragment.
    #[error(
        "the URL {0}:… has parameters; leave out the part from the ? or # on: TLS is a setting of its own"
    )]
    Parameters(String),
}

/// Error of a connection or a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseError {
    reason: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The server refused a statement; the connection goes on.
    Statement,
    /// The connection is of no use any more.
    Connection,
}

impl DatabaseError {
    /// Error of the connection.
    pub(crate) fn new(reason: impl fmt::Display) -> Self {
        Self { reason: reason.to_string(), kind: Kind::Connection }
    }

    /// Error of the server for a statement.
    pub(crate) fn of_server(reason: impl fmt::Display) -> Self {
        Self { reason: reason.to_string(), kind: Kind::Statement }
    }

    /// True if the server refused a statement, and the connection goes on.
    pub fn is_of_statement(&self) -> bool {
        self.kind == Kind::Statement
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for DatabaseError {}

/// Bytes of a value in hexadecimal digits, which a column of a fixed length may pad with spaces. `None`: it has other characters, or
/// another length.
pub fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let decoded = base16ct::mixed::decode(text.trim_end(), &mut bytes).ok()?;
    (decoded.len() == N).then_some(bytes)
}
