//! The database of users and block lists, opened by a command.

use crate::config::Config;
use crate::failure::Failure;
use ringway_store::{Store, StoreUrl};
use tempfile::TempDir;

/// Database that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// One that exists: the command shows or changes what is in it.
    Existing,
    /// Any: one that does not exist is created.
    Any,
}

/// Opened database.
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
