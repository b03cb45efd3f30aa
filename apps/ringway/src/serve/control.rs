//! Changes that the admin API requests.

use super::Node;
use super::changes::{now_s, pattern};
use super::reload::{ReloadReport, ReloadRequest};
use super::routes::RoutesEditor;
use super::settings::ShownConfig;
use super::users::{self, ChangeError, StoredUsers};
use super::view::ServerView;
use ringway_admin::{Answer, Block, BlockPage, Change, Control, Forwards, NewBlock, Page, User, UserQuery};
use ringway_linux::process::Signal;
use ringway_store::{BlockKind, BlockLists, BlockRow, NewBlockRow, StoreError, UserName};
use serde_json::json;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Input of the main thread.
pub(crate) enum Input {
    /// A signal of the process.
    Signal(Signal),
    /// A request to reload, unless its client was refused at this time; the report is sent back.
    Reload(ReloadRequest, Instant, SyncSender<ReloadReport>),
    /// The store has changed.
    Changed,
    /// A node appeared, changed its state or left.
    NodesChanged,
    /// The public address became known, or has changed.
    PublicAddress,
    /// The store that nodes share may have lost registrations of this node.
    ShareAgain,
    /// Records of the store that nodes share were read; true: it may have lost some.
    Walked(Box<ringway_redis::Walks>, bool),
}

/// `Control` of the server: passes reloads to the main thread, and changes the store.
pub(super) struct ServerControl {
    inputs: Mutex<Sender<Input>>,
    users: StoredUsers,
    view: Arc<ServerView>,
    config: Arc<ShownConfig>,
    routes: RoutesEditor,
}

impl ServerControl {
    pub(super) fn new(
        inputs: Sender<Input>,
        users: StoredUsers,
        view: Arc<ServerView>,
        config: Arc<ShownConfig>,
        routes: RoutesEditor,
    ) -> Self {
        Self { inputs: Mutex::new(inputs), users, view, config, routes }
    }

    fn reload(&self, request: ReloadRequest) -> Answer {
        let (report, reported) = sync_channel(1);
        if !self.send(Input::Reload(request, Instant::now() + RELOAD_MAX, report)) {
            return Answer::refused(503, "the server is stopping");
        }
        match reported.recv_timeout(RELOAD_MAX) {
            Ok(report) => Answer { status: report.status(), body: report.to_json() },
            Err(_) => Answer::refused(503, "the server is stopping, or busy; see its log"),
        }
    }

    fn block(&self, new: &NewBlock) -> Result<Answer, StoreError> {
        let (kind, text) = match (&new.caller, &new.network) {
            (Some(caller), None) => (BlockKind::Caller, caller),
            (None, Some(network)) => (BlockKind::Network, network),
            (Some(_), Some(_)) | (None, None) => {
                return Ok(Answer::refused(400, "give a caller or a network, one of them"));
            }
        };
        let pattern = match pattern(kind, text) {
            Ok(pattern) => pattern.to_string(),
            Err(why) => return Ok(Answer::refused(400, format!("{text:?} {why}"))),
        };
        let expires_s = match new.hours {
            None => None,
            Some(hours @ 1..=HOURS_MAX) => Some(now_s() + u64::from(hours) * 3600),
            Some(_) => return Ok(Answer::refused(400, format!("hours: give 1 to {HOURS_MAX}"))),
        };
        let user = match &new.user {
            None => None,
            Some(user) => Some(self.named(user)?),
        };
        let row =
            NewBlockRow { user: user.as_ref(), kind, pattern: &pattern, reason: &new.reason, expires_s };
        let id = BlockLists::of(self.users.store()).add(&row)?;
        self.send(Input::Changed);
        Ok(Answer::done(json!({ "ok": true, "id": id, "pattern": pattern })))
    }

    fn unblock(&self, id: u64) -> Result<Answer, StoreError> {
        let is_removed = BlockLists::of(self.users.store()).remove(id)?;
        self.send(Input::Changed);
        Ok(match is_removed {
            true => Answer::done(json!({ "ok": true })),
            false => Answer::refused(404, format!("there is no entry {id}; GET /api/blocks lists them")),
        })
    }

    fn forward(&self, user: &str, forwards: &Forwards) -> Result<Answer, StoreError> {
        let user = self.named(user)?;
        match self.users.edit(&user, |store| users::replace(store, &user, forwards)) {
            Ok(answer) => {
                self.send(Input::Changed);
                Ok(answer)
            }
            Err(ChangeError::Store(error)) => Err(error),
            Err(ChangeError::Database(why)) => Ok(Answer::refused(503, why)),
        }
    }

