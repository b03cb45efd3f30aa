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
        known: &'static str,
    },
    /// Tables or triggers are missing.
    #[error(
        "tables or triggers of Ringway are missing; if a restore is under way, let it end; otherwise make them by the statements of \
         docs/recipes/databases.md"
    )]
    Incomplete,
    /// The tables cannot be made.
    #[error(
        "the tables cannot be made: {0}; let a user make them who may: docs/recipes/databases.md has the statements, and what MySQL needs for triggers"
    )]
    Create(DatabaseError),
    /// The table of registrations cannot be made.
    #[error(
        "the table ringway_location cannot be made: {0}; docs/recipes/databases.md has the statement, for a user who may"
    )]
    CreateLocation(DatabaseError),
    /// There is no table of registrations.
    #[error("there is no table ringway_location yet; the server makes it if its user may (CREATE)")]
    NoLocationTable,
    /// The operator's query returns no column of this name.
    #[error("the query returns no column {0}; name it with AS, as in SELECT login AS username")]
    Column(&'static str),
    /// The database is another one than that of the store, and has no users.
    #[error(
        "this is another database than the one that the users were read from, and it has none: the users are kept; give it users, or \
         remove the file of the copy to begin without any"
    )]
    OtherEmpty,
    /// The file that is to be the copy has users that come from no database.
    #[error(
        "{file} has {users} users of its own, which a copy of the database would replace: take them into the database by `ringway backup` \
         before and `ringway restore` after the change of [store], or give [store] copy another name"
    )]
    OwnUsers {
        /// The file.
        file: String,
        /// Number of its users.
        users: u64,
    },
    /// Another command, or a dashboard, changes users.
    #[error("another command changes users; try again")]
    Busy,
    /// A row of the user that was to be changed is invalid, and would be lost.
    #[error("{0}; correct it in the database before")]
    InvalidRow(String),
    /// There are more users than the limit.
    #[error("there are more than {0} users")]
    TooMany(u64),
}
