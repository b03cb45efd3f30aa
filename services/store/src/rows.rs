//! Rows of the tables, checked as the commands check what they write; the table `changed` of numbered changes of users.
//!
//! A restoration refuses a backup with any other row, and a server passes over the ones that a database has nevertheless.

use super::StoreError;
use ringway_users::UserName;
use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};
use std::sync::atomic::{AtomicU64, Ordering};

/// Fault of a row, for people.
pub(super) type Fault = String;

/// Counts rows that were passed over, and logs the first ones.
#[derive(Debug, Default)]
pub(super) struct Unreadable {
    rows: AtomicU64,
}

impl Unreadable {
    /// Passes over a row of `table`.
    pub(super) fn note(&self, table: &str, row: &Row<'_>, fault: &str) {
        let before = self.rows.fetch_add(1, Ordering::Relaxed);
        let user = user_shown(row);
        match before {
            0..LINES_MAX => tracing::warn!(
                "a row of the table {table} ({user}) is passed over: {fault}; no command writes such a row, correct or remove it"
            ),
            LINES_MAX => tracing::warn!("further rows of the database are passed over, and only counted"),
            _ => {}
        }
    }

    /// The value of a row; `None`: it was passed over.
    pub(super) fn pass<T>(&self, table: &str, row: &Row<'_>, read: Result<T, Fault>) -> Option<T> {
        read.map_err(|fault| self.note(table, row, &fault)).ok()
    }

    /// Rows that were passed over.
    pub(super) fn count(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
}

/// Text of a column.
pub(super) fn text<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r str, Fault> {
    let value = row.get_ref(column).map_err(|error| error.to_string())?;
    value.as_str().map_err(|_| format!("its column {} is not text", column_name(row, column)))
}

/// Number of a column.
pub(super) fn number(row: &Row<'_>, column: usize) -> Result<i64, Fault> {
    row.get(column).map_err(|_| format!("its column {} is not a number", column_name(row, column)))
}

/// True if a column has no value.
pub(super) fn is_null(row: &Row<'_>, column: usize) -> bool {
    row.get_ref(column).is_ok_and(|value| value.data_type() == Type::Null)
}

/// Bytes of a column, which are a hash.
pub(super) fn hash<'r, const LEN: usize>(row: &'r Row<'_>, column: usize) -> Result<&'r [u8; LEN], Fault> {
    let value = row.get_ref(column).map_err(|error| error.to_string())?;
    let bytes = value.as_blob().ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| format!("its column {} is not a hash of {LEN} bytes", column_name(row, column)))
}

/// User of a row whose first columns are domain and name.
pub(super) fn user(row: &Row<'_>) -> Result<UserName, Fault> {
    let (domain, name) = (text(row, 0)?, text(row, 1)?);
    let user = UserName::new(name, domain).map_err(|unusable| unusable.to_string())?;
    if user.domain() == domain { Ok(user) } else { Err(format!("{domain:?} is not in lower case")) }
}

/// The permanent contact in a row with the columns domain, name and contact.
pub(super) fn contact<'r>(row: &'r Row<'_>) -> Result<&'r str, Fault> {
    user(row)?;
    let contact = text(row, 2)?;
    check_contact(contact).map_err(|error| error.to_string())?;
    Ok(contact)
}

/// Checks the text of a permanent contact.
///
/// # Errors
/// It is no `sip:` URI, is longer than 1,024 bytes, or has characters that a Contact header field cannot have.
pub fn check_contact(contact: &str) -> Result<(), StoreError> {
    let shown: String = contact.chars().take(SHOWN_CHARS_MAX).collect();
    let unusable = |why| StoreError::Unusable { what: format!("{shown:?}"), why };
    let is_sip =
        contact.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("sip:")) && contact.len() > 4;
    if !is_sip {
        return Err(unusable("a contact is a SIP URI; write for example sip:bob@192.0.2.7:5060"));
    }
    if contact.len() > CONTACT_BYTES_MAX {
        return Err(unusable("a contact has at most 1024 bytes"));
    }
    if contact.chars().any(|c| c.is_control() || c.is_whitespace() || !c.is_ascii() || "<>\"".contains(c)) {
        return Err(unusable("a contact has no spaces, control characters, quotes or angle brackets"));
    }
    Ok(())
}

/// The user that a row claims to be of, shortened, whatever its columns are.
pub(super) fn user_shown(row: &Row<'_>) -> String {
    let column = |column| text(row, column).unwrap_or("?").chars().take(64).collect::<String>();
    format!("{:?}", format!("{}@{}", column(1), column(0)))
}

fn column_name(row: &Row<'_>, column: usize) -> String {
    row.as_ref().column_name(column).unwrap_or("?").to_owned()
}

/// Maximum number of rows that the log names.
const LINES_MAX: u64 = 20;
/// Maximum length of a permanent contact in bytes.
const CONTACT_BYTES_MAX: usize = 1024;
/// Maximum length of a value in an error.
const SHOWN_CHARS_MAX: usize = 80;

/// Kind of a change, as stored in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Subscriber = 1,
    Contacts = 2,
    /// A subscriber was removed; it may have been added again.
    Removed = 3,
    Forwards = 4,
    /// A block list; name and domain are empty for that of all users.
    Blocks = 5,
}

impl Kind {
    /// Kind with this number in the table; `None`: it is a later version's.
    pub(super) fn of(number: i64) -> Option<Self> {
        [Self::Subscriber, Self::Contacts, Self::Removed, Self::Forwards, Self::Blocks]
            .into_iter()
            .find(|kind| *kind as i64 == number)
    }
}

/// Records a change of a user.
pub(super) fn note(connection: &Connection, domain: &str, name: &str, kind: Kind) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO changed (domain, name, kind) VALUES (?1, ?2, ?3)")?
        .execute(params![domain, name, kind as i64])?;
    Ok(())
}

/// Number up to which the last server applied the changes, if stored.
pub(super) fn applied(connection: &Connection) -> rusqlite::Result<Option<u64>> {
    let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE key = 'applied'")?;
    let mut rows = statement.query([])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(row.get::<_, i64>(0)?.unsigned_abs()))
}

/// Number of the latest change.
pub(super) fn last(connection: &Connection) -> rusqlite::Result<u64> {
    connection
        .query_row("SELECT coalesce(max(seq), 0) FROM changed", [], |row| row.get::<_, i64>(0))
        .map(i64::unsigned_abs)
}
