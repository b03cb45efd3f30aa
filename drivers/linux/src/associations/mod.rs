//! DTLS associations of a worker, by listener and peer (docs/decisions/0031-dtls-transport.md).
//!
//! The kernel passes all datagrams of a peer to one worker's socket, so an association has one owner. What comes from a peer
//! without one costs no state: it is judged, and perhaps answered at once.

mod entry;

use crate::counters::Counters;
use crate::shared::Common;
use crate::shared::connections::{Kind, OpenConnection, SLOTS_MAX, USES_MAX, id_of, parts_of};
use crate::tcp::Report;
use entry::{Entry, hello_hash};
use ringway_datagram::{Association, Associations, FirstDatagram, Output};
use ringway_sansio::{
    ConnectionId, DialledId, Flow, HostNameId, Instant, ListenerId, Received, TimerKey, Token, Transport,
    Wheel,
};
use ringway_stream::{CloseReason, Origin};
use std::collections::HashMap;
use std::hash::RandomState;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(crate) struct AssociationTable {
    worker: usize,
    common: Arc<Common>,
    counters: Arc<Counters>,
    /// `None` after the worker stopped listening.
    source: Option<Arc<dyn Associations>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_peer: HashMap<(ListenerId, SocketAddr), ConnectionId>,
    /// Associations that this worker dialled, by address and host. Accepted ones are not used for other destinations.
    dialled: HashMap<(SocketAddr, HostNameId), ConnectionId>,
    open: usize,
    alarms: Wheel<ConnectionId>,
    /// Keeps its capacity.
    answer: Vec<u8>,
    key: RandomState,
    /// Reports for the shards.
    pub(crate) reports: Vec<Report>,
}

struct Slot {
    uses: u64,
    entry: Option<Box<Entry>>,
}

/// Sockets of the worker's listeners; `None` for stream listeners.
type Sockets<'a> = &'a [Option<UdpSocket>];

impl AssociationTable {
    pub(crate) fn new(worker: usize, common: Arc<Common>, counters: Arc<Counters>, now: Instant) -> Self {
        Self {
            worker,
            source: common.associations.clone(),
            common,
            counters,
            slots: Vec::new(),
            free: Vec::new(),
            by_peer: HashMap::new(),
            dialled: HashMap::new(),
            open: 0,
            alarms: Wheel::new(now),
            answer: Vec::new(),
            key: RandomState::new(),
            reports: Vec::new(),
        }
    }

