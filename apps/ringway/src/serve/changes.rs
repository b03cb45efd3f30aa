//! Changes that `ringway user`, `ringway block` and the admin API make while the server runs, and block lists of the store in
//! it.

use super::Node;
use super::host::ServerHost;
use ringway_linux::Shards;
use ringway_server::{BlockPattern, NotAPattern, shard_of_user};
use ringway_store::{BlockKind, BlockLists, BlockRow, Change, ChangeKind, Store, StoreError};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Applies changes of the store to the running server.
pub(super) struct Follower {
    store: Arc<Store>,
    host: Arc<ServerHost>,
    shards: Shards<Node>,
    seq: u64,
    /// Last number stored by [`Store::note_applied`].
    noted: Option<u64>,
    has_failed: bool,
}

impl Follower {
    /// `seq`: number up to which changes are applied already.
    pub(super) fn new(store: Arc<Store>, host: Arc<ServerHost>, shards: Shards<Node>, seq: u64) -> Self {
        Self { store, host, shards, seq, noted: None, has_failed: false }
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
            replace(&self.host, blocks);
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
        let shard = shard_of_user(&self.host.shard_key(), name.as_bytes(), self.shards.len() as u16);
        let aor = format!("{name}@{domain}");
        match kind {
            ChangeKind::Subscriber(hashes) => {
                self.host.directory().insert(&name, &domain, hashes);
            }
            ChangeKind::Removed => {
                self.host.directory().remove(&name, &domain);
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

/// Loads all lists.
pub(super) fn load(store: &Store, host: &ServerHost) -> Result<(), StoreError> {
    let mut lists: HashMap<Option<(String, String)>, Vec<BlockRow>> = HashMap::new();
    BlockLists::of(store)
        .list(0, usize::MAX >> 1, |row| lists.entry(row.user.clone()).or_default().push(row))?;
    if !lists.is_empty() {
        host.tables().change_blocks(|list| {
            for (user, rows) in lists {
                match user {
                    None => list.set_all(patterns(rows)),
                    Some((name, domain)) => {
                        list.set_of_user(format!("{name}@{domain}").as_bytes(), patterns(rows));
                    }
                }
            }
        });
    }
    Ok(())
}

/// Replaces the lists of users, given as user part, domain and entries; an empty user part is the list of all users.
pub(super) fn replace(host: &ServerHost, changed: Vec<(String, String, Vec<BlockRow>)>) {
    if changed.is_empty() {
        return;
    }
    host.tables().change_blocks(|list| {
        for (name, domain, rows) in changed {
            match name.as_str() {
                "" => list.set_all(patterns(rows)),
                name => list.set_of_user(format!("{name}@{domain}").as_bytes(), patterns(rows)),
            }
        }
    });
}

/// Parses a pattern.
pub(crate) fn pattern(kind: BlockKind, text: &str) -> Result<BlockPattern, NotAPattern> {
    match kind {
        BlockKind::Caller => BlockPattern::caller(text),
        BlockKind::Network => BlockPattern::network(text),
    }
}

/// Seconds since the epoch.
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn patterns(rows: Vec<BlockRow>) -> Vec<BlockPattern> {
    let parse = |row: BlockRow| match pattern(row.kind, &row.pattern) {
        Ok(pattern) => Some(pattern),
        Err(why) => {
            tracing::warn!("entry {} of the block lists is ignored: {:?} {why}", row.id, row.pattern);
            None
        }
    };
    rows.into_iter().filter_map(parse).collect()
}
