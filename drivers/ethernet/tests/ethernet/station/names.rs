//! DNS: a name that exists, one that does not, no answer, and too many lookups.

use crate::station::harness::{Link, OWN, PEER};
use ringway_ethernet::Lease;
use ringway_sansio::{Event, HostNameId, Target, Transport};
use ringway_test_support::ethernet::cable::name_answer;
use std::net::Ipv4Addr;
use std::time::Duration;

fn link_with_name_server() -> Link {
    let mut link = Link::new();
    let lease = Lease { name_servers: vec![PEER], ..Lease::fixed(OWN, 24, Some(PEER)).unwrap() };
    link.station.set_lease(Some(lease));
    link
}

fn target(host: &str) -> Target {
    Target::of_address(host, 5060, Transport::Udp)
}

fn resolved(address: Option<Ipv4Addr>) -> Event {
    let server = address.map(|v4| target("").server_at(v4.into(), HostNameId::NONE));
    Event::Resolved { query: 7, servers: server.into_iter().collect() }
}

fn look_up(host_name: &str, address: Option<Ipv4Addr>) -> Vec<Event> {
    let mut link = link_with_name_server();
    let mut host = link.host();
    let socket = host.udp(53);
    link.station.resolve(link.now, 7, target(host_name));
    for _ in 0..10 {
        link.talk(&mut host, 2);
        if let Some((question, from)) = host.received(socket) {
            host.send_to(socket, &name_answer(&question, address), from);
        }
    }
    link.node().events.clone()
}

#[test]
fn a_name_becomes_an_address() {
    let address = Ipv4Addr::new(198, 51, 100, 7);
    assert_eq!(look_up("pbx.example.org", Some(address)), [resolved(Some(address))]);
}

#[test]
fn missing_and_invalid_names_are_reported() {
    assert_eq!(look_up("nobody.example.org", None), [resolved(None)]);
    for name in ["", "a..b", &"x".repeat(64), &"x.".repeat(200)] {
        assert_eq!(look_up(name, None), [resolved(None)], "{name:?}");
    }
}

#[test]
fn a_lookup_without_an_answer_fails() {
    let mut link = link_with_name_server();
    let mut host = link.host();
    host.udp(53);
    link.station.resolve(link.now, 7, target("pbx.example.org"));
    link.talk(&mut host, 10);
    for _ in 0..120 {
        host.poll(link.now);
        link.pass(Duration::from_secs(1));
    }
    assert_eq!(link.node().events, [resolved(None)]);
}

#[test]
fn a_fifth_lookup_is_refused_at_once() {
    let mut link = link_with_name_server();
    for _ in 0..5 {
        link.station.resolve(link.now, 7, target("pbx.example.org"));
    }
    assert_eq!((link.node().events.len(), link.station.counters().lookups_refused), (1, 1));
}
