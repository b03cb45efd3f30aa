//! States of the connections to neighbours, and those of single calls, which all shards read.

use crate::{NEIGHBOURS_MAX, Trunk};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use ringway_sansio::{ConnectionId, DialledId, Flow, HostNameId, Instant, TableSize, Transport};

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
    /// Neighbours by their addresses; of several with the same one the first is used.
    targets: BTreeSet<(Target, u16)>,
    connections: BTreeMap<ConnectionId, u16>,
    /// Connections that neighbours opened and offered, and that are not in use yet.
    offers: BTreeMap<u16, Flow>,
    calls: Calls,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Address, without a connection; the last known one.
    target: Option<Flow>,
    connection: Option<ConnectionId>,
    /// It answered the last OPTIONS, and not with 503.
    is_up: bool,
}

/// Host as the next hop of a request: by its name, or by its address if it has none, as a name may have several addresses.
type Target = (Transport, HostNameId, Option<IpAddr>, u16);

impl NeighbourTable {
    /// Memory of `entries` neighbours, nodes and trunks, and of calls with a connection of their own.
    pub(crate) const fn sizes(entries: usize) -> [TableSize; 2] {
        let states = TableSize::of_list("neighbours, nodes and trunks", entries, size_of::<Entry>())
            .with_list(entries, size_of::<String>())
            .with_each(NAME_BYTES)
            .with_tree(entries, size_of::<(Target, u16)>())
            .with_tree(entries, size_of::<(ConnectionId, u16)>())
            .with_tree(entries, size_of::<(u16, Flow)>());
        let calls = TableSize::of_tree("calls with a connection", CALLS_MAX, size_of::<(DialledId, Call)>())
            .with_tree(CALLS_MAX, size_of::<((u64, u16), DialledId)>());
        [states, calls]
    }

    /// Notes the address of a neighbour.
    pub fn set_target(&mut self, neighbour: usize, target: Flow) {
        let Some(number) = number_of(neighbour) else { return };
        let Some(entry) = self.entry(neighbour) else { return };
        let before = entry.target.replace(target);
        if before == Some(target) {
            return;
        }
        if let Some(before) = before {
            self.targets.remove(&(target_of(&before), number));
        }
        self.targets.insert((target_of(&target), number));
        self.offers.remove(&number);
    }

    /// Notes that a neighbour with the address `advertised` offers the connection of `flow`. Ignored unless that is the
    /// address at which it is dialled.
    pub(crate) fn offer(&mut self, neighbour: usize, advertised: SocketAddr, flow: Flow) {
        if let Some(number) = number_of(neighbour)
            && let Some(target) = self.entries.get(neighbour).and_then(|entry| entry.target)
            && (target.transport, target.remote) == (flow.transport, advertised)
        {
            self.offers.insert(number, flow);
        }
    }

    /// Takes the offer of a neighbour.
    pub(crate) fn take_offer(&mut self, neighbour: usize) -> Option<Flow> {
        self.offers.remove(&number_of(neighbour)?)
    }

    /// Removes the offer of a connection that is closed.
    pub(crate) fn remove_offer(&mut self, closed: ConnectionId) {
        self.offers.retain(|_, flow| flow.connection != Some(closed));
    }

    /// Begins with these neighbours. `earlier` has the position that each had before: it keeps its address, its connection and its
    /// calls. The others have no address and no connection, and the connections of calls to those that are gone end with their pending
    /// requests.
    pub(crate) fn set_neighbours(&mut self, names: Vec<String>, earlier: &[Option<u16>]) {
        let of = |at: &Option<u16>| at.and_then(|at| self.entries.get(usize::from(at))).copied();
        let mut entries: Vec<Entry> = earlier.iter().map(|at| of(at).unwrap_or_default()).collect();
        let probed = entries.iter().rposition(|entry| entry.target.is_some() || entry.is_up);
        entries.truncate(probed.map_or(0, |last| last + 1));
        let numbered = || (0..=u16::MAX).zip(&entries);
        self.targets = numbered().filter_map(|(of, entry)| Some((target_of(&entry.target?), of))).collect();
        self.connections = numbered().filter_map(|(of, entry)| Some((entry.connection?, of))).collect();
        let later: BTreeMap<u16, u16> =
            (0..=u16::MAX).zip(earlier).filter_map(|(to, from)| Some(((*from)?, to))).collect();
        let offers = core::mem::take(&mut self.offers).into_iter();
        self.offers = offers.filter_map(|(of, flow)| Some((*later.get(&of)?, flow))).collect();
        self.calls.move_to(|of| later.get(&of).copied());
        (self.entries, self.names) = (entries, names);
    }