    /// Processes a datagram, and passes its messages to `each`.
    pub(crate) fn receive(
        &mut self,
        udp: Sockets<'_>,
        (listener, remote): (ListenerId, SocketAddr),
        datagram: &[u8],
        now: Instant,
        each: &mut dyn FnMut(Received<'_>),
    ) {
        let remote = Flow::canonical(remote);
        let known = self.by_peer.get(&(listener, remote)).copied();
        let hello = hello_hash(&self.key, datagram);
        if let Some(id) = known
            && let Some(entry) = find(&mut self.slots, id)
            && (hello.is_none_or(|hello| hello == entry.hello) || entry.origin == Origin::Dialled)
        {
            entry.association.on_datagram(now, datagram);
            return self.settle(udp, id, now, each);
        }
        let Some(source) = self.source.clone() else { return };
        let flow = Flow::new(Transport::Dtls, listener, remote);
        self.answer.clear();
        match source.judge(now, &flow, datagram, &mut self.answer) {
            FirstDatagram::Dropped => {}
            FirstDatagram::Answered => self.transmit(udp, &flow, &self.answer),
            FirstDatagram::Proven => {
                // RFC 6347 §4.2.8: the cookie shows that the peer itself begins again.
                if let Some(id) = known {
                    self.counters.associations_replaced.increment();
                    self.close(udp, id, CloseReason::Ended, now);
                }
                self.accept(udp, &source, flow, datagram, now, each);
            }
        }
    }

    fn accept(
        &mut self,
        udp: Sockets<'_>,
        source: &Arc<dyn Associations>,
        flow: Flow,
        datagram: &[u8],
        now: Instant,
        each: &mut dyn FnMut(Received<'_>),
    ) {
        let ip = flow.remote.ip();
        if !self.common.admit() {
            return self.counters.associations_refused.increment();
        }
        if !self.common.sources.admit(ip) {
            self.common.open.fetch_sub(1, Ordering::Relaxed);
            return self.counters.associations_over_source.increment();
        }
        let hello = hello_hash(&self.key, datagram).unwrap_or_default();
        let association = source.accept(now, &flow, datagram);
        match association.and_then(|association| self.insert(flow, Origin::Accepted, association, hello, now))
        {
            Some(id) => {
                self.counters.associations_accepted.increment();
                self.settle(udp, id, now, each);
            }
            None => {
                self.common.sources.closed(ip);
                self.common.open.fetch_sub(1, Ordering::Relaxed);
                self.counters.associations_refused.increment();
            }
        }
    }

    /// Sends over an association, or reports that it has ended.
    pub(crate) fn send(
        &mut self,
        udp: Sockets<'_>,
        id: ConnectionId,
        token: Token,
        message: &[u8],
        now: Instant,
    ) {
        let Some(entry) = find(&mut self.slots, id) else { return self.unreachable(token) };
        let is_taken = match entry.is_established() {
            true => entry.association.send(now, message).is_ok(),
            false => entry.wait(token, message),
        };
        entry.sent_message(now);
        self.settle(udp, id, now, &mut |_| {});
        if !is_taken {
            self.unreachable(token);
        }
    }

    /// Sends over the association dialled to the flow's remote address, or over a new one.
    pub(crate) fn dial(&mut self, udp: Sockets<'_>, flow: Flow, token: Token, message: &[u8], now: Instant) {
        if let Some(&id) = self.dialled.get(&(flow.remote, flow.host)) {
            return self.send(udp, id, token, message, now);
        }
        if let Some(&id) = self.by_peer.get(&(flow.listener, flow.remote)) {
            let is_host = find(&mut self.slots, id)
                .is_some_and(|entry| entry.origin == Origin::Dialled && entry.association.is_also(&flow));
            if !is_host {
                self.counters.dial_failures.increment();
                return self.unreachable(token);
            }
            self.dialled.insert((flow.remote, flow.host), id);
            return self.send(udp, id, token, message, now);
        }
        // With several workers the kernel would pass the answers to another one.
        let source = self.source.clone().filter(|_| self.common.inboxes.workers() == 1);
        let association =
            source.filter(|_| self.common.admit()).and_then(|source| match source.dial(now, &flow) {
                Some(association) => Some(association),
                None => {
                    self.common.open.fetch_sub(1, Ordering::Relaxed);
                    None
                }
            });
        let Some(association) = association else {
            self.counters.dial_failures.increment();
            return self.unreachable(token);
        };
        match self.insert(flow, Origin::Dialled, association, 0, now) {
            Some(id) => {
                self.counters.associations_dialled.increment();
                self.dialled.insert((flow.remote, flow.host), id);
                self.send(udp, id, token, message, now);
            }
            None => {
                self.common.open.fetch_sub(1, Ordering::Relaxed);
                self.counters.associations_refused.increment();
                self.unreachable(token);
            }
        }
    }

    /// Keeps an association open until `until` at least.
    pub(crate) fn keep(&mut self, id: ConnectionId, until: Instant) {
        if let Some(entry) = find(&mut self.slots, id) {
            entry.keep(until);
        }
    }

    /// Closes the association of a flow, or the one that was dialled for it.
    pub(crate) fn disconnect(&mut self, udp: Sockets<'_>, flow: &Flow, now: Instant) {
        let dialled = || self.dialled.get(&(flow.remote, flow.host)).copied();
        if let Some(id) = flow.connection.or_else(dialled) {
            self.close(udp, id, CloseReason::Ended, now);
        }
    }

    /// Runs due timers.
    pub(crate) fn expire(&mut self, udp: Sockets<'_>, now: Instant, each: &mut dyn FnMut(Received<'_>)) {
        while let Some(id) = self.alarms.expire(now) {
            let Some(entry) = find(&mut self.slots, id) else { continue };
            entry.timer = TimerKey::NONE;
            entry.timer_at = Instant::FAR;
            let (at, why) = entry.deadline(&self.common.streams);
            if at <= now {
                self.close(udp, id, why, now);
            } else {
                entry.association.on_timeout(now);
                self.settle(udp, id, now, each);
            }
        }
    }

    /// Time of the next [`AssociationTable::expire`].
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.alarms.next_due()
    }

