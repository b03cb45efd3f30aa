//! Opens the database: checks the application, the integrity and the schema version.

use super::StoreError;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// Newest schema version that this program supports; stored in SQLite's `user_version`.
const SCHEMA_VERSION: i64 = SCHEMAS.len() as i64;
/// "RNGW" in SQLite's `application_id`, which distinguishes Ringway's databases from others.
const APPLICATION_ID: i64 = 0x524e_4757;
/// Time limit of waiting for another process's transaction.
const BUSY_WAIT_MAX: Duration = Duration::from_secs(10);

/// Statements that make each schema version out of the one before; the first makes it out of an empty database.
const SCHEMAS: [&str; 4] = [SCHEMA_1, SCHEMA_2, SCHEMA_3, SCHEMA_4];

/// `changed` has one row for each user and kind of change, with the latest number. A server queries the numbers above
/// the last one that it has applied, and the table never grows beyond the number of users.
const SCHEMA_1: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE subscriber (
    domain TEXT NOT NULL,
    name TEXT NOT NULL,
    realm TEXT NOT NULL,
    ha1_md5 BLOB NOT NULL,
    ha1_sha256 BLOB NOT NULL,
    PRIMARY KEY (domain, name)
) WITHOUT ROWID;
CREATE TABLE contact (
    domain TEXT NOT NULL,
    name TEXT NOT NULL,
    contact TEXT NOT NULL,
    PRIMARY KEY (domain, name, contact)
) WITHOUT ROWID;
CREATE TABLE changed (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    domain TEXT NOT NULL,
    name TEXT NOT NULL,
    kind INTEGER NOT NULL,
    UNIQUE (domain, name, kind)
);
";

/// `condition` is a number of `forwards.rs`; `after_s` belongs to the forward of calls that nobody answers.
const SCHEMA_2: &str = "
CREATE TABLE forward (
    domain TEXT NOT NULL,
    name TEXT NOT NULL,
    condition INTEGER NOT NULL,
    after_s INTEGER,
    uri TEXT NOT NULL,
    PRIMARY KEY (domain, name, condition)
) WITHOUT ROWID;
";

/// `domain` and `name` are empty for the list of all users; `kind` is a number of `blocks.rs`.
const SCHEMA_3: &str = "
CREATE TABLE block (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    domain TEXT NOT NULL,
    name TEXT NOT NULL,
    kind INTEGER NOT NULL,
    pattern TEXT NOT NULL,
    reason TEXT NOT NULL,
    expires_s INTEGER,
    UNIQUE (domain, name, kind, pattern)
);
CREATE INDEX block_expires ON block (expires_s) WHERE expires_s IS NOT NULL;
";

/// H(A1) of the user name with its domain. Without a value the password was set before there were these columns, or only hashes of it
/// were known.
const SCHEMA_4: &str = "
ALTER TABLE subscriber ADD COLUMN full_ha1_md5 BLOB;
ALTER TABLE subscriber ADD COLUMN full_ha1_sha256 BLOB;
";

/// Opens `file`; creates it if necessary.
pub(super) fn open(file: &Path) -> Result<Connection, StoreError> {
    if !file.exists() {
        // H(A1) is equivalent to a password: the file is readable by its owner only, and SQLite uses the same
        // permissions for its other files. An error here is reported by the following open.
        let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    }
    let connection = Connection::open(file).map_err(|error| from_sqlite(file, error))?;
    prepare(connection, file)
}

/// Opens a database as it is, and checks that [`open`] would open it; `None`: it would create it.
pub(super) fn open_existing(file: &Path) -> Result<Option<Connection>, StoreError> {
    let Some(connection) = connect_existing(file)? else { return Ok(None) };
    if is_empty(&connection).map_err(|error| from_sqlite(file, error))? {
        return Ok(None);
    }
    check_owner(&connection, file)?;
    Ok(Some(connection))
}

