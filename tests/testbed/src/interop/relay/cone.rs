//! A full-cone NAT with delay and loss: endpoint-independent mapping and filtering (RFC 4787), UDP only.
//!
//! It reads the phone's packets from a TUN interface, and sends each from a socket that belongs to the port of the phone.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use smoltcp::phy::{ChecksumCapabilities, Device, Medium, RxToken, TunTapInterface, TxToken};
use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr};

use ringway_test_support::namespace::{Namespace, move_into};

/// The NAT runs until this value is dropped.
pub(super) struct Cone {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    passed: AtomicU32,
    lost: AtomicU32,
}

/// Port of the phone, and its socket outside.
struct Port {
    number: u16,
    outside: UdpSocket,
}

/// Datagram that is delayed.
struct Delayed {
    due: Instant,
    /// Index of the port.
    port: usize,
    peer: SocketAddrV4,
    way: Way,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Way {
    Out,
    In,
}

struct Nat {
    tunnel: TunTapInterface,
    inner: Ipv4Addr,
    outer: Ipv4Addr,
    ports: Vec<Port>,
    delayed: VecDeque<Delayed>,
    random: u64,
    shared: Arc<Shared>,
}

impl Cone {
    /// Starts a NAT between the phone's interface `inner`, where the phone has that address, and `outer` in the namespace of
    /// the NAT.
    pub(super) fn start(
        (phone, inner): (&Namespace, Ipv4Addr),
        nat: &Namespace,
        outer: Ipv4Addr,
    ) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let (phone, nat, of_thread) = (phone.name().to_owned(), nat.name().to_owned(), Arc::clone(&shared));
        let (sender, started) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let tunnel = move_into(&phone)
                .and_then(|()| TunTapInterface::new("inner", Medium::Ip).context("open the TUN interface"));
            let tunnel = tunnel.and_then(|tunnel| move_into(&nat).map(|()| tunnel));
            match tunnel {
                Ok(tunnel) => {
                    // The other side is there until it has this.
                    let _ = sender.send(Ok(()));
                    let (ports, delayed) = (Vec::new(), VecDeque::new());
                    Nat { tunnel, inner, outer, ports, delayed, random: 1, shared: of_thread }.run();
                }
                Err(error) => drop(sender.send(Err(error))),
            }
        });
        let cone = Self { shared, thread: Some(thread) };
        started.recv().context("the thread of the NAT failed")??;
        Ok(cone)
    }

    /// Numbers of forwarded and lost datagrams.
    pub(super) fn passed(&self) -> (u32, u32) {
        (self.shared.passed.load(Ordering::Relaxed), self.shared.lost.load(Ordering::Relaxed))
    }
}

impl Drop for Cone {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // An error of the thread does not matter, because the scenario is over.
            let _ = thread.join();
        }
    }
}

impl Nat {
    fn run(&mut self) {
        while !self.shared.is_over.load(Ordering::Relaxed) {
            while let Some((source, peer, bytes)) = self.next_of_phone() {
                if let Some(port) = self.port(source) {
                    self.delay(port, peer, Way::Out, bytes);
                }
            }
            let mut room = [0; 2048];
            for port in 0..self.ports.len() {
                while let Ok((length, SocketAddr::V4(peer))) = self.ports[port].outside.recv_from(&mut room) {
                    self.delay(port, peer, Way::In, room[..length].to_vec());
                }
            }
            while self.delayed.front().is_some_and(|next| next.due <= Instant::now()) {
                if let Some(next) = self.delayed.pop_front() {
                    self.forward(&next);
                }
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Next UDP datagram of the phone: its port, its destination, its bytes.
    fn next_of_phone(&mut self) -> Option<(u16, SocketAddrV4, Vec<u8>)> {
        loop {
            let (receiver, _) = self.tunnel.receive(smoltcp::time::Instant::from_millis(0))?;
            let datagram = receiver.consume(|packet| {
                let packet = Ipv4Packet::new_checked(packet).ok()?;
                let datagram = (packet.next_header() == IpProtocol::Udp).then(|| packet.payload())?;
                let datagram = UdpPacket::new_checked(datagram).ok()?;
                let peer = SocketAddrV4::new(packet.dst_addr(), datagram.dst_port());
                Some((datagram.src_port(), peer, datagram.payload().to_vec()))
            });
            if datagram.is_some() {
                return datagram;
            }
        }
    }

    /// Index of the phone's port, which is mapped if it is new.
    fn port(&mut self, number: u16) -> Option<usize> {
        let known = self.ports.iter().position(|port| port.number == number);
        known.or_else(|| {
            let outside = UdpSocket::bind((self.outer, 0)).ok().filter(|_| self.ports.len() < PORTS_MAX)?;
            outside.set_nonblocking(true).ok()?;
            self.ports.push(Port { number, outside });
            Some(self.ports.len() - 1)
        })
    }

    fn delay(&mut self, port: usize, peer: SocketAddrV4, way: Way, bytes: Vec<u8>) {
        // A linear congruential generator: the same packets are lost in each run.
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if (self.random >> 33) % 100 < LOST_PERCENT {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.delayed.push_back(Delayed { due: Instant::now() + DELAY, port, peer, way, bytes });
    }

    fn forward(&mut self, datagram: &Delayed) {
        let Delayed { port, peer, way, bytes, .. } = datagram;
        self.shared.passed.fetch_add(1, Ordering::Relaxed);
        match way {
            // A failed send is a lost datagram.
            Way::Out => drop(self.ports[*port].outside.send_to(bytes, peer)),
            Way::In => self.send_to_phone(*peer, self.ports[*port].number, bytes),
        }
    }

    fn send_to_phone(&mut self, peer: SocketAddrV4, port: u16, bytes: &[u8]) {
        let udp = UdpRepr { src_port: peer.port(), dst_port: port };
        let ip = Ipv4Repr {
            src_addr: *peer.ip(),
            dst_addr: self.inner,
            next_header: IpProtocol::Udp,
            payload_len: udp.header_len() + bytes.len(),
            hop_limit: 64,
        };
        let Some(sender) = self.tunnel.transmit(smoltcp::time::Instant::from_millis(0)) else { return };
        sender.consume(ip.buffer_len() + ip.payload_len, |packet| {
            let mut packet = Ipv4Packet::new_unchecked(packet);
            let checks = ChecksumCapabilities::default();
            ip.emit(&mut packet, &checks);
            let (source, destination) = (ip.src_addr.into(), ip.dst_addr.into());
            let mut datagram = UdpPacket::new_unchecked(packet.payload_mut());
            udp.emit(
                &mut datagram,
                &source,
                &destination,
                bytes.len(),
                |room| room.copy_from_slice(bytes),
                &checks,
            );
        });
    }
}

/// Delay in each direction.
const DELAY: Duration = Duration::from_millis(50);
const LOST_PERCENT: u64 = 5;
const PORTS_MAX: usize = 16;
const LOOK_EVERY: Duration = Duration::from_millis(1);
