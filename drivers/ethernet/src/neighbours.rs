//! Table of neighbours: MAC addresses by IP address, and packets that wait for ARP.
//!
//! smoltcp's own table cannot be queried. This one is filled from the same ARP packets.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddrV4};
use core::time::Duration;
use ringway_sansio::{Instant, Token};
use smoltcp::wire::EthernetAddress;

#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    entries: BTreeMap<Ipv4Addr, Neighbour>,
    pending: BTreeMap<Ipv4Addr, PendingRequest>,
    waiting: Vec<QueuedDatagram>,
    waiting_bytes: usize,
    /// Stations not stored because the table was full.
    pub(crate) refused: u64,
    /// Datagrams not queued because the queue was full.
    pub(crate) dropped: u64,
}

#[derive(Clone, Copy, Debug)]
struct Neighbour {
    hardware: EthernetAddress,
    seen_at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    again_at: Instant,
    tries: u32,
}

/// A datagram whose next hop has no hardware address yet.
#[derive(Debug)]
pub(crate) struct QueuedDatagram {
    next_hop: Ipv4Addr,
    pub(crate) from_port: u16,
    pub(crate) to: SocketAddrV4,
    pub(crate) token: Token,
    pub(crate) payload: Vec<u8>,
}

/// Result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NeighbourState {
    At(EthernetAddress),
    /// Older than [`FRESH_FOR`]: usable, but a new ARP request is due.
    Stale(EthernetAddress),
    Unknown,
}

impl Neighbours {
    /// Looks up the MAC address of a station.
    pub(crate) fn find(&self, now: Instant, address: Ipv4Addr) -> NeighbourState {
        match self.entries.get(&address) {
            Some(known) if now < known.seen_at + FRESH_FOR => NeighbourState::At(known.hardware),
            Some(known) if now < known.seen_at + KEPT_FOR => NeighbourState::Stale(known.hardware),
            Some(_) | None => NeighbourState::Unknown,
        }
    }

    /// Stores the MAC address of a station. Returns the datagrams that waited for it.
    pub(crate) fn learn(
        &mut self,
        now: Instant,
        address: Ipv4Addr,
        hardware: EthernetAddress,
    ) -> impl Iterator<Item = QueuedDatagram> + use<> {
        if self.entries.len() >= NEIGHBOURS_MAX && !self.entries.contains_key(&address) {
            self.make_room(now);
        }
        if self.entries.len() < NEIGHBOURS_MAX || self.entries.contains_key(&address) {
            self.entries.insert(address, Neighbour { hardware, seen_at: now });
        } else {
            self.refused += 1;
        }
        self.pending.remove(&address);
        self.take_waiting(address)
    }

    /// Queues a datagram until its next hop is resolved. False: the queue is full; the datagram is counted as dropped.
    pub(crate) fn wait(
        &mut self,
        next_hop: Ipv4Addr,
        (from_port, to): (u16, SocketAddrV4),
        token: Token,
        payload: &[u8],
    ) -> bool {
        let is_full =
            self.waiting.len() >= WAITING_MAX || self.waiting_bytes + payload.len() > WAITING_BYTES_MAX;
        if is_full {
            self.dropped += 1;
            return false;
        }
        self.waiting_bytes += payload.len();
        self.waiting.push(QueuedDatagram { next_hop, from_port, to, token, payload: payload.to_vec() });
        true
    }

    /// True if an ARP request is due because none is pending for this address.
    pub(crate) fn begin_request(&mut self, now: Instant, address: Ipv4Addr) -> bool {
        if self.pending.contains_key(&address) || self.pending.len() >= REQUESTS_MAX {
            return false;
        }
        self.pending.insert(address, PendingRequest { again_at: now + REQUEST_INTERVAL, tries: 1 });
        true
    }

