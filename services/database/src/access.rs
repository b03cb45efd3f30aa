//! The URL in force, shared by threads.

use crate::DatabaseUrl;
use std::sync::{Arc, Mutex, PoisonError};

/// URL of a database that can change while it is used: a new password or certificate counts from the next connection on.
#[derive(Clone, Debug)]
pub struct DatabaseAccess(Arc<Mutex<DatabaseUrl>>);

impl DatabaseAccess {
    /// Shares a URL.
    pub fn new(url: DatabaseUrl) -> Self {
        Self(Arc::new(Mutex::new(url)))
    }

    /// The URL in force.
    pub fn url(&self) -> DatabaseUrl {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the URL.
    pub fn replace(&self, url: DatabaseUrl) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = url;
    }
}
