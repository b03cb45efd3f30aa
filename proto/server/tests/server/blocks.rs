//! Block lists: source networks before anything is parsed, callers after authentication, the lists of users.

use crate::challenge::proven;
use crate::harness::{
    ALICE, BOB, CAROL, Request, STRANGER, Sent, World, forwarded, invite, only, register, request, requests,
};
use ringway_server::{BlockList, BlockPattern};
use std::time::Duration;

const SPAM: &str = "sip:spam@example.com";

fn callers(texts: &[&str]) -> Vec<BlockPattern> {
    texts.iter().map(|text| BlockPattern::caller(text).unwrap()).collect()
}

fn networks(texts: &[&str]) -> Vec<BlockPattern> {
    texts.iter().map(|text| BlockPattern::network(text).unwrap()).collect()
}

fn block(world: &World, change: impl FnOnce(&mut BlockList)) {
    world.memory.tables().change_blocks(change);
}

/// Server with passwords and with bob and carol at their addresses.
fn world() -> World {
    let mut world = World::closed();
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    world.server.set_permanent_contacts(b"carol@example.org", &[b"sip:carol@192.0.2.30"]);
    world
}

/// Number of the next call of a test.
fn call_of(from: &str, to: &str, number: u32) -> Request {
    let call = invite(to).from(from).call_id(&format!("call-{number}"));
    Request { lines: vec![format!("Contact: <sip:x@{STRANGER}>")], ..call }
}

/// Status of the answer to a call, 0 if it was forwarded.
fn outcome(sent: &[Sent]) -> u16 {
    match requests(sent.to_vec()).is_empty() {
        true => sent.iter().map(Sent::status).max().unwrap_or(999),
        false => 0,
    }
}

/// The network is that of the caller, also if another user forwards the call.
#[test]
fn a_forward_leads_past_no_list_of_its_target() {
    let mut world = world();
    block(&world, |list| list.set_of_user(b"carol@example.org", networks(&["203.0.113.0/24"])));
    world.server.set_forwards(b"bob@example.org", crate::forwards::always("sip:carol@example.org"));
    for (at, status) in [(STRANGER, 403), ("198.51.100.9:5060", 0)] {
        let call = call_of("sip:eve@example.net", "sip:bob@example.org", 1).call_id(at);
        let sent = world.udp(at, &call);
        assert_eq!(outcome(&crate::forwards::settle(&mut world, sent)), status, "{at}");
    }
}

#[test]
fn requests_of_a_blocked_network_are_dropped_before_they_are_parsed() {
    let mut world = world();
    block(&world, |list| list.set_all(networks(&["203.0.113.0/24", "2001:db8:bad::/48"])));
    assert!(world.udp(STRANGER, &call_of("sip:eve@example.net", "sip:bob@example.org", 1)).is_empty());
    assert!(world.udp("[2001:db8:bad::1]:5060", &b"GARBAGE\r\n\r\n".to_vec()).is_empty());
    assert_eq!(world.server.counters().rejected.iter().sum::<u64>(), 0, "nothing was parsed");
    assert_eq!(world.server.counters().blocked_sources, 2);
    let stun = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &[7; 12]].concat();
    assert!(world.udp(STRANGER, &stun).is_empty() && !world.udp("192.0.2.77:5060", &stun).is_empty());
    // A connection is closed.
    assert!(
        world.tcp(7, STRANGER, &call_of("sip:eve@example.net", "sip:bob@example.org", 2).tcp()).is_empty()
    );
    assert_eq!(world.disconnected.len(), 1);
    assert_eq!(world.disconnected[0].connection.map(|id| id.0), Some(7));
    assert_eq!(outcome(&world.udp(CAROL, &call_of("sip:eve@example.net", "sip:bob@example.org", 3))), 0);
    // STUN keeps nothing alive.
    let binding = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &[7; 12]].concat();
    assert!(world.udp(STRANGER, &binding).is_empty());
    assert_eq!(world.udp(CAROL, &binding).len(), 1);
    // Its REGISTER is no exception.
    assert!(world.udp(STRANGER, &register("alice", "<sip:alice@203.0.113.66>")).is_empty());
}

#[test]
fn loopback_and_the_servers_own_addresses_are_never_blocked() {
    let mut world = world();
    block(&world, |list| list.set_all(networks(&["112.0.0.0/4", "192.0.2.0/24", "::/1"])));
    let options = request("OPTIONS", "sip:192.0.2.1:5060");
    for source in ["127.0.0.1:5070", "[::1]:5070", "192.0.2.1:5060"] {
        assert_eq!(only(world.udp(source, &options)).status(), 200, "{source}");
    }
    assert!(world.udp(ALICE, &options).is_empty());
}