    fn drain(&self, over_s: u32) -> Answer {
        if over_s > OVER_S_MAX {
            return Answer::refused(400, format!("over_s: give 0 to {OVER_S_MAX}"));
        }
        let (now, over) = (self.view.clock.now(), Duration::from_secs(u64::from(over_s)));
        // Other nodes hear of it before the first phone leaves.
        self.show_drain(true);
        self.view.drain.begin(now + over);
        self.view.shards.with_each(|node| node.drain(now, over));
        tracing::info!("drain begun: phones leave within {over_s} s, new requests get 503, calls go on");
        Answer::done(json!({ "ok": true, "over_s": over_s }))
    }

    fn cancel_drain(&self) -> Answer {
        if !self.view.drain.cancel() {
            return Answer::refused(404, "the server does not drain");
        }
        self.view.shards.with_each(Node::end_drain);
        self.show_drain(false);
        tracing::info!("drain cancelled: phones may register again");
        Answer::done(json!({ "ok": true }))
    }

    /// Sets the state that other nodes see.
    fn show_drain(&self, is_draining: bool) {
        if let Some(location) = self.view.host.location() {
            location.set_draining(is_draining);
        }
    }

    fn close(&self, id: u64) -> Answer {
        let Some(closed) = self.view.close(id) else {
            return Answer::refused(
                404,
                format!("there is no connection {id}; GET /api/connections lists them"),
            );
        };
        let (transport, remote) = (closed.transport, closed.remote);
        tracing::info!("the administrator closed the connection {transport}:{remote}");
        Answer::done(json!({ "ok": true, "address": remote.to_string() }))
    }

    /// `name` or `name@domain`.
    fn named(&self, text: &str) -> Result<UserName, StoreError> {
        let default = self.config.default_domain();
        let (name, domain) = text.rsplit_once('@').unwrap_or((text, &default));
        Ok(UserName::new(name, domain)?)
    }

    fn send(&self, input: Input) -> bool {
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner).send(input).is_ok()
    }
}

impl Control for ServerControl {
    fn apply(&self, change: Change) -> Answer {
        let done = match change {
            Change::Reload => return self.reload(ReloadRequest::Apply),
            Change::DryRun => return self.reload(ReloadRequest::DryRun),
            Change::Compare(keys) => {
                return self.reload(ReloadRequest::Compare(keys.into_iter().collect()));
            }
            Change::Block(new) => self.block(&new),
            Change::Unblock(id) => self.unblock(id),
            Change::Forward(user, forwards) => self.forward(&user, &forwards),
            Change::Kick(user) => self.named(&user).map(|user| users::kick(&self.view, &user)),
            Change::Drain(over_s) => Ok(self.drain(over_s)),
            Change::CancelDrain => Ok(self.cancel_drain()),
            Change::RenewCertificate => Ok(self.view.orders.renew()),
            Change::Drop(id) => Ok(self.close(id)),
            Change::Routes(edit) => Ok(self.routes.edit(&edit, |request| self.reload(request))),
        };
        done.unwrap_or_else(|error| refused(&error))
    }

    fn blocks(&self, after: u64, limit: usize) -> Result<BlockPage, String> {
        let mut page = BlockPage::default();
        let now = now_s();
        let read =
            BlockLists::of(self.users.store()).list(after, limit, |row| page.items.push(shown(row, now)));
        page.total = read.map_err(|error| error.to_string())?;
        Ok(page)
    }

    fn forwards(&self, user: &str) -> Answer {
        let shown = self.named(user).and_then(|user| users::show(self.users.store(), &user));
        shown.unwrap_or_else(|error| refused(&error))
    }

    fn users(&self, query: &UserQuery) -> Result<Page<User>, String> {
        let total = self.view.subscribers();
        users::page(self.users.store(), &self.view, query, total).map_err(|error| error.to_string())
    }

    fn user(&self, user: &str) -> Answer {
        let shown = self.named(user).and_then(|user| users::one(self.users.store(), &self.view, &user));
        shown.unwrap_or_else(|error| refused(&error))
    }

    fn configuration(&self) -> Answer {
        Answer::done(self.config.to_json())
    }

    fn routes(&self) -> Answer {
        self.routes.show(&self.config.keys())
    }
}

fn refused(error: &StoreError) -> Answer {
    let status = if matches!(error, StoreError::Unusable { .. }) { 400 } else { 500 };
    Answer::refused(status, error.to_string())
}

/// An entry for a listing.
pub(crate) fn shown(row: BlockRow, now_s: u64) -> Block {
    Block {
        id: row.id,
        kind: match row.kind {
            BlockKind::Caller => "caller",
            BlockKind::Network => "network",
        }
        .to_owned(),
        pattern: row.pattern,
        user: row.user.map(|(name, domain)| format!("{name}@{domain}")),
        reason: row.reason,
        expires_s: row.expires_s.map(|end| end.saturating_sub(now_s)),
    }
}

/// Maximum duration of an entry: ten years.
pub(crate) const HOURS_MAX: u32 = 87_600;
/// Maximum duration of a drain in seconds: a day.
const OVER_S_MAX: u32 = 86_400;
/// Time after which a request to reload is given up.
const RELOAD_MAX: Duration = Duration::from_secs(60);
