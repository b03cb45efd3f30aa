//! UDP clients that the workers serve. Tested: timeouts, datagrams at the worker that sent, results at shards in the same
//! turn, the end of service. Not tested here: the client of media relays (`apps/ringway/src/serve/relays.rs`).

use crate::node::{events, start};
use ringway_linux::{Config, DatagramClient, Inboxes};
use ringway_sansio::{Event, Instant, Token};
use ringway_test_support::eventually::wait_until;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Asks a server once, by the first worker that is awake; reports its answers to shard 3.
#[derive(Debug)]
struct Asker {
    server: SocketAddr,
    sockets: Vec<UdpSocket>,
    inboxes: Inboxes,
    due: AtomicU64,
    asked_by: AtomicUsize,
}

impl Asker {
    fn new(server: SocketAddr, inboxes: Inboxes) -> Self {
        let sockets = (0..inboxes.workers()).map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        let (due, asked_by) = (AtomicU64::new(0), AtomicUsize::new(usize::MAX));
        Self { server, sockets: sockets.collect(), inboxes, due, asked_by }
    }
}

impl DatagramClient for Asker {
    fn socket(&self, worker: usize) -> Option<BorrowedFd<'_>> {
        self.sockets.get(worker).map(AsFd::as_fd)
    }

    fn on_datagram(&self, worker: usize, _now: Instant, from: SocketAddr, bytes: &[u8]) {
        assert_eq!((from, worker), (self.server, self.asked_by.load(Ordering::SeqCst)));
        let token = Token(std::str::from_utf8(bytes).unwrap().parse().unwrap());
        self.inboxes.deliver_at(worker, 3, Event::Unreachable(token));
    }

    fn on_timeout(&self, worker: usize, _now: Instant) {
        if self.due.swap(Instant::FAR.as_nanos(), Ordering::SeqCst) == 0 {
            self.asked_by.store(worker, Ordering::SeqCst);
            self.sockets[worker].send_to(b"question", self.server).unwrap();
        }
    }

    fn next_due(&self) -> Instant {
        Instant::from_nanos(self.due.load(Ordering::SeqCst))
    }
}

#[test]
fn workers_serve_a_client_until_it_is_dropped() {
    let runtime = start(&["udp:127.0.0.1:0"], 2, 4, Config::default());
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let asker = Arc::new(Asker::new(server.local_addr().unwrap(), runtime.inboxes()));
    let watched = runtime.watch(Arc::clone(&asker) as _).unwrap();
    let mut buffer = [0; 100];
    let (length, from) = server.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"question");
    let tokens: Vec<u64> = (0..100).collect();
    for token in &tokens {
        server.send_to(token.to_string().as_bytes(), from).unwrap();
    }
    wait_until("the answers", || events(&runtime, 3).len() == tokens.len());
    let reported: Vec<_> = tokens.iter().map(|token| Event::Unreachable(Token(*token))).collect();
    assert_eq!(events(&runtime, 3), reported);
    drop(watched);
    wait_until("the end", || Arc::strong_count(&asker) == 1);
    server.send_to(b"7", from).unwrap();
    // Its socket is still open: a worker that read it would have reported this before the next answer.
    let other = Arc::new(Asker::new(server.local_addr().unwrap(), runtime.inboxes()));
    let _watched = runtime.watch(Arc::clone(&other) as _).unwrap();
    let (_, from) = server.recv_from(&mut buffer).unwrap();
    server.send_to(b"8", from).unwrap();
    wait_until("the other's answer", || events(&runtime, 3).len() > tokens.len());
    assert_eq!(events(&runtime, 3).last(), Some(&Event::Unreachable(Token(8))));
}
