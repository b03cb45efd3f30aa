//! Errors of databases.

use std::fmt;

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
