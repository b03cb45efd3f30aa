//! To send or receive as a node of a cluster, or as a neighbour.

use super::EVE;
use crate::harness::{ALICE, BOB, Request, STRANGER, Sent, Wire, World, invite, request, requests, tcp_flow};
use crate::row::{Door, Row, Seen, Thesis};
use ringway_location::NodeName;
use ringway_sansio::{ConnectionId, Defence, Event, Flow, Instant, ListenerId, PeerNames, Transport};
use ringway_server::{ClusterSecret, LinkedNode, Links, Listener, Neighbour, NeighbourConnection};
use std::time::Duration;

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "a program without the certificate of a node calls over a link, with the identity of another caller",
        door: Door::Link,
        thesis: Thesis::Impersonation,
        defence: Defence::LinkPeer,
        attack: calls_over_a_link,
    },
    Row {
        name: "a node calls a connection whose token it did not get",
        door: Door::Link,
        thesis: Thesis::CallHijacking,
        defence: Defence::FlowToken,
        attack: node_makes_a_token,
    },
    Row {
        name: "another program at the address of a neighbour offers its connection, and gets the calls",
        door: Door::Neighbour,
        thesis: Thesis::CallHijacking,
        defence: Defence::NeighbourName,
        attack: offers_a_connection,
    },
];

const OTHER: &str = "203.0.113.11:5070";
const LINKS: ListenerId = ListenerId(4);

/// Node with a link to another one; bob's phone is at connection 5, and mallory's at connection 6.
fn node() -> World {
    World::with(|config| {
        for address in ["192.0.2.1:5061", "192.0.2.1:5070"] {
            let address = address.parse().unwrap();
            config.listeners.push(Listener {
                transport: Transport::Tls,
                bound: address,
                advertised: address,
            });
        }
        config.auth.enabled = true;
        let named = |name: &str| NodeName::read(name.as_bytes()).unwrap();
        let other = LinkedNode { name: named("other"), address: OTHER.parse().unwrap() };
        config.neighbours.push(Neighbour {
            name: "other".into(),
            uri: other.uri(),
            interval: Duration::from_secs(30),
            connection: NeighbourConnection::Kept,
            certificate: None,
            offers_alias: false,
        });
        config.links = Some(Links {
            node: named("own"),
            listener: LINKS,
            secret: ClusterSecret::new(&[1; 32]),
            accepted_secret: None,
            nodes: [other].into(),
        });
    })
}

/// Path of the phone at a connection.
fn path_of(world: &World, connection: u64) -> String {
    String::from_utf8(world.server.link_path(&tcp_flow(connection, BOB), world.now)).unwrap()
}

/// Sends an INVITE by this path over a link.
fn over_link(world: &mut World, path: &str, from: &str, peer: Option<&PeerNames>) -> Vec<Sent> {
    let call: Request = request("INVITE", "sip:bob@10.0.0.5")
        .from(EVE)
        .to("<sip:bob@example.org>")
        .via(&format!("SIP/2.0/TLS {from};rport;branch=z9hG4bK"))
        .line(&format!("Route: {path}"))
        .line("Contact: <sip:eve@203.0.113.66>")
        .line("P-Asserted-Identity: <sip:boss@example.org>");
    let flow = Flow { transport: Transport::Tls, listener: LINKS, ..tcp_flow(100, from) };
    world.message_of(flow, &call.wire(), peer)
}

/// True if a request went over this connection.
fn went_over(sent: Vec<Sent>, connection: u64) -> bool {
    requests(sent).iter().any(|sent| sent.flow.connection == Some(ConnectionId(connection)))
}

fn calls_over_a_link() -> Seen {
    let mut world = node();
    let path = path_of(&world, 5);
    let sent = over_link(&mut world, &path, STRANGER, None);
    Seen::new(&world, went_over(sent, 5))
}

fn node_makes_a_token() -> Seen {
    let mut world = node();
    // The MAC of one, and the connection of another.
    let (own, others) = (path_of(&world, 6), path_of(&world, 5));
    let at = own.bytes().zip(others.bytes()).take_while(|(one, other)| one == other).count();
    let mac = others.find('.').unwrap() - 8;
    assert!(at < mac, "{own} {others}");
    let forged = [&own[..mac], &others[mac..]].concat();
    let other = vec!["other.node.ringway.internal".into()];
    let names = PeerNames::new(other, Vec::new(), Instant::from_secs(1_900_000_000)).unwrap();
    let sent = over_link(&mut world, &forged, OTHER, Some(&names));
    Seen::new(&world, went_over(sent, 5))
}

fn offers_a_connection() -> Seen {
    const GATE: &str = "198.51.100.5:5061";
    let mut world = World::with(|config| {
        let address = "192.0.2.1:5061".parse().unwrap();
        config.listeners.push(Listener { transport: Transport::Tls, bound: address, advertised: address });
        config.neighbours.push(Neighbour {
            name: "gate".into(),
            uri: format!("sip:{GATE};transport=tls"),
            interval: Duration::from_secs(30),
            connection: NeighbourConnection::Kept,
            certificate: Some("gate.example.net".into()),
            offers_alias: true,
        });
    });
    // The neighbour is not there.
    let probe = requests(world.due()).remove(0);
    world.event(Event::Unreachable(probe.token));
    let offered =
        Flow { transport: Transport::Tls, listener: ListenerId(3), ..tcp_flow(50, "198.51.100.5:40000") };
    let names = vec!["evil.example.net".into()];
    let names = PeerNames::new(names, Vec::new(), Instant::from_secs(1_900_000_000)).unwrap();
    let offer = request("OPTIONS", "sip:192.0.2.1:5061;transport=tls")
        .via(&format!("SIP/2.0/TLS {GATE};alias;rport;branch=z9hG4bK"))
        .call_id("options");
    world.message_of(offered, &offer.wire(), Some(&names));
    for probe in requests(world.pass(Duration::from_secs(4))) {
        if probe.flow == offered {
            world.message_of(offered, &probe.answer(200, &[]), Some(&names));
        }
    }
    let route = format!("Route: <sip:{GATE};transport=tls;lr>");
    let sent = world.udp(ALICE, &invite("sip:someone@example.com").line(&route));
    Seen::new(&world, went_over(sent, 50))
}
