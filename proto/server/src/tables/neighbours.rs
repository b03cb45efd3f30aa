//! States of the connections to neighbours, which all shards read.

use crate::NEIGHBOURS_MAX;
use crate::tables::neighbour_calls::{CallRequest, CallResult, Calls};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use ringway_sansio::{ConnectionId, DialledId, Flow, Instant, Transport};

/// Way of a message to a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourRoute {
    /// The next hop is no neighbour.
    Other,
    /// The neighbour with this index in the configuration has a connection.
    Up(usize, ConnectionId),
    /// The neighbour has no connection: nothing can be sent, and nothing is dialled.
    Down,
}

/// Neighbours with their addresses and connections.
///
/// The shard that keeps the connections writes it, all shards read it ([`SharedTables::neighbour_route`](crate::SharedTables)).
#[derive(Clone, Debug, Default)]
pub struct NeighbourTable {
    entries: Vec<Entry>,
    /// By neighbour.
    names: Vec<String>,
    calls: Calls,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Address, without a connection; the last known one.
    target: Option<Flow>,
    connection: Option<ConnectionId>,
    /// It answered the last OPTIONS, and not with 503.
    is_up: bool,
    /// Connection that the neighbour opened and offered; it is not in use yet.
    offer: Option<Flow>,
}

impl NeighbourTable {
    /// Notes the address of a neighbour.
    pub fn set_target(&mut self, neighbour: usize, target: Flow) {
        if let Some(entry) = self.entry(neighbour) {
            entry.offer = entry.offer.filter(|_| entry.target == Some(target));
            entry.target = Some(target);
        }
    }

    /// Notes that a neighbour with the address `advertised` offers the connection of `flow`. Ignored unless that is the
    /// address at which it is dialled.
    pub(crate) fn offer(&mut self, neighbour: usize, advertised: SocketAddr, flow: Flow) {
        if let Some(entry) = self.entries.get_mut(neighbour)
            && let Some(target) = entry.target
            && (target.transport, target.remote) == (flow.transport, advertised)
        {
            entry.offer = Some(flow);
        }
    }

    /// Takes the offer of a neighbour.
    pub(crate) fn take_offer(&mut self, neighbour: usize) -> Option<Flow> {
        self.entries.get_mut(neighbour)?.offer.take()
    }

    /// Removes the offer of a connection that is closed.
    pub(crate) fn remove_offer(&mut self, closed: ConnectionId) {
        for entry in &mut self.entries {
            entry.offer = entry.offer.filter(|flow| flow.connection != Some(closed));
        }
    }

    /// Begins with these neighbours. Those at the positions of `changed`, and those that are gone, have no address and no
    /// connection any more, and the connections of their calls end with their pending requests.
    pub(crate) fn set_neighbours(&mut self, names: Vec<String>, changed: &[usize]) {
        self.entries.truncate(names.len());
        for index in (0..NEIGHBOURS_MAX).filter(|index| *index >= names.len() || changed.contains(index)) {
            if let Some(entry) = self.entries.get_mut(index) {
                *entry = Entry::default();
            }
            self.calls.forget_neighbour(index as u8);
        }
        self.names = names;
    }

    /// Name of the neighbour that has this connection, which is its own or that of a call.
    pub fn name_of(&self, connection: ConnectionId, dialled: DialledId) -> Option<&str> {
        let index = match self.calls.neighbour_of(dialled) {
            Some(index) => usize::from(index),
            None => self.entries.iter().position(|entry| entry.connection == Some(connection))?,
        };
        self.names.get(index).map(String::as_str)
    }

    /// Connection of a neighbour.
    pub fn connection(&self, neighbour: usize) -> Option<ConnectionId> {
        self.entries.get(neighbour)?.connection
    }

    /// Notes that a neighbour works, with its connection; `None`: datagrams reach it.
    pub fn set_up(&mut self, neighbour: usize, connection: Option<ConnectionId>) {
        if let Some(entry) = self.entry(neighbour) {
            entry.connection = connection;
            entry.is_up = true;
        }
    }

    /// Notes that a neighbour with this connection takes no new work: dialogs that run may go on.
    pub fn set_refusing(&mut self, neighbour: usize, connection: Option<ConnectionId>) {
        if let Some(entry) = self.entry(neighbour) {
            entry.connection = connection;
            entry.is_up = false;
        }
    }

    /// Notes that a neighbour has no connection, or does not answer.
    pub fn set_down(&mut self, neighbour: usize) {
        if let Some(entry) = self.entry(neighbour) {
            entry.connection = None;
            entry.is_up = false;
        }
    }

    /// True if a neighbour works.
    pub fn is_up(&self, neighbour: usize) -> bool {
        self.entries.get(neighbour).is_some_and(|entry| entry.is_up)
    }

