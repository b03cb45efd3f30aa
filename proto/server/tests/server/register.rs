//! Tests of REGISTER in the steps of RFC 3261 §10.3: bindings, expiry, and refusals.

use crate::harness::{
    ALICE, BOB, CAROL, EDGE, STRANGER, Sent, World, forwarded, invite, only, query, register, request,
    statuses,
};
use ringway_sansio::{ConnectionId, Event, Transport};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// Response to bob's REGISTER with these lines.
#[track_caller]
fn registers(world: &mut World, cseq: u32, lines: &[&str]) -> Sent {
    let mut request = query("bob").call_id("bob's phone").cseq(cseq);
    request.lines = lines.iter().map(|&line| line.into()).collect();
    only(world.udp(BOB, &request))
}

#[test]
fn a_new_binding_is_listed_stored_and_called() {
    let mut world = World::open();
    let answer = registers(&mut world, 1, &["Contact: <sip:bob@192.0.2.20>;expires=600"]);
    assert_eq!(
        (answer.status(), answer.header("Contact").as_str()),
        (200, "<sip:bob@192.0.2.20>;expires=600")
    );
    assert!(answer.header("To").starts_with("<sip:bob@example.org>;tag="));
    assert_eq!(answer.header("Date"), "Fri, 15 Jan 2027 08:00:00 GMT");
    assert!(answer.after_store, "it is sent after the bindings are stored");
    assert_eq!(world.memory.records.lock().unwrap().len(), 1);
    let called = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    assert_eq!((called.uri().as_str(), called.to().as_str()), ("sip:bob@192.0.2.20", BOB));
}

#[test]
fn a_refresh_is_the_same_binding_with_a_new_end() {
    let mut world = World::open();
    registers(&mut world, 1, &["Contact: <sip:bob@192.0.2.20>;expires=600"]);
    world.pass(5 * MINUTE);
    assert_eq!(world.bindings("bob"), ["<sip:bob@192.0.2.20>;expires=300"]);
    let answer = registers(&mut world, 2, &["Contact: <sip:bob@192.0.2.20>;expires=600"]);
    assert_eq!(answer.header("Contact"), "<sip:bob@192.0.2.20>;expires=600");
    world.pass(9 * MINUTE);
    assert_eq!(world.bindings("bob"), ["<sip:bob@192.0.2.20>;expires=60"]);
}

#[test]
fn expires_0_removes_one_binding_and_leaves_the_others() {
    let mut world = World::open();
    registers(&mut world, 1, &["Contact: <sip:bob@192.0.2.20>, <sip:bob@192.0.2.21>"]);
    let answer = registers(&mut world, 2, &["Contact: <sip:bob@192.0.2.20>;expires=0"]);
    assert_eq!(answer.headers("Contact"), ["<sip:bob@192.0.2.21>;expires=3600"]);
    let answer = registers(&mut world, 3, &["Contact: <sip:bob@192.0.2.21>", "Expires: 0"]);
    assert_eq!((answer.status(), answer.headers("Contact").len()), (200, 0));
    assert!(world.memory.records.lock().unwrap().values().all(Vec::is_empty), "the store has no binding");
    let answer = registers(&mut world, 4, &["Contact: <sip:bob@192.0.2.21>;expires=0"]);
    assert_eq!(answer.status(), 200, "removing an unknown contact succeeds");
}

#[test]
fn a_contact_that_is_removed_twice_in_one_request_is_removed() {
    let mut world = World::open();
    registers(&mut world, 1, &["Contact: <sip:bob@192.0.2.20>"]);
    let twice = "Contact: <sip:bob@192.0.2.20>;expires=0, <sip:bob@192.0.2.20>;expires=0";
    let answer = registers(&mut world, 2, &[twice]);
    assert_eq!((answer.status(), answer.headers("Contact").len()), (200, 0));
}

#[test]
fn a_contact_that_stands_twice_in_one_request_counts_once() {
    let mut world = World::open();
    let four =
        "Contact: <sip:a@192.0.2.20>, <sip:a@192.0.2.20>, <sip:a@192.0.2.20>, <sip:%61@192.0.2.20>;q=0.5";
    let answer = registers(&mut world, 1, &[four]);
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers("Contact").len(), 1);
}