#[test]
fn a_response_of_a_blocked_network_ends_its_request() {
    let mut world = world();
    let got = forwarded(world.udp(STRANGER, &call_of("sip:eve@example.net", "sip:bob@example.org", 1)));
    block(&world, |list| list.set_all(networks(&["192.0.2.0/24"])));
    let sent = world.udp(BOB, &got.answer(486, &[]));
    assert!(sent.iter().any(|sent| sent.status() == 486), "{sent:?}");
}

#[test]
fn callers_are_blocked_by_user_domain_number_and_prefix() {
    let mut world = world();
    let list = ["spam@example.com", "*@bad.example", "+49301234", "+4930999*", "0900*", "tel:+1-555*"];
    block(&world, |blocks| blocks.set_all(callers(&list)));
    for (number, (from, status)) in [
        (SPAM, 403),
        ("sip:%73pam@EXAMPLE.com.", 403),
        ("sips:spam@example.com:5099", 403),
        ("sip:Spam@example.com", 0),
        ("sip:anyone@bad.example", 403),
        ("sip:bad.example", 403),
        ("sip:anyone@not.bad.example", 0),
        ("sip:+49301234@provider.example", 403),
        ("sip:+49-30-1234;ext=5@provider.example;user=phone", 403),
        ("sip:+49%20(30)/1234@provider.example", 403),
        ("sip:%20%2B49%2D301234@provider.example", 403),
        ("sip:301234;PHONE-CONTEXT=+49;isub=9@provider.example;user=phone", 403),
        ("sip:301234%3Bphone-context%3D+49@provider.example", 403),
        ("tel:+49-30.1234;isub=12345;ext=5", 403),
        ("TEL:30-1234;ext=1;Phone-Context=+49", 403),
        ("tel:%2B49%33%301234", 403),
        ("tel:1234;phone-context=+49-(30)", 403),
        ("tel:1;phone-context=%2B4930999", 403),
        ("tel:0900-1;phone-context=+49", 403),
        ("tel:1234;phone-context=BAD.example.", 403),
        ("tel:1234;phone-context=+4930;x=+4930999", 403),
        ("tel:1234;phone-context=good.example", 0),
        ("tel:+1234;phone-context=+4930999", 0),
        ("tel:301234", 0),
        ("tel:301234;phone-context=+48", 0),
        ("sip:+493012345@provider.example", 0),
        ("sip:+49309991@provider.example", 403),
        ("sip:+4930998@provider.example", 0),
        ("sip:0900123@provider.example", 403),
        ("sip:x0900123@provider.example", 0),
        ("sip:nobody@example.com", 0),
        ("sip:example.com", 0),
    ]
    .into_iter()
    .enumerate()
    {
        let sent = world.udp(STRANGER, &call_of(from, "sip:bob@example.org", number as u32));
        assert_eq!(outcome(&sent), status, "{from}");
    }
    assert_eq!(world.server.counters().blocked_callers, 21);
    assert!(world.memory.events.lock().unwrap().contains(&format!("{SPAM} blocked for sip:bob@example.org")));
    // The list is empty again.
    block(&world, |list| list.set_all([]));
    assert_eq!(outcome(&world.udp(STRANGER, &call_of(SPAM, "sip:bob@example.org", 99))), 0);
}

#[test]
fn the_list_of_a_user_is_for_requests_to_that_user() {
    let mut world = world();
    block(&world, |list| {
        list.set_of_user(
            b"bob@example.org",
            [callers(&["spam@example.com"]), networks(&["203.0.113.0/24"])].concat(),
        );
    });
    let elsewhere = "198.51.100.7:5060";
    assert_eq!(outcome(&world.udp(elsewhere, &call_of(SPAM, "sip:bob@example.org", 1))), 403);
    assert_eq!(outcome(&world.udp(elsewhere, &call_of(SPAM, "sip:%62ob@EXAMPLE.org", 2))), 403);
    assert_eq!(outcome(&world.udp(elsewhere, &call_of(SPAM, "sip:carol@example.org", 3))), 0);
    // A network of a user refuses calls; other requests of it are served.
    assert_eq!(outcome(&world.udp(STRANGER, &call_of("sip:eve@example.net", "sip:bob@example.org", 4))), 403);
    assert_eq!(outcome(&world.udp(STRANGER, &call_of("sip:eve@example.net", "sip:carol@example.org", 5))), 0);
    assert_eq!(world.server.counters().blocked_sources, 0);
    block(&world, |list| list.set_of_user(b"bob@example.org", []));
    let mut has_callers = true;
    block(&world, |list| has_callers = list.has_callers());
    assert!(!has_callers);
}