/// Connects to a file; `None`: there is none. Checks that it can be written, and that files can be created beside it.
pub(super) fn connect_existing(file: &Path) -> Result<Option<Connection>, StoreError> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    // It has no name, and is gone when it is closed.
    tempfile::tempfile_in(folder).map_err(StoreError::io(file, "create files in its folder"))?;
    match OpenOptions::new().read(true).write(true).open(file) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io(file, "open it for writing")(error)),
    }
    let sql = |error| from_sqlite(file, error);
    // A connection that may only read would leave the files of the write-ahead log behind.
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(sql)?;
    connection.busy_timeout(BUSY_WAIT_MAX).map_err(sql)?;
    Ok(Some(connection))
}

/// True for a database without tables.
pub(super) fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(tables == 0)
}

/// Opens a database in memory.
pub(super) fn open_memory(file: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open_in_memory().map_err(|error| from_sqlite(file, error))?;
    prepare(connection, file)
}

/// Creates a database for data that is made again after a crash: nothing is synchronised with the disk.
pub(super) fn open_scratch(file: &Path) -> Result<Connection, StoreError> {
    let connection = open(file)?;
    let sql = |error| from_sqlite(file, error);
    connection.pragma_update_and_check(None, "journal_mode", "OFF", |_| Ok(())).map_err(sql)?;
    connection.pragma_update(None, "synchronous", "OFF").map_err(sql)?;
    Ok(connection)
}

/// Converts an error of SQLite.
pub(super) fn from_sqlite(file: &Path, source: rusqlite::Error) -> StoreError {
    let file = file.to_owned();
    match source.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            StoreError::Corrupt { file, detail: source.to_string() }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked { file },
        Some(_) | None => StoreError::Database { file, source },
    }
}

fn prepare(mut connection: Connection, file: &Path) -> Result<Connection, StoreError> {
    let sql = |error| from_sqlite(file, error);
    connection.busy_timeout(BUSY_WAIT_MAX).map_err(sql)?;
    if pragma(&connection, "application_id").map_err(sql)? != APPLICATION_ID {
        create(&mut connection, file)?;
    }
    let version = pragma(&connection, "user_version").map_err(sql)?;
    if version > SCHEMA_VERSION {
        return Err(StoreError::Newer { file: file.to_owned(), found: version, known: SCHEMA_VERSION });
    }
    if version < SCHEMA_VERSION {
        keep_copy(&connection, file, version)?;
        migrate(&mut connection).map_err(sql)?;
    }
    // In WAL mode readers (the server) and a writer (a command) do not block each other.
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).map_err(sql)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(sql)?;
    Ok(connection)
}

/// Creates the tables, unless another process has done so or the file belongs to another program.
fn create(connection: &mut Connection, file: &Path) -> Result<(), StoreError> {
    let sql = |error| from_sqlite(file, error);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sql)?;
    if pragma(&transaction, "application_id").map_err(sql)? == APPLICATION_ID {
        return Ok(());
    }
    if !is_empty(&transaction).map_err(sql)? {
        let detail = "it is another program's database".to_owned();
        return Err(StoreError::Corrupt { file: file.to_owned(), detail });
    }
    let mut secret = [0u8; 32];
    getrandom::fill(&mut secret).map_err(|error| StoreError::Random(error.to_string()))?;
    for schema in SCHEMAS {
        transaction.execute_batch(schema).map_err(sql)?;
    }
    transaction.execute("INSERT INTO meta (key, value) VALUES ('secret', ?1)", [&secret[..]]).map_err(sql)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(sql)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION).map_err(sql)?;
    transaction.commit().map_err(sql)
}

/// Brings a database of an earlier version to the newest one; another process may have done it meanwhile.
fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version = usize::try_from(pragma(&transaction, "user_version")?).unwrap_or_default();
    // A newer program may have opened it in between.
    if version >= SCHEMAS.len() {
        return Ok(());
    }
    for schema in SCHEMAS.iter().skip(version) {
        transaction.execute_batch(schema)?;
    }
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    transaction.commit()
}

