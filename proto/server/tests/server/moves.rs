//! Tests of sides of a dialog that move: another Contact, connection or port, a GRUU, and what nobody may move.

use crate::challenge::{Login, answered, proven};
use crate::forwards::{always, settle};
use crate::harness::{
    ALICE, BOB, CAROL, Request, STRANGER, Sent, World, forwarded, invite, only, register, request, requests,
};
use hmac::{Hmac, KeyInit, Mac};
use ringway_sansio::{ConnectionId, Event, PartHasher};
use sha2::Sha256;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::time::Duration;

/// Call between a caller and bob.
struct Call {
    world: World,
    /// INVITE as the callee has it.
    got: Sent,
    /// 200 as the caller has it.
    answer: Sent,
    caller: String,
    cseq: u32,
}

/// A side of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Caller,
    Callee,
}

impl Call {
    /// Call of `from`, a user of ours or a stranger, to bob at [`BOB`].
    fn new(from: &str) -> Self {
        let mut world = World::closed();
        registers(&mut world, "bob", BOB, "<sip:bob@192.0.2.20>");
        Self::begin(world, from)
    }

    fn begin(mut world: World, from: &str) -> Self {
        let is_user = from == ALICE;
        let mut call = invite("sip:bob@example.org").via(&format!("SIP/2.0/UDP {from};rport;branch=z9hG4bK"));
        call.lines = vec![format!("Contact: <sip:caller@{from}>")];
        let sent = match is_user {
            true => proven(&mut world, from, &call, "alice"),
            false => world.udp(from, &call.from("sip:eve@example.net")),
        };
        let got = forwarded(sent);
        let answer = got.answer(200, &["Contact: <sip:bob@192.0.2.20>"]);
        let answer = only(world.message(got.flow, &answer));
        Self { world, got, answer, caller: from.into(), cseq: 10 }
    }

    /// Request of a side to `uri`, with this Contact.
    fn request(&mut self, by: By, method: &str, uri: &str, contact: Option<&str>) -> Request {
        self.cseq += 1;
        let mut request = request(method, uri).cseq(self.cseq);
        let mut routes = self.answer.headers("Record-Route");
        let at = match by {
            By::Caller => {
                routes.reverse();
                (request.from, request.to) = (self.answer.header("From"), self.answer.header("To"));
                self.caller.clone()
            }
            By::Callee => {
                routes = self.got.headers("Record-Route");
                (request.from, request.to) = (self.answer.header("To"), self.answer.header("From"));
                BOB.into()
            }
        };
        request.via = format!("SIP/2.0/UDP {at};rport;branch=z9hG4bK");
        request.lines = routes.iter().map(|route| format!("Route: {route}")).collect();
        if let Some(contact) = contact {
            request.lines.push(format!("Contact: <{contact}>"));
        }
        request
    }

    /// Address that a request reaches; empty: none.
    fn reached(&mut self, by: By, method: &str, uri: &str) -> String {
        let from = if by == By::Caller { self.caller.clone() } else { BOB.into() };
        let request = self.request(by, method, uri, None);
        let sent = requests(self.world.udp(&from, &request));
        sent.first().map(Sent::to).unwrap_or_default()
    }

    /// A side sends a target refresh from `at` with a Contact, and the other one answers with another; the answer's status.
    fn refresh(&mut self, by: By, at: &str, method: &str, uri: &str, contacts: [&str; 2]) -> u16 {
        let request = self.request(by, method, uri, Some(contacts[0]));
        let sent = forwarded(self.world.udp(at, &request));
        let answer = sent.answer(200, &[&format!("Contact: <{}>", contacts[1])]);
        only(self.world.message(sent.flow, &answer)).status()
    }
}

/// Registers a contact with the user's password.
fn registers(world: &mut World, user: &str, at: &str, contact: &str) {
    let request = register(user, contact).via(&format!("SIP/2.0/UDP {at};rport;branch=z9hG4bK"));
    let call_id = format!("{contact}-{at}-registers").replace(['<', '>', ':', '@', ';', '"', '=', '+'], "");
    assert_eq!(only(proven(world, at, &request.call_id(&call_id), user)).status(), 200);
}

/// Longer than the lifetime of a mark.
const LIFETIME: Duration = Duration::from_secs(86_401);

const BOBS: &str = "sip:bob@192.0.2.20";

