//! Tests of the node that registers a trunk in a cluster, of former contacts, and of service routes (decision 0057).

use crate::harness::{ALICE, BOB, STRANGER, Sent, World, invite, only, requests, statuses};
use crate::routes::{prefix, to_trunks};
use crate::trunk_registration::{CARRIER, first, granted, incoming, next, registering, within};
use ringway_location::NodeName;
use ringway_sansio::{ListenerId, Transport};
use ringway_server::{Cluster, ClusterSecret, Config, Hold, Links, RouteTable, Strangers};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn name(number: u8) -> NodeName {
    NodeName::read(format!("n{number}").as_bytes()).unwrap()
}

/// Node of a cluster with a trunk that registers.
fn node(number: u8, secrets: (u8, Option<u8>)) -> World {
    World::with(|config: &mut Config| {
        registering(config);
        config.secret = [number; 32];
        let (node, link) = (name(number), "192.0.2.1:5070".parse().unwrap());
        let secret = |byte| ClusterSecret::new(&[byte; 32]);
        config.cluster =
            Some(Cluster { node, incarnation: 1, transport: Transport::Tls, link, hold: Hold::All });
        config.links = Some(Links {
            node,
            listener: ListenerId(9),
            secret: secret(secrets.0),
            accepted_secret: secrets.1.map(secret),
            nodes: Vec::new(),
        });
    })
}

fn set_nodes(world: &World, nodes: &[u8]) {
    *world.memory.trunk_nodes.lock().unwrap() = Some(nodes.iter().copied().map(name).collect());
}

#[test]
fn a_node_registers_only_what_is_its_own() {
    let mut world = node(1, (1, None));
    assert!(within(&mut world, 60).0.is_empty(), "the nodes are not known");
    assert_ne!(world.memory.own_trunks.load(Ordering::Relaxed), 0, "others learn its trunks");
    set_nodes(&world, &[2]);
    assert!(within(&mut world, 60).0.is_empty(), "another node has it");
    set_nodes(&world, &[1]);
    let register = first(&mut world);
    // It loses the trunk before the answer.
    set_nodes(&world, &[2]);
    assert!(within(&mut world, 2).0.is_empty());
    world.udp(CARRIER, &granted(&register, 60));
    assert_eq!(world.server.counters().trunk_registrations, 0);
    assert!(within(&mut world, 400).0.is_empty(), "no retransmission, no refresh");
    set_nodes(&world, &[1]);
    let register = first(&mut world);
    world.udp(CARRIER, &granted(&register, 60));
    // Another node could have had it: it is registered once more.
    let (repeated, at) = within(&mut world, 6);
    assert!((4..=6).contains(&at), "{at}");
    world.udp(CARRIER, &granted(&repeated[0], 60));
    // Without an answer of the host the nodes of the last look count.
    *world.memory.trunk_nodes.lock().unwrap() = None;
    let (refreshes, at) = within(&mut world, 54);
    assert!(at >= 30, "{at}");
    let refresh = &refreshes[0];
    assert_eq!(refresh.header("Contact"), register.header("Contact"));
}

/// Seconds after which the registration is repeated, within `seconds`; each REGISTER gets a 2xx for an hour.
fn repeated_after(world: &mut World, seconds: u32) -> Vec<u32> {
    let answer = |world: &mut World| {
        let sent = requests(world.pass(Duration::from_secs(1)));
        sent.iter().for_each(|register| _ = world.udp(CARRIER, &granted(register, 3600)));
        !sent.is_empty()
    };
    (1..=seconds).filter(|_| answer(world)).collect()
}

