//! Backups of the database, and their restoration while a server uses it.
//!
//! A restoration changes what differs only, as the commands do: a running server follows it.

use super::change_log::Kind;
use super::{Store, StoreError, schema};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use std::path::Path;

/// Effect of [`Backups::restore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restoration {
    /// The store has the data of the backup afterwards.
    Apply,
    /// Nothing changes.
    DryRun,
}

/// Difference of a backup to the store that it was restored to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Subscribers of the backup that the store did not have.
    pub added: u64,
    /// Subscribers that the backup does not have.
    pub removed: u64,
    /// Subscribers with another password or realm.
    pub changed: u64,
    /// Users with other permanent contacts.
    pub contacts: u64,
    /// Users with other forwards.
    pub forwards: u64,
    /// Block lists that differ, that of all users among them.
    pub blocks: u64,
}

/// Backups of a store.
#[derive(Clone, Copy)]
pub struct Backups<'s> {
    store: &'s Store,
}

impl<'s> Backups<'s> {
    /// The backups of this store.
    pub const fn of(store: &'s Store) -> Self {
        Self { store }
    }

    /// Writes subscribers, permanent contacts, forwards and block lists into a new file, as of one moment. Other programs may
    /// use the store meanwhile. The file is readable by its owner only, as it has what is equivalent to passwords.
    ///
    /// # Errors
    /// The file exists or cannot be written, or a query failed.
    pub fn write(&self, to: &Path) -> Result<(), StoreError> {
        schema::copy(&self.store.lock(), to)
    }

    /// Makes the data of this store that of a backup, or of another database of this program, and returns the difference.
    ///
    /// # Errors
    /// The file is none, is damaged, or has a newer version; a query failed. The store is unchanged then.
    pub fn restore(&self, from: &Path, restoration: Restoration) -> Result<Restored, StoreError> {
        let folder = tempfile::tempdir().map_err(StoreError::io(std::env::temp_dir(), "make a folder"))?;
        let newest = folder.path().join("backup.db");
        let source = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .map_err(|error| schema::from_sqlite(from, error))?;
        schema::check_owner(&source, from)?;
        schema::copy(&source, &newest)?;
        // An earlier schema is brought to the newest one.
        drop(schema::open(&newest)?);
        restore_from(self.store, &newest, Source::Backup, restoration, |_| Ok(()))
    }

    /// Makes the subscribers those of `list`, and returns the difference. Those that stay keep their contacts, forwards and
    /// block lists; the others lose theirs. What `list` has besides subscribers is removed from it.
    ///
    /// # Errors
    /// A query failed. The store is unchanged then.
    pub fn replace_subscribers(
        &self,
        list: &Store,
        restoration: Restoration,
    ) -> Result<Restored, StoreError> {
        restore_from(self.store, list.file(), Source::Subscribers, restoration, |_| Ok(()))
    }

    /// Adds the subscribers of `list`, gives those that exist the passwords of the list, and returns the difference. Nobody is
    /// removed. What `list` has besides subscribers is removed from it.
    ///
    /// # Errors
    /// A query failed. The store is unchanged then.
    pub fn add_subscribers(&self, list: &Store, restoration: Restoration) -> Result<Restored, StoreError> {
        restore_from(self.store, list.file(), Source::MoreSubscribers, restoration, |_| Ok(()))
    }
}

/// Makes the data of a store that of the database in `file`, and runs `also` in the same transaction; or returns the difference only.
pub(super) fn restore_from(
    store: &Store,
    file: &Path,
    source: Source,
    restoration: Restoration,
    also: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
) -> Result<Restored, StoreError> {
    let mut connection = store.lock();
    let path = file.to_string_lossy();
    connection.execute("ATTACH DATABASE ?1 AS backup", [&path]).map_err(store.sql())?;
    let restored = restore(&mut connection, source, restoration, also);
    // Without it the next restoration fails, and says so.
    let _ = connection.execute_batch("DETACH DATABASE backup");
    restored.map_err(store.sql())
}

/// Content of the attached database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// All data.
    Backup,
    /// Subscribers only: what belongs to those that stay is taken over.
    Subscribers,
    /// Some subscribers: the others stay.
    MoreSubscribers,
    /// All users, without block lists: those of users that stay are taken over.
    Provisioned,
}

