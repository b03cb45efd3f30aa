//! NATs: two between a phone and a peer, with a STUN server for each; and a simple one.
//!
//! ```text
//!   peer ──► a port at 127.0.0.1 that represents the phone ──► the next port at 127.0.0.2 ──► phone, if it has sent there
//! ```
//! The peer's NAT maps each pair of a port of the peer and a destination to the next port of a row, and
//! accepts packets only from that destination (RFC 4787: address-dependent mapping and filtering). The port
//! that the STUN server reports is therefore not usable for RTP. The phone's NAT maps each port independently
//! of the destination, and accepts packets only from addresses to which the phone has sent.
//!
//! A simple NAT: packets of a phone are sent from ports of another address, and answers to these reach the phone.
//!
//! ```text
//!   phone ◄──► a port at 127.0.0.1 for each host outside ◄──► two ports at 127.0.0.2 ◄──► hosts outside
//! ```
//! It has endpoint-independent mapping and filtering (RFC 4787): each port of the phone is mapped to the same
//! port for all destinations, and open for all. The two outer ports are not adjacent. A real NAT would not
//! change the other side's address; here the phone sees a port at 127.0.0.1 instead.

use anyhow::{Context, Result};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// NATs and STUN servers, which run until this value is dropped.
pub(crate) struct CountingNat {
    /// STUN server of the peer.
    pub(crate) peer_stun: SocketAddr,
    /// STUN server of the phone.
    pub(crate) phone_stun: SocketAddr,
    named: Arc<Mutex<Option<SocketAddr>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A port of the row, towards the phone.
struct Outer {
    socket: UdpSocket,
    mapping: Option<Mapping>,
    /// The phone has sent to it.
    is_open: bool,
}

/// A port of the peer and a destination.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mapping {
    peer: SocketAddr,
    towards: Towards,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Towards {
    Stun,
    /// Index of the phone's port.
    Phone(usize),
}

struct Nats {
    peer_stun: UdpSocket,
    phone_stun: UdpSocket,
    /// Represent the phone's ports to the peer.
    stands: [UdpSocket; 2],
    /// Ports of the phone, in the order of their requests.
    phone: [Option<SocketAddr>; 2],
    row: Vec<Outer>,
    named: Arc<Mutex<Option<SocketAddr>>>,
}

impl CountingNat {
    pub(crate) fn start() -> Result<Self> {
        let named = Arc::new(Mutex::new(None));
        let mut nats = Nats {
            peer_stun: bind(Ipv4Addr::LOCALHOST, 0)?,
            phone_stun: bind(Ipv4Addr::LOCALHOST, 0)?,
            stands: [bind(Ipv4Addr::LOCALHOST, 0)?, bind(Ipv4Addr::LOCALHOST, 0)?],
            phone: [None; 2],
            row: row()?,
            named: Arc::clone(&named),
        };
        let (peer_stun, phone_stun) = (nats.peer_stun.local_addr()?, nats.phone_stun.local_addr()?);
        let is_over = Arc::new(AtomicBool::new(false));
        let is_reported = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            while !is_reported.load(Ordering::Relaxed) {
                nats.pass();
                std::thread::sleep(LOOK_EVERY);
            }
        });
        Ok(Self { peer_stun, phone_stun, named, is_over, thread: Some(thread) })
    }

    /// First port of the row, as the peer's STUN server reports it.
    pub(crate) fn named_by_peer(&self) -> Option<SocketAddr> {
        *self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CountingNat {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // An error of the thread does not matter, because the scenario is over.
            let _ = thread.join();
        }
    }
}

impl Nats {
    /// Forwards the received datagrams. A failed send is a lost datagram.
    fn pass(&mut self) {
        let mut room = [0; 2048];
        while let Ok((length, peer)) = self.peer_stun.recv_from(&mut room) {
            let Some(place) = self.mapped(Mapping { peer, towards: Towards::Stun }) else { continue };
            let Ok(seen) = self.row[place].socket.local_addr() else { continue };
            self.named.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(seen);
            let _ = self.peer_stun.send_to(&stun_answer(&room[..length], seen), peer);
        }
        while let Ok((length, phone)) = self.phone_stun.recv_from(&mut room) {
            let known = self.phone.iter().position(|known| *known == Some(phone));
            let free = || self.phone.iter().position(Option::is_none);
            let Some(place) = known.or_else(free) else { continue };
            self.phone[place] = Some(phone);
            let Ok(seen) = self.stands[place].local_addr() else { continue };
            let _ = self.phone_stun.send_to(&stun_answer(&room[..length], seen), phone);
        }
        for stand in 0..self.stands.len() {
            while let Ok((length, peer)) = self.stands[stand].recv_from(&mut room) {
                let place = self.mapped(Mapping { peer, towards: Towards::Phone(stand) });
                if let (Some(place), Some(phone)) = (place, self.phone[stand])
                    && self.row[place].is_open
                {
                    let _ = self.row[place].socket.send_to(&room[..length], phone);
                }
            }
        }
        for outer in &mut self.row {
            while let Ok((length, from)) = outer.socket.recv_from(&mut room) {
                outer.is_open = true;
                if let Some(Mapping { peer, towards: Towards::Phone(stand) }) = outer.mapping
                    && self.phone[stand] == Some(from)
                {
                    let _ = self.stands[stand].send_to(&room[..length], peer);
                }
            }
        }
    }

