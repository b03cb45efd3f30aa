//! Follows the result of an operator's query.

use crate::query::UserQuery;
use crate::status::Status;
use crate::time::now_s;
use crate::{ProvisioningError, tables};
use ringway_database::Server;
use ringway_store::{Position, Provisioned, Store};
use std::sync::Arc;
use std::time::{Duration, Instant};

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
