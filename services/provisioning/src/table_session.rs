//! Follows the tables of this program in a database.

use crate::ProvisioningError;
use crate::progress::Progress;
use crate::read::{self, ReadAll};
use crate::status::Status;
use crate::tables::{self, Absent};
use crate::time::now_s;
use ringway_database::{Engine, Server};
use ringway_store::{Incoming, Position, Provisioned, Store};
use std::time::{Duration, Instant};

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
        tables::ensure(&mut server, absent)?;
        server.listen(tables::CHANNEL)?;
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
        tables::ensure(&mut self.server, Absent::IsError)?;
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
