//! Connections that a neighbour opened, for requests to it (RFC 5923).
//!
//! Tested: the offer that is taken, its end and its proof; offers of everybody else, which are not taken; our own offers. The
//! verification of certificates is `services/tls`.

use crate::harness::{
    ALICE, Request, Sent, Wire, World, forwarded, invite, only, request, requests, statuses, tcp_flow,
};
use ringway_sansio::{ConnectionId, Event, Flow, HostNameId, Instant, ListenerId, PeerNames, Transport};
use ringway_server::{Listener, Neighbour, NeighbourConnection};
use std::time::Duration;

const GATE: &str = "198.51.100.5:5061";
/// The neighbour's connection to this server comes from here.
const SOURCE: &str = "198.51.100.5:40000";
const NAME: &str = "gate.example.net";

fn neighbour(uri: &str) -> Neighbour {
    Neighbour {
        name: "gate".into(),
        uri: uri.into(),
        interval: Duration::from_secs(30),
        connection: NeighbourConnection::Kept,
        certificate: Some(NAME.into()),
        offers_alias: true,
    }
}

fn world_of(neighbours: &[Neighbour]) -> World {
    World::with(|config| {
        let address = "192.0.2.1:5061".parse().unwrap();
        config.listeners.push(Listener { transport: Transport::Tls, bound: address, advertised: address });
        config.neighbours = neighbours.to_vec();
    })
}

/// Server whose first attempt to dial the neighbour failed.
fn world() -> World {
    let mut world = world_of(&[neighbour(&format!("sip:{GATE};transport=tls"))]);
    let probe = only(world.due());
    assert_eq!((probe.to().as_str(), probe.flow.connection), (GATE, None));
    world.event(Event::Unreachable(probe.token));
    world.disconnected.clear();
    world
}

fn tls(connection: u64, from: &str) -> Flow {
    Flow { transport: Transport::Tls, listener: ListenerId(3), ..tcp_flow(connection, from) }
}

fn names(domains: &[&str]) -> PeerNames {
    let domains = domains.iter().map(|name| Box::from(*name)).collect();
    PeerNames::new(domains, Vec::new(), Instant::from_secs(1_800_000_000 + 3600)).unwrap()
}

fn options(via: &str) -> Request {
    request("OPTIONS", "sip:192.0.2.1:5061;transport=tls")
        .via(&format!("{via};rport;branch=z9hG4bK"))
        .call_id("options")
}

/// OPTIONS of the neighbour, with the offer.
fn offer() -> Request {
    options("SIP/2.0/TLS 198.51.100.5:5061;alias")
}

/// The next attempt of the link.
#[track_caller]
fn attempt(world: &mut World) -> Sent {
    let sent = requests(world.pass(Duration::from_secs(4)));
    only(sent.into_iter().filter(|sent| sent.method() == "OPTIONS").collect())
}

/// Answers a probe over the connection of the neighbour.
fn answer(world: &mut World, probe: &Sent, peer: Option<&PeerNames>) {
    world.message_of(probe.flow, &probe.answer(200, &[]), peer);
}

fn call(world: &mut World, id: &str) -> Vec<Sent> {
    let route = format!("Route: <sip:{GATE};transport=tls;lr>");
    world.udp(ALICE, &invite("sip:someone@example.com").line(&route).call_id(id))
}

#[test]
fn the_offered_connection_of_the_neighbour_is_used_instead_of_dialling() {
    let mut world = world();
    let peer = names(&[NAME]);
    let answered = world.message_of(tls(50, SOURCE), &offer().wire(), Some(&peer));
    assert_eq!(statuses(&answered), [200]);
    assert_eq!(statuses(&call(&mut world, "early")), [100, 480], "it did not answer OPTIONS there yet");
    let probe = attempt(&mut world);
    assert_eq!(probe.flow, tls(50, SOURCE));
    answer(&mut world, &probe, Some(&peer));
    assert_eq!(forwarded(call(&mut world, "call")).flow.connection, Some(ConnectionId(50)));
    assert_eq!(world.server.counters().neighbour_aliases, 1);
    // After its end the link dials.
    world.event(Event::Closed(ConnectionId(50)));
    assert_eq!(statuses(&call(&mut world, "down")), [100, 480]);
    let dialled = attempt(&mut world);
    assert_eq!((dialled.to().as_str(), dialled.flow.connection), (GATE, None));
}

#[test]
fn nobody_else_attracts_requests_for_the_neighbour() {
    let mine = names(&[NAME]);
    let other = names(&["mallory.example"]);
    let user =
        PeerNames::new(Vec::new(), vec!["sip:gate.example.net@example.org".into()], Instant::FAR).unwrap();
    let near =
        names(&["example.net", "a.gate.example.net", "*.example.net", "gate.example.net.mallory.example"]);
    let plain = options("SIP/2.0/TLS 198.51.100.5:5061");
    let elsewhere = options("SIP/2.0/TLS 198.51.100.5:5070;alias");
    let over_tcp = options("SIP/2.0/TCP 198.51.100.5:5061;alias");
    let below = plain.clone().line("Via: SIP/2.0/TLS 198.51.100.5:5061;alias;branch=z9hG4bKbelow");
    let tcp = Flow { transport: Transport::Tcp, ..tls(50, SOURCE) };
    let wss = Flow { transport: Transport::Wss, ..tls(50, SOURCE) };
    for (why, flow, request, peer) in [
        ("no certificate", tls(50, SOURCE), &offer(), None),
        ("another server's certificate", tls(50, SOURCE), &offer(), Some(&other)),
        ("a user's certificate", tls(50, SOURCE), &offer(), Some(&user)),
        ("similar names", tls(50, SOURCE), &offer(), Some(&near)),
        ("another source", tls(50, "203.0.113.66:5061"), &offer(), Some(&mine)),
        ("another port", tls(50, SOURCE), &elsewhere, Some(&mine)),
        ("no offer", tls(50, SOURCE), &plain, Some(&mine)),
        ("the offer of a server before it", tls(50, SOURCE), &below, Some(&mine)),
        ("not TLS by its Via", tls(50, SOURCE), &over_tcp, Some(&mine)),
        ("not TLS", tcp, &offer(), Some(&mine)),
        ("a web page", wss, &offer(), Some(&mine)),
    ] {
        let mut world = world();
        world.message_of(flow, &request.wire(), peer);
        let probe = attempt(&mut world);
        assert_eq!((probe.to().as_str(), probe.flow.connection), (GATE, None), "{why}");
    }
}

