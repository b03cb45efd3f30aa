//! Connections of proxies in front whose header has not arrived yet (docs/decisions/0058-proxy-protocol-and-dscp.md).
//!
//! They are no connections of the transport: they have no number, count for no source, and no layer exists for them. The header
//! alone is read from the socket, so that the bytes behind it, as a ClientHello, remain for the layers.

use super::{Alarm, Streams};
use crate::config::Acceptance;
use crate::listeners::WORKERS_MAX;
use crate::sys::Interest;
use ringway_sansio::{Flow, Framer, Instant, ListenerId, TimerKey};
use ringway_stream::{ProxiedPeer, ProxyHeader};
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;

/// Connections of a worker whose header is awaited, at most [`AWAITED_MAX`].
#[derive(Default)]
pub(super) struct AwaitedHeaders {
    slots: Vec<Option<AwaitedHeader>>,
}

struct AwaitedHeader {
    socket: TcpStream,
    listener: usize,
    proxy: SocketAddr,
    header: ProxyHeader,
    since: Instant,
    timer: TimerKey,
}

/// Result of reading a header.
enum HeaderRead {
    /// More bytes are needed.
    Incomplete,
    /// The header is complete.
    Complete(ProxiedPeer),
    /// The bytes are no valid header.
    Invalid,
    /// The proxy ended the connection, or the socket failed.
    Ended,
}

impl<F: Framer> Streams<F> {
    /// Handles a new connection of a listener.
    pub(super) fn arrived(&mut self, socket: TcpStream, listener: usize, peer: SocketAddr, now: Instant) {
        let id = ListenerId(u8::try_from(listener).unwrap_or(u8::MAX));
        // Dropping the socket closes it.
        match self.common.acceptance(id, Flow::canonical(peer).ip()) {
            Acceptance::Direct => self.accepted(socket, listener, peer, now),
            Acceptance::Refused => self.counters.proxy_sources_refused.increment(),
            Acceptance::Proxied => {
                let (header, timer) = (ProxyHeader::new(), TimerKey::NONE);
                let proxy = Flow::canonical(peer);
                let awaited = AwaitedHeader { socket, listener, proxy, header, since: now, timer };
                self.await_header(awaited, now);
            }
        }
    }

    /// Reads a header that has arrived with the connection, or waits for the rest of it.
    fn await_header(&mut self, mut awaited: AwaitedHeader, now: Instant) {
        match awaited.read() {
            HeaderRead::Incomplete => {}
            read => return self.header_read(awaited, &read, now),
        }
        let Some(index) = self.free_header() else { return };
        let token = HEADERS | index as u64;
        if self.epoll.add(awaited.socket.as_fd(), token, Interest::Read).is_err() {
            return self.counters.connections_refused.increment();
        }
        awaited.timer = self.alarms.arm(now + self.common.streams.handshake, Alarm::Header(index));
        if let Some(slot) = self.headers.slots.get_mut(index) {
            *slot = Some(awaited);
        }
    }

    /// A free slot: that of the oldest connection if there is none.
    fn free_header(&mut self) -> Option<usize> {
        let slots = &mut self.headers.slots;
        if let Some(index) = slots.iter().position(Option::is_none) {
            return Some(index);
        }
        if slots.len() < AWAITED_MAX {
            slots.push(None);
            return Some(slots.len() - 1);
        }
        let ages = slots.iter().enumerate().filter_map(|(index, slot)| Some((slot.as_ref()?.since, index)));
        let (_, oldest) = ages.min()?;
        self.header_late(oldest);
        Some(oldest)
    }

    /// Continues to read a header.
    pub(crate) fn read_header(&mut self, index: usize, now: Instant) {
        let Some(Some(awaited)) = self.headers.slots.get_mut(index) else { return };
        let read = awaited.read();
        if matches!(read, HeaderRead::Incomplete) {
            return;
        }
        let Some(awaited) = self.take_header(index) else { return };
        // The connection is added with its number. It fails only for an unwatched descriptor.
        let _ = self.epoll.remove(awaited.socket.as_fd());
        self.header_read(awaited, &read, now);
    }