#[test]
fn the_2xx_to_a_re_invite_moves_the_callee() {
    for caller in [ALICE, STRANGER] {
        for (method, contact, reached) in [
            ("INVITE", "sip:bob@192.0.2.20:5070", "192.0.2.20:5070"),
            ("UPDATE", "sip:bob@203.0.113.9", "203.0.113.9:5060"),
        ] {
            let mut call = Call::new(caller);
            let contacts = [&format!("sip:caller@{caller}"), contact];
            assert_eq!(call.refresh(By::Caller, caller, method, BOBS, contacts), 200);
            for method in ["ACK", "INFO", "BYE"] {
                assert_eq!(call.reached(By::Caller, method, contact), reached, "{method} of {caller}");
            }
            assert_eq!(call.world.server.counters().sides_moved, 1);
            assert_eq!(call.reached(By::Caller, "INFO", BOBS), BOB, "who has not learnt of it");
        }
    }
}

#[test]
fn a_request_moves_the_side_of_its_sender() {
    for caller in [ALICE, STRANGER] {
        let mut call = Call::new(caller);
        let contacts = ["sip:bob@192.0.2.20:5070", &format!("sip:caller@{caller}")];
        assert_eq!(call.refresh(By::Callee, BOB, "INVITE", contacts[1], contacts), 200);
        assert_eq!(call.reached(By::Caller, "INFO", contacts[0]), "192.0.2.20:5070", "{caller}");

        let other_port = format!("{}:5070", caller.split(':').next().unwrap());
        let contacts = [&format!("sip:caller@{other_port}"), BOBS];
        assert_eq!(call.refresh(By::Caller, caller, "UPDATE", "sip:bob@192.0.2.20:5070", contacts), 200);
        assert_eq!(call.reached(By::Callee, "BYE", contacts[0]), other_port, "{caller}");
    }
}

#[test]
fn a_request_that_is_refused_moves_nobody() {
    let mut call = Call::new(ALICE);
    let contact = "sip:caller@192.0.2.10:5070";
    let request = call.request(By::Caller, "INVITE", BOBS, Some(contact));
    let sent = forwarded(call.world.udp(ALICE, &request));
    call.world.message(sent.flow, &sent.answer(488, &[]));
    assert_eq!(call.reached(By::Callee, "INFO", contact), "");
    assert_eq!(call.world.server.counters().sides_moved, 0);
}

/// The Contacts that decision 0007 excludes stay excluded when a side moves.
#[test]
fn nobody_moves_to_the_address_of_somebody_else() {
    let inner = [
        "sip:x@127.0.0.1:6379",
        "sip:x@10.0.0.1",
        "sip:x@192.0.2.1:22",
        "sip:x@169.254.169.254",
        "sip:x@192.0.2.99",
    ];
    for caller in [ALICE, STRANGER] {
        for contact in inner {
            let mut call = Call::new(caller);
            let own = format!("sip:caller@{caller}");
            assert_eq!(call.refresh(By::Caller, caller, "INVITE", BOBS, [&own, contact]), 200);
            assert_eq!(call.reached(By::Caller, "INFO", contact), "", "the callee names {contact}");
            assert_eq!(call.refresh(By::Caller, caller, "INVITE", BOBS, [contact, BOBS]), 200);
            assert_eq!(call.reached(By::Callee, "INFO", contact), caller, "{contact} is not dialled");
        }
        // A sender names no other host, unlike a responder; it is reached where it sends from.
        let mut call = Call::new(caller);
        assert_eq!(call.refresh(By::Caller, caller, "INVITE", BOBS, ["sip:x@203.0.113.77", BOBS]), 200);
        assert_eq!(call.reached(By::Callee, "INFO", "sip:x@203.0.113.77"), caller);
    }
}

/// A made-up To tag, or From tag, is another dialog: it has no 2xx of the other side's, and moves nothing in this one.
#[test]
fn a_side_is_moved_in_its_own_dialog_only() {
    let mut call = Call::new(STRANGER);
    let mut update = call.request(By::Caller, "UPDATE", BOBS, Some("sip:caller@203.0.113.66:5070"));
    update.to = "<sip:bob@example.org>;tag=made-up".into();
    let sent = forwarded(call.world.udp(STRANGER, &update));
    call.world.udp(BOB, &sent.answer(200, &["Contact: <sip:bob@192.0.2.20:5070>"]));
    assert_eq!(call.reached(By::Caller, "INFO", "sip:bob@192.0.2.20:5070"), "");
    assert_eq!(call.reached(By::Callee, "INFO", "sip:caller@203.0.113.66:5070"), "");
    // Another host has the identifiers of the call.
    let update = call.request(By::Caller, "UPDATE", BOBS, Some("sip:caller@198.51.100.9"));
    assert_eq!(only(call.world.udp("198.51.100.9:5060", &update)).status(), 403);
    // The callee itself, in the name of the caller.
    let update = call.request(By::Caller, "UPDATE", BOBS, Some("sip:caller@192.0.2.20:7000"));
    assert_eq!(only(call.world.udp(BOB, &update)).status(), 403);
}

