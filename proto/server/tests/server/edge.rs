//! Edge proxy of another registrar (RFC 5626 §5): Path with a flow token, and requests that have it in Route.

use crate::ends::nothing_is_left;
use crate::harness::{
    EDGE, Request, STRANGER, Sent, World, forwarded, invite, only, register, request, requests, statuses,
};
use ringway_sansio::{ConnectionId, Event};
use std::time::Duration;

/// Phone behind NAT, and the registrar of example.net.
const PHONE: &str = "198.51.100.7:31337";
const REGISTRAR: &str = "203.0.113.1:5060";

fn world() -> World {
    World::with(|config| {
        config.auth.enabled = true;
        config.edge_domains = vec!["example.net".into()];
    })
}

/// REGISTER of dave, a user of example.net.
fn daves() -> Request {
    let mut request = register("dave", "<sip:dave@10.0.0.5>;+sip.instance=\"<urn:x>\";reg-id=1");
    request.uri = "sip:example.net".into();
    request.to = "<sip:dave@example.net>".into();
    request.line("Supported: path, outbound").line("Route: <sip:192.0.2.1;lr>").from("sip:dave@example.net")
}

/// Registers dave over UDP; returns our Path.
fn path_of(world: &mut World) -> String {
    assert!(requests(world.udp(PHONE, &daves())).is_empty());
    let sent = only(requests(world.resolve_to("example.net", &[REGISTRAR])));
    assert_eq!((sent.to().as_str(), sent.method().as_str()), (REGISTRAR, "REGISTER"));
    let path = sent.header("Path");
    assert!(sent.headers("Route").is_empty());
    let answer = only(world.udp(REGISTRAR, &sent.answer(200, &[&format!("Path: {path}")])));
    assert_eq!((answer.status(), answer.to().as_str()), (200, PHONE));
    nothing_is_left(world, "after a REGISTER");
    path
}

/// Request of the registrar for dave by this Path.
fn by(path: &str, method: &str) -> Request {
    let lines = [format!("Route: {path}"), "Contact: <sip:eve@203.0.113.1>".into()];
    let request = request(method, "sip:dave@10.0.0.5").from("sip:eve@example.net");
    Request { lines: lines.into(), ..request.to("<sip:dave@example.net>") }
        .via(&format!("SIP/2.0/UDP {REGISTRAR};rport;branch=z9hG4bK"))
}

#[test]
fn a_request_with_our_token_goes_over_the_flow_of_the_phone() {
    let mut world = world();
    let path = path_of(&mut world);
    assert!(path.ends_with("@192.0.2.1:5060;lr;ob>") && path.starts_with("<sip:"), "{path}");
    let sent = forwarded(world.udp(REGISTRAR, &by(&path, "INVITE")));
    assert_eq!((sent.to().as_str(), sent.uri().as_str()), (PHONE, "sip:dave@10.0.0.5"));
    assert!(sent.headers("Route").is_empty());
    let answer = only(world.udp(PHONE, &sent.answer(200, &["Contact: <sip:dave@10.0.0.5>"])));
    assert_eq!((answer.status(), answer.to().as_str()), (200, REGISTRAR));
    // The phone ends the call, through our Record-Route.
    let bye = request("BYE", "sip:eve@203.0.113.1").cseq(2).to(&answer.header("From"));
    let lines = sent.headers("Record-Route").iter().map(|route| format!("Route: {route}")).collect();
    let bye = Request { from: answer.header("To"), lines, ..bye };
    assert_eq!(forwarded(world.udp(PHONE, &bye)).to(), REGISTRAR);
}

#[test]
fn a_phone_calls_through_its_edge_proxy() {
    let mut world = world();
    let path = path_of(&mut world);
    let mut call = invite("sip:frank@example.net").from("sip:dave@example.net");
    call.lines.push(format!("Route: {path}"));
    world.udp(PHONE, &call);
    let sent = only(requests(world.resolve_to("example.net", &[REGISTRAR])));
    assert_eq!((sent.to().as_str(), sent.uri().as_str()), (REGISTRAR, "sip:frank@example.net"));
    assert!(sent.headers("Path").is_empty(), "only REGISTER has one");
}