#[test]
fn a_star_removes_everything_that_was_registered() {
    let mut world = World::open();
    registers(&mut world, 1, &["Contact: <sip:bob@192.0.2.20>, <sip:bob@192.0.2.21>"]);
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:desk@192.0.2.99"]);
    let answer = registers(&mut world, 2, &["Contact: *", "Expires: 0"]);
    assert_eq!(
        answer.headers("Contact"),
        ["<sip:desk@192.0.2.99>;expires=4294967295"],
        "permanent ones stay"
    );
    assert_eq!(
        registers(&mut world, 3, &["Contact: *", "Expires: 0"]).status(),
        200,
        "with nothing to remove"
    );
}

#[test]
fn a_star_is_alone_and_with_expires_0_or_refused() {
    let mut world = World::open();
    registers(&mut world, 1, &["Contact: <sip:bob@192.0.2.20>"]);
    for lines in [
        &["Contact: *"][..],
        &["Contact: *", "Expires: 1"],
        &["Contact: *", "Expires: x"],
        &["Contact: *;expires=0"],
        &["Contact: *, <sip:bob@192.0.2.21>", "Expires: 0"],
        &["Contact: <sip:bob@192.0.2.20>", "Contact: *", "Expires: 0"],
        &["Contact: *", "Contact: *", "Expires: 0"],
    ] {
        assert_eq!(registers(&mut world, 2, lines).status(), 400, "{lines:?}");
    }
    assert_eq!(world.bindings("bob"), ["<sip:bob@192.0.2.20>;expires=3600"], "nothing was changed");
}

#[test]
fn a_query_changes_nothing_and_stores_nothing() {
    let mut world = World::open();
    assert!(world.bindings("bob").is_empty());
    assert!(world.memory.records.lock().unwrap().is_empty());
    assert_eq!(world.server.counters().registered, 0);
}

#[test]
fn several_contacts_keep_their_q_and_parameters() {
    let mut world = World::open();
    let answer = registers(
        &mut world,
        1,
        &[
            "Contact: \"Bob\" <sip:bob@192.0.2.20>;q=0.7;+sip.instance=\"<urn:uuid:1>\";x, <sip:bob@192.0.2.21>;expires=90;q=0.123",
            "m: sip:bob@192.0.2.22;y=\"a;b\"",
            "Expires: 1000",
        ],
    );
    assert_eq!(
        answer.headers("Contact"),
        [
            "<sip:bob@192.0.2.20>;+sip.instance=\"<urn:uuid:1>\";x;q=0.700;expires=1000",
            "<sip:bob@192.0.2.21>;q=0.123;expires=90",
            "<sip:bob@192.0.2.22>;y=\"a;b\";expires=1000",
        ]
    );
}

#[test]
fn a_folded_parameter_does_not_break_the_answer() {
    let mut world = World::open();
    let answer = registers(&mut world, 1, &["Contact: <sip:bob@192.0.2.20>;x=\"a\r\n b\""]);
    assert_eq!((answer.status(), answer.headers("Contact").len()), (200, 1));
    assert_eq!(world.bindings("bob").len(), 1, "nor any later one");
}

#[test]
fn lifetimes_have_a_default_a_least_and_a_most() {
    for (lines, granted) in [
        (&["Contact: <sip:bob@192.0.2.20>"][..], "3600"),
        (&["Contact: <sip:bob@192.0.2.20>", "Expires: 700"], "700"),
        (&["Contact: <sip:bob@192.0.2.20>;expires=800", "Expires: 700"], "800"),
        (&["Contact: <sip:bob@192.0.2.20>;expires=60"], "60"),
        (&["Contact: <sip:bob@192.0.2.20>;expires=7201"], "7200"),
        (&["Contact: <sip:bob@192.0.2.20>;expires=4294967295"], "7200"),
        // RFC 3261 §20.10, §20.19: a malformed value counts as 3600.
        (&["Contact: <sip:bob@192.0.2.20>;expires=4294967296"], "3600"),
        (&["Contact: <sip:bob@192.0.2.20>;expires=soon"], "3600"),
        (&["Contact: <sip:bob@192.0.2.20>", "Expires: -1"], "3600"),
        (&["Contact: <sip:bob@192.0.2.20>", "Expires: Thu, 01 Jan 2099 00:00:00 GMT"], "3600"),
    ] {
        let answer = registers(&mut World::open(), 1, lines);
        assert_eq!(answer.header("Contact"), format!("<sip:bob@192.0.2.20>;expires={granted}"), "{lines:?}");
    }
}

