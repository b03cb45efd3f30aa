//! Call records: a table in a SQLite database of its own, or a file with one line for each record.

use super::schema::from_sqlite;
use super::{StoreError, schema};
use rusqlite::{Connection, TransactionBehavior, params, params_from_iter};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

/// Record of a call, as it is stored. Times are text in RFC 3339.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(
    missing_docs,
    reason = "the names of the record's fields; docs/recipes/call-records.md has their meaning"
)]
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
    pub origin: RecordOrigin,
}

/// Cause of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordOrigin {
    /// A user, or somebody who is believed.
    #[default]
    User,
    /// Anyone: the caller proved nothing.
    Stranger,
}

/// Database of call records.
#[derive(Debug)]
pub struct RecordDatabase {
    connection: Connection,
    file: PathBuf,
    /// Bytes of the records of strangers, estimated.
    strangers_bytes: i64,
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
        match version(&connection, file)? {
            None => connection.execute_batch(&created()).map_err(sql)?,
            Some(found) if found < SCHEMA_VERSION => connection.execute_batch(&migrated()).map_err(sql)?,
            Some(_) => {}
        }
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).map_err(sql)?;
        connection.pragma_update(None, "synchronous", "NORMAL").map_err(sql)?;
        let strangers_bytes = strangers_bytes(&connection, file)?;
        Ok(Self { connection, file: file.to_owned(), strangers_bytes })
    }

    /// Checks that [`RecordDatabase::open`] would open the database, without changing it.
    ///
    /// # Errors
    /// As [`RecordDatabase::open`].
    pub fn check(file: &Path) -> Result<(), StoreError> {
        let connection = schema::connect_existing(file)?;
        connection.map_or(Ok(()), |connection| version(&connection, file).map(drop))
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
        let Self { connection, file, strangers_bytes } = self;
        let mut added = 0;
        let append = || {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            {
                let mut insert = transaction.prepare_cached(INSERT)?;
                for row in rows {
                    let of_stranger = row.of_stranger();
                    added += of_stranger.unwrap_or_default();
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
                        of_stranger,
                    ])?;
                }
            }
            transaction.commit()
        };
        append().map_err(|error| from_sqlite(file, error))?;
        *strangers_bytes += added;
        Ok(())
    }

    /// Removes the oldest records until their pages have at most `bytes_max` bytes, and those of strangers at most a quarter of it.
    ///
    /// It removes at most 1,000 records in a transaction, and 8,000 in all; the file becomes no shorter, and free pages are used again.
    ///
    /// # Errors
    /// A statement failed.
    pub fn shrink(&mut self, bytes_max: u64) -> Result<usize, StoreError> {
        let bytes_max = i64::try_from(bytes_max).unwrap_or(i64::MAX);
        let mut removed = 0;
        for _ in 0..SHRINK_ROUNDS {
            let statement = if self.strangers_bytes > bytes_max / STRANGERS_PART {
                REMOVE_OLDEST_OF_STRANGERS
            } else if self.used_bytes()? > bytes_max {
                REMOVE_OLDEST
            } else {
                break;
            };
            let count = self.remove(statement, [])?;
            removed += count;
            if count == 0 {
                if self.strangers_bytes == 0 {
                    break;
                }
                // Another program has removed rows.
                self.strangers_bytes = strangers_bytes(&self.connection, &self.file)?;
            }
        }
        Ok(removed)
    }

    /// Bytes of all pages that are in use.
    ///
    /// # Errors
    /// A statement failed.
    pub fn used_bytes(&self) -> Result<i64, StoreError> {
        let number = |name| schema::pragma(&self.connection, name);
        let used = || Ok((number("page_count")? - number("freelist_count")?) * number("page_size")?);
        used().map_err(|error| from_sqlite(&self.file, error))
    }

    /// Removes at most 10,000 records that ended before this time, in RFC 3339; returns their number.
    ///
    /// # Errors
    /// A statement failed.
    pub fn remove_before(&mut self, time: &str) -> Result<usize, StoreError> {
        self.remove(REMOVE, [time])
    }

    /// Executes a statement that returns the bytes of each record of a stranger that it removed, or NULL.
    fn remove<const N: usize>(&mut self, sql: &str, values: [&str; N]) -> Result<usize, StoreError> {
        let remove = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let rows = statement.query_map(params_from_iter(values), |row| row.get::<_, Option<i64>>(0))?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        let removed = remove().map_err(|error| from_sqlite(&self.file, error))?;
        let of_strangers: i64 = removed.iter().flatten().sum();
        self.strangers_bytes -= of_strangers;
        Ok(removed.len())
    }
}

