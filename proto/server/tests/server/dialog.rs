//! Tests of requests inside dialogs: Record-Route and Route, strict routers, ACKs of answered calls, and the marks of
//! dialogs.

use crate::challenge::{Login, answered, proven};
use crate::harness::{
    ALICE, BOB, CAROL, EDGE, Request, STRANGER, Sent, World, forwarded, invite, only, request, requests,
    statuses,
};
use ringway_sansio::{ConnectionId, Transport};
use ringway_server::Payer;

/// Call of alice to bob, who answers: bob's INVITE and alice's 200.
fn call(world: &mut World, uri: &str) -> (Sent, Sent) {
    let got = forwarded(world.udp(ALICE, &invite(uri)));
    let answer = only(world.udp(&got.to(), &got.answer(200, &[&format!("Contact: <sip:bob@{}>", got.to())])));
    assert_eq!(answer.status(), 200);
    (got, answer)
}

/// Request of alice in the dialog of this response.
pub(crate) fn from_caller(method: &str, cseq: u32, answer: &Sent) -> Request {
    let mut routes = answer.headers("Record-Route");
    routes.reverse();
    let mut request = request(method, "sip:bob@192.0.2.20:5060").to(&answer.header("To")).cseq(cseq);
    request.lines = routes.iter().map(|route| format!("Route: {route}")).collect();
    request
}

/// Request of bob in the same dialog.
pub(crate) fn from_callee(method: &str, cseq: u32, got: &Sent, answer: &Sent) -> Request {
    let routes = got.headers("Record-Route");
    let mut request = request(method, &format!("sip:alice@{ALICE}")).cseq(cseq).to(&got.header("From"));
    request.from = answer.header("To");
    request.via = format!("SIP/2.0/UDP {BOB};rport;branch=z9hG4bK");
    request.lines = routes.iter().map(|route| format!("Route: {route}")).collect();
    request
}

pub(crate) fn with_bob(mut world: World) -> World {
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    world
}

#[test]
fn a_dialog_stays_on_our_path_from_its_first_request_on() {
    let mut world = with_bob(World::open());
    let (got, answer) = call(&mut world, "sip:bob@example.org");
    let route = got.header("Record-Route");
    assert!(route.starts_with("<sip:192.0.2.1:5060;lr;rw="), "{route}");
    assert_eq!(answer.header("Record-Route"), route);
    for (cseq, method) in (2..).zip(["INVITE", "INFO", "UPDATE", "BYE"]) {
        let sent = forwarded(world.udp(ALICE, &from_caller(method, cseq, &answer)));
        assert_eq!((sent.to().as_str(), sent.uri().as_str()), (BOB, "sip:bob@192.0.2.20:5060"));
        assert!(
            sent.headers("Route").is_empty() && sent.headers("Record-Route").is_empty(),
            "{}",
            sent.text()
        );
        let back = forwarded(world.udp(BOB, &from_callee(method, cseq, &got, &answer)));
        assert_eq!((back.to().as_str(), back.headers("Route").len()), (ALICE, 0));
    }
}

#[test]
fn only_what_begins_a_dialog_is_recorded() {
    let mut world = with_bob(World::open());
    for (method, count) in [("SUBSCRIBE", 1), ("REFER", 1), ("MESSAGE", 0), ("OPTIONS", 0), ("PUBLISH", 0)] {
        let sent = forwarded(world.udp(ALICE, &request(method, "sip:bob@example.org").call_id(method)));
        assert_eq!(sent.headers("Record-Route").len(), count, "{method}");
    }
    let mut world = with_bob(World::with(|config| config.record_route = false));
    assert!(call(&mut world, "sip:bob@example.org").0.headers("Record-Route").is_empty());
}