    /// Name of the neighbour that has this connection, which is its own or that of a call.
    pub fn name_of(&self, connection: ConnectionId, dialled: DialledId) -> Option<&str> {
        let number =
            self.calls.neighbour_of(dialled).or_else(|| self.connections.get(&connection).copied())?;
        self.names.get(usize::from(number)).map(String::as_str)
    }

    /// Connection of a neighbour.
    pub fn connection(&self, neighbour: usize) -> Option<ConnectionId> {
        self.entries.get(neighbour)?.connection
    }

    /// Notes that a neighbour works, with its connection; `None`: datagrams reach it.
    pub fn set_up(&mut self, neighbour: usize, connection: Option<ConnectionId>) {
        self.set(neighbour, connection, true);
    }

    /// Notes that a neighbour with this connection takes no new work: dialogs that run may go on.
    pub fn set_refusing(&mut self, neighbour: usize, connection: Option<ConnectionId>) {
        self.set(neighbour, connection, false);
    }

    /// Notes that a neighbour has no connection, or does not answer.
    pub fn set_down(&mut self, neighbour: usize) {
        self.set(neighbour, None, false);
    }

    fn set(&mut self, neighbour: usize, connection: Option<ConnectionId>, is_up: bool) {
        let Some(number) = number_of(neighbour) else { return };
        let Some(entry) = self.entry(neighbour) else { return };
        entry.is_up = is_up;
        let before = core::mem::replace(&mut entry.connection, connection);
        if before != connection {
            before.and_then(|before| self.connections.remove(&before));
            connection.and_then(|connection| self.connections.insert(connection, number));
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
        let wanted = target_of(flow);
        let found = self.targets.range((wanted, 0)..=(wanted, u16::MAX)).next();
        let Some(index) = found.map(|(_, number)| usize::from(*number)) else { return NeighbourRoute::Other };
        match self.connection(index) {
            Some(connection) => NeighbourRoute::Up(index, connection),
            None => NeighbourRoute::Down,
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
        call_id: u64,
        neighbour: usize,
        flow: Flow,
        request: CallRequest,
    ) -> Option<Flow> {
        self.calls.begin(now, (call_id, number_of(neighbour)?), flow, request)
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

    /// States of the neighbours by index, up to the last one that has been probed: true for each that works.
    pub fn states(&self) -> Vec<bool> {
        self.entries.iter().map(|entry| entry.is_up).collect()
    }

    fn entry(&mut self, neighbour: usize) -> Option<&mut Entry> {
        if neighbour < ENTRIES_MAX && neighbour >= self.entries.len() {
            self.entries.resize(neighbour + 1, Entry::default());
        }
        self.entries.get_mut(neighbour)
    }
}

fn number_of(neighbour: usize) -> Option<u16> {
    u16::try_from(neighbour).ok().filter(|_| neighbour < ENTRIES_MAX)
}

fn target_of(flow: &Flow) -> Target {
    let ip = (flow.host == HostNameId::NONE).then_some(flow.remote.ip());
    (flow.transport, flow.host, ip, flow.remote.port())
}

/// Bytes of a name, which a host name may be.
const NAME_BYTES: usize = 256;

/// Maximum number of neighbours: servers and nodes, and the trunks that are probed.
const ENTRIES_MAX: usize = NEIGHBOURS_MAX + Trunk::TRUNKS_MAX;

// Connections that calls to neighbours have for themselves.
//
// A call is a Call-ID at one neighbour. Its connection is open while a request of it is pending, while its dialog lasts, and
// for [`CHALLENGED`] after a challenge, so that the request with credentials uses it too.

/// Calls with a connection of their own.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    calls: BTreeMap<DialledId, Call>,
    /// By the keyed hash of the Call-ID and the neighbour.
    numbers: BTreeMap<(u64, u16), DialledId>,
    last: DialledId,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    key: (u64, u16),
    /// Its neighbour is there: later requests belong to it.
    has_key: bool,
    flow: Flow,
    /// Pending requests.
    pending: u32,
    is_dialog: bool,
    /// Without a pending request the connection is closed at this time.
    until: Instant,
}

/// Request of a call, as far as it matters for its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallRequest {
    /// Its response is awaited.
    Pending,
    /// The same, and the dialog ends.
    Bye,
    /// There is no response.
    Ack,
}

/// Result of a request of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallResult {
    /// It established or refreshed a dialog.
    Dialog,
    /// It was challenged.
    Challenged,
    /// Any other result.
    Other,
}