/// Somebody who has the identifiers of a call can begin another one with them.
#[test]
fn another_call_with_the_same_identifiers_moves_nothing() {
    const THERE: &str = "192.0.2.33:5060";
    let mut call = Call::new(ALICE);
    registers(&mut call.world, "carol", CAROL, &format!("<sip:carol@{CAROL}>"));
    let via = format!("SIP/2.0/UDP {THERE};rport;branch=z9hG4bK");
    let mut own = invite("sip:carol@example.org").via(&via).line(&format!("Contact: <sip:carol@{THERE}>"));
    own.from = own.from.replace("sip:alice", "sip:carol");
    let got = forwarded(proven(&mut call.world, THERE, &own, "carol"));
    let tag = |header: String| header.split(";tag=").nth(1).unwrap().to_owned();
    let callees_tag = tag(call.answer.header("To"));
    let answer = got.answer_tagged(200, &callees_tag, &[&format!("Contact: <sip:carol@{CAROL}>")]);
    let answer = only(call.world.message(got.flow, &answer));
    for name in ["From", "To"] {
        assert_eq!(tag(answer.header(name)), tag(call.answer.header(name)), "{name}");
    }
    assert_eq!(answer.header("Call-ID"), call.answer.header("Call-ID"));
    for method in ["INVITE", "BYE"] {
        let mut again = request(method, &format!("sip:carol@{CAROL}")).cseq(11).via(&via);
        (again.from, again.to) = (answer.header("From"), answer.header("To"));
        again.lines = vec![format!("Route: {}", answer.header("Record-Route"))];
        let again = again.line("Contact: <sip:carol@192.0.2.33:7000>");
        let sent = forwarded(call.world.udp(THERE, &again));
        call.world.message(sent.flow, &sent.answer(200, &["Contact: <sip:carol@203.0.113.99>"]));
        assert_eq!(call.world.server.counters().sides_moved, 1, "its own");
        let contact = format!("sip:caller@{ALICE}");
        assert_eq!(call.reached(By::Callee, "INFO", &contact), ALICE, "{method}");
        assert_eq!(call.reached(By::Caller, "INFO", BOBS), BOB, "{method}");
        assert_eq!(call.reached(By::Caller, "INFO", "sip:carol@203.0.113.99"), "", "{method}");
    }
}

#[test]
fn a_user_who_moved_to_another_address_proves_the_password_once() {
    const ELSEWHERE: &str = "198.51.100.7:5060";
    let mut call = Call::new(ALICE);
    let contact = format!("sip:caller@{ELSEWHERE}");
    let update = call.request(By::Caller, "UPDATE", BOBS, Some(&contact));
    let challenge = only(call.world.udp(ELSEWHERE, &update));
    assert_eq!(challenge.status(), 407);
    let sent = forwarded(call.world.udp(ELSEWHERE, &answered(&update, &Login::to(&challenge, "alice"))));
    call.world.udp(BOB, &sent.answer(200, &["Contact: <sip:bob@192.0.2.20>"]));
    assert_eq!(call.reached(By::Callee, "INFO", &contact), ELSEWHERE);
    let bye = call.request(By::Caller, "BYE", BOBS, None);
    assert_eq!(forwarded(call.world.udp(ELSEWHERE, &bye)).to(), BOB);
    assert_eq!(call.world.server.counters().moved_challenged, 2, "without and with the password");
}

#[test]
fn a_move_ends_with_its_dialog() {
    let mut call = Call::new(ALICE);
    let contact = "sip:bob@192.0.2.20:5070";
    call.refresh(By::Caller, ALICE, "INVITE", BOBS, [&format!("sip:caller@{ALICE}"), contact]);
    let bye = call.request(By::Caller, "BYE", contact, None);
    let sent = forwarded(call.world.udp(ALICE, &bye));
    call.world.udp(&sent.to(), &sent.answer(200, &[]));
    assert_eq!(call.reached(By::Caller, "INFO", contact), "");
    let mut call = Call::new(ALICE);
    call.refresh(By::Caller, ALICE, "INVITE", BOBS, [&format!("sip:caller@{ALICE}"), contact]);
    call.world.pass(LIFETIME);
    assert_eq!(call.reached(By::Caller, "INFO", contact), "");
}

