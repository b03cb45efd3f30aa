//! Rows of the tables, checked as the commands check what they write.
//!
//! A restoration refuses a backup with any other row, and a server passes over the ones that a database has nevertheless.

use super::blocks::{self, BLOCKS_MAX, BlockRow};
use super::subscribers::check_contact;
use super::{SubscriberRow, forwards};
use ringway_users::UserName;
use rusqlite::Row;
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

/// Checks a row with the columns of a [`Table`].
pub(super) fn check(table: Table, row: &Row<'_>) -> Result<(), Fault> {
    match table {
        Table::Subscriber => SubscriberRow::read(row).map(drop),
        Table::Contact => contact(row).map(drop),
        Table::Forward => user(row).and_then(|_| forwards::forward(row)).map(drop),
        Table::Block => blocks::row_of(row).map(|_: BlockRow| ()),
    }
}

/// Table whose rows belong to users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Subscriber,
    Contact,
    Forward,
    Block,
}

impl Table {
    pub(super) const ALL: [Self; 4] = [Self::Subscriber, Self::Contact, Self::Forward, Self::Block];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Subscriber => "subscriber",
            Self::Contact => "contact",
            Self::Forward => "forward",
            Self::Block => "block",
        }
    }

    /// Columns, of which the first two are domain and name.
    pub(super) const fn columns(self) -> &'static str {
        match self {
            Self::Subscriber => "domain, name, realm, ha1_md5, ha1_sha256",
            Self::Contact => "domain, name, contact",
            Self::Forward => "domain, name, condition, after_s, uri",
            Self::Block => "domain, name, kind, pattern, reason, expires_s",
        }
    }

    /// Schema version that brought the table.
    pub(super) const fn since(self) -> i64 {
        match self {
            Self::Subscriber | Self::Contact => 1,
            Self::Forward => 2,
            Self::Block => 3,
        }
    }

    /// Maximum number of rows.
    pub(super) const fn rows_max(self) -> u64 {
        match self {
            Self::Block => BLOCKS_MAX,
            Self::Subscriber | Self::Contact | Self::Forward => u64::MAX,
        }
    }
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