#[test]
fn too_brief_a_lifetime_is_423_and_changes_nothing() {
    let mut world = World::open();
    for lines in [
        &["Contact: <sip:bob@192.0.2.20>;expires=59"][..],
        &["Contact: <sip:bob@192.0.2.20>", "Expires: 1"],
        &["Contact: <sip:bob@192.0.2.20>, <sip:bob@192.0.2.21>;expires=1"],
    ] {
        let answer = registers(&mut world, 1, lines);
        assert_eq!((answer.status(), answer.header("Min-Expires").as_str()), (423, "60"));
    }
    assert!(world.bindings("bob").is_empty());
}

#[test]
fn an_hour_is_never_too_brief() {
    let mut world = World::with(|config| config.registrar.min_expires_s = 86_400);
    let too_brief = registers(&mut world, 1, &["Contact: <sip:bob@192.0.2.20>;expires=3599"]);
    assert_eq!(too_brief.status(), 423);
    assert_eq!(registers(&mut world, 1, &["Contact: <sip:bob@192.0.2.20>;expires=3600"]).status(), 200);
}

#[test]
fn a_bad_contact_among_good_ones_changes_nothing() {
    let mut world = World::open();
    for contact in
        ["tel:+123", "<sip:bob@>", "<sip:bob@192.0.2.9>;q=2", "<sip:bob@192.0.2.9>;;", "mailto:bob@x"]
    {
        let answer = registers(&mut world, 1, &[&format!("Contact: <sip:bob@192.0.2.20>, {contact}")]);
        assert_eq!(answer.status(), 400, "{contact}");
    }
    let long = format!("Contact: <sip:bob@192.0.2.20>, <sip:{}@192.0.2.9>", "b".repeat(2048));
    assert_eq!(registers(&mut world, 1, &[&long]).status(), 400);
    assert!(world.bindings("bob").is_empty());
    assert!(world.memory.records.lock().unwrap().is_empty());
}

#[test]
fn more_contacts_than_allowed_are_refused_as_a_whole() {
    let mut world = World::open();
    let contact = |number: u32| format!("<sip:bob@192.0.2.20:{}>", 5060 + number);
    let all: Vec<_> = (0..4).map(contact).collect();
    assert_eq!(registers(&mut world, 1, &[&format!("Contact: {}", all.join(", "))]).status(), 403);
    assert!(world.bindings("bob").is_empty());
    assert_eq!(registers(&mut world, 2, &[&format!("Contact: {}", all[..3].join(", "))]).status(), 200);
    assert_eq!(registers(&mut world, 3, &[&format!("Contact: {}", all[3])]).status(), 403);
    let instead = format!("Contact: {};expires=0, {}", all[0], all[3]);
    assert_eq!(registers(&mut world, 4, &[&instead]).status(), 200, "one goes, one comes");
    let many = vec!["<sip:a@b>"; 100].join(",");
    assert_eq!(registers(&mut world, 5, &[&format!("Contact: {many}")]).status(), 403);
    assert_eq!(world.server.counters().too_many_contacts, 3);
}

#[test]
fn a_binding_expires_and_the_store_is_updated() {
    let mut world = World::open();
    registers(&mut world, 1, &["Contact: <sip:bob@192.0.2.20>;expires=60, <sip:bob@192.0.2.21>;expires=120"]);
    world.pass(Duration::from_millis(59_999));
    assert_eq!(world.bindings("bob").len(), 2);
    world.pass(Duration::from_millis(2));
    assert_eq!(world.bindings("bob"), ["<sip:bob@192.0.2.21>;expires=60"]);
    world.pass(MINUTE);
    assert!(world.bindings("bob").is_empty());
    assert_eq!(world.server.location().users_len(), 0, "nothing is kept of a user without bindings");
    assert!(world.memory.records.lock().unwrap().values().all(Vec::is_empty));
    let answer = only(world.udp(ALICE, &request("MESSAGE", "sip:bob@example.org")));
    assert_eq!(answer.status(), 480);
}