/// In the test's table of 64 sides one user, or one source of strangers, has two.
#[test]
fn one_user_fills_its_share_of_the_table_and_others_move() {
    const MOVED: &str = "sip:bob@192.0.2.20:5070";
    let mut call = Call::new(ALICE);
    // A phone of the user's own answers in the name of any tag.
    let in_dialog_with = |call: &mut Call, tag: &str, method: &str| {
        let contact = format!("sip:alice@{ALICE}");
        let mut request = call.request(By::Caller, method, BOBS, Some(&contact));
        request.to = format!("<sip:bob@example.org>;tag={tag}");
        let sent = forwarded(call.world.udp(ALICE, &request));
        call.world.message(sent.flow, &sent.answer(200, &[&format!("Contact: <{MOVED}>")]));
        let counters = call.world.server.counters();
        (counters.sides_moved, counters.sides_overflow)
    };
    let moved: Vec<_> = ["a", "b", "c", "d"].map(|tag| in_dialog_with(&mut call, tag, "INVITE")).into();
    assert_eq!(moved, [(1, 0), (2, 0), (2, 1), (2, 2)]);
    in_dialog_with(&mut call, "a", "BYE");
    assert_eq!(in_dialog_with(&mut call, "e", "INVITE"), (3, 2), "the end of a dialog makes room");

    // Alice herself has moved nowhere.
    let own = format!("sip:caller@{}", ALICE.replace("5060", "5070"));
    assert_eq!(call.refresh(By::Caller, ALICE, "UPDATE", BOBS, [&own, BOBS]), 200);
    assert_eq!(call.reached(By::Callee, "INFO", &own), ALICE.replace("5060", "5070"));
}

#[test]
fn the_sources_of_strangers_have_shares_too() {
    let mut counts = Vec::new();
    let mut call = Call::new(STRANGER);
    for number in 0..4 {
        let contact = format!("sip:caller@{}", STRANGER.replace("5060", "5070"));
        let mut request = call.request(By::Caller, "UPDATE", BOBS, Some(&contact));
        request.to = format!("<sip:bob@example.org>;tag={number}");
        let sent = forwarded(call.world.udp(STRANGER, &request));
        call.world.message(sent.flow, &sent.answer(200, &[&format!("Contact: <{BOBS}>")]));
        let counters = call.world.server.counters();
        counts.push((counters.sides_moved, counters.sides_overflow));
    }
    assert_eq!(counts, [(1, 0), (2, 0), (2, 1), (2, 2)]);
}

/// A phone that registers from many ports takes no room of others.
#[test]
fn one_user_leaves_a_limited_number_of_flows() {
    let mut call = over_tcp();
    registers_again(&mut call, &format!("<{BOBS_TCP}>"));
    for port in 1..200_u16 {
        let at = format!("192.0.2.30:{port}");
        let register =
            register("carol", "<sip:carol@10.0.0.9>").via(&format!("SIP/2.0/UDP {at};rport;branch=z9hG4bK"));
        assert_eq!(only(call.world.udp(&at, &register.call_id(&at.replace([':', '.'], "-")))).status(), 200);
    }
    assert!(call.world.server.counters().sides_overflow > 100, "her earlier ones gave way");
    let info = call.request(By::Caller, "INFO", BOBS_TCP, None);
    let sent = forwarded(call.world.udp(ALICE, &info));
    assert_eq!(sent.flow.connection, Some(ConnectionId(6)), "bob is followed");
}

// Connections and ports

/// Passes a request of the server to itself back to it.
fn looped(world: &mut World, sent: Vec<Sent>) -> Vec<Sent> {
    let to_itself = forwarded(sent);
    assert_eq!(to_itself.to(), "192.0.2.1:5060", "{}", to_itself.text());
    world.udp("192.0.2.1:5060", &to_itself.bytes)
}

const BOB_TCP: &str = "192.0.2.20:40000";
const BOBS_TCP: &str = "sip:bob@192.0.2.20:40000;transport=tcp";

/// Call of alice to bob, who is registered over connection 5.
fn over_tcp() -> Call {
    let mut world = World::open();
    world.register_tcp(5, "bob", BOB_TCP, &format!("<{BOBS_TCP}>"));
    let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    let answer = only(world.tcp(5, BOB_TCP, &got.answer(200, &[&format!("Contact: <{BOBS_TCP}>")])));
    Call { world, got, answer, caller: ALICE.into(), cseq: 10 }
}

/// Bob registers again over connection 6.
fn registers_again(call: &mut Call, contact: &str) {
    let again = register("bob", contact).tcp().call_id("again");
    assert_eq!(only(call.world.tcp(6, "192.0.2.20:41000", &again)).status(), 200);
}

