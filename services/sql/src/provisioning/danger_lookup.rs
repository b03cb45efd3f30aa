//! Passwords that are read from the database while a request waits, for measurements of what that costs.

use crate::connection::{DatabaseAccess, Server, hex};
use crate::provisioning::ProvisioningError;
use crate::provisioning::status::Status;
use ringway_store::Ha1;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Reads one password at a time from the tables of this program, and blocks the calling thread meanwhile. Each thread has a
/// connection while it reads.
pub struct DangerLookup {
    access: DatabaseAccess,
    /// Connections that no thread uses.
    idle: Mutex<Vec<Server>>,
    lookups: AtomicU64,
    status: Status,
}

impl DangerLookup {
    /// Reads from the database of `access`.
    pub fn new(access: DatabaseAccess) -> Self {
        Self { access, idle: Mutex::default(), lookups: AtomicU64::new(0), status: Status::default() }
    }

    /// Hashes of a user's password; `None` if the database has no such user.
    ///
    /// # Errors
    /// The database failed, or did not answer within a second.
    pub fn find(&self, name: &str, domain: &str) -> Result<Option<Ha1>, ProvisioningError> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let found = self.read(name, &domain.to_ascii_lowercase());
        match &found {
            Ok(_) => {
                self.status.connected();
            }
            Err(error) => {
                if self.status.failed(error.to_string()) {
                    let url = self.access.url().shown();
                    tracing::error!(
                        "{url}: {error}; requests with a password get 503 ([store] danger_lookup)"
                    );
                }
            }
        }
        found
    }

    fn read(&self, name: &str, domain: &str) -> Result<Option<Ha1>, ProvisioningError> {
        let idle = self.idle().pop();
        let mut server = match idle {
            Some(server) => server,
            None => {
                Server::connect_quickly(&self.access.url(), TIME_MAX).map_err(ProvisioningError::Connect)?
            }
        };
        let mut found = None;
        server.execute(SELECT, &[Some(domain), Some(name)], &mut |row| {
            if let [Some(md5), Some(sha256)] = row {
                found = hex(md5).zip(hex(sha256)).map(|(md5, sha256)| Ha1 { md5, sha256 });
            }
        })?;
        self.idle().push(server);
        Ok(found)
    }

    /// Number of lookups, and of those that failed.
    pub fn counts(&self) -> (u64, u64) {
        (self.lookups.load(Ordering::Relaxed), self.status.counts().failures)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Server>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const SELECT: &str = "SELECT ha1_md5, ha1_sha256 FROM ringway_subscriber WHERE domain = $1 AND name = $2";

/// Maximum time of a connection, and of a lookup.
const TIME_MAX: Duration = Duration::from_secs(1);
