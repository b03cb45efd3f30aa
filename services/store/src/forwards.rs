//! Forwards of users.

use super::change_log::{Kind, note};
use super::subscribers::exists;
use super::{Store, StoreError};
use ringway_users::{Condition, ForwardUri, Forwards, NoAnswer, UserName};
use rusqlite::{Connection, Row, Transaction, params};

impl Store {
    /// Replaces the forwards of a user; empty ones remove them.
    ///
    /// # Errors
    /// The user has neither a password nor a permanent contact, a forward leads to the user itself, or a query failed.
    pub fn set_forwards(&self, user: &UserName, forwards: &Forwards) -> Result<(), StoreError> {
        for (_, target) in forwards.targets() {
            if target.is_user(user.name(), user.domain()) {
                let why = "this is the user itself; give another target";
                return Err(StoreError::Unusable { what: target.to_string(), why });
            }
        }
        self.write(|transaction| {
            if !exists(transaction, user).map_err(self.sql())? {
                return Err(StoreError::NoSuchUser(user.to_string()));
            }
            replace(transaction, user, forwards).map_err(self.sql())
        })
    }

    /// True for a user with a password or a permanent contact.
    ///
    /// # Errors
    /// A query failed.
    pub fn exists(&self, user: &UserName) -> Result<bool, StoreError> {
        exists(&self.lock(), user).map_err(self.sql())
    }

    /// Forwards of a user; empty for a user without any.
    ///
    /// # Errors
    /// A query failed, or the data is damaged.
    pub fn forwards(&self, user: &UserName) -> Result<Forwards, StoreError> {
        read(&self.lock(), user.domain(), user.name()).map_err(self.sql())
    }

    /// Passes the forwards of all users that have some, with name and domain.
    ///
    /// # Errors
    /// A query failed, or the data is damaged.
    pub fn load_forwards(&self, mut on_user: impl FnMut(&str, &str, Forwards)) -> Result<(), StoreError> {
        let connection = self.lock();
        let mut load = || {
            let mut statement = connection
                .prepare("SELECT condition, after_s, uri, name, domain FROM forward ORDER BY domain, name")?;
            let mut rows = statement.query([])?;
            let mut current: Option<(String, String, Forwards)> = None;
            while let Some(row) = rows.next()? {
                let (name, domain): (String, String) = (row.get(3)?, row.get(4)?);
                let is_same = matches!(&current, Some((last, of, _)) if *last == name && *of == domain);
                if !is_same && let Some((name, domain, forwards)) = current.take() {
                    on_user(&name, &domain, forwards);
                }
                let (_, _, forwards) = current.get_or_insert_with(|| (name, domain, Forwards::default()));
                add(forwards, row)?;
            }
            if let Some((name, domain, forwards)) = current {
                on_user(&name, &domain, forwards);
            }
            Ok(())
        };
        load().map_err(self.sql())
    }
}

/// Reads the forwards of a user.
pub(super) fn read(connection: &Connection, domain: &str, name: &str) -> rusqlite::Result<Forwards> {
    let mut statement = connection
        .prepare_cached("SELECT condition, after_s, uri FROM forward WHERE domain = ?1 AND name = ?2")?;
    let mut rows = statement.query(params![domain, name])?;
    let mut forwards = Forwards::default();
    while let Some(row) = rows.next()? {
        add(&mut forwards, row)?;
    }
    Ok(forwards)
}

/// Replaces the forwards of a user, and notes the change.
pub(super) fn replace(
    transaction: &Transaction<'_>,
    user: &UserName,
    forwards: &Forwards,
) -> rusqlite::Result<()> {
    write(transaction, user, forwards)?;
    note(transaction, user.domain(), user.name(), Kind::Forwards)
}

/// Replaces the forwards of a user without a note of the change.
pub(super) fn write(
    transaction: &Transaction<'_>,
    user: &UserName,
    forwards: &Forwards,
) -> rusqlite::Result<()> {
    let key = params![user.domain(), user.name()];
    transaction.execute("DELETE FROM forward WHERE domain = ?1 AND name = ?2", key)?;
    let mut insert = transaction.prepare_cached(
        "INSERT INTO forward (domain, name, condition, after_s, uri) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for (condition, target) in forwards.targets() {
        let after_s = match condition {
            Condition::NoAnswer => forwards.no_answer.as_ref().map(NoAnswer::after_s),
            Condition::Always | Condition::Busy | Condition::Unregistered => None,
        };
        let number = number_of(condition);
        insert.execute(params![user.domain(), user.name(), number, after_s, target.as_str()])?;
    }
    Ok(())
}

/// Adds the forward of a row with the columns condition, after_s and uri. One that nobody can have set is left out with a warning: the other users' must not depend on it.
fn add(forwards: &mut Forwards, row: &Row<'_>) -> rusqlite::Result<()> {
    match add_valid(forwards, row) {
        Err(
            rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..),
        ) => {
            tracing::warn!(
                "a forward in the database is damaged, and left out; set the forwards of that user again"
            );
            Ok(())
        }
        other => other,
    }
}

fn add_valid(forwards: &mut Forwards, row: &Row<'_>) -> rusqlite::Result<()> {
    let damaged = |column| rusqlite::Error::IntegralValueOutOfRange(column, 0);
    let number: i64 = row.get(0)?;
    let condition = Condition::ALL.into_iter().find(|condition| number_of(*condition) == number);
    let target = ForwardUri::new(row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?);
    let target = target.map_err(|_| damaged(2))?;
    match condition.ok_or_else(|| damaged(0))? {
        Condition::Always => forwards.always = Some(target),
        Condition::Busy => forwards.busy = Some(target),
        Condition::Unregistered => forwards.unregistered = Some(target),
        Condition::NoAnswer => {
            let after_s: u32 = row.get(1)?;
            let no_answer = NoAnswer::new(after_s.into(), target).map_err(|_| damaged(1))?;
            forwards.no_answer = Some(no_answer);
        }
    }
    Ok(())
}

/// Number of a condition in the table.
const fn number_of(condition: Condition) -> i64 {
    match condition {
        Condition::Always => 1,
        Condition::Busy => 2,
        Condition::NoAnswer => 3,
        Condition::Unregistered => 4,
    }
}