#[test]
fn the_redirection_of_a_phone_behind_the_edge_is_not_followed() {
    let mut world = World::with(|config| {
        config.auth.enabled = true;
        config.recurse = true;
        config.edge_domains = vec!["example.net".into()];
    });
    let path = path_of(&mut world);
    for target in ["sip:x@203.0.113.99", "sip:bob@example.org", "sip:eve@example.net"] {
        let sent = forwarded(world.udp(REGISTRAR, &by(&path, "INVITE").call_id(target)));
        let moved = world.udp(PHONE, &sent.answer(302, &[&format!("Contact: <{target}>")]));
        assert_eq!(statuses(&moved), [302]);
        assert!(requests(moved).iter().all(|sent| sent.method() == "ACK") && world.lookups.is_empty());
    }
    // Nor that of the other registrar, to which strangers may call.
    let mut call = invite("sip:frank@example.net").from("sip:dave@example.net");
    call.lines.push("Route: <sip:192.0.2.1;lr>".into());
    world.udp(STRANGER, &call);
    let sent = only(requests(world.resolve_to("example.net", &[REGISTRAR])));
    let moved = world.udp(REGISTRAR, &sent.answer(302, &["Contact: <sip:x@203.0.113.99>"]));
    assert!(requests(moved).iter().all(|sent| sent.to() == REGISTRAR));
}

#[test]
fn a_stranger_reaches_no_trunk_by_an_edge_domain_that_has_a_route() {
    let mut world = World::with(|config| {
        crate::routes::carriers(config);
        config.auth.enabled = true;
        config.edge_domains = vec!["other.example".into()];
    });
    let call = invite("sip:+441234@other.example").from("sip:eve@other.example");
    let sent = world.udp(STRANGER, &call);
    assert!(requests(sent).is_empty());
    assert_eq!(world.server.counters().trunk_requests, 0);
}

#[test]
fn a_forged_token_is_refused() {
    let mut world = world();
    let path = path_of(&mut world);
    let end = path.find('@').unwrap();
    for index in "<sip:".len()..end {
        let mut forged = path.clone().into_bytes();
        forged[index] = if forged[index] == b'1' { b'2' } else { b'1' };
        let forged = String::from_utf8(forged).unwrap();
        let request = by(&forged, "INVITE").call_id(&format!("{index}"));
        let sent = world.udp(STRANGER, &request);
        assert_eq!((requests(sent.clone()).len(), statuses(&sent)), (0, vec![403]), "byte {index} of {path}");
        assert!(world.udp(STRANGER, &Request { method: "ACK".into(), ..request }).is_empty());
    }
    for token in ["x", "0", "00000000000000000000", "00000000000000000000.", "%00", &"0".repeat(1000)] {
        let request = by(&format!("<sip:{token}@192.0.2.1;lr;ob>"), "MESSAGE").call_id(&token[..1]);
        assert_eq!(only(world.udp(STRANGER, &request)).status(), 403, "{token}");
    }
    let of_another = World::with(|config| {
        config.edge_domains = vec!["example.net".into()];
        config.secret = [8; 32];
    });
    let mut of_another = of_another;
    assert_eq!(only(of_another.udp(REGISTRAR, &by(&path, "INVITE"))).status(), 403);
}

#[test]
fn a_token_ends_after_a_day() {
    let mut world = world();
    let path = path_of(&mut world);
    world.pass(Duration::from_secs(80_000));
    assert_eq!(forwarded(world.udp(REGISTRAR, &by(&path, "MESSAGE"))).to(), PHONE);
    world.pass(Duration::from_secs(7_000));
    let refused = only(world.udp(REGISTRAR, &by(&path, "INVITE").call_id("late")));
    assert_eq!(refused.start(), "SIP/2.0 430 Flow Failed");
    assert_eq!(world.server.counters().flows_gone, 1);
}

