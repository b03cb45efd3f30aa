//! Packets that confirm stored data and are held until the data is durable.

use ringway_sansio::{Flow, Instant, Outbox, Packet, TableSize, Token};
use std::collections::VecDeque;
use std::time::Duration;

/// Treatment of packets that a node marked with [`Outbox::hold_last`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MarkedPackets {
    /// They are sent at once.
    #[default]
    SendAtOnce,
    /// They are held until [`ActionSink::stored_through`](crate::ActionSink::stored_through) reaches their number.
    HoldUntilStored,
}

/// Held packets of a worker, in the order in which they were written.
#[derive(Debug, Default)]
pub(crate) struct Held {
    entries: VecDeque<Entry>,
    /// Bytes of the entries in order, preceded by `free` bytes of released packets.
    bytes: Vec<u8>,
    free: usize,
}

#[derive(Debug)]
struct Entry {
    through: u64,
    since: Instant,
    flow: Flow,
    token: Token,
    change: u64,
    len: usize,
}

impl Held {
    /// Memory of the packets of a worker; room of those that were released is used again when it is half of all.
    pub(crate) const fn size() -> TableSize {
        TableSize::of_list("responses that wait for the disk", PACKETS_MAX, size_of::<Entry>())
            .with_list(BYTES_MAX, 2)
    }

    /// Holds a packet until the store has reached `through`. False: the limit is reached and the packet is dropped; the
    /// peer retransmits its request.
    pub(crate) fn keep(&mut self, through: u64, now: Instant, packet: &Packet, bytes: &[u8]) -> bool {
        if self.entries.len() >= PACKETS_MAX || self.bytes.len() - self.free + bytes.len() > BYTES_MAX {
            return false;
        }
        self.bytes.extend_from_slice(bytes);
        let (flow, token, change) = (packet.flow, packet.token, packet.change());
        self.entries.push_back(Entry { through, since: now, flow, token, change, len: bytes.len() });
        true
    }

    /// Moves packets whose data is stored into `out`, and for one whose change is refused what `refusal` makes of it; returns the
    /// number of packets dropped because they were held too long.
    pub(crate) fn release(
        &mut self,
        stored_through: u64,
        now: Instant,
        refusal: impl Fn(u64, &[u8]) -> Option<Vec<u8>>,
        out: &mut Outbox,
    ) -> u64 {
        let mut dropped = 0;
        while let Some(entry) = self.entries.front() {
            let end = self.free + entry.len;
            let bytes = self.bytes.get(self.free..end).unwrap_or_default();
            let refused = if entry.change == 0 { None } else { refusal(entry.change, bytes) };
            if let Some(refused) = refused {
                out.send(entry.flow, entry.token, &refused);
            } else if entry.through <= stored_through {
                out.send(entry.flow, entry.token, bytes);
            } else if now.since(entry.since) > HELD_MAX {
                dropped += 1;
            } else {
                break;
            }
            self.free = end;
            self.entries.pop_front();
        }
        if self.entries.is_empty() {
            self.bytes.clear();
            self.free = 0;
        } else if self.free > COMPACT_BYTES && self.free > self.bytes.len() / 2 {
            self.bytes.drain(..self.free);
            self.free = 0;
        }
        dropped
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Maximum number of packets that one worker holds.
const PACKETS_MAX: usize = 65_536;

/// Maximum number of bytes that one worker holds.
const BYTES_MAX: usize = 64 << 20;

/// Maximum time for which a packet is held: after 64 × T1 client transactions time out (RFC 3261 §17.1.2.2, timer F).
const HELD_MAX: Duration = Duration::from_secs(32);

const COMPACT_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::ListenerId;

    fn flow() -> Flow {
        Flow::udp(ListenerId(0), "127.0.0.1:5060".parse().unwrap())
    }

    /// A packet that confirms a change.
    fn packet(change: u64) -> Packet {
        let mut out = Outbox::new();
        out.send(flow(), Token::NONE, b"x");
        out.hold_last(change);
        *out.packets().next().unwrap().0
    }

    fn none(_: u64, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn texts(out: &Outbox) -> Vec<String> {
        out.packets().map(|(_, bytes)| String::from_utf8(bytes.to_vec()).unwrap()).collect()
    }

    #[test]
    fn packets_are_released_when_the_store_has_reached_them() {
        let (mut held, mut out, now) = (Held::default(), Outbox::new(), Instant::from_secs(1));
        for (through, text) in [(1, "a"), (1, "bb"), (3, "ccc")] {
            assert!(held.keep(through, now, &packet(0), text.as_bytes()));
        }
        assert_eq!(held.release(0, now, none, &mut out), 0);
        assert!(out.is_empty());
        held.release(2, now, none, &mut out);
        assert_eq!(texts(&out), ["a", "bb"]);
        out.clear();
        held.release(3, now, none, &mut out);
        assert_eq!(texts(&out), ["ccc"]);
        assert!(held.is_empty());
    }

    #[test]
    fn what_confirms_a_refused_change_is_replaced_and_the_others_go_on() {
        let (mut held, mut out, now) = (Held::default(), Outbox::new(), Instant::from_secs(1));
        for (through, change, text) in [(4, 0, "a"), (5, 11, "b"), (6, 12, "c"), (7, 13, "d")] {
            assert!(held.keep(through, now, &packet(change), text.as_bytes()));
        }
        let refusal = |change: u64, bytes: &[u8]| (change == 12).then(|| [b"no ", bytes].concat());
        assert_eq!(held.release(3, now, refusal, &mut out), 0);
        assert!(out.is_empty(), "they go in order");
        held.release(5, now, refusal, &mut out);
        assert_eq!(texts(&out), ["a", "b", "no c"]);
        held.release(7, now, refusal, &mut out);
        assert_eq!(texts(&out), ["a", "b", "no c", "d"]);
    }

    #[test]
    fn held_packets_are_dropped_after_the_time_limit() {
        let (mut held, mut out) = (Held::default(), Outbox::new());
        held.keep(9, Instant::from_secs(1), &packet(0), b"late");
        assert_eq!(held.release(0, Instant::from_secs(33), none, &mut out), 0);
        assert_eq!(held.release(0, Instant::from_secs(34), none, &mut out), 1);
        assert!(held.is_empty() && out.is_empty());
    }

    #[test]
    fn held_packets_are_limited_and_the_arena_is_compacted() {
        let (mut held, mut out, now) = (Held::default(), Outbox::new(), Instant::from_secs(1));
        let kilobyte = [b'x'; 1024];
        let kept = (0..PACKETS_MAX + 10).filter(|_| held.keep(1, now, &packet(0), &kilobyte)).count();
        assert_eq!(kept, PACKETS_MAX);
        held.release(1, now, none, &mut out);
        for round in 2..5_000 {
            held.keep(round, now, &packet(0), &kilobyte);
            held.keep(round + 1, now, &packet(0), &kilobyte);
            held.release(round, now, none, &mut out);
            out.clear();
        }
        assert!(held.bytes.len() < 4 << 20, "{}", held.bytes.len());
    }
}
