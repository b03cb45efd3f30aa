//! Connections that are being dialled, by the sender who caused each: hanging ones of one sender leave room for others, and those of all
//! senders for the servers of the configuration.

use super::{Streams, destination};
use crate::stream::{More, connect_from};
use ringway_sansio::{ConnectionId, Dialler, Flow, Framer, Instant, Token};
use ringway_stream::Origin;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering;

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
        let connected = connect_from(from.map(|(listener, _)| listener), flow.remote);
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
