//! Node wrapper that counts requests and responses.

use ringway_sansio::{Context, Deadline, Event, IcmpError, Node, Outbox, Received};

/// Wraps a node and counts its requests and responses.
#[derive(Debug)]
pub struct CountedNode<N> {
    node: N,
    traffic: Traffic,
}

/// Requests and responses since the start, including retransmissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests received.
    pub requests: u64,
    /// REGISTER requests among them.
    pub registers: u64,
    /// Responses sent, by the first digit of their status; index 0 is not used.
    pub responses: [u64; 7],
}

impl<N> CountedNode<N> {
    /// Wraps a node.
    pub const fn new(node: N) -> Self {
        Self { node, traffic: Traffic { requests: 0, registers: 0, responses: [0; 7] } }
    }

    /// Counters since the start.
    pub const fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// The node.
    pub const fn inner(&self) -> &N {
        &self.node
    }

    /// The node, to change its settings.
    pub const fn inner_mut(&mut self) -> &mut N {
        &mut self.node
    }

    fn note_sent(&mut self, out: &Outbox, before: usize) {
        for (_, bytes) in out.packets().skip(before) {
            let status = bytes.strip_prefix(b"SIP/2.0 ").and_then(|rest| rest.first());
            let class = status.map(|digit| usize::from(digit.wrapping_sub(b'0')));
            if let Some(count) = class.and_then(|class| self.traffic.responses.get_mut(class)) {
                *count += 1;
            }
        }
    }
}

impl<N: Node> Node for CountedNode<N> {
    type Action = N::Action;
    type Framer = N::Framer;

    fn shard_of(key: &ringway_sansio::ShardKey, bytes: &[u8], shards: u16) -> u16 {
        N::shard_of(key, bytes, shards)
    }

    fn on_message(&mut self, cx: &mut Context<'_, N::Action>, received: Received<'_>) {
        if !received.bytes.starts_with(b"SIP/") {
            self.traffic.requests += 1;
            self.traffic.registers += u64::from(received.bytes.starts_with(b"REGISTER "));
        }
        let before = cx.out.len();
        self.node.on_message(cx, received);
        self.note_sent(cx.out, before);
    }

    fn on_event(&mut self, cx: &mut Context<'_, N::Action>, event: Event) {
        let before = cx.out.len();
        self.node.on_event(cx, event);
        self.note_sent(cx.out, before);
    }

    fn shard_of_quoted(quoted: &[u8], shards: u16) -> Option<u16> {
        N::shard_of_quoted(quoted, shards)
    }

    fn on_icmp_error(&mut self, cx: &mut Context<'_, N::Action>, error: IcmpError<'_>) {
        let before = cx.out.len();
        self.node.on_icmp_error(cx, error);
        self.note_sent(cx.out, before);
    }

    fn on_timeout(&mut self, cx: &mut Context<'_, N::Action>) {
        let before = cx.out.len();
        self.node.on_timeout(cx);
        self.note_sent(cx.out, before);
    }

    fn next_deadline(&self) -> Option<Deadline> {
        self.node.next_deadline()
    }
}
