//! Tests of phones with unreachable contacts: behind a NAT, or on a connection. Requests inside a dialog reach them
//! through our Record-Route.

use crate::harness::{ALICE, BOB, EDGE, Request, Sent, World, forwarded, invite, only, request};
use ringway_sansio::ConnectionId;

/// Address of bob's phone outside the NAT; its contact is 10.0.0.5.
const OUTSIDE: &str = "198.51.100.7:31337";

/// Request in the dialog, towards `uri`, with the Route set of its sender.
fn in_dialog(method: &str, uri: &str, from: &str, to: &str, routes: Vec<String>) -> Request {
    let mut request = request(method, uri).cseq(2).to(to);
    request.from = from.into();
    request.lines = routes.iter().map(|route| format!("Route: {route}")).collect();
    request
}

/// Call, and requests of both sides in it.
struct Call {
    world: World,
    got: Sent,
    answer: Sent,
}

impl Call {
    fn new(mut world: World, from: &str, contact: &str) -> Self {
        let mut call = invite("sip:bob@example.org");
        call.lines = vec![format!("Contact: <{contact}>")];
        let got = forwarded(world.udp(from, &call));
        let answer = got.answer(200, &["Contact: <sip:bob@10.0.0.5>"]);
        let answer = only(world.message(got.flow, &answer));
        Self { world, got, answer }
    }

    fn callers(&self, method: &str, uri: &str) -> Request {
        let mut routes = self.answer.headers("Record-Route");
        routes.reverse();
        in_dialog(method, uri, &self.answer.header("From"), &self.answer.header("To"), routes)
    }

    fn callees(&self, method: &str, uri: &str) -> Request {
        let (from, to) = (self.answer.header("To"), self.answer.header("From"));
        in_dialog(method, uri, &from, &to, self.got.headers("Record-Route")).cseq(3)
    }
}

#[test]
fn a_callee_behind_a_translator_gets_the_ack_and_the_bye() {
    let mut world = World::open();
    world.register("bob", OUTSIDE, "<sip:bob@10.0.0.5>");
    let mut call = Call::new(world, ALICE, &format!("sip:alice@{ALICE}"));
    assert_eq!(call.got.to(), OUTSIDE);
    for method in ["ACK", "INVITE", "BYE"] {
        let request = call.callers(method, "sip:bob@10.0.0.5");
        let sent = forwarded(call.world.udp(ALICE, &request));
        assert_eq!((sent.to().as_str(), sent.uri().as_str()), (OUTSIDE, "sip:bob@10.0.0.5"), "{method}");
    }
    let bye = call.callees("BYE", &format!("sip:alice@{ALICE}"));
    assert_eq!(forwarded(call.world.udp(OUTSIDE, &bye)).to(), ALICE, "the other side is where it says");
}

#[test]
fn a_callee_that_was_reached_by_way_of_another_user_of_ours_gets_them_too() {
    let mut world = World::open();
    world.register("bob", OUTSIDE, "<sip:bob@10.0.0.5>");
    world.server.set_permanent_contacts(b"carol@example.org", &[b"sip:bob@example.org"]);
    let sent = forwarded(world.udp(ALICE, &invite("sip:carol@example.org")));
    let got = forwarded(world.udp("192.0.2.1:5060", &sent.bytes));
    let answer = only(world.udp(OUTSIDE, &got.answer(200, &[])));
    let answer = only(world.udp("192.0.2.1:5060", &answer.bytes));
    let mut call = Call { world, got, answer };
    let bye = call.callers("BYE", "sip:bob@10.0.0.5");
    assert_eq!(forwarded(call.world.udp(ALICE, &bye)).to(), OUTSIDE);
}

#[test]
fn a_caller_behind_a_translator_gets_the_bye() {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let mut call = Call::new(world, OUTSIDE, "sip:alice@10.0.0.9:5062");
    let bye = call.callees("BYE", "sip:alice@10.0.0.9:5062");
    let sent = forwarded(call.world.udp(BOB, &bye));
    assert_eq!((sent.to().as_str(), sent.uri().as_str()), (OUTSIDE, "sip:alice@10.0.0.9:5062"));
    // The NAT gave alice another port: her requests still reach bob.
    let bye = call.callers("BYE", "sip:bob@192.0.2.20");
    assert_eq!(forwarded(call.world.udp("198.51.100.7:4444", &bye)).to(), BOB);
}

