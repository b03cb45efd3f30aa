//! The tables of this program in PostgreSQL and MySQL, and their triggers; follows the tables of a database.

use crate::connection::{DatabaseUrl, Engine, Server};
use crate::provisioning::ProvisioningError;
use crate::provisioning::progress::Progress;
use crate::provisioning::read::{self, ReadAll};
use crate::provisioning::status::{Status, now_s};
use ringway_store::{Incoming, Position, Provisioned, Store};
use std::time::{Duration, Instant};

/// Channel of PostgreSQL's notifications.
pub(crate) const CHANNEL: &str = "ringway_change";

/// Treatment of tables that are absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// They are made.
    Create,
    /// It is an error.
    IsError,
}

/// Checks the tables and their triggers.
pub(crate) fn ensure(server: &mut Server, absent: Absent) -> Result<(), ProvisioningError> {
    let mut version = None;
    if !server.columns("ringway_meta")?.is_empty() {
        version = meta(server, "version")?;
    }
    if version.is_none() && absent == Absent::Create {
        create(server)?;
        version = meta(server, "version")?;
    }
    match version.as_deref() {
        Some(VERSION) => {}
        None => return Err(ProvisioningError::Incomplete),
        Some(found) => return Err(ProvisioningError::Newer { found: found.to_owned(), known: VERSION }),
    }
    let triggers = match server.engine() {
        Engine::Postgres => {
            "SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal AND tgrelid IN \
             ('ringway_subscriber'::regclass, 'ringway_contact'::regclass, 'ringway_forward'::regclass)"
        }
        Engine::MySql => {
            "SELECT count(*) FROM information_schema.triggers WHERE trigger_schema = database() AND trigger_name LIKE 'ringway\\_%'"
        }
    };
    let wanted = match server.engine() {
        Engine::Postgres => POSTGRES.matches("CREATE OR REPLACE TRIGGER").count(),
        Engine::MySql => MYSQL.matches("CREATE TRIGGER").count(),
    };
    let mut found = 0;
    server.query(triggers, &mut |row| {
        found = row.first().copied().flatten().and_then(|count| count.parse().ok()).unwrap_or_default();
    })?;
    if found < wanted { Err(ProvisioningError::Incomplete) } else { Ok(()) }
}

/// Names of the first tables and views of a database, those of other programs too; none if it is empty.
///
/// # Errors
/// The database failed.
pub fn table_names(url: &DatabaseUrl) -> Result<Vec<String>, ProvisioningError> {
    let mut server = Server::connect(url).map_err(ProvisioningError::Connect)?;
    let query = match server.engine() {
        Engine::Postgres => {
            "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%' \
             ORDER BY 1 LIMIT 5"
        }
        Engine::MySql => {
            "SELECT table_name FROM information_schema.tables WHERE table_schema = database() ORDER BY 1 LIMIT 5"
        }
    };
    let mut names = Vec::new();
    server.query(query, &mut |row| names.extend(row.first().copied().flatten().map(str::to_owned)))?;
    Ok(names)
}

/// Removes the tables of this program with all users, and what belongs to them. Tables that are absent are no error.
///
/// # Errors
/// The database failed.
pub fn remove_tables(url: &DatabaseUrl) -> Result<(), ProvisioningError> {
    let mut server = Server::connect(url).map_err(ProvisioningError::Connect)?;
    let made_by = match server.engine() {
        Engine::Postgres => POSTGRES,
        Engine::MySql => MYSQL,
    };
    for statement in removal(made_by) {
        server.run(&statement)?;
    }
    Ok(())
}

/// Statements that remove what these statements make. Triggers go with their tables.
fn removal(made_by: &str) -> impl Iterator<Item = String> {
    let statement = |line: &str| {
        let of = |made: &str, kind: &str| {
            let name = line.strip_prefix(made)?.split(' ').next()?;
            Some(format!("DROP {kind} IF EXISTS {name}"))
        };
        of("CREATE TABLE IF NOT EXISTS ", "TABLE").or_else(|| of("CREATE OR REPLACE FUNCTION ", "FUNCTION"))
    };
    made_by.lines().filter_map(statement)
}

