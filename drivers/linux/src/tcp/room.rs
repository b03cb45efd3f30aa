//! Room for a new connection when all are in use: an unused one of the fullest source or network that has one is closed.

use super::Streams;
use ringway_sansio::{ConnectionId, Framer, Instant};
use ringway_stream::{CloseReason, Origin};
use std::cmp::Reverse;
use std::net::IpAddr;
use std::time::Duration;

/// Connections of this worker that give way, found at most every [`INTERVAL`], because each search looks at all connections.
#[derive(Debug, Default)]
pub(super) struct Crowded {
    /// The oldest one of the fullest source last.
    unused: Vec<(ConnectionId, IpAddr)>,
    until: Instant,
}

impl<F: Framer> Streams<F> {
    /// Counts a new connection, with `peer` if it was accepted; false if there are too many, and none of this worker's gives way.
    pub(super) fn admit(&mut self, peer: Option<IpAddr>, now: Instant) -> bool {
        self.common.admit() || (self.make_room(peer, now) && self.common.admit())
    }

    /// Closes the oldest unused connection of the source, or network, with the most connections for its limit among those that have
    /// unused ones, and more than the source of `peer`.
    #[cold]
    fn make_room(&mut self, peer: Option<IpAddr>, now: Instant) -> bool {
        if now >= self.crowded.until {
            self.crowded = self.find_crowded(now);
        }
        if self.crowded.unused.is_empty() {
            return false;
        }
        let own = peer.map_or(0, |peer| self.common.sources.fullness(peer));
        while let Some((id, address)) = self.crowded.unused.pop() {
            if self.common.sources.fullness(address) <= own {
                // A sender of a less full source may come next.
                self.crowded.unused.push((id, address));
                return false;
            }
            if super::find(&mut self.slots, id).is_some_and(|stream| !stream.connection.is_kept(now)) {
                self.close(id, CloseReason::Crowded);
                return true;
            }
        }
        false
    }

    fn find_crowded(&self, now: Instant) -> Crowded {
        let open = self.slots.iter().filter_map(|slot| slot.stream.as_deref());
        let unused = open.filter(|stream| {
            stream.connection.origin() == Origin::Accepted && !stream.connection.is_kept(now)
        });
        let mut unused: Vec<_> = unused
            .filter_map(|stream| {
                Some((stream.connection.since(), stream.flow.connection?, stream.flow.remote.ip()))
            })
            .collect();
        let fullness = self.common.sources.fullness_of(unused.iter().map(|(.., address)| *address));
        let mut ranked: Vec<_> = fullness.into_iter().map(Reverse).zip(unused.drain(..)).collect();
        if ranked.len() > AT_ONCE_MAX {
            ranked.select_nth_unstable(AT_ONCE_MAX);
            ranked.truncate(AT_ONCE_MAX);
        }
        ranked.sort_unstable();
        let unused = ranked.into_iter().rev().map(|(_, (_, id, address))| (id, address)).collect();
        Crowded { unused, until: now + INTERVAL }
    }
}

/// Minimum time between two searches of a worker.
const INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of connections that give way after one search.
const AT_ONCE_MAX: usize = 64;
