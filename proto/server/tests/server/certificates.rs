//! Client certificates: of a neighbour and of users. Their verification is `services/tls`.

use crate::harness::{ALICE, Request, Wire, World, invite, register, requests, statuses, tcp_flow};
use ringway_sansio::{Flow, Instant, ListenerId, PeerNames, Transport};
use ringway_server::{Listener, Strangers};

const TRUNK: &str = "198.51.100.5:5061";

fn world(users: bool) -> World {
    World::with(|config| {
        config.auth.enabled = true;
        config.auth.strangers = Strangers::None;
        config.auth.certificates.users = users;
        config.auth.certificates.trusted = vec!["trunk.example.net".into()];
        let address = "192.0.2.1:5061".parse().unwrap();
        config.listeners.push(Listener { transport: Transport::Tls, bound: address, advertised: address });
    })
}

fn names(domains: &[&str], users: &[&str]) -> PeerNames {
    let boxed = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect();
    PeerNames::new(boxed(domains), boxed(users), Instant::from_secs(1_800_000_000 + 3600)).unwrap()
}

fn flow(connection: u64, from: &str) -> Flow {
    Flow { transport: Transport::Tls, listener: ListenerId(3), ..tcp_flow(connection, from) }
}

/// Statuses of the responses to a request of a peer with this certificate.
fn answers(world: &mut World, peer: Option<&PeerNames>, request: &Request) -> Vec<u16> {
    statuses(&world.message_of(flow(1, ALICE), &request.wire(), peer))
}

fn registration(user: &str) -> Request {
    over_tls(
        register(user, &format!("<sip:{user}@192.0.2.10:5061;transport=tls>"))
            .call_id(&format!("registers {user}")),
    )
}

fn over_tls(request: Request) -> Request {
    let via = request.via.replace("/UDP", "/TLS");
    request.via(&via)
}

/// Methods of the forwarded requests.
fn forwarded(world: &mut World, flow: Flow, peer: Option<&PeerNames>, request: &Request) -> Vec<String> {
    requests(world.message_of(flow, &request.wire(), peer)).iter().map(|sent| sent.method()).collect()
}

#[test]
fn a_certificate_registers_its_user_and_no_other() {
    let mut world = world(true);
    let alice = names(&[], &["sip:alice@example.org"]);
    assert_eq!(answers(&mut world, Some(&alice), &registration("alice")), [200]);
    assert_eq!(world.server.counters().certified, 1);
    assert_eq!(answers(&mut world, Some(&alice), &registration("bob")), [401], "another user");
    assert_eq!(answers(&mut world, None, &registration("alice")), [401], "the next connection has none");
    let both = names(&[], &["sip:carol@example.org", "sip:bob@EXAMPLE.org"]);
    assert_eq!(answers(&mut world, Some(&both), &registration("bob")), [200], "the second of two names");
    world.now = Instant::from_secs(1_800_000_000 + 3600);
    assert_eq!(
        answers(&mut world, Some(&alice), &registration("alice")),
        [401],
        "it expired while connected"
    );
}

#[test]
fn names_that_are_not_exactly_the_user_prove_nothing() {
    let mut world = world(true);
    world.add_user("*", "example.org", "x");
    for uri in [
        "sip:alice@example.com",
        "sip:alice@sub.example.org",
        "sip:*@example.org",
        "sip:alice@*",
        "sip:ALICE@example.org",
        "sips:alice@example.org",
        "sip:alice:secret@example.org",
        "sip:alice@example.org:5061",
        "sip:alice@192.0.2.1",
        "sip:alice@example.org;user=phone",
        "sip:alice@example.org?Subject=x",
        "sip:@example.org",
        "sip:alice",
        "alice@example.org",
        "",
    ] {
        let peer = names(&[], &[uri]);
        assert_eq!(answers(&mut world, Some(&peer), &registration("alice")), [401], "{uri}");
    }
    for domain in ["example.org", "*.example.org", "alice@example.org", "alice"] {
        let peer = names(&[domain], &[]);
        assert_eq!(answers(&mut world, Some(&peer), &registration("alice")), [401], "{domain}");
    }
    let escaped = names(&[], &["sip:%61lice@example.org"]);
    assert_eq!(answers(&mut world, Some(&escaped), &registration("alice")), [200], "RFC 3261 §19.1.4: equal");
    let removed = names(&[], &["sip:mallory@example.org"]);
    assert_eq!(answers(&mut world, Some(&removed), &registration("mallory")), [401], "not a subscriber");
}

#[test]
fn certificates_of_users_count_only_where_the_configuration_says_so() {
    let alice = names(&[], &["sip:alice@example.org"]);
    assert_eq!(answers(&mut world(false), Some(&alice), &registration("alice")), [401]);
}

#[test]
fn a_user_calls_by_a_certificate_and_not_in_anothers_name() {
    let mut world = world(true);
    let (alice, bob) = (names(&[], &["sip:alice@example.org"]), names(&[], &["sip:bob@example.org"]));
    assert_eq!(answers(&mut world, Some(&bob), &registration("bob")), [200]);
    let call = |id: &str| over_tls(invite("sip:bob@example.org")).call_id(id);
    assert_eq!(forwarded(&mut world, flow(2, ALICE), Some(&alice), &call("own")), ["INVITE"]);
    assert_eq!(answers(&mut world, Some(&bob), &call("forged")), [407]);
    let datagram = invite("sip:bob@example.org").call_id("datagram");
    assert_eq!(statuses(&world.udp(ALICE, &datagram)), [407], "another flow of the same host");
    let foreign = call("foreign").from("sip:someone@example.com");
    assert_eq!(
        forwarded(&mut world, flow(2, ALICE), Some(&alice), &foreign),
        ["INVITE"],
        "as with a password"
    );
}

#[test]
fn a_neighbours_certificate_is_trusted_and_registers_nobody() {
    let mut world = world(true);
    let alice = names(&[], &["sip:alice@example.org"]);
    assert_eq!(answers(&mut world, Some(&alice), &registration("alice")), [200]);
    let trunk = names(&["Trunk.Example.net"], &["sip:bob@example.org"]);
    assert_eq!(answers(&mut world, Some(&trunk), &registration("bob")), [401], "a neighbour is not a user");
    let call =
        |id: &str| over_tls(invite("sip:alice@example.org").from("sip:someone@example.com")).call_id(id);
    assert_eq!(forwarded(&mut world, flow(3, TRUNK), Some(&trunk), &call("one")), ["INVITE"]);
    // The same call over another connection of the same host, and with certificates of others.
    assert_eq!(statuses(&world.message(flow(4, TRUNK), &call("none").wire())), [407]);
    for domain in ["example.net", "*.example.net", "a.trunk.example.net", "trunk.example.com"] {
        let peer = names(&[domain], &[]);
        let sent = world.message_of(flow(4, TRUNK), &call(domain).wire(), Some(&peer));
        assert_eq!(statuses(&sent), [407], "{domain}");
    }
    let forged = call("via").via("SIP/2.0/TLS trunk.example.net;branch=z9hG4bKvia");
    assert_eq!(statuses(&world.message(flow(5, TRUNK), &forged.wire())), [407], "a name in Via");
}