impl Calls {
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Begins a request and returns its flow, with the number of the call's connection; `flow` is the neighbour's own
    /// connection. `None`: there are [`CALLS_MAX`] calls.
    ///
    /// An ACK begins no call, because it cannot be challenged and anybody can send one: it is sent over `flow`.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        key: (u64, u16),
        flow: Flow,
        request: CallRequest,
    ) -> Option<Flow> {
        let number = match self.numbers.get(&key) {
            Some(number) => *number,
            None if request == CallRequest::Ack => return Some(flow),
            None => self.insert(key, flow)?,
        };
        let call = self.calls.get_mut(&number)?;
        match request {
            CallRequest::Pending => call.pending += 1,
            CallRequest::Bye => {
                call.pending += 1;
                call.is_dialog = false;
                call.until = now;
            }
            CallRequest::Ack => call.until = call.until.max(now + CHALLENGED),
        }
        if call.is_dialog {
            call.until = now + CALL_IDLE_MAX;
        }
        Some(call.flow)
    }

    /// Ends a pending request. Returns the flow if its connection is of no use any more.
    pub(super) fn end(&mut self, now: Instant, number: DialledId, result: CallResult) -> Option<Flow> {
        let call = self.calls.get_mut(&number)?;
        call.pending = call.pending.saturating_sub(1);
        match result {
            CallResult::Dialog => {
                call.is_dialog = true;
                call.until = now + CALL_IDLE_MAX;
            }
            CallResult::Challenged => call.until = call.until.max(now + CHALLENGED),
            CallResult::Other => {}
        }
        self.close_unused(now, number)
    }

    /// Ends the dialogs of a Call-ID, and passes the flows whose connections are of no use any more to `each`.
    pub(super) fn end_dialogs(&mut self, now: Instant, call_id: u64, mut each: impl FnMut(Flow)) {
        let of_call = (call_id, 0)..=(call_id, u16::MAX);
        let numbers: Vec<_> = self.numbers.range(of_call).map(|(_, number)| *number).collect();
        for number in numbers {
            if let Some(call) = self.calls.get_mut(&number) {
                call.is_dialog = false;
                call.until = now;
            }
            if let Some(flow) = self.close_unused(now, number) {
                each(flow);
            }
        }
    }

    /// Ends the calls whose time has passed, and passes their flows to `each`.
    pub(super) fn expire(&mut self, now: Instant, mut each: impl FnMut(Flow)) {
        let Self { calls, numbers, .. } = self;
        calls.retain(|number, call| {
            let is_used = call.is_used(now);
            if !is_used {
                forget(numbers, call.key, *number);
                each(call.flow);
            }
            is_used
        });
    }

    /// Gives the calls the new numbers of their neighbours. Later requests of the calls at one that has none begin new calls; their
    /// connections end with the pending requests.
    pub(super) fn move_to(&mut self, number_of: impl Fn(u16) -> Option<u16>) {
        let Self { calls, numbers, .. } = self;
        numbers.clear();
        for (number, call) in calls {
            match number_of(call.key.1).filter(|_| call.has_key) {
                Some(neighbour) => {
                    call.key.1 = neighbour;
                    numbers.insert(call.key, *number);
                }
                None => {
                    call.has_key = false;
                    call.is_dialog = false;
                    call.until = Instant::default();
                }
            }
        }
    }

    /// Neighbour of the call with this connection.
    pub(super) fn neighbour_of(&self, number: DialledId) -> Option<u16> {
        self.calls.get(&number).filter(|call| call.has_key).map(|call| call.key.1)
    }

    fn insert(&mut self, key: (u64, u16), flow: Flow) -> Option<DialledId> {
        if self.calls.len() >= CALLS_MAX {
            return None;
        }
        // In turn: a number is used again long after its connection was closed.
        loop {
            self.last = DialledId(self.last.0.wrapping_add(1));
            if self.last != DialledId::SHARED && !self.calls.contains_key(&self.last) {
                break;
            }
        }
        let flow = Flow { connection: None, dialled: self.last, ..flow };
        let call = Call { key, has_key: true, flow, pending: 0, is_dialog: false, until: Instant::default() };
        self.calls.insert(self.last, call);
        self.numbers.insert(key, self.last);
        Some(self.last)
    }

    fn close_unused(&mut self, now: Instant, number: DialledId) -> Option<Flow> {
        let call = *self.calls.get(&number).filter(|call| !call.is_used(now))?;
        self.calls.remove(&number);
        forget(&mut self.numbers, call.key, number);
        Some(call.flow)
    }
}