#[test]
fn a_phone_that_registered_over_a_new_connection_is_reached_over_it() {
    for contact in [BOBS_TCP, "sip:bob@192.0.2.20:41000;transport=tcp"] {
        let mut call = over_tcp();
        call.world.event(Event::Closed(ConnectionId(5)));
        registers_again(&mut call, &format!("<{contact}>"));
        let info = call.request(By::Caller, "INVITE", BOBS_TCP, Some(&format!("sip:alice@{ALICE}")));
        let lost = forwarded(call.world.udp(ALICE, &info));
        assert_eq!(lost.flow.connection, Some(ConnectionId(5)));
        let sent = call.world.event(Event::Unreachable(lost.token));
        let sent = forwarded(looped(&mut call.world, sent));
        assert_eq!((sent.flow.connection, sent.uri().as_str()), (Some(ConnectionId(6)), contact));
        let answer = sent.answer(200, &[&format!("Contact: <{contact}>")]);
        let inner = only(call.world.tcp(6, "192.0.2.20:41000", &answer));
        assert_eq!(only(call.world.udp("192.0.2.1:5060", &inner.bytes)).to(), ALICE);
        // The ACK, whose failure nothing would report, is looked up at once.
        for method in ["ACK", "BYE"] {
            let request = call.request(By::Caller, method, BOBS_TCP, None);
            let sent = call.world.udp(ALICE, &request);
            let sent = forwarded(looped(&mut call.world, sent));
            assert_eq!(sent.flow.connection, Some(ConnectionId(6)), "{method}");
        }
        assert_eq!(call.world.server.counters().sides_looked_up, 3);
    }
}

/// As many requests of strangers wait for the user as may.
#[test]
fn strangers_calls_keep_no_request_of_a_call_from_being_looked_up() {
    let mut world = World::closed();
    let register =
        |contact: &str| register("bob", contact).tcp().call_id(&contact.replace([':', '@', ';'], "-"));
    let registers = |world: &mut World, connection: u64, at: &str, contact: &str| {
        let challenge = only(world.tcp(connection, at, &register(contact)));
        let login = Login::to(&challenge, "bob");
        assert_eq!(only(world.tcp(connection, at, &answered(&register(contact), &login))).status(), 200);
    };
    registers(&mut world, 5, BOB_TCP, &format!("<{BOBS_TCP}>"));
    let sent = proven(&mut world, ALICE, &invite("sip:bob@example.org"), "alice");
    let got = forwarded(sent);
    let answer = only(world.tcp(5, BOB_TCP, &got.answer(200, &[&format!("Contact: <{BOBS_TCP}>")])));
    let mut call = Call { world, got, answer, caller: ALICE.into(), cseq: 10 };
    call.world.event(Event::Closed(ConnectionId(5)));
    registers(&mut call.world, 6, "192.0.2.20:41000", &format!("<{BOBS_TCP};again>"));
    for number in 0..300 {
        let stranger =
            invite("sip:bob@example.org").from("sip:eve@example.net").call_id(&format!("s{number}"));
        call.world.udp(&format!("203.0.113.{}:5060", number % 250 + 1), &stranger);
    }
    assert_eq!(call.world.server.counters().over_user_requests, 300 - 256);
    let bye = call.request(By::Caller, "BYE", BOBS_TCP, None);
    let lost = forwarded(call.world.udp(ALICE, &bye));
    let sent = call.world.event(Event::Unreachable(lost.token));
    let sent = forwarded(looped(&mut call.world, sent));
    assert_eq!(sent.flow.connection, Some(ConnectionId(6)));
}

/// The old connection is still open when the phone registers again, as after a change of networks.
#[test]
fn a_phone_that_left_its_connection_is_followed_at_once() {
    let mut call = over_tcp();
    registers_again(&mut call, &format!("<{BOBS_TCP}>"));
    for method in ["ACK", "INFO", "BYE"] {
        let request = call.request(By::Caller, method, BOBS_TCP, None);
        let sent = forwarded(call.world.udp(ALICE, &request));
        assert_eq!(sent.flow.connection, Some(ConnectionId(6)), "{method}");
    }
}