#[test]
fn a_connection_that_is_gone_gets_430() {
    let mut world = world();
    world.tcp(5, PHONE, &daves().tcp());
    let sent = only(requests(world.resolve_to("example.net", &[REGISTRAR])));
    let path = sent.header("Path");
    world.udp(REGISTRAR, &sent.answer(200, &[]));
    assert!(
        world.kept.iter().any(|(connection, until)| *connection == ConnectionId(5) && *until > world.now)
    );
    let call = forwarded(world.udp(REGISTRAR, &by(&path, "INVITE")));
    assert_eq!(call.flow.connection, Some(ConnectionId(5)));
    let failed = only(world.event(Event::Unreachable(call.token)));
    assert_eq!((failed.start().as_str(), failed.to().as_str()), ("SIP/2.0 430 Flow Failed", REGISTRAR));
    nothing_is_left(&mut world, "after a flow that is gone");
    // After a restart its number is another connection's.
    let mut later = World::closed_restarted(world.now + Duration::from_secs(100));
    later.server.reconfigure(std::sync::Arc::new(ringway_server::Config {
        edge_domains: vec!["example.net".into()],
        ..crate::harness::config()
    }));
    assert_eq!(only(later.udp(REGISTRAR, &by(&path, "INVITE"))).status(), 430);
}

#[test]
fn a_registrar_goes_on_to_the_other_flow_after_430() {
    // Ringway is registrar and edge: what one says, the other understands.
    let mut world = world();
    let path = path_of(&mut world);
    let mut registrar = World::with(|config| config.domains = vec!["example.net".into()]);
    let flow = |path: &str, reg_id: u32| {
        let mut flow = daves();
        flow.uri = "sip:example.net".into();
        flow.lines.retain(|line| !line.starts_with("Route"));
        flow.lines[0] = flow.lines[0].replace("reg-id=1", &format!("reg-id={reg_id}"));
        flow.line("Via: SIP/2.0/UDP 10.0.0.5;branch=z9hG4bKphone")
            .line(&format!("Path: {path}"))
            .call_id(path)
    };
    for (number, path) in [path.replace(";ob", ";x;ob"), path].iter().enumerate() {
        let answer = only(registrar.udp(EDGE, &flow(path, 1 + number as u32)));
        assert_eq!((answer.status(), answer.header("Require").as_str()), (200, "outbound"));
        registrar.pass(Duration::from_secs(1));
    }
    let first = forwarded(registrar.udp("192.0.2.10:5060", &invite("sip:dave@example.net")));
    let second = requests(registrar.message(first.flow, &first.answer(430, &[])));
    assert_eq!(second.iter().map(Sent::method).collect::<Vec<_>>(), ["ACK", "INVITE"]);
    assert_ne!(first.header("Route"), second[1].header("Route"));
}

#[test]
fn a_user_in_the_route_of_our_own_phone_is_no_token() {
    let mut world = world();
    for (number, user) in ["alice", "0123", "a.b", "%2e"].iter().enumerate() {
        let call = invite("sip:carol@example.org").call_id(&format!("{number}"));
        let sent = world.udp(STRANGER, &call.line(&format!("Route: <sip:{user}@192.0.2.1;lr>")));
        assert_eq!(statuses(&sent), [407], "{user}: as without it");
    }
}

#[test]
fn an_edge_proxy_relays_for_its_domains_only() {
    let mut world = world();
    for (uri, from) in [
        ("sip:x@203.0.113.7", "sip:dave@example.net"),
        ("sip:x@example.com", "sip:dave@example.net"),
        ("sip:x@example.net", "sip:eve@example.com"),
        ("sip:x@sub.example.net", "sip:dave@example.net"),
    ] {
        let sent = world.udp(STRANGER, &invite(uri).from(from).call_id(uri));
        assert_eq!(statuses(&sent), [403], "{uri}");
        assert!(world.lookups.is_empty());
    }
    let mut off = World::closed();
    assert_eq!(statuses(&off.udp(PHONE, &daves())), [403], "without edge_domains");
}

