//! Room for a new connection when all are in use: an unused one of the fullest source or network is closed.

use super::Streams;
use crate::sources::Prefix;
use ringway_sansio::{ConnectionId, Framer, Instant};
use ringway_stream::{CloseReason, Origin};
use std::net::IpAddr;
use std::time::Duration;

/// Connections of this worker that give way, found at most every [`INTERVAL`], because each search looks at all connections.
#[derive(Debug, Default)]
pub(super) struct Crowded {
    prefix: Option<Prefix>,
    /// The oldest one last.
    unused: Vec<ConnectionId>,
    until: Instant,
}

impl<F: Framer> Streams<F> {
    /// Counts a new connection, with `peer` if it was accepted; false if there are too many, and none of this worker's gives way.
    pub(super) fn admit(&mut self, peer: Option<IpAddr>, now: Instant) -> bool {
        self.common.admit() || (self.make_room(peer, now) && self.common.admit())
    }

    /// Closes the oldest unused connection of the source, or network, with the most connections for its limit, unless `peer` belongs to it.
    #[cold]
    fn make_room(&mut self, peer: Option<IpAddr>, now: Instant) -> bool {
        if now >= self.crowded.until {
            self.crowded = self.find_crowded(now);
        }
        let is_of_them = |prefix: Prefix| peer.is_some_and(|peer| prefix.contains(peer));
        if self.crowded.prefix.is_none_or(is_of_them) {
            return false;
        }
        while let Some(id) = self.crowded.unused.pop() {
            if super::find(&mut self.slots, id).is_some_and(|stream| !stream.connection.is_kept(now)) {
                self.close(id, CloseReason::Crowded);
                return true;
            }
        }
        false
    }

    fn find_crowded(&self, now: Instant) -> Crowded {
        let until = now + INTERVAL;
        let Some(prefix) = self.common.sources.fullest() else {
            return Crowded { until, ..Crowded::default() };
        };
        let open = self.slots.iter().filter_map(|slot| slot.stream.as_deref());
        let mut unused: Vec<_> = open
            .filter(|stream| {
                stream.connection.origin() == Origin::Accepted
                    && prefix.contains(stream.flow.remote.ip())
                    && !stream.connection.is_kept(now)
            })
            .filter_map(|stream| Some((stream.connection.since(), stream.flow.connection?)))
            .collect();
        unused.sort_unstable();
        unused.truncate(AT_ONCE_MAX);
        let unused = unused.into_iter().rev().map(|(_, id)| id).collect();
        Crowded { prefix: Some(prefix), unused, until }
    }
}

/// Minimum time between two searches of a worker.
const INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of connections that give way after one search.
const AT_ONCE_MAX: usize = 64;
