//! Tests of requests for hosts inside the network of the server (docs/decisions/0054).

use crate::challenge::proven;
use crate::ends::nothing_is_left;
use crate::forwards::always;
use crate::harness::{
    ALICE, BOB, CAROL, STRANGER, Sent, World, forwarded, invite, only, request, requests, tcp_flow,
};
use crate::neighbours::neighbour;
use crate::routes::{prefix, to_trunks, trunk};
use ringway_server::{Config, Listener, RouteTable};
use std::time::Duration;

/// Another address of the machine.
const OWN: &str = "192.0.2.2";

/// Hosts that no request reaches by default.
const INNER: [&str; 17] = [
    "127.0.0.1",
    "127.1.2.3:6379",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "0.0.0.1",
    "10.0.0.5",
    "172.31.0.1:5061",
    "192.168.1.1",
    "169.254.169.254:80",
    "100.64.0.1",
    "[fe80::1]",
    "[fd00::5]",
    "[64:ff9b::a00:5]",
    "[2002:7f00:1::]",
    "[::10.0.0.5]",
    OWN,
    "192.0.2.1:22",
];

fn world(change: impl FnOnce(&mut Config)) -> World {
    World::with(|config| {
        config.auth.enabled = true;
        config.machine_addresses = vec![OWN.parse().unwrap()];
        change(config);
    })
}

/// Asserts that the last response is 403, that nothing was sent to the host, and that it is counted and reported.
fn assert_refused(world: &mut World, sent: Vec<Sent>, what: &str) {
    assert!(requests(sent.clone()).is_empty(), "{what}");
    let refused = sent.last().map(Sent::start);
    assert_eq!(refused.as_deref(), Some("SIP/2.0 403 Inner Hosts Are Not Reached"), "{what}");
    assert!(requests(world.pass(Duration::from_secs(40))).is_empty(), "{what}");
    assert_eq!(world.server.counters().inner_hosts_refused, 1, "{what}");
    let events = world.memory.events.lock().unwrap();
    assert_eq!(
        events.iter().filter(|event| event.contains("may not reach")).count(),
        1,
        "{what}: {events:?}"
    );
}

#[test]
fn a_request_of_a_user_reaches_no_inner_host() {
    for host in INNER {
        for (method, stateful) in [("INVITE", true), ("MESSAGE", true), ("OPTIONS", true), ("MESSAGE", false)]
        {
            let mut world = world(|config| config.stateful = stateful);
            let uri = format!("sip:x@{host};transport={}", if host.starts_with('[') { "udp" } else { "tcp" });
            let sent = proven(&mut world, ALICE, &request(method, &uri), "alice");
            assert_refused(&mut world, sent, &format!("{method} {uri}, stateful = {stateful}"));
        }
        let mut world = world(|_| {});
        let by_route = invite("sip:x@elsewhere.example").line(&format!("Route: <sip:{host};lr>"));
        let sent = proven(&mut world, ALICE, &by_route, "alice");
        assert_refused(&mut world, sent, &format!("Route {host}"));
        nothing_is_left(&mut world, host);
    }
}

#[test]
fn a_name_leads_to_no_inner_host_and_no_later_server_of_it_does() {
    for address in ["127.0.0.1:6379", "10.0.0.5:5060", "192.0.2.2:5060", "[fd00::5]:5060", "192.0.2.1:22"] {
        let mut world = world(|_| {});
        proven(&mut world, ALICE, &invite("sip:x@rebound.example"), "alice");
        let sent = world.resolve_to("rebound.example", &[address]);
        assert_refused(&mut world, sent, address);
        nothing_is_left(&mut world, address);

        let mut world = self::world(|_| {});
        proven(&mut world, ALICE, &invite("sip:x@rebound.example"), "alice");
        let first = forwarded(world.resolve_to("rebound.example", &["203.0.113.9:5060", address]));
        assert_eq!(first.to(), "203.0.113.9:5060");
        let later = world.pass(Duration::from_secs(33));
        assert!(requests(later).iter().all(|sent| sent.to() == "203.0.113.9:5060"), "{address}");
        assert_eq!(world.server.counters().inner_hosts_refused, 1, "{address}");
    }
    // Without state.
    let mut world = world(|config| config.stateful = false);
    proven(&mut world, ALICE, &request("MESSAGE", "sip:x@rebound.example"), "alice");
    let sent = world.resolve_to("rebound.example", &["127.0.0.1:5070"]);
    assert_refused(&mut world, sent, "without state");
}

