//! Changes that `ringway user`, `ringway block` and the admin API make while the server runs.

use super::Node;
use super::blocks::{self, now_s};
use super::services::SharedServices;
use ringway_linux::Shards;
use ringway_server::shard_of_user;
use ringway_store::{BlockLists, BlockRow, Change, ChangeKind, Store};
use std::sync::Arc;

/// Applies changes of the store to the running server.
pub(super) struct Follower {
    store: Arc<Store>,
    services: Arc<SharedServices>,
    shards: Shards<Node>,
    seq: u64,
    /// Last number stored by [`Store::note_applied`].
    noted: Option<u64>,
    has_failed: bool,
}

impl Follower {
    /// `seq`: number up to which changes are applied already.
    pub(super) fn new(
        store: Arc<Store>,
        services: Arc<SharedServices>,
        shards: Shards<Node>,
        seq: u64,
    ) -> Self {
        Self { store, services, shards, seq, noted: None, has_failed: false }
    }

    /// Applies new changes, up to 50,000. An unreadable store is logged once, and the server continues. True: there may be more.
    pub(super) fn follow(&mut self) -> bool {
        // An error is reported by the query below.
        let _ = BlockLists::of(&self.store).remove_ended(now_s());
        for _ in 0..ROUNDS_MAX {
            let changes = match self.store.changes_since(self.seq) {
                Ok(changes) => changes,
                Err(error) => {
                    if !self.has_failed {
                        tracing::error!("changes of users cannot be read: {error}");
                    }
                    self.has_failed = true;
                    return false;
                }
            };
            self.has_failed = false;
            if changes.is_empty() {
                self.note();
                return false;
            }
            let mut blocks = Vec::new();
            for change in changes {
                self.seq = self.seq.max(change.seq);
                self.apply(change, &mut blocks);
            }
            blocks::replace(&self.services, blocks);
        }
        true
    }

    /// Stores the number of the last applied change. If that fails, the next start applies some changes again, and
    /// phones of users that were removed and added again must register again.
    fn note(&mut self) {
        if self.noted != Some(self.seq) && self.store.note_applied(self.seq).is_ok() {
            self.noted = Some(self.seq);
        }
    }

    /// Store of the changes.
    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Applies a change; that of a block list is appended to `blocks`, since the lists change together.
    fn apply(&self, change: Change, blocks: &mut Vec<(String, String, Vec<BlockRow>)>) {
        let Change { name, domain, kind, .. } = change;
        let shard = shard_of_user(&self.services.shard_key(), name.as_bytes(), self.shards.len() as u16);
        let aor = format!("{name}@{domain}");
        match kind {
            ChangeKind::Subscriber(hashes) => {
                self.services.directory().insert(&name, &domain, hashes);
            }
            ChangeKind::Removed => {
                self.services.directory().remove(&name, &domain);
                self.shards.with_shard(shard, |node| node.remove_user(aor.as_bytes()));
            }
            ChangeKind::Blocks(rows) => blocks.push((name, domain, rows)),
            // A kind of a later version.
            ChangeKind::Unknown => {}
            ChangeKind::Forwards(forwards) => {
                self.shards.with_shard(shard, |node| node.set_forwards(aor.as_bytes(), forwards));
            }
            ChangeKind::Contacts(contacts) => {
                let list: Vec<&[u8]> = contacts.iter().map(String::as_bytes).collect();
                self.shards.with_shard(shard, |node| node.set_permanent_contacts(aor.as_bytes(), &list));
            }
        }
    }
}

/// Reads of changes at a time: signals and reloads wait for them.
const ROUNDS_MAX: usize = 5;
