//! Backups of the database, and their restoration while a server uses it.
//!
//! A restoration changes what differs only, as the commands do: a running server follows it. A backup is a file that somebody gave:
//! its rows are read and checked one by one, and nothing in it is run as a query.

use super::rows::{self, Fault, Kind};
use super::{BLOCKS_MAX, Store, StoreError, SubscriberRow, blocks, forwards, schema};
use rusqlite::limits::Limit;
use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, OpenFlags, Row, Transaction, TransactionBehavior, params_from_iter};
use std::path::{Path, PathBuf};

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
    /// The file is none, is damaged, has a newer version, or has a row that no command writes; a query failed. The store is
    /// unchanged then.
    pub fn restore(&self, from: &Path, restoration: Restoration) -> Result<Restored, StoreError> {
        let folder = tempfile::tempdir().map_err(StoreError::io(std::env::temp_dir(), "make a folder"))?;
        let newest = folder.path().join("backup.db");
        BackupFile::open(from)?.copy_to(&newest)?;
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

/// A file to restore from, which may have anything in it.
struct BackupFile {
    connection: Connection,
    version: i64,
    path: PathBuf,
}

impl BackupFile {
    fn open(path: &Path) -> Result<Self, StoreError> {
        let sql = |error| schema::from_sqlite(path, error);
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(sql)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, COLUMN_BYTES_MAX).map_err(sql)?;
        let version = schema::check_owner(&connection, path)?;
        Ok(Self { connection, version, path: path.to_owned() })
    }

    /// Copies the rows of users into a new database.
    fn copy_to(&self, newest: &Path) -> Result<(), StoreError> {
        let mut copy = schema::open_scratch(newest)?;
        let sql = |error| schema::from_sqlite(newest, error);
        let transaction = copy.transaction().map_err(sql)?;
        for table in Table::ALL.into_iter().filter(|table| self.version >= table.since()) {
            self.check_table(table)?;
            self.copy_table(table, &transaction)?;
        }
        transaction.commit().map_err(sql)
    }

    /// Refuses a view, a virtual table, and computed columns: reading them would run what is in the file.
    fn check_table(&self, table: Table) -> Result<(), StoreError> {
        let name = table.name();
        let query = "SELECT count(*) FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE AND type = 'table' AND rootpage > 0
                         AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo(?1) WHERE hidden <> 0)";
        let found: i64 =
            self.connection.query_row(query, [name], |row| row.get(0)).map_err(|error| self.sql(error))?;
        match found {
            1 => Ok(()),
            _ => Err(self.corrupt(format!("it has no plain table {name}"))),
        }
    }

    fn copy_table(&self, table: Table, to: &Transaction<'_>) -> Result<(), StoreError> {
        let (name, columns) = (table.name(), table.columns());
        let count = columns.split(',').count();
        let values = vec!["?"; count].join(", ");
        let insert = format!("INSERT OR IGNORE INTO {name} ({columns}) VALUES ({values})");
        let sql = |error| self.sql(error);
        let mut insert = to.prepare(&insert).map_err(sql)?;
        let select = format!("SELECT {} FROM {name}", table.values(self.version));
        let mut select = self.connection.prepare(&select).map_err(sql)?;
        let mut rows = select.query([]).map_err(sql)?;
        let mut number = 0;
        while let Some(row) = rows.next().map_err(sql)? {
            number += 1;
            let refused = |fault| StoreError::BackupRow {
                file: self.path.clone(),
                table: name,
                row: number,
                user: rows::user_shown(row),
                fault,
            };
            check(table, row).map_err(refused)?;
            if number > table.rows_max() {
                return Err(refused(format!("the table has more than {} rows", table.rows_max())));
            }
            let values: rusqlite::Result<Vec<_>> =
                (0..count).map(|column| row.get_ref(column).map(ToSqlOutput::Borrowed)).collect();
            // Rows of a page that is in the file several times come again, too: the copy is never longer than the file.
            if insert.execute(params_from_iter(values.map_err(sql)?)).map_err(sql)? == 0 {
                return Err(refused("an earlier row has the same key".to_owned()));
            }
        }
        Ok(())
    }

    fn sql(&self, error: rusqlite::Error) -> StoreError {
        schema::from_sqlite(&self.path, error)
    }

    fn corrupt(&self, detail: String) -> StoreError {
        StoreError::Corrupt { file: self.path.clone(), detail }
    }
}

