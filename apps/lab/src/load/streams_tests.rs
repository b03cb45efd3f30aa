//! Connections between two sides and to plain sockets, with and without a layer.

use super::*;
use crate::load::{now, read_token};
use ringway_linux::sys::ReadyList;
use ringway_stream::{Decoded, Encoded, LayerError, PassThrough};
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::time::Duration;

/// Layer that inverts each byte.
struct Inverted;

impl Layer for Inverted {
    fn decode(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        _wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        decoded(Decoded::Bytes(&bytes.iter().map(|byte| !byte).collect::<Vec<_>>()));
        Ok(())
    }

    fn encode(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<Encoded, LayerError> {
        wire.extend(message.iter().map(|byte| !byte));
        Ok(Encoded::Appended)
    }

    fn is_handshaking(&self) -> bool {
        false
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

/// One side with what it received.
struct Side<L> {
    streams: Streams<L>,
    epoll: Arc<Epoll>,
    counters: WireCounters,
    received: Vec<(Flow, Vec<u8>)>,
    events: Vec<Event>,
}

impl<L: Layer> Side<L> {
    fn new(layer: NewLayer<L>) -> Self {
        let locals = Locals { first: Ipv4Addr::LOCALHOST.into(), sources: 1, sockets: 1 };
        let epoll = Arc::new(Epoll::new().unwrap());
        let streams = Streams::open(Transport::Tcp, &locals, (&epoll, 0), layer, now()).unwrap();
        let counters = WireCounters::default();
        Self { streams, epoll, counters, received: Vec::new(), events: Vec::new() }
    }

    fn address(&self) -> SocketAddr {
        self.streams.locals()[0]
    }

    fn send(&mut self, flow: Flow, token: u64, bytes: &[u8]) {
        let mut out = Outbox::new();
        out.send(flow, Token(token), bytes);
        self.streams.send(&out, |_| true, now(), &mut self.counters);
    }

    /// Runs turns until everything is written.
    fn write_all(&mut self) {
        until(|| {
            self.turn();
            self.unwritten() == 0
        });
    }

    fn unwritten(&self) -> usize {
        let connections = self.streams.connections.iter();
        connections.map(|(_, opened)| opened.stream.connection.unwritten_bytes()).sum()
    }

    /// Handles what is ready within a millisecond.
    fn turn(&mut self) {
        let mut ready = ReadyList::new(64);
        self.epoll.wait_exact(&mut ready, Duration::from_millis(1)).unwrap();
        for ready in (0..ready.len()).filter_map(|index| ready.at(index)) {
            let Self { streams, counters, received, .. } = self;
            match read_token(ready.token).1 {
                Place::Socket(index) => {
                    streams.accept(index, now(), |peer| peer.ip().is_loopback(), counters)
                }
                Place::Connection(key) => {
                    if ready.write {
                        streams.writable(key, now(), counters);
                    }
                    if ready.read
                        && streams.read(key, now(), counters, &mut |input| {
                            if let Input::Message(Received { flow, bytes, .. }) = input {
                                received.push((flow, bytes.to_vec()));
                            }
                        })
                    {
                        streams.finish(key, counters);
                    }
                }
            }
        }
        self.streams.expire(now(), &mut self.counters);
        self.events.extend(std::iter::from_fn(|| self.streams.take_event()));
    }
}

fn plain() -> Side<PassThrough> {
    Side::new(Box::new(|_, _| PassThrough))
}

fn numbered(number: u64, remote: SocketAddr) -> Flow {
    Flow { connection: Some(ConnectionId(number)), ..Flow::dial(ListenerId(0), remote) }
}

/// Runs turns until `is_done`.
fn until(mut is_done: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while !is_done() {
        assert!(std::time::Instant::now() < end, "it does not happen");
    }
}

const MESSAGE: &[u8] = b"OPTIONS sip:x SIP/2.0\r\nContent-Length: 0\r\n\r\n";

#[test]
fn both_sides_exchange_messages_through_a_layer() {
    let layer = || Side::new(Box::new(|_, _| Inverted));
    let (mut caller, mut callee) = (layer(), layer());
    caller.send(numbered(7, callee.address()), 1, MESSAGE);
    until(|| {
        caller.turn();
        callee.turn();
        !callee.received.is_empty()
    });
    let (flow, bytes) = callee.received.remove(0);
    assert_eq!(bytes, MESSAGE);
    callee.send(flow, 0, MESSAGE);
    until(|| {
        callee.turn();
        caller.turn();
        !caller.received.is_empty()
    });
    assert_eq!(caller.received, [(numbered(7, callee.address()), MESSAGE.to_vec())]);
    assert_eq!((caller.counters.opened, callee.counters.accepted), (1, 1));

    let raw = TcpListener::bind("127.0.0.1:0").unwrap();
    caller.send(numbered(8, raw.local_addr().unwrap()), 0, MESSAGE);
    caller.write_all();
    let mut wire = vec![0; MESSAGE.len()];
    raw.accept().unwrap().0.read_exact(&mut wire).unwrap();
    assert_eq!(wire, MESSAGE.iter().map(|byte| !byte).collect::<Vec<_>>());
}

#[test]
fn a_connection_that_the_peer_closed_is_reported_and_opened_again() {
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut side = plain();
    let flow = numbered(3, peer.local_addr().unwrap());
    for opened in 1..=2 {
        side.send(flow, 40 + opened, MESSAGE);
        side.write_all();
        let (mut accepted, _) = peer.accept().unwrap();
        accepted.read_exact(&mut vec![0; MESSAGE.len()]).unwrap();
        // A message of the peer confirms the earlier ones.
        if opened == 2 {
            accepted.write_all(MESSAGE).unwrap();
            until(|| {
                side.turn();
                side.received.len() == 1
            });
        }
        drop(accepted);
        until(|| {
            side.turn();
            side.counters.closed_by_peer == opened
        });
        assert_eq!((side.counters.opened, side.counters.connections), (opened, 0));
    }
    side.events.sort_by_key(|event| matches!(event, Event::Unreachable(_)));
    let closed = Event::Closed(ConnectionId(3));
    assert_eq!(side.events, [closed.clone(), closed, Event::Unreachable(Token(41))]);
}

#[test]
fn a_released_connection_is_closed_after_its_bytes_are_written() {
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut side = plain();
    side.send(numbered(5, peer.local_addr().unwrap()), 1, MESSAGE);
    side.streams.release(ConnectionId(5), now(), &mut side.counters);
    until(|| {
        side.turn();
        side.counters.connections == 0
    });
    let mut bytes = Vec::new();
    peer.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, MESSAGE);
    assert_eq!((side.events.as_slice(), side.counters.closed_by_peer), (&[][..], 0));
}

#[test]
fn a_refused_connection_and_a_forbidden_address_are_reported_and_counted() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut side = plain();
    side.send(numbered(1, closed), 9, MESSAGE);
    until(|| {
        side.turn();
        side.counters.not_opened == 1
    });
    assert!(side.events.contains(&Event::Unreachable(Token(9))), "{:?}", side.events);
    assert_eq!((side.counters.refused, side.counters.connections), (1, 0));
    let mut out = Outbox::new();
    out.send(numbered(1, closed), Token(10), MESSAGE);
    side.streams.send(&out, |_| false, now(), &mut side.counters);
    side.turn();
    assert!(side.events.contains(&Event::Unreachable(Token(10))), "{:?}", side.events);
    assert_eq!((side.counters.not_permitted, side.counters.opened), (1, 1));
}

#[test]
fn a_peer_that_does_not_read_is_closed_at_a_limit() {
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut side = plain();
    let flow = numbered(1, peer.local_addr().unwrap());
    let long = vec![b'x'; 60_000];
    // The kernel holds some megabytes.
    for _ in 0..2_000 {
        if side.counters.broken > 0 {
            break;
        }
        side.send(flow, 2, &long);
        side.turn();
        assert!(side.unwritten() <= WRITE_QUEUE_BYTES_MAX + long.len());
    }
    assert_eq!(side.counters.broken, 1);
    assert!(side.events.contains(&Event::Unreachable(Token(2))));
}