impl RecordRow<'_> {
    /// Estimate of its bytes, if it is a stranger's.
    fn of_stranger(&self) -> Option<i64> {
        let texts = [self.call_id, self.from, self.to, self.source, self.begun, self.ended, self.reason];
        let more = [self.caller, self.callee, self.ringing, self.answered, self.diverted, self.target];
        let bytes = texts.into_iter().chain(more.into_iter().flatten()).map(str::len).sum::<usize>();
        match self.origin {
            RecordOrigin::User => None,
            RecordOrigin::Stranger => Some(ROW_BYTES + bytes as i64),
        }
    }
}

/// Version of the schema; `None`: the database is new. Refuses one of a later version, and that of something else.
fn version(connection: &Connection, file: &Path) -> Result<Option<i64>, StoreError> {
    let sql = |error| from_sqlite(file, error);
    let number = |name| schema::pragma(connection, name).map_err(sql);
    match number("application_id")? {
        APPLICATION_ID => match number("user_version")? {
            found if found > SCHEMA_VERSION => {
                Err(StoreError::Newer { file: file.to_owned(), found, known: SCHEMA_VERSION })
            }
            found => Ok(Some(found)),
        },
        0 if schema::is_empty(connection).map_err(sql)? => Ok(None),
        _ => {
            let detail = "it is the database of something else than call records".to_owned();
            Err(StoreError::Corrupt { file: file.to_owned(), detail })
        }
    }
}

fn strangers_bytes(connection: &Connection, file: &Path) -> Result<i64, StoreError> {
    connection.query_row(STRANGERS_BYTES, [], |row| row.get(0)).map_err(|error| from_sqlite(file, error))
}

fn created() -> String {
    format!(
        "BEGIN IMMEDIATE; {TABLE} {COLUMN_2} PRAGMA application_id = {APPLICATION_ID}; \
         PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )
}

/// Statements for a database of version 1, whose records count as those of users.
fn migrated() -> String {
    format!("BEGIN IMMEDIATE; {COLUMN_2} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
}

/// File that lines are appended to. A line is whole or absent: what a failed write has left is removed.
///
/// The file may be renamed or removed while it is open, as a rotation of logs does: the next lines go into a new one.
///
/// With a limit there are at most two files, `FILE` and the older `FILE.1`, each of at most half of it. `FILE.1` is replaced when
/// `FILE` is full.
#[derive(Debug)]
pub struct RecordFile {
    path: PathBuf,
    older: PathBuf,
    file: Option<File>,
    /// Maximum length of one file.
    len_max: Option<u64>,
    removed: u64,
}

impl RecordFile {
    /// Opens the file; creates it, readable by its owner only, if necessary. `bytes_max`: of it and the older one.
    ///
    /// # Errors
    /// It cannot be opened for writing, or is no regular file.
    pub fn open(path: &Path, bytes_max: Option<u64>) -> io::Result<Self> {
        Ok(Self { file: Some(open(path)?), ..Self::closed(path, bytes_max) })
    }

    /// Checks that [`RecordFile::open`] would open the file, without changing it.
    ///
    /// # Errors
    /// As [`RecordFile::open`].
    pub fn check(path: &Path) -> io::Result<()> {
        check_is_regular(path)?;
        match OpenOptions::new().read(true).append(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                // It has no name, and is gone when it is closed.
                tempfile::tempfile_in(folder.unwrap_or_else(|| Path::new("."))).map(drop)
            }
            opened => opened.map(drop),
        }
    }

    /// The file, which the first lines open.
    pub fn closed(path: &Path, bytes_max: Option<u64>) -> Self {
        let mut older = path.as_os_str().to_owned();
        older.push(".1");
        let len_max = bytes_max.map(|bytes| bytes / 2);
        Self { path: path.to_owned(), older: older.into(), file: None, len_max, removed: 0 }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Closes the file; the next lines open it again.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// Number of older files that were replaced because of the limit.
    pub const fn removed(&self) -> u64 {
        self.removed
    }

    /// Appends whole lines, or nothing. Lines that together are longer than half of the limit exceed it by that.
    ///
    /// # Errors
    /// The file cannot be opened, rotated or written.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut file = match self.file.take().filter(|file| is_at(file, &self.path)) {
            Some(file) => file,
            None => open(&self.path)?,
        };
        let mut end = file.metadata()?.len();
        if end > 0 && self.len_max.is_some_and(|max| end + lines.len() as u64 > max) {
            let replaces = self.older.exists();
            fs::rename(&self.path, &self.older)?;
            self.removed += u64::from(replaces);
            file = open(&self.path)?;
            end = file.metadata()?.len();
        }
        match file.write_all(lines) {
            Ok(()) => {
                self.file = Some(file);
                Ok(())
            }
            Err(error) => {
                // If this fails too, the half line is removed when the file is opened again.
                let _ = file.set_len(end);
                Err(error)
            }
        }
    }
}

