//! Reads users from the tables: all of them, or those that changed.

use crate::ProvisioningError;
use crate::progress::{Progress, Seen, Snapshot};
use crate::row::{ROWS_MAX, RowReader, Subscriber};
use crate::status::Status;
use crate::window::Horizon;
use ringway_database::{Engine, Server};
use ringway_store::{Forwards, IncomingRows, StoreError, UserName, UserState};
use std::collections::BTreeMap;

/// Changes that were read.
pub(crate) struct Changes {
    /// Rows of changes.
    pub(crate) noted: Noted,
    /// Users with their present state; those that are gone have an empty one.
    pub(crate) users: Vec<(UserName, UserState)>,
}

/// Rows of `ringway_change`, with the state of the database at the moment of their read.
pub(crate) struct Noted {
    /// Identity of the database and of its tables: tables that are made anew, as by a restore, have another one.
    pub(crate) database: String,
    /// Number of the last change; 0 without any.
    pub(crate) last: u64,
    /// Numbers of the rows, sorted; at most [`CHANGES_MAX`].
    pub(crate) numbers: Vec<u64>,
    /// True if all users must be read: a table was emptied at once, or rows are of another database.
    pub(crate) is_unfollowable: bool,
    /// True if rows have numbers of transactions that are still to come: they are of another database.
    pub(crate) has_foreign: bool,
    names: Vec<UserName>,
    snapshot: Option<Snapshot>,
    horizon: Horizon,
    step: u64,
}

/// A read of all users.
pub(crate) struct ReadAll {
    /// Number of rows of subscribers.
    pub(crate) subscribers: u64,
    /// Rows of the last changes.
    pub(crate) noted: Noted,
}

impl Noted {
    /// The part that moves the progress of a store.
    pub(crate) fn seen(&self) -> Seen<'_> {
        Seen {
            numbers: &self.numbers,
            snapshot: self.snapshot.as_ref(),
            horizon: self.horizon,
            step: self.step,
        }
    }
}

/// Reads the changes that the store does not have, and the users that they name.
pub(crate) fn changes(
    server: &mut Server,
    progress: &Progress,
    status: &Status,
) -> Result<Changes, ProvisioningError> {
    let mut noted = noted(server, &progress.condition())?;
    noted.is_unfollowable |= noted.numbers.len() >= CHANGES_MAX || noted.has_foreign;
    let mut users = Vec::new();
    if let (Some(first), Some(last), false) =
        (noted.numbers.first(), noted.numbers.last(), noted.is_unfollowable)
    {
        let names = std::mem::take(&mut noted.names);
        // More users than those named may be between these numbers; their present state does no harm.
        users = of_changes(server, &format!("seq BETWEEN {first} AND {last}"), names, status)?;
    }
    Ok(Changes { noted, users })
}

