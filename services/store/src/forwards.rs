//! Forwards of users.

use super::rows::{self, Fault, Kind, Unreadable, note};
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
        read(&self.lock(), user.domain(), user.name(), &self.unreadable).map_err(self.sql())
    }

    /// Passes the forwards of all users that have some, with name and domain.
    ///
    /// # Errors
    /// A query failed, or the data is damaged.
    pub fn load_forwards(&self, mut on_user: impl FnMut(&str, &str, Forwards)) -> Result<(), StoreError> {
        let connection = self.lock();
        let mut load = || {
            let query = "SELECT domain, name, condition, after_s, uri FROM forward ORDER BY domain, name";
            let mut statement = connection.prepare(query)?;
            let mut rows = statement.query([])?;
            let mut current: Option<(String, String, Forwards)> = None;
            while let Some(row) = rows.next()? {
                let read = rows::user(row).and_then(|user| Ok((user, forward(row)?)));
                let Some((user, new)) = self.unreadable.pass(TABLE, row, read) else { continue };
                let (name, domain) = (user.name().to_owned(), user.domain().to_owned());
                let is_same = matches!(&current, Some((last, of, _)) if *last == name && *of == domain);
                if !is_same && let Some((name, domain, forwards)) = current.take() {
                    on_user(&name, &domain, forwards);
                }
                let (_, _, forwards) = current.get_or_insert_with(|| (name, domain, Forwards::default()));
                new.add_to(forwards);
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
pub(super) fn read(
    connection: &Connection,
    domain: &str,
    name: &str,
    unreadable: &Unreadable,
) -> rusqlite::Result<Forwards> {
    let mut statement = connection.prepare_cached(
        "SELECT domain, name, condition, after_s, uri FROM forward WHERE domain = ?1 AND name = ?2",
    )?;
    let mut rows = statement.query(params![domain, name])?;
    let mut forwards = Forwards::default();
    while let Some(row) = rows.next()? {
        if let Some(new) = unreadable.pass(TABLE, row, forward(row)) {
            new.add_to(&mut forwards);
        }
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

/// A forward of a user.
pub(super) enum Forward {
    To(Condition, ForwardUri),
    NoAnswer(NoAnswer),
}

impl Forward {
    fn add_to(self, forwards: &mut Forwards) {
        match self {
            Self::To(Condition::Always, target) => forwards.always = Some(target),
            Self::To(Condition::Busy, target) => forwards.busy = Some(target),
            Self::To(Condition::Unregistered, target) => forwards.unregistered = Some(target),
            // It has a time.
            Self::To(Condition::NoAnswer, _) => {}
            Self::NoAnswer(no_answer) => forwards.no_answer = Some(no_answer),
        }
    }
}

/// The forward of a row with the columns domain, name, condition, after_s and uri.
pub(super) fn forward(row: &Row<'_>) -> Result<Forward, Fault> {
    let number = rows::number(row, 2)?;
    let condition = Condition::ALL.into_iter().find(|condition| number_of(*condition) == number);
    let condition = condition.ok_or_else(|| format!("there is no condition {number}"))?;
    let target = ForwardUri::new(rows::text(row, 4)?).map_err(|unusable| unusable.to_string())?;
    if condition != Condition::NoAnswer {
        return Ok(Forward::To(condition, target));
    }
    let after_s = u64::try_from(rows::number(row, 3)?).unwrap_or_default();
    NoAnswer::new(after_s, target).map(Forward::NoAnswer).map_err(|unusable| unusable.to_string())
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

const TABLE: &str = "forward";
