//! The outbox: packets that a protocol machine requests to be sent.

use crate::{ConnectionId, Flow, Instant, Token};
use alloc::vec::Vec;
use core::ops::Range;

/// Sender who caused a packet, by a keyed hash. A driver limits the connections that it dials at once for each; [`Dialler::OWN`]: the
/// program's own configuration caused it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dialler(pub u32);

impl Dialler {
    /// No peer.
    pub const OWN: Self = Self(0);
}

/// One message to send: its flow and its range in the arena.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Flow that it is sent on.
    pub flow: Flow,
    /// Number of the report if it cannot be sent.
    pub token: Token,
    /// 0: it confirms no stored data; otherwise the number of the change that it confirms, plus 1.
    confirms: u64,
    /// Sender who caused it.
    dialler: Dialler,
    start: u32,
    end: u32,
}

impl Packet {
    /// True if the packet confirms data whose storing was requested in the same call: a driver with strict durability holds it back
    /// until the data is stored.
    pub const fn is_after_store(&self) -> bool {
        self.confirms != 0
    }

    /// Number of the change that it confirms (see [`Outbox::hold_last`]); 0: none with a number.
    pub const fn change(&self) -> u64 {
        self.confirms.saturating_sub(1)
    }

    /// Sender who caused it (see [`Outbox::charge_last`]).
    pub const fn dialler(&self) -> Dialler {
        self.dialler
    }
}

/// Packets to send, in order, one behind the other in a single arena.
///
/// The driver empties it; the machine only appends. No packet allocates once the arena has grown to the size of a
/// batch.
///
/// ```
/// use ringway_sansio::{Flow, ListenerId, Outbox, Token};
///
/// let peer = "192.0.2.7:5060".parse().expect("an address");
/// let mut out = Outbox::new();
/// out.send(Flow::udp(ListenerId(0), peer), Token::NONE, b"OPTIONS");
/// let sent: Vec<_> = out.packets().map(|(packet, bytes)| (packet.flow.remote, bytes)).collect();
/// assert_eq!(sent, [(peer, &b"OPTIONS"[..])]);
/// ```
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    packets: Vec<Packet>,
    kept: Vec<(ConnectionId, Instant)>,
    disconnected: Vec<Flow>,
    given_up: Vec<(Flow, Token)>,
}

