//! Block lists.
//!
//! The store has the text of the patterns; what they mean is the server's.

use super::rows::{self, Fault, Kind, Unreadable, note};
use super::{Store, StoreError};
use ringway_users::UserName;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

/// Kind of a blocked pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Callers.
    Caller,
    /// Sources of requests.
    Network,
}

/// Entry of a block list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRow {
    /// Its number.
    pub id: u64,
    /// Name and domain of the user whose list it is; `None`: all users.
    pub user: Option<(String, String)>,
    /// Kind of the pattern.
    pub kind: BlockKind,
    /// The pattern in its canonical form.
    pub pattern: String,
    /// Text for administrators.
    pub reason: String,
    /// End in seconds since the epoch; `None`: it stays.
    pub expires_s: Option<u64>,
}

/// A new entry of a block list.
#[derive(Clone, Copy, Debug)]
pub struct NewBlockRow<'a> {
    /// User whose list it is; `None`: all users.
    pub user: Option<&'a UserName>,
    /// Kind of the pattern.
    pub kind: BlockKind,
    /// The pattern in its canonical form.
    pub pattern: &'a str,
    /// Text for administrators.
    pub reason: &'a str,
    /// End in seconds since the epoch; `None`: it stays.
    pub expires_s: Option<u64>,
}

/// Maximum number of entries of all lists.
pub const BLOCKS_MAX: u64 = 100_000;
/// Maximum number of entries of a user's list.
pub const USER_BLOCKS_MAX: u64 = 1000;
/// Maximum length of a reason in bytes.
const REASON_BYTES_MAX: usize = 200;

/// Maximum length of a pattern in bytes.
const PATTERN_BYTES_MAX: usize = 255;

/// Columns of a row; its number is the last one.
const COLUMNS: &str = "domain, name, kind, pattern, reason, expires_s, id";
const TABLE: &str = "block";

/// Block lists of a store.
#[derive(Clone, Copy)]
pub struct BlockLists<'s> {
    store: &'s Store,
}

impl<'s> BlockLists<'s> {
    /// The lists of this store.
    pub const fn of(store: &'s Store) -> Self {
        Self { store }
    }

    /// Adds an entry, or replaces reason and end of an equal one. Returns its number.
    ///
    /// # Errors
    /// A list is full, the reason is invalid, or a query failed.
    pub fn add(&self, new: &NewBlockRow<'_>) -> Result<u64, StoreError> {
        let unusable = |what: String, why| StoreError::Unusable { what, why };
        if new.reason.len() > REASON_BYTES_MAX || new.reason.chars().any(char::is_control) {
            let what = format!("{:?}", new.reason.chars().take(40).collect::<String>());
            return Err(unusable(what, "a reason has at most 200 bytes and no control characters"));
        }
        let (domain, name) = scope(new.user);
        self.store.write(|transaction| {
            let is_known = find(transaction, new.user, new.kind, new.pattern).map_err(self.store.sql())?.is_some();
            let [all, of_user] = counts(transaction, domain, name).map_err(self.store.sql())?;
            let is_full = all >= BLOCKS_MAX || (new.user.is_some() && of_user >= USER_BLOCKS_MAX);
            if is_full && !is_known {
                let why = "the list is full; remove entries with `ringway block remove`, or block a domain, a prefix or a network";
                return Err(unusable(new.pattern.to_owned(), why));
            }
            let expires_s = new.expires_s.map(|end| i64::try_from(end).unwrap_or(i64::MAX));
            transaction
                .execute(
                    "INSERT INTO block (domain, name, kind, pattern, reason, expires_s) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                     ON CONFLICT (domain, name, kind, pattern) DO UPDATE SET reason = ?5, expires_s = ?6",
                    params![domain, name, number(new.kind), new.pattern, new.reason, expires_s],
                )
                .map_err(self.store.sql())?;
            note(transaction, domain, name, Kind::Blocks).map_err(self.store.sql())?;
            let id = find(transaction, new.user, new.kind, new.pattern).map_err(self.store.sql())?;
            Ok(id.unwrap_or_default())
        })
    }

    /// Removes the entry with this number. False: there is none.
    ///
    /// # Errors
    /// A query failed.
    pub fn remove(&self, id: u64) -> Result<bool, StoreError> {
        self.store.write(|transaction| {
            let id = i64::try_from(id).unwrap_or(i64::MAX);
            remove_where(transaction, "id = ?1", id).map(|removed| removed > 0).map_err(self.store.sql())
        })
    }

    /// Removes an entry by its pattern. False: there is none.
    ///
    /// # Errors
    /// A query failed.
    pub fn remove_pattern(
        &self,
        user: Option<&UserName>,
        kind: BlockKind,
        pattern: &str,
    ) -> Result<bool, StoreError> {
        let id = find(&self.store.lock(), user, kind, pattern).map_err(self.store.sql())?;
        id.map_or(Ok(false), |id| self.remove(id))
    }

    /// Removes the entries that have ended by `now_s`, in seconds since the epoch. Returns their number.
    ///
    /// # Errors
    /// A query failed.
    pub fn remove_ended(&self, now_s: u64) -> Result<usize, StoreError> {
        let now_s = i64::try_from(now_s).unwrap_or(i64::MAX);
        let query = "SELECT EXISTS (SELECT 1 FROM block WHERE expires_s <= ?1)";
        let exists =
            |connection: &Connection| connection.prepare_cached(query)?.query_row([now_s], |row| row.get(0));
        // A server asks twice a second, and a transaction of a writer would block the commands.
        if !exists(&self.store.lock()).map_err(self.store.sql())? {
            return Ok(0);
        }
        self.store.write(|transaction| {
            remove_where(transaction, "expires_s <= ?1", now_s).map_err(self.store.sql())
        })
    }

