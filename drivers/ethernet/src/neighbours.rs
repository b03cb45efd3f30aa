//! Who is on the link: hardware addresses by IP address, and what waits for one.
//!
//! smoltcp keeps a table of its own for what it sends; that one cannot be asked. This one learns from the same ARP
//! packets.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddrV4};
use core::time::Duration;
use ringway_sansio::{Instant, Token};
use smoltcp::wire::EthernetAddress;

#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    known: BTreeMap<Ipv4Addr, Known>,
    asked: BTreeMap<Ipv4Addr, Asked>,
    waiting: Vec<Waiting>,
    waiting_bytes: usize,
    /// Stations that found no room.
    pub(crate) refused: u64,
    /// Datagrams that found no room to wait in.
    pub(crate) dropped: u64,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    hardware: EthernetAddress,
    heard: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    again_at: Instant,
    tries: u32,
}

/// A datagram whose next hop has no hardware address yet.
#[derive(Debug)]
pub(crate) struct Waiting {
    next_hop: Ipv4Addr,
    pub(crate) from_port: u16,
    pub(crate) to: SocketAddrV4,
    pub(crate) token: Token,
    pub(crate) payload: Vec<u8>,
}

/// What is known of a next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    At(EthernetAddress),
    /// Known, but not heard of for a while: use it, and ask.
    Stale(EthernetAddress),
    Unknown,
}

impl Neighbours {
    /// Looks a station up.
    pub(crate) fn find(&self, now: Instant, address: Ipv4Addr) -> Found {
        match self.known.get(&address) {
            Some(known) if now < known.heard + FRESH => Found::At(known.hardware),
            Some(known) if now < known.heard + KEPT => Found::Stale(known.hardware),
            Some(_) | None => Found::Unknown,
        }
    }

    /// Notes where a station is. What waited for it is given back.
    pub(crate) fn learn(
        &mut self,
        now: Instant,
        address: Ipv4Addr,
        hardware: EthernetAddress,
    ) -> impl Iterator<Item = Waiting> + use<> {
        if self.known.len() >= NEIGHBOURS_MAX && !self.known.contains_key(&address) {
            self.make_room(now);
        }
        if self.known.len() < NEIGHBOURS_MAX || self.known.contains_key(&address) {
            self.known.insert(address, Known { hardware, heard: now });
        } else {
            self.refused += 1;
        }
        self.asked.remove(&address);
        self.take_waiting(address)
    }

    /// Keeps a datagram until its next hop is known. False: there is no room, and it is counted.
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
        self.waiting.push(Waiting { next_hop, from_port, to, token, payload: payload.to_vec() });
        true
    }

    /// True when it is time to ask for a station that was not asked for yet.
    pub(crate) fn begin_asking(&mut self, now: Instant, address: Ipv4Addr) -> bool {
        if self.asked.contains_key(&address) || self.asked.len() >= ASKED_MAX {
            return false;
        }
        self.asked.insert(address, Asked { again_at: now + ASK_EVERY, tries: 1 });
        true
    }

    /// Calls `ask` for those to be asked for again, and gives back what waited for those that never answered.
    pub(crate) fn expire(&mut self, now: Instant, mut ask: impl FnMut(Ipv4Addr)) -> Vec<Waiting> {
        let mut given_up = Vec::new();
        let mut silent = Vec::new();
        for (address, asked) in &mut self.asked {
            if asked.again_at > now {
                continue;
            }
            if asked.tries >= TRIES {
                silent.push(*address);
                continue;
            }
            asked.tries += 1;
            asked.again_at = now + ASK_EVERY;
            ask(*address);
        }
        for address in silent {
            self.asked.remove(&address);
            given_up.extend(self.take_waiting(address));
        }
        given_up
    }

    /// How many stations are known.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Forgets everything: the network is another one now. What waited is given back.
    pub(crate) fn clear(&mut self) -> Vec<Waiting> {
        self.known.clear();
        self.asked.clear();
        self.waiting_bytes = 0;
        core::mem::take(&mut self.waiting)
    }

    fn take_waiting(&mut self, address: Ipv4Addr) -> impl Iterator<Item = Waiting> + use<> {
        let taken: Vec<Waiting> =
            self.waiting.extract_if(.., |waiting| waiting.next_hop == address).collect();
        self.waiting_bytes -= taken.iter().map(|waiting| waiting.payload.len()).sum::<usize>();
        taken.into_iter()
    }

    /// Drops the station that was not heard of for longest, unless all of them were lately.
    fn make_room(&mut self, now: Instant) {
        let oldest = self.known.iter().min_by_key(|(_, known)| known.heard);
        if let Some((address, known)) = oldest.map(|(address, known)| (*address, *known))
            && known.heard + FRESH <= now
        {
            self.known.remove(&address);
        }
    }
}