/// Removes the key of a call, unless a later call has it.
fn forget(numbers: &mut BTreeMap<(u64, u16), DialledId>, key: (u64, u16), number: DialledId) {
    if numbers.get(&key) == Some(&number) {
        numbers.remove(&key);
    }
}

impl Call {
    fn is_used(&self, now: Instant) -> bool {
        self.pending > 0 || self.until > now
    }
}

/// Maximum number of calls with a connection of their own, at all neighbours; fewer than there are numbers.
pub const CALLS_MAX: usize = 16_384;
/// Time without a request after which the connection of a dialog is closed: the session interval that RFC 4028 §4
/// recommends. A later request of the dialog dials again.
const CALL_IDLE_MAX: Duration = Duration::from_secs(1800);
/// Time for which a challenged request is awaited again; 64·T1.
const CHALLENGED: Duration = Duration::from_secs(32);

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::ListenerId;

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
        table.set_neighbours(["gate", "carrier"].map(String::from).to_vec(), &[Some(0), Some(1)]);
        let mut states = Vec::new();
        table.for_each(|index, name, address, is_up| {
            states.push((index, String::from(name), address.map(|address| address.port()), is_up));
        });
        let expected = [(0, "gate", Some(5060), false), (1, "carrier", Some(5060), true)];
        assert_eq!(
            states,
            expected.map(|(index, name, port, is_up)| (index, String::from(name), port, is_up))
        );
        // One comes before them, and the first one is gone.
        table.set_neighbours(["new", "carrier"].map(String::from).to_vec(), &[None, Some(1)]);
        assert_eq!(table.route(&flow("192.0.2.2:5060", 0)), NeighbourRoute::Up(1, ConnectionId(9)));
        assert_eq!(table.route(&flow("192.0.2.1:5060", 5)), NeighbourRoute::Other);
        table.set_neighbours(["carrier"].map(String::from).to_vec(), &[Some(1)]);
        assert_eq!(table.route(&flow("192.0.2.2:5060", 0)), NeighbourRoute::Up(0, ConnectionId(9)));
        assert_eq!(table.name_of(ConnectionId(9), DialledId::SHARED), Some("carrier"));
        assert_eq!(table.states(), [true]);
    }
}

#[cfg(test)]
mod neighbour_calls_tests {
    use super::*;
    use alloc::vec;
    use ringway_sansio::ListenerId;

    const NOW: Instant = Instant::from_secs(1000);

    fn flow() -> Flow {
        Flow::dial(ListenerId(0), "192.0.2.1:5060".parse().unwrap())
    }

    fn begin(calls: &mut Calls, call_id: u64, request: CallRequest) -> DialledId {
        calls.begin(NOW, (call_id, 3), flow(), request).unwrap().dialled
    }

