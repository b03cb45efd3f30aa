//! Changes of subscribers and contacts since a given number.

use super::change_log::Kind;
use super::{BlockRow, Store, StoreError, SubscriberRow, blocks, forwards};
use ringway_users::{Forwards, Ha1};
use rusqlite::{Connection, params};

/// Changes after a number, at most 10,000. The limit is a literal and the number has a unary `+`: SQLite compiles a
/// statement anew for each execution if the plan may depend on a bound value, and a server runs it twice a second.
const CHANGES_AFTER: &str = "
    SELECT c.seq, c.kind, c.name, c.domain, s.name, s.domain, s.realm, s.ha1_md5, s.ha1_sha256
    FROM changed c LEFT JOIN subscriber s ON s.domain = c.domain AND s.name = c.name
    WHERE c.seq > +?1 ORDER BY c.seq LIMIT 10000";

/// A changed user with its new state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Number of the change, for the next call of [`Store::changes_since`].
    pub seq: u64,
    /// The user part.
    pub name: String,
    /// The domain, lower-case.
    pub domain: String,
    /// The new state.
    pub kind: ChangeKind,
}

/// New state of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The user was added or its password changed.
    Subscriber(Ha1),
    /// The user was removed, and its registrations should end. If it was added again, another change follows.
    Removed,
    /// The user has exactly these permanent contacts.
    Contacts(Vec<String>),
    /// The user has exactly these forwards.
    Forwards(Forwards),
    /// The block list of the user, or with an empty name that of all users, has exactly these entries.
    Blocks(Vec<BlockRow>),
    /// A change of a kind that only later versions of this program have.
    Unknown,
}

impl Store {
    /// Reads up to 10,000 changes after number `seq`, oldest first; call it until it returns none. Several changes of a
    /// user result in one, with the current state; a user that was removed and added again has both changes.
    ///
    /// # Errors
    /// A query failed.
    pub fn changes_since(&self, seq: u64) -> Result<Vec<Change>, StoreError> {
        let connection = self.lock();
        read(&connection, seq).map_err(self.sql())
    }

    /// Stores that a server has applied all changes up to number `seq`, for its next start.
    ///
    /// # Errors
    /// A query failed.
    pub fn note_applied(&self, seq: u64) -> Result<(), StoreError> {
        let seq = i64::try_from(seq).unwrap_or(i64::MAX);
        self.lock()
            .execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('applied', ?1)", params![seq])
            .map(|_| ())
            .map_err(self.sql())
    }
}

fn read(connection: &Connection, seq: u64) -> rusqlite::Result<Vec<Change>> {
    let mut statement = connection.prepare_cached(CHANGES_AFTER)?;
    let mut contacts = connection
        .prepare_cached("SELECT contact FROM contact WHERE domain = ?1 AND name = ?2 ORDER BY contact")?;
    let mut rows = statement.query(params![i64::try_from(seq).unwrap_or(i64::MAX)])?;
    let mut changes = Vec::new();
    while let Some(row) = rows.next()? {
        let (name, domain): (String, String) = (row.get(2)?, row.get(3)?);
        let is_subscriber = row.get_ref(4)?.as_str_or_null()?.is_some();
        let kind = match Kind::of(row.get(1)?) {
            Some(Kind::Contacts) => {
                let rows = contacts.query_map(params![domain, name], |row| row.get(0))?;
                ChangeKind::Contacts(rows.collect::<rusqlite::Result<_>>()?)
            }
            Some(Kind::Forwards) => ChangeKind::Forwards(forwards::read(connection, &domain, &name)?),
            Some(Kind::Blocks) => ChangeKind::Blocks(blocks::read(connection, &domain, &name)?),
            Some(Kind::Subscriber) if is_subscriber => {
                ChangeKind::Subscriber(SubscriberRow::read(row, 4)?.ha1())
            }
            Some(Kind::Subscriber | Kind::Removed) => ChangeKind::Removed,
            None => ChangeKind::Unknown,
        };
        changes.push(Change { seq: row.get::<_, i64>(0)?.unsigned_abs(), name, domain, kind });
    }
    Ok(changes)
}