    /// Index of a mapping in the row; the next one for a new mapping.
    fn mapped(&mut self, mapping: Mapping) -> Option<usize> {
        let known = self.row.iter().position(|outer| outer.mapping == Some(mapping));
        let place = known.or_else(|| self.row.iter().position(|outer| outer.mapping.is_none()))?;
        self.row[place].mapping = Some(mapping);
        Some(place)
    }
}

/// Consecutive ports at 127.0.0.2.
fn row() -> Result<Vec<Outer>> {
    let outer = |socket| Outer { socket, mapping: None, is_open: false };
    for _ in 0..TRIES {
        let first = bind(ADDRESS, 0)?;
        let port = first.local_addr()?.port();
        let rest =
            (1..ROW).map(|step| bind(ADDRESS, port.checked_add(step).context("beyond the last port")?));
        if let Ok(rest) = rest.collect::<Result<Vec<_>>>() {
            return Ok([first].into_iter().chain(rest).map(outer).collect());
        }
    }
    anyhow::bail!("no {ROW} free ports in a row at {ADDRESS}")
}

fn bind(address: Ipv4Addr, port: u16) -> Result<UdpSocket> {
    let socket = UdpSocket::bind((address, port))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// A binding response with XOR-MAPPED-ADDRESS (RFC 8489 §14.2).
fn stun_answer(request: &[u8], seen: SocketAddr) -> Vec<u8> {
    let mut answer = vec![1, 1, 0, 12];
    answer.extend_from_slice(request.get(4..20).unwrap_or(&[0; 16]));
    answer.extend_from_slice(&[0, 0x20, 0, 8, 0, 1]);
    answer.extend_from_slice(&(seen.port() ^ 0x2112).to_be_bytes());
    if let SocketAddr::V4(v4) = seen {
        let bits = u32::from(*v4.ip()) ^ 0x2112_a442;
        answer.extend_from_slice(&bits.to_be_bytes());
    }
    answer
}

/// The NAT runs until this value is dropped.
pub(crate) struct Nat {
    /// Address at which the phone reaches the given host.
    pub(crate) inside: SocketAddr,
    /// Mapped addresses of the phone's ports, in the order in which they first send.
    pub(crate) outside: [SocketAddr; 2],
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Numbers of datagrams through each port, without those of the given host.
#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    let_in: [AtomicU32; 2],
    let_out: [AtomicU32; 2],
}

/// An outer port, and the phone's port that is mapped to it, once known.
struct Port {
    outside: UdpSocket,
    phone: Option<SocketAddr>,
}

/// An outside host, and the inner socket that represents it.
struct Host {
    remote: SocketAddr,
    inside: UdpSocket,
}

impl Nat {
    /// Starts a NAT between a phone, whose addresses it learns, and the outside, of which the phone reaches
    /// `host`.
    pub(crate) fn start(host: SocketAddr) -> Result<Self> {
        Self::start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), host)
    }

    /// The same with this address at which the phone reaches `host`.
    pub(crate) fn start_at(inside: SocketAddr, host: SocketAddr) -> Result<Self> {
        let mut ports = [Port::new()?, Port::new()?];
        while ports[1].number()? == ports[0].number()?.wrapping_add(1) {
            ports[1] = Port::new()?;
        }
        let outside = [ports[0].outside.local_addr()?, ports[1].outside.local_addr()?];
        let first = Host::at(inside, host)?;
        let inside = first.inside.local_addr()?;
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || run(&mut ports, vec![first], &theirs));
        Ok(Self { inside, outside, shared, thread: Some(thread) })
    }

    /// Numbers of datagrams through each port, inwards and outwards.
    pub(crate) fn passed(&self) -> [(u32, u32); 2] {
        let count = |counts: &[AtomicU32; 2], port: usize| counts[port].load(Ordering::Relaxed);
        [0, 1].map(|port| (count(&self.shared.let_in, port), count(&self.shared.let_out, port)))
    }
}

impl Drop for Nat {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // An error of the thread does not matter, because the scenario is over.
            let _ = thread.join();
        }
    }
}

impl Port {
    fn new() -> Result<Self> {
        let outside = UdpSocket::bind((ADDRESS, 0))?;
        outside.set_nonblocking(true)?;
        Ok(Self { outside, phone: None })
    }

    fn number(&self) -> Result<u16> {
        Ok(self.outside.local_addr()?.port())
    }
}

