//! Traits of protocol machines: [`Node`], which messages and timers drive, and [`PacedNode`], which sends at a fixed packet
//! interval; the argument of every call into one.

use crate::{Deadline, Event, Flow, IcmpError, Instant, Outbox, Received, Seed};
use alloc::vec::Vec;
use core::time::Duration;

/// Sans-I/O protocol machine: takes messages, events and the current time, and returns packets and requested actions. It
/// performs no I/O and never blocks.
///
/// A driver with several threads owns several nodes ("shards") and passes each message to the node that
/// [`Node::shard_of`] selects. It must not call one node from two threads at once, and must pass messages of one flow in
/// the order of their arrival.
pub trait Node {
    /// Effect other than a packet, for example a DNS lookup.
    type Action;

    /// Framing of this protocol on a byte stream.
    type Framer: Framer;

    /// Index, below `shards`, of the shard that a message belongs to. Must be cheap and must accept any bytes. `key` is
    /// secret, so that a peer cannot choose the shard that it loads.
    fn shard_of(key: &ShardKey, bytes: &[u8], shards: u16) -> u16;

    /// Handles one message: a datagram, or a frame that the [`Framer`] cut from a stream.
    fn on_message(&mut self, cx: &mut Context<'_, Self::Action>, received: Received<'_>);

    /// Handles an event of the transport.
    fn on_event(&mut self, cx: &mut Context<'_, Self::Action>, event: Event);

    /// Index, below `shards`, of the shard that sent the datagram which begins with `quoted`. `None`: an ICMP error with this
    /// quotation has no effect, so that the driver can drop it.
    fn shard_of_quoted(_quoted: &[u8], _shards: u16) -> Option<u16> {
        None
    }

    /// Handles an ICMP error for a datagram of this node.
    fn on_icmp_error(&mut self, _cx: &mut Context<'_, Self::Action>, _error: IcmpError<'_>) {}

    /// Performs everything that is due at the time of the context. An early call has no effect.
    fn on_timeout(&mut self, cx: &mut Context<'_, Self::Action>);

    /// Time of the next necessary call of [`Node::on_timeout`]. `None`: not before the next message or event.
    fn next_deadline(&self) -> Option<Deadline>;
}

/// Secret key of the hash that distributes messages to shards; one for a driver and all its nodes, new at each start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ShardKey([u8; 16]);

impl ShardKey {
    /// Creates the key from a part of the seed that has no other use.
    pub fn new(seed: &Seed) -> Self {
        let mut key = [0; 16];
        key.copy_from_slice(seed.bytes().split_at(16).0);
        Self(key)
    }

    /// Bytes of the key of a hash.
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl core::fmt::Debug for ShardKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("ShardKey(..)")
    }
}

/// Cuts a byte stream into messages, and owns the bytes of an incomplete message.
pub trait Framer {
    /// Creates a framer for a new connection; it holds not much more than `max_message_bytes`.
    fn new(max_message_bytes: usize) -> Self;

    /// Adds received bytes.
    fn push(&mut self, bytes: &[u8]);

    /// Marks the start of a message, if the layer below preserves boundaries (WebSocket, RFC 7118 §5): its end is then
    /// reported by [`Framer::message_end`].
    fn message_start(&mut self) {}

    /// Marks the end of a message, if the layer below preserves boundaries (WebSocket, RFC 7118 §5). A framer that finds
    /// the ends in the bytes ignores it.
    fn message_end(&mut self) {}

    /// Next complete message. `Ok(None)`: more bytes are needed.
    ///
    /// # Errors
    /// The stream cannot be cut into messages any more; the connection must be closed.
    fn next_frame(&mut self) -> Result<Option<&[u8]>, FramingError>;

    /// Number of keep-alives that were received since the last call and need a pong (RFC 5626 §3.5.1: CRLF for a double
    /// CRLF).
    fn pongs(&mut self) -> usize;