    /// True if the neighbour with this address has a connection that works.
    pub fn is_up_at(&self, transport: Transport, address: SocketAddr) -> bool {
        let is_this = |target: Flow| (target.transport, target.remote) == (transport, address);
        self.entries.iter().any(|entry| entry.is_up && entry.target.is_some_and(is_this))
    }

    /// Way of a message for a flow without a connection.
    pub fn route(&self, flow: &Flow) -> NeighbourRoute {
        let is_this = |entry: &&Entry| entry.target.is_some_and(|target| is_same(&target, flow));
        match self.entries.iter().enumerate().find(|(_, entry)| is_this(entry)) {
            None => NeighbourRoute::Other,
            Some((index, entry)) => match entry.connection {
                Some(connection) => NeighbourRoute::Up(index, connection),
                None => NeighbourRoute::Down,
            },
        }
    }

    /// Number of calls with a connection of their own.
    pub fn calls_len(&self) -> usize {
        self.calls.len()
    }

    /// Begins a request of a call, and returns its flow. `None`: there are too many calls.
    pub(crate) fn begin_call(
        &mut self,
        now: Instant,
        (call_id, neighbour): (u64, usize),
        flow: Flow,
        request: CallRequest,
    ) -> Option<Flow> {
        self.calls.begin(now, (call_id, u8::try_from(neighbour).ok()?), flow, request)
    }

    /// Ends a pending request of a call. Returns the flow whose connection is of no use any more.
    pub(crate) fn end_call(&mut self, now: Instant, number: DialledId, result: CallResult) -> Option<Flow> {
        self.calls.end(now, number, result)
    }

    /// Ends the dialogs of a Call-ID, and passes the flows whose connections are of no use any more to `each`.
    pub(crate) fn end_dialogs(&mut self, now: Instant, call_id: u64, each: impl FnMut(Flow)) {
        self.calls.end_dialogs(now, call_id, each);
    }

    /// Ends the calls whose time has passed, and passes their flows to `each`.
    pub(crate) fn expire_calls(&mut self, now: Instant, each: impl FnMut(Flow)) {
        self.calls.expire(now, each);
    }

    /// Passes each neighbour that has been probed to `each`: its index, name, last known address, and true if it works.
    pub fn for_each(&self, mut each: impl FnMut(usize, &str, Option<SocketAddr>, bool)) {
        for (index, (entry, name)) in self.entries.iter().zip(&self.names).enumerate() {
            each(index, name, entry.target.map(|target| target.remote), entry.is_up);
        }
    }

    fn entry(&mut self, neighbour: usize) -> Option<&mut Entry> {
        if neighbour < NEIGHBOURS_MAX && neighbour >= self.entries.len() {
            self.entries.resize(neighbour + 1, Entry::default());
        }
        self.entries.get_mut(neighbour)
    }
}

/// True if both are the same host: by its name, or by its address if it has none. A name may have several addresses.
fn is_same(target: &Flow, flow: &Flow) -> bool {
    let is_host = target.remote.port() == flow.remote.port()
        && (target.remote.ip() == flow.remote.ip() || target.host != ringway_sansio::HostNameId::NONE);
    target.transport == flow.transport && target.host == flow.host && is_host
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::{HostNameId, ListenerId};

    #[test]
    fn a_neighbour_is_recognised_by_name_or_address() {
        let flow = |address: &str, host| Flow {
            host: HostNameId(host),
            ..Flow::dial(ListenerId(0), address.parse().unwrap())
        };
        let mut table = NeighbourTable::default();
        table.set_target(0, flow("192.0.2.1:5060", 5));
        table.set_target(1, flow("192.0.2.2:5060", 0));
        table.set_up(1, Some(ConnectionId(9)));
        for (address, host, route) in [
            ("192.0.2.1:5060", 5, NeighbourRoute::Down),
            ("192.0.2.77:5060", 5, NeighbourRoute::Down),
            ("192.0.2.1:5060", 0, NeighbourRoute::Other),
            ("192.0.2.1:5070", 5, NeighbourRoute::Other),
            ("192.0.2.2:5060", 0, NeighbourRoute::Up(1, ConnectionId(9))),
            ("192.0.2.3:5060", 0, NeighbourRoute::Other),
        ] {
            assert_eq!(table.route(&flow(address, host)), route, "{address} {host}");
        }
        table.set_neighbours(["gate", "carrier"].map(String::from).to_vec(), &[]);
        let mut states = Vec::new();
        table.for_each(|index, name, address, is_up| {
            states.push((index, String::from(name), address.map(|address| address.port()), is_up));
        });
        let expected = [(0, "gate", Some(5060), false), (1, "carrier", Some(5060), true)];
        assert_eq!(
            states,
            expected.map(|(index, name, port, is_up)| (index, String::from(name), port, is_up))
        );
    }
}
