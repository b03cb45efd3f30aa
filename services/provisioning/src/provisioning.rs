//! The thread that follows a database.

use crate::read::{self, CHANGES_MAX};
use crate::status::Status;
use crate::window::ChangeWindow;
use crate::{ProvisioningError, tables};
use ringway_database::{DatabaseUrl, Engine, Server, Wait};
use ringway_store::{Position, Provisioned, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Users of a database that a store follows.
pub struct Follower {
    url: DatabaseUrl,
    store: Store,
    status: Arc<Status>,
}

/// A connection whose users the store has up to a window of changes.
struct Session {
    server: Server,
    database: String,
    window: ChangeWindow,
    trimmed: Option<Instant>,
}

/// The running thread; it ends soon after the value is dropped.
pub struct Provisioning {
    status: Arc<Status>,
    is_ended: Arc<AtomicBool>,
}

impl Follower {
    /// Follows the database of `url` into `store`, which is not shared with threads that must not wait.
    pub fn new(url: DatabaseUrl, store: Store) -> Self {
        Self { url, store, status: Arc::new(Status::default()) }
    }

    /// True if the store has users of an earlier read. Without them a server has none.
    ///
    /// # Errors
    /// A query of the store failed.
    pub fn has_users(&self) -> Result<bool, ProvisioningError> {
        Ok(Provisioned::of(&self.store).position()?.is_some())
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
                let url = self.url.shown();
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
        let mut server = Server::connect(&self.url)?;
        let database = tables::ensure(&mut server)?;
        server.listen(tables::CHANNEL)?;
        let last = read::last_change(&mut server)?;
        let position = Provisioned::of(&self.store).position()?;
        let kept = position.filter(|position| {
            position.database == database && now_s().saturating_sub(position.at_s) < KEPT_S_MAX - DAY_S
        });
        let kept = kept.and_then(|position| ChangeWindow::from_text(&position.changes));
        // A database that was restored from a backup has lower numbers.
        let kept = kept.filter(|window| window.last() <= last);
        let mut session =
            Session { server, database, window: kept.clone().unwrap_or_default(), trimmed: None };
        match kept {
            Some(_) => self.read_changes(&mut session).map(drop)?,
            None => self.read_all(&mut session).map(drop)?,
        }
        if self.status.connected() {
            tracing::info!("{}: the users are up to date, changes are followed", self.url.shown());
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
            let time = match session.server.engine() {
                Engine::Postgres => NOTIFIED_INTERVAL,
                Engine::MySql => POLL_INTERVAL,
            };
            if session.server.wait(time)? == Wait::Notified {
                // What else changes at once is read with it.
                std::thread::sleep(TOGETHER);
            }
            if self.read_changes(&mut session)? > 0 {
                on_change();
            }
            session.trim()?;
        }
        Ok(())
    }

    /// Reads changes; returns the number of users that they changed.
    fn read_changes(&self, session: &mut Session) -> Result<u64, ProvisioningError> {
        let changes = read::changes(&mut session.server, &session.window, &self.status)?;
        let is_followed = session.window.see(&changes.numbers, changes.horizon).is_ok();
        if !is_followed || changes.is_emptied || changes.numbers.len() >= CHANGES_MAX {
            return self.read_all(session);
        }
        let mut changed = 0;
        if !changes.numbers.is_empty() {
            changed = Provisioned::of(&self.store).put(&changes.users, &session.position())?;
            self.report_refused();
        }
        self.status.reached(now_s(), changed);
        Ok(changed)
    }

    /// Reads all users; returns the number of those that changed.
    fn read_all(&self, session: &mut Session) -> Result<u64, ProvisioningError> {
        self.status.read_all();
        let provisioned = Provisioned::of(&self.store);
        let mut incoming = provisioned.incoming()?;
        let read = incoming.fill(|rows| read::all(&mut session.server, rows, &self.status))?;
        // With too many ranges the changes before this read are given up but for those of the longest transactions.
        session.window = ChangeWindow::after_full_read(read.last, &read.numbers, read.horizon)
            .unwrap_or_else(|_| ChangeWindow::at(read.last));
        let restored = provisioned.replace(incoming, &session.position())?;
        self.report_refused();
        let changed =
            restored.added + restored.removed + restored.changed + restored.contacts + restored.forwards;
        self.status.reached(now_s(), changed);
        Ok(changed)
    }

    fn report_refused(&self) {
        if let Some(first) = self.status.take_refused() {
            let url = self.url.shown();
            tracing::warn!("{url}: rows are passed over, the first one: {first}; correct it in the database");
        }
    }
}

impl Session {
    fn position(&self) -> Position {
        Position { database: self.database.clone(), changes: self.window.to_text(), at_s: now_s() }
    }

    /// Removes old rows of the changes, once an hour.
    fn trim(&mut self) -> Result<(), ProvisioningError> {
        if self.trimmed.is_some_and(|last| last.elapsed() < TRIM_INTERVAL) {
            return Ok(());
        }
        self.trimmed = Some(Instant::now());
        let old = match self.server.engine() {
            Engine::Postgres => "now() - interval '7 days'",
            Engine::MySql => "current_timestamp - interval 7 day",
        };
        // The last number stays, so that a database that was restored can be told by it.
        let last = self.window.last();
        let statement = format!("DELETE FROM ringway_change WHERE at < {old} AND seq < {last}");
        // A user without the right to do so leaves it to others.
        let _ = self.server.run(&statement);
        Ok(())
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

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn wait(time: Duration, is_ended: &AtomicBool) {
    let until = Instant::now() + time;
    while !is_ended.load(Ordering::Relaxed) && Instant::now() < until {
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Pause after the first failure; it doubles with each one.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Interval of questions for changes without notifications.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Interval of questions for changes beside notifications, which finds a connection that is gone.
const NOTIFIED_INTERVAL: Duration = Duration::from_secs(5);

/// Time in which further changes are waited for.
const TOGETHER: Duration = Duration::from_millis(20);

const TRIM_INTERVAL: Duration = Duration::from_secs(3600);

const DAY_S: u64 = 86_400;

/// Time for which rows of changes are kept, in seconds.
const KEPT_S_MAX: u64 = 7 * DAY_S;
