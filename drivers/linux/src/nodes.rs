//! Nodes of a worker, and their output since its last flush.

use crate::action::ActionSink;
use crate::shard::Shards;
use ringway_sansio::{Context, Event, Instant, Node, Outbox, Received};
use std::sync::Arc;

/// Access of a worker to the nodes.
pub(crate) struct Nodes<N: Node> {
    pub(crate) worker: usize,
    pub(crate) shards: Shards<N>,
    pub(crate) sink: Arc<dyn ActionSink<N::Action>>,
    /// True if packets may have to be held: the sink is called after each call of a node.
    pub(crate) is_strict: bool,
}

/// Output of the nodes since the last flush.
pub(crate) struct Batch<A> {
    pub(crate) out: Outbox,
    /// Empty between calls; kept for its capacity.
    pub(crate) actions: Vec<A>,
    /// Number that the store must reach for all actions that this worker requested.
    pub(crate) stored_at: u64,
}

impl<N: Node> Nodes<N> {
    pub(crate) fn on_message(&self, batch: &mut Batch<N::Action>, now: Instant, received: Received<'_>) {
        let shard = self.shards.of_message(received.bytes);
        self.call(batch, now, shard, |node, cx| node.on_message(cx, received));
    }

    pub(crate) fn on_event(&self, batch: &mut Batch<N::Action>, now: Instant, shard: u16, event: Event) {
        self.call(batch, now, shard, |node, cx| node.on_event(cx, event));
    }

    pub(crate) fn on_timeout(&self, batch: &mut Batch<N::Action>, now: Instant, shard: u16) {
        self.call(batch, now, shard, |node, cx| node.on_timeout(cx));
    }

    pub(crate) fn call(
        &self,
        batch: &mut Batch<N::Action>,
        now: Instant,
        shard: u16,
        f: impl FnOnce(&mut N, &mut Context<'_, N::Action>),
    ) {
        self.shards.run(Some(self.worker), shard, |node| {
            f(node, &mut Context::new(now, &mut batch.out, &mut batch.actions));
            if self.is_strict || !batch.actions.is_empty() {
                let required = self.sink.act(self.worker, shard, batch.actions.drain(..));
                batch.stored_at = batch.stored_at.max(required);
            }
        });
    }
}