#[test]
fn two_transports_are_two_entries() {
    let mut world = World::open();
    world.register_tcp(5, "bob", "192.0.2.20:40000", "<sip:bob@192.0.2.20:5060;transport=tcp>");
    let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    let routes = got.headers("Record-Route");
    assert!(routes[0].starts_with("<sip:192.0.2.1:5060;transport=tcp;lr;rw="), "{routes:?}");
    assert!(routes[1].starts_with("<sip:192.0.2.1:5060;lr;rw="), "{routes:?}");
    assert_eq!(routes.len(), 2);
    let answer = only(world.tcp(5, "192.0.2.20:40000", &got.answer(200, &[])));
    let mut bye = from_caller("BYE", 2, &answer);
    bye.uri = "sip:bob@192.0.2.20:5060;transport=tcp".into();
    let sent = forwarded(world.udp(ALICE, &bye));
    assert_eq!(
        (sent.flow.connection, sent.headers("Route").len()),
        (Some(ConnectionId(5)), 0),
        "both are ours"
    );
    let back = from_callee("BYE", 3, &got, &answer).tcp();
    let back = forwarded(world.tcp(5, "192.0.2.20:40000", &back));
    assert_eq!((back.to().as_str(), back.flow.transport), (ALICE, Transport::Udp));
}

#[test]
fn the_ack_of_an_answered_call_goes_end_to_end() {
    let mut world = with_bob(World::open());
    let (got, answer) = call(&mut world, "sip:bob@example.org");
    let ack = from_caller("ACK", 1, &answer);
    let sent = only(world.udp(ALICE, &ack));
    assert_eq!((sent.method().as_str(), sent.to().as_str()), ("ACK", BOB));
    assert_eq!(sent.header("CSeq"), "1 ACK");
    assert_ne!(sent.headers("Via")[0], got.headers("Via")[0], "it is a transaction of its own");
    assert_eq!(only(world.udp(ALICE, &ack)).bytes, sent.bytes, "each time it comes");
    // An old client sends it with the branch of its INVITE.
    let same_branch = Request { via: invite("sip:bob@example.org").cancel().via, ..ack };
    assert_eq!(only(world.udp(ALICE, &same_branch)).method(), "ACK");
}

#[test]
fn an_answer_that_is_repeated_is_forwarded_again() {
    let mut world = with_bob(World::open());
    let (got, answer) = call(&mut world, "sip:bob@example.org");
    for _ in 0..5 {
        world.pass(std::time::Duration::from_secs(4));
        let again = got.answer(200, &[&format!("Contact: <sip:bob@{BOB}>")]);
        assert_eq!(only(world.udp(BOB, &again)).bytes, answer.bytes);
    }
}

#[test]
fn the_ack_of_a_call_to_a_host_with_a_name_is_not_lost() {
    let mut world = World::open();
    world.register("bob", EDGE, "<sip:bob@phone.example.net>");
    world.udp(ALICE, &invite("sip:bob@example.org"));
    let got = only(world.resolve("phone.example.net", Some("192.0.2.20")));
    let answer = only(world.udp(BOB, &got.answer(200, &[])));
    let mut ack = from_caller("ACK", 1, &answer);
    ack.uri = "sip:bob@phone.example.net".into();
    assert!(world.udp(ALICE, &ack).is_empty());
    let sent = only(world.resolve("phone.example.net", Some("192.0.2.20")));
    assert_eq!((sent.method().as_str(), sent.to().as_str()), ("ACK", BOB));
    assert_eq!((sent.uri().as_str(), sent.headers("Route").len()), ("sip:bob@phone.example.net", 0));
    assert!(world.udp(ALICE, &ack).is_empty());
    assert!(world.resolve("phone.example.net", None).is_empty(), "an ACK is never answered");
}

#[test]
fn a_route_behind_ours_is_the_next_hop() {
    let mut world = with_bob(World::open());
    let routes = "Route: <sip:192.0.2.1:5060;lr>, <sip:192.0.2.1;lr> , \"P\" <sip:p@192.0.2.77;lr>;x=1, <sip:192.0.2.78;lr>";
    let sent = forwarded(world.udp(ALICE, &invite("sip:bob@example.org").line(routes)));
    assert_eq!((sent.to().as_str(), sent.uri().as_str()), ("192.0.2.77:5060", "sip:bob@example.org"));
    assert_eq!(sent.header("Route"), "\"P\" <sip:p@192.0.2.77;lr>;x=1, <sip:192.0.2.78;lr>");
}