#[test]
fn a_named_network_is_reached_and_opens_neither_this_machine_nor_loopback() {
    for (network, host, is_reached) in [
        ("10.0.0.0/8", "10.0.0.5", true),
        ("10.0.0.0/8", "10.255.0.5:5070", true),
        ("10.0.0.0/24", "10.0.1.5", false),
        ("fd00::/8", "[fd00::5]", true),
        ("192.0.2.0/24", OWN, false),
        ("192.0.2.2", OWN, true),
        ("0.0.0.0/0", "192.168.1.1", true),
        ("0.0.0.0/0", "127.0.0.1", false),
        ("0.0.0.0/0", "[64:ff9b::a00:5]", false),
        ("::/0", "[::1]", false),
        ("192.0.2.1", "192.0.2.1:22", true),
    ] {
        let mut world = world(|config| config.inner_networks = vec![network.parse().unwrap()]);
        let sent = proven(&mut world, ALICE, &invite(&format!("sip:x@{host};transport=udp")), "alice");
        assert_eq!(
            requests(sent).iter().any(|sent| sent.method() == "INVITE"),
            is_reached,
            "{network} {host}"
        );
        assert_eq!(world.server.counters().inner_hosts_refused, u64::from(!is_reached), "{network} {host}");
    }
}

#[test]
fn the_log_names_the_network_to_add() {
    for (host, network) in [
        ("10.0.7.5", "Unnamed(Network { address: 10.0.7.0, prefix: 24 })"),
        ("[fd00::5]", "Unnamed(Network { address: fd00::, prefix: 64 })"),
        (OWN, "Unnamed(Network { address: 192.0.2.2, prefix: 32 })"),
        ("127.0.0.1", "Loopback"),
    ] {
        let mut world = world(|_| {});
        proven(&mut world, ALICE, &invite(&format!("sip:x@{host}")), "alice");
        let events = world.memory.events.lock().unwrap();
        let expected = format!("sip:alice@example.org may not reach {host}:5060: {network}");
        assert!(events.contains(&expected), "{expected}: {events:?}");
    }
}

#[test]
fn a_server_on_loopback_reaches_loopback() {
    let on = |addresses: &[&str]| {
        let listener = |address: &&str| {
            let address = address.parse().unwrap();
            Listener { transport: ringway_sansio::Transport::Udp, bound: address, advertised: address }
        };
        let listeners = addresses.iter().map(listener).collect();
        World::with(|config| config.listeners = listeners)
    };
    for (addresses, host, is_reached) in [
        (&["127.0.0.1:5060"][..], "127.0.0.1:5070", true),
        (&["127.0.0.1:5060", "[::1]:5060"], "127.0.0.2:5070", true),
        (&["127.0.0.1:5060", "[::1]:5060"], "[::1]:5070", true),
        (&["127.0.0.1:5060"], "10.0.0.5", false),
        (&["127.0.0.1:5060", "192.0.2.1:5060"], "127.0.0.1:5070", false),
        (&["0.0.0.0:5060"], "127.0.0.1:5070", false),
    ] {
        let sent = on(addresses).udp(ALICE, &invite(&format!("sip:x@{host}")));
        assert_eq!(!requests(sent).is_empty(), is_reached, "{addresses:?} {host}");
    }
}

#[test]
fn a_forward_leads_to_no_inner_host() {
    for host in ["127.0.0.1:6379;transport=tcp", "10.0.0.5", "rebound.example"] {
        let mut world = world(|_| {});
        world.server.set_forwards(b"bob@example.org", always(&format!("sip:x@{host}")));
        let mut sent = world.udp(STRANGER, &invite("sip:bob@example.org").from("sip:eve@example.com"));
        if host == "rebound.example" {
            sent = world.resolve_to(host, &["10.0.0.5:5060"]);
        }
        assert_refused(&mut world, sent, host);
        nothing_is_left(&mut world, host);
    }
}