#[test]
fn neighbours_with_one_certificate_are_distinguished_by_their_addresses() {
    let second = Neighbour { name: "second".into(), ..neighbour("sip:198.51.100.6:5061;transport=tls") };
    let mut world = world_of(&[neighbour(&format!("sip:{GATE};transport=tls")), second]);
    for probe in world.due() {
        world.event(Event::Unreachable(probe.token));
    }
    world.message_of(tls(50, SOURCE), &offer().wire(), Some(&names(&[NAME])));
    let sent = requests(world.pass(Duration::from_secs(2)));
    let mut connections: Vec<_> = sent.iter().map(|sent| (sent.to(), sent.flow.connection)).collect();
    connections.sort();
    assert_eq!(
        connections,
        [(SOURCE.to_owned(), Some(ConnectionId(50))), ("198.51.100.6:5061".to_owned(), None)]
    );
}

#[test]
fn a_host_name_must_be_in_the_certificate_too() {
    for (peer, is_taken) in [(names(&[NAME]), false), (names(&[NAME, "host.example.net"]), true)] {
        let mut world = world_of(&[neighbour("sip:host.example.net;transport=tls")]);
        world.due();
        let resolve = |world: &mut World| {
            let (query, target) = world.lookups.remove(0);
            let servers = target.server_at("198.51.100.5".parse().unwrap(), HostNameId(5)).into();
            only(world.event(Event::Resolved { query, servers }))
        };
        let probe = resolve(&mut world);
        world.event(Event::Unreachable(probe.token));
        world.message_of(tls(50, SOURCE), &offer().wire(), Some(&peer));
        world.pass(Duration::from_secs(2));
        assert_eq!(resolve(&mut world).flow.connection, is_taken.then_some(ConnectionId(50)));
    }
}

#[test]
fn a_connection_whose_certificate_counts_no_more_is_not_used_any_more() {
    for peer in [None, Some(names(&["other.example"]))] {
        let mut world = world();
        world.message_of(tls(50, SOURCE), &offer().wire(), Some(&names(&[NAME])));
        let probe = attempt(&mut world);
        answer(&mut world, &probe, Some(&names(&[NAME])));
        // A reload has the certificate checked at once.
        let config = crate::harness::config();
        let listener = Listener {
            transport: Transport::Tls,
            bound: "192.0.2.1:5061".parse().unwrap(),
            advertised: "192.0.2.1:5061".parse().unwrap(),
        };
        let listeners = config.listeners.iter().cloned().chain([listener]).collect();
        let neighbours = vec![neighbour(&format!("sip:{GATE};transport=tls"))];
        world.server.reconfigure(std::sync::Arc::new(ringway_server::Config {
            listeners,
            neighbours,
            ..config
        }));
        let check = only(requests(world.due()));
        assert_eq!(check.flow.connection, Some(ConnectionId(50)));
        answer(&mut world, &check, peer.as_ref());
        assert_eq!(statuses(&call(&mut world, "call")), [100, 480]);
        assert!(world.disconnected.is_empty(), "its requests to this server are another matter");
        assert_eq!(attempt(&mut world).flow.connection, None);
    }
}

#[test]
fn an_offer_that_does_not_work_is_not_taken_twice_in_a_row() {
    let mut world = world();
    let peer = names(&[NAME]);
    world.message_of(tls(50, SOURCE), &offer().wire(), Some(&peer));
    let probe = attempt(&mut world);
    world.event(Event::Unreachable(probe.token));
    world.message_of(tls(51, SOURCE), &offer().wire(), Some(&peer));
    let dialled = only(requests(world.pass(Duration::from_secs(8))));
    assert_eq!(dialled.flow.connection, None);
    // An offer whose connection is closed is no offer.
    world.message_of(tls(52, SOURCE), &offer().call_id("another").wire(), Some(&peer));
    world.event(Event::Closed(ConnectionId(52)));
    world.event(Event::Unreachable(dialled.token));
    assert_eq!(only(requests(world.pass(Duration::from_secs(16)))).flow.connection, None);
}

#[test]
fn connections_to_a_neighbour_are_offered_and_no_others() {
    let mut world = world_of(&[neighbour(&format!("sip:{GATE};transport=tls"))]);
    let probe = only(world.due());
    assert!(probe.header("Via").starts_with("SIP/2.0/TLS 192.0.2.1:5061;alias;branch="), "{}", probe.text());
    world.message_of(tls(7, GATE), &probe.answer(200, &[]), Some(&names(&[NAME])));
    let over_it = forwarded(call(&mut world, "call"));
    let vias = over_it.headers("Via");
    assert!(vias[0].contains(";alias;oc;") && !vias[1].contains("alias"), "{vias:?}");
    let elsewhere = invite("sip:someone@203.0.113.1;transport=tls").call_id("elsewhere");
    let vias = forwarded(world.udp(ALICE, &elsewhere)).headers("Via");
    assert!(!vias[0].contains("alias"), "{vias:?}");
}
