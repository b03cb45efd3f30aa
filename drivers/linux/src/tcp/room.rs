//! Limits of connections: room for a new one when all are in use, by closing an unused one of the fullest source or network
//! that has one; connections that are being dialled, by the sender who caused each, so that hanging ones of one sender leave
//! room for others, and those of all senders for the servers of the configuration.

use super::{Streams, destination};
use crate::tcp::stream::{More, connect_from};
use ringway_sansio::{ConnectionId, Dialler, Flow, Framer, Instant, Token};
use ringway_stream::{CloseReason, Origin};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
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

impl<F: Framer> Streams<F> {
    /// Sends on the connection dialled to the flow's remote address, or on a new one.
    pub(crate) fn dial(
        &mut self,
        flow: Flow,
        (token, dialler): (Token, Dialler),
        bytes: &[u8],
        more: More,
        now: Instant,
    ) {
        if let Some(&id) = self.dialled.get(&destination(&flow)) {
            return self.send(id, token, bytes, more, now);
        }
        if !self.dials.has_room(dialler) {
            self.counters.dials_refused.increment();
            return self.unreachable(token);
        }
        if !self.admit(None, now) {
            self.counters.connections_refused.increment();
            return self.unreachable(token);
        }
        let listener = self.listening.get(usize::from(flow.listener.0)).and_then(Option::as_ref);
        let from = listener.filter(|_| self.common.dials_from_listener == Some(flow.transport));
        let connected = connect_from(from.map(|(listener, _)| listener), flow.remote, self.common.dscp);
        match connected.and_then(|socket| self.insert(socket, flow, Origin::Dialled, now)) {
            Ok(id) => {
                self.counters.connections_dialled.increment();
                self.dials.begin(id, dialler);
                self.dialled.insert(destination(&flow), id);
                self.send(id, token, bytes, more, now);
            }
            Err(_) => {
                self.counters.dial_failures.increment();
                self.common.open.fetch_sub(1, Ordering::Relaxed);
                self.unreachable(token);
            }
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Dials {
    all: usize,
    /// Senders of the connections that one caused.
    senders: HashMap<ConnectionId, Dialler>,
    of_sender: HashMap<Dialler, usize>,
}

impl Dials {
    /// True if one more connection may be dialled for this sender.
    pub(super) fn has_room(&self, dialler: Dialler) -> bool {
        let of_sender = self.of_sender.get(&dialler).copied().unwrap_or_default();
        let is_for_sender = || self.senders.len() < OF_SENDERS_MAX && of_sender < OF_SENDER_MAX;
        self.all < DIALS_MAX && (dialler == Dialler::OWN || is_for_sender())
    }

    /// Counts a connection until [`Dials::end`].
    pub(super) fn begin(&mut self, id: ConnectionId, dialler: Dialler) {
        self.all += 1;
        if dialler != Dialler::OWN {
            self.senders.insert(id, dialler);
            *self.of_sender.entry(dialler).or_default() += 1;
        }
    }

    /// Counts a connection as established or given up.
    pub(super) fn end(&mut self, id: ConnectionId) {
        self.all -= 1;
        let Some(dialler) = self.senders.remove(&id) else { return };
        if let Entry::Occupied(mut entry) = self.of_sender.entry(dialler) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

/// Maximum number of connections that a worker dials at once.
const DIALS_MAX: usize = 1024;

/// The same of those that senders caused: a quarter is left to the configuration.
const OF_SENDERS_MAX: usize = DIALS_MAX / 4 * 3;

/// The same of those that one sender caused.
const OF_SENDER_MAX: usize = DIALS_MAX / 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_leaves_room_for_others_and_all_senders_for_the_configuration() {
        let mut dials = Dials::default();
        let mut begun = Vec::new();
        let mut dial = |dials: &mut Dials, dialler| {
            let has_room = dials.has_room(dialler);
            if has_room {
                let id = ConnectionId(begun.len() as u64);
                begun.push(id);
                dials.begin(id, dialler);
            }
            has_room
        };
        assert_eq!((0..1000).filter(|_| dial(&mut dials, Dialler(1))).count(), 64);
        let others =
            (0..1000).flat_map(|_| 2..100).filter(|&sender| dial(&mut dials, Dialler(sender))).count();
        assert_eq!(others, 768 - 64);
        assert!(!dial(&mut dials, Dialler(1000)));
        assert_eq!((0..1000).filter(|_| dial(&mut dials, Dialler::OWN)).count(), 256);
        begun.into_iter().for_each(|id| dials.end(id));
        assert!(dials.all == 0 && dials.senders.is_empty() && dials.of_sender.is_empty());
    }
}
