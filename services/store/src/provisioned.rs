//! Users that come from a database server, written into the store of a node.
//!
//! Only what differs is written, and each difference is noted as a change, so that a running server follows it.

use super::backup::{Restoration, Restored, Source, restore_from};
use super::rows::{Kind, Unreadable, note};
use super::subscribers::{SubscriberRow, insert_row};
use super::{Store, StoreError, forwards, schema};
use ringway_users::{Forwards, Hashes, UserName};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::path::{Path, PathBuf};

/// A user as a whole; a user without password and contacts does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserState {
    /// Realm and hashes of the password.
    pub password: Option<(String, Hashes)>,
    /// Permanent contacts, sorted.
    pub contacts: Vec<String>,
    /// Forwards.
    pub forwards: Forwards,
}

/// Point up to which a store follows a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Name of the source: URL and query.
    pub source: String,
    /// Identity of the database and its tables.
    pub database: String,
    /// Position in its changes, in the words of who wrote it.
    pub changes: String,
    /// Time at which it was reached, in seconds since the epoch.
    pub at_s: u64,
}

/// Users of a store that come from a database server.
#[derive(Clone, Copy)]
pub struct Provisioned<'s> {
    store: &'s Store,
}

/// All users of a database server, collected in a file beside the store before they are compared with it.
pub struct Incoming {
    connection: Connection,
    file: IncomingFile,
}

/// Receives rows of [`Incoming`]. A row that was passed already is passed over.
pub struct IncomingRows<'t> {
    transaction: Transaction<'t>,
}

impl<'s> Provisioned<'s> {
    /// The users of this store.
    pub const fn of(store: &'s Store) -> Self {
        Self { store }
    }

    /// Point up to which the store follows a database; `None`: it never did.
    ///
    /// # Errors
    /// A query failed.
    pub fn position(&self) -> Result<Option<Position>, StoreError> {
        let connection = self.store.lock();
        let value = |key: &str| {
            connection
                .query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get::<_, String>(0))
                .optional()
                .map_err(self.store.sql())
        };
        let (Some(source), Some(database), Some(changes), Some(at)) =
            (value(SOURCE_KEY)?, value(DATABASE_KEY)?, value(CHANGES_KEY)?, value(AT_KEY)?)
        else {
            return Ok(None);
        };
        Ok(Some(Position { source, database, changes, at_s: at.parse().unwrap_or_default() }))
    }

    /// Forgets the database that the users came from: they are the store's own from now on.
    ///
    /// # Errors
    /// A query failed.
    pub fn forget(&self) -> Result<(), StoreError> {
        let forget = "DELETE FROM meta WHERE key LIKE 'provisioned\\_%' ESCAPE '\\'";
        self.store.lock().execute(forget, []).map(|_| ()).map_err(self.store.sql())
    }

    /// An empty list of users.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn incoming(&self) -> Result<Incoming, StoreError> {
        let mut path = self.store.file().as_os_str().to_owned();
        path.push(".incoming");
        let file = IncomingFile(path.into());
        file.remove();
        Ok(Incoming { connection: schema::open_scratch(&file.0)?, file })
    }

    /// Adds rows to an empty store, without notes of changes.
    ///
    /// # Errors
    /// A query or `fill` failed.
    pub fn fill<T, E: From<StoreError>>(
        &self,
        fill: impl FnOnce(&IncomingRows<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        fill_rows(&mut self.store.lock(), self.store.file(), fill)
    }

    /// Makes the users of the store those of the list, and returns the difference. Block lists of users that stay are kept.
    ///
    /// # Errors
    /// A query failed. The store is unchanged then.
    pub fn replace(&self, list: Incoming, position: &Position) -> Result<Restored, StoreError> {
        self.replace_by(list, Source::Provisioned, position)
    }

    /// Makes the passwords of the store those of the list, and returns the difference. Users that stay keep their contacts, forwards
    /// and block lists; the others lose them.
    ///
    /// # Errors
    /// A query failed. The store is unchanged then.
    pub fn replace_passwords(&self, list: Incoming, position: &Position) -> Result<Restored, StoreError> {
        self.replace_by(list, Source::Subscribers, position)
    }

    fn replace_by(
        &self,
        list: Incoming,
        source: Source,
        position: &Position,
    ) -> Result<Restored, StoreError> {
        let Incoming { connection, file } = list;
        drop(connection);
        restore_from(self.store, &file.0, source, Restoration::Apply, |transaction| {
            write_position(transaction, position)
        })
    }

    /// Gives users a new state, and returns the number of those that were changed by it.
    ///
    /// # Errors
    /// A query failed. The store is unchanged then.
    pub fn put(&self, users: &[(UserName, UserState)], position: &Position) -> Result<u64, StoreError> {
        self.store.write(|transaction| {
            let mut changed = 0;
            for (user, state) in users {
                let unreadable = &self.store.unreadable;
                changed += u64::from(put(transaction, user, state, unreadable).map_err(self.store.sql())?);
            }
            write_position(transaction, position).map_err(self.store.sql())?;
            Ok(changed)
        })
    }

    /// Number of users with a password.
    ///
    /// # Errors
    /// A query failed.
    pub fn subscribers(&self) -> Result<u64, StoreError> {
        let count =
            self.store.lock().query_row("SELECT count(*) FROM subscriber", [], |row| row.get::<_, i64>(0));
        count.map(i64::unsigned_abs).map_err(self.store.sql())
    }

    /// State of a user.
    ///
    /// # Errors
    /// A query failed.
    pub fn user(&self, user: &UserName) -> Result<UserState, StoreError> {
        read(&self.store.lock(), user, &self.store.unreadable).map_err(self.store.sql())
    }
}

