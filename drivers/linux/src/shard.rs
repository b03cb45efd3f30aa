//! Shards: nodes behind locks, with their next deadlines; the nodes of a worker, their output since its last flush, and the
//! executor of the actions that they request.
//!
//! Any worker may run any shard for a message; the timers of a shard are run by its owner, worker `shard % workers`.

use crate::inbox::Inboxes;
use ringway_sansio::{Context, Event, Instant, Node, Outbox, Received, ShardKey, Token};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::vec::Drain;

/// Shard that gets the report if a packet with this token cannot be sent: the upper 16 bits of the token. Every node
/// that uses tokens follows this.
pub const fn shard_of_token(token: Token) -> u16 {
    (token.0 >> 48) as u16
}

/// Access to the nodes of a runtime from any thread.
pub struct Shards<N: Node> {
    list: Arc<[Shard<N>]>,
    key: ShardKey,
    inboxes: Inboxes,
}

/// Call of a node requested by another thread, with the context for packets and actions.
pub(crate) type Call<N> = Box<dyn FnOnce(&mut N, &mut Context<'_, <N as Node>::Action>) + Send>;

impl<N: Node> Clone for Shards<N> {
    fn clone(&self) -> Self {
        Self { list: Arc::clone(&self.list), key: self.key, inboxes: self.inboxes.clone() }
    }
}

/// Aligned so that no two shards share a cache line, or a pair of lines that the processor fetches together.
#[repr(align(128))]
struct Shard<N: Node> {
    node: Mutex<N>,
    /// `None`: the runtime has ended, and no calls are run.
    calls: Mutex<Option<VecDeque<Call<N>>>>,
    /// Nanoseconds; [`Instant::FAR`]: none. Written only under the lock of the node.
    deadline: AtomicU64,
}

impl<N: Node> Shards<N> {
    pub(crate) fn new(nodes: Vec<N>, key: ShardKey, inboxes: Inboxes) -> Self {
        let shard = |node: N| Shard {
            deadline: AtomicU64::new(deadline_of(&node).as_nanos()),
            node: Mutex::new(node),
            calls: Mutex::new(Some(VecDeque::new())),
        };
        Self { list: nodes.into_iter().map(shard).collect(), key, inboxes }
    }

    /// Number of shards.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Shard of a message.
    fn of_message(&self, bytes: &[u8]) -> u16 {
        N::shard_of(&self.key, bytes, self.list.len() as u16)
    }

    /// True if there is no shard, which no running runtime has.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Runs `f` on one node while it is locked. Messages of this shard wait meanwhile. `None`: there is no such shard.
    pub fn with_shard<R>(&self, shard: u16, f: impl FnOnce(&mut N) -> R) -> Option<R> {
        self.run(None, shard, f)
    }

    /// Runs `f` on each node, one after another, as [`Shards::with_shard`] does.
    pub fn with_each(&self, mut f: impl FnMut(&mut N)) {
        for shard in 0..self.len() as u16 {
            self.with_shard(shard, &mut f);
        }
    }

    /// Makes the worker of `shard` run `f` on its node, and returns the result. Unlike in [`Shards::with_shard`] the
    /// node can send packets and request actions. `None`: there is no such shard, too many calls are pending, or the
    /// runtime ends before. Must not be called from an [`ActionSink`].
    pub fn call<R: Send + 'static>(
        &self,
        shard: u16,
        f: impl FnOnce(&mut N, &mut Context<'_, N::Action>) -> R + Send + 'static,
    ) -> Option<R> {
        let (answer, answered) = sync_channel(1);
        let call: Call<N> = Box::new(move |node, cx| {
            // It fails only if the caller's thread is gone.
            let _ = answer.send(f(node, cx));
        });
        {
            let mut calls =
                self.list.get(usize::from(shard))?.calls.lock().unwrap_or_else(PoisonError::into_inner);
            let calls = calls.as_mut().filter(|calls| calls.len() < CALLS_MAX)?;
            calls.push_back(call);
        }
        self.inboxes.of(self.inboxes.owner_of(shard))?.nudge();
        answered.recv().ok()
    }

    /// Next pending call for the node of `shard`.
    pub(crate) fn take_call(&self, shard: u16) -> Option<Call<N>> {
        let calls = &self.list.get(usize::from(shard))?.calls;
        calls.lock().unwrap_or_else(PoisonError::into_inner).as_mut()?.pop_front()
    }

    /// Refuses further calls and drops the pending ones, so that their callers return.
    pub(crate) fn end_calls(&self) {
        for shard in self.list.iter() {
            *shard.calls.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// Runs `f` on one node for `worker`, and wakes the owner if its sleep is now too long.
    pub(crate) fn run<R>(&self, worker: Option<usize>, shard: u16, f: impl FnOnce(&mut N) -> R) -> Option<R> {
        let entry = self.list.get(usize::from(shard))?;
        // If a worker panicked, its node's state is still used.
        let mut node = entry.node.lock().unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut node);
        let deadline = deadline_of(&*node);
        if entry.deadline.load(Ordering::Relaxed) != deadline.as_nanos() {
            let owner = self.inboxes.owner_of(shard);
            if worker == Some(owner) {
                entry.deadline.store(deadline.as_nanos(), Ordering::Release);
            } else {
                entry.deadline.store(deadline.as_nanos(), Ordering::SeqCst);
                drop(node);
                if let Some(inbox) = self.inboxes.of(owner) {
                    inbox.wake_before(deadline);
                }
            }
        }
        Some(result)
    }

    /// Shards whose timers `worker` runs.
    pub(crate) fn owned_by(&self, worker: usize) -> impl Iterator<Item = u16> + use<N> {
        let step = self.inboxes.workers().max(1);
        let count = self.list.len();
        (worker..count).step_by(step).filter_map(|shard| u16::try_from(shard).ok())
    }

    /// Next deadline of a shard.
    pub(crate) fn deadline(&self, shard: u16) -> Instant {
        self.list
            .get(usize::from(shard))
            .map_or(Instant::FAR, |shard| Instant::from_nanos(shard.deadline.load(Ordering::SeqCst)))
    }
}

fn deadline_of<N: Node>(node: &N) -> Instant {
    node.next_deadline().map_or(Instant::FAR, |deadline| deadline.at)
}

/// Maximum number of pending calls for one node.
const CALLS_MAX: usize = 1024;

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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use ringway_sansio::{Deadline, Event, Framer, FramingError, Received};

    /// A node that has only a deadline.
    struct Alarm(Option<u64>);

    impl Node for Alarm {
        type Action = ();
        type Framer = Never;

        fn shard_of(_: &ringway_sansio::ShardKey, _bytes: &[u8], _shards: u16) -> u16 {
            0
        }

        fn on_message(&mut self, _: &mut Context<'_, ()>, _: Received<'_>) {}

        fn on_event(&mut self, _: &mut Context<'_, ()>, _: Event) {}

        fn on_timeout(&mut self, _: &mut Context<'_, ()>) {}

        fn next_deadline(&self) -> Option<Deadline> {
            self.0.map(|secs| Deadline { at: Instant::from_secs(secs), reason: "a test" })
        }
    }

    fn key() -> ShardKey {
        ShardKey::new(&ringway_sansio::Seed::from_number(1))
    }

    /// Framer that finds no message.
    pub(crate) struct Never;

    impl Framer for Never {
        fn new(_max_message_bytes: usize) -> Self {
            Self
        }

        fn push(&mut self, _bytes: &[u8]) {}

        fn next_frame(&mut self) -> Result<Option<&[u8]>, FramingError> {
            Ok(None)
        }

        fn pongs(&mut self) -> usize {
            0
        }

        const PONG: &'static [u8] = b"";

        fn is_partial(&self) -> bool {
            false
        }

        fn held_bytes(&self) -> usize {
            0
        }
    }

    #[test]
    fn the_owner_is_woken_if_another_thread_sets_an_earlier_timer() {
        let inboxes = Inboxes::new(2).unwrap();
        let shards = Shards::new((0..4).map(|_| Alarm(None)).collect(), key(), inboxes.clone());
        let owner = inboxes.of(1).unwrap();
        owner.fall_asleep(Instant::from_secs(100));
        for (worker, secs, asleep) in [(Some(0), 200, true), (Some(1), 50, true), (Some(0), 60, false)] {
            shards.run(worker, 3, |node| node.0 = Some(secs));
            assert_eq!((owner.is_asleep(), shards.deadline(3)), (asleep, Instant::from_secs(secs)));
        }
        owner.fall_asleep(Instant::from_secs(100));
        shards.with_shard(3, |node| node.0 = Some(70));
        assert!(!owner.is_asleep(), "threads that are not workers wake it too");
        shards.with_shard(3, |node| node.0 = None);
        assert_eq!(shards.deadline(3), Instant::FAR);
    }

    #[test]
    fn shards_are_owned_once() {
        let shards = Shards::new((0..7).map(|_| Alarm(None)).collect(), key(), Inboxes::new(3).unwrap());
        let owned: Vec<Vec<u16>> = (0..3).map(|worker| shards.owned_by(worker).collect()).collect();
        assert_eq!(owned, [vec![0, 3, 6], vec![1, 4], vec![2, 5]]);
        assert_eq!(shards.with_shard(7, |_| ()), None);
    }

    #[test]
    fn a_token_contains_its_shard() {
        assert_eq!(shard_of_token(Token(0x1234_0000_0000_0001)), 0x1234);
    }
}