/// True if the path still leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(found)) => (open.dev(), open.ino()) == (found.dev(), found.ino()),
        (Ok(_) | Err(_), _) => false,
    }
}

/// A FIFO would block, and a device has no lines to cut.
fn check_is_regular(path: &Path) -> io::Result<()> {
    match fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        true => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
        false => Ok(()),
    }
}

fn open(path: &Path) -> io::Result<File> {
    check_is_regular(path)?;
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    end_last_line(&mut file)?;
    Ok(file)
}

/// Removes the half line that a crash has left; a line that this program did not write is ended instead.
fn end_last_line(file: &mut File) -> io::Result<()> {
    let len = file.metadata()?.len();
    let start = len.saturating_sub(TAIL_BYTES);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    let line = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    match tail.get(line..) {
        None | Some([]) => Ok(()),
        Some(half) if half.starts_with(b"{\"n\":") => file.set_len(start + line as u64),
        Some(_) => file.write_all(b"\n"),
    }
}

/// "RNGC" in SQLite's `application_id`.
const APPLICATION_ID: i64 = 0x524e_4743;
const SCHEMA_VERSION: i64 = 2;
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

/// `stranger_bytes` is the size of a record of a stranger, NULL for all others.
const COLUMN_2: &str = "
ALTER TABLE call_record ADD COLUMN stranger_bytes INTEGER;
CREATE INDEX call_record_stranger ON call_record (id, stranger_bytes) WHERE stranger_bytes IS NOT NULL;
";

const INSERT: &str = "
INSERT INTO call_record (call_id, from_uri, to_uri, caller, callee, source, begun, ringing, answered, ended, duration_s,
    status, reason, diverted, target, stranger_bytes)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
/// Maximum number of records that [`RecordDatabase::remove_before`] removes at once.
pub const REMOVED_MAX: usize = 10_000;
const REMOVE: &str = "DELETE FROM call_record WHERE id IN \
    (SELECT id FROM call_record WHERE ended < ?1 ORDER BY ended LIMIT 10000) RETURNING stranger_bytes";

const REMOVE_OLDEST: &str = "DELETE FROM call_record WHERE id IN \
    (SELECT id FROM call_record ORDER BY id LIMIT 1000) RETURNING stranger_bytes";
const REMOVE_OLDEST_OF_STRANGERS: &str = "DELETE FROM call_record WHERE id IN \
    (SELECT id FROM call_record WHERE stranger_bytes IS NOT NULL ORDER BY id LIMIT 1000) RETURNING stranger_bytes";
const STRANGERS_BYTES: &str =
    "SELECT coalesce(sum(stranger_bytes), 0) FROM call_record WHERE stranger_bytes IS NOT NULL";
