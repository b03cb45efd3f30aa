//! Adapter from protocol machines to hosts of a simulation, and locks for machines in it.

use crate::connection::SimConnection;
use ringway_sansio::{
    ConnectionId, Context, Deadline, Event, Framer, IcmpError, Instant, Locked, Locks, Node, Outbox,
    Received, Seed, ShardKey,
};
use ringway_stream::{Connection, Layer, Origin};
use std::any::Any;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Shard key of every simulated host.
pub fn shard_key() -> ShardKey {
    ShardKey::new(&Seed::from_number(0))
}

/// Index of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub(crate) usize);

/// Host of a simulation with one or more shards. [`Hosted`] adapts any [`Node`]; a scripted peer implements it directly.
pub trait SimNode: Any {
    /// Number of shards; at least one.
    fn shards(&self) -> u16;

    /// Shard of a message.
    fn shard_of(&self, bytes: &[u8]) -> u16;

    /// Creates a connection of this protocol over `layer`, which begins now.
    fn connection(&self, origin: Origin, layer: Box<dyn Layer>, now: Instant) -> Box<dyn SimConnection>;

    /// Handles a message for `shard`.
    fn on_message(&mut self, shard: u16, now: Instant, received: Received<'_>, effects: &mut Effects);

    /// Handles an event of the transport for `shard`.
    fn on_event(&mut self, shard: u16, now: Instant, event: Event, effects: &mut Effects);

    /// Shard of the datagram that an ICMP error quotes. `None`: the error has no effect.
    fn shard_of_quoted(&self, _quoted: &[u8]) -> Option<u16> {
        None
    }

    /// Handles an ICMP error for `shard`.
    fn on_icmp_error(&mut self, _shard: u16, _now: Instant, _error: IcmpError<'_>, _effects: &mut Effects) {}

    /// Handles the deadline of `shard`.
    fn on_timeout(&mut self, shard: u16, now: Instant, effects: &mut Effects);

    /// Time of the next necessary call of [`SimNode::on_timeout`] for `shard`.
    fn next_deadline(&self, shard: u16) -> Option<Deadline>;
}

/// Effects of a call into a host.
#[derive(Debug, Default)]
pub struct Effects {
    /// Packets to send.
    pub out: Outbox,
    /// Later events for the same shard, for example the result of a DNS lookup.
    pub events: Vec<(Duration, Event)>,
    /// The same for other shards of the host, each with the shard's number.
    pub events_elsewhere: Vec<(u16, Duration, Event)>,
    /// Connections to close after everything is sent.
    pub closes: Vec<ConnectionId>,
}

/// Shards of a [`Node`], with the handler of their actions.
pub struct Hosted<N: Node> {
    shards: Vec<N>,
    handler: ActionHandler<N>,
    actions: Vec<N::Action>,
}

/// Handler of a requested action: stores data, or adds the result of a lookup to [`Effects::events`].
type ActionHandler<N> = Box<dyn FnMut(Instant, <N as Node>::Action, &mut Effects)>;

impl<N: Node + 'static> Hosted<N> {
    /// Creates a host of these shards; `handler` is called with each requested action, in order.
    pub fn new(shards: Vec<N>, handler: impl FnMut(Instant, N::Action, &mut Effects) + 'static) -> Self {
        Self { shards, handler: Box::new(handler), actions: Vec::new() }
    }

    /// Calls one shard as a driver would, and handles its actions. `None`: there is no such shard.
    pub fn call<R>(
        &mut self,
        shard: u16,
        now: Instant,
        effects: &mut Effects,
        run: impl FnOnce(&mut N, &mut Context<'_, N::Action>) -> R,
    ) -> Option<R> {
        let node = self.shards.get_mut(usize::from(shard))?;
        let result = run(node, &mut Context::new(now, &mut effects.out, &mut self.actions));
        for action in self.actions.drain(..) {
            (self.handler)(now, action, effects);
        }
        Some(result)
    }

    /// The shards, for inspection.
    pub fn shards(&self) -> &[N] {
        &self.shards
    }
}

impl<N: Node + 'static> SimNode for Hosted<N> {
    fn shards(&self) -> u16 {
        u16::try_from(self.shards.len()).unwrap_or(u16::MAX)
    }

    fn shard_of(&self, bytes: &[u8]) -> u16 {
        N::shard_of(&shard_key(), bytes, SimNode::shards(self))
    }

    fn connection(&self, origin: Origin, layer: Box<dyn Layer>, now: Instant) -> Box<dyn SimConnection> {
        Box::new(Connection::new(origin, N::Framer::new(MESSAGE_BYTES_MAX), layer, now))
    }

    fn on_message(&mut self, shard: u16, now: Instant, received: Received<'_>, effects: &mut Effects) {
        self.call(shard, now, effects, |node, cx| node.on_message(cx, received));
    }

    fn on_event(&mut self, shard: u16, now: Instant, event: Event, effects: &mut Effects) {
        self.call(shard, now, effects, |node, cx| node.on_event(cx, event));
    }

    fn shard_of_quoted(&self, quoted: &[u8]) -> Option<u16> {
        N::shard_of_quoted(quoted, SimNode::shards(self))
    }

    fn on_icmp_error(&mut self, shard: u16, now: Instant, error: IcmpError<'_>, effects: &mut Effects) {
        self.call(shard, now, effects, |node, cx| node.on_icmp_error(cx, error));
    }

    fn on_timeout(&mut self, shard: u16, now: Instant, effects: &mut Effects) {
        self.call(shard, now, effects, |node, cx| node.on_timeout(cx));
    }

    fn next_deadline(&self, shard: u16) -> Option<Deadline> {
        self.shards.get(usize::from(shard)).and_then(Node::next_deadline)
    }
}

/// Default of the other drivers.
const MESSAGE_BYTES_MAX: usize = 65_535;

/// Locks of a simulated program: mutexes, so that tests may look at tables too.
#[derive(Clone, Copy, Debug)]
pub struct SimLocks;

struct SimLock<T>(Mutex<T>);

impl Locks for SimLocks {
    fn lock<T: Send + Sync + 'static>(value: T) -> Box<dyn Locked<T> + Send + Sync> {
        Box::new(SimLock(Mutex::new(value)))
    }
}

impl<T> Locked<T> for SimLock<T> {
    fn read(&self, read: &mut dyn FnMut(&T)) {
        read(&self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn change(&self, change: &mut dyn FnMut(&mut T)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
