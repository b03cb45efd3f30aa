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

pub use server::Server;

use rustls::pki_types::CertificateDer;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;
use url::{Host, Url};

/// Kind of a database server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// MySQL or MariaDB.
    MySql,
    /// PostgreSQL.
    Postgres,
}

/// URL of a database, `postgres://USER[:PASSWORD]@HOST[:PORT]/NAME` or `mysql://…`.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl {
    engine: Engine,
    url: Url,
    authorities: Option<Arc<[CertificateDer<'static>]>>,
}

impl DatabaseUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// The scheme is of neither database, or host or name are missing.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        // A password can be in what follows the first colon.
        let scheme = || text.split(':').next().unwrap_or_default().to_owned();
        let url = Url::parse(text).map_err(|_| UrlError::NoDatabase(scheme()))?;
        let engine = match url.scheme() {
            "mysql" | "mariadb" => Some(Engine::MySql),
            "postgres" | "postgresql" => Some(Engine::Postgres),
            _ => None,
        };
        let Some(engine) = engine else { return Err(UrlError::NoDatabase(scheme())) };
        if url.host_str().is_none_or(str::is_empty) || url.path().len() < 2 {
            return Err(UrlError::NoDatabase(scheme()));
        }
        if url.username().is_empty() {
            return Err(UrlError::NoUser(shown(&url)));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(UrlError::Parameters(scheme()));
        }
        let mut url = url;
        if url.scheme() == "mariadb" {
            // It is another word for the same protocol.
            let _ = url.set_scheme("mysql");
        }
        Ok(Self { engine, url, authorities: None })
    }

    /// The same URL with another password.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> Self {
        // It fails for URLs without a host, which `parse` refuses.
        let _ = self.url.set_password(Some(password));
        self
    }

    /// The same URL over TLS, with a server whose certificate is of one of these authorities and for the host of the URL.
    #[must_use]
    pub fn with_tls(mut self, authorities: Vec<CertificateDer<'static>>) -> Self {
        self.authorities = Some(authorities.into());
        self
    }

    /// True if the URL has a password.
    pub fn has_password(&self) -> bool {
        self.url.password().is_some()
    }

    /// True if both have the same password.
    pub fn has_password_of(&self, other: &Self) -> bool {
        self.url.password() == other.url.password()
    }

    /// The kind of the server.
    pub const fn engine(&self) -> Engine {
        self.engine
    }

    /// True for a server that is reached without a network: `localhost` or a loopback address.
    pub fn is_loopback(&self) -> bool {
        // Hosts of schemes that the URL standard has no rules for are not parsed as addresses.
        match self.url.host() {
            Some(Host::Domain(name)) => {
                name.eq_ignore_ascii_case("localhost")
                    || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        }
    }

    /// The URL without its password.
    pub fn shown(&self) -> String {
        shown(&self.url)
    }

    /// Authorities of the server's certificate; `None`: without TLS.
    pub(crate) fn authorities(&self) -> Option<&[CertificateDer<'static>]> {
        self.authorities.as_deref()
    }

    pub(crate) fn as_str(&self) -> &str {
        self.url.as_str()
    }
}

impl std::fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown())
    }
}

fn shown(url: &Url) -> String {
    let mut shown = url.clone();
    // It fails for URLs without a host, which have no password.
    let _ = shown.set_password(None);
    shown.into()
}

/// URL of a database that can change while it is used: a new password or certificate counts from the next connection on.
#[derive(Clone, Debug)]
pub struct DatabaseAccess(Arc<Mutex<DatabaseUrl>>);

impl DatabaseAccess {
    /// Shares a URL.
    pub fn new(url: DatabaseUrl) -> Self {
        Self(Arc::new(Mutex::new(url)))
    }

    /// The URL in force.
    pub fn url(&self) -> DatabaseUrl {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the URL.
    pub fn replace(&self, url: DatabaseUrl) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = url;
    }
}

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

/// Maximum time for the next row.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_never_shown() {
        let url = DatabaseUrl::parse("postgres://ringway:s3cret@db.example.org:5433/users").unwrap();
        assert_eq!(url.shown(), "postgres://ringway@db.example.org:5433/users");
        assert!(!format!("{url:?}").contains("s3cret"));
        for bad in ["redis://u:s3cret@h/1", "postgres:s3cret", "mysql://u:s3cret@host", "u:s3cret"] {
            let error = DatabaseUrl::parse(bad).unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn loopback_is_distinguished_from_other_hosts() {
        let is_loopback =
            |host: &str| DatabaseUrl::parse(&format!("mysql://u@{host}/n")).unwrap().is_loopback();
        assert!(["127.0.0.1", "127.0.0.9:3306", "localhost", "[::1]"].iter().all(|host| is_loopback(host)));
        assert!(
            !["192.0.2.1", "db.example.org", "[2001:db8::1]", "127.0.0.1.example.org"]
                .iter()
                .any(|host| is_loopback(host))
        );
    }
}