/// The owner of the trunk is node 2 among 1 and 2, and node 3 among 2 and 3.
#[test]
fn a_registration_is_repeated_once_after_each_change_of_the_nodes() {
    let mut world = node(2, (1, None));
    set_nodes(&world, &[2]);
    let register = first(&mut world);
    world.udp(CARRIER, &granted(&register, 3600));
    // A node that starts may have registered the trunk before it learnt of this one.
    world.pass(Duration::from_secs(1));
    set_nodes(&world, &[1, 2]);
    assert!(matches!(repeated_after(&mut world, 60)[..], [4..=6]));
    // If it did, its contact may be the only one: it is lost.
    set_nodes(&world, &[2]);
    assert_eq!(repeated_after(&mut world, 60), [1]);
    // While it has the trunk no request of this node is under way.
    set_nodes(&world, &[2, 3]);
    assert!(repeated_after(&mut world, 60).is_empty());
    set_nodes(&world, &[2]);
    assert_eq!(repeated_after(&mut world, 60), [1]);
    // This node was paused: the others may have taken it for lost.
    world.now = world.now + Duration::from_secs(30);
    assert!(matches!(repeated_after(&mut world, 60)[..], [4..=6]));
}

#[test]
fn a_node_without_trunks_any_more_says_so_once() {
    let mut world = node(1, (1, None));
    set_nodes(&world, &[1]);
    first(&mut world);
    let mut config = crate::harness::config();
    config.cluster = Some(Cluster {
        node: name(1),
        incarnation: 1,
        transport: Transport::Tls,
        link: "192.0.2.1:5070".parse().unwrap(),
        hold: Hold::All,
    });
    world.server.reconfigure(std::sync::Arc::new(config));
    assert!(within(&mut world, 2).0.is_empty());
    assert_eq!(world.memory.own_trunks.load(Ordering::Relaxed), 0);
}

/// Token in the contact of a REGISTER.
fn token(register: &Sent) -> String {
    register.header("Contact").split("line=").nth(1).unwrap().trim_matches('>').to_owned()
}

#[test]
fn all_nodes_accept_the_token_of_each() {
    let register = |number, secrets| {
        let mut world = node(number, secrets);
        set_nodes(&world, &[number]);
        let register = first(&mut world);
        (world, register)
    };
    let (mut one, of_one) = register(1, (1, None));
    let (_, of_two) = register(2, (1, None));
    assert_eq!(token(&of_one), token(&of_two));
    // While the secret changes both are accepted.
    let (mut changed, of_changed) = register(3, (2, Some(1)));
    assert_ne!(token(&of_changed), token(&of_one));
    for (world, accepted) in [(&mut one, 1), (&mut changed, 2)] {
        for (number, register) in [&of_one, &of_changed].into_iter().enumerate() {
            let call = incoming(register, "<sip:+49301234@carrier.example>", &format!("call{number}"));
            world.udp("198.51.100.9:5060", &call);
        }
        assert_eq!(world.server.counters().trunk_line_calls, accepted);
    }
}

#[test]
fn contacts_of_a_former_owner_are_removed_once() {
    for (others, has_own, removed) in [
        (&["sip:acct@192.0.2.2:5060;line=TOKEN"][..], true, 1),
        (&["sip:acct@192.0.2.2:5060;line=TOKEN"], false, 0),
        (&["sip:acct@192.0.2.2:5060;line=0123456789abcdef", "sip:acct@192.0.2.3"], true, 0),
        (
            &[
                "sip:a@b;line=TOKEN",
                "sip:c@d;line=TOKEN",
                "sip:e@f;line=TOKEN",
                "sip:g@h;line=TOKEN",
                "sip:i@j;line=TOKEN",
            ],
            true,
            4,
        ),
    ] {
        let mut world = World::with(registering);
        let register = first(&mut world);
        let all = |register: &Sent| {
            let token = token(register);
            let own = has_own.then(|| format!("Contact: {};expires=600", register.headers("Contact")[0]));
            let others =
                others.iter().map(|uri| format!("Contact: <{}>;expires=60", uri.replace("TOKEN", &token)));
            own.into_iter().chain(others).collect::<Vec<_>>()
        };
        let lines = all(&register);
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let sent = requests(world.udp(CARRIER, &register.answer(200, &lines)));
        assert_eq!(sent.len(), usize::from(removed > 0), "{others:?}");
        let Some(second) = sent.first() else { continue };
        let contacts = second.headers("Contact");
        assert_eq!(contacts[0], register.header("Contact"));
        assert_eq!(contacts.iter().filter(|contact| contact.ends_with(">;expires=0")).count(), removed);
        // A carrier that keeps them is not asked again before the next refresh, which asks once more.
        assert!(requests(world.udp(CARRIER, &second.answer(200, &lines))).is_empty());
        assert!(within(&mut world, 290).0.is_empty());
        let refresh = next(&mut world);
        assert_eq!(refresh.headers("Contact").len(), 1);
    }
}

