//! A cable in memory with the station at one end and another stack's host, or a script, at the other.

use ringway_ethernet::{Card, CardCounters, FRAME_BYTES_MAX, Lease, Port, Station, Worked};
use ringway_sansio::{
    Deadline, Event, Framer, FramingError, Instant, Node, Outbox, Received, Seed, Token, Transport,
};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{tcp, udp};
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::time::Duration;

pub(crate) const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
pub(crate) const OWN_HARDWARE: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const PEER_HARDWARE: [u8; 6] = [2, 0, 0, 0, 0, 2];

type Frames = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// The station's end of the cable.
pub(crate) struct Plug {
    pub(crate) incoming: Frames,
    pub(crate) outgoing: Frames,
    counters: CardCounters,
}

impl Card for Plug {
    fn address(&self) -> [u8; 6] {
        OWN_HARDWARE
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

/// Messages are lines. Each is sent back to where it came from; `to ADDRESS text` is sent there by UDP, `dial ADDRESS text`
/// by TCP. What the transport reports is kept.
#[derive(Default)]
pub(crate) struct Echo {
    pub(crate) messages: Vec<String>,
    pub(crate) events: Vec<Event>,
}

impl Node for Echo {
    type Action = String;
    type Framer = Lines;

    fn shard_of(_: &[u8], _: u16) -> u16 {
        0
    }

    fn on_message(&mut self, _: Instant, received: Received<'_>, out: &mut Outbox, _: &mut Vec<String>) {
        let text = String::from_utf8_lossy(received.bytes).into_owned();
        let words: Vec<_> = text.splitn(3, ' ').collect();
        let flow = received.flow;
        match words.as_slice() {
            ["to", address, rest] => {
                let flow = ringway_sansio::Flow::udp(flow.listener, address.parse().unwrap());
                out.send(flow, Token(9), rest.as_bytes());
            }
            ["dial", address, rest] => {
                let flow = ringway_sansio::Flow::dial(flow.listener, address.parse().unwrap());
                out.send(flow, Token(9), rest.as_bytes());
            }
            _ => out.send(flow, Token(1), received.bytes),
        }
        self.messages.push(text);
    }

    fn on_event(&mut self, _: Instant, event: Event, _: &mut Outbox, _: &mut Vec<String>) {
        self.events.push(event);
    }

    fn on_timeout(&mut self, _: Instant, _: &mut Outbox, _: &mut Vec<String>) {}

    fn next_deadline(&self) -> Option<Deadline> {
        None
    }
}

pub(crate) struct Lines {
    bytes: Vec<u8>,
    start: usize,
    max: usize,
}

impl Framer for Lines {
    fn new(max_message_bytes: usize) -> Self {
        Self { bytes: Vec::new(), start: 0, max: max_message_bytes }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    fn next_frame(&mut self) -> Result<Option<&[u8]>, FramingError> {
        let rest = &self.bytes[self.start..];
        match rest.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                let begin = self.start;
                self.start += end + 1;
                Ok(Some(&self.bytes[begin..=begin + end]))
            }
            None if rest.len() > self.max => Err(FramingError("a line that is too long")),
            None => Ok(None),
        }
    }

    fn pongs(&mut self) -> usize {
        0
    }

    const PONG: &'static [u8] = b"";

    fn is_partial(&self) -> bool {
        self.start < self.bytes.len()
    }
}

/// The station, the cable, and a clock that only tests move.
pub(crate) struct Link {
    pub(crate) station: Station<Plug, Echo>,
    pub(crate) to_station: Frames,
    pub(crate) from_station: Frames,
    pub(crate) now: Instant,
}

impl Link {
    /// A station without an address that serves nothing.
    pub(crate) fn bare() -> Self {
        let (to_station, from_station) = (Frames::default(), Frames::default());
        let plug = Plug {
            incoming: Rc::clone(&to_station),
            outgoing: Rc::clone(&from_station),
            counters: CardCounters::default(),
        };
        let now = Instant::from_secs(1000);
        let station = Station::new(plug, &Seed::from_number(1), now);
        Self { station, to_station, from_station, now }
    }

    /// A station at [`OWN`] that serves port 5060 of UDP and TCP.
    pub(crate) fn new() -> Self {
        let mut link = Self::bare();
        link.station.set_lease(Lease::fixed(OWN, 24, Some(PEER)));
        link.serve();
        link
    }

