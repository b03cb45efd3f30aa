//! Stranger at the server's TLS port, who does not finish what it begins.

use crate::World;
use crate::tls::TLS_SERVER;
use ringway_sansio::{
    Deadline, Event, Flow, Framer, FramingError, HostNameId, Instant, ListenerId, Received, Token, Transport,
};
use ringway_sim::{Effects, HostId, SimConnection, SimNode};
use ringway_stream::{Connection, Decoded, Encoded, Layer, LayerError, Origin, StreamLayers};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// First bytes of a stranger's connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// None.
    Nothing,
    /// The first byte of a TLS record.
    FirstByte,
    /// A part of a record with a ClientHello.
    HalfClientHello,
    /// A ClientHello; what the server answers is ignored.
    ClientHello,
    /// The same; after the server's answer the connection is closed, and the next one is opened.
    ClientHelloAgainAndAgain,
    /// Other bytes.
    Bytes(&'static [u8]),
}

/// Host that opens TCP connections to the server's TLS port.
pub struct Stranger {
    greeting: Vec<u8>,
    is_flood: bool,
    opened: u32,
    received: Vec<u8>,
    closed: Vec<Instant>,
}

impl World {
    /// Adds the stranger at `10.0.9.number`.
    pub fn stranger(&mut self, number: u8, greeting: &Greeting) -> HostId {
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 9, number)), 5060);
        let is_flood = *greeting == Greeting::ClientHelloAgainAndAgain;
        let hello = self.client_hello();
        let greeting = match greeting {
            Greeting::Nothing => Vec::new(),
            Greeting::FirstByte => hello[..1].to_vec(),
            Greeting::HalfClientHello => hello[..hello.len() / 2].to_vec(),
            Greeting::ClientHello | Greeting::ClientHelloAgainAndAgain => hello,
            Greeting::Bytes(bytes) => bytes.to_vec(),
        };
        let is_mute = greeting.is_empty();
        let node = Stranger { greeting, is_flood, opened: 0, received: Vec::new(), closed: Vec::new() };
        let name = format!("stranger{number}");
        let host = self.sim.add(&name, &[(Transport::Tcp, address)], Box::new(node));
        let host = host.expect("the address is free");
        if is_mute {
            self.sim.set_layers(host, Mute);
        }
        host
    }

    /// Lets a stranger open `count` connections.
    pub fn knock(&mut self, host: HostId, count: u32) {
        let knock = |stranger: &mut Stranger, _: Instant, effects: &mut Effects| {
            (0..count).for_each(|_| stranger.open(effects));
        };
        self.sim.call(host, 0, knock).expect("the host is a stranger");
    }

    /// State of a stranger.
    pub fn stranger_at(&self, host: HostId) -> &Stranger {
        self.sim.node(host).expect("the host is a stranger")
    }
}

impl Stranger {
    /// Number of connections that it opened.
    pub const fn opened(&self) -> u32 {
        self.opened
    }

    /// Times at which the server closed its connections.
    pub fn closed(&self) -> &[Instant] {
        &self.closed
    }

    /// All bytes that the server sent.
    pub fn received(&self) -> &[u8] {
        &self.received
    }

    fn open(&mut self, effects: &mut Effects) {
        self.opened += 1;
        // Each flow has a connection of its own. A message is what opens it; a mute layer sends nothing of it.
        let flow = Flow { host: HostNameId(self.opened), ..Flow::dial(ListenerId(0), TLS_SERVER) };
        let bytes = if self.greeting.is_empty() { b"nothing" } else { self.greeting.as_slice() };
        effects.out.send(flow, Token::NONE, bytes);
    }
}

impl SimNode for Stranger {
    fn shards(&self) -> u16 {
        1
    }

    fn shard_of(&self, _: &[u8]) -> u16 {
        0
    }

    fn connection(&self, origin: Origin, layer: Box<dyn Layer>, now: Instant) -> Box<dyn SimConnection> {
        Box::new(Connection::new(origin, Chunks::default(), layer, now))
    }

    fn on_message(&mut self, _: u16, _: Instant, received: Received<'_>, effects: &mut Effects) {
        self.received.extend_from_slice(received.bytes);
        if self.is_flood {
            effects.closes.extend(received.flow.connection);
        }
    }

    fn on_event(&mut self, _: u16, now: Instant, event: Event, effects: &mut Effects) {
        if let Event::Closed(_) = event {
            self.closed.push(now);
            if self.is_flood {
                self.open(effects);
            }
        }
    }

    fn on_timeout(&mut self, _: u16, _: Instant, _: &mut Effects) {}

    fn next_deadline(&self, _: u16) -> Option<Deadline> {
        None
    }
}

/// Layer that sends nothing, and its source.
#[derive(Clone, Copy)]
struct Mute;

impl StreamLayers for Mute {
    type Layer = Self;

    fn resumes(&self) -> bool {
        false
    }

    fn begin_turn(&mut self, _: Instant) {}

    fn accept(&mut self, _: &Flow) -> Option<Self> {
        None
    }

    fn dial(&mut self, _: &Flow) -> Option<Self> {
        Some(Self)
    }
}

impl Layer for Mute {
    fn decode(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        _: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        decoded(Decoded::Bytes(bytes));
        Ok(())
    }

    fn encode(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<Encoded, LayerError> {
        Ok(Encoded::Appended)
    }

    fn is_handshaking(&self) -> bool {
        false
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

/// Framer whose messages are the bytes as they arrive.
#[derive(Default)]
struct Chunks {
    bytes: Vec<u8>,
    chunk: Vec<u8>,
}

impl Framer for Chunks {
    fn new(_: usize) -> Self {
        Self::default()
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn next_frame(&mut self) -> Result<Option<&[u8]>, FramingError> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        self.chunk = std::mem::take(&mut self.bytes);
        Ok(Some(&self.chunk))
    }

    fn pongs(&mut self) -> usize {
        0
    }

    const PONG: &'static [u8] = b"";

    fn is_partial(&self) -> bool {
        false
    }

    fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}
