//! The table `changed`: numbered changes of users.

use rusqlite::{Connection, params};

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
