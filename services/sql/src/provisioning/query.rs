//! Users of an operator's own tables, by queries whose results are followed.

use crate::connection::{Engine, Server, hex};
use crate::provisioning::read::{ROWS_MAX, VALUE_BYTES_MAX};
use crate::provisioning::status::{Status, now_s};
use crate::provisioning::{ProvisioningError, tables};
use ringway_store::{
    Ha1, Hashes, IncomingRows, Position, Provisioned, Store, StoreError, UserName, UserState,
};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Queries of an operator's own tables, which return passwords of users.
///
/// Columns by their names, in any order: `username`; `domain`, without which a user is of the default domain; `password`, or `ha1`
/// (MD5) and `ha1_sha256` in hexadecimal digits; `realm` of the hashes, without which they are for the realm of the domain; in
/// `changed` also `removed`: any value but empty, `0`, `f` and `false` means that the user is gone.
pub struct UserQuery {
    /// Returns all users.
    pub all: String,
    /// Returns the users that changed lately, a user as often as it likes.
    pub changed: Option<String>,
    /// Time between two runs of `all`.
    pub interval: Duration,
    /// Domain of users without one.
    pub domain: String,
    /// Realm of a domain.
    pub realm_of: Box<dyn Fn(&str) -> String + Send + Sync>,
    /// Password that nobody has: its hash takes the part of a missing one.
    pub no_password: String,
}

/// Positions of the columns in a row.
#[derive(Default)]
struct Columns {
    name: Option<usize>,
    domain: Option<usize>,
    realm: Option<usize>,
    password: Option<usize>,
    ha1: Option<usize>,
    ha1_sha256: Option<usize>,
    removed: Option<usize>,
}

/// A row: the user, and its realm and hashes unless it was removed.
type Row = (UserName, Option<(String, Hashes)>);

impl UserQuery {
    /// Reads all users; returns the fingerprint of the result.
    pub(crate) fn read_all(
        &self,
        server: &mut Server,
        rows: &IncomingRows<'_>,
        status: &Status,
    ) -> Result<u64, ProvisioningError> {
        let mut failed: Option<StoreError> = None;
        let mut count = 0_u64;
        let fingerprint = self.run(server, &self.all, status, &mut |(user, password)| {
            count += 1;
            if count <= ROWS_MAX
                && let Some((realm, hashes)) = password
                && let Err(error) = rows.subscriber(&user, &realm, &hashes)
            {
                failed.get_or_insert(error);
            }
        })?;
        if count > ROWS_MAX {
            return Err(ProvisioningError::TooMany(ROWS_MAX));
        }
        failed.map_or(Ok(fingerprint), |error| Err(error.into()))
    }

    /// A number that differs between two results of `all` with different rows.
    fn fingerprint(&self, server: &mut Server) -> Result<u64, ProvisioningError> {
        let mut sum = 0;
        read_only(server, |server| server.query(&self.all, &mut |row| add_row(&mut sum, row)))?;
        Ok(sum)
    }

    /// Reads the users that changed lately; those that are gone have an empty state. `belongings_of` returns what is not in the database.
    pub(crate) fn changed(
        &self,
        server: &mut Server,
        status: &Status,
        mut belongings_of: impl FnMut(&UserName) -> Result<UserState, StoreError>,
    ) -> Result<Vec<(UserName, UserState)>, ProvisioningError> {
        let Some(changed) = &self.changed else { return Ok(Vec::new()) };
        let mut rows = Vec::new();
        self.run(server, changed, status, &mut |row| {
            if rows.len() < CHANGED_MAX {
                rows.push(row);
            }
        })?;
        let mut users = Vec::with_capacity(rows.len());
        for (user, password) in rows {
            let state = match password {
                None => UserState::default(),
                password => UserState { password, ..belongings_of(&user)? },
            };
            users.push((user, state));
        }
        Ok(users)
    }

    /// Passes each valid row of a query; returns the fingerprint of the result.
    fn run(
        &self,
        server: &mut Server,
        query: &str,
        status: &Status,
        each: &mut dyn FnMut(Row),
    ) -> Result<u64, ProvisioningError> {
        let mut sum = 0;
        let columns = std::cell::RefCell::new(Columns::default());
        read_only(server, |server| {
            server.query_named(
                query,
                &mut |row| {
                    add_row(&mut sum, row);
                    if let Some(row) = self.row(&columns.borrow(), row, status) {
                        each(row);
                    }
                },
                &mut |names| *columns.borrow_mut() = Columns::of(names),
            )
        })?;
        match columns.into_inner().missing() {
            // Without a row a database may not tell the columns.
            Some(missing) => Err(ProvisioningError::Column(missing)),
            None => Ok(sum),
        }
    }

