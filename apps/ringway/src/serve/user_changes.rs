//! Changes of users by the admin API. They go into the store, from which the running server takes them.

use crate::forwards::{checked, shown};
use ringway_admin::{ChangeError, Forwards, UserForwards};
use ringway_store::{Store, StoreError, UserName};
use std::sync::Arc;

/// Users in the store.
pub(super) struct UserChanges {
    store: Arc<Store>,
    /// Domain of a user that is named without one.
    domain: String,
}

impl UserChanges {
    pub(super) fn new(store: Arc<Store>, domain: Option<String>) -> Self {
        Self { store, domain: domain.unwrap_or_else(|| "localhost".to_owned()) }
    }

    pub(super) fn forwards(&self, user: &str) -> Result<UserForwards, ChangeError> {
        let user = self.existing(user)?;
        let forwards = self.store.forwards(&user).map_err(change_error)?;
        Ok(UserForwards { user: user.to_string(), forwards: shown(&forwards) })
    }

    pub(super) fn set_forwards(&self, user: &str, forwards: &Forwards) -> Result<UserForwards, ChangeError> {
        let user = self.existing(user)?;
        let forwards = checked(forwards).map_err(StoreError::from).map_err(change_error)?;
        self.store.set_forwards(&user, &forwards).map_err(change_error)?;
        Ok(UserForwards { user: user.to_string(), forwards: shown(&forwards) })
    }

    fn existing(&self, user: &str) -> Result<UserName, ChangeError> {
        let (name, domain) = user.rsplit_once('@').unwrap_or((user, &self.domain));
        let user = UserName::new(name, domain).map_err(StoreError::from).map_err(change_error)?;
        match self.store.exists(&user).map_err(change_error)? {
            true => Ok(user),
            false => Err(change_error(StoreError::NoSuchUser(user.to_string()))),
        }
    }
}

fn change_error(error: StoreError) -> ChangeError {
    let text = error.to_string();
    match error {
        StoreError::NoSuchUser(_) | StoreError::NoSuchContact { .. } => ChangeError::NotFound(text),
        StoreError::Unusable { .. } | StoreError::Exists(_) | StoreError::BadRow { .. } => {
            ChangeError::Invalid(text)
        }
        StoreError::Corrupt { .. }
        | StoreError::Newer { .. }
        | StoreError::Journal(_)
        | StoreError::Io { .. }
        | StoreError::Locked { .. }
        | StoreError::Database { .. }
        | StoreError::Random(_) => ChangeError::Failed(text),
    }
}
