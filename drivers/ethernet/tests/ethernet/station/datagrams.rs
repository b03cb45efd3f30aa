//! UDP, ARP and fragments.

use crate::station::harness::{Link, OWN, PEER};
use ringway_ethernet::Lease;
use ringway_sansio::{Event, Token};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

#[test]
fn a_datagram_is_answered_from_the_port_it_came_to() {
    let mut link = Link::new();
    let mut host = link.host();
    let socket = host.udp(4000);
    host.send(socket, b"hello");
    link.talk(&mut host, 5);
    let (bytes, from) = host.received(socket).unwrap();
    assert_eq!((bytes.as_slice(), from), (&b"hello"[..], SocketAddr::V4(SocketAddrV4::new(OWN, 5060))));
    let counters = link.station.counters();
    assert_eq!((counters.datagrams_in, counters.datagrams_out, counters.datagrams_reassembled), (1, 1, 0));
}

#[test]
fn large_datagrams_come_and_go_in_fragments() {
    let mut link = Link::new();
    let mut host = link.host();
    let socket = host.udp(4000);
    // smoltcp's host sends at most its fragmentation buffer; the echo has the same length.
    for length in [1472, 1473, 1480, 2953, 4000] {
        let bytes: Vec<u8> = (0..length).map(|place| b'a' + (place % 23) as u8).collect();
        host.send(socket, &bytes);
        link.talk(&mut host, 20);
        let (back, _) = host.received(socket).unwrap_or_else(|| panic!("{length} bytes never came back"));
        assert!(back == bytes, "{length} bytes came back otherwise");
    }
    assert_eq!(link.station.counters().datagrams_reassembled, 4);
}

#[test]
fn incomplete_packets_block_reassembly_for_seconds_only() {
    let mut link = Link::new();
    let mut host = link.host();
    let socket = host.udp(4000);
    let large = [b'x'; 3000];
    host.send(socket, b"known");
    link.talk(&mut host, 5);
    for _ in 0..4 {
        host.send(socket, &large);
        (0..5).for_each(|_| host.poll(link.now));
        let first = link.to_station.borrow_mut().drain(..).next().unwrap();
        link.to_station.borrow_mut().push_back(first);
        link.turn();
    }
    host.send(socket, &large);
    link.talk(&mut host, 20);
    assert_eq!(link.station.counters().datagrams_reassembled, 0, "there is room for four");
    link.pass(Duration::from_secs(5));
    host.send(socket, &large);
    link.talk(&mut host, 20);
    assert_eq!(link.station.counters().datagrams_reassembled, 1);
}

#[test]
fn an_unknown_station_is_resolved_and_gets_the_queued_datagrams() {
    let mut link = Link::new();
    let mut host = link.host();
    let (socket, other) = (host.udp(4000), host.udp(4001));
    // The station has the host's MAC address from its ARP request; the host's other port needs no further one.
    host.send(socket, format!("to {PEER}:4001 hi").as_bytes());
    link.talk(&mut host, 5);
    assert_eq!(host.received(other).unwrap().0, b"hi");
}

#[test]
fn an_address_without_a_station_is_reported_after_three_requests() {
    let mut link = Link::new();
    let mut host = link.host();
    let socket = host.udp(4000);
    host.send(socket, b"to 192.0.2.77:5060 hi");
    link.talk(&mut host, 5);
    assert!(link.node().events.is_empty());
    link.sent();
    for _ in 0..4 {
        link.pass(Duration::from_secs(1));
    }
    assert_eq!(link.node().events, [Event::Unreachable(Token(9))]);
    assert_eq!((link.sent().len(), link.station.counters().unanswered), (2, 1));
}

#[test]
fn other_networks_are_reached_by_the_gateway_and_only_by_it() {
    let mut link = Link::new();
    let mut host = link.host();
    let socket = host.udp(4000);
    host.send(socket, b"to 198.51.100.9:5060 far");
    link.talk(&mut host, 5);
    // The host is the gateway: it received a packet for another address, and forwarded it or not.
    assert_eq!(link.station.counters().datagrams_out, 1);
    link.station.set_lease(Lease::fixed(OWN, 24, None));
    host.send(socket, b"to 198.51.100.9:5060 far");
    link.talk(&mut host, 5);
    assert_eq!(link.node().events, [Event::Unreachable(Token(9))]);
    assert_eq!(link.station.counters().no_route, 1);
}

#[test]
fn invalid_addresses_are_never_sent_to() {
    let mut link = Link::new();
    let mut host = link.host();
    let socket = host.udp(4000);
    for address in ["0.0.0.0", "127.0.0.1", "255.255.255.255", "192.0.2.255", "224.0.0.1", "192.0.2.1"] {
        host.send(socket, format!("to {address}:5060 x").as_bytes());
        host.send(socket, format!("to {PEER}:0 x").as_bytes());
        host.send(socket, b"to [2001:db8::1]:5060 x");
    }
    link.talk(&mut host, 5);
    assert_eq!(link.station.counters().no_route, 18);
    assert_eq!(link.node().events.len(), 18);
}

#[test]
fn without_an_address_nothing_is_served() {
    let mut link = Link::bare();
    link.serve();
    let mut host = link.host();
    let socket = host.udp(4000);
    host.send(socket, b"hello");
    link.talk(&mut host, 50);
    assert!(link.node().messages.is_empty());
    assert!(Lease::fixed(Ipv4Addr::UNSPECIFIED, 24, None).is_none());
    assert!(Lease::fixed(OWN, 0, None).is_none());
    assert!(Lease::fixed(Ipv4Addr::new(192, 0, 2, 255), 24, None).is_none());
}
