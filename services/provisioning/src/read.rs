//! Reads users from the tables: all of them, or those that changed.

use crate::ProvisioningError;
use crate::row::{RowReader, Subscriber};
use crate::status::Status;
use crate::window::{ChangeWindow, Horizon};
use ringway_database::{Engine, Server};
use ringway_store::{Forwards, IncomingRows, StoreError, UserName, UserState};
use std::collections::BTreeMap;

/// Changes that were read.
pub(crate) struct Changes {
    /// Their numbers, sorted; at most [`CHANGES_MAX`].
    pub(crate) numbers: Vec<u64>,
    /// Users with their present state; those that are gone have an empty one.
    pub(crate) users: Vec<(UserName, UserState)>,
    /// True if a table was emptied at once, so that all users must be read.
    pub(crate) is_emptied: bool,
    /// Transactions at the moment of the read.
    pub(crate) horizon: Horizon,
}

/// Point of the changes that a read of all users saw.
pub(crate) struct ReadAll {
    /// Number of rows of subscribers.
    pub(crate) subscribers: u64,
    /// Number of the last change.
    pub(crate) last: u64,
    /// Numbers of the last changes before it, sorted.
    pub(crate) numbers: Vec<u64>,
    /// Transactions at the moment of the read.
    pub(crate) horizon: Horizon,
}

/// Number of the last change; 0 without any.
pub(crate) fn last_change(server: &mut Server) -> Result<u64, ProvisioningError> {
    let mut last = 0;
    server.query("SELECT coalesce(max(seq), 0) FROM ringway_change", &mut |row| last = number(row, 0))?;
    Ok(last)
}

/// Reads the changes of a window, and the users that they name.
pub(crate) fn changes(
    server: &mut Server,
    window: &ChangeWindow,
    status: &Status,
) -> Result<Changes, ProvisioningError> {
    let noted = noted(server, &window.condition("c.seq"), CHANGES_MAX)?;
    let mut changes = Changes {
        numbers: noted.numbers,
        users: Vec::new(),
        is_emptied: noted.is_emptied,
        horizon: noted.horizon,
    };
    let (Some(first), Some(last)) = (changes.numbers.first(), changes.numbers.last()) else {
        return Ok(changes);
    };
    if changes.numbers.len() < CHANGES_MAX && !changes.is_emptied {
        // More users than those named may be between these numbers; their present state does no harm.
        changes.users = users(server, &format!("seq BETWEEN {first} AND {last}"), noted.names, status)?;
    }
    Ok(changes)
}

