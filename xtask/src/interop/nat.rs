//! A NAT of a few lines: a phone inside sends by one port of another address, and who answers there reaches the phone.
//!
//! ```text
//!   phone ◄──► a port at 127.0.0.1 for each host outside ◄──► one port at 127.0.0.2 ◄──► hosts outside
//! ```
//! It maps and filters as RFC 4787 wants it at its best: the same port towards all, open to all. A real one would leave the
//! other side's address as it is; the phone sees a port at 127.0.0.1 in its place.

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
    /// As what the phone is seen outside.
    pub(crate) outside: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    let_in: AtomicU32,
    let_out: AtomicU32,
}

/// Somebody outside, and the socket inside that stands for it.
struct Host {
    remote: SocketAddr,
    inside: UdpSocket,
}

impl Nat {
    /// Between a phone, whose address it learns, and the world, of which the phone knows `host`.
    pub(crate) fn start(host: SocketAddr) -> Result<Self> {
        let outside = UdpSocket::bind((ADDRESS, 0))?;
        outside.set_nonblocking(true)?;
        let first = Host::new(host)?;
        let (inside, seen_as) = (first.inside.local_addr()?, outside.local_addr()?);
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::spawn(move || run(&outside, vec![first], &theirs));
        Ok(Self { inside, outside: seen_as, shared, thread: Some(thread) })
    }

    /// How many datagrams passed, inwards and outwards.
    pub(crate) fn passed(&self) -> (u32, u32) {
        (self.shared.let_in.load(Ordering::Relaxed), self.shared.let_out.load(Ordering::Relaxed))
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

impl Host {
    fn new(remote: SocketAddr) -> Result<Self> {
        let inside = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        inside.set_nonblocking(true)?;
        Ok(Self { remote, inside })
    }
}

fn run(outside: &UdpSocket, mut hosts: Vec<Host>, shared: &Shared) {
    let mut phone = None;
    let mut room = [0; 2048];
    while !shared.is_over.load(Ordering::Relaxed) {
        while let Ok((length, from)) = outside.recv_from(&mut room) {
            if !hosts.iter().any(|host| host.remote == from) && hosts.len() < HOSTS_MAX {
                hosts.extend(Host::new(from));
            }
            let host = hosts.iter().find(|host| host.remote == from);
            let bytes = room.get(..length).unwrap_or_default();
            // Before the phone has sent anything nobody gets in.
            if let (Some(host), Some(phone)) = (host, phone)
                && host.inside.send_to(bytes, phone).is_ok()
            {
                shared.let_in.fetch_add(1, Ordering::Relaxed);
            }
        }
        for host in &hosts {
            while let Ok((length, from)) = host.inside.recv_from(&mut room) {
                phone = Some(from);
                if outside.send_to(room.get(..length).unwrap_or_default(), host.remote).is_ok() {
                    shared.let_out.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        std::thread::sleep(LOOK_EVERY);
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

    #[test]
    fn who_answers_to_the_outer_port_reaches_the_phone() {
        let socket = || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            socket
        };
        let (phone, server, peer) = (socket(), socket(), socket());
        let nat = Nat::start(server.local_addr().unwrap()).unwrap();
        let mut room = [0; 16];
        phone.send_to(b"ask", nat.inside).unwrap();
        assert_eq!(server.recv_from(&mut room).unwrap(), (3, nat.outside));
        peer.send_to(b"hello", nat.outside).unwrap();
        let (length, peer_inside) = phone.recv_from(&mut room).unwrap();
        assert_eq!((length, peer_inside == nat.inside), (5, false));
        phone.send_to(b"yes", peer_inside).unwrap();
        assert_eq!(peer.recv_from(&mut room).unwrap(), (3, nat.outside));
    }
}
