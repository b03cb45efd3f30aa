//! A NAT of a few lines: a phone inside sends by ports of another address, and who answers there reaches the phone.
//!
//! ```text
//!   phone ◄──► a port at 127.0.0.1 for each host outside ◄──► two ports at 127.0.0.2 ◄──► hosts outside
//! ```
//! It maps and filters as RFC 4787 wants it at its best: each port of the phone to the same port towards all, open to all. The
//! two outer ports are no neighbours. A real one would leave the other side's address as it is; the phone sees a port at
//! 127.0.0.1 in its place.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;

/// It works until this value goes.
pub(crate) struct Nat {
    /// Where the phone reaches the host that it was made for.
    pub(crate) inside: SocketAddr,
    /// As what the phone's ports are seen outside, in the order in which they send for the first time.
    pub(crate) outside: [SocketAddr; 2],
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What passed each of the ports, but to and from the host that the NAT was made for.
#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    let_in: [AtomicU32; 2],
    let_out: [AtomicU32; 2],
}

/// A port outside, and the phone's port that it stands for, once that has sent something.
struct Port {
    outside: UdpSocket,
    phone: Option<SocketAddr>,
}

/// Somebody outside, and the socket inside that stands for it.
struct Host {
    remote: SocketAddr,
    inside: UdpSocket,
}

impl Nat {
    /// Between a phone, whose addresses it learns, and the world, of which the phone knows `host`.
    pub(crate) fn start(host: SocketAddr) -> Result<Self> {
        let mut ports = [Port::new()?, Port::new()?];
        while ports[1].number()? == ports[0].number()?.wrapping_add(1) {
            ports[1] = Port::new()?;
        }
        let outside = [ports[0].outside.local_addr()?, ports[1].outside.local_addr()?];
        let first = Host::new(host)?;
        let inside = first.inside.local_addr()?;
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || run(&mut ports, vec![first], &theirs));
        Ok(Self { inside, outside, shared, thread: Some(thread) })
    }

    /// How many datagrams passed each port, inwards and outwards.
    pub(crate) fn passed(&self) -> [(u32, u32); 2] {
        let count = |counts: &[AtomicU32; 2], port: usize| counts[port].load(Ordering::Relaxed);
        [0, 1].map(|port| (count(&self.shared.let_in, port), count(&self.shared.let_out, port)))
    }
}

impl Drop for Nat {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Whatever it said, the scenario is over.
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
        let inside = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
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
        // Before the phone has sent anything nobody gets in.
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

/// Where it is seen from outside.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A STUN server, a peer, and some to spare.
const HOSTS_MAX: usize = 8;

const LOOK_EVERY: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn who_answers_to_the_outer_port_reaches_the_phone() {
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
        // It counts when it has passed something on.
        let end = Instant::now() + Duration::from_secs(5);
        while nat.passed() != [(1, 1), (1, 1)] {
            assert!(Instant::now() < end, "{:?}", nat.passed());
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