#[test]
fn contacts_compare_as_uris() {
    for (registered, same) in [
        ("sip:bob@192.0.2.20", "sip:%62ob@192.0.2.20"),
        ("sip:bob@host.example.net", "sip:bob@HOST.example.NET"),
        ("sip:bob@192.0.2.20;transport=udp", "sip:bob@192.0.2.20;Transport=UDP"),
        ("sip:bob@192.0.2.20;x=1", "sip:bob@192.0.2.20"),
    ] {
        let mut world = World::open();
        registers(&mut world, 1, &[&format!("Contact: <{registered}>")]);
        registers(&mut world, 2, &[&format!("Contact: <{same}>")]);
        assert_eq!(world.bindings("bob"), [format!("<{same}>;expires=3600")], "the newer spelling stays");
    }
    for (registered, other) in [
        ("sip:bob@192.0.2.20", "sip:Bob@192.0.2.20"),
        ("sip:bob@192.0.2.20", "sip:bob@192.0.2.20:5060"),
        ("sip:bob@192.0.2.20", "sip:bob@192.0.2.20;transport=udp"),
        ("sip:bob@192.0.2.20;x=1", "sip:bob@192.0.2.20;x=2"),
    ] {
        let mut world = World::open();
        registers(&mut world, 1, &[&format!("Contact: <{registered}>")]);
        registers(&mut world, 2, &[&format!("Contact: <{other}>")]);
        assert_eq!(world.bindings("bob").len(), 2, "{registered} {other}");
    }
}

#[test]
fn the_address_of_record_is_compared_without_escapes_and_parameters() {
    let mut world = World::open();
    let spelled = register("bob", "<sip:bob@192.0.2.20>").to("<sip:%62ob@EXAMPLE.org;user=phone>");
    assert_eq!(only(world.udp(BOB, &spelled)).status(), 200);
    assert_eq!(world.bindings("bob").len(), 1);
}

#[test]
fn unsupported_registrations_are_refused() {
    let mut world = World::open();
    let answer = registers(&mut world, 1, &["Contact: <sip:bob@192.0.2.20>", "Require: x-y, path, gruu"]);
    assert_eq!(answer.status(), 420);
    assert_eq!(answer.headers("Unsupported"), ["x-y", "gruu"], "GRUUs are off");
    let ours = register("bob", "<sip:bob@192.0.2.20>");
    assert_eq!(only(world.udp(BOB, &ours.clone().call_id("2").to("<tel:+123>"))).status(), 400);
    assert_eq!(only(world.udp(BOB, &ours.clone().call_id("3").to("<sip:bob@example.net>"))).status(), 404);
    assert_eq!(only(world.udp(BOB, &ours.call_id("4").to("<sip:example.org>"))).status(), 404);
    assert_eq!(world.server.location().bindings_len(), 0);
}

#[test]
fn a_register_for_another_domain_is_forwarded_for_our_users_only() {
    let mut world = World::open();
    let mut foreign = register("bob", "<sip:bob@192.0.2.20>");
    foreign.uri = "sip:192.0.2.88".into();
    foreign.to = "<sip:bob@example.net>".into();
    let sent = forwarded(world.udp(BOB, &foreign));
    assert_eq!((sent.method().as_str(), sent.to().as_str()), ("REGISTER", "192.0.2.88:5060"));
    let stranger = foreign.call_id("stranger").from("sip:eve@example.net");
    assert_eq!(only(world.udp(STRANGER, &stranger)).status(), 403);
}

#[test]
fn a_contact_behind_a_nat_is_reached_by_its_flow() {
    let mut world = World::open();
    world.register("bob", "198.51.100.7:31337", "<sip:bob@10.0.0.5:5060>");
    let called = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    assert_eq!(
        (called.uri().as_str(), called.to().as_str()),
        ("sip:bob@10.0.0.5:5060", "198.51.100.7:31337")
    );
    assert_eq!(called.flow.transport, Transport::Udp);
}

