//! Cable in memory with a card at one end and another stack's host at the other.

use ringway_ethernet::{Card, CardCounters, FRAME_BYTES_MAX};
use ringway_sansio::Instant;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{tcp, udp};
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::rc::Rc;

/// Address of the station.
pub const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Address of the host.
pub const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// Hardware address of the station.
pub const OWN_HARDWARE: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Hardware address of the host.
pub const PEER_HARDWARE: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Frames in transit in one direction.
pub type Frames = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// Station's end of the cable.
pub struct Plug {
    /// Frames in transit to the station.
    pub incoming: Frames,
    /// Frames that the station sent.
    pub outgoing: Frames,
    hardware: [u8; 6],
    counters: CardCounters,
}

impl Plug {
    /// Creates the end of a cable for a card with this hardware address.
    pub fn new(incoming: &Frames, outgoing: &Frames, hardware: [u8; 6]) -> Self {
        let (incoming, outgoing) = (Rc::clone(incoming), Rc::clone(outgoing));
        Self { incoming, outgoing, hardware, counters: CardCounters::default() }
    }
}

/// Creates a cable: the card's end, and the frames in transit to it and from it.
pub fn cable() -> (Plug, Frames, Frames) {
    let (incoming, outgoing) = (Frames::default(), Frames::default());
    (Plug::new(&incoming, &outgoing, OWN_HARDWARE), incoming, outgoing)
}

impl Card for Plug {
    fn address(&self) -> [u8; 6] {
        self.hardware
    }

    fn is_up(&mut self) -> bool {
        true
    }

    fn receive<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let frame = self.incoming.borrow_mut().pop_front()?;
        self.counters.received += 1;
        Some(take(&frame))
    }

    fn send(&mut self, bytes: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        assert!((14..=FRAME_BYTES_MAX).contains(&bytes), "a frame of {bytes} bytes");
        let mut frame = vec![0xaa; bytes];
        fill(&mut frame);
        self.outgoing.borrow_mut().push_back(frame);
        self.counters.sent += 1;
        true
    }

    fn flush(&mut self) {}

    fn counters(&self) -> CardCounters {
        self.counters
    }
}

/// Host of another stack at the other end.
pub struct Host {
    interface: Interface,
    sockets: SocketSet<'static>,
    end: End,
}

struct End {
    incoming: Frames,
    outgoing: Frames,
}

impl Host {
    /// Creates a host at [`PEER`] that receives `incoming` and sends `outgoing`.
    pub fn at(incoming: &Frames, outgoing: &Frames, now: Instant) -> Self {
        let mut end = End { incoming: Rc::clone(incoming), outgoing: Rc::clone(outgoing) };
        let hardware = HardwareAddress::Ethernet(EthernetAddress(PEER_HARDWARE));
        let mut interface = Interface::new(Config::new(hardware), &mut end, time(now));
        interface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(PEER.into(), 24)).unwrap();
        });
        Self { interface, sockets: SocketSet::new(Vec::new()), end }
    }

    /// Binds a UDP port.
    pub fn udp(&mut self, port: u16) -> SocketHandle {
        let buffer = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 64], vec![0; 256 << 10]);
        let mut socket = udp::Socket::new(buffer(), buffer());
        socket.bind(port).unwrap();
        self.sockets.add(socket)
    }

    /// Sends a datagram to port 5060 of [`OWN`].
    pub fn send(&mut self, socket: SocketHandle, bytes: &[u8]) {
        self.send_to(socket, bytes, SocketAddr::V4(SocketAddrV4::new(OWN, 5060)));
    }

    /// Sends a datagram.
    pub fn send_to(&mut self, socket: SocketHandle, bytes: &[u8], to: SocketAddr) {
        let SocketAddr::V4(to) = to else { panic!("{to} is no IPv4 address") };
        self.sockets.get_mut::<udp::Socket<'_>>(socket).send_slice(bytes, to).unwrap();
    }

    /// Takes a received datagram, and its sender.
    pub fn received(&mut self, socket: SocketHandle) -> Option<(Vec<u8>, SocketAddr)> {
        let (bytes, from) = self.sockets.get_mut::<udp::Socket<'_>>(socket).recv().ok()?;
        Some((bytes.to_vec(), SocketAddr::new(from.endpoint.addr.into(), from.endpoint.port)))
    }

    fn tcp_socket(&mut self) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; 64 << 10]);
        self.sockets.add(tcp::Socket::new(buffer(), buffer()))
    }

    /// Connects to port 5060 of [`OWN`].
    pub fn connect(&mut self, from_port: u16) -> SocketHandle {
        let handle = self.tcp_socket();
        let to = SocketAddrV4::new(OWN, 5060);
        self.sockets
            .get_mut::<tcp::Socket<'_>>(handle)
            .connect(self.interface.context(), to, from_port)
            .unwrap();
        handle
    }

    /// Listens on a TCP port.
    pub fn listen(&mut self, port: u16) -> SocketHandle {
        let handle = self.tcp_socket();
        self.tcp(handle).listen(port).unwrap();
        handle
    }

    /// TCP socket of a handle.
    pub fn tcp(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    /// Takes the received text of a TCP socket.
    pub fn read(&mut self, handle: SocketHandle) -> String {
        let mut text = Vec::new();
        while self.tcp(handle).can_recv() {
            self.tcp(handle).recv(|bytes| (bytes.len(), text.extend_from_slice(bytes))).unwrap();
        }
        String::from_utf8(text).unwrap()
    }

    /// Lets the host process its frames.
    pub fn poll(&mut self, now: Instant) {
        self.interface.poll(time(now), &mut self.end, &mut self.sockets);
    }
}

fn time(now: Instant) -> smoltcp::time::Instant {
    smoltcp::time::Instant::from_millis(now.as_millis() as i64)
}

impl Device for End {
    type RxToken<'a> = Taken;
    type TxToken<'a> = Given<'a>;

    fn receive(&mut self, _: smoltcp::time::Instant) -> Option<(Taken, Given<'_>)> {
        let frame = self.incoming.borrow_mut().pop_front()?;
        Some((Taken(frame), Given(&self.outgoing)))
    }

    fn transmit(&mut self, _: smoltcp::time::Instant) -> Option<Given<'_>> {
        Some(Given(&self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = FRAME_BYTES_MAX;
        capabilities
    }
}

struct Taken(Vec<u8>);
struct Given<'a>(&'a Frames);

impl RxToken for Taken {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Given<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, bytes: usize, f: F) -> R {
        let mut frame = vec![0; bytes];
        let result = f(&mut frame);
        self.0.borrow_mut().push_back(frame);
        result
    }
}

/// DNS response (RFC 1035 §4.1): the question, with one address or with the error that there is no such name.
pub fn name_answer(question: &[u8], address: Option<Ipv4Addr>) -> Vec<u8> {
    let mut answer = question.to_vec();
    answer[2] = 0x81;
    answer[3] = if address.is_some() { 0x80 } else { 0x83 };
    answer[7] = u8::from(address.is_some());
    if let Some(address) = address {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend(address.octets());
    }
    answer
}