/// Transactions of one [`RecordDatabase::shrink`].
const SHRINK_ROUNDS: usize = 8;
/// Records of strangers have one of so many parts of the space.
const STRANGERS_PART: i64 = 4;
/// Bytes of a record beside its texts: numbers, and its entries in both indexes.
const ROW_BYTES: i64 = 96;
/// Longer than any record.
const TAIL_BYTES: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

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

    fn count(database: &RecordDatabase, condition: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM call_record WHERE {condition}");
        database.connection.query_row(&sql, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn the_space_is_bounded_and_a_flood_of_strangers_gets_a_quarter_of_it() {
        const BYTES_MAX: u64 = 4 << 20;
        let is_small = |database: &RecordDatabase| database.used_bytes().unwrap() <= BYTES_MAX as i64;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("calls.db");
        let mut database = RecordDatabase::open(&file).unwrap();
        let long = "x".repeat(255);
        let row =
            |origin| RecordRow { call_id: &long, from: &long, to: &long, origin, ..RecordRow::default() };
        let user = row(RecordOrigin::User);
        database.append(std::iter::repeat_n(user, 2000)).unwrap();
        for _ in 0..30 {
            database.append(std::iter::repeat_n(row(RecordOrigin::Stranger), 1000)).unwrap();
            database.shrink(BYTES_MAX).unwrap();
            assert!(is_small(&database));
        }
        assert_eq!(count(&database, "stranger_bytes IS NULL"), 2000, "no user's was displaced");
        assert!(count(&database, "stranger_bytes IS NOT NULL") > 0, "the newest of strangers stay");
        let bytes = database.strangers_bytes;
        drop(database);
        // The log of SQLite is beside it.
        assert!(std::fs::metadata(&file).unwrap().len() <= BYTES_MAX + (2 << 20));
        let mut database = RecordDatabase::open(&file).unwrap();
        assert_eq!(database.strangers_bytes, bytes);
        for _ in 0..30 {
            database.append(std::iter::repeat_n(user, 1000)).unwrap();
            database.shrink(BYTES_MAX).unwrap();
        }
        assert!(is_small(&database));
        assert!(count(&database, "id < 40000") == 0 && count(&database, "id > 60000") > 1000);
        assert_eq!((database.shrink(0).unwrap() > 0, count(&database, "true")), (true, 0));
        assert_eq!((database.shrink(0).unwrap(), database.strangers_bytes), (0, 0));
    }

    /// An administrator removes the records of a flood with SQL.
    #[test]
    fn the_space_is_bounded_after_another_program_removed_rows() {
        const BYTES_MAX: u64 = 4 << 20;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("calls.db");
        let mut database = RecordDatabase::open(&file).unwrap();
        let long = "x".repeat(255);
        let row =
            |origin| RecordRow { call_id: &long, from: &long, to: &long, origin, ..RecordRow::default() };
        database.append(std::iter::repeat_n(row(RecordOrigin::Stranger), 2000)).unwrap();
        let other = Connection::open(&file).unwrap();
        other.execute("DELETE FROM call_record WHERE stranger_bytes IS NOT NULL", []).unwrap();
        for _ in 0..10 {
            database.append(std::iter::repeat_n(row(RecordOrigin::User), 1000)).unwrap();
            database.shrink(BYTES_MAX).unwrap();
        }
        assert!(database.used_bytes().unwrap() <= BYTES_MAX as i64);
        assert!(count(&database, "true") > 1000);
        assert_eq!(database.strangers_bytes, 0);
    }

    #[test]
    fn a_database_of_version_1_keeps_its_records() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("calls.db");
        let old = Connection::open(&file).unwrap();
        let rest = format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1;");
        old.execute_batch(&format!("{TABLE} {rest}")).unwrap();
        let insert = "INSERT INTO call_record (call_id, from_uri, to_uri, source, begun, ended, status, reason) \
                      VALUES ('old', '', '', '', '', '', 200, 'bye')";
        old.execute_batch(insert).unwrap();
        drop(old);
        let mut database = RecordDatabase::open(&file).unwrap();
        database.append([RecordRow { call_id: "new", ..RecordRow::default() }].into_iter()).unwrap();
        assert_eq!(count(&database, "stranger_bytes IS NULL"), 2);
        drop(database);
        RecordDatabase::open(&file).unwrap();
    }

    #[test]
    fn the_database_of_the_users_is_not_taken_for_one_of_records() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ringway.db");
        crate::Store::open(&crate::StoreUrl::Sqlite(file.clone())).unwrap();
        assert!(RecordDatabase::open(&file).is_err());
    }

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn lines_follow_the_path_of_a_rotated_file() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("calls.jsonl"), folder.path().join("calls.jsonl.1"));
        let mut file = RecordFile::open(&path, None).unwrap();
        file.append(b"1\n").unwrap();
        fs::rename(&path, &old).unwrap();
        file.append(b"2\n").unwrap();
        assert_eq!((read(&old).as_str(), read(&path).as_str()), ("1\n", "2\n"));
        fs::remove_file(&path).unwrap();
        file.append(b"3\n").unwrap();
        assert_eq!(read(&path), "3\n");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn two_files_of_half_the_limit_have_the_newest_lines() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("calls.jsonl"), folder.path().join("calls.jsonl.1"));
        let mut file = RecordFile::open(&path, Some(64)).unwrap();
        let line = |number: u32| format!("{number:015}\n");
        for number in 0..20 {
            file.append(line(number).as_bytes()).unwrap();
            let len = |path| fs::metadata(path).map_or(0, |found| found.len());
            assert!(len(&path) <= 32 && len(&old) <= 32);
        }
        assert_eq!((read(&old), read(&path)), (line(16) + &line(17), line(18) + &line(19)));
        assert_eq!(file.removed(), 8);
        // The length counts from the file, so a restart changes nothing; other programs may rotate too.
        let mut file = RecordFile::open(&path, Some(64)).unwrap();
        file.append(line(20).as_bytes()).unwrap();
        assert_eq!((read(&old), read(&path)), (line(18) + &line(19), line(20)));
        fs::remove_file(&path).unwrap();
        file.append(line(21).as_bytes()).unwrap();
        assert_eq!((read(&path), file.removed()), (line(21), 1));
    }

    #[test]
    fn a_rotation_that_fails_loses_no_line_and_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("calls.jsonl"), folder.path().join("calls.jsonl.1"));
        let mut file = RecordFile::open(&path, Some(8)).unwrap();
        fs::create_dir(&old).unwrap();
        file.append(b"one\n").unwrap();
        assert!(file.append(b"two\n").is_err());
        assert_eq!((read(&path).as_str(), file.removed()), ("one\n", 0));
        fs::remove_dir(&old).unwrap();
        file.append(b"two\n").unwrap();
        assert_eq!((read(&old).as_str(), read(&path).as_str()), ("one\n", "two\n"));
    }

    #[test]
    fn a_vanished_folder_is_an_error_until_it_is_back() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("records");
        fs::create_dir(&inner).unwrap();
        let path = inner.join("calls.jsonl");
        let mut file = RecordFile::open(&path, None).unwrap();
        fs::remove_dir_all(&inner).unwrap();
        assert_eq!(file.append(b"1\n").unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::create_dir(&inner).unwrap();
        file.append(b"1\n").unwrap();
        assert_eq!(read(&path), "1\n");
    }

    #[test]
    fn the_half_line_of_a_crash_is_removed_and_a_foreign_one_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.jsonl");
        for (before, after) in [
            ("{\"n\":1}\n{\"n\":2,\"call", "{\"n\":1}\nnew\n"),
            ("{\"n\":2,\"call", "new\n"),
            ("notes of somebody", "notes of somebody\nnew\n"),
            ("", "new\n"),
        ] {
            fs::write(&path, before).unwrap();
            RecordFile::open(&path, None).unwrap().append(b"new\n").unwrap();
            assert_eq!(read(&path), after);
        }
        assert_eq!(
            RecordFile::open(Path::new("/dev/null"), None).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }

    const LIMITED: &str = "RECORD_FILE_LIMITED";

    /// The limit of the shell is 1 block of 512 or 1,024 bytes; the file is the disk that becomes full.
    #[test]
    fn a_full_disk_leaves_no_half_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.jsonl");
        if let Some(path) = std::env::var_os(LIMITED) {
            let mut file = RecordFile::open(Path::new(&path), None).unwrap();
            let line = [vec![b'x'; 299], vec![b'\n']].concat();
            let written = (0..20).take_while(|_| file.append(&line).is_ok()).count();
            assert!(written == 1 || written == 3, "{written}");
            assert!(file.append(&line).is_err(), "still full");
            return;
        }
        let program = std::env::current_exe().unwrap();
        let status = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" --exact \"$1\""])
            .arg(program)
            .arg("records::tests::a_full_disk_leaves_no_half_line")
            .env(LIMITED, &path)
            // The limit holds for a file that this test's own output goes to, too.
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        let text = read(&path);
        assert!(text.len().is_multiple_of(300) && text.ends_with('\n'), "{}", text.len());
        RecordFile::open(&path, None).unwrap().append(b"room again\n").unwrap();
        assert!(read(&path).ends_with("\nroom again\n"));
    }
}
