//! Path of a REGISTER (RFC 3327): who may send one, and where the requests go.

use crate::ends::nothing_is_left;
use crate::harness::{ALICE, BOB, EDGE, Request, Sent, World, forwarded, invite, only, register, request};

/// Proxy that is not trusted.
const PROXY: &str = "192.0.2.50:5060";

fn through(path: &str) -> Request {
    register("bob", "<sip:bob@10.0.0.5>")
        .line("Via: SIP/2.0/UDP 10.0.0.5;branch=z9hG4bKphone")
        .line("Supported: path")
        .line(&format!("Path: {path}"))
}

fn call(world: &mut World) -> Sent {
    forwarded(world.udp(ALICE, &invite("sip:bob@example.org")))
}

#[test]
fn requests_go_the_way_of_the_path() {
    let mut world = World::open();
    let path = "<sip:edge@192.0.2.99;lr>, \"In, side\" <sip:10.0.0.1;lr>;x=y";
    let answer = only(world.udp(EDGE, &through(path)));
    assert_eq!(answer.headers("Path"), ["<sip:edge@192.0.2.99;lr>", "\"In, side\" <sip:10.0.0.1;lr>;x=y"]);
    let call = call(&mut world);
    assert_eq!((call.to().as_str(), call.uri().as_str()), (EDGE, "sip:bob@10.0.0.5"));
    assert_eq!(call.headers("Route"), ["<sip:edge@192.0.2.99;lr>", "\"In, side\" <sip:10.0.0.1;lr>;x=y"]);
    world.udp(EDGE, &call.answer(486, &[]));
    nothing_is_left(&mut world, "after a call by a Path");
}

#[test]
fn the_first_hop_may_be_a_name_if_its_proxy_is_trusted() {
    let mut world = World::open();
    only(world.udp(EDGE, &through("<sip:edge.example.net;lr>")));
    world.udp(ALICE, &invite("sip:bob@example.org"));
    let sent = forwarded(world.resolve("edge.example.net", Some("203.0.113.4")));
    assert_eq!(sent.to(), "203.0.113.4:5060");
    assert_eq!(sent.header("Route"), "<sip:edge.example.net;lr>");
}

#[test]
fn a_user_cannot_aim_calls_at_others_by_a_path() {
    for victim in ["203.0.113.66", "victim.example.net", "192.0.2.1", "example.org", "127.0.0.1"] {
        let mut world = World::closed();
        let request = through(&format!("<sip:{victim};lr>"));
        let answer = only(crate::challenge::proven(&mut world, PROXY, &request, "bob"));
        assert_eq!(answer.status(), 200);
        let sent = crate::challenge::proven(&mut world, ALICE, &invite("sip:bob@example.org"), "alice");
        let call = forwarded(sent);
        assert_eq!(call.to(), PROXY, "it goes back to where the REGISTER came from");
        assert!(world.lookups.is_empty(), "{victim} is not looked up");
    }
}

#[test]
fn a_trusted_proxy_cannot_send_this_server_its_own_requests() {
    for own in ["192.0.2.1", "example.org"] {
        let mut world = World::open();
        only(world.udp(EDGE, &through(&format!("<sip:{own};lr>"))));
        assert_eq!(call(&mut world).to(), EDGE);
    }
}

#[test]
fn a_path_that_the_phone_does_not_expect_is_refused() {
    let mut world = World::open();
    let mut unexpected = through("<sip:192.0.2.50;lr>");
    unexpected.lines.retain(|line| !line.starts_with("Supported"));
    let answer = only(world.udp(PROXY, &unexpected));
    assert_eq!((answer.status(), answer.header("Unsupported").as_str()), (420, "path"));
    assert_eq!(only(world.udp(EDGE, &unexpected)).status(), 200, "the operator named this proxy");
    assert_eq!(world.server.counters().path_refused, 1);
}

#[test]
fn a_bomb_of_paths_is_refused_and_changes_nothing() {
    let mut world = World::open();
    let many = ["<sip:192.0.2.50;lr>"; 9].join(",");
    let long = format!("<sip:{}@192.0.2.50;lr>", "x".repeat(2100));
    for path in [
        many.as_str(),
        &long,
        "<sip:192.0.2.50>",
        "<tel:+1>",
        "x",
        "",
        ",",
        "<sip:a;lr>,",
        "<sip:a;lr> <sip:b;lr>",
    ] {
        let answer = only(world.udp(PROXY, &through(path)));
        assert_eq!(answer.status(), 400, "{path}");
    }
    let lines = (0..200).fold(through("<sip:192.0.2.50;lr>"), |request, _| request.line("Path: <sip:a;lr>"));
    assert_eq!(only(world.udp(PROXY, &lines)).status(), 400);
    assert!(world.bindings("bob").is_empty());
    world.still_answers();
}

#[test]
fn a_path_over_a_connection_is_used_until_it_closes() {
    let mut world = World::open();
    let request = through("<sip:10.9.9.9;transport=tcp;lr>").tcp();
    assert_eq!(only(world.tcp(5, "192.0.2.50:40000", &request)).status(), 200);
    let call = call(&mut world);
    assert_eq!(call.flow.connection, Some(ringway_sansio::ConnectionId(5)));
    world.tcp(5, "192.0.2.50:40000", &call.answer(486, &[]));
    world.event(ringway_sansio::Event::Closed(ringway_sansio::ConnectionId(5)));
    assert!(world.bindings("bob").is_empty(), "nothing else reaches it");
}

#[test]
fn a_path_survives_a_restart_and_a_refresh_without_one_removes_it() {
    let mut world = World::open();
    only(world.udp(EDGE, &through("<sip:edge@192.0.2.99;lr>")));
    let records = world.memory.records.lock().unwrap().clone();
    let mut restarted = World::restarted();
    for (aor, record) in &records {
        restarted.server.restore(aor, record, restarted.now).unwrap();
    }
    assert_eq!(call(&mut restarted).header("Route"), "<sip:edge@192.0.2.99;lr>");
    restarted.register("bob", BOB, "<sip:bob@10.0.0.5>");
    let sent = restarted.udp(ALICE, &request("MESSAGE", "sip:bob@example.org").call_id("m"));
    let message = forwarded(sent);
    assert!(message.headers("Route").is_empty());
    assert_eq!(message.to(), BOB);
}

#[test]
fn a_record_of_the_first_version_is_read() {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let mut record = world.memory.records.lock().unwrap().values().next().unwrap().clone();
    assert_eq!(record[0], 2);
    record[0] = 1;
    let mut restarted = World::restarted();
    restarted.server.restore(b"bob@example.org", &record, restarted.now).unwrap();
    assert_eq!(call(&mut restarted).to(), BOB);
    record[0] = 3;
    assert!(restarted.server.restore(b"bob@example.org", &record, restarted.now).is_err());
}

#[test]
fn without_state_a_path_is_followed_too() {
    let mut world = World::with(|config| config.stateful = false);
    only(world.udp(EDGE, &through("<sip:edge@192.0.2.99;lr>")));
    let call = call(&mut world);
    assert_eq!((call.to().as_str(), call.header("Route").as_str()), (EDGE, "<sip:edge@192.0.2.99;lr>"));
}