    /// Calls `request` for each address whose request is to be repeated; returns the datagrams of those that never
    /// replied.
    pub(crate) fn expire(&mut self, now: Instant, mut request: impl FnMut(Ipv4Addr)) -> Vec<QueuedDatagram> {
        let mut given_up = Vec::new();
        let mut silent = Vec::new();
        for (address, asked) in &mut self.pending {
            if asked.again_at > now {
                continue;
            }
            if asked.tries >= TRIES {
                silent.push(*address);
                continue;
            }
            asked.tries += 1;
            asked.again_at = now + REQUEST_INTERVAL;
            request(*address);
        }
        for address in silent {
            self.pending.remove(&address);
            given_up.extend(self.take_waiting(address));
        }
        given_up
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Removes all entries, for a change of network. Returns the queued datagrams.
    pub(crate) fn clear(&mut self) -> Vec<QueuedDatagram> {
        self.entries.clear();
        self.pending.clear();
        self.waiting_bytes = 0;
        core::mem::take(&mut self.waiting)
    }

    fn take_waiting(&mut self, address: Ipv4Addr) -> impl Iterator<Item = QueuedDatagram> + use<> {
        let taken: Vec<QueuedDatagram> =
            self.waiting.extract_if(.., |waiting| waiting.next_hop == address).collect();
        self.waiting_bytes -= taken.iter().map(|waiting| waiting.payload.len()).sum::<usize>();
        taken.into_iter()
    }

    /// Removes the oldest station, unless all of them are fresh.
    fn make_room(&mut self, now: Instant) {
        let oldest = self.entries.iter().min_by_key(|(_, entries)| entries.seen_at);
        if let Some((address, known)) = oldest.map(|(address, known)| (*address, *known))
            && known.seen_at + FRESH_FOR <= now
        {
            self.entries.remove(&address);
        }
    }
}

/// Age up to which an entry is used without a new request.
const FRESH_FOR: Duration = Duration::from_secs(60);

/// Age up to which an entry is used at all.
const KEPT_FOR: Duration = Duration::from_secs(300);

/// RFC 1122 §2.3.2.1: at most one ARP request a second for an address.
const REQUEST_INTERVAL: Duration = Duration::from_secs(1);

const TRIES: u32 = 3;

/// Maximum number of stations in the table.
pub const NEIGHBOURS_MAX: usize = 1024;

/// Maximum number of pending ARP requests.
const REQUESTS_MAX: usize = 64;

/// Maximum number of datagrams that wait for ARP.
const WAITING_MAX: usize = 64;

const WAITING_BYTES_MAX: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn hardware(number: u8) -> EthernetAddress {
        EthernetAddress([2, 0, 0, 0, 0, number])
    }

    fn address(number: u32) -> Ipv4Addr {
        Ipv4Addr::from(0x0a00_0000 + number)
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_secs(1000 + seconds)
    }

    #[test]
    fn queued_datagrams_go_to_the_station_that_replies() {
        let mut table = Neighbours::default();
        let to = SocketAddrV4::new(address(9), 5060);
        assert!(table.begin_request(at(0), address(1)));
        assert!(!table.begin_request(at(0), address(1)), "a request is pending");
        assert!(table.wait(address(1), (5060, to), Token(7), b"one"));
        assert!(table.wait(address(2), (5060, to), Token(8), b"two"));
        let sent: Vec<_> =
            table.learn(at(1), address(1), hardware(1)).map(|waiting| waiting.payload).collect();
        assert_eq!(sent, [b"one"]);
        assert_eq!(table.find(at(1), address(1)), NeighbourState::At(hardware(1)));
        assert_eq!(table.find(at(70), address(1)), NeighbourState::Stale(hardware(1)));
        assert_eq!(table.find(at(400), address(1)), NeighbourState::Unknown);
    }

    #[test]
    fn an_address_without_a_reply_fails_after_three_requests() {
        let mut table = Neighbours::default();
        let to = SocketAddrV4::new(address(9), 5060);
        table.begin_request(at(0), address(1));
        table.wait(address(1), (5060, to), Token(7), b"one");
        let mut asked = 0;
        let mut given_up = Vec::new();
        for second in 0..10 {
            given_up
                .extend(table.expire(at(second), |_| asked += 1).into_iter().map(|waiting| waiting.token));
        }
        assert_eq!((asked, given_up), (2, alloc::vec![Token(7)]));
        assert_eq!((table.pending.len(), table.waiting_bytes), (0, 0));
    }

    #[test]
    fn a_flood_of_stations_is_limited_and_keeps_recent_entries() {
        let mut table = Neighbours::default();
        for number in 0..5000 {
            assert_eq!(table.learn(at(0), address(number), hardware(1)).count(), 0);
        }
        assert_eq!((table.len(), table.refused), (NEIGHBOURS_MAX, 5000 - NEIGHBOURS_MAX as u64));
        assert_eq!(table.find(at(1), address(3)), NeighbourState::At(hardware(1)));
        assert_eq!(table.learn(at(61), address(7000), hardware(2)).count(), 0);
        assert_eq!(table.find(at(61), address(7000)), NeighbourState::At(hardware(2)));
    }

    #[test]
    fn the_queue_is_limited_in_number_and_bytes() {
        let mut table = Neighbours::default();
        let to = SocketAddrV4::new(address(9), 5060);
        let kept = (0..100).filter(|_| table.wait(address(1), (5060, to), Token::NONE, b"x")).count();
        assert_eq!((kept, table.dropped), (WAITING_MAX, 36));
        assert_eq!(table.clear().len(), WAITING_MAX);
        let kept = (0..10).filter(|_| table.wait(address(1), (5060, to), Token::NONE, &[0; 60_000])).count();
        assert_eq!(kept, 4);
    }
}