#[test]
fn a_caller_that_came_through_a_trusted_proxy_is_reached_where_it_says() {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let mut through = invite("sip:bob@example.org").line("Via: SIP/2.0/UDP 10.0.0.9;branch=z9hG4bKx");
    through.lines[0] = "Contact: <sip:alice@203.0.113.5>".into();
    let got = forwarded(world.udp(EDGE, &through));
    let answer = only(world.udp(BOB, &got.answer(200, &[])));
    let bye = in_dialog(
        "BYE",
        "sip:alice@203.0.113.5",
        &answer.header("To"),
        &answer.header("From"),
        got.headers("Record-Route"),
    );
    assert_eq!(forwarded(world.udp(BOB, &bye)).to(), "203.0.113.5:5060");
}

#[test]
fn both_sides_may_be_behind_translators() {
    let mut world = World::with(|config| config.stateful = false);
    world.register("bob", OUTSIDE, "<sip:bob@10.0.0.5>");
    let mut call = Call::new(world, "198.51.100.99:1111", "sip:alice@10.0.0.9");
    let bye = call.callers("BYE", "sip:bob@10.0.0.5");
    assert_eq!(forwarded(call.world.udp("198.51.100.99:1111", &bye)).to(), OUTSIDE);
    let bye = call.callees("BYE", "sip:alice@10.0.0.9");
    assert_eq!(forwarded(call.world.udp(OUTSIDE, &bye)).to(), "198.51.100.99:1111");
}

#[test]
fn a_caller_that_comes_back_by_another_connection_still_reaches_the_callee_by_its_own() {
    let mut world = World::open();
    world.register_tcp(5, "bob", OUTSIDE, "<sip:bob@10.0.0.5;transport=tcp>");
    let got = forwarded(world.tcp(7, "192.0.2.10:40000", &invite("sip:bob@example.org").tcp()));
    let answer = only(world.tcp(5, OUTSIDE, &got.answer(200, &[])));
    let mut routes = answer.headers("Record-Route");
    routes.reverse();
    let (from, to) = (answer.header("From"), answer.header("To"));
    let bye = in_dialog("BYE", "sip:bob@10.0.0.5;transport=tcp", &from, &to, routes).tcp();
    for connection in [7, 8] {
        let bye = bye.clone().cseq(connection);
        let sent = forwarded(world.tcp(u64::from(connection), "192.0.2.10:40000", &bye));
        assert_eq!(sent.flow.connection, Some(ConnectionId(5)), "from {connection}");
    }
}

#[test]
fn a_peer_cannot_write_an_address_into_our_mark() {
    let mut world = World::closed();
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    world.add_user("bob", "example.org", "bob's password");
    let registration = crate::harness::register("bob", "<sip:bob@10.0.0.5>");
    let sent = crate::challenge::proven(&mut world, OUTSIDE, &registration, "bob");
    assert_eq!(only(sent).status(), 200);
    world.server.set_permanent_contacts(b"bob@example.org", &[]);
    let got = forwarded(crate::challenge::proven(&mut world, ALICE, &invite("sip:bob@example.org"), "alice"));
    let answer = only(world.udp(OUTSIDE, &got.answer(200, &[])));
    let route = answer.header("Record-Route");
    let at = route.find("rw=").unwrap() + 3;
    for index in at..route.len() - 1 {
        let mut forged = route.clone().into_bytes();
        forged[index] = if forged[index] == b'1' { b'2' } else { b'1' };
        let forged = String::from_utf8(forged).unwrap();
        let (from, to) = (answer.header("From"), answer.header("To"));
        let again = in_dialog("INVITE", "sip:bob@10.0.0.5", &from, &to, vec![forged]);
        let status = only(world.udp(ALICE, &again.cseq(index as u32 + 10))).status();
        assert_eq!(status, 407, "byte {index} of {route}");
    }
}
