//! Bindings of other nodes that are not in the store any more, and registrations of this node that are written to the store
//! once more.

use super::SharedLocation;
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
    wait: Wait,
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
        let wait = if is_loss { Wait::after_loss(users(), now) } else { Wait { begins: now, is_loss } };
        // The newer one has the tags of the one before, too.
        let wait = before.map_or(wait, |before| wait.and(before.wait));
        Self { walks, wait, shard: 0, from: 0 }
    }

    /// Looks at some users, and returns the next position; `None` at the end.
    pub(in crate::serve) fn step(
        mut self,
        shards: &Shards<Node>,
        are_others_writing: impl FnOnce() -> bool,
        now: Instant,
    ) -> Option<Self> {
        if !self.wait.is_over(are_others_writing, now) {
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

/// Time before a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wait {
    begins: Instant,
    /// The store lost data: the other nodes write theirs again.
    is_loss: bool,
}

impl Wait {
    /// Heartbeats of earlier versions have no word for that: those nodes have a time for each user.
    fn after_loss(users: usize, now: Instant) -> Self {
        let rest = Duration::from_secs(users as u64 / WRITTEN_AGAIN_RATE_MIN);
        Self { begins: now + LOSS_TIME_MIN + rest, is_loss: true }
    }

    fn and(self, other: Self) -> Self {
        Self { begins: self.begins.max(other.begins), is_loss: self.is_loss || other.is_loss }
    }

    /// After the last node has written there is time to read it.
    fn is_over(&mut self, are_others_writing: impl FnOnce() -> bool, now: Instant) -> bool {
        if self.is_loss && are_others_writing() {
            self.begins = self.begins.max(now + LOSS_TIME_MIN);
        }
        now >= self.begins
    }
}

/// Users that are looked at under one lock of their shard.
const USERS_AT_ONCE: u32 = 256;
/// Locks in a step.
const PAGES: usize = 16;
/// Time for other nodes to find that the store lost data.
const LOSS_TIME_MIN: Duration = Duration::from_secs(30);
/// Users that nodes of earlier versions write again in a second, at least: one of them may have all.
const WRITTEN_AGAIN_RATE_MIN: u64 = 1_000;

/// Position among the registrations of this node while they are written once more. The main thread writes some at a time, so that
/// signals and reloads do not wait, and only while hardly any update waits: new ones are not delayed by a long queue, and a store that is
/// slow, or has to take those of other nodes too, gets fewer. Users that registered after the begin are not written a second time: many
/// may come to a new store at once.
#[derive(Clone, Copy, Debug)]
pub(in crate::serve) struct Again {
    begun: Instant,
    shard: u16,
    from: u32,
}

impl Again {
    /// Time between two steps.
    pub(in crate::serve) const INTERVAL: Duration = Duration::from_millis(50);

    /// Begins at the first one.
    pub(in crate::serve) const fn new(now: Instant) -> Self {
        Self { begun: now, shard: 0, from: 0 }
    }

    /// Writes some, and returns the next position; `None` at the end.
    pub(in crate::serve) fn step(
        mut self,
        location: &SharedLocation,
        shards: &Shards<Node>,
        now: Instant,
    ) -> Option<Self> {
        for _ in 0..AGAIN_PAGES {
            if location.status().waiting >= WAITING_MAX {
                break;
            }
            if usize::from(self.shard) >= shards.len() {
                return None;
            }
            let share = |node: &mut Node| node.share_from(now, self.begun, self.from, AGAIN_USERS);
            self = match shards.with_shard(self.shard, share).flatten() {
                Some(from) => Self { from, ..self },
                None => Self { shard: self.shard + 1, from: 0, ..self },
            };
        }
        Some(self)
    }
}

/// Users that are written under one lock of their shard.
const AGAIN_USERS: u32 = 256;
/// Locks in a step: 10,000 users a second.
const AGAIN_PAGES: usize = 2;
/// Number of waiting updates from which on a step writes nothing.
const WAITING_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_loss_the_sweep_waits_until_every_node_has_written() {
        let at = Instant::from_secs;
        let mut wait = Wait::after_loss(5_000, at(100));
        assert!(!wait.is_over(|| false, at(134)) && wait.is_over(|| false, at(135)));
        let mut wait = Wait::after_loss(5_000, at(100));
        for second in 101..5_000 {
            assert!(!wait.is_over(|| true, at(second)), "{second}");
        }
        assert!(!wait.is_over(|| false, at(5_028)) && wait.is_over(|| false, at(5_029)));
        let mut without_loss = Wait { begins: at(100), is_loss: false };
        assert!(without_loss.is_over(|| true, at(100)));
        assert_eq!(without_loss.and(Wait::after_loss(0, at(100))), Wait { begins: at(130), is_loss: true });
    }
}