#[test]
fn only_dns_chooses_port_and_transport_of_a_registrar() {
    for uri in [
        "sip:frank@example.net",
        "sip:frank@example.net:22;transport=tcp",
        "sip:frank@EXAMPLE.net:123",
        "sip:frank@example.net;transport=tcp",
    ] {
        for route in [None, Some("Route: <sip:example.net:25;transport=tcp;lr>")] {
            let mut world = world();
            let mut call = invite(uri).from("sip:dave@example.net");
            call.lines.extend(route.map(str::to_owned));
            world.udp(STRANGER, &call);
            let (_, asked) = &world.lookups[0];
            assert_eq!((asked.port, asked.transport), (None, None), "{uri} {route:?}");
            let host = asked.host.to_string();
            // A registrar in a private network is the administrator's.
            let sent = only(requests(world.resolve_to(&host, &["10.0.0.8:5080"])));
            assert_eq!((sent.to().as_str(), sent.uri().as_str()), ("10.0.0.8:5080", uri));
        }
    }
}

#[test]
fn behind_another_proxy_our_path_promises_no_flow() {
    let mut world = world();
    world.udp(
        PHONE,
        &daves().line("Via: SIP/2.0/UDP 10.0.0.5;branch=z9hG4bKphone").line("Path: <sip:10.0.0.9;lr>"),
    );
    let sent = only(requests(world.resolve_to("example.net", &[REGISTRAR])));
    let paths = sent.headers("Path");
    assert!(paths[0].ends_with(";lr>") && !paths[0].contains(";ob"), "{paths:?}");
    assert_eq!(paths[1], "<sip:10.0.0.9;lr>");
}

// Phones that register over another flow during a call

/// REGISTER of dave over TCP, and the registrar's answer.
fn registers_over(world: &mut World, connection: u64, at: &str, register: &Request, status: u16) -> String {
    world.tcp(connection, at, &register.clone().tcp());
    let sent = only(requests(world.resolve_to("example.net", &[REGISTRAR])));
    world.udp(REGISTRAR, &sent.answer(status, &[]));
    sent.header("Path")
}

/// REGISTER number `number`, of this user and with these parameters of Contact.
fn of(user: &str, parameters: &str, number: u32) -> Request {
    let mut register = daves().call_id(&format!("{user}-{number}"));
    register.to = format!("<sip:{user}@example.net>");
    register.lines[0] = format!("Contact: <sip:{user}@10.0.0.5>{parameters}");
    register.from(&format!("sip:{user}@example.net"))
}

/// Call of eve, behind the registrar, to dave over connection 5; returns her next request in it.
fn called_over_5(world: &mut World) -> Request {
    let path = registers_over(world, 5, PHONE, &of("dave", INSTANCE, 1), 200);
    let got = forwarded(world.udp(REGISTRAR, &by(&path, "INVITE")));
    assert_eq!(got.flow.connection, Some(ConnectionId(5)));
    let answer = only(world.tcp(5, PHONE, &got.answer(200, &["Contact: <sip:dave@10.0.0.5>"])));
    let info = Request { from: answer.header("From"), ..request("INFO", "sip:dave@10.0.0.5") };
    let mut info = info.cseq(7).to(&answer.header("To"));
    info.lines = answer.headers("Record-Route").iter().rev().map(|route| format!("Route: {route}")).collect();
    info.via(&format!("SIP/2.0/UDP {REGISTRAR};rport;branch=z9hG4bK"))
}

const INSTANCE: &str = ";+sip.instance=\"<urn:x>\";reg-id=1";
const ELSEWHERE: &str = "198.51.100.9:40001";