    pub(crate) fn serve(&mut self) {
        let port = |transport| Port { transport, number: 5060 };
        self.station.serve(Echo::default(), vec![port(Transport::Udp), port(Transport::Tcp)], 65_535);
    }

    /// Lets the station do all there is to do.
    pub(crate) fn turn(&mut self) {
        while self.station.receive(self.now) != Worked::Nothing {}
        self.station.run(self.now);
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.turn();
    }

    pub(crate) fn node(&self) -> &Echo {
        self.station.node().unwrap()
    }

    pub(crate) fn sent(&self) -> Vec<Vec<u8>> {
        self.from_station.borrow_mut().drain(..).collect()
    }
}

/// A host of another stack at the other end.
pub(crate) struct Host {
    interface: Interface,
    sockets: SocketSet<'static>,
    end: End,
}

struct End {
    incoming: Frames,
    outgoing: Frames,
}

impl Host {
    pub(crate) fn new(link: &Link) -> Self {
        let mut end = End { incoming: Rc::clone(&link.from_station), outgoing: Rc::clone(&link.to_station) };
        let hardware = HardwareAddress::Ethernet(EthernetAddress(PEER_HARDWARE));
        let mut interface = Interface::new(Config::new(hardware), &mut end, time(link.now));
        interface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(PEER.into(), 24)).unwrap();
        });
        Self { interface, sockets: SocketSet::new(Vec::new()), end }
    }

    pub(crate) fn udp(&mut self, port: u16) -> SocketHandle {
        let buffer = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 64], vec![0; 256 << 10]);
        let mut socket = udp::Socket::new(buffer(), buffer());
        socket.bind(port).unwrap();
        self.sockets.add(socket)
    }

    pub(crate) fn send(&mut self, socket: SocketHandle, bytes: &[u8]) {
        self.send_to(socket, bytes, SocketAddr::V4(SocketAddrV4::new(OWN, 5060)));
    }

    pub(crate) fn send_to(&mut self, socket: SocketHandle, bytes: &[u8], to: SocketAddr) {
        let SocketAddr::V4(to) = to else { panic!("{to} is no IPv4 address") };
        self.sockets.get_mut::<udp::Socket<'_>>(socket).send_slice(bytes, to).unwrap();
    }

    pub(crate) fn received(&mut self, socket: SocketHandle) -> Option<(Vec<u8>, SocketAddr)> {
        let (bytes, from) = self.sockets.get_mut::<udp::Socket<'_>>(socket).recv().ok()?;
        Some((bytes.to_vec(), SocketAddr::new(from.endpoint.addr.into(), from.endpoint.port)))
    }

    fn tcp_socket(&mut self) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; 64 << 10]);
        self.sockets.add(tcp::Socket::new(buffer(), buffer()))
    }

    pub(crate) fn connect(&mut self, from_port: u16) -> SocketHandle {
        let handle = self.tcp_socket();
        let to = SocketAddrV4::new(OWN, 5060);
        self.sockets
            .get_mut::<tcp::Socket<'_>>(handle)
            .connect(self.interface.context(), to, from_port)
            .unwrap();
        handle
    }

    pub(crate) fn listen(&mut self, port: u16) -> SocketHandle {
        let handle = self.tcp_socket();
        self.tcp(handle).listen(port).unwrap();
        handle
    }

    pub(crate) fn tcp(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    pub(crate) fn read(&mut self, handle: SocketHandle) -> String {
        let mut text = Vec::new();
        while self.tcp(handle).can_recv() {
            self.tcp(handle).recv(|bytes| (bytes.len(), text.extend_from_slice(bytes))).unwrap();
        }
        String::from_utf8(text).unwrap()
    }

    pub(crate) fn poll(&mut self, now: Instant) {
        self.interface.poll(time(now), &mut self.end, &mut self.sockets);
    }

    /// Both sides take turns, 1 ms each, for so long.
    pub(crate) fn talk(&mut self, link: &mut Link, milliseconds: u32) {
        for _ in 0..milliseconds {
            self.poll(link.now);
            link.pass(Duration::from_millis(1));
        }
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

pub(crate) struct Taken(Vec<u8>);
pub(crate) struct Given<'a>(&'a Frames);

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