fn meta(server: &mut Server, key: &str) -> Result<Option<String>, ProvisioningError> {
    let mut value = None;
    let query = format!("SELECT value FROM ringway_meta WHERE name = '{key}'");
    server.query(&query, &mut |row| value = row.first().copied().flatten().map(str::to_owned))?;
    Ok(value)
}

fn create(server: &mut Server) -> Result<(), ProvisioningError> {
    let statements = match server.engine() {
        Engine::Postgres => POSTGRES,
        Engine::MySql => MYSQL,
    };
    // Nodes that start together make the tables one after the other; the second finds them.
    for statement in statements.split("\n\n").filter(|statement| !statement.trim().is_empty()) {
        server.run(statement.trim().trim_end_matches(';')).map_err(ProvisioningError::Create)?;
    }
    Ok(())
}

/// Version of the tables.
const VERSION: &str = "1";

/// Statements for PostgreSQL, separated by empty lines.
const POSTGRES: &str = include_str!("postgres.sql");

/// Statements for MySQL, separated by empty lines.
const MYSQL: &str = include_str!("mysql.sql");

/// A connection whose users the store has up to a point of the changes.
pub(crate) struct TableSession {
    server: Server,
    /// Name of the source in a position.
    source: String,
    /// Identity of the database and its tables; empty before the first read.
    database: String,
    /// `None`: all users must be read.
    progress: Option<Progress>,
    /// Time at which all users are read again: a failover or a restore can lose changes that were followed.
    read_all_at: Instant,
    /// A read that would have removed most users, which must be confirmed by another one.
    doubted: Option<Instant>,
    trimmed: Option<Instant>,
}

impl TableSession {
    /// Reads what the store lacks.
    pub(crate) fn open(
        mut server: Server,
        source: String,
        store: &Store,
        status: &Status,
    ) -> Result<Self, ProvisioningError> {
        let position = Provisioned::of(store).position()?;
        // Tables that a copy was read from are not made anew: a restore that is under way makes them.
        let absent = if position.is_some() { Absent::IsError } else { Absent::Create };
        ensure(&mut server, absent)?;
        server.listen(CHANNEL)?;
        let kept = position
            .filter(|position| {
                position.source == source && now_s().saturating_sub(position.at_s) < KEPT_S_MAX - DAY_S
            })
            .and_then(|kept| {
                Progress::from_text(server.engine(), &kept.changes).map(|progress| (kept.database, progress))
            });
        let (database, progress) =
            kept.map_or((String::new(), None), |(database, progress)| (database, Some(progress)));
        let read_all_at = Instant::now() + if progress.is_some() { AGAIN_AFTER } else { AGAIN_INTERVAL };
        let mut session =
            Self { server, source, database, progress, read_all_at, doubted: None, trimmed: None };
        session.read(store, status)?;
        Ok(session)
    }

    /// The connection.
    pub(crate) fn server(&mut self) -> &mut Server {
        &mut self.server
    }

    /// Reads changes; returns the number of users that they changed.
    pub(crate) fn read(&mut self, store: &Store, status: &Status) -> Result<u64, ProvisioningError> {
        let Some(progress) = self.progress.as_mut().filter(|_| Instant::now() < self.read_all_at) else {
            return self.read_all(store, status);
        };
        let changes = read::changes(&mut self.server, progress, status)?;
        let is_followed = progress.follow(changes.noted.last, &changes.noted.seen());
        if !is_followed || changes.noted.is_unfollowable || changes.noted.database != self.database {
            self.progress = None;
            return self.read_all(store, status);
        }
        let mut changed = 0;
        if !changes.noted.numbers.is_empty() {
            changed = Provisioned::of(store).put(&changes.users, &self.position())?;
        }
        self.trim(changes.noted.last)?;
        Ok(changed)
    }

    /// Reads all users; returns the number of those that changed.
    fn read_all(&mut self, store: &Store, status: &Status) -> Result<u64, ProvisioningError> {
        if self.doubted.is_some_and(|since| since.elapsed() < CONFIRM_AFTER) {
            return Ok(0);
        }
        status.read_all();
        // Tables of a restore that is under way have no triggers yet.
        ensure(&mut self.server, Absent::IsError)?;
        let mut incoming = Provisioned::of(store).incoming()?;
        let read = incoming.fill(|rows| read::all(&mut self.server, rows, status))?;
        if read.noted.has_foreign {
            // Numbers of transactions of another server would be read again with each change.
            self.server
                .run("DELETE FROM ringway_change WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())")?;
        }
        self.apply(incoming, &read, store)
    }

