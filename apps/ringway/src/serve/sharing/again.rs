//! Registrations of this node that are written to the store once more.

use super::location::SharedLocation;
use crate::serve::Node;
use ringway_linux::Shards;
use ringway_sansio::Instant;
use std::time::Duration;

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
        for _ in 0..PAGES {
            if location.status().waiting >= WAITING_MAX {
                break;
            }
            if usize::from(self.shard) >= shards.len() {
                return None;
            }
            let share = |node: &mut Node| node.share_from(now, self.begun, self.from, USERS_AT_ONCE);
            self = match shards.with_shard(self.shard, share).flatten() {
                Some(from) => Self { from, ..self },
                None => Self { shard: self.shard + 1, from: 0, ..self },
            };
        }
        Some(self)
    }
}

/// Users that are written under one lock of their shard.
const USERS_AT_ONCE: u32 = 256;
/// Locks in a step: 10,000 users a second.
const PAGES: usize = 2;
/// Number of waiting updates from which on a step writes nothing.
const WAITING_MAX: usize = 512;