impl Host {
    fn new(remote: SocketAddr) -> Result<Self> {
        Self::at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), remote)
    }

    fn at(inside: SocketAddr, remote: SocketAddr) -> Result<Self> {
        let inside = UdpSocket::bind(inside)?;
        inside.set_nonblocking(true)?;
        Ok(Self { remote, inside })
    }
}

fn run(ports: &mut [Port; 2], mut hosts: Vec<Host>, shared: &Shared) {
    while !shared.is_over.load(Ordering::Relaxed) {
        for (port, let_in) in ports.iter().zip(&shared.let_in) {
            inwards(port, &mut hosts, let_in);
        }
        for (place, host) in hosts.iter().enumerate() {
            outwards(host, place == 0, ports, &shared.let_out);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn inwards(port: &Port, hosts: &mut Vec<Host>, let_in: &AtomicU32) {
    let mut room = [0; 2048];
    while let Ok((length, from)) = port.outside.recv_from(&mut room) {
        if !hosts.iter().any(|host| host.remote == from) && hosts.len() < HOSTS_MAX {
            hosts.extend(Host::new(from));
        }
        let host = hosts.iter().enumerate().find(|(_, host)| host.remote == from);
        let bytes = room.get(..length).unwrap_or_default();
        // Nothing is forwarded before the phone has sent a packet.
        if let (Some((place, host)), Some(phone)) = (host, port.phone)
            && host.inside.send_to(bytes, phone).is_ok()
            && place > 0
        {
            let_in.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn outwards(host: &Host, is_first: bool, ports: &mut [Port; 2], let_out: &[AtomicU32; 2]) {
    let mut room = [0; 2048];
    while let Ok((length, from)) = host.inside.recv_from(&mut room) {
        let known = ports.iter().position(|port| port.phone == Some(from));
        let Some(place) = known.or_else(|| ports.iter().position(|port| port.phone.is_none())) else {
            continue;
        };
        ports[place].phone = Some(from);
        let sent = ports[place].outside.send_to(room.get(..length).unwrap_or_default(), host.remote);
        if sent.is_ok() && !is_first {
            let_out[place].fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Public address of the peer.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// STUN, RTP and RTCP, and some spare ports.
const ROW: u16 = 8;

const TRIES: usize = 100;

const LOOK_EVERY: Duration = Duration::from_millis(1);
/// A STUN server, a peer, and some spare ones.
const HOSTS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_test_support::eventually::wait_until;

    fn socket() -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        socket
    }

    /// Address of the sender as reported by a STUN server.
    fn ask(from: &UdpSocket, server: SocketAddr) -> SocketAddr {
        from.send_to(&[0; 20], server).unwrap();
        let mut answer = [0; 64];
        let (length, _) = from.recv_from(&mut answer).unwrap();
        let port = u16::from_be_bytes([answer[26], answer[27]]) ^ 0x2112;
        let bits = u32::from_be_bytes(answer[28..32].try_into().unwrap()) ^ 0x2112_a442;
        assert_eq!(length, 32);
        (Ipv4Addr::from(bits), port).into()
    }

    #[test]
    fn sound_passes_by_the_next_port_of_the_row_once_the_phone_has_sent_there() {
        let nat = CountingNat::start().unwrap();
        let (phone, peer) = (socket(), socket());
        let stand = ask(&phone, nat.phone_stun);
        let named = ask(&peer, nat.peer_stun);
        assert_eq!(nat.named_by_peer(), Some(named));
        peer.send_to(b"dropped", stand).unwrap();
        phone.send_to(b"to the STUN server's port", named).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let next = SocketAddr::new(named.ip(), named.port() + 1);
        phone.send_to(b"row", next).unwrap();
        let mut room = [0; 64];
        assert_eq!(peer.recv_from(&mut room).unwrap(), (3, stand));
        peer.send_to(b"heard", stand).unwrap();
        assert_eq!(phone.recv_from(&mut room).unwrap(), (5, next));
    }

    #[test]
    fn answers_to_the_outer_port_reach_the_phone() {
        let socket = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            socket
        };
        let (phone, phone_too, server, peer) = (socket(), socket(), socket(), socket());
        let nat = Nat::start(server.local_addr().unwrap()).unwrap();
        let mut room = [0; 16];
        for (from, outside) in [(&phone, nat.outside[0]), (&phone_too, nat.outside[1])] {
            from.send_to(b"ask", nat.inside).unwrap();
            assert_eq!(server.recv_from(&mut room).unwrap(), (3, outside));
        }
        for (to, outside) in [(&phone, nat.outside[0]), (&phone_too, nat.outside[1])] {
            peer.send_to(b"hello", outside).unwrap();
            let (length, peer_inside) = to.recv_from(&mut room).unwrap();
            assert_eq!((length, peer_inside == nat.inside), (5, false));
            to.send_to(b"yes", peer_inside).unwrap();
            assert_eq!(peer.recv_from(&mut room).unwrap(), (3, outside));
        }
        // The counter is increased after forwarding.
        wait_until("all are counted", || nat.passed() == [(1, 1), (1, 1)]);
    }
}