    #[test]
    fn a_call_has_one_connection_until_its_bye_is_answered() {
        let mut calls = Calls::default();
        assert_eq!(begin(&mut calls, 1, CallRequest::Ack), DialledId::SHARED, "an ACK begins no call");
        let number = begin(&mut calls, 1, CallRequest::Pending);
        assert_ne!(number, DialledId::SHARED);
        assert_ne!(begin(&mut calls, 2, CallRequest::Pending), number);
        assert_eq!(calls.end(NOW, number, CallResult::Challenged), None);
        assert_eq!(begin(&mut calls, 1, CallRequest::Pending), number, "with credentials");
        assert_eq!(calls.end(NOW, number, CallResult::Dialog), None);
        for request in [CallRequest::Ack, CallRequest::Pending] {
            assert_eq!(begin(&mut calls, 1, request), number);
        }
        assert_eq!(calls.end(NOW, number, CallResult::Other), None, "the dialog lasts");
        assert_eq!(begin(&mut calls, 1, CallRequest::Bye), number);
        let ended = calls.end(NOW, number, CallResult::Other).unwrap();
        assert_eq!((ended.dialled, ended.connection, calls.len()), (number, None, 1));
        assert_ne!(begin(&mut calls, 1, CallRequest::Pending), number, "a number is not used again at once");
    }

    #[test]
    fn a_bye_from_the_neighbour_ends_the_dialog_when_nothing_is_pending() {
        let mut calls = Calls::default();
        let number = begin(&mut calls, 1, CallRequest::Pending);
        calls.end(NOW, number, CallResult::Dialog);
        calls.begin(NOW, (1, 4), flow(), CallRequest::Pending);
        let mut closed = Vec::new();
        calls.end_dialogs(NOW, 2, |flow| closed.push(flow.dialled));
        assert!(closed.is_empty(), "another call");
        calls.end_dialogs(NOW, 1, |flow| closed.push(flow.dialled));
        assert_eq!((closed, calls.len()), (vec![number], 1), "the other has a pending request");
    }

    #[test]
    fn a_dialog_without_requests_ends_by_time() {
        let mut calls = Calls::default();
        let number = begin(&mut calls, 1, CallRequest::Pending);
        let mut closed = 0;
        calls.expire(NOW + CALL_IDLE_MAX * 2, |_| closed += 1);
        assert_eq!(closed, 0, "a request is pending");
        calls.end(NOW, number, CallResult::Dialog);
        calls.expire(NOW + CALL_IDLE_MAX - Duration::from_secs(1), |_| closed += 1);
        assert_eq!(closed, 0);
        calls.expire(NOW + CALL_IDLE_MAX, |_| closed += 1);
        assert_eq!((closed, calls.len(), calls.numbers.len()), (1, 0, 0));
    }

    #[test]
    fn a_call_at_a_neighbour_that_was_replaced_does_not_continue_there() {
        let mut calls = Calls::default();
        let (before, other) =
            (begin(&mut calls, 1, CallRequest::Pending), begin(&mut calls, 2, CallRequest::Pending));
        calls.end(NOW, other, CallResult::Dialog);
        calls.move_to(|of| (of != 3).then_some(of));
        let after = begin(&mut calls, 1, CallRequest::Pending);
        assert_ne!(before, after);
        assert_eq!(calls.end(NOW, before, CallResult::Other).unwrap().dialled, before);
        assert_eq!(begin(&mut calls, 1, CallRequest::Pending), after, "its number is still known");
        let mut closed = Vec::new();
        calls.expire(NOW, |flow| closed.push(flow.dialled));
        assert_eq!((closed, calls.len()), (vec![other], 1));
    }

    #[test]
    fn the_number_of_calls_is_limited_and_each_has_a_number_of_its_own() {
        let mut calls = Calls::default();
        let numbers: Vec<_> =
            (0..CALLS_MAX as u64).map(|call| begin(&mut calls, call, CallRequest::Pending)).collect();
        assert_eq!(calls.begin(NOW, (u64::MAX, 3), flow(), CallRequest::Pending), None);
        assert!(calls.begin(NOW, (7, 3), flow(), CallRequest::Pending).is_some(), "no new call");
        calls.end(NOW, numbers[8], CallResult::Other);
        for round in 0..70_000 {
            let number = begin(&mut calls, u64::MAX - round, CallRequest::Pending);
            assert!(number != DialledId::SHARED && calls.calls.len() == CALLS_MAX);
            assert!(calls.end(NOW, number, CallResult::Other).is_some());
        }
    }
}