#[test]
fn only_a_trusted_proxy_makes_a_contact_elsewhere_dialable() {
    let through = register("bob", "<sip:bob@10.0.0.5>").line("Via: SIP/2.0/UDP 10.0.0.5;branch=z9hG4bKx");
    for (proxy, reached_at) in [(EDGE, "10.0.0.5:5060"), (CAROL, CAROL)] {
        let mut world = World::open();
        assert_eq!(only(world.udp(proxy, &through)).status(), 200);
        let called = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
        assert_eq!(called.to(), reached_at, "through {proxy}");
    }
}

#[test]
fn a_contact_that_only_a_connection_reached_ends_with_it() {
    let mut world = World::open();
    world.register_tcp(5, "bob", "198.51.100.7:31337", "<sip:bob@10.0.0.5;transport=tcp>");
    let called = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    assert_eq!(called.flow.connection, Some(ConnectionId(5)));
    assert!(world.event(Event::Closed(ConnectionId(5))).is_empty());
    assert!(world.bindings("bob").is_empty());
    assert!(world.memory.records.lock().unwrap().values().all(Vec::is_empty));
    let answer = only(world.udp(ALICE, &invite("sip:bob@example.org").call_id("again")));
    assert_eq!(answer.status(), 480);
}

#[test]
fn any_other_contact_is_dialled_anew_when_its_connection_is_closed() {
    let mut world = World::open();
    world.register_tcp(5, "bob", "192.0.2.20:31337", "<sip:bob@192.0.2.20:5062;transport=tcp>");
    world.event(Event::Closed(ConnectionId(5)));
    assert_eq!(world.bindings("bob").len(), 1);
    let called = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    assert_eq!((called.flow.transport, called.flow.connection), (Transport::Tcp, None));
    assert_eq!(called.to(), "192.0.2.20:5062");
}

#[test]
fn a_removed_user_has_no_bindings_left() {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    world.server.remove_user(b"bob@example.org");
    assert_eq!(world.server.location().bindings_len(), 0);
    assert!(world.memory.records.lock().unwrap()[b"bob@example.org".as_slice()].is_empty());
}

#[test]
fn an_administrator_ends_the_registrations_of_a_user_but_not_its_permanent_contacts() {
    let mut world = World::open();
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.99"]);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    world.register("carol", BOB, "<sip:carol@192.0.2.20>");
    let now = world.now;
    assert_eq!(world.server.end_registrations(now, b"bob@example.org"), 1);
    assert_eq!(world.server.end_registrations(now, b"bob@example.org"), 0, "there are none any more");
    assert_eq!(world.server.end_registrations(now, b"nobody@example.org"), 0);
    assert_eq!(world.bindings("bob").len(), 1, "the permanent one");
    assert_eq!(world.bindings("carol").len(), 1);
    assert!(world.memory.records.lock().unwrap()[b"bob@example.org".as_slice()].is_empty(), "it is stored");
    let mut contacts = Vec::new();
    world.server.location().bindings_of(b"bob@example.org", |found| contacts.push(found.contact().to_vec()));
    assert_eq!(contacts, [b"sip:bob@192.0.2.99"]);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    assert_eq!(world.bindings("bob").len(), 2, "its phone registers again");
}

#[test]
fn requests_are_counted_by_method_and_responses_by_class() {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    world.udp(ALICE, &invite("sip:bob@example.org"));
    world.udp(ALICE, &invite("sip:nobody@example.org").call_id("other"));
    let counters = world.server.counters();
    assert_eq!((counters.requests_register, counters.requests_invite, counters.requests_other), (1, 2, 0));
    assert_eq!((counters.sent_1xx, counters.sent_2xx, counters.sent_4xx, counters.sent_6xx), (1, 1, 1, 0));
}

#[test]
fn a_cseq_that_has_no_next_one_is_refused() {
    let mut world = World::open();
    let request = register("bob", "<sip:bob@192.0.2.20>");
    for (cseq, status) in [((1 << 31) - 1, 200), (1 << 31, 400), (u32::MAX, 400)] {
        let request = request.clone().call_id(&format!("{cseq}")).cseq(cseq);
        assert_eq!(statuses(&world.udp(BOB, &request)), [status], "{cseq}");
    }
}