    /// Accepts the connection for its client, or closes it.
    fn header_read(&mut self, awaited: AwaitedHeader, read: &HeaderRead, now: Instant) {
        let AwaitedHeader { socket, listener, proxy, header, .. } = awaited;
        match read {
            HeaderRead::Complete(peer) => self.accepted(socket, listener, address_of(*peer, proxy), now),
            HeaderRead::Invalid => self.counters.proxy_headers_refused.increment(),
            // A health check that only connects is no fault.
            HeaderRead::Ended if header.is_empty() => {}
            HeaderRead::Ended => self.counters.proxy_headers_refused.increment(),
            HeaderRead::Incomplete => {}
        }
    }

    /// Closes a connection whose header is not complete in time.
    pub(super) fn header_late(&mut self, index: usize) {
        if self.take_header(index).is_some() {
            self.counters.proxy_headers_late.increment();
        }
    }

    /// Closes the connections of a listener that wait for their header; `None`: of all.
    pub(super) fn drop_headers_of(&mut self, listener: Option<usize>) {
        for index in 0..self.headers.slots.len() {
            let slot = self.headers.slots.get(index).and_then(Option::as_ref);
            if slot.is_some_and(|awaited| listener.is_none_or(|of| of == awaited.listener)) {
                self.take_header(index);
            }
        }
    }

    fn take_header(&mut self, index: usize) -> Option<AwaitedHeader> {
        let awaited = self.headers.slots.get_mut(index)?.take()?;
        self.alarms.cancel(awaited.timer);
        Some(awaited)
    }
}

impl AwaitedHeader {
    /// Reads what has arrived of the header, and no byte behind it.
    fn read(&mut self) -> HeaderRead {
        let mut room = [0; ProxyHeader::BYTES_MAX];
        loop {
            let wanted = self.header.missing();
            let Some(room) = room.get_mut(..wanted) else { return HeaderRead::Invalid };
            let count = match self.socket.read(room) {
                Ok(0) => return HeaderRead::Ended,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return HeaderRead::Incomplete,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return HeaderRead::Ended,
            };
            match self.header.receive(room.get(..count).unwrap_or_default()) {
                Ok(Some((peer, _))) => return HeaderRead::Complete(peer),
                Ok(None) => {}
                Err(_) => return HeaderRead::Invalid,
            }
        }
    }
}

/// Address of the peer that the header of `proxy` names. A loopback address of another machine is not one of this machine: its client is the
/// machine of the proxy.
fn address_of(peer: ProxiedPeer, proxy: SocketAddr) -> SocketAddr {
    match peer {
        ProxiedPeer::Client(client) if client.ip().is_loopback() && !proxy.ip().is_loopback() => proxy,
        ProxiedPeer::Client(client) => client,
        ProxiedPeer::Proxy => proxy,
    }
}

/// Index of an awaited header by the token of epoll.
pub(crate) const fn header_of(token: u64) -> Option<usize> {
    if token & HEADERS == HEADERS { Some((token & !HEADERS) as usize) } else { None }
}

/// Tokens of epoll: with an owner that is not a worker, above those of listeners, of the inbox and of clients.
const HEADERS: u64 = (WORKERS_MAX as u64) << 56 | 1 << 34;

/// Maximum number of connections of a worker whose header is awaited; then the oldest one is closed. A proxy sends the header
/// when it has connected, and most are read when the connection is accepted. They are beyond the limit of connections, whose
/// reserve of descriptors has room for them.
const AWAITED_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_of_another_machine_is_that_machine() {
        for (client, proxy, expected) in [
            ("203.0.113.9:1", "192.0.2.7:5", "203.0.113.9:1"),
            ("127.0.0.1:1", "192.0.2.7:5", "192.0.2.7:5"),
            ("[::1]:1", "[2001:db8::7]:5", "[2001:db8::7]:5"),
            ("127.0.0.9:1", "127.0.0.1:5", "127.0.0.9:1"),
        ] {
            let [client, proxy, expected] = [client, proxy, expected].map(|text| text.parse().unwrap());
            assert_eq!(address_of(ProxiedPeer::Client(client), proxy), expected, "{client}");
            assert_eq!(address_of(ProxiedPeer::Proxy, proxy), proxy);
        }
    }
}