    fn apply(&mut self, incoming: Incoming, read: &ReadAll, store: &Store) -> Result<u64, ProvisioningError> {
        let provisioned = Provisioned::of(store);
        let before = provisioned.subscribers()?;
        let is_other = provisioned.position()?.is_some_and(|before| before.database != read.noted.database);
        if is_other && read.subscribers == 0 && before > 0 {
            return Err(ProvisioningError::OtherEmpty);
        }
        if before > DOUBT_MIN && read.subscribers < before / 2 && self.doubted.is_none() {
            let found = read.subscribers;
            tracing::warn!(
                "the database has {found} of {before} users: they are removed if it has no more of them in {} s",
                CONFIRM_AFTER.as_secs()
            );
            self.doubted = Some(Instant::now());
            self.progress = None;
            return Ok(0);
        }
        self.doubted = None;
        let (progress, is_uncertain) = Progress::after_all(read.noted.last, &read.noted.seen());
        self.progress = Some(progress);
        self.database.clone_from(&read.noted.database);
        self.read_all_at = Instant::now() + if is_uncertain { UNCERTAIN_AFTER } else { AGAIN_INTERVAL };
        let restored = provisioned.replace(incoming, &self.position())?;
        if restored.removed > 0 {
            tracing::warn!(
                "{} users were removed: a read of all users of the database did not find them",
                restored.removed
            );
        }
        Ok(restored.added + restored.removed + restored.changed + restored.contacts + restored.forwards)
    }

    fn position(&self) -> Position {
        Position {
            source: self.source.clone(),
            database: self.database.clone(),
            changes: self.progress.as_ref().map(Progress::to_text).unwrap_or_default(),
            at_s: now_s(),
        }
    }

    /// Removes old rows of the changes, once an hour.
    fn trim(&mut self, last: u64) -> Result<(), ProvisioningError> {
        if self.trimmed.is_some_and(|at| at.elapsed() < TRIM_INTERVAL) {
            return Ok(());
        }
        self.trimmed = Some(Instant::now());
        // The last number stays, so that a database that was restored can be told by it.
        let statement = match self.server.engine() {
            Engine::Postgres => {
                format!("DELETE FROM ringway_change WHERE at < now() - interval '7 days' AND seq < {last}")
            }
            Engine::MySql => format!(
                "DELETE FROM ringway_change WHERE at < current_timestamp - interval 7 day AND seq < {last} LIMIT 10000"
            ),
        };
        match self.server.run(&statement) {
            // A user without the right to do so leaves it to others.
            Err(error) if error.is_of_statement() => Ok(()),
            result => Ok(result?),
        }
    }
}

const TRIM_INTERVAL: Duration = Duration::from_secs(3600);

const DAY_S: u64 = 86_400;

/// Time for which rows of changes are kept, in seconds.
const KEPT_S_MAX: u64 = 7 * DAY_S;

/// Interval of reads of all users beside the changes.
const AGAIN_INTERVAL: Duration = Duration::from_secs(DAY_S);

/// Time from a connection until all users are read again.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Time from a read of all users of MySQL until the next one: transactions that had not ended then have.
const UNCERTAIN_AFTER: Duration = Duration::from_secs(660);

/// Number of users from which on the removal of most of them is doubted, and the time until it is confirmed.
const DOUBT_MIN: u64 = 10;
const CONFIRM_AFTER: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_made_is_removed() {
        let tables = ["subscriber", "contact", "forward", "change", "meta"];
        let tables = tables.map(|table| format!("DROP TABLE IF EXISTS ringway_{table}"));
        let functions = ["note_change", "forget_forwards"];
        let functions = functions.map(|function| format!("DROP FUNCTION IF EXISTS ringway_{function}()"));
        assert_eq!(removal(MYSQL).collect::<Vec<_>>(), tables);
        assert_eq!(removal(POSTGRES).collect::<Vec<_>>(), [&tables[..], &functions].concat());
    }
}