#[test]
fn a_phone_is_followed_to_the_flow_that_its_registrar_accepted() {
    for is_closed in [true, false] {
        let mut world = world();
        let info = called_over_5(&mut world);
        if is_closed {
            world.event(Event::Closed(ConnectionId(5)));
        }
        registers_over(&mut world, 6, ELSEWHERE, &of("dave", INSTANCE, 2), 200);
        for method in ["ACK", "INFO", "BYE"] {
            let request = Request { method: method.into(), ..info.clone() };
            let sent = forwarded(world.udp(REGISTRAR, &request));
            assert_eq!(sent.flow.connection, Some(ConnectionId(6)), "{method}, closed: {is_closed}");
        }
        assert_eq!(world.server.counters().sides_overflow, 0);
    }
}

#[test]
fn a_phone_behind_a_front_without_an_instance_is_known_by_its_contact() {
    let mut world = world();
    let path = registers_over(&mut world, 5, PHONE, &of("dave", "", 1), 200);
    let got = forwarded(world.udp(REGISTRAR, &by(&path, "INVITE")));
    let answer = only(world.tcp(5, PHONE, &got.answer(200, &["Contact: <sip:dave@10.0.0.5>"])));
    registers_over(&mut world, 6, ELSEWHERE, &of("dave", "", 2), 200);
    let mut bye = Request { from: answer.header("From"), ..request("BYE", "sip:dave@10.0.0.5") };
    bye.lines = answer.headers("Record-Route").iter().map(|route| format!("Route: {route}")).collect();
    let sent = forwarded(world.udp(REGISTRAR, &bye.cseq(9).to(&answer.header("To"))));
    assert_eq!(sent.flow.connection, Some(ConnectionId(6)));
}

/// Only the same phone of the same user, and only if its registrar accepted it.
#[test]
fn nobody_else_takes_the_requests_of_a_phone_behind_a_front() {
    let other_instance = ";+sip.instance=\"<urn:y>\";reg-id=1";
    let other_flow = ";+sip.instance=\"<urn:x>\";reg-id=2";
    for (what, register, status) in [
        ("refused", of("dave", INSTANCE, 2), 403),
        ("challenged", of("dave", INSTANCE, 2), 401),
        ("another phone", of("dave", other_instance, 2), 200),
        ("another flow", of("dave", other_flow, 2), 200),
        ("another user", of("mallory", INSTANCE, 2), 200),
        ("behind a proxy", of("dave", INSTANCE, 2).line("Via: SIP/2.0/TCP 10.0.0.5;branch=z9hG4bKp"), 200),
        ("two contacts", of("dave", INSTANCE, 2).line("Contact: <sip:x@10.0.0.6>"), 200),
    ] {
        let mut world = world();
        let info = called_over_5(&mut world);
        registers_over(&mut world, 6, ELSEWHERE, &register, status);
        let sent = forwarded(world.udp(REGISTRAR, &info));
        assert_eq!(sent.flow.connection, Some(ConnectionId(5)), "{what}");
    }
    // A user who shares a connection with dave leaves it, and dave stays.
    let mut world = world();
    let info = called_over_5(&mut world);
    registers_over(&mut world, 5, PHONE, &of("mallory", INSTANCE, 2), 200);
    registers_over(&mut world, 6, ELSEWHERE, &of("mallory", INSTANCE, 3), 200);
    assert_eq!(forwarded(world.udp(REGISTRAR, &info)).flow.connection, Some(ConnectionId(5)));
}

#[test]
fn one_user_behind_a_front_has_a_limited_number_of_phones() {
    let mut world = world();
    let info = called_over_5(&mut world);
    for number in 2..200 {
        let instance = format!(";+sip.instance=\"<urn:{number}>\"");
        registers_over(&mut world, 6, ELSEWHERE, &of("mallory", &instance, number), 200);
    }
    assert!(world.server.counters().sides_overflow > 100);
    registers_over(&mut world, 7, ELSEWHERE, &of("dave", INSTANCE, 2), 200);
    assert_eq!(forwarded(world.udp(REGISTRAR, &info)).flow.connection, Some(ConnectionId(7)));
}