impl Incoming {
    /// Adds rows.
    ///
    /// # Errors
    /// A query or `fill` failed.
    pub fn fill<T, E: From<StoreError>>(
        &mut self,
        fill: impl FnOnce(&IncomingRows<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        fill_rows(&mut self.connection, &self.file.0, fill)
    }
}

fn fill_rows<T, E: From<StoreError>>(
    connection: &mut Connection,
    path: &Path,
    fill: impl FnOnce(&IncomingRows<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let sql = |error| E::from(schema::from_sqlite(path, error));
    let transaction = connection.transaction().map_err(sql)?;
    let rows = IncomingRows { transaction };
    let filled = fill(&rows)?;
    rows.transaction.commit().map_err(sql)?;
    Ok(filled)
}

impl IncomingRows<'_> {
    /// Adds a user with a password.
    ///
    /// # Errors
    /// A query failed.
    pub fn subscriber(&self, user: &UserName, realm: &str, hashes: &Hashes) -> Result<(), StoreError> {
        insert_row(&self.transaction, user, realm, hashes).map(|_| ()).map_err(sql)
    }

    /// Adds a permanent contact.
    ///
    /// # Errors
    /// A query failed.
    pub fn contact(&self, user: &UserName, contact: &str) -> Result<(), StoreError> {
        let mut insert = self
            .transaction
            .prepare_cached("INSERT OR IGNORE INTO contact (domain, name, contact) VALUES (?1, ?2, ?3)")
            .map_err(sql)?;
        insert.execute(params![user.domain(), user.name(), contact]).map(|_| ()).map_err(sql)
    }

    /// Sets the forwards of a user.
    ///
    /// # Errors
    /// A query failed.
    pub fn forwards(&self, user: &UserName, of_user: &Forwards) -> Result<(), StoreError> {
        forwards::write(&self.transaction, user, of_user).map_err(sql)
    }
}

/// A file that is removed with the value.
struct IncomingFile(PathBuf);

impl IncomingFile {
    fn remove(&self) {
        // It is absent most of the time; an old one that stays makes the next step fail.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Drop for IncomingFile {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Gives a user a new state. False: it had that state.
fn put(
    transaction: &Transaction<'_>,
    user: &UserName,
    new: &UserState,
    unreadable: &Unreadable,
) -> rusqlite::Result<bool> {
    let old = read(transaction, user, unreadable)?;
    let key = params![user.domain(), user.name()];
    if old.password != new.password {
        transaction.execute("DELETE FROM subscriber WHERE domain = ?1 AND name = ?2", key)?;
        let kind = match &new.password {
            Some((realm, hashes)) => {
                insert_row(transaction, user, realm, hashes)?;
                Kind::Subscriber
            }
            None => {
                if transaction.execute("DELETE FROM block WHERE domain = ?1 AND name = ?2", key)? > 0 {
                    note(transaction, user.domain(), user.name(), Kind::Blocks)?;
                }
                Kind::Removed
            }
        };
        note(transaction, user.domain(), user.name(), kind)?;
    }
    if old.contacts != new.contacts {
        transaction.execute("DELETE FROM contact WHERE domain = ?1 AND name = ?2", key)?;
        for contact in &new.contacts {
            transaction
                .prepare_cached("INSERT OR IGNORE INTO contact (domain, name, contact) VALUES (?1, ?2, ?3)")?
                .execute(params![user.domain(), user.name(), contact])?;
        }
        note(transaction, user.domain(), user.name(), Kind::Contacts)?;
    }
    if old.forwards != new.forwards {
        forwards::replace(transaction, user, &new.forwards)?;
    }
    Ok(old != *new)
}

fn read(connection: &Connection, user: &UserName, unreadable: &Unreadable) -> rusqlite::Result<UserState> {
    let key = params![user.domain(), user.name()];
    let password = connection
        .prepare_cached(&format!(
            "SELECT {} FROM subscriber WHERE domain = ?1 AND name = ?2",
            SubscriberRow::COLUMNS
        ))?
        .query_row(key, |row| {
            let read = unreadable.pass("subscriber", row, SubscriberRow::read(row));
            Ok(read.map(|subscriber| (subscriber.realm.to_owned(), subscriber.hashes())))
        })
        .optional()?
        .flatten();
    let mut contacts = connection
        .prepare_cached("SELECT contact FROM contact WHERE domain = ?1 AND name = ?2 ORDER BY contact")?;
    let contacts = contacts.query_map(key, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let forwards = forwards::read(connection, user.domain(), user.name(), unreadable)?;
    Ok(UserState { password, contacts, forwards })
}

fn write_position(transaction: &Transaction<'_>, position: &Position) -> rusqlite::Result<()> {
    let at = position.at_s.to_string();
    for (key, value) in [
        (SOURCE_KEY, &position.source),
        (DATABASE_KEY, &position.database),
        (CHANGES_KEY, &position.changes),
        (AT_KEY, &at),
    ] {
        transaction
            .prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)")?
            .execute(params![key, value])?;
    }
    Ok(())
}

/// Error of the file of [`Incoming`].
fn sql(error: rusqlite::Error) -> StoreError {
    schema::from_sqlite("the list of users read from the database".as_ref(), error)
}

const SOURCE_KEY: &str = "provisioned_source";
const DATABASE_KEY: &str = "provisioned_database";
const CHANGES_KEY: &str = "provisioned_changes";
const AT_KEY: &str = "provisioned_at";