#[test]
fn a_strict_router_before_us_is_mended() {
    let mut world = with_bob(World::open());
    let (_, answer) = call(&mut world, "sip:bob@example.org");
    let ours = answer.header("Record-Route");
    let mut bye = from_caller("BYE", 2, &answer);
    // It moved our Route into the Request-URI and the target to the end of the Route.
    bye.uri = ours.trim_matches(['<', '>']).into();
    bye.lines = vec!["Route: <sip:192.0.2.77;lr>, <sip:bob@192.0.2.20>".into()];
    let sent = forwarded(world.udp(ALICE, &bye));
    assert_eq!((sent.to().as_str(), sent.uri().as_str()), ("192.0.2.77:5060", "sip:bob@192.0.2.20"));
    assert_eq!(sent.header("Route"), "<sip:192.0.2.77;lr>");
    bye.lines = vec!["Route: <sip:bob@192.0.2.20>".into()];
    let sent = forwarded(world.udp(ALICE, &bye.cseq(3)));
    assert_eq!(
        (sent.to().as_str(), sent.uri().as_str(), sent.headers("Route").len()),
        (BOB, "sip:bob@192.0.2.20", 0)
    );
}

#[test]
fn what_a_strict_router_moved_may_not_have_headers_either() {
    let mut world = with_bob(World::open());
    let (_, answer) = call(&mut world, "sip:bob@example.org");
    let mut bye = from_caller("BYE", 2, &answer);
    bye.uri = answer.header("Record-Route").trim_matches(['<', '>']).into();
    for (cseq, target, status) in [(2, "sip:bob@192.0.2.20?Route=%3Csip:x%3E", 400), (3, "tel:+123", 416)] {
        bye.lines = vec![format!("Route: <{target}>")];
        assert_eq!(only(world.udp(ALICE, &bye.clone().cseq(cseq))).status(), status);
    }
}

#[test]
fn a_strict_router_behind_us_gets_its_own_uri() {
    let mut world = with_bob(World::open());
    let call =
        invite("sip:x@192.0.2.88").line("Route: <sip:192.0.2.1;lr>, <sip:192.0.2.77>, <sip:192.0.2.78;lr>");
    let sent = forwarded(world.udp(ALICE, &call));
    assert_eq!((sent.to().as_str(), sent.uri().as_str()), ("192.0.2.77:5060", "sip:192.0.2.77"));
    assert_eq!(sent.headers("Route").join(", "), "<sip:192.0.2.78;lr>, <sip:x@192.0.2.88>");
}

#[test]
fn a_route_that_cannot_be_read_is_400() {
    let mut world = with_bob(World::open());
    for route in ["<sip:192.0.2.1", "sip:192.0.2.1;lr, ,", "<>", "\"x"] {
        let call = invite("sip:bob@example.org").line(&format!("Route: {route}")).call_id(route);
        assert_eq!(only(world.udp(ALICE, &call)).status(), 400, "{route}");
    }
}

/// A phone over a connection that is over its rate: a re-INVITE gets 503 from this server, and its ACK goes no further.
#[test]
fn the_ack_of_a_reinvite_that_is_over_the_rate_is_not_forwarded() {
    let mut world = with_bob(World::limited(4));
    let got = forwarded(world.tcp(7, ALICE, &invite("sip:bob@example.org").tcp()));
    let answer = only(world.udp(BOB, &got.answer(200, &[])));
    assert_eq!(only(world.tcp(7, ALICE, &from_caller("ACK", 1, &answer).tcp())).to(), BOB);
    let refused = (2..20).find_map(|cseq| {
        let again = from_caller("INVITE", cseq, &answer).tcp();
        let sent = world.tcp(7, ALICE, &again);
        let slowed = sent.into_iter().find(|sent| sent.text().starts_with("SIP/2.0 503 Slow Down"));
        Some((again, slowed?))
    });
    let (again, refused) = refused.expect("the rate is reached");
    world.pass(std::time::Duration::from_secs(2));
    let sent = world.tcp(7, ALICE, &again.ack_of(&refused));
    assert!(sent.iter().all(|sent| sent.method() != "ACK"), "{}", sent[0].text());
}

// With passwords

/// Call of alice to bob with her password; both sides then have our mark.
fn proven_call(world: &mut World) -> (Sent, Sent) {
    let got = forwarded(proven(world, ALICE, &invite("sip:bob@example.org"), "alice"));
    let answer = only(world.udp(BOB, &got.answer(200, &[])));
    (got, answer)
}

#[test]
fn requests_in_a_dialog_of_ours_need_no_password() {
    let mut world = with_bob(World::closed());
    let (got, answer) = proven_call(&mut world);
    assert_eq!(only(world.udp(ALICE, &from_caller("ACK", 2, &answer))).to(), BOB);
    assert_eq!(forwarded(world.udp(ALICE, &from_caller("INVITE", 3, &answer))).to(), BOB);
    assert_eq!(forwarded(world.udp(BOB, &from_callee("BYE", 1, &got, &answer))).to(), ALICE);
    assert_eq!(world.server.counters().challenged, 1);
}

