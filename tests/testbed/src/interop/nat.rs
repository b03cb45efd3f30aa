//! A simple NAT: packets of a phone are sent from ports of another address, and answers to these reach the
//! phone.
//!
//! ```text
//!   phone ◄──► a port at 127.0.0.1 for each host outside ◄──► two ports at 127.0.0.2 ◄──► hosts outside
//! ```
//! It has endpoint-independent mapping and filtering (RFC 4787): each port of the phone is mapped to the same
//! port for all destinations, and open for all. The two outer ports are not adjacent. A real NAT would not
//! change the other side's address; here the phone sees a port at 127.0.0.1 instead.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;

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

/// Outer address of the NAT.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A STUN server, a peer, and some spare ones.
const HOSTS_MAX: usize = 8;

const LOOK_EVERY: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_test_support::eventually::wait_until;

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
