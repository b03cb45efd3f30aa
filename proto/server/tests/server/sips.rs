//! Tests of `sips:` URIs and TLS connections (RFC 3261 §26.2.2, RFC 5630): nothing is forwarded without TLS where it was
//! asked for, and nothing is downgraded silently.

use crate::harness::{
    ALICE, BOB, Request, Sent, Wire, World, config, forwarded, invite, only, register, requests, statuses,
    tcp_flow,
};
use ringway_sansio::{ConnectionId, Event, Flow, HostNameId, ListenerId, Transport};
use ringway_server::{Config, Listener};

const TLS: ListenerId = ListenerId(3);

/// Server with a TLS listener too.
fn world() -> World {
    world_with(|_| {})
}

/// The same with other settings.
pub(crate) fn world_with(change: impl FnOnce(&mut Config)) -> World {
    World::with(|config| {
        change(config);
        let address = "192.0.2.1:5061".parse().unwrap();
        config.listeners.push(Listener { transport: Transport::Tls, bound: address, advertised: address });
    })
}

pub(crate) fn by_tls(world: &mut World, connection: u64, from: &str, message: &impl Wire) -> Vec<Sent> {
    let flow = Flow { transport: Transport::Tls, listener: TLS, ..tcp_flow(connection, from) };
    world.message(flow, &message.wire())
}

/// The same request with a `sips:` Request-URI, by TLS.
pub(crate) fn secured(request: &Request) -> Vec<u8> {
    let text = String::from_utf8(request.wire()).unwrap();
    text.replacen(" sip:", " sips:", 1).replacen("SIP/2.0/UDP", "SIP/2.0/TLS", 1).into_bytes()
}

pub(crate) fn register_sips(world: &mut World, connection: u64, from: &str, contact: &str) -> Vec<Sent> {
    by_tls(world, connection, from, &secured(&register("bob", contact).call_id("registers")))
}

#[test]
fn a_server_without_tls_refuses_sips() {
    let mut world = World::open();
    assert_eq!(statuses(&world.udp(ALICE, &secured(&invite("sip:bob@example.org")))), [416]);
    assert_eq!(config().listeners.len(), 3);
}

#[test]
fn a_sips_request_that_came_without_tls_is_refused() {
    let mut world = world();
    register_sips(&mut world, 7, BOB, "<sips:bob@192.0.2.20>");
    let sent = world.udp(ALICE, &secured(&invite("sip:bob@example.org")));
    assert_eq!((statuses(&sent), requests(sent.clone()).len()), (vec![403], 0));
    assert!(sent[0].start().contains("SIPS Needs TLS"), "{}", sent[0].start());
}

#[test]
fn a_sips_contact_needs_a_sips_request() {
    let mut world = world();
    let plain = register("bob", "<sips:bob@192.0.2.20>").call_id("plain");
    assert_eq!(only(by_tls(&mut world, 7, BOB, &plain)).status(), 400);
    assert_eq!(only(register_sips(&mut world, 7, BOB, "<sips:bob@192.0.2.20>")).status(), 200);
}

#[test]
fn a_sips_call_goes_to_sips_contacts_over_tls() {
    let mut world = world();
    register_sips(&mut world, 7, BOB, "<sips:bob@192.0.2.20:5071>");
    let sent = by_tls(&mut world, 8, ALICE, &secured(&invite("sip:bob@example.org")));
    let forwarded = forwarded(sent);
    assert_eq!(forwarded.start(), "INVITE sips:bob@192.0.2.20:5071 SIP/2.0");
    assert_eq!(
        (forwarded.flow.transport, forwarded.flow.connection),
        (Transport::Tls, Some(ConnectionId(7)))
    );
    assert!(forwarded.headers("Via")[0].starts_with("SIP/2.0/TLS 192.0.2.1:5061;"));
    let route = &forwarded.headers("Record-Route")[0];
    assert!(route.starts_with("<sips:192.0.2.1:5061;lr;"), "{route}");
}

#[test]
fn a_sips_call_to_a_phone_without_tls_is_480_with_a_warning() {
    let mut world = world();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let sent = by_tls(&mut world, 8, ALICE, &secured(&invite("sip:bob@example.org")));
    assert!(requests(sent.clone()).is_empty());
    let answer = sent.last().unwrap();
    assert_eq!(answer.status(), 480);
    assert_eq!(answer.headers("Warning"), ["380 192.0.2.1:5061 \"SIPS Not Allowed\""]);
}

#[test]
fn a_call_without_sips_reaches_a_sips_contact_over_its_connection_only() {
    let mut world = world();
    register_sips(&mut world, 7, BOB, "<sips:bob@192.0.2.20:5071>");
    let to_bob = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    assert_eq!(to_bob.start(), "INVITE sip:bob@192.0.2.20:5071 SIP/2.0");
    assert_eq!(to_bob.flow.connection, Some(ConnectionId(7)));
    world.event(Event::Closed(ConnectionId(7)));
    let sent = world.udp(ALICE, &invite("sip:bob@example.org").call_id("later"));
    assert_eq!(requests(sent.clone()).len(), 0);
    assert_eq!(sent.last().unwrap().status(), 480);
}

#[test]
fn a_host_that_is_dialled_by_tls_is_verified_by_its_name() {
    let mut world = world();
    let target = "sip:carol@proxy.example.net;transport=tls";
    world.server.set_permanent_contacts(b"bob@example.org", &[target.as_bytes()]);
    world.udp(ALICE, &invite("sip:bob@example.org"));
    let (query, target) = world.lookups.remove(0);
    assert_eq!(&*target.host, "proxy.example.net");
    let servers = target.server_at("192.0.2.40".parse().unwrap(), HostNameId(77)).into();
    let sent = forwarded(world.event(Event::Resolved { query, servers }));
    assert_eq!((sent.flow.transport, sent.flow.host), (Transport::Tls, HostNameId(77)));
    assert_eq!(sent.flow.remote, "192.0.2.40:5061".parse().unwrap());
}