impl Outbox {
    /// An empty outbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty outbox with capacity for `packets` packets of `bytes` bytes in all.
    pub fn with_capacity(packets: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), packets: Vec::with_capacity(packets), ..Self::default() }
    }

    /// Adds a packet to `flow`, written by `write` at the end of the arena. A `write` that writes nothing sends
    /// nothing.
    pub fn send_with(&mut self, flow: Flow, token: Token, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        debug_assert!(self.bytes.len() >= start, "an outbox writer only appends");
        let (Ok(start), Ok(end)) = (u32::try_from(start), u32::try_from(self.bytes.len())) else {
            self.bytes.truncate(start);
            return;
        };
        if end > start {
            self.packets.push(Packet { flow, token, confirms: 0, dialler: Dialler::OWN, start, end });
        }
    }

    /// Adds a packet with a copy of `bytes`.
    pub fn send(&mut self, flow: Flow, token: Token, bytes: &[u8]) {
        self.send_with(flow, token, |arena| arena.extend_from_slice(bytes));
    }

    /// Removes the last packet.
    pub fn drop_last(&mut self) {
        if let Some(packet) = self.packets.pop() {
            self.bytes.truncate(packet.start as usize);
        }
    }

    /// Marks the last packet as one that confirms data being stored (see [`Packet::is_after_store`]). A store that can refuse a
    /// single change has a number for it, which is not 0.
    pub fn hold_last(&mut self, change: u64) {
        if let Some(packet) = self.packets.last_mut() {
            packet.confirms = change.saturating_add(1);
        }
    }

    /// Charges the connection that the last packet may need to the sender who caused the packet.
    pub fn charge_last(&mut self, dialler: Dialler) {
        if let Some(packet) = self.packets.last_mut() {
            packet.dialler = dialler;
        }
    }

    /// Marks the stream connection of `flow`, if it has one, as in use until `until`: the driver does not close it as
    /// idle before.
    pub fn keep(&mut self, flow: &Flow, until: Instant) {
        if let Some(connection) = flow.connection {
            self.kept.push((connection, until));
        }
    }

    /// The connections in use, each with the end of its use.
    pub fn kept(&self) -> &[(ConnectionId, Instant)] {
        &self.kept
    }

    /// Requests that the connection of `flow` be closed; of a flow without one, the connection that was dialled for it, if
    /// there is one. The driver closes it after it sent the packets of this outbox.
    pub fn disconnect(&mut self, flow: Flow) {
        self.disconnected.push(flow);
    }

    /// The flows whose connections must be closed.
    pub fn disconnected(&self) -> &[Flow] {
        &self.disconnected
    }

    /// Requests that the packet with `token` not wait any longer for the connection that is being dialled for `flow`: it is reported as
    /// [unreachable](crate::Event::Unreachable). A connection that no other packet waits for is given up; one that is established stays.
    pub fn give_up_dial(&mut self, flow: Flow, token: Token) {
        self.given_up.push((flow, token));
    }

    /// The packets that wait for no connection any longer, with their flows.
    pub fn given_up(&self) -> &[(Flow, Token)] {
        &self.given_up
    }

    /// Replaces parts of the packets from number `first` on: `change` returns the part of a packet's bytes and what it is replaced by.
    pub fn rewrite(
        &mut self,
        first: usize,
        mut change: impl FnMut(&Packet, &[u8]) -> Option<(Range<usize>, Vec<u8>)>,
    ) {
        for packet in self.packets.iter_mut().skip(first) {
            let of = packet.start as usize..packet.end as usize;
            let Some((part, text)) = change(packet, self.bytes.get(of.clone()).unwrap_or_default()) else {
                continue;
            };
            let (from, to) = (of.start + part.start, of.start + part.end);
            let start = self.bytes.len();
            let (Ok(new_start), Ok(new_end)) =
                (u32::try_from(start), u32::try_from(start + of.len() + text.len()))
            else {
                continue;
            };
            if from > to || to > of.end {
                continue;
            }
            self.bytes.extend_from_within(of.start..from);
            self.bytes.extend_from_slice(&text);
            self.bytes.extend_from_within(to..of.end);
            (packet.start, packet.end) = (new_start, new_end - (to - from) as u32);
        }
    }

    /// The packets in the order they were added, each with its bytes.
    pub fn packets(&self) -> impl ExactSizeIterator<Item = (&Packet, &[u8])> {
        self.packets.iter().map(|packet| (packet, self.bytes_of(packet)))
    }

    /// Number of waiting packets.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Bytes of the waiting packets.
    pub fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// True when nothing waits.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The bytes of one of this outbox's packets.
    pub fn bytes_of(&self, packet: &Packet) -> &[u8] {
        self.bytes.get(packet.start as usize..packet.end as usize).unwrap_or_default()
    }

    /// The bytes of the last packet added, empty if there is none.
    pub fn last_bytes(&self) -> &[u8] {
        self.packets.last().map(|packet| self.bytes_of(packet)).unwrap_or_default()
    }

    /// Removes all packets and connections in use; keeps the capacity.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.disconnected.clear();
        self.given_up.clear();
        self.bytes.clear();
        self.packets.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ListenerId;

    #[test]
    fn packets_keep_their_order_and_bytes() {
        let flow = Flow::udp(ListenerId(0), "127.0.0.1:5060".parse().unwrap());
        let mut out = Outbox::new();
        out.send(flow, Token::NONE, b"one");
        out.send_with(flow, Token(9), |arena| arena.extend_from_slice(b"three"));
        out.send_with(flow, Token::NONE, |_| {});
        let seen: Vec<_> = out.packets().map(|(packet, bytes)| (packet.token.0, bytes)).collect();
        assert_eq!(seen, [(0, &b"one"[..]), (9, &b"three"[..])]);
        assert_eq!(out.last_bytes(), b"three");
        out.send(flow, Token::NONE, b"four");
        out.drop_last();
        assert_eq!(out.last_bytes(), b"three");
        out.clear();
        assert!(out.is_empty() && out.last_bytes().is_empty());
    }

    #[test]
    fn parts_of_packets_are_replaced() {
        let flow = Flow::udp(ListenerId(0), "127.0.0.1:5060".parse().unwrap());
        let mut out = Outbox::new();
        for text in [b"first", b"abcde", b"other"] {
            out.send(flow, Token::NONE, text);
        }
        out.rewrite(1, |_, bytes| {
            let part = memchr(b'c', bytes)?;
            Some((part..part + 2, b"1234".to_vec()))
        });
        out.rewrite(0, |_, bytes| (bytes == b"first").then(|| (5..5, b"!".to_vec())));
        // A part that is outside the packet changes nothing.
        out.rewrite(2, |_, _| Some((3..9, Vec::new())));
        let seen: Vec<_> = out.packets().map(|(_, bytes)| bytes).collect();
        assert_eq!(seen, [&b"first!"[..], b"ab1234e", b"other"]);
    }

    fn memchr(byte: u8, bytes: &[u8]) -> Option<usize> {
        bytes.iter().position(|other| *other == byte)
    }
}