    /// Passes up to `limit` entries with a higher number than `after` to `each`, in the order of their numbers, and returns the
    /// number of all entries.
    ///
    /// # Errors
    /// A query failed, or the data is damaged.
    pub fn list(&self, after: u64, limit: usize, each: impl FnMut(BlockRow)) -> Result<u64, StoreError> {
        let connection = self.store.lock();
        let query = format!("SELECT {COLUMNS} FROM block WHERE id > ?1 ORDER BY id");
        let read = || {
            let mut statement = connection.prepare_cached(&query)?;
            let mut rows = statement.query([i64::try_from(after).unwrap_or(i64::MAX)])?;
            let mut list = Vec::new();
            while list.len() < limit
                && let Some(row) = rows.next()?
            {
                list.extend(self.store.unreadable.pass(TABLE, row, numbered(row)));
            }
            Ok(list)
        };
        read().map_err(self.store.sql())?.into_iter().for_each(each);
        let [all, _] = counts(&connection, "", "").map_err(self.store.sql())?;
        Ok(all)
    }
}

/// Reads the entries of one list.
pub(super) fn read(
    connection: &Connection,
    domain: &str,
    name: &str,
    unreadable: &Unreadable,
) -> rusqlite::Result<Vec<BlockRow>> {
    let query = format!("SELECT {COLUMNS} FROM block WHERE domain = ?1 AND name = ?2");
    let mut statement = connection.prepare_cached(&query)?;
    let mut rows = statement.query(params![domain, name])?;
    let mut list = Vec::new();
    while let Some(row) = rows.next()? {
        list.extend(unreadable.pass(TABLE, row, numbered(row)));
    }
    Ok(list)
}

/// Removes entries and notes the change of each of their lists.
fn remove_where(transaction: &Transaction<'_>, condition: &str, value: i64) -> rusqlite::Result<usize> {
    let query = format!("SELECT DISTINCT domain, name FROM block WHERE {condition}");
    let scopes: Vec<(String, String)> = transaction
        .prepare_cached(&query)?
        .query_map([value], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (domain, name) in &scopes {
        note(transaction, domain, name, Kind::Blocks)?;
    }
    transaction.execute(&format!("DELETE FROM block WHERE {condition}"), [value])
}

fn find(
    connection: &Connection,
    user: Option<&UserName>,
    kind: BlockKind,
    pattern: &str,
) -> rusqlite::Result<Option<u64>> {
    let (domain, name) = scope(user);
    connection
        .query_row(
            "SELECT id FROM block WHERE domain = ?1 AND name = ?2 AND kind = ?3 AND pattern = ?4",
            params![domain, name, number(kind), pattern],
            |row| row.get::<_, i64>(0).map(i64::unsigned_abs),
        )
        .optional()
}

/// Number of all entries, and of those of one list.
fn counts(connection: &Connection, domain: &str, name: &str) -> rusqlite::Result<[u64; 2]> {
    connection.query_row(
        "SELECT count(*), count(*) FILTER (WHERE domain = ?1 AND name = ?2) FROM block",
        params![domain, name],
        |row| Ok([row.get::<_, i64>(0)?.unsigned_abs(), row.get::<_, i64>(1)?.unsigned_abs()]),
    )
}

/// Columns of a list: empty for the one of all users.
fn scope(user: Option<&UserName>) -> (&str, &str) {
    user.map_or(("", ""), |user| (user.domain(), user.name()))
}

const fn number(kind: BlockKind) -> i64 {
    match kind {
        BlockKind::Caller => 1,
        BlockKind::Network => 2,
    }
}

/// The entry of a row with all columns.
fn numbered(row: &Row<'_>) -> Result<BlockRow, Fault> {
    let id = rows::number(row, 6)?.unsigned_abs();
    row_of(row).map(|entry| BlockRow { id, ..entry })
}

/// The entry of a row without its number.
pub(super) fn row_of(row: &Row<'_>) -> Result<BlockRow, Fault> {
    let (domain, name) = (rows::text(row, 0)?, rows::text(row, 1)?);
    if !(domain.is_empty() && name.is_empty()) {
        rows::user(row)?;
    }
    let (pattern, reason) = (rows::text(row, 3)?, rows::text(row, 4)?);
    if pattern.is_empty() || pattern.len() > PATTERN_BYTES_MAX || pattern.chars().any(char::is_control) {
        return Err("its pattern is no text of 1 to 255 bytes without control characters".to_owned());
    }
    if reason.len() > REASON_BYTES_MAX || reason.chars().any(char::is_control) {
        return Err("its reason is no text of at most 200 bytes without control characters".to_owned());
    }
    let expires_s = (!rows::is_null(row, 5)).then(|| rows::number(row, 5)).transpose()?;
    let expires_s = expires_s.map(u64::try_from).transpose();
    Ok(BlockRow {
        id: 0,
        user: (!name.is_empty()).then(|| (name.to_owned(), domain.to_owned())),
        kind: match rows::number(row, 2)? {
            1 => BlockKind::Caller,
            2 => BlockKind::Network,
            kind => return Err(format!("there is no kind {kind}")),
        },
        pattern: pattern.to_owned(),
        reason: reason.to_owned(),
        expires_s: expires_s.map_err(|_| "its end is negative".to_owned())?,
    })
}
