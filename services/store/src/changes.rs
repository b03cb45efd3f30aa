//! Changes of subscribers and contacts since a given number.

use super::rows::{self, Kind, Unreadable};
use super::{BlockRow, Store, StoreError, SubscriberRow, blocks, forwards};
use ringway_users::{Forwards, Hashes};
use rusqlite::{Connection, params};

/// Changes after a number, at most 10,000. The limit is a literal and the number has a unary `+`: SQLite compiles a
/// statement anew for each execution if the plan may depend on a bound value, and a server runs it twice a second.
const CHANGES_AFTER: &str = "
    SELECT s.domain, s.name, s.realm, s.ha1_md5, s.ha1_sha256, s.full_ha1_md5, s.full_ha1_sha256, c.seq, c.kind, c.name, c.domain
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
    Subscriber(Hashes),
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
        read(&connection, seq, &self.unreadable).map_err(self.sql())
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

fn read(connection: &Connection, seq: u64, unreadable: &Unreadable) -> rusqlite::Result<Vec<Change>> {
    let mut statement = connection.prepare_cached(CHANGES_AFTER)?;
    let mut rows = statement.query(params![i64::try_from(seq).unwrap_or(i64::MAX)])?;
    let mut changes = Vec::new();
    while let Some(row) = rows.next()? {
        let seq = row.get::<_, i64>(7)?.unsigned_abs();
        let (Ok(name), Ok(domain)) = (row.get::<_, String>(9), row.get::<_, String>(10)) else {
            unreadable.note("changed", row, "its name or domain is not text");
            changes.push(Change {
                seq,
                name: String::new(),
                domain: String::new(),
                kind: ChangeKind::Unknown,
            });
            continue;
        };
        let is_subscriber = !rows::is_null(row, 0);
        let kind = match rows::number(row, 8).ok().and_then(Kind::of) {
            Some(Kind::Contacts) => ChangeKind::Contacts(contacts(connection, &domain, &name, unreadable)?),
            Some(Kind::Forwards) => {
                ChangeKind::Forwards(forwards::read(connection, &domain, &name, unreadable)?)
            }
            Some(Kind::Blocks) => ChangeKind::Blocks(blocks::read(connection, &domain, &name, unreadable)?),
            Some(Kind::Subscriber) if is_subscriber => {
                match unreadable.pass("subscriber", row, SubscriberRow::read(row)) {
                    Some(subscriber) => ChangeKind::Subscriber(subscriber.hashes()),
                    None => ChangeKind::Removed,
                }
            }
            Some(Kind::Subscriber | Kind::Removed) => ChangeKind::Removed,
            None => ChangeKind::Unknown,
        };
        changes.push(Change { seq, name, domain, kind });
    }
    Ok(changes)
}

fn contacts(
    connection: &Connection,
    domain: &str,
    name: &str,
    unreadable: &Unreadable,
) -> rusqlite::Result<Vec<String>> {
    let query = "SELECT domain, name, contact FROM contact WHERE domain = ?1 AND name = ?2 ORDER BY contact";
    let mut statement = connection.prepare_cached(query)?;
    let mut rows = statement.query(params![domain, name])?;
    let mut contacts = Vec::new();
    while let Some(row) = rows.next()? {
        contacts.extend(unreadable.pass("contact", row, rows::contact(row)).map(str::to_owned));
    }
    Ok(contacts)
}