    /// Bytes of a pong on the wire.
    const PONG: &'static [u8];

    /// True while a message has begun and is not complete; the driver limits the duration of this state.
    fn is_partial(&self) -> bool;

    /// Memory in use in bytes, unused capacity included.
    fn held_bytes(&self) -> usize;
}

/// Reason why a stream cannot be cut into messages any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FramingError(
    /// Text for a log.
    pub &'static str,
);

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

/// Protocol machine that sends at a fixed packet interval, for example the audio of a call with one packet every 20 ms.
///
/// Each packet is encoded and encrypted one tick (packet interval) ahead, so that nothing but the sending happens at the
/// tick. All other packets (responses, reports, keep-alives) go into an [`Outbox`] as with a [`Node`](crate::Node) and
/// are sent at once. The listener of a [`Flow`] is the index of the port: RTP has 0, RTCP 1.
///
/// A driver runs a machine on one thread, which must not block or allocate. A machine should therefore allocate only in
/// [`PacedNode::on_command`].
pub trait PacedNode {
    /// Command from the program.
    type Command;

    /// Report to the program.
    type Report;

    /// Time between two ticks. A change applies from the next tick on.
    fn packet_interval(&self) -> Duration;

    /// Prepares the packet of the tick at `due`; `now` is right after the previous tick. If the driver was late and
    /// skipped ticks, `due` is later by a multiple of the interval.
    fn prepare(&mut self, now: Instant, due: Instant, out: &mut Outbox);

    /// Handles a datagram of `flow` that arrived at `arrived`, at or before `now`. The bytes may be changed in place.
    fn on_datagram(&mut self, now: Instant, arrived: Instant, flow: Flow, bytes: &mut [u8], out: &mut Outbox);

    /// Executes a command of the program.
    fn on_command(&mut self, now: Instant, command: Self::Command, out: &mut Outbox);

    /// Performs everything that is due at `now` except the tick. An early call has no effect.
    fn on_timeout(&mut self, now: Instant, out: &mut Outbox);

    /// Time of the next necessary call of [`PacedNode::on_timeout`]. `None`: not before another input.
    fn next_deadline(&self) -> Option<Deadline>;

    /// Next report to the program; call it until it returns `None`.
    fn poll_report(&mut self, now: Instant) -> Option<Self::Report>;
}

/// Time of the tick after the one that was `due` and sent at `now`, and the number of ticks skipped in between.
///
/// Packets that are less than five ticks late are still sent, one right after the other; later ones are skipped, because
/// the peer has played on without them. Ticks keep their phase. The interval is at least 1 ms, so that a wrong value does
/// not occupy the processor.
pub fn tick_after(due: Instant, now: Instant, interval: Duration) -> (Instant, u64) {
    let (late, interval) = (now.since(due), interval.max(INTERVAL_MIN));
    if late < interval * SKIP_FROM_TICKS {
        return (due + interval, 0);
    }
    let skipped = late.as_nanos() / interval.as_nanos();
    let skipped = u32::try_from(skipped).unwrap_or(u32::MAX);
    (due + interval * skipped.saturating_add(1), u64::from(skipped))
}

/// Number of late ticks from which on they are skipped.
const SKIP_FROM_TICKS: u32 = 5;

const INTERVAL_MIN: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_late_packets_are_still_sent_and_many_are_skipped() {
        let (due, interval) = (Instant::from_secs(1), Duration::from_millis(20));
        let after = |late_ms| {
            let (next, skipped) = tick_after(due, due + Duration::from_millis(late_ms), interval);
            (next.since(due).as_millis(), skipped)
        };
        assert_eq!([after(0), after(19), after(99)], [(20, 0); 3]);
        assert_eq!([after(100), after(119), after(1000)], [(120, 5), (120, 5), (1020, 50)]);
        assert_eq!(tick_after(due, due, Duration::ZERO), (due + INTERVAL_MIN, 0));
    }
}