/// Copies a database into a new file.
pub(super) fn copy(connection: &Connection, to: &Path) -> Result<(), StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    match options.open(to) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let what = to.display().to_string();
            return Err(StoreError::Unusable { what, why: "the file exists; give the name of a new one" });
        }
        Err(error) => return Err(StoreError::io(to, "create the file")(error)),
    }
    connection.execute("VACUUM INTO ?1", [to.to_string_lossy()]).map(|_| ()).map_err(|error| {
        // It is incomplete.
        let _ = std::fs::remove_file(to);
        from_sqlite(to, error)
    })
}

/// Checks that a database is one of this program; returns its schema version.
pub(super) fn check_owner(connection: &Connection, file: &Path) -> Result<i64, StoreError> {
    let sql = |error| from_sqlite(file, error);
    if pragma(connection, "application_id").map_err(sql)? != APPLICATION_ID {
        let detail = "it is no database of this program".to_owned();
        return Err(StoreError::Corrupt { file: file.to_owned(), detail });
    }
    match pragma(connection, "user_version").map_err(sql)? {
        version if version > SCHEMA_VERSION => {
            Err(StoreError::Newer { file: file.to_owned(), found: version, known: SCHEMA_VERSION })
        }
        version => Ok(version),
    }
}

/// Keeps a copy beside a database that is brought to a newer version: an earlier program can read it.
fn keep_copy(connection: &Connection, file: &Path, version: i64) -> Result<(), StoreError> {
    let mut path = file.as_os_str().to_owned();
    path.push(format!(".schema-{version}"));
    let path = Path::new(&path);
    // One of an earlier attempt is as good.
    if path.exists() { Ok(()) } else { copy(connection, path) }
}

pub(super) fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_of_an_earlier_version_keeps_its_users_and_gets_the_new_tables() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("r.db");
        let old = Connection::open(&file).unwrap();
        old.execute_batch(SCHEMA_1).unwrap();
        old.execute_batch("INSERT INTO contact VALUES ('example.org', 'bob', 'sip:bob@192.0.2.7')").unwrap();
        old.execute_batch(
            "INSERT INTO subscriber VALUES ('example.org', 'bob', 'r', zeroblob(16), zeroblob(32))",
        )
        .unwrap();
        old.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        old.pragma_update(None, "user_version", 1).unwrap();
        drop(old);
        for _ in 0..2 {
            let new = open(&file).unwrap();
            assert_eq!(pragma(&new, "user_version").unwrap(), SCHEMA_VERSION);
            let count = |table: &str| {
                let query = format!("SELECT count(*) FROM {table}");
                new.query_row(&query, [], |row| row.get::<_, i64>(0)).unwrap()
            };
            assert_eq!((count("contact"), count("forward"), count("block")), (1, 0, 0));
            let full = "subscriber WHERE full_ha1_md5 IS NULL AND full_ha1_sha256 IS NULL";
            assert_eq!((count("subscriber"), count(full)), (1, 1));
        }
        let kept = Connection::open(folder.path().join("r.db.schema-1")).unwrap();
        assert_eq!(pragma(&kept, "user_version").unwrap(), 1);
        let contacts = kept.query_row("SELECT count(*) FROM contact", [], |row| row.get::<_, i64>(0));
        assert_eq!(contacts, Ok(1));
    }

    #[test]
    fn a_locked_database_is_reported_as_such() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("r.db");
        let [one, two] = [Connection::open(&file).unwrap(), Connection::open(&file).unwrap()];
        one.execute_batch("BEGIN IMMEDIATE").unwrap();
        two.busy_timeout(Duration::ZERO).unwrap();
        let error = from_sqlite(&file, two.execute_batch("BEGIN IMMEDIATE").unwrap_err());
        assert!(matches!(error, StoreError::Locked { .. }), "{error}");
        assert!(error.to_string().contains("locked by another program"), "{error}");
    }
}
