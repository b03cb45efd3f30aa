//! Bindings of other nodes that are not in the store any more.

use crate::serve::Node;
use ringway_linux::Shards;
use ringway_redis::{Walks, tag_of_user};
use ringway_sansio::Instant;
use std::time::Duration;

/// Position among the users while bindings of other nodes are ended that a read of the store did not confirm. The main thread looks at
/// some users at a time, each with its shard's lock.
#[derive(Clone, Debug)]
pub(in crate::serve) struct Sweep {
    walks: Box<Walks>,
    begins: Instant,
    shard: u16,
    from: u32,
}

impl Sweep {
    /// Sweep of all users. If the store lost data, the other nodes first get the time to write theirs again.
    pub(in crate::serve) fn new(
        walks: Box<Walks>,
        is_loss: bool,
        before: Option<Self>,
        (shards, now): (&Shards<Node>, Instant),
    ) -> Self {
        let users_of =
            |shard| shards.with_shard(shard, |node| node.location().users_len()).unwrap_or_default();
        let users = || (0..shards.len() as u16).map(users_of).sum::<usize>();
        let wait = || LOSS_TIME_MIN + Duration::from_secs(users() as u64 / WRITTEN_AGAIN_RATE_MIN);
        let begins = if is_loss { now + wait() } else { now };
        // The newer one has the tags of the one before, too.
        let begins = before.map_or(begins, |before| begins.max(before.begins));
        Self { walks, begins, shard: 0, from: 0 }
    }

    /// Looks at some users, and returns the next position; `None` at the end.
    pub(in crate::serve) fn step(mut self, shards: &Shards<Node>, now: Instant) -> Option<Self> {
        if now < self.begins {
            return Some(self);
        }
        for _ in 0..PAGES {
            if usize::from(self.shard) >= shards.len() {
                return None;
            }
            let walks = &self.walks;
            let is_confirmed =
                |aor: &[u8], walk: u32| walks.get(tag_of_user(aor)).is_none_or(|begun| walk >= *begun);
            let sweep = |node: &mut Node| node.sweep(now, self.from, USERS_AT_ONCE, is_confirmed);
            (self.shard, self.from) = match shards.with_shard(self.shard, sweep).flatten() {
                Some(from) => (self.shard, from),
                None => (self.shard + 1, 0),
            };
        }
        Some(self)
    }
}

/// Users that are looked at under one lock of their shard.
const USERS_AT_ONCE: u32 = 256;
/// Locks in a step.
const PAGES: usize = 16;
/// Time for other nodes to find that the store lost data.
const LOSS_TIME_MIN: Duration = Duration::from_secs(30);
/// Users that the other nodes write again in a second, at least: one of them may have all.
const WRITTEN_AGAIN_RATE_MIN: u64 = 1_000;
