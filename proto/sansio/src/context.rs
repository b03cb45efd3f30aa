//! Argument of every call into a protocol machine.

use crate::{Instant, Outbox};
use alloc::vec::Vec;

/// Current time of a call into a [`Node`](crate::Node), and the buffers that the call adds its effects to.
///
/// The driver owns the buffers, empties them between calls, and keeps their capacity, so that a call allocates nothing
/// for a message. `'a` is the duration of one call; `A` is the [`Node::Action`](crate::Node::Action). The fields are
/// public so that a caller can borrow them separately.
#[derive(Debug)]
pub struct Context<'a, A> {
    /// Current time, in nanoseconds since the epoch; the same for the whole call.
    pub now: Instant,
    /// Packets to send, in order.
    pub out: &'a mut Outbox,
    /// Requested actions, in order.
    pub actions: &'a mut Vec<A>,
}

impl<'a, A> Context<'a, A> {
    /// Creates the context of one call at `now`. New effects are appended to the buffers.
    pub const fn new(now: Instant, out: &'a mut Outbox, actions: &'a mut Vec<A>) -> Self {
        Self { now, out, actions }
    }

    /// Requests an action.
    pub fn emit(&mut self, action: impl Into<A>) {
        self.actions.push(action.into());
    }
}