/// Checks a row with the columns of a [`Table`].
fn check(table: Table, row: &Row<'_>) -> Result<(), Fault> {
    match table {
        Table::Subscriber => SubscriberRow::read(row).map(drop),
        Table::Contact => rows::contact(row).map(drop),
        Table::Forward => rows::user(row).and_then(|_| forwards::forward(row)).map(drop),
        Table::Block => blocks::row_of(row).map(drop),
    }
}

/// Table whose rows belong to users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Subscriber,
    Contact,
    Forward,
    Block,
}

impl Table {
    const ALL: [Self; 4] = [Self::Subscriber, Self::Contact, Self::Forward, Self::Block];

    const fn name(self) -> &'static str {
        match self {
            Self::Subscriber => "subscriber",
            Self::Contact => "contact",
            Self::Forward => "forward",
            Self::Block => "block",
        }
    }

    /// Columns, of which the first two are domain and name.
    const fn columns(self) -> &'static str {
        match self {
            Self::Subscriber => SubscriberRow::COLUMNS,
            Self::Contact => "domain, name, contact",
            Self::Forward => "domain, name, condition, after_s, uri",
            Self::Block => "domain, name, kind, pattern, reason, expires_s",
        }
    }

    /// Values of the columns in a database of a schema version.
    const fn values(self, version: i64) -> &'static str {
        match self {
            Self::Subscriber if version < 4 => "domain, name, realm, ha1_md5, ha1_sha256, NULL, NULL",
            Self::Subscriber | Self::Contact | Self::Forward | Self::Block => self.columns(),
        }
    }

    /// Schema version that brought the table.
    const fn since(self) -> i64 {
        match self {
            Self::Subscriber | Self::Contact => 1,
            Self::Forward => 2,
            Self::Block => 3,
        }
    }

    /// Maximum number of rows.
    const fn rows_max(self) -> u64 {
        match self {
            Self::Block => BLOCKS_MAX,
            Self::Subscriber | Self::Contact | Self::Forward => u64::MAX,
        }
    }
}

/// Maximum length of a column.
const COLUMN_BYTES_MAX: i32 = 1 << 20;

/// Table whose rows belong to users.
#[derive(Clone, Copy)]
struct Part {
    table: Table,
    key: &'static str,
    kind: Kind,
}

/// A subscriber's change without a row is a removal ([`Store::changes_since`]).
const PARTS: [Part; 4] = [
    Part { table: Table::Subscriber, key: "domain, name", kind: Kind::Subscriber },
    Part { table: Table::Contact, key: "domain, name, contact", kind: Kind::Contacts },
    Part { table: Table::Forward, key: "domain, name, condition", kind: Kind::Forwards },
    Part { table: Table::Block, key: "domain, name, kind, pattern", kind: Kind::Blocks },
];

impl Part {
    /// Makes the rows of the attached database those of this one, but for subscribers that it does not have.
    fn take_over(self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        let (table, columns) = (self.table.name(), self.table.columns());
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
        let (table, columns) = (self.table.name(), self.table.columns());
        let query =
            format!("INSERT OR IGNORE INTO backup.{table} ({columns}) SELECT {columns} FROM main.{table}");
        transaction.execute(&query, [])?;
        Ok(())
    }

    /// Makes the rows those of the backup, and notes the change of each user that has others; returns their number.
    fn restore(self, transaction: &Transaction<'_>) -> rusqlite::Result<u64> {
        let (table, columns) = (self.table.name(), self.table.columns());
        let (key, kind) = (self.key, self.kind as i64);
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
