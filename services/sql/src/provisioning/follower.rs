//! The thread that follows a database.

use crate::connection::{DatabaseAccess, Engine, Server, Wait};
use crate::provisioning::ProvisioningError;
use crate::provisioning::query::{QuerySession, UserQuery};
use crate::provisioning::status::{PAUSE_MAX, PAUSE_MIN, Status, now_s, wait};
use crate::provisioning::tables::TableSession;
use ringway_store::{Provisioned, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Users of a database that a store follows.
pub struct Follower {
    access: DatabaseAccess,
    /// Query of the operator's own tables; `None`: the tables are those of this program.
    query: Option<Arc<UserQuery>>,
    store: Store,
    status: Arc<Status>,
}

enum Session {
    Tables(TableSession),
    Query(QuerySession),
}

/// The running thread; it ends soon after the value is dropped.
pub struct Provisioning {
    status: Arc<Status>,
    is_ended: Arc<AtomicBool>,
}

impl Follower {
    /// Follows the database of `access` into `store`, which is not shared with threads that must not wait.
    pub fn new(access: DatabaseAccess, query: Option<UserQuery>, store: Store) -> Self {
        Self { access, query: query.map(Arc::new), store, status: Arc::new(Status::default()) }
    }

    /// True if the store has users of an earlier read of this database. Without them a server has none, or those of another one.
    ///
    /// # Errors
    /// A query of the store failed, or it has users of its own.
    pub fn has_users(&self) -> Result<bool, ProvisioningError> {
        let provisioned = Provisioned::of(&self.store);
        match provisioned.position()? {
            Some(position) => Ok(position.source == self.source()),
            None => match provisioned.subscribers()? {
                0 => Ok(false),
                own => Err(ProvisioningError::OwnUsers {
                    file: self.store.file().display().to_string(),
                    users: own,
                }),
            },
        }
    }

    /// Name of the source in a position: the URL without a password, and the query.
    fn source(&self) -> String {
        let url = self.access.url().shown();
        match &self.query {
            Some(query) => format!("{url} {}", query.all),
            None => url,
        }
    }

    /// Reads what the store lacks, once.
    ///
    /// # Errors
    /// The database or the store failed.
    pub fn read_once(&self) -> Result<(), ProvisioningError> {
        self.connect().map(drop)
    }

    /// Starts the thread; `on_change` is called after each change of the store.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(self, on_change: impl Fn() + Send + 'static) -> std::io::Result<Provisioning> {
        let is_ended = Arc::new(AtomicBool::new(false));
        let provisioning = Provisioning { status: Arc::clone(&self.status), is_ended: Arc::clone(&is_ended) };
        std::thread::Builder::new().name("provisioning".to_owned()).spawn(move || {
            self.run(&is_ended, &on_change);
        })?;
        Ok(provisioning)
    }

    fn run(&self, is_ended: &AtomicBool, on_change: &dyn Fn()) {
        let mut pause = PAUSE_MIN;
        while !is_ended.load(Ordering::Relaxed) {
            let session = self.connect().inspect(|_| on_change());
            let failed = match session {
                Ok(session) => {
                    pause = PAUSE_MIN;
                    self.follow(session, is_ended, on_change)
                }
                Err(error) => Err(error),
            };
            let Err(error) = failed else { return };
            if self.status.failed(error.to_string()) {
                let url = self.access.url().shown();
                tracing::error!(
                    "{url}: {error}; users are served as they were last read, and attempts go on"
                );
            }
            wait(pause, is_ended);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Connects, and reads what the store lacks.
    fn connect(&self) -> Result<Session, ProvisioningError> {
        let url = self.access.url();
        let server = Server::connect(&url).map_err(ProvisioningError::Connect)?;
        let session = match &self.query {
            None => Session::Tables(TableSession::open(server, self.source(), &self.store, &self.status)?),
            Some(query) => Session::Query(QuerySession::open(
                server,
                self.source(),
                Arc::clone(query),
                &self.store,
                &self.status,
            )?),
        };
        self.note_read(0);
        if self.status.connected() {
            tracing::info!("{}: the users are up to date, changes are followed", url.shown());
        }
        Ok(session)
    }

    /// Follows changes until the thread ends.
    fn follow(
        &self,
        mut session: Session,
        is_ended: &AtomicBool,
        on_change: &dyn Fn(),
    ) -> Result<(), ProvisioningError> {
        while !is_ended.load(Ordering::Relaxed) {
            let interval = session.interval();
            if session.server().wait(interval)? == Wait::Notified {
                // Further changes of the same moment are read with it.
                std::thread::sleep(TOGETHER);
            }
            let changed = match &mut session {
                Session::Tables(session) => session.read(&self.store, &self.status)?,
                Session::Query(session) => session.read(&self.store, &self.status)?,
            };
            self.note_read(changed);
            if changed > 0 {
                on_change();
            }
        }
        Ok(())
    }

    fn note_read(&self, changed: u64) {
        self.status.reached(now_s(), changed);
        if let Some(first) = self.status.take_refused() {
            let url = self.access.url().shown();
            tracing::warn!("{url}: rows are passed over, the first one: {first}; correct it in the database");
        }
    }
}

impl Session {
    /// Time between two reads without a notification.
    fn interval(&mut self) -> Duration {
        match self {
            Self::Tables(session) => match session.server().engine() {
                Engine::Postgres => NOTIFIED_INTERVAL,
                Engine::MySql => POLL_INTERVAL,
            },
            Self::Query(session) => session.interval(),
        }
    }

    fn server(&mut self) -> &mut Server {
        match self {
            Self::Tables(session) => session.server(),
            Self::Query(session) => session.server(),
        }
    }
}

impl Provisioning {
    /// State of the database.
    pub fn status(&self) -> &Arc<Status> {
        &self.status
    }
}

impl Drop for Provisioning {
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::Relaxed);
    }
}

/// Interval of reads of changes without notifications.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Interval of reads of changes beside notifications, which finds a connection that is gone.
const NOTIFIED_INTERVAL: Duration = Duration::from_secs(5);

/// Time in which further changes are waited for.
const TOGETHER: Duration = Duration::from_millis(20);