#[test]
fn another_phone_of_the_user_gets_nothing() {
    let mut call = over_tcp();
    call.world.event(Event::Closed(ConnectionId(5)));
    call.world.register("bob", CAROL, "<sip:bob@192.0.2.30>");
    registers_again(&mut call, "<sip:bob@192.0.2.20:41000;transport=tcp>");
    let info = call.request(By::Caller, "INFO", BOBS_TCP, None);
    let lost = forwarded(call.world.udp(ALICE, &info));
    let sent = call.world.event(Event::Unreachable(lost.token));
    let refused = only(looped(&mut call.world, sent));
    assert_eq!(refused.status(), 480, "nobody can tell which of the two it is");
}

#[test]
fn a_new_port_of_a_translator_is_followed() {
    const OLD: &str = "198.51.100.7:31337";
    const NEW: &str = "198.51.100.7:31338";
    let mut world = World::closed();
    registers(&mut world, "bob", OLD, "<sip:bob@10.0.0.5>");
    let mut call = Call::begin(world, ALICE);
    assert_eq!(call.got.to(), OLD);
    assert_eq!(call.reached(By::Caller, "INFO", "sip:bob@10.0.0.5"), OLD);
    registers(&mut call.world, "bob", NEW, "<sip:bob@10.0.0.5>");
    for method in ["ACK", "INFO", "BYE"] {
        assert_eq!(call.reached(By::Caller, method, "sip:bob@10.0.0.5"), NEW, "{method}");
    }
    // Somebody else of the same network has the port now.
    call.world.pass(Duration::from_secs(1));
    registers(&mut call.world, "carol", OLD, "<sip:carol@10.0.0.6>");
    let second = invite("sip:carol@example.org").call_id("second");
    let got = forwarded(proven(&mut call.world, ALICE, &second, "alice"));
    let answer = only(call.world.udp(OLD, &got.answer(200, &["Contact: <sip:carol@10.0.0.6>"])));
    let mut bye = request("BYE", "sip:carol@10.0.0.6").call_id("second").cseq(9).to(&answer.header("To"));
    bye.lines = vec![format!("Route: {}", answer.header("Record-Route"))];
    assert_eq!(forwarded(call.world.udp(ALICE, &bye)).to(), OLD);
}

#[test]
fn a_caller_with_a_new_port_moves_by_its_request() {
    const OLD: &str = "198.51.100.7:31337";
    const NEW: &str = "198.51.100.7:31338";
    let mut world = World::closed();
    registers(&mut world, "bob", BOB, "<sip:bob@192.0.2.20>");
    let mut invite = invite("sip:bob@example.org");
    invite.lines = vec!["Contact: <sip:alice@10.0.0.5>".into()];
    let got = forwarded(proven(&mut world, OLD, &invite, "alice"));
    let answer = only(world.udp(BOB, &got.answer(200, &["Contact: <sip:bob@192.0.2.20>"])));
    let mut call = Call { world, got, answer, caller: OLD.into(), cseq: 10 };
    assert_eq!(call.reached(By::Callee, "INFO", "sip:alice@10.0.0.5"), OLD);
    assert_eq!(call.refresh(By::Caller, NEW, "INVITE", BOBS, ["sip:alice@10.0.0.5", BOBS]), 200);
    assert_eq!(call.reached(By::Callee, "BYE", "sip:alice@10.0.0.5"), NEW);
}

#[test]
fn a_side_moves_in_a_call_that_passed_this_server_twice() {
    let mut world = World::closed();
    registers(&mut world, "bob", BOB, "<sip:bob@192.0.2.20>");
    world.server.set_permanent_contacts(b"carol@example.org", &[b"sip:bob@example.org"]);
    let mut first = invite("sip:carol@example.org");
    first.lines = vec![format!("Contact: <sip:caller@{ALICE}>")];
    let sent = proven(&mut world, ALICE, &first, "alice");
    let got = forwarded(looped(&mut world, sent));
    assert_eq!(got.to(), BOB);
    let inner = only(world.udp(BOB, &got.answer(200, &["Contact: <sip:bob@192.0.2.20>"])));
    let answer = only(world.udp(&inner.to(), &inner.bytes));
    assert_eq!((answer.to().as_str(), answer.headers("Record-Route").len()), (ALICE, 2));
    let mut call = Call { world, got, answer, caller: ALICE.into(), cseq: 10 };

    let moved = "sip:bob@192.0.2.20:5070";
    let contacts = [moved, &format!("sip:caller@{ALICE}")];
    assert_eq!(call.refresh(By::Callee, BOB, "INVITE", &format!("sip:caller@{ALICE}"), contacts), 200);
    assert_eq!(call.reached(By::Caller, "BYE", moved), "192.0.2.20:5070");
}