#[test]
fn a_blocked_user_of_ours_is_challenged_first_and_stays_registered() {
    let mut world = world();
    block(&world, |list| list.set_all(callers(&["alice@example.org"])));
    // Without the password nobody learns whether alice is blocked.
    let call = invite("sip:bob@example.org");
    assert_eq!(only(world.udp(ALICE, &call)).status(), 407);
    let own_address = call.clone().from("sip:alice@192.0.2.1").call_id("by-address");
    for (call, to) in [(&call, "bob"), (&own_address, "bob")] {
        let sent = proven(&mut world, ALICE, call, "alice");
        assert_eq!(outcome(&sent), 403, "{to}: every spelling of the domain is the same user");
    }
    let outward = invite("sip:x@198.51.100.7").call_id("outward");
    assert_eq!(outcome(&proven(&mut world, ALICE, &outward, "alice")), 403, "also to other domains");
    let registered = proven(&mut world, ALICE, &register("alice", "<sip:alice@192.0.2.10>"), "alice");
    assert_eq!(only(registered).status(), 200);
    // The others call her.
    let back = Request { from: "<sip:bob@example.org>;tag=b".into(), ..invite("sip:alice@example.org") };
    let back = back.call_id("back").via(&format!("SIP/2.0/UDP {BOB};rport;branch=z9hG4bK"));
    assert_eq!(outcome(&proven(&mut world, BOB, &back, "bob")), 0);
}

#[test]
fn a_call_that_was_accepted_before_goes_on() {
    for in_dialog in [false, true] {
        let mut world = World::with(|config| {
            config.auth.enabled = true;
            config.auth.in_dialog = in_dialog;
        });
        world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
        let call = call_of(SPAM, "sip:bob@example.org", 1);
        let got = forwarded(world.udp(STRANGER, &call));
        let answered = got.answer(200, &["Contact: <sip:bob@192.0.2.20>"]);
        let answered = only(world.udp(BOB, &answered));
        block(&world, |list| list.set_all(callers(&["spam@example.com", "bob@example.org"])));
        let within = |method: &str, cseq: u32| {
            let request = request(method, "sip:bob@192.0.2.20").from(SPAM).to(&answered.header("To"));
            let request = request.cseq(cseq).call_id("call-1");
            Request { lines: vec![format!("Route: {}", answered.header("Record-Route"))], ..request }
        };
        for (cseq, method) in [(1, "ACK"), (2, "INFO"), (3, "BYE")] {
            let sent = world.udp(STRANGER, &within(method, cseq));
            assert_eq!(requests(sent.clone()).len(), 1, "{method}: {sent:?}");
        }
        // A made-up To tag is not part of a call.
        let forged = request("INFO", "sip:bob@example.org").from(SPAM).to("<sip:bob@example.org>;tag=forged");
        assert_ne!(outcome(&world.udp(STRANGER, &forged.call_id("forged"))), 0);
        world.pass(Duration::from_secs(40));
    }
}

#[test]
fn the_caller_of_a_pending_call_can_cancel_it() {
    let mut world = world();
    let call = call_of(SPAM, "sip:bob@example.org", 1);
    let got = forwarded(world.udp(STRANGER, &call));
    world.udp(BOB, &got.answer(180, &[]));
    block(&world, |list| list.set_all(callers(&["spam@example.com"])));
    let sent = world.udp(STRANGER, &call.cancel());
    assert!(requests(sent).iter().any(|sent| sent.method() == "CANCEL"));
}

#[test]
fn an_acknowledged_refusal_leaves_nothing_behind() {
    let mut world = world();
    block(&world, |list| list.set_all(callers(&["spam@example.com"])));
    let call = call_of(SPAM, "sip:bob@example.org", 1);
    let refusal = only(world.udp(STRANGER, &call));
    assert_eq!(refusal.status(), 403);
    assert!(world.udp(STRANGER, &call.ack_of(&refusal)).is_empty());
    assert_eq!(world.server.counters().stray, 0);
    assert_eq!(world.server.transactions_len(), (0, 0));
    assert_eq!(
        refusal.bytes,
        only(world.udp(STRANGER, &call)).bytes,
        "a retransmission gets the same answer"
    );
}

#[test]
fn a_hundred_thousand_entries_are_searched_and_not_read() {
    let mut list = BlockList::default();
    let all = (0..50_000_u32).map(|n| {
        let [_, a, b, c] = n.to_be_bytes();
        BlockPattern::network(&format!("10.{a}.{b}.{c}")).unwrap()
    });
    let names = (0..50_000).map(|n| BlockPattern::caller(&format!("user{n}@example.com")).unwrap());
    list.set_all(all.chain(names));
    let started = std::time::Instant::now();
    let lookups = 100_000_u32;
    let blocked = (0..lookups)
        .filter(|n| list.blocks_source(std::net::IpAddr::from((0x0a00_0000 + n).to_be_bytes())))
        .count();
    assert_eq!(blocked, 50_000);
    // Reading all entries would take minutes; a search some ten milliseconds.
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}