    /// Begins no more associations.
    pub(crate) fn stop_listening(&mut self) {
        self.source = None;
    }

    /// Ends the associations of one listener.
    pub(crate) fn close_listener(&mut self, udp: Sockets<'_>, listener: ListenerId, now: Instant) {
        let of_listener = self.by_peer.iter().filter(|((of, _), _)| *of == listener);
        let open: Vec<ConnectionId> = of_listener.map(|(_, id)| *id).collect();
        for id in open {
            self.close(udp, id, CloseReason::Ended, now);
        }
    }

    /// Ends all associations.
    pub(crate) fn close_all(&mut self, udp: Sockets<'_>, now: Instant) {
        let open: Vec<ConnectionId> = self.by_peer.values().copied().collect();
        for id in open {
            self.close(udp, id, CloseReason::Ended, now);
        }
    }

    fn insert(
        &mut self,
        flow: Flow,
        origin: Origin,
        association: Box<dyn Association>,
        hello: u64,
        now: Instant,
    ) -> Option<ConnectionId> {
        let held = association.held_bytes();
        if let Err(why) = self.common.sources.account(flow.remote.ip(), 0, held) {
            self.counters.closed(why);
            return None;
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < SLOTS_MAX => {
                let index = self.slots.len() as u32;
                let uses = self.common.first_use(self.worker, Kind::Association, index);
                self.slots.push(Slot { uses, entry: None });
                index
            }
            None => {
                self.common.sources.release(flow.remote.ip(), held);
                return None;
            }
        };
        let slot = self.slots.get_mut(index as usize)?;
        let id = id_of(self.worker, Kind::Association, index, slot.uses);
        let flow = Flow { connection: Some(id), ..flow };
        slot.entry = Some(Box::new(Entry::new(flow, origin, association, held, hello, now)));
        self.by_peer.insert((flow.listener, flow.remote), id);
        self.open += 1;
        self.counters.associations_open.set(self.open as u64);
        Some(id)
    }