/// Somebody who has the identifiers and the mark of a call makes another one with the same identifiers, which he answers himself.
#[test]
fn marks_of_two_calls_move_no_side() {
    const ATTACKER: &str = "203.0.113.66:5060";
    let mut call = Call::new(STRANGER);
    registers(&mut call.world, "bob", BOB, "<sip:bob@192.0.2.20>;expires=0");
    call.world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@203.0.113.66"]);
    let mut copy = invite("sip:bob@example.org").via("SIP/2.0/UDP 203.0.113.66;rport;branch=z9hG4bK").cseq(9);
    copy.lines = vec![format!("Contact: <sip:eve@{ATTACKER}>")];
    let own = forwarded(call.world.udp(ATTACKER, &copy.from("sip:eve@example.net")));
    assert_eq!((own.to().as_str(), own.header("From")), (ATTACKER, call.answer.header("From")));

    let mut update = call.request(By::Callee, "UPDATE", &format!("sip:caller@{STRANGER}"), None);
    update.via = format!("SIP/2.0/UDP {ATTACKER};rport;branch=z9hG4bK");
    update.lines.insert(0, format!("Route: {}", own.header("Record-Route")));
    update.lines.push("Contact: <sip:bob@203.0.113.66:5070>".into());
    let sent = forwarded(call.world.udp(ATTACKER, &update));
    assert_eq!(sent.to(), STRANGER);
    let contact = format!("Contact: <sip:caller@{STRANGER}>");
    assert_eq!(only(call.world.udp(STRANGER, &sent.answer(200, &[&contact]))).status(), 200);
    assert_eq!(call.reached(By::Caller, "INFO", BOBS), BOB);
    assert_eq!(call.world.server.counters().sides_moved, 0);
}

/// Mark without the part that version 72d6d36b does not write, as that version writes it.
fn earlier_form(answer: &Sent, mark: &str) -> String {
    let (before, token) = mark.split_once(";rw=").unwrap();
    let token = token.split('>').next().unwrap();
    let covered = &token[16..token.find(".x").unwrap()];
    let mut key = Hmac::<Sha256>::new_from_slice(&[7; 32]).unwrap();
    key.update(b"route");
    let key: [u8; 16] = key.finalize().into_bytes()[..16].try_into().unwrap();
    let mut mac = PartHasher::new(SipHasher13::new_with_key(&key));
    let text = answer.text();
    let message = ringway_sip::Message::parse(text.as_bytes(), &ringway_sip::Limits::default()).unwrap();
    let (from, to) = (message.from(), message.to());
    for part in [message.call_id(), from.tag().unwrap(), covered.as_bytes()] {
        mac.part(part);
    }
    for uri in [&from.uri, &to.uri] {
        mac.part(uri.user().unwrap());
        mac.part_without_case(uri.host().as_bytes());
    }
    format!("{before};rw={:016x}{covered}>", mac.hasher().finish())
}

/// Marks of the earlier form, which end as their dialogs do, name no users.
#[test]
fn a_side_in_a_mark_of_the_earlier_form_moves_by_requests() {
    let mut call = Call::new(ALICE);
    let mark = call.answer.header("Record-Route");
    let old = earlier_form(&call.answer, &mark);
    assert!(old.len() < mark.len() && !old.contains(".x"), "{old}");
    let rewrite = |sent: &mut Sent| {
        sent.bytes = sent.text().replace(&mark, &old).into_bytes();
    };
    rewrite(&mut call.answer);
    rewrite(&mut call.got);
    assert_eq!(call.reached(By::Caller, "INFO", BOBS), BOB);
    let contact = "sip:bob@192.0.2.20:5070";
    call.refresh(By::Caller, ALICE, "INVITE", BOBS, [&format!("sip:caller@{ALICE}"), contact]);
    assert_eq!(call.reached(By::Caller, "BYE", contact), "192.0.2.20:5070");
    call.world.pass(LIFETIME);
    assert_eq!(call.reached(By::Caller, "BYE", BOBS), "", "it ends");
}

// Identities