#[test]
fn in_dialog_asks_there_too() {
    let mut world = with_bob(World::with(|config| {
        config.auth.enabled = true;
        config.auth.in_dialog = true;
    }));
    let (got, answer) = proven_call(&mut world);
    assert_eq!(
        only(world.udp(ALICE, &from_caller("ACK", 2, &answer))).to(),
        BOB,
        "an ACK cannot be challenged"
    );
    let bye = from_caller("BYE", 3, &answer);
    let challenge = only(world.udp(ALICE, &bye));
    assert_eq!(challenge.status(), 407);
    let bye = answered(&bye, &Login::to(&challenge, "alice"));
    assert_eq!(forwarded(world.udp(ALICE, &bye)).to(), BOB);
    let bye = from_callee("BYE", 1, &got, &answer);
    let challenge = only(world.udp(BOB, &bye));
    assert_eq!(challenge.status(), 407, "the other side is a user of ours too");
    let bye = answered(&bye, &Login::to(&challenge, "bob"));
    assert_eq!(forwarded(world.udp(BOB, &bye)).to(), ALICE);
}

#[test]
fn a_mark_that_was_changed_or_is_of_another_call_proves_nothing() {
    let mut world = with_bob(World::closed());
    let (_, answer) = proven_call(&mut world);
    let mark = answer.header("Record-Route");
    let at = mark.find("rw=").unwrap() + 3;
    let changed = mark.replace(&mark[at..=at], if &mark[at..=at] == "0" { "1" } else { "0" });
    for route in
        [&changed, "<sip:192.0.2.1:5060;lr;rw=>", "<sip:192.0.2.1:5060;lr;rw=0>", "<sip:192.0.2.1:5060;lr>"]
    {
        let mut again = from_caller("INVITE", 3, &answer);
        again.lines = vec![format!("Route: {route}")];
        let status = only(world.udp(ALICE, &again.clone().call_id("call"))).status();
        assert_eq!(status, if route.ends_with("rw=>") { 400 } else { 407 }, "{route}");
        again.from = "<sip:eve@example.net>;tag=1".into();
        let status = only(world.udp(STRANGER, &again.cseq(4))).status();
        assert_eq!(status, if route.ends_with("rw=>") { 400 } else { 403 }, "{route}");
    }
    let other = from_caller("INVITE", 3, &answer).call_id("another");
    assert_eq!(only(world.udp(ALICE, &other)).status(), 407);
}

#[test]
fn a_mark_is_good_in_its_dialog_only() {
    let mut world = with_bob(World::closed());
    let (_, answer) = proven_call(&mut world);
    // The callee has the mark and the Call-ID, which permit no new dialog.
    let mut fresh = from_caller("INVITE", 9, &answer).to("<sip:premium@192.0.2.99>");
    fresh.uri = "sip:premium@192.0.2.99".into();
    assert_eq!(only(world.udp(STRANGER, &fresh)).status(), 407, "as alice");
    fresh.from = "<sip:eve@example.net>;tag=1".into();
    assert_eq!(only(world.udp(STRANGER, &fresh.cseq(10))).status(), 403, "as herself");
}

/// A stranger who called a user has a mark too, and may invent a To tag. The mark proves no identity, and reaches only
/// the callee.
#[test]
fn a_strangers_mark_opens_no_other_way() {
    let mut world = with_bob(World::closed());
    let mut call = invite("sip:bob@example.org").from("sip:eve@example.net");
    call.via = format!("SIP/2.0/UDP {STRANGER};rport;branch=z9hG4bK");
    let got = forwarded(world.udp(STRANGER, &call));
    let ringing = only(world.udp(BOB, &got.answer(180, &[])));
    for (cseq, method) in [(10, "INVITE"), (20, "INFO"), (30, "UPDATE")] {
        let mut again = from_caller(method, cseq, &ringing);
        again.to = "<sip:bob@example.org>;tag=invented".into();
        assert_eq!(only(world.udp(STRANGER, &again)).status(), 407, "{method} as alice");
        again.from = call.from.clone();
        again.uri = "sip:victim@192.0.2.99".into();
        assert_eq!(
            only(world.udp(STRANGER, &again.clone().cseq(cseq + 1))).status(),
            403,
            "{method} elsewhere"
        );
        again.uri = "sip:bob@192.0.2.20".into();
        let sent = forwarded(world.udp(STRANGER, &again.cseq(cseq + 2)));
        assert_eq!(sent.to(), BOB, "{method} to whom she called");
    }
}

