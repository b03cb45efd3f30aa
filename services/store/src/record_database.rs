//! Table of call records in a SQLite database of its own.

use super::schema::from_sqlite;
use super::{StoreError, schema};
use rusqlite::{Connection, TransactionBehavior, params};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Record of a call, as it is stored. Times are text in RFC 3339.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names of the record's fields; the user guide has their meaning")]
pub struct RecordRow<'a> {
    pub call_id: &'a str,
    pub from: &'a str,
    pub to: &'a str,
    pub caller: Option<&'a str>,
    pub callee: Option<&'a str>,
    pub source: &'a str,
    pub begun: &'a str,
    pub ringing: Option<&'a str>,
    pub answered: Option<&'a str>,
    pub ended: &'a str,
    pub duration_s: Option<f64>,
    pub status: u16,
    pub reason: &'a str,
    pub diverted: Option<&'a str>,
    pub target: Option<&'a str>,
}

/// Database of call records.
#[derive(Debug)]
pub struct RecordDatabase {
    connection: Connection,
    file: PathBuf,
}

impl RecordDatabase {
    /// Opens the database; creates it, readable by its owner only, if necessary.
    ///
    /// # Errors
    /// The file is damaged, belongs to another program, or has a newer version; a file operation failed.
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        if !file.exists() {
            // An error here is reported by the following open.
            let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
        }
        let sql = |error| from_sqlite(file, error);
        let connection = Connection::open(file).map_err(sql)?;
        connection.busy_timeout(BUSY_WAIT_MAX).map_err(sql)?;
        let number = |name| schema::pragma(&connection, name);
        let is_empty =
            || connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0));
        match number("application_id").map_err(sql)? {
            APPLICATION_ID => {
                let found = number("user_version").map_err(sql)?;
                if found > SCHEMA_VERSION {
                    let file = file.to_owned();
                    return Err(StoreError::Newer { file, found, known: SCHEMA_VERSION });
                }
            }
            0 if is_empty().map_err(sql)? == 0 => {
                connection.execute_batch(&created()).map_err(sql)?;
            }
            _ => {
                let detail = "it is the database of something else than call records".to_owned();
                return Err(StoreError::Corrupt { file: file.to_owned(), detail });
            }
        }
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).map_err(sql)?;
        connection.pragma_update(None, "synchronous", "NORMAL").map_err(sql)?;
        Ok(Self { connection, file: file.to_owned() })
    }

    /// Path of the database.
    pub fn path(&self) -> &Path {
        &self.file
    }

    /// Appends all rows, or none.
    ///
    /// # Errors
    /// A statement failed: the disk is full, or another program holds the database.
    pub fn append<'a>(&mut self, rows: impl Iterator<Item = RecordRow<'a>>) -> Result<(), StoreError> {
        let Self { connection, file } = self;
        let append = || {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            {
                let mut insert = transaction.prepare_cached(INSERT)?;
                for row in rows {
                    insert.execute(params![
                        row.call_id,
                        row.from,
                        row.to,
                        row.caller,
                        row.callee,
                        row.source,
                        row.begun,
                        row.ringing,
                        row.answered,
                        row.ended,
                        row.duration_s,
                        row.status,
                        row.reason,
                        row.diverted,
                        row.target,
                    ])?;
                }
            }
            transaction.commit()
        };
        append().map_err(|error| from_sqlite(file, error))
    }

    /// Removes at most 10,000 records that ended before this time, in RFC 3339; returns their number.
    ///
    /// # Errors
    /// A statement failed.
    pub fn remove_before(&mut self, time: &str) -> Result<usize, StoreError> {
        let removed = self.connection.execute(REMOVE, params![time]);
        removed.map_err(|error| from_sqlite(&self.file, error))
    }
}

fn created() -> String {
    format!(
        "BEGIN IMMEDIATE; {TABLE} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )
}

/// "RNGC" in SQLite's `application_id`.
const APPLICATION_ID: i64 = 0x524e_4743;
const SCHEMA_VERSION: i64 = 1;
/// The thread that writes records may wait; nothing waits for it.
const BUSY_WAIT_MAX: Duration = Duration::from_secs(2);

const TABLE: &str = "
CREATE TABLE call_record (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    call_id TEXT NOT NULL,
    from_uri TEXT NOT NULL,
    to_uri TEXT NOT NULL,
    caller TEXT,
    callee TEXT,
    source TEXT NOT NULL,
    begun TEXT NOT NULL,
    ringing TEXT,
    answered TEXT,
    ended TEXT NOT NULL,
    duration_s REAL,
    status INTEGER NOT NULL,
    reason TEXT NOT NULL,
    diverted TEXT,
    target TEXT
);
CREATE INDEX call_record_ended ON call_record (ended);
";

const INSERT: &str = "
INSERT INTO call_record (call_id, from_uri, to_uri, caller, callee, source, begun, ringing, answered, ended, duration_s,
    status, reason, diverted, target)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";

/// Maximum number of records that [`RecordDatabase::remove_before`] removes at once.
pub const REMOVED_MAX: usize = 10_000;
const REMOVE: &str = "DELETE FROM call_record WHERE id IN (SELECT id FROM call_record WHERE ended < ?1 ORDER BY ended LIMIT 10000)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_added_found_and_removed_by_age() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("calls.db");
        let row =
            |ended| RecordRow { call_id: "x'; DROP TABLE call_record; --", ended, ..RecordRow::default() };
        let mut database = RecordDatabase::open(&file).unwrap();
        database
            .append(["2026-01-01T00:00:00.000Z", "2026-01-03T00:00:00.000Z"].map(row).into_iter())
            .unwrap();
        drop(database);
        let mut database = RecordDatabase::open(&file).unwrap();
        assert_eq!(database.remove_before("2026-01-02T00:00:00.000Z").unwrap(), 1);
        let left: String = database
            .connection
            .query_row("SELECT group_concat(ended || call_id) FROM call_record", [], |row| row.get(0))
            .unwrap();
        assert_eq!(left, "2026-01-03T00:00:00.000Zx'; DROP TABLE call_record; --");
    }

    #[test]
    fn the_database_of_the_users_is_not_taken_for_one_of_records() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ringway.db");
        crate::Store::open(&crate::StoreUrl::Sqlite(file.clone())).unwrap();
        assert!(RecordDatabase::open(&file).is_err());
    }
}