/// Reads all users into `rows`, from one snapshot of the database.
pub(crate) fn all(
    server: &mut Server,
    rows: &IncomingRows<'_>,
    status: &Status,
) -> Result<ReadAll, ProvisioningError> {
    server.run(match server.engine() {
        Engine::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        Engine::MySql => "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    })?;
    let read = all_in_transaction(server, rows, status);
    // Without it the next statement fails, and the connection is given up.
    let _ = server.run("ROLLBACK");
    read
}

fn all_in_transaction(
    server: &mut Server,
    rows_to: &IncomingRows<'_>,
    status: &Status,
) -> Result<ReadAll, ProvisioningError> {
    let last = last_change(server)?;
    let recent = last.saturating_sub(RECENT_CHANGES);
    let noted = noted(server, &format!("c.seq > {recent}"), usize::MAX)?;
    let subscribers = rows(server, rows_to, status)?;
    Ok(ReadAll { subscribers, last, numbers: noted.numbers, horizon: noted.horizon })
}

/// Reads the rows of all users, within a transaction; returns the number of subscribers.
pub(crate) fn rows(
    server: &mut Server,
    rows: &IncomingRows<'_>,
    status: &Status,
) -> Result<u64, ProvisioningError> {
    let reader = RowReader { status };
    let mut failed: Option<StoreError> = None;
    let mut count = 0_u64;
    let mut keep = |result: Result<(), StoreError>| {
        if let Err(error) = result {
            failed.get_or_insert(error);
        }
    };
    server.query(&format!("SELECT {SUBSCRIBER} FROM ringway_subscriber t"), &mut |row| {
        count += 1;
        if count <= USERS_MAX
            && let Some(Subscriber { user, realm, ha1 }) = reader.subscriber(row)
        {
            keep(rows.subscriber(&user, &realm, &ha1));
        }
    })?;
    let subscribers = count;
    server.query(&format!("SELECT {CONTACT} FROM ringway_contact t"), &mut |row| {
        count += 1;
        if count <= USERS_MAX
            && let Some((user, contact)) = reader.contact(row)
        {
            keep(rows.contact(&user, contact));
        }
    })?;
    let mut current: Option<(UserName, Forwards)> = None;
    server.query(
        &format!("SELECT {FORWARD} FROM ringway_forward t ORDER BY t.domain, t.name"),
        &mut |row| {
            count += 1;
            let Some((user, forward)) = reader.forward(row).filter(|_| count <= USERS_MAX) else { return };
            if current.as_ref().is_none_or(|(other, _)| *other != user)
                && let Some((other, forwards)) = current.replace((user, Forwards::default()))
            {
                keep(rows.forwards(&other, &forwards));
            }
            if let Some((_, forwards)) = &mut current {
                forward.add_to(forwards);
            }
        },
    )?;
    if let Some((user, forwards)) = current {
        keep(rows.forwards(&user, &forwards));
    }
    if count > USERS_MAX {
        return Err(ProvisioningError::TooMany(USERS_MAX));
    }
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(subscribers),
    }
}

/// Reads the users that the changes of a condition name, and adds those of `names` that are gone.
fn users(
    server: &mut Server,
    condition: &str,
    names: Vec<UserName>,
    status: &Status,
) -> Result<Vec<(UserName, UserState)>, ProvisioningError> {
    let reader = RowReader { status };
    let mut users: BTreeMap<UserName, UserState> =
        names.into_iter().map(|name| (name, UserState::default())).collect();
    let of_changed = |columns: &str, table: &str| {
        format!(
            "SELECT {columns} FROM {table} t JOIN (SELECT DISTINCT domain, name FROM ringway_change WHERE {condition}) c \
             ON c.domain = t.domain AND c.name = t.name"
        )
    };
    server.query(&of_changed(SUBSCRIBER, "ringway_subscriber"), &mut |row| {
        if let Some(Subscriber { user, realm, ha1 }) = reader.subscriber(row) {
            users.entry(user).or_default().password = Some((realm, ha1));
        }
    })?;
    server.query(&of_changed(CONTACT, "ringway_contact"), &mut |row| {
        let Some((user, contact)) = reader.contact(row) else { return };
        let contacts = &mut users.entry(user).or_default().contacts;
        if contacts.len() < CONTACTS_MAX && !contacts.iter().any(|other| other == contact) {
            contacts.push(contact.to_owned());
        }
    })?;
    server.query(&of_changed(FORWARD, "ringway_forward"), &mut |row| {
        if let Some((user, forward)) = reader.forward(row) {
            forward.add_to(&mut users.entry(user).or_default().forwards);
        }
    })?;
    users.values_mut().for_each(|state| state.contacts.sort());
    Ok(users.into_iter().collect())
}

struct Noted {
    numbers: Vec<u64>,
    names: Vec<UserName>,
    is_emptied: bool,
    horizon: Horizon,
}

/// Reads the rows of `ringway_change` of a condition with the transactions of the same moment.
fn noted(server: &mut Server, condition: &str, limit: usize) -> Result<Noted, ProvisioningError> {
    // PostgreSQL tells which transactions have ended; elsewhere one of more than ten minutes is given up.
    let horizon = match server.engine() {
        Engine::Postgres => {
            "(SELECT pg_snapshot_xmin(s)::text AS done, pg_snapshot_xmax(s)::text AS next FROM pg_current_snapshot() s) h"
        }
        Engine::MySql => "(SELECT unix_timestamp() AS done, unix_timestamp() + 600 AS next) h",
    };
    let limit = if limit == usize::MAX { String::new() } else { format!(" LIMIT {limit}") };
    let query = format!(
        "SELECT h.done, h.next, c.seq, c.domain, c.name FROM {horizon} LEFT JOIN ringway_change c ON {condition} ORDER BY c.seq{limit}"
    );
    let mut noted = Noted {
        numbers: Vec::new(),
        names: Vec::new(),
        is_emptied: false,
        horizon: Horizon { done: 0, next: u64::MAX },
    };
    server.query(&query, &mut |row| {
        noted.horizon = Horizon { done: number(row, 0), next: number(row, 1) };
        let [_, _, Some(_), domain, name] = row else { return };
        noted.numbers.push(number(row, 2));
        match (domain.unwrap_or_default(), name.unwrap_or_default()) {
            ("", "") => noted.is_emptied = true,
            // An invalid name is that of no user here.
            (domain, name) => noted.names.extend(UserName::new(name, domain)),
        }
    })?;
    Ok(noted)
}

fn number(row: &[Option<&str>], column: usize) -> u64 {
    row.get(column).copied().flatten().and_then(|text| text.parse().ok()).unwrap_or_default()
}

pub(crate) const SUBSCRIBER: &str = "t.name, t.domain, t.realm, t.ha1_md5, t.ha1_sha256";
pub(crate) const CONTACT: &str = "t.name, t.domain, t.contact";
pub(crate) const FORWARD: &str = "t.name, t.domain, t.kind, concat(t.after_s, ''), t.uri";

/// Changes that are followed one by one; with more all users are read.
pub(crate) const CHANGES_MAX: usize = 20_000;

/// Changes before the last whose numbers a read of all users compares.
const RECENT_CHANGES: u64 = 10_000;

/// Maximum number of rows of a database.
const USERS_MAX: u64 = 10_000_000;

/// Maximum number of permanent contacts of a user.
const CONTACTS_MAX: usize = 100;