fn restore(
    connection: &mut Connection,
    source: Source,
    restoration: Restoration,
    also: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<Restored> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match source {
        Source::Backup => {}
        Source::Subscribers | Source::MoreSubscribers => {
            let [subscribers, belongings @ ..] = PARTS;
            if source == Source::MoreSubscribers {
                subscribers.keep(&transaction)?;
            }
            belongings.into_iter().try_for_each(|part| part.take_over(&transaction))?;
        }
        Source::Provisioned => {
            let [_, _, _, blocks] = PARTS;
            blocks.take_over(&transaction)?;
        }
    }
    let count =
        |query: &str| transaction.query_row(query, [], |row| row.get::<_, i64>(0).map(i64::unsigned_abs));
    let only = |one: &str, other: &str| {
        format!(
            "SELECT count(*) FROM (SELECT domain, name FROM {one}.subscriber EXCEPT SELECT domain, name FROM {other}.subscriber)"
        )
    };
    let (added, removed) = (count(&only("backup", "main"))?, count(&only("main", "backup"))?);
    let [subscribers, contacts, forwards, blocks] = PARTS.map(|part| part.restore(&transaction));
    let restored = Restored {
        added,
        removed,
        changed: subscribers?.saturating_sub(added + removed),
        contacts: contacts?,
        forwards: forwards?,
        blocks: blocks?,
    };
    match restoration {
        Restoration::Apply => {
            also(&transaction)?;
            transaction.commit()?;
        }
        Restoration::DryRun => transaction.rollback()?,
    }
    Ok(restored)
}

/// Table whose rows belong to users.
#[derive(Clone, Copy)]
struct Part {
    table: &'static str,
    key: &'static str,
    columns: &'static str,
    kind: Kind,
}

/// A subscriber's change without a row is a removal ([`Store::changes_since`]).
const PARTS: [Part; 4] = [
    Part {
        table: "subscriber",
        key: "domain, name",
        columns: "domain, name, realm, ha1_md5, ha1_sha256",
        kind: Kind::Subscriber,
    },
    Part {
        table: "contact",
        key: "domain, name, contact",
        columns: "domain, name, contact",
        kind: Kind::Contacts,
    },
    Part {
        table: "forward",
        key: "domain, name, condition",
        columns: "domain, name, condition, after_s, uri",
        kind: Kind::Forwards,
    },
    Part {
        table: "block",
        key: "domain, name, kind, pattern",
        columns: "domain, name, kind, pattern, reason, expires_s",
        kind: Kind::Blocks,
    },
];

impl Part {
    /// Makes the rows of the attached database those of this one, but for subscribers that it does not have.
    fn take_over(self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let Self { table, columns, .. } = self;
        transaction.execute(&format!("DELETE FROM backup.{table}"), [])?;
        transaction.execute(
            &format!(
                "INSERT INTO backup.{table} ({columns}) SELECT {columns} FROM main.{table} WHERE (domain, name) NOT IN \
                 (SELECT domain, name FROM main.subscriber EXCEPT SELECT domain, name FROM backup.subscriber)"
            ),
            [],
        )?;
        Ok(())
    }

    /// Adds the rows of this database whose keys the attached one does not have.
    fn keep(self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let Self { table, columns, .. } = self;
        let query =
            format!("INSERT OR IGNORE INTO backup.{table} ({columns}) SELECT {columns} FROM main.{table}");
        transaction.execute(&query, [])?;
        Ok(())
    }

    /// Makes the rows those of the backup, and notes the change of each user that has others; returns their number.
    fn restore(self, transaction: &Transaction<'_>) -> rusqlite::Result<u64> {
        let Self { table, key, columns, kind } = self;
        let kind = kind as i64;
        let only = |one: &str, other: &str| {
            format!("SELECT {columns} FROM {one}.{table} EXCEPT SELECT {columns} FROM {other}.{table}")
        };
        let (old, new) = (only("main", "backup"), only("backup", "main"));
        let users = transaction.execute(
            &format!(
                "INSERT OR REPLACE INTO main.changed (domain, name, kind) SELECT domain, name, {kind} FROM \
                 (SELECT domain, name FROM ({old}) UNION SELECT domain, name FROM ({new}))"
            ),
            [],
        )?;
        transaction
            .execute(&format!("DELETE FROM main.{table} WHERE ({key}) IN (SELECT {key} FROM ({old}))"), [])?;
        transaction.execute(&format!("INSERT INTO main.{table} ({columns}) {new}"), [])?;
        Ok(users as u64)
    }
}
