//! Follows the tables of this program in a database.

use crate::read::{self, CHANGES_MAX};
use crate::status::Status;
use crate::time::now_s;
use crate::window::ChangeWindow;
use crate::{ProvisioningError, tables};
use ringway_database::{Engine, Server};
use ringway_store::{Position, Provisioned, Store};
use std::time::{Duration, Instant};

/// A connection whose users the store has up to a window of changes.
pub(crate) struct TableSession {
    server: Server,
    database: String,
    window: ChangeWindow,
    trimmed: Option<Instant>,
}

impl TableSession {
    /// Reads what the store lacks.
    pub(crate) fn open(
        mut server: Server,
        store: &Store,
        status: &Status,
    ) -> Result<Self, ProvisioningError> {
        let database = tables::ensure(&mut server)?;
        server.listen(tables::CHANNEL)?;
        let last = read::last_change(&mut server)?;
        let position = Provisioned::of(store).position()?;
        let kept = position.filter(|position| {
            position.database == database && now_s().saturating_sub(position.at_s) < KEPT_S_MAX - DAY_S
        });
        let kept = kept.and_then(|position| ChangeWindow::from_text(&position.changes));
        // A database that was restored from a backup has lower numbers.
        let kept = kept.filter(|window| window.last() <= last);
        let is_known = kept.is_some();
        let mut session = Self { server, database, window: kept.unwrap_or_default(), trimmed: None };
        match is_known {
            true => session.read(store, status)?,
            false => session.read_all(store, status)?,
        };
        Ok(session)
    }

    /// The connection.
    pub(crate) fn server(&mut self) -> &mut Server {
        &mut self.server
    }

    /// Reads changes; returns the number of users that they changed.
    pub(crate) fn read(&mut self, store: &Store, status: &Status) -> Result<u64, ProvisioningError> {
        let changes = read::changes(&mut self.server, &self.window, status)?;
        let is_followed = self.window.see(&changes.numbers, changes.horizon).is_ok();
        if !is_followed || changes.is_emptied || changes.numbers.len() >= CHANGES_MAX {
            return self.read_all(store, status);
        }
        let mut changed = 0;
        if !changes.numbers.is_empty() {
            changed = Provisioned::of(store).put(&changes.users, &self.position())?;
        }
        self.trim()?;
        Ok(changed)
    }

    /// Reads all users; returns the number of those that changed.
    fn read_all(&mut self, store: &Store, status: &Status) -> Result<u64, ProvisioningError> {
        status.read_all();
        let provisioned = Provisioned::of(store);
        let mut incoming = provisioned.incoming()?;
        let read = incoming.fill(|rows| read::all(&mut self.server, rows, status))?;
        // With too many ranges the changes before this read are given up but for those of the longest transactions.
        self.window = ChangeWindow::after_full_read(read.last, &read.numbers, read.horizon)
            .unwrap_or_else(|_| ChangeWindow::at(read.last));
        let before = provisioned.position()?;
        let is_other = before.is_some_and(|before| before.database != self.database);
        if is_other && read.subscribers == 0 && provisioned.subscribers()? > 0 {
            return Err(ProvisioningError::OtherEmpty);
        }
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

const TRIM_INTERVAL: Duration = Duration::from_secs(3600);

const DAY_S: u64 = 86_400;

/// Time for which rows of changes are kept, in seconds.
const KEPT_S_MAX: u64 = 7 * DAY_S;