/// A slot of a transaction is used again after a restart. A response to its earlier request must not match.
#[test]
fn an_answer_to_a_call_from_before_a_restart_is_a_stray() {
    let mut before = with_bob(World::open());
    let got = forwarded(before.udp(ALICE, &invite("sip:bob@example.org")));
    let mut after = with_bob(World::restarted());
    let other = invite("sip:bob@example.org").call_id("other").from("sip:carol@example.org");
    let again = forwarded(after.udp(CAROL, &other));
    assert!(after.udp(BOB, &got.answer(200, &[])).is_empty(), "an answer to the other call");
    assert_eq!(statuses(&after.udp(BOB, &again.answer(180, &[]))), [180]);
}

#[test]
fn a_call_that_is_forwarded_to_another_user_of_ours_is_asked_for_once() {
    let mut world = with_bob(World::closed());
    world.server.set_permanent_contacts(b"carol@example.org", &[b"sip:bob@example.org"]);
    let sent = forwarded(proven(&mut world, ALICE, &invite("sip:carol@example.org"), "alice"));
    assert_eq!(sent.to(), "192.0.2.1:5060");
    assert!(sent.headers("Proxy-Authorization").is_empty());
    let sent = forwarded(world.udp("192.0.2.1:5060", &sent.bytes));
    assert_eq!(sent.to(), BOB);
    let answer = only(world.udp(BOB, &sent.answer(200, &[])));
    assert_eq!(answer.to(), "192.0.2.1:5060");
    let answer = only(world.udp("192.0.2.1:5060", &answer.bytes));
    assert_eq!((answer.to().as_str(), answer.headers("Record-Route").len()), (ALICE, 2));
    assert_eq!(forwarded(world.udp(ALICE, &from_caller("BYE", 5, &answer))).to(), BOB);
}

#[test]
fn an_invented_to_tag_permits_nothing() {
    let mut world = with_bob(World::with(|config| {
        config.auth.enabled = true;
        config.record_route = false;
    }));
    let bye = request("BYE", "sip:bob@example.org").to("<sip:bob@example.org>;tag=x");
    assert_eq!(only(world.udp(ALICE, &bye)).status(), 407);
    let sent = world.udp(ALICE, &invite("sip:bob@example.org").to("<sip:bob@example.org>;tag=x").cseq(2));
    assert_eq!(statuses(&sent), [407]);
    assert!(requests(sent).is_empty());
    let other = request("BYE", "sip:x@192.0.2.88").to("<sip:x@192.0.2.88>;tag=x").cseq(3);
    assert_eq!(only(world.udp(CAROL, &other)).status(), 407);
}

// Senders whose address changed

/// Another address of the same user.
const ELSEWHERE: &str = "198.51.100.7:5060";

#[test]
fn a_user_who_moved_proves_the_password_and_reaches_the_same_side() {
    for method in ["BYE", "INVITE", "UPDATE", "REFER", "INFO"] {
        let mut world = with_bob(World::closed());
        let (got, answer) = proven_call(&mut world);
        let request = from_caller(method, 3, &answer);
        let challenge = only(world.udp(ELSEWHERE, &request));
        assert_eq!(challenge.status(), 407, "{method}");
        let request = answered(&request, &Login::to(&challenge, "alice"));
        assert_eq!(forwarded(world.udp(ELSEWHERE, &request)).to(), BOB, "{method}");
        let request = from_callee(method, 1, &got, &answer);
        let challenge = only(world.udp(ELSEWHERE, &request));
        assert_eq!(challenge.status(), 407, "{method} of the callee");
        let wrong = answered(&request, &Login::to(&challenge, "alice"));
        assert_eq!(
            only(world.udp(ELSEWHERE, &wrong)).status(),
            403,
            "{method}: bob's own password is needed"
        );
        let request = answered(&request.cseq(5), &Login::to(&challenge, "bob").nc(2));
        assert_eq!(forwarded(world.udp(ELSEWHERE, &request)).to(), ALICE, "{method}");
        let counters = world.server.counters();
        assert_eq!((counters.moved_challenged, counters.moved_refused), (5, 0));
    }
}