/// Reads all users into `rows`, from one snapshot of the database.
pub(crate) fn all(
    server: &mut Server,
    to: &IncomingRows<'_>,
    status: &Status,
) -> Result<ReadAll, ProvisioningError> {
    server.run(match server.engine() {
        Engine::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        Engine::MySql => "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    })?;
    let recent = format!("c.seq > (SELECT coalesce(max(seq), 0) FROM ringway_change) - {}", CHANGES_MAX - 1);
    let noted = noted(server, &recent)?;
    let subscribers = rows(server, to, status)?;
    server.run("ROLLBACK")?;
    Ok(ReadAll { subscribers, noted })
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
        if count <= ROWS_MAX
            && let Some(Subscriber { user, realm, ha1 }) = reader.subscriber(row)
        {
            keep(rows.subscriber(&user, &realm, &ha1.into()));
        }
    })?;
    let subscribers = count;
    server.query(&format!("SELECT {CONTACT} FROM ringway_contact t"), &mut |row| {
        count += 1;
        if count <= ROWS_MAX
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
            let Some((user, forward)) = reader.forward(row).filter(|_| count <= ROWS_MAX) else { return };
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
    if count > ROWS_MAX {
        return Err(ProvisioningError::TooMany(ROWS_MAX));
    }
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(subscribers),
    }
}

/// Reads the users that the changes of a condition name, and adds those of `names` that are gone.
fn of_changes(
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
            users.entry(user).or_default().password = Some((realm, ha1.into()));
        }
    })?;
    server.query(&of_changed(CONTACT, "ringway_contact"), &mut |row| {
        let Some((user, contact)) = reader.contact(row) else { return };
        let contacts = &mut users.entry(user).or_default().contacts;
        if !contacts.iter().any(|other| other == contact) {
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

/// Reads rows of `ringway_change` with the state of the database at that moment; one statement, so that it has one snapshot.
fn noted(server: &mut Server, condition: &str) -> Result<Noted, ProvisioningError> {
    let state = match server.engine() {
        Engine::Postgres => POSTGRES_STATE,
        Engine::MySql => MYSQL_STATE,
    };
    let foreign = match server.engine() {
        Engine::Postgres => "c.xid >= pg_snapshot_xmax(h.snapshot::pg_snapshot)",
        Engine::MySql => "NULL",
    };
    let query = format!(
        "SELECT h.identity, h.last, h.done, h.next, h.step, h.snapshot, c.seq, c.domain, c.name, {foreign} FROM ({state}) h \
         LEFT JOIN ringway_change c ON {condition} ORDER BY c.seq LIMIT {CHANGES_MAX}"
    );
    let mut noted = Noted {
        database: String::new(),
        last: 0,
        numbers: Vec::new(),
        is_unfollowable: false,
        has_foreign: false,
        names: Vec::new(),
        snapshot: None,
        horizon: Horizon { done: 0, next: u64::MAX },
        step: 1,
    };
    server.query(&query, &mut |row| {
        let [identity, _, _, _, _, snapshot, seq, domain, name, foreign] = row else { return };
        if noted.database.is_empty() {
            noted.database = identity.unwrap_or_default().to_owned();
            noted.last = number(row, 1);
            noted.horizon = Horizon { done: number(row, 2), next: number(row, 3) };
            noted.step = number(row, 4).max(1);
            noted.snapshot = snapshot.and_then(Snapshot::new);
        }
        if seq.is_none() {
            return;
        }
        noted.numbers.push(number(row, 6));
        noted.has_foreign |= *foreign == Some("t");
        match (domain.unwrap_or_default(), name.unwrap_or_default()) {
            ("", "") => noted.is_unfollowable = true,
            // A name that is invalid, or in another spelling, is that of no user here.
            (domain, name) => {
                noted.names.extend(UserName::new(name, domain).ok().filter(|user| user.domain() == domain))
            }
        }
    })?;
    Ok(noted)
}

fn number(row: &[Option<&str>], column: usize) -> u64 {
    row.get(column).copied().flatten().and_then(|text| text.parse().ok()).unwrap_or_default()
}

pub(crate) const SUBSCRIBER: &str = "left(t.name, 1025), left(t.domain, 1025), left(t.realm, 1025), left(t.ha1_md5, 1025), left(t.ha1_sha256, 1025)";
pub(crate) const CONTACT: &str = "left(t.name, 1025), left(t.domain, 1025), left(t.contact, 1025)";
pub(crate) const FORWARD: &str =
    "left(t.name, 1025), left(t.domain, 1025), left(t.kind, 1025), concat(t.after_s, ''), left(t.uri, 1025)";

/// State of PostgreSQL: identity of the database and its tables, and the snapshot.
const POSTGRES_STATE: &str = "SELECT (SELECT value FROM ringway_meta WHERE name = 'identity') || ' ' || concat_ws('/', \
     'ringway_subscriber'::regclass::oid, 'ringway_contact'::regclass::oid, 'ringway_forward'::regclass::oid, \
     'ringway_change'::regclass::oid) AS identity, (SELECT coalesce(max(seq), 0) FROM ringway_change) AS last, \
     0 AS done, 0 AS next, 1 AS step, pg_current_snapshot()::text AS snapshot";

/// State of MySQL, which does not tell which transactions have ended: one of more than ten minutes is given up.
const MYSQL_STATE: &str = "SELECT concat((SELECT value FROM ringway_meta WHERE name = 'identity'), ' ', \
     (SELECT group_concat(unix_timestamp(create_time) ORDER BY table_name) FROM information_schema.tables \
     WHERE table_schema = database() AND table_name LIKE 'ringway\\_%' AND table_name <> 'ringway_location')) AS identity, \
     (SELECT coalesce(max(seq), 0) FROM ringway_change) AS last, unix_timestamp() AS done, unix_timestamp() + 600 AS next, \
     @@auto_increment_increment AS step, NULL AS snapshot";

/// Changes that are followed one by one; with more all users are read.
pub(crate) const CHANGES_MAX: usize = 20_000;