fn with_route(config: &mut Config) {
    registering(config);
    config.trunking.routes = RouteTable::new(vec![to_trunks(prefix("+"), &[0])]).unwrap();
}

#[test]
fn a_service_route_is_that_of_calls_until_the_next_registration() {
    let mut world = World::with(with_route);
    let mut register = first(&mut world);
    for (id, (lines, routes)) in [
        (
            &["Service-Route: <sip:orig@198.51.100.1:5060;lr>, <sip:core.carrier.example;lr;token=1>"][..],
            &["<sip:orig@198.51.100.1:5060;lr>", "<sip:core.carrier.example;lr;token=1>"][..],
        ),
        (
            &["Service-Route: <sip:core.carrier.example;lr>"],
            &["<sip:198.51.100.1:5060;lr>", "<sip:core.carrier.example;lr>"],
        ),
        (&[], &[]),
    ]
    .into_iter()
    .enumerate()
    {
        let contact = format!("Contact: {};expires=20", register.headers("Contact")[0]);
        let lines: Vec<&str> = [contact.as_str()].into_iter().chain(lines.iter().copied()).collect();
        world.udp(CARRIER, &register.answer(200, &lines));
        let call = invite("sip:+441234@example.org").call_id(&format!("call{id}"));
        let sent = only(requests(world.udp(ALICE, &call)));
        assert_eq!(sent.to(), CARRIER);
        let route = sent.headers("Route").join(", ");
        assert_eq!(route, routes.join(", "));
        assert!(sent.start().starts_with("INVITE sip:+441234@198.51.100.1:5060"), "{}", sent.start());
        register =
            core::iter::repeat_with(|| next(&mut world)).find(|sent| sent.method() == "REGISTER").unwrap();
    }
}

#[test]
fn a_hostile_service_route_is_not_used() {
    let many = "<sip:a.example;lr>,".repeat(4) + "<sip:a.example;lr>";
    let long = format!("<sip:{}.example;lr>", "a".repeat(600));
    for (route, is_refused) in [
        ("<sip:192.0.2.1:5060;lr>", true),
        ("<sip:example.org;lr>", true),
        ("<sip:strict.example>", true),
        ("<sip:198.51.100.1:5060;lr;maddr=203.0.113.1>", true),
        ("<tel:+49301234;lr>", true),
        ("<sip:a.example;lr?X=1>", true),
        ("nonsense", true),
        (many.as_str(), true),
        (long.as_str(), true),
        ("<sip:203.0.113.66;lr>", false),
    ] {
        let mut world = World::with(with_route);
        let register = first(&mut world);
        let contact = format!("Contact: {};expires=600", register.header("Contact"));
        let line = format!("Service-Route: {route}");
        world.udp(CARRIER, &register.answer(200, &[&contact, &line]));
        let counters = world.server.counters();
        assert_eq!(
            (counters.trunk_registrations, counters.trunk_service_routes_refused),
            (1, u64::from(is_refused)),
            "{route}"
        );
        let sent = only(requests(world.udp(ALICE, &invite("sip:+441234@example.org"))));
        // A call and its credentials go to the trunk of the configuration, whatever the route names.
        assert_eq!(sent.to(), CARRIER, "{route}");
        assert_eq!(sent.headers("Route").is_empty(), is_refused, "{route}");
    }
}