#[test]
fn another_port_or_connection_of_the_same_address_is_no_move() {
    let mut world = with_bob(World::closed());
    let (got, answer) = proven_call(&mut world);
    assert_eq!(forwarded(world.udp("192.0.2.10:40000", &from_caller("INFO", 3, &answer))).to(), BOB);
    let over_tcp = from_callee("BYE", 1, &got, &answer).tcp();
    assert_eq!(forwarded(world.tcp(9, "192.0.2.20:40000", &over_tcp)).to(), ALICE);
    assert_eq!(world.server.counters().moved_challenged, 0);
}

#[test]
fn the_ack_of_a_user_who_moved_is_forwarded() {
    let mut world = with_bob(World::closed());
    let (_, answer) = proven_call(&mut world);
    assert_eq!(only(world.udp(ELSEWHERE, &from_caller("ACK", 2, &answer))).to(), BOB);
}

/// A stranger has no password, and could be anybody who saw the identifiers of the call.
#[test]
fn a_stranger_who_moved_is_refused() {
    let mut world = with_bob(World::closed());
    let mut call = invite("sip:bob@example.org").from("sip:eve@example.net");
    call.via = format!("SIP/2.0/UDP {STRANGER};rport;branch=z9hG4bK");
    let got = forwarded(world.udp(STRANGER, &call));
    let answer = world.udp(BOB, &got.answer(200, &["Contact: <sip:bob@192.0.2.20>"]));
    let answer = answer.into_iter().find(|sent| sent.status() == 200).unwrap();
    let bye = Request { from: call.from.clone(), ..from_caller("BYE", 3, &answer) };
    let refused = only(world.udp(ELSEWHERE, &bye));
    assert_eq!(refused.start(), "SIP/2.0 403 Not From This Side Of The Dialog");
    assert_eq!(world.server.counters().moved_refused, 1);
    assert_eq!(forwarded(world.udp(EDGE, &bye.clone().cseq(4))).to(), BOB, "a trusted proxy");
    assert_eq!(forwarded(world.udp(STRANGER, &bye.cseq(5))).to(), BOB);
}

/// The end of a call is booked on its dialog, not on the address that it comes from.
#[test]
fn a_call_ends_though_its_source_has_no_room_and_no_rate_left() {
    let mut world = with_bob(World::closed());
    world.server.set_permanent_contacts(b"carol@example.org", &[b"sip:carol@192.0.2.30"]);
    let mut call = invite("sip:bob@example.org").from("sip:eve@example.net");
    call.via = format!("SIP/2.0/UDP {STRANGER};rport;branch=z9hG4bK");
    let got = forwarded(world.udp(STRANGER, &call));
    let answer = world.udp(BOB, &got.answer(200, &["Contact: <sip:bob@192.0.2.20>"]));
    let answer = answer.into_iter().find(|sent| sent.status() == 200).unwrap();
    let of_stranger =
        |method, cseq| Request { from: call.from.clone(), ..from_caller(method, cseq, &answer) };
    let source = Payer::Stranger(STRANGER.parse::<std::net::SocketAddr>().unwrap().ip());
    while world.memory.tables().reserve(source, 1 << 10) {}
    let other =
        Request { via: call.via.clone(), ..invite("sip:carol@example.org").from("sip:eve@example.net") };
    assert_eq!(only(world.udp(STRANGER, &other.call_id("new"))).status(), 503, "a new call");
    assert_eq!(only(world.udp(STRANGER, &of_stranger("ACK", 1))).to(), BOB);
    for cseq in 3..7 {
        assert_eq!(forwarded(world.udp(STRANGER, &of_stranger("INFO", cseq))).to(), BOB);
    }
    assert_eq!(only(world.udp(STRANGER, &of_stranger("INFO", 7))).status(), 503, "four have no answer");
    assert_eq!(forwarded(world.udp(BOB, &from_callee("INFO", 1, &got, &answer))).status(), 0);
    assert_eq!(
        forwarded(world.udp(STRANGER, &of_stranger("BYE", 8))).to(),
        BOB,
        "its end has room of its own"
    );
}

