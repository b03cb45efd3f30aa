//! How machines of different kinds live in one simulation.

use crate::connection::SimConnection;
use ringway_sansio::{
    ConnectionId, Context, Deadline, Event, Framer, Instant, Node, Outbox, Received, Seed, ShardKey,
};
use ringway_stream::{Connection, Origin, PassThrough};
use std::any::Any;
use std::time::Duration;

/// The key that every simulated host spreads its messages with.
pub fn shard_key() -> ShardKey {
    ShardKey::new(&Seed::from_number(0))
}

/// Index of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub(crate) usize);

/// What the simulation runs: one host with one or more shards of whatever is inside. [`Hosted`] makes one of any
/// [`Node`]; a scripted peer can be one by itself.
pub trait SimNode: Any {
    /// How many shards there are; at least one.
    fn shards(&self) -> u16;

    /// Which of them a message belongs to.
    fn shard_of(&self, bytes: &[u8]) -> u16;

    /// A connection of this protocol's messages that begins now.
    fn connection(&self, origin: Origin, now: Instant) -> Box<dyn SimConnection>;

    /// A message came for `shard`.
    fn on_message(&mut self, shard: u16, now: Instant, received: Received<'_>, effects: &mut Effects);

    /// The transport has something to report to `shard`.
    fn on_event(&mut self, shard: u16, now: Instant, event: Event, effects: &mut Effects);

    /// The deadline of `shard` has come.
    fn on_timeout(&mut self, shard: u16, now: Instant, effects: &mut Effects);

    /// When `shard` wants to be called next.
    fn next_deadline(&self, shard: u16) -> Option<Deadline>;
}

/// What comes of a call into a host.
#[derive(Debug, Default)]
pub struct Effects {
    /// Sent packets.
    pub out: Outbox,
    /// What the same shard is told later: the answer to a look-up, for one.
    pub events: Vec<(Duration, Event)>,
    /// The connections the host closes, once everything is sent.
    pub closes: Vec<ConnectionId>,
}

/// The shards of a [`Node`], and what answers their wishes.
pub struct Hosted<N: Node> {
    shards: Vec<N>,
    grant: Grant<N>,
    actions: Vec<N::Action>,
}

/// Does what a machine wishes: keeps what it wants stored, puts the answer to a look-up into [`Effects::events`].
type Grant<N> = Box<dyn FnMut(Instant, <N as Node>::Action, &mut Effects)>;

impl<N: Node + 'static> Hosted<N> {
    /// A host of these shards; `grant` is called with each wish, in order.
    pub fn new(shards: Vec<N>, grant: impl FnMut(Instant, N::Action, &mut Effects) + 'static) -> Self {
        Self { shards, grant: Box::new(grant), actions: Vec::new() }
    }

    /// Calls one shard as the driver would, and grants what it wishes. `None`: there is no such shard.
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
            (self.grant)(now, action, effects);
        }
        Some(result)
    }

    /// The shards, to look inside.
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

    fn connection(&self, origin: Origin, now: Instant) -> Box<dyn SimConnection> {
        Box::new(Connection::new(origin, N::Framer::new(MESSAGE_BYTES_MAX), PassThrough, now))
    }

    fn on_message(&mut self, shard: u16, now: Instant, received: Received<'_>, effects: &mut Effects) {
        self.call(shard, now, effects, |node, cx| node.on_message(cx, received));
    }

    fn on_event(&mut self, shard: u16, now: Instant, event: Event, effects: &mut Effects) {
        self.call(shard, now, effects, |node, cx| node.on_event(cx, event));
    }

    fn on_timeout(&mut self, shard: u16, now: Instant, effects: &mut Effects) {
        self.call(shard, now, effects, |node, cx| node.on_timeout(cx));
    }

    fn next_deadline(&self, shard: u16) -> Option<Deadline> {
        self.shards.get(usize::from(shard)).and_then(Node::next_deadline)
    }
}

/// What the other drivers allow by default.
const MESSAGE_BYTES_MAX: usize = 65_535;