    fn row(&self, columns: &Columns, row: &[Option<&str>], status: &Status) -> Option<Row> {
        let value = |column: Option<usize>| {
            row.get(column?)
                .copied()
                .flatten()
                .filter(|value| !value.is_empty() && value.len() <= VALUE_BYTES_MAX)
        };
        let domain = value(columns.domain).unwrap_or(&self.domain);
        let user = match UserName::new(value(columns.name).unwrap_or_default(), domain) {
            Ok(user) => user,
            Err(error) => {
                status.refuse_row(|| error.to_string());
                return None;
            }
        };
        if value(columns.removed).is_some_and(|removed| !["0", "f", "false"].contains(&removed)) {
            return Some((user, None));
        }
        let own = (self.realm_of)(user.domain());
        if let Some(password) = value(columns.password) {
            return match user.hashes(&own, password) {
                Ok(hashes) => Some((user, Some((own, hashes)))),
                Err(error) => {
                    status.refuse_row(|| error.to_string());
                    None
                }
            };
        }
        let realm = value(columns.realm).unwrap_or(&own);
        let Some(md5) = value(columns.ha1).and_then(hex) else {
            status.refuse_row(|| format!("{user}: it has neither a password nor its MD5 hash (ha1)"));
            return None;
        };
        let sha256 = value(columns.ha1_sha256)
            .and_then(hex)
            .or_else(|| user.ha1(realm, &self.no_password).ok().map(|ha1| ha1.sha256))?;
        let realm = realm.to_owned();
        Some((user, Some((realm, Ha1 { md5, sha256 }.into()))))
    }
}

impl Columns {
    fn of(names: &[String]) -> Self {
        let at = |wanted: &[&str]| names.iter().position(|name| wanted.contains(&name.as_str()));
        Self {
            name: at(&["username", "name"]),
            domain: at(&["domain"]),
            realm: at(&["realm"]),
            password: at(&["password"]),
            ha1: at(&["ha1", "ha1_md5"]),
            ha1_sha256: at(&["ha1_sha256"]),
            removed: at(&["removed"]),
        }
    }

    fn missing(&self) -> Option<&'static str> {
        if self.name.is_none() {
            Some("username")
        } else if self.password.is_none() && self.ha1.is_none() {
            Some("password or ha1")
        } else {
            None
        }
    }
}

/// Adds a row to the fingerprint of a result, whose rows come in any order.
fn add_row(sum: &mut u64, row: &[Option<&str>]) {
    let mut hasher = DefaultHasher::new();
    row.hash(&mut hasher);
    *sum = sum.wrapping_add(hasher.finish());
}

/// Runs queries that can change nothing.
fn read_only<T>(
    server: &mut Server,
    queries: impl FnOnce(&mut Server) -> Result<T, crate::connection::DatabaseError>,
) -> Result<T, ProvisioningError> {
    server.run(match server.engine() {
        Engine::Postgres => "BEGIN READ ONLY",
        Engine::MySql => "START TRANSACTION READ ONLY",
    })?;
    let read = queries(server);
    // Without it the next statement fails, and the connection is given up.
    let _ = server.run("ROLLBACK");
    Ok(read?)
}

/// Maximum number of rows of `changed`; the rest is found by `all`.
const CHANGED_MAX: usize = 20_000;

/// A connection whose users the store has as of the last run of the queries.
pub(crate) struct QuerySession {
    server: Server,
    query: Arc<UserQuery>,
    /// Name of the source in a position.
    source: String,
    /// Sum over the rows that the last run of the query returned.
    fingerprint: u64,
    read_all_at: Instant,
}

impl QuerySession {
    /// Reads all users.
    pub(crate) fn open(
        mut server: Server,
        source: String,
        query: Arc<UserQuery>,
        store: &Store,
        status: &Status,
    ) -> Result<Self, ProvisioningError> {
        server.listen(tables::CHANNEL)?;
        let mut session = Self { server, query, source, fingerprint: 0, read_all_at: Instant::now() };
        session.read_all(store, status)?;
        Ok(session)
    }

    /// The connection.
    pub(crate) fn server(&mut self) -> &mut Server {
        &mut self.server
    }

    /// Time between two reads.
    pub(crate) fn interval(&self) -> Duration {
        self.query.interval.min(INTERVAL_MAX)
    }

    /// Reads what changed; returns the number of users that it changed.
    pub(crate) fn read(&mut self, store: &Store, status: &Status) -> Result<u64, ProvisioningError> {
        if self.read_all_at.elapsed() >= self.query.interval {
            self.read_all_at = Instant::now();
            let is_same = self.query.fingerprint(&mut self.server)? == self.fingerprint;
            return if is_same { Ok(0) } else { self.read_all(store, status) };
        }
        let provisioned = Provisioned::of(store);
        let users = self.query.changed(&mut self.server, status, |user| provisioned.user(user))?;
        match users.is_empty() {
            true => Ok(0),
            false => Ok(provisioned.put(&users, &self.position())?),
        }
    }

    fn read_all(&mut self, store: &Store, status: &Status) -> Result<u64, ProvisioningError> {
        status.read_all();
        let provisioned = Provisioned::of(store);
        let mut incoming = provisioned.incoming()?;
        let fingerprint = incoming.fill(|rows| self.query.read_all(&mut self.server, rows, status))?;
        let restored = provisioned.replace_passwords(incoming, &self.position())?;
        self.fingerprint = fingerprint;
        if restored.removed > 0 {
            tracing::info!(
                "{} users were removed: the query does not return them any more",
                restored.removed
            );
        }
        Ok(restored.added + restored.removed + restored.changed)
    }

    fn position(&self) -> Position {
        Position {
            source: self.source.clone(),
            database: String::new(),
            changes: String::new(),
            at_s: now_s(),
        }
    }
}

/// Interval of the query for users that changed lately.
const INTERVAL_MAX: Duration = Duration::from_millis(900);