/// A called phone would dial what a REFER names, with the password of its user.
#[test]
fn a_stranger_sends_no_refer_in_a_call() {
    // A caller who says to be of a domain whose phones register through this server is a stranger too.
    for edge_domains in [vec![], vec!["example.net".into()]] {
        sends_no_refer(with_bob(World::with(|config| {
            config.auth.enabled = true;
            config.edge_domains = edge_domains;
        })));
    }
}

fn sends_no_refer(mut world: World) {
    let mut call = invite("sip:bob@example.org").from("sip:eve@example.net");
    call.via = format!("SIP/2.0/UDP {STRANGER};rport;branch=z9hG4bK");
    let got = forwarded(world.udp(STRANGER, &call));
    let answer = world.udp(BOB, &got.answer(200, &["Contact: <sip:bob@192.0.2.20>"]));
    let answer = answer.into_iter().find(|sent| sent.status() == 200).unwrap();
    let of_stranger =
        |method, cseq| Request { from: call.from.clone(), ..from_caller(method, cseq, &answer) };
    for (cseq, method) in (3..).zip(["REFER", "MESSAGE", "SUBSCRIBE", "PUBLISH", "NOTIFY", "XYZ"]) {
        let refused = only(world.udp(STRANGER, &of_stranger(method, cseq)));
        assert_eq!(refused.start(), "SIP/2.0 403 Not In A Call With A Stranger", "{method}");
    }
    assert_eq!(world.server.counters().strangers_methods_refused, 6);
    let notify = |cseq, event: &str| {
        let mut notify = of_stranger("NOTIFY", cseq);
        notify.lines.push("Subscription-State: active".to_owned());
        notify.lines.push(format!("Event: {event}"));
        notify
    };
    assert_eq!(only(world.udp(STRANGER, &notify(20, "talk"))).status(), 403);
    assert_eq!(only(world.udp(STRANGER, &notify(21, "check-sync;reboot=true"))).status(), 403);
    let of_refer = forwarded(world.udp(STRANGER, &notify(22, "refer;id=1")));
    assert_eq!(of_refer.to(), BOB, "of bob's REFER");
    world.udp(BOB, &of_refer.answer(200, &[]));
    // The user itself transfers.
    let mut refer = from_callee("REFER", 1, &got, &answer);
    refer.lines.push("Refer-To: <sip:carol@example.org>".to_owned());
    assert_eq!(forwarded(world.udp(BOB, &refer)).to(), STRANGER);
    for (cseq, method) in (30..).zip(["INFO", "UPDATE", "PRACK", "OPTIONS", "BYE"]) {
        let got = forwarded(world.udp(STRANGER, &of_stranger(method, cseq)));
        assert_eq!(got.to(), BOB, "{method}");
        world.udp(BOB, &got.answer(200, &[]));
    }
}

/// The callee's 2xx names another address: its requests may come from there, and from where the INVITE was sent.
#[test]
fn both_addresses_of_a_callee_are_its_side() {
    let mut world = with_bob(World::closed());
    let call = invite("sip:x@203.0.113.50").to("<sip:x@203.0.113.50>");
    let got = forwarded(proven(&mut world, ALICE, &call, "alice"));
    let trunk = got.to();
    let answer = world.udp(&trunk, &got.answer(200, &["Contact: <sip:x@203.0.113.51>"]));
    let answer = answer.into_iter().find(|sent| sent.status() == 200).unwrap();
    let mark = answer.header("Record-Route");
    assert_ne!(mark, got.header("Record-Route"));
    for (cseq, from, status) in
        [(1, "203.0.113.51:5060", 0), (2, "203.0.113.50:5060", 0), (3, "203.0.113.52:5060", 403)]
    {
        let mut bye = from_callee("BYE", cseq, &got, &answer);
        bye.from = answer.header("To");
        bye.lines = vec![format!("Route: {mark}")];
        let sent = world.udp(from, &bye);
        assert_eq!(only(sent).status(), status, "{from}");
    }
}

/// Marks of earlier versions have no addresses.
#[test]
fn a_mark_without_addresses_is_sufficient_from_everywhere() {
    let mut world = with_bob(World::open());
    let (_, answer) = call(&mut world, "sip:bob@example.org");
    let mut closed = with_bob(World::closed());
    assert_eq!(forwarded(closed.udp(ELSEWHERE, &from_caller("BYE", 3, &answer))).to(), BOB);
}
