//! Errors of a migration.

/// Error of reading another server's database.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// The URL is none of a database that can be read.
    #[error(
        "{0:?} is no database; write sqlite:///etc/kamailio/kamailio.sqlite, mysql://USER@HOST/kamailio or postgres://USER@HOST/kamailio"
    )]
    Url(String),
    /// The database cannot be opened.
    #[error("{url}: it cannot be opened: {why}; check the address, the name and --password-stdin")]
    Open {
        /// The database, without a password.
        url: String,
        /// The reason.
        why: String,
    },
    /// A query failed.
    #[error("{url}: table {table}: {why}")]
    Query {
        /// The database, without a password.
        url: String,
        /// The table.
        table: String,
        /// The reason.
        why: String,
    },
    /// The database has no table of subscribers.
    #[error(
        "{url}: it has no table `subscriber` with the columns username and domain; is it the database of {origin}?"
    )]
    NoSubscribers {
        /// The database, without a password.
        url: String,
        /// The server that was named.
        origin: &'static str,
    },
}