#[test]
fn a_service_route_ends_with_the_trunk() {
    let mut world = World::with(with_route);
    let register = first(&mut world);
    let contact = format!("Contact: {};expires=600", register.header("Contact"));
    world.udp(CARRIER, &register.answer(200, &[&contact, "Service-Route: <sip:core.example;lr>"]));
    let mut config = crate::harness::config();
    with_route(&mut config);
    config.trunking.trunks.edit()[0].login.as_mut().unwrap().username = "other".into();
    world.server.reconfigure(std::sync::Arc::new(config));
    world.pass(Duration::from_millis(1));
    let sent = requests(world.udp(ALICE, &invite("sip:+441234@example.org")));
    assert!(sent.iter().all(|sent| sent.headers("Route").is_empty()));
}

fn in_bulk(config: &mut Config) {
    registering(config);
    config.trunking.trunks.edit()[0].bulk = true;
    config.auth.enabled = true;
    config.auth.strangers = Strangers::None;
}

/// RFC 6140 §5.1: the option tags, and a contact without a user.
#[test]
fn numbers_in_bulk_are_registered_by_one_contact_and_called_by_their_own_uris() {
    let mut world = World::with(in_bulk);
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    world.memory.is_tracing.store(true, Ordering::Relaxed);
    let register = first(&mut world);
    let fields = ["Require", "Proxy-Require", "Supported"].map(|name| register.header(name));
    assert_eq!(fields, ["gin", "gin", "path"]);
    let contact = register.header("Contact");
    assert!(contact.starts_with("<sip:192.0.2.1:5060;bnc;line="), "{contact}");
    world.udp(CARRIER, &granted(&register, 600));
    assert_eq!(world.server.counters().trunk_registrations, 1);
    // The carrier adds the number, takes bnc away, and keeps the other parameters (§5.2).
    let uri = |number: &str| {
        contact.trim_matches(['<', '>']).replace("sip:", &format!("sip:{number}@")).replace(";bnc", "")
    };
    for (number, reaches) in [("+49301234", true), ("+49301234;phone-context=x", true), ("+44123", false)] {
        let call =
            invite(&uri(number)).from("sip:+4940999@carrier.example").to("<sip:main@elsewhere.example>");
        let mut sent = requests(world.udp("198.51.100.9:5060", &call.call_id(number)));
        while let Some(own) = sent.iter().find(|sent| sent.to() == "192.0.2.1:5060").cloned() {
            sent = requests(world.udp("192.0.2.1:5060", &own.bytes.clone()));
        }
        assert_eq!(sent.iter().any(|sent| sent.to() == BOB), reaches, "{number}");
    }
    assert_eq!(world.server.counters().trunk_line_calls, 3);
    let decisions = std::mem::take(&mut *world.memory.decisions.lock().unwrap());
    let is_named = |decision: &&String| {
        decision.contains("contact that a trunk registered") && decision.contains("carrier")
    };
    assert_eq!(decisions.iter().filter(is_named).count(), 3, "{decisions:?}");
    // A number in the URI is no permission.
    let forged = uri("+49301234").replace(&token(&register), "0123456789abcdef");
    assert_eq!(statuses(&world.udp(STRANGER, &invite(&forged).from("sip:eve@example.net"))), [407]);
}

#[test]
fn a_registrar_without_gin_is_named_and_left_alone() {
    let mut world = World::with(in_bulk);
    let register = first(&mut world);
    assert!(requests(world.udp(CARRIER, &register.answer(420, &["Unsupported: gin"]))).is_empty());
    assert!(within(&mut world, 299).0.is_empty());
    let events = world.memory.events.lock().unwrap();
    assert!(events.iter().any(|event| event == "carrier not registered: 420"), "{events:?}");
}