/// Bob forwards to carol: From of her requests has bob's name, and the mark has hers.
#[test]
fn who_answers_a_forwarded_call_proves_its_own_password() {
    const ELSEWHERE: &str = "198.51.100.7:5060";
    for (user, status) in [("carol", 0), ("bob", 403)] {
        let mut world = World::closed();
        registers(&mut world, "carol", CAROL, "<sip:carol@192.0.2.30>");
        world.server.set_forwards(b"bob@example.org", always("sip:carol@example.org"));
        let sent = proven(&mut world, ALICE, &invite("sip:bob@example.org"), "alice");
        let got = forwarded(settle(&mut world, sent));
        assert_eq!(got.to(), CAROL);
        let sent = world.udp(CAROL, &got.answer(200, &["Contact: <sip:carol@192.0.2.30>"]));
        let answer = only(settle(&mut world, sent));
        let mut info = request("INFO", &format!("sip:alice@{ALICE}")).cseq(3).to(&answer.header("From"));
        info.from = answer.header("To");
        info.lines = got.headers("Record-Route").iter().map(|route| format!("Route: {route}")).collect();
        let challenge = only(world.udp(ELSEWHERE, &info));
        assert_eq!(challenge.status(), 407);
        let sent = world.udp(ELSEWHERE, &answered(&info, &Login::to(&challenge, user)));
        let sent = settle(&mut world, sent);
        assert_eq!(only(sent).status(), status, "the password of {user}");
    }
}

/// The same user, over a new connection: To has bob's name, and her Contact her own.
#[test]
fn who_answers_a_forwarded_call_is_found_by_its_contact() {
    let mut world = World::open();
    let contact = "sip:carol@192.0.2.30:40000;transport=tcp";
    world.register_tcp(5, "carol", "192.0.2.30:40000", &format!("<{contact}>"));
    world.server.set_forwards(b"bob@example.org", always("sip:carol@example.org"));
    let sent = world.udp(ALICE, &invite("sip:bob@example.org"));
    let got = forwarded(settle(&mut world, sent));
    let sent = world.tcp(5, "192.0.2.30:40000", &got.answer(200, &[&format!("Contact: <{contact}>")]));
    let answer = only(settle(&mut world, sent));
    world.event(Event::Closed(ConnectionId(5)));
    let again = register("carol", &format!("<{contact}>")).tcp().call_id("again");
    assert_eq!(only(world.tcp(6, "192.0.2.30:41000", &again)).status(), 200);
    let mut bye = request("BYE", contact).cseq(9).to(&answer.header("To"));
    bye.lines = answer.headers("Record-Route").iter().rev().map(|route| format!("Route: {route}")).collect();
    let sent = world.udp(ALICE, &bye);
    let lost = forwarded(settle(&mut world, sent));
    let sent = world.event(Event::Unreachable(lost.token));
    let sent = forwarded(settle(&mut world, sent));
    assert_eq!(sent.flow.connection, Some(ConnectionId(6)));
}

/// A name leads to any public address that it has, and to no other one, as in a new call.
#[test]
fn a_callee_moves_to_a_name_with_public_addresses_only() {
    for (address, is_reached) in
        [("203.0.113.9", true), ("127.0.0.1", false), ("10.0.0.7", false), ("192.0.2.1", false)]
    {
        let mut call = Call::new(STRANGER);
        let contacts = [&format!("sip:caller@{STRANGER}"), "sip:bob@phone.example.net"];
        assert_eq!(call.refresh(By::Caller, STRANGER, "INVITE", BOBS, contacts), 200);
        assert_eq!(call.reached(By::Caller, "BYE", contacts[1]), "");
        let sent = requests(call.world.resolve("phone.example.net", Some(address)));
        assert_eq!(!sent.is_empty(), is_reached, "{address}");
    }
}

/// A server for a trial listens on loopback only, and its phones are there too.
#[test]
fn loopback_is_a_network_of_a_server_that_listens_nowhere_else() {
    for (is_only_there, reached) in [(true, "127.0.0.9:5060"), (false, "")] {
        let mut world = World::with(|config| {
            let loopback = "127.0.0.1:5060".parse().unwrap();
            let count = if is_only_there { config.listeners.len() } else { 2 };
            for listener in config.listeners.iter_mut().take(count) {
                (listener.bound, listener.advertised) = (loopback, loopback);
            }
            config.auth.enabled = true;
        });
        registers(&mut world, "bob", "127.0.0.1:5070", "<sip:bob@127.0.0.1:5070>");
        let call = invite("sip:bob@example.org").from("sip:eve@example.net");
        let got = forwarded(world.udp("127.0.0.1:5080", &call));
        let answer = only(world.message(got.flow, &got.answer(200, &["Contact: <sip:bob@127.0.0.9>"])));
        let mut bye = request("BYE", "sip:bob@127.0.0.9").cseq(9).to(&answer.header("To"));
        bye.from = answer.header("From");
        bye.lines = answer.headers("Record-Route").iter().rev().map(|r| format!("Route: {r}")).collect();
        let sent = requests(world.udp("127.0.0.1:5080", &bye));
        assert_eq!(sent.first().map(Sent::to).unwrap_or_default(), reached);
    }
}
