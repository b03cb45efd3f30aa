//! Follows the result of an operator's query.

use crate::query::UserQuery;
use crate::status::Status;
use crate::time::now_s;
use crate::{ProvisioningError, SourceName, tables};
use ringway_database::Server;
use ringway_store::{Position, Provisioned, Store};
use std::time::Instant;

/// A connection whose users the store has as of the last run of the queries.
pub(crate) struct QuerySession {
    server: Server,
    source: SourceName,
    fingerprint: u64,
    read_all_at: Instant,
}

impl QuerySession {
    /// Reads all users.
    pub(crate) fn open(
        mut server: Server,
        source: SourceName,
        query: &UserQuery,
        store: &Store,
        status: &Status,
    ) -> Result<Self, ProvisioningError> {
        server.listen(tables::CHANNEL)?;
        let mut session = Self { server, source, fingerprint: 0, read_all_at: Instant::now() };
        session.read_all(query, store, status)?;
        Ok(session)
    }

    /// The connection.
    pub(crate) fn server(&mut self) -> &mut Server {
        &mut self.server
    }

    /// Reads what changed; returns the number of users that it changed.
    pub(crate) fn read(
        &mut self,
        query: &UserQuery,
        store: &Store,
        status: &Status,
    ) -> Result<u64, ProvisioningError> {
        if self.read_all_at.elapsed() >= query.interval {
            return self.read_all(query, store, status);
        }
        let provisioned = Provisioned::of(store);
        let users = query.changed(&mut self.server, status, |user| provisioned.user(user))?;
        match users.is_empty() {
            true => Ok(0),
            false => Ok(provisioned.put(&users, &self.position())?),
        }
    }

    fn read_all(
        &mut self,
        query: &UserQuery,
        store: &Store,
        status: &Status,
    ) -> Result<u64, ProvisioningError> {
        self.read_all_at = Instant::now();
        let fingerprint = query.fingerprint(&mut self.server)?;
        if fingerprint == self.fingerprint {
            return Ok(0);
        }
        status.read_all();
        let provisioned = Provisioned::of(store);
        let mut incoming = provisioned.incoming()?;
        incoming.fill(|rows| query.read_all(&mut self.server, rows, status))?;
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
            source: self.source.0.clone(),
            database: String::new(),
            changes: String::new(),
            at_s: now_s(),
        }
    }
}
