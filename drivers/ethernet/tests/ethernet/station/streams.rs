//! TCP.

use crate::station::harness::{Link, PEER};
use ringway_sansio::{ConnectionId, Event, Token};
use smoltcp::socket::tcp::State;
use std::time::Duration;

#[test]
fn a_connection_is_accepted_answered_and_its_end_reported() {
    let mut link = Link::new();
    let mut host = link.host();
    let socket = host.connect(4000);
    link.talk(&mut host, 10);
    host.tcp(socket).send_slice(b"one\ntwo\nthr").unwrap();
    link.talk(&mut host, 10);
    assert_eq!(host.read(socket), "one\ntwo\n");
    host.tcp(socket).send_slice(b"ee\n").unwrap();
    link.talk(&mut host, 10);
    assert_eq!((host.read(socket).as_str(), link.station.connections_len()), ("three\n", 1));
    host.tcp(socket).close();
    link.talk(&mut host, 10);
    // Numbers begin at random: one of before a restart is never used again.
    assert!(matches!(link.node().events[..], [Event::Closed(ConnectionId(2..))]));
    assert_eq!(link.station.connections_len(), 0);
    assert!(matches!(host.tcp(socket).state(), State::TimeWait | State::Closed));
}

#[test]
fn requests_before_the_peers_end_are_answered() {
    let mut link = Link::new();
    let mut host = link.host();
    let socket = host.connect(4000);
    link.talk(&mut host, 10);
    let line = format!("{}\n", "x".repeat(999));
    for _ in 0..40 {
        host.tcp(socket).send_slice(line.as_bytes()).unwrap();
    }
    host.tcp(socket).close();
    link.talk(&mut host, 3000);
    assert_eq!(host.read(socket).len(), 40_000);
}

#[test]
fn a_connection_is_dialled_once_and_used_again() {
    let mut link = Link::new();
    let mut host = link.host();
    let (udp, server) = (host.udp(4000), host.listen(6000));
    for text in ["first", "second"] {
        host.send(udp, format!("dial {PEER}:6000 {text}\n").as_bytes());
        link.talk(&mut host, 20);
    }
    assert_eq!(host.read(server), "first\nsecond\n");
    assert_eq!(link.station.counters().connections_dialled, 1);
    host.tcp(server).send_slice(b"answer\n").unwrap();
    link.talk(&mut host, 20);
    assert!(link.node().messages.contains(&"answer\n".to_owned()));
}

#[test]
fn each_number_has_a_connection_which_alone_is_closed_after_its_last_message() {
    let mut link = Link::new();
    let mut host = link.host();
    let udp = host.udp(4000);
    let servers = [0, 1, 2].map(|number| {
        let server = host.listen(6000);
        for _ in 0..2 {
            host.send(udp, format!("numbered {PEER}:6000 {number}\n").as_bytes());
            link.talk(&mut host, 20);
        }
        server
    });
    assert_eq!(link.station.counters().connections_dialled, 3);
    host.send(udp, format!("disconnect {PEER}:6000 1").as_bytes());
    link.talk(&mut host, 50);
    assert_eq!(servers.map(|server| host.read(server)), ["0\n0\n", "1\n1\nlast\n", "2\n2\n"]);
    assert_eq!(servers.map(|server| host.tcp(server).may_recv()), [true, false, true]);
    assert_eq!((link.station.connections_len(), link.station.counters().connections_dialled), (2, 3));
}

#[test]
fn a_refused_connection_is_reported_to_the_node() {
    let mut link = Link::new();
    let mut host = link.host();
    let udp = host.udp(4000);
    host.send(udp, format!("dial {PEER}:6001 nobody\n").as_bytes());
    link.talk(&mut host, 50);
    assert!(link.node().events.contains(&Event::Unreachable(Token(9))), "{:?}", link.node().events);
    assert_eq!(link.station.counters().connections_failed, 1);
}

#[test]
fn a_connection_that_ends_without_a_received_message_fails_its_packets() {
    for answer in ["", "answer\n"] {
        let mut link = Link::new();
        let mut host = link.host();
        let (udp, server) = (host.udp(4000), host.listen(6000));
        host.send(udp, format!("dial {PEER}:6000 hello\n").as_bytes());
        link.talk(&mut host, 20);
        assert_eq!(host.read(server), "hello\n");
        if !answer.is_empty() {
            host.tcp(server).send_slice(answer.as_bytes()).unwrap();
            link.talk(&mut host, 20);
        }
        host.tcp(server).close();
        link.talk(&mut host, 50);
        let is_reported = link.node().events.contains(&Event::Unreachable(Token(9)));
        assert_eq!(is_reported, answer.is_empty(), "{:?}", link.node().events);
    }
}

#[test]
fn a_message_that_never_ends_ends_its_connection() {
    let mut link = Link::new();
    let mut host = link.host();
    let (slow, long) = (host.connect(4000), host.connect(4001));
    link.talk(&mut host, 10);
    host.tcp(slow).send_slice(b"half").unwrap();
    for _ in 0..3 {
        host.tcp(long).send_slice(&[b'x'; 30_000]).unwrap();
        link.talk(&mut host, 500);
    }
    assert_eq!(link.station.counters().connections_unframed, 1);
    link.talk(&mut host, 12_000);
    assert_eq!((link.station.counters().connections_slow, link.station.connections_len()), (1, 0));
}

#[test]
fn connections_are_limited_and_slots_are_reused() {
    let mut link = Link::new();
    let mut host = link.host();
    let mut sockets = Vec::new();
    for batch in 0..40 {
        sockets.extend((0..8).map(|number| host.connect(4000 + batch * 8 + number)));
        link.talk(&mut host, 5);
    }
    link.talk(&mut host, 20);
    let open = link.station.connections_len();
    assert_eq!(open, 256);
    for socket in &sockets {
        host.tcp(*socket).abort();
    }
    link.talk(&mut host, 10);
    link.pass(Duration::from_secs(11));
    assert_eq!(link.station.connections_len(), 0);
    let again = host.connect(9000);
    link.talk(&mut host, 10);
    host.tcp(again).send_slice(b"again\n").unwrap();
    link.talk(&mut host, 10);
    assert_eq!(host.read(again), "again\n");
}