    /// Takes the outputs of an association, and sets its timer.
    fn settle(
        &mut self,
        udp: Sockets<'_>,
        id: ConnectionId,
        now: Instant,
        each: &mut dyn FnMut(Received<'_>),
    ) {
        while let Some(entry) = find(&mut self.slots, id) {
            let flow = entry.flow;
            let held = entry.association.held_bytes();
            if held != entry.accounted {
                match self.common.sources.account(flow.remote.ip(), entry.accounted, held) {
                    Ok(()) => entry.accounted = held,
                    Err(why) => return self.close(udp, id, why, now),
                }
            }
            match entry.association.poll() {
                None => break,
                Some(Output::Datagram(datagram)) => self.transmit(udp, &flow, &datagram),
                Some(Output::Established) => self.established(udp, id, now),
                Some(Output::Message(bytes)) => {
                    entry.received(now, &bytes);
                    let peer = entry.association.peer_names();
                    each(Received { peer: peer.as_deref(), ..Received::new(flow, &bytes) });
                }
                Some(Output::Closed) => return self.close(udp, id, CloseReason::Ended, now),
                Some(Output::Failed) => {
                    // The last datagram of an association is an alert for the peer.
                    let why = match (entry.is_established(), entry.origin) {
                        (true, _) => CloseReason::Ended,
                        (false, Origin::Accepted) => CloseReason::Handshake,
                        (false, Origin::Dialled) => CloseReason::NotConnected,
                    };
                    return self.close(udp, id, why, now);
                }
            }
        }
        let Some(entry) = find(&mut self.slots, id) else { return };
        let (at, _) = entry.deadline(&self.common.streams);
        let at = entry.association.next_deadline().map_or(at, |timer| timer.min(at));
        if at < entry.timer_at {
            self.alarms.cancel(entry.timer);
            entry.timer = self.alarms.arm(at, id);
            entry.timer_at = at;
        }
    }

    fn established(&mut self, udp: Sockets<'_>, id: ConnectionId, now: Instant) {
        let Some(entry) = find(&mut self.slots, id) else { return };
        entry.established(now);
        let Flow { transport, remote, listener, .. } = entry.flow;
        let socket = udp.get(usize::from(listener.0)).and_then(Option::as_ref);
        if let Some(Ok(local)) = socket.map(UdpSocket::local_addr) {
            let open = OpenConnection {
                id,
                transport,
                listener,
                local,
                remote,
                since: entry.since(),
                dialled: DialledId::SHARED,
            };
            self.common.connections.opened(self.worker, open);
        }
        for (token, message) in entry.take_waiting() {
            if entry.association.send(now, &message).is_err() {
                report(&self.counters, &mut self.reports, token);
            }
        }
    }

    /// Ends an association and queues the reports.
    fn close(&mut self, udp: Sockets<'_>, id: ConnectionId, why: CloseReason, now: Instant) {
        if find(&mut self.slots, id).is_none() {
            return;
        }
        let (index, _) = parts_of(id);
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        let Some(mut entry) = slot.entry.take() else { return };
        slot.uses += 1;
        if slot.uses <= USES_MAX {
            self.free.push(index);
        }
        entry.association.close(now);
        while let Some(output) = entry.association.poll() {
            if let Output::Datagram(datagram) = output {
                self.transmit(udp, &entry.flow, &datagram);
            }
        }
        let (flow, remote) = (entry.flow, entry.flow.remote);
        self.alarms.cancel(entry.timer);
        self.by_peer.remove(&(flow.listener, remote));
        self.open -= 1;
        self.counters.associations_open.set(self.open as u64);
        self.common.open.fetch_sub(1, Ordering::Relaxed);
        self.common.sources.release(remote.ip(), entry.accounted);
        match entry.origin {
            Origin::Accepted => self.common.sources.closed(remote.ip()),
            Origin::Dialled => self.dialled.retain(|_, of| *of != id),
        }
        if entry.is_established() {
            self.common.connections.closed(self.worker, id);
            self.reports.push(Report::Closed(id));
        }
        self.counters.closed(why);
        for (token, _) in entry.take_waiting() {
            self.unreachable(token);
        }
    }

    /// Sends a datagram. One that the kernel does not take is lost, as on the network; the handshake and SIP retransmit.
    fn transmit(&self, udp: Sockets<'_>, flow: &Flow, datagram: &[u8]) {
        let Some(Some(socket)) = udp.get(usize::from(flow.listener.0)) else { return };
        match socket.send_to(datagram, flow.remote) {
            Ok(_) => {
                self.counters.datagrams_out.increment();
                self.counters.datagram_bytes_out.add(datagram.len() as u64);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                self.counters.send_drops.increment();
            }
            Err(_) => self.counters.send_errors.increment(),
        }
    }

    fn unreachable(&mut self, token: Token) {
        report(&self.counters, &mut self.reports, token);
    }
}

impl Drop for AssociationTable {
    /// Releases the memory of open associations: the limit may outlive the worker.
    fn drop(&mut self) {
        for entry in self.slots.iter().filter_map(|slot| slot.entry.as_deref()) {
            self.common.sources.release(entry.flow.remote.ip(), entry.accounted);
        }
    }
}

/// Queues a report that a message could not be sent.
fn report(counters: &Counters, reports: &mut Vec<Report>, token: Token) {
    if token != Token::NONE {
        counters.unreachable.increment();
        reports.push(Report::Unreachable(token));
    }
}

fn find(slots: &mut [Slot], id: ConnectionId) -> Option<&mut Entry> {
    let (index, uses) = parts_of(id);
    let slot = slots.get_mut(index as usize)?;
    if slot.uses == uses { slot.entry.as_deref_mut() } else { None }
}
