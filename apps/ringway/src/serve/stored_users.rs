//! Users for the admin API, in the store or in a database.

use ringway_sql::connection::DatabaseAccess;
use ringway_sql::provisioning::{ProvisioningError, UserTables};
use ringway_store::{Store, StoreError, UserName};
use std::sync::Arc;

/// Users as the admin API reads and changes them: read from the store, changed in the database if they come from one.
pub(super) struct StoredUsers {
    store: Arc<Store>,
    database: Option<DatabaseAccess>,
}

/// Error of a change.
pub(super) enum ChangeError {
    Store(StoreError),
    Database(String),
}

impl StoredUsers {
    pub(super) fn new(store: Arc<Store>, database: Option<DatabaseAccess>) -> Self {
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
        let Some(access) = &self.database else { return edit(&self.store).map_err(ChangeError::Store) };
        let url = access.url();
        let failed = |error: ProvisioningError| match error {
            ProvisioningError::Store(error) => ChangeError::Store(error),
            error => ChangeError::Database(format!("{}: {error}; nothing was changed", url.shown())),
        };
        UserTables::open(&url)
            .and_then(|mut tables| tables.edit(user, |store| edit(store).map_err(ProvisioningError::from)))
            .map_err(failed)
    }
}
