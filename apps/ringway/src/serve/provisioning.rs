//! Users that come from a database.

use super::control::Input;
use crate::config::Config;
use crate::database;
use crate::failure::Failure;
use ringway_database::DatabaseUrl;
use ringway_provisioning::{Counts, Follower, Provisioning, ProvisioningError, UserTables};
use ringway_store::{Store, StoreError, UserName};
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// The database that the store follows.
pub(super) type DatabaseFollower = Follower;

/// Prepares to follow the database of the configuration, if it has one. The first start reads its users.
pub(crate) fn prepare(config: &Config) -> Result<Option<DatabaseFollower>, Failure> {
    let Some(url) = &config.store.database else { return Ok(None) };
    let failed = |error: ProvisioningError| database::failed(url, &error);
    // A connection of its own: a long write must not keep the others of the store waiting.
    let follower = Follower::new(url.clone(), Store::open(&config.store.url)?);
    if !follower.has_users().map_err(failed)? {
        tracing::info!("{}: reading the users for the first time", url.shown());
        follower.read_once().map_err(failed)?;
    }
    Ok(Some(follower))
}

/// Starts the thread that follows the database; the main thread is told of changes.
pub(super) fn start(
    follower: Option<DatabaseFollower>,
    inputs: Sender<Input>,
) -> Result<Option<Provisioning>, Failure> {
    let on_change = move || {
        // It fails while the server stops.
        let _ = inputs.send(Input::Changed);
    };
    follower
        .map(|follower| follower.start(on_change))
        .transpose()
        .map_err(|error| Failure::failed(format!("cannot start the thread for [store]: {error}")))
}

/// Users as the admin API reads and changes them: read from the store, changed in the database if they come from one.
pub(super) struct StoredUsers {
    store: Arc<Store>,
    database: Option<DatabaseUrl>,
}

/// Error of a change.
pub(super) enum ChangeError {
    Store(StoreError),
    Database(String),
}

impl StoredUsers {
    pub(super) fn new(store: Arc<Store>, database: Option<DatabaseUrl>) -> Self {
        Self { store, database }
    }

    /// The store of this node.
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Changes a user. With a database this takes as long as the database does.
    pub(super) fn edit<T>(
        &self,
        user: &UserName,
        edit: impl FnOnce(&Store) -> Result<T, StoreError>,
    ) -> Result<T, ChangeError> {
        let Some(url) = &self.database else { return edit(&self.store).map_err(ChangeError::Store) };
        let failed = |error: ProvisioningError| match error {
            ProvisioningError::Store(error) => ChangeError::Store(error),
            error => ChangeError::Database(format!("{}: {error}; nothing was changed", url.shown())),
        };
        UserTables::open(url)
            .and_then(|mut tables| tables.edit(user, |store| edit(store).map_err(ProvisioningError::from)))
            .map_err(failed)
    }
}

/// Passes the counters of provisioning with their names and descriptions.
pub(super) fn count(counts: Counts, mut each: impl FnMut(&'static str, &'static str, u64)) {
    let Counts { connected: _, reached_s: _, full_reads, changes, failures, rows_refused } = counts;
    each("provisioning_full_reads", "Reads of all users of the database.", full_reads);
    each("provisioning_changes", "Users changed by reads of the database.", changes);
    each("provisioning_failures", "Connections to the database and queries that failed.", failures);
    each("provisioning_rows_refused", "Invalid rows of the database that were passed over.", rows_refused);
}
