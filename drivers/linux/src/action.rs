//! Executor of the actions that nodes request.

use std::vec::Drain;

/// Executes actions that nodes request, such as storing a binding or a DNS lookup. The program passes one to the runtime.
///
/// It is called on the worker's thread while the node is still locked, so that actions of successive messages are
/// requested in their order, regardless of the worker. It must therefore not block (it queues the work for other
/// threads) and must not access a shard.
pub trait ActionSink<A>: Send + Sync {
    /// Takes the actions of one call to the node of `shard`, before the packets of that call are sent. Returns the
    /// number that [`ActionSink::stored_through`] reaches when all of them are durable; the numbers returned to a
    /// worker never decrease. A sink that stores nothing returns 0. With
    /// [`MarkedPackets::HoldUntilStored`](crate::MarkedPackets::HoldUntilStored) it is called after each call of the
    /// node, otherwise only if there are actions.
    fn act(&self, worker: usize, shard: u16, actions: Drain<'_, A>) -> u64;

    /// Number up to which all requested actions are durable. Read only with
    /// [`MarkedPackets::HoldUntilStored`](crate::MarkedPackets::HoldUntilStored); when it grows, call
    /// [`Inboxes::wake`](crate::Inboxes::wake).
    fn stored_through(&self) -> u64;

    /// True if this change ([`Packet::change`](ringway_sansio::Packet::change)) will not be stored. Read as
    /// [`ActionSink::stored_through`] is.
    fn refuses(&self, _change: u64) -> bool {
        false
    }

    /// Packet to send instead of one that confirms a change that is refused.
    fn refusal(&self, packet: &[u8]) -> Vec<u8> {
        packet.to_vec()
    }
}

/// Sink for nodes that request no actions.
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
