//! Reads users from the tables: all of them, or those that changed; their rows, checked.

use crate::connection::{Engine, Server, hex};
use crate::provisioning::ProvisioningError;
use crate::provisioning::progress::{Horizon, Progress, Seen, Snapshot};
use crate::provisioning::status::Status;
use ringway_store::{
    Condition, ForwardUri, Forwards, Ha1, IncomingRows, NoAnswer, StoreError, UserName, UserState,
};
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
const CHANGES_MAX: usize = 20_000;

/// Reads values of rows; counts those that are invalid.
pub(crate) struct RowReader<'a> {
    pub(crate) status: &'a Status,
}

/// A subscriber's row.
pub(crate) struct Subscriber {
    pub(crate) user: UserName,
    pub(crate) realm: String,
    pub(crate) ha1: Ha1,
}

impl RowReader<'_> {
    /// Reads name, domain, realm and both hashes.
    pub(crate) fn subscriber(&self, row: &[Option<&str>]) -> Option<Subscriber> {
        let [name, domain, realm, md5, sha256] = row else { return None };
        let user = self.user(*name, *domain)?;
        let realm = realm.filter(|realm| !realm.is_empty() && realm.len() <= VALUE_BYTES_MAX);
        let (Some(realm), Some(md5), Some(sha256)) = (realm, md5.and_then(hex), sha256.and_then(hex)) else {
            self.status.refuse_row(|| format!("{user}: its realm or a hash is missing or invalid"));
            return None;
        };
        Some(Subscriber { user, realm: realm.to_owned(), ha1: Ha1 { md5, sha256 } })
    }

    /// Reads name, domain and contact.
    pub(crate) fn contact<'r>(&self, row: &[Option<&'r str>]) -> Option<(UserName, &'r str)> {
        let [name, domain, contact] = row else { return None };
        let user = self.user(*name, *domain)?;
        let contact = contact.unwrap_or_default();
        match ringway_store::check_contact(contact) {
            Ok(()) => Some((user, contact)),
            Err(error) => {
                self.status.refuse_row(|| format!("contact of {user}: {error}"));
                None
            }
        }
    }

    /// Reads name, domain, kind, time and URI, and adds the forward to those that `of` returns for the user.
    pub(crate) fn forward(&self, row: &[Option<&str>]) -> Option<(UserName, Forward)> {
        let [name, domain, kind, after_s, uri] = row else { return None };
        let user = self.user(*name, *domain)?;
        let condition = Condition::ALL.into_iter().find(|condition| Some(condition.name()) == *kind);
        let target = ForwardUri::new(uri.unwrap_or_default());
        let forward = match (condition, target) {
            (Some(condition), Ok(target)) => Forward::new(condition, *after_s, target),
            (None, _) => Err("the kind of a forward is always, busy, no-answer or unregistered".to_owned()),
            (_, Err(error)) => Err(error.to_string()),
        };
        match forward {
            Ok(forward) => Some((user, forward)),
            Err(error) => {
                self.status.refuse_row(|| format!("forward of {user}: {error}"));
                None
            }
        }
    }

    pub(crate) fn user(&self, name: Option<&str>, domain: Option<&str>) -> Option<UserName> {
        match UserName::new(name.unwrap_or_default(), domain.unwrap_or_default()) {
            // Nothing finds a row of another spelling again.
            Ok(user) if Some(user.domain()) != domain => {
                self.status.refuse_row(|| format!("the domain of {user} is not in lower case"));
                None
            }
            Ok(user) => Some(user),
            Err(error) => {
                self.status.refuse_row(|| error.to_string());
                None
            }
        }
    }
}

/// A forward of a row.
pub(crate) enum Forward {
    Simple(Condition, ForwardUri),
    NoAnswer(NoAnswer),
}

impl Forward {
    fn new(condition: Condition, after_s: Option<&str>, target: ForwardUri) -> Result<Self, String> {
        match condition {
            Condition::Always | Condition::Busy | Condition::Unregistered => {
                Ok(Self::Simple(condition, target))
            }
            Condition::NoAnswer => {
                let after_s = after_s.and_then(|text| text.parse().ok()).unwrap_or_default();
                NoAnswer::new(after_s, target).map(Self::NoAnswer).map_err(|error| error.to_string())
            }
        }
    }

    pub(crate) fn add_to(self, forwards: &mut Forwards) {
        match self {
            Self::Simple(Condition::Always, to) => forwards.always = Some(to),
            Self::Simple(Condition::Busy, to) => forwards.busy = Some(to),
            Self::Simple(Condition::Unregistered | Condition::NoAnswer, to) => {
                forwards.unregistered = Some(to)
            }
            Self::NoAnswer(no_answer) => forwards.no_answer = Some(no_answer),
        }
    }
}

/// Maximum number of rows of a database.
pub(crate) const ROWS_MAX: u64 = 10_000_000;

/// Maximum length of a value in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 1024;
