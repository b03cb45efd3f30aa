//! The database of users and block lists, opened by a command.

use crate::config::Config;
use crate::failure::Failure;
use ringway_sql::connection::DatabaseUrl;
use ringway_sql::provisioning::{ProvisioningError, UserTables};
use ringway_store::{Store, StoreUrl, UserName};
use tempfile::TempDir;

/// Database that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// One that exists: the command shows or changes what is in it.
    Existing,
    /// Any: one that does not exist is created.
    Any,
}

/// Opened database of users.
pub(crate) enum Users {
    /// The file of this machine.
    File(Database),
    /// PostgreSQL or MySQL.
    Server(DatabaseUrl),
}

impl Users {
    /// Opens the users of the configuration; `outside` says where what the command changes is otherwise.
    pub(crate) fn open(config: &Config, wanted: Wanted, outside: &str) -> Result<Self, Failure> {
        match config.store.tables() {
            Some(url) => Ok(Self::Server(url.clone())),
            None => Database::open(config, wanted, outside).map(Self::File),
        }
    }

    /// Refuses a command that changes passwords where these come from the operator's own tables.
    pub(crate) fn check_passwords_are_ours(config: &Config) -> Result<(), Failure> {
        match (&config.store.database, &config.store.query) {
            (Some(url), Some(_)) => Err(Failure::failed(format!(
                "{}: its own tables have the passwords ([store] query); change them there, the server follows",
                url.shown()
            ))),
            _ => Ok(()),
        }
    }

    /// The users of the configuration, whose file on this machine is opened already.
    pub(crate) fn of(config: &Config, file: Database) -> Self {
        config.store.tables().cloned().map_or(Self::File(file), Self::Server)
    }

    /// Changes one user.
    pub(crate) fn edit<T>(
        &self,
        user: &UserName,
        edit: impl FnOnce(&Store) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match self {
            Self::File(database) => edit(&database.store),
            Self::Server(url) => UserTables::open(url)
                .map_err(|error| failed(url, &error))?
                .edit(user, |store| edit(store).map_err(Edit::Failed))
                .map_err(|error| error.on(url)),
        }
    }

    /// Reads or changes any number of users.
    pub(crate) fn edit_all<T>(&self, edit: impl FnOnce(&Store) -> Result<T, Failure>) -> Result<T, Failure> {
        match self {
            Self::File(database) => edit(&database.store),
            Self::Server(url) => {
                let mut tables = UserTables::open(url).map_err(|error| failed(url, &error))?;
                tables.edit_all(|store| edit(store).map_err(Edit::Failed)).map_err(|error| error.on(url))
            }
        }
    }

    /// Notes on standard error that the database is new: it may be in the wrong folder.
    pub(crate) fn note_if_new(&self) {
        match self {
            Self::File(database) => database.note_if_new(),
            Self::Server(_) => {}
        }
    }
}

/// Error of an edit.
enum Edit {
    Failed(Failure),
    Database(ProvisioningError),
}

impl Edit {
    fn on(self, url: &DatabaseUrl) -> Failure {
        match self {
            Self::Failed(failure) => failure,
            Self::Database(error) => failed(url, &error),
        }
    }
}

impl From<ProvisioningError> for Edit {
    fn from(error: ProvisioningError) -> Self {
        Self::Database(error)
    }
}

/// Failure of a database server.
pub(crate) fn failed(url: &DatabaseUrl, error: &ProvisioningError) -> Failure {
    Failure::failed(format!("{}: {error}", url.shown()))
}

/// Opened database of this machine.
pub(crate) struct Database {
    pub(crate) store: Store,
    is_new: bool,
}

impl Database {
    /// Opens the database of the configuration; `outside` says where what the command changes is otherwise.
    pub(crate) fn open(config: &Config, wanted: Wanted, outside: &str) -> Result<Self, Failure> {
        let StoreUrl::Sqlite(file) = &config.store.url else {
            let source = config.source();
            return Err(Failure::usage(format!(
                "{source}: [store] url is memory:, so {outside}; set url = \"sqlite://ringway.db\""
            )));
        };
        let is_new = !file.exists();
        if is_new && wanted == Wanted::Existing {
            return Err(Failure::failed(format!(
                "{}: there is no database and therefore no user; create it with `ringway user add NAME`, or give its \
                 configuration with --config",
                file.display()
            )));
        }
        Ok(Self { store: Store::open(&config.store.url)?, is_new })
    }

    /// A list of users in a folder that is removed with the result.
    pub(crate) fn temporary() -> Result<(TempDir, Store), Failure> {
        let folder = tempfile::tempdir().map_err(|error| {
            Failure::failed(format!("{}: no folder can be made: {error}", std::env::temp_dir().display()))
        })?;
        let list = Store::open(&StoreUrl::Sqlite(folder.path().join("list.db")))?;
        Ok((folder, list))
    }

    /// Notes on standard error that the database is new: it may be in the wrong folder.
    pub(crate) fn note_if_new(&self) {
        if self.is_new {
            let file = self.store.file();
            let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
            eprintln!(
                "ringway: note: {}: this database is new; a server reads it if it runs in the same folder or its [store] url is \
                 this file",
                file.display()
            );
        }
    }
}