/// For so long an answer is believed without asking again.
const FRESH: Duration = Duration::from_secs(60);

/// For so long it is used at all.
const KEPT: Duration = Duration::from_secs(300);

/// RFC 1122 §2.3.2.1: at most one ARP request a second for an address.
const ASK_EVERY: Duration = Duration::from_secs(1);

const TRIES: u32 = 3;

/// Stations of the link that are known at once.
pub const NEIGHBOURS_MAX: usize = 1024;

/// Stations asked for at the same time.
const ASKED_MAX: usize = 64;

/// Datagrams that wait for a hardware address.
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
    fn what_waits_goes_to_the_station_that_answers() {
        let mut table = Neighbours::default();
        let to = SocketAddrV4::new(address(9), 5060);
        assert!(table.begin_asking(at(0), address(1)));
        assert!(!table.begin_asking(at(0), address(1)), "asked already");
        assert!(table.wait(address(1), (5060, to), Token(7), b"one"));
        assert!(table.wait(address(2), (5060, to), Token(8), b"two"));
        let sent: Vec<_> =
            table.learn(at(1), address(1), hardware(1)).map(|waiting| waiting.payload).collect();
        assert_eq!(sent, [b"one"]);
        assert_eq!(table.find(at(1), address(1)), Found::At(hardware(1)));
        assert_eq!(table.find(at(70), address(1)), Found::Stale(hardware(1)));
        assert_eq!(table.find(at(400), address(1)), Found::Unknown);
    }

    #[test]
    fn who_never_answers_is_asked_three_times_and_given_up() {
        let mut table = Neighbours::default();
        let to = SocketAddrV4::new(address(9), 5060);
        table.begin_asking(at(0), address(1));
        table.wait(address(1), (5060, to), Token(7), b"one");
        let mut asked = 0;
        let mut given_up = Vec::new();
        for second in 0..10 {
            given_up
                .extend(table.expire(at(second), |_| asked += 1).into_iter().map(|waiting| waiting.token));
        }
        assert_eq!((asked, given_up), (2, alloc::vec![Token(7)]));
        assert_eq!((table.asked.len(), table.waiting_bytes), (0, 0));
    }

    #[test]
    fn a_flood_of_stations_neither_grows_it_nor_pushes_out_who_spoke_lately() {
        let mut table = Neighbours::default();
        for number in 0..5000 {
            assert_eq!(table.learn(at(0), address(number), hardware(1)).count(), 0);
        }
        assert_eq!((table.len(), table.refused), (NEIGHBOURS_MAX, 5000 - NEIGHBOURS_MAX as u64));
        assert_eq!(table.find(at(1), address(3)), Found::At(hardware(1)));
        assert_eq!(table.learn(at(61), address(7000), hardware(2)).count(), 0);
        assert_eq!(table.find(at(61), address(7000)), Found::At(hardware(2)));
    }

    #[test]
    fn only_so_much_waits() {
        let mut table = Neighbours::default();
        let to = SocketAddrV4::new(address(9), 5060);
        let kept = (0..100).filter(|_| table.wait(address(1), (5060, to), Token::NONE, b"x")).count();
        assert_eq!((kept, table.dropped), (WAITING_MAX, 36));
        assert_eq!(table.clear().len(), WAITING_MAX);
        let kept = (0..10).filter(|_| table.wait(address(1), (5060, to), Token::NONE, &[0; 60_000])).count();
        assert_eq!(kept, 4);
    }
}