#[test]
fn the_call_of_a_phone_for_a_refer_to_reaches_no_inner_host() {
    let mut world = world(|config| config.auth.enabled = false);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let refer = request("REFER", "sip:bob@example.org").line("Refer-To: <sip:x@10.0.0.5>");
    let got = forwarded(world.udp(ALICE, &refer));
    world.udp(BOB, &got.answer(202, &[]));
    let call =
        invite("sip:x@10.0.0.5").from("sip:bob@example.org").line("Referred-By: <sip:alice@example.org>");
    let sent = world.udp(BOB, &call);
    assert_refused(&mut world, sent, "Refer-To");
}

#[test]
fn what_the_configuration_and_registrations_name_is_reached_as_before() {
    let mut world = world(|config| config.auth.enabled = false);
    world.register("bob", "10.0.0.4:5060", "<sip:bob@10.0.0.4>");
    assert_eq!(forwarded(world.udp(ALICE, &invite("sip:bob@example.org"))).to(), "10.0.0.4:5060");
    world.server.set_permanent_contacts(b"carol@example.org", &[b"sip:pbx@10.0.0.5"]);
    let call = invite("sip:carol@example.org").call_id("permanent");
    assert_eq!(forwarded(world.udp(ALICE, &call)).to(), "10.0.0.5:5060");
    // A forward to another user passes this server's own listener.
    world.register("carol", CAROL, "<sip:carol@192.0.2.30>");
    world.server.set_forwards(b"bob@example.org", always("sip:carol@example.org"));
    let call = invite("sip:bob@example.org").call_id("forwarded");
    assert_eq!(forwarded(world.udp(ALICE, &call)).to(), "192.0.2.1:5060");
    assert_eq!(world.server.counters().inner_hosts_refused, 0);
    let mut world = self::world(|config| {
        config.trunking.trunks = vec![trunk("carrier", "10.0.0.6:5060")].into();
        config.trunking.routes = RouteTable::new(vec![to_trunks(prefix("+"), &[0])]).unwrap();
    });
    let sent = proven(&mut world, ALICE, &invite("sip:+441@example.org"), "alice");
    assert_eq!(forwarded(sent).to(), "10.0.0.6:5060");
}

#[test]
fn a_neighbour_is_reached_and_another_port_of_it_is_not() {
    for (port, inner) in [(5060, 0), (6379, 1)] {
        let gate = "sip:10.0.0.9;transport=tcp";
        let mut world = world(|config| config.neighbours.push(neighbour(gate)));
        let probe = only(world.due());
        let answer = probe.answer(200, &[]);
        world.message(tcp_flow(7, "10.0.0.9:5060"), &answer);
        let uri = format!("sip:x@10.0.0.9:{port};transport=tcp");
        let sent = proven(&mut world, ALICE, &invite(&uri), "alice");
        assert_eq!(requests(sent).len() as u64, 1 - inner, "{port}");
        assert_eq!(world.server.counters().inner_hosts_refused, inner, "{port}");
    }
}

#[test]
fn a_phone_of_a_private_network_names_no_other_host_of_it() {
    for (named, is_reached) in [(None, false), (Some("10.0.0.7"), true)] {
        let mut world = world(|config| {
            config.inner_networks = named.map(|network: &str| network.parse().unwrap()).into_iter().collect();
        });
        world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@10.0.0.4"]);
        let got = forwarded(world.udp(STRANGER, &invite("sip:bob@example.org").from("sip:eve@example.com")));
        let answer = got.answer(200, &["Contact: <sip:bob@10.0.0.7:6379>"]);
        let ringing = only(world.udp("10.0.0.4:5060", &answer));
        let mut ack =
            request("ACK", "sip:bob@10.0.0.7:6379").from("sip:eve@example.com").to(&ringing.header("To"));
        ack.lines = vec![format!("Route: {}", ringing.header("Record-Route"))];
        assert_eq!(!requests(world.udp(STRANGER, &ack)).is_empty(), is_reached, "{named:?}");
    }
}
