//! Errors of provisioning.

use ringway_database::DatabaseError;
use ringway_store::StoreError;

/// Error of reading or changing users of a database server.
#[derive(Debug, thiserror::Error)]
pub enum ProvisioningError {
    /// There is no connection.
    #[error("{0}; is the database running, and are address, name and password right?")]
    Connect(DatabaseError),
    /// The database failed.
    #[error("{0}")]
    Database(#[from] DatabaseError),
    /// The store of this node failed.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The tables are of a later version.
    #[error(
        "its tables are of version {found} and this program has {known}; use the newer ringway that made them, also on the other nodes"
    )]
    Newer {
        /// Version of the tables.
        found: String,
        /// Newest version that this program has.
        known: u32,
    },
    /// The tables cannot be made.
    #[error(
        "the tables cannot be made: {0}; let a user make them who may (docs/databases.md has the statements), or grant CREATE"
    )]
    Create(DatabaseError),
    /// The operator's query returns no column of this name.
    #[error("the query returns no column {0}; name it with AS, as in SELECT login AS username")]
    Column(&'static str),
    /// The database is another one than that of the store, and has no users.
    #[error(
        "this is another database than the one that the users were read from, and it has none: the users are kept; give it users, or \
         remove the file of the copy to begin without any"
    )]
    OtherEmpty,
    /// There are more users than the limit.
    #[error("there are more than {0} users")]
    TooMany(u64),
}
