//! Where a node's wishes that are not packets go.

use std::vec::Drain;

/// Takes what nodes wish done: store this, look that name up. The program gives one to the runtime.
///
/// It is called on the worker's thread while the node is still locked, so that what two messages changed one after the
/// other is asked for in that order, whichever workers ran them. So it must not wait (it queues, and other threads do)
/// and must not touch a shard.
pub trait ActionSink<A>: Send + Sync {
    /// Takes the wishes of one call to the node of `shard`, before the packets of that call are sent. It answers with
    /// the number that [`ActionSink::stored_through`] will have reached once all of them are on disk; the numbers a
    /// worker is given never decrease. A sink that stores nothing answers 0. With
    /// [`MarkedPackets::HoldUntilStored`](crate::MarkedPackets::HoldUntilStored) it is called after each call of the node,
    /// otherwise only when there are actions.
    fn act(&self, worker: usize, shard: u16, actions: Drain<'_, A>) -> u64;

    /// How far everything asked for is on disk. Read only with
    /// [`MarkedPackets::HoldUntilStored`](crate::MarkedPackets::HoldUntilStored); after it has risen, call [`Inboxes::wake`](crate::Inboxes::wake).
    fn stored_through(&self) -> u64;
}

/// A sink for nodes that wish nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoActions;

impl<A> ActionSink<A> for NoActions {
    fn act(&self, _worker: usize, _shard: u16, _actions: Drain<'_, A>) -> u64 {
        0
    }

    fn stored_through(&self) -> u64 {
        0
    }
}
