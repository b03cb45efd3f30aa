//! Tests of the forwards of a user: conditions, header fields, permission, loops, limits.

use crate::challenge::proven;
use crate::ends::nothing_is_left;
use crate::harness::{
    ALICE, BOB, CAROL, EDGE, Request, STRANGER, Sent, World, invite, only, register, request, requests,
    statuses,
};
use crate::routes::{CARRIER_A, CARRIER_B, carriers};
use ringway_sansio::Event;
use ringway_server::{Destination, DestinationRule, DestinationRules, ForwardUri, Forwards, Mode, NoAnswer};
use std::collections::VecDeque;
use std::time::Duration;

pub(crate) const SERVER: &str = "192.0.2.1:5060";
/// Target outside our domains.
const OUTSIDE: &str = "sip:desk@198.51.100.7";
pub(crate) const SECOND: Duration = Duration::from_secs(1);

fn target(uri: &str) -> ForwardUri {
    ForwardUri::new(uri).unwrap()
}

pub(crate) fn always(uri: &str) -> Forwards {
    Forwards { always: Some(target(uri)), ..Forwards::default() }
}

fn busy(uri: &str) -> Forwards {
    Forwards { busy: Some(target(uri)), ..Forwards::default() }
}

fn no_answer(after_s: u64, uri: &str) -> Forwards {
    Forwards { no_answer: Some(NoAnswer::new(after_s, target(uri)).unwrap()), ..Forwards::default() }
}

fn unregistered(uri: &str) -> Forwards {
    Forwards { unregistered: Some(target(uri)), ..Forwards::default() }
}

/// Server without passwords at which bob and carol are registered.
fn world(forwards: Forwards) -> World {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    world.register("carol", CAROL, "<sip:carol@192.0.2.30>");
    world.server.set_forwards(b"bob@example.org", forwards);
    world
}

/// The parameters of the server's own URIs mean nothing in a target that a user chose.
#[test]
fn a_forward_passes_by_no_other_forward() {
    for param in ["rwd", "rwc=0;rwd", "rwc=0", "rwg=0"] {
        let mut world = world(always(&format!("sip:carol@example.org;{param}")));
        world.server.set_forwards(b"carol@example.org", always(OUTSIDE));
        let sent = world.udp(ALICE, &invite("sip:bob@example.org"));
        let sent = requests(settle(&mut world, sent));
        assert_eq!(
            sent.iter().map(Sent::uri).collect::<Vec<_>>(),
            [format!("{OUTSIDE};cause=302")],
            "{param}"
        );
    }
}

/// Delivers what the server sends to itself; returns what it sends to others.
pub(crate) fn settle(world: &mut World, sent: Vec<Sent>) -> Vec<Sent> {
    let (mut waiting, mut out) = (VecDeque::from(sent), Vec::new());
    let mut count = 0;
    while let Some(next) = waiting.pop_front() {
        count += 1;
        assert!(count < 1000, "it multiplies");
        if next.to() == SERVER {
            waiting.extend(world.udp(SERVER, &next.bytes));
        } else {
            out.push(next);
        }
    }
    out
}

/// Lets time pass, with what the server sends to itself.
pub(crate) fn pass(world: &mut World, seconds: u32) -> Vec<Sent> {
    let mut out = Vec::new();
    for _ in 0..seconds * 10 {
        let sent = world.pass(SECOND / 10);
        out.extend(settle(world, sent));
    }
    out
}

pub(crate) fn udp(world: &mut World, from: &str, message: &impl crate::harness::Wire) -> Vec<Sent> {
    let sent = world.udp(from, message);
    settle(world, sent)
}

fn invites(sent: &[Sent]) -> Vec<Sent> {
    sent.iter().filter(|sent| sent.method() == "INVITE").cloned().collect()
}

fn cancels(sent: &[Sent]) -> Vec<String> {
    let mut targets: Vec<_> = sent.iter().filter(|sent| sent.method() == "CANCEL").map(Sent::to).collect();
    // Retransmissions.
    targets.dedup();
    targets
}

fn call() -> Request {
    invite("sip:bob@example.org")
}

#[test]
fn a_user_that_forwards_every_call_is_not_called() {
    let mut world = world(always("sip:carol@example.org"));
    let sent = udp(&mut world, ALICE, &call());
    let forwarded = only(invites(&sent));
    assert_eq!((forwarded.to().as_str(), forwarded.uri().as_str()), (CAROL, "sip:carol@192.0.2.30"));
    assert_eq!(forwarded.header("To"), "<sip:bob@example.org>");
    assert_eq!(forwarded.header("Diversion"), "<sip:bob@example.org>;reason=unconditional;counter=1");
    assert_eq!(
        forwarded.header("History-Info"),
        "<sip:bob@example.org>;index=1, <sip:carol@example.org;cause=302>;index=1.1;mp=1"
    );
    let answered = udp(&mut world, CAROL, &forwarded.answer(200, &["Contact: <sip:carol@192.0.2.30>"]));
    assert_eq!(statuses(&answered), [200]);
    assert_eq!(world.server.counters().calls_forwarded_always, 1);
    let events = world.memory.events.lock().unwrap().clone();
    assert!(
        events.contains(&"call Diverted(Forward(Always)) to sip:carol@example.org;cause=302".into()),
        "{events:?}"
    );
    nothing_is_left(&mut world, "after a forwarded call");
}

#[test]
fn a_busy_users_calls_go_on_when_every_phone_is_busy() {
    let mut world = world(busy("sip:carol@example.org"));
    let first = only(requests(udp(&mut world, ALICE, &call())));
    assert_eq!(first.to(), BOB);
    assert!(first.headers("Diversion").is_empty());
    let sent = udp(&mut world, BOB, &first.answer(486, &[]));
    let second = only(invites(&sent));
    assert_eq!(second.to(), CAROL);
    assert_eq!(second.header("Diversion"), "<sip:bob@example.org>;reason=user-busy;counter=1");
    assert_eq!(
        second.header("History-Info"),
        "<sip:bob@example.org?Reason=SIP%3Bcause%3D486>;index=1, \
         <sip:carol@example.org;cause=486>;index=1.1;mp=1"
    );
    assert!(statuses(&sent).iter().all(|&status| status == 100));
    assert_eq!(statuses(&udp(&mut world, CAROL, &second.answer(180, &[]))), [180]);
    assert_eq!(statuses(&udp(&mut world, CAROL, &second.answer(486, &[]))), [486]);
    assert_eq!(world.server.counters().calls_forwarded_busy, 1);
    nothing_is_left(&mut world, "after both were busy");
}

#[test]
fn other_failures_are_not_busy() {
    for status in [404, 403, 500, 600, 603] {
        let mut world = world(Forwards { unregistered: Some(target(OUTSIDE)), ..busy(OUTSIDE) });
        let first = only(requests(udp(&mut world, ALICE, &call())));
        let sent = udp(&mut world, BOB, &first.answer(status, &[]));
        assert!(invites(&sent).is_empty(), "{status}");
        assert_eq!(statuses(&sent), [status]);
        nothing_is_left(&mut world, "after another failure");
    }
}

#[test]
fn a_call_that_nobody_answers_in_time_goes_on_and_the_phones_are_cancelled() {
    let mut world = world(no_answer(5, "sip:carol@example.org"));
    let first = only(requests(udp(&mut world, ALICE, &call())));
    udp(&mut world, BOB, &first.answer(180, &[]));
    assert!(pass(&mut world, 4).is_empty());
    let sent = pass(&mut world, 2);
    assert_eq!(cancels(&sent), [BOB]);
    let second = invites(&sent).remove(0);
    assert_eq!(second.to(), CAROL);
    assert_eq!(second.header("Diversion"), "<sip:bob@example.org>;reason=no-answer;counter=1");
    assert!(second.header("History-Info").contains("cause=408>;index=1.1;mp=1"));
    assert!(statuses(&udp(&mut world, BOB, &first.answer(487, &[]))).is_empty());
    assert_eq!(statuses(&udp(&mut world, CAROL, &second.answer(200, &[]))), [200]);
    assert_eq!(world.server.counters().calls_forwarded_no_answer, 1);
    assert_eq!(world.server.counters().serial_forks, 0);
    nothing_is_left(&mut world, "after no answer");
}

#[test]
fn a_phone_that_answers_while_it_is_cancelled_has_the_call() {
    let mut world = world(no_answer(5, "sip:carol@example.org"));
    let first = only(requests(udp(&mut world, ALICE, &call())));
    udp(&mut world, BOB, &first.answer(180, &[]));
    let second = invites(&pass(&mut world, 6)).remove(0);
    udp(&mut world, CAROL, &second.answer(180, &[]));
    let sent = udp(&mut world, BOB, &first.answer(200, &[]));
    assert_eq!(statuses(&sent), [200]);
    assert_eq!(cancels(&sent), [CAROL]);
    nothing_is_left(&mut world, "after a late answer");
}

#[test]
fn phones_that_give_up_have_not_answered() {
    for status in [408, 480] {
        let mut world = world(no_answer(60, "sip:carol@example.org"));
        let first = only(requests(udp(&mut world, ALICE, &call())));
        let second = only(invites(&udp(&mut world, BOB, &first.answer(status, &[]))));
        assert_eq!(second.to(), CAROL, "{status}");
    }
}

#[test]
fn the_lower_groups_are_not_called_after_the_time_for_an_answer() {
    let mut world = World::open();
    world.server.set_forwards(b"bob@example.org", no_answer(15, OUTSIDE));
    let contacts = "<sip:bob@192.0.2.20>, <sip:bob@192.0.2.21>;q=0.5, <sip:bob@192.0.2.22>;q=0.2";
    let through = "Via: SIP/2.0/UDP 192.0.2.99;branch=z9hG4bKx";
    assert_eq!(only(world.udp(EDGE, &register("bob", contacts).line(through))).status(), 200);
    let first = only(requests(udp(&mut world, ALICE, &call())));
    let second = only(invites(&udp(&mut world, BOB, &first.answer(486, &[]))));
    udp(&mut world, &second.to(), &second.answer(180, &[]));
    let sent = pass(&mut world, 16);
    assert_eq!(cancels(&sent), ["192.0.2.21:5060"]);
    let third = invites(&sent).remove(0);
    assert_eq!(third.to(), "198.51.100.7:5060");
    assert_eq!(statuses(&udp(&mut world, &third.to(), &third.answer(404, &[]))), Vec::<u16>::new());
    assert_eq!(statuses(&udp(&mut world, &second.to(), &second.answer(487, &[]))), [486]);
    assert!(invites(&pass(&mut world, 60)).is_empty());
    nothing_is_left(&mut world, "after all groups");
}

#[test]
fn a_user_without_a_phone_is_forwarded_instead_of_480() {
    let mut world = world(unregistered("sip:carol@example.org"));
    let first = only(invites(&udp(&mut world, ALICE, &call())));
    assert_eq!(first.to(), BOB);
    world.server.remove_user(b"bob@example.org");
    let forwarded = only(invites(&udp(&mut world, ALICE, &call().call_id("later"))));
    assert_eq!(forwarded.to(), CAROL);
    assert_eq!(forwarded.header("Diversion"), "<sip:bob@example.org>;reason=unavailable;counter=1");
    assert!(forwarded.header("History-Info").contains("cause=404"));
    assert_eq!(world.server.counters().calls_forwarded_unregistered, 1);
}

#[test]
fn a_phone_that_cannot_be_reached_counts_as_absent() {
    let mut world = World::open();
    world.register_tcp(7, "bob", BOB, "<sip:bob@192.0.2.20;transport=tcp>");
    world.server.set_forwards(b"bob@example.org", unregistered(OUTSIDE));
    let first = only(invites(&udp(&mut world, ALICE, &call())));
    let sent = world.event(Event::Unreachable(first.token));
    assert_eq!(only(invites(&sent)).to(), "198.51.100.7:5060");
    nothing_is_left(&mut world, "after an unreachable phone");
}

#[test]
fn only_a_first_invite_is_forwarded() {
    let mut world = world(always(OUTSIDE));
    for method in ["MESSAGE", "OPTIONS", "SUBSCRIBE"] {
        let sent = requests(udp(&mut world, ALICE, &request(method, "sip:bob@example.org").call_id(method)));
        assert_eq!(only(sent).to(), BOB, "{method}");
    }
    let again = call().call_id("again").to("<sip:bob@example.org>;tag=x");
    assert_eq!(only(requests(udp(&mut world, ALICE, &again))).to(), BOB, "inside a dialog");
    let mut stateless = World::with(|config| config.stateful = false);
    stateless.register("bob", BOB, "<sip:bob@192.0.2.20>");
    stateless.server.set_forwards(b"bob@example.org", always(OUTSIDE));
    assert_eq!(only(requests(stateless.udp(ALICE, &call()))).to(), BOB);
}

#[test]
fn the_caller_cancels_between_phone_and_forward() {
    let mut world = world(busy("sip:carol@example.org"));
    let call = call();
    let first = only(requests(udp(&mut world, ALICE, &call)));
    udp(&mut world, BOB, &first.answer(180, &[]));
    assert_eq!(cancels(&udp(&mut world, ALICE, &call.cancel())), [BOB]);
    let sent = udp(&mut world, BOB, &first.answer(486, &[]));
    assert!(invites(&sent).is_empty());
    assert_eq!(statuses(&sent), [486]);
    nothing_is_left(&mut world, "after a cancel");

    let mut world = self::world(busy("sip:carol@example.org"));
    let first = only(requests(udp(&mut world, ALICE, &call)));
    let second = only(invites(&udp(&mut world, BOB, &first.answer(486, &[]))));
    udp(&mut world, CAROL, &second.answer(180, &[]));
    assert_eq!(cancels(&udp(&mut world, ALICE, &call.cancel())), [CAROL]);
    assert_eq!(statuses(&udp(&mut world, CAROL, &second.answer(487, &[]))), [486]);
    nothing_is_left(&mut world, "after a cancel at the forward");
}

#[test]
fn a_strangers_call_leaves_our_domains_by_the_permission_of_the_called_user() {
    let mut world = World::closed();
    let stranger =
        call().from("sip:eve@example.net").via(&format!("SIP/2.0/UDP {STRANGER};rport;branch=z9hG4bK"));
    world.server.set_forwards(b"bob@example.org", always(OUTSIDE));
    let lines = [
        "History-Info: <sip:boss@example.org>;index=1;mp=1",
        "Diversion: <sip:boss@example.org>;reason=user-busy",
        "P-Asserted-Identity: <sip:boss@example.org>",
    ];
    let claimed = lines.iter().fold(stranger.clone(), |call, line| call.line(line));
    let forwarded = only(invites(&udp(&mut world, STRANGER, &claimed)));
    assert_eq!(forwarded.to(), "198.51.100.7:5060");
    assert_eq!(forwarded.uri(), "sip:desk@198.51.100.7;cause=302");
    assert!(!forwarded.text().contains("boss"), "{}", forwarded.text());
    assert_eq!(forwarded.headers("Diversion").len(), 1);
    // A stranger still calls nobody outside.
    let direct = invite(OUTSIDE).from("sip:eve@example.net").call_id("direct");
    assert_eq!(statuses(&udp(&mut world, STRANGER, &direct)), [403]);
}

#[test]
fn calls_that_leave_by_one_users_permission_are_limited() {
    let mut world = World::closed();
    world.server.set_forwards(b"bob@example.org", always(OUTSIDE));
    world.server.set_forwards(b"carol@example.org", always(OUTSIDE));
    let stranger = |user: &str, number: usize| {
        let via = format!("SIP/2.0/UDP {STRANGER};rport;branch=z9hG4bK");
        let call = invite(&format!("sip:{user}@example.org")).from("sip:eve@example.net").via(&via);
        call.call_id(&format!("{user}{number}"))
    };
    let mut forwarded = Vec::new();
    for number in 0..32 {
        forwarded.push(only(invites(&udp(&mut world, STRANGER, &stranger("bob", number)))));
    }
    assert_eq!(statuses(&udp(&mut world, STRANGER, &stranger("bob", 32))), [480]);
    assert_eq!(world.server.counters().over_user_forwards, 1);
    assert_eq!(
        invites(&udp(&mut world, STRANGER, &stranger("carol", 0))).len(),
        1,
        "another user has its own"
    );
    // Each counts until 32 s after its final response.
    for one in &forwarded {
        udp(&mut world, "198.51.100.7:5060", &one.answer(404, &[]));
    }
    assert_eq!(statuses(&udp(&mut world, STRANGER, &stranger("bob", 33))), [480]);
    pass(&mut world, 40);
    assert_eq!(invites(&udp(&mut world, STRANGER, &stranger("bob", 34))).len(), 1);
    nothing_is_left(&mut world, "after many forwarded calls");
}

#[test]
fn the_fields_of_a_proven_caller_are_extended() {
    let mut world = World::closed();
    world.server.set_forwards(b"bob@example.org", always(OUTSIDE));
    let call = call()
        .line("History-Info: <sip:x@example.net>;index=1, <sip:bob@example.org>;index=1.1;mp=1")
        .line("Diversion: <sip:x@example.net>;reason=away");
    let forwarded = only(invites(&proven(&mut world, ALICE, &call, "alice")));
    assert_eq!(
        forwarded.headers("Diversion"),
        ["<sip:bob@example.org>;reason=unconditional;counter=1", "<sip:x@example.net>;reason=away"]
    );
    assert_eq!(
        forwarded.headers("History-Info").last().unwrap(),
        "<sip:desk@198.51.100.7;cause=302>;index=1.1.1;mp=1.1"
    );
}

#[test]
fn users_that_forward_to_each_other_end_with_a_failure() {
    for (count, expected) in [(1, 482), (2, 482), (3, 482), (4, 482), (10, 480)] {
        let mut world = World::open();
        for number in 0..count {
            let next = format!("sip:u{}@example.org", (number + 1) % count);
            world.add_user(&format!("u{number}"), "example.org", "x");
            world.server.set_forwards(format!("u{number}@example.org").as_bytes(), always(&next));
        }
        let sent = udp(&mut world, ALICE, &invite("sip:u0@example.org"));
        assert_eq!(statuses(&sent).last(), Some(&expected), "{count} users");
        assert!(invites(&sent).is_empty());
        let counters = world.server.counters();
        assert_eq!((counters.loops > 0, counters.forward_loops > 0), (expected == 482, expected == 480));
        nothing_is_left(&mut world, "after a ring");
    }
}

#[test]
fn a_ring_of_busy_users_rings_each_phone_once() {
    let mut world = World::with(|config| config.datagram_bytes_max = 65_535);
    for number in 0..10 {
        let user = format!("u{number}");
        world.register(&user, ALICE, &format!("<sip:{user}@{ALICE}>"));
        let next = format!("sip:u{}@example.org", (number + 1) % 10);
        world.server.set_forwards(format!("{user}@example.org").as_bytes(), busy(&next));
    }
    let mut sent = udp(&mut world, ALICE, &invite("sip:u0@example.org"));
    let mut called = Vec::new();
    while let Some(next) = invites(&sent).first().cloned() {
        called.push(next.uri());
        sent = udp(&mut world, ALICE, &next.answer(486, &[]));
    }
    assert_eq!(statuses(&sent), [486]);
    let distinct: std::collections::BTreeSet<_> = called.iter().collect();
    assert_eq!(distinct.len(), called.len(), "{called:?}");
    assert!((2..=6).contains(&called.len()), "{called:?}");
    nothing_is_left(&mut world, "after a ring of busy users");
}

#[test]
fn a_server_outside_that_sends_the_call_back_does_not_start_it_again() {
    let mut world = World::closed();
    world.server.set_forwards(b"bob@example.org", always(OUTSIDE));
    let via = format!("SIP/2.0/UDP {STRANGER};rport;branch=z9hG4bK");
    let first = only(invites(&udp(&mut world, STRANGER, &call().from("sip:eve@example.net").via(&via))));
    // A proxy keeps our Via.
    let back = first.text().replacen(&first.uri(), "sip:bob@example.org", 1);
    let back = back.replacen("Via:", "Via: SIP/2.0/UDP 198.51.100.7;branch=z9hG4bKback\r\nVia:", 1);
    assert_eq!(statuses(&udp(&mut world, "198.51.100.7:5060", &back.into_bytes())), [482]);
    // A back-to-back user agent begins a new call, with the Diversion of the last one.
    let mut diversions = vec![first.header("Diversion")];
    let via = "SIP/2.0/UDP 198.51.100.7;rport;branch=z9hG4bK";
    for round in 0..10 {
        let mut again = call().from("sip:eve@example.net").via(via).call_id(&format!("round{round}"));
        for diversion in &diversions {
            again = again.line(&format!("Diversion: {diversion}"));
        }
        let sent = udp(&mut world, "198.51.100.7:5060", &again);
        match invites(&sent).first() {
            Some(next) => diversions = next.headers("Diversion").into_iter().collect(),
            None => {
                assert_eq!(statuses(&sent), [480]);
                assert_eq!((round, world.server.counters().forward_loops), (4, 1));
                return;
            }
        }
    }
    panic!("the loop did not end");
}

#[test]
fn a_secure_call_is_not_forwarded_without_tls() {
    let forward = |uri: &str| {
        let mut world = World::with(|config| {
            let address = "192.0.2.1:5061".parse().unwrap();
            let transport = ringway_sansio::Transport::Tls;
            let listener = ringway_server::Listener { transport, bound: address, advertised: address };
            config.listeners.push(listener);
        });
        world.server.set_forwards(b"bob@example.org", always(uri));
        let flow = ringway_sansio::Flow {
            connection: Some(ringway_sansio::ConnectionId(9)),
            ..ringway_sansio::Flow::new(
                ringway_sansio::Transport::Tls,
                ringway_sansio::ListenerId(3),
                ALICE.parse().unwrap(),
            )
        };
        let mut call = invite("sips:bob@example.org");
        call.via = call.via.replace("UDP", "TLS");
        world.message(flow, &crate::harness::Wire::wire(&call))
    };
    assert_eq!(statuses(&forward("sip:desk@198.51.100.7")), [480]);
    let sent = forward("sip:carol@example.org");
    assert_eq!(only(invites(&sent)).uri(), "sips:carol@example.org;cause=302");
    assert_eq!(invites(&forward("sips:desk@198.51.100.7")).len(), 1);
}

#[test]
fn a_redirect_server_names_the_forward() {
    let mut world = World::with(|config| config.mode = Mode::Redirect);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    world.server.set_forwards(b"bob@example.org", always(OUTSIDE));
    let response = only(world.udp(ALICE, &call()));
    assert_eq!(
        (response.status(), response.header("Contact").as_str()),
        (302, "<sip:desk@198.51.100.7;cause=302>")
    );
    world.server.set_forwards(b"bob@example.org", unregistered(OUTSIDE));
    let response = only(world.udp(ALICE, &call().call_id("registered")));
    assert!(response.header("Contact").starts_with("<sip:bob@192.0.2.20>"));
    world.server.remove_user(b"bob@example.org");
    let response = only(world.udp(ALICE, &call().call_id("absent")));
    assert_eq!(response.header("Contact"), "<sip:desk@198.51.100.7;cause=404>");
    assert_eq!(world.server.counters().calls_forwarded_unregistered, 1);
}

#[test]
fn a_forward_to_a_host_name_waits_for_its_address() {
    let mut world = world(busy("sip:desk@desk.example.net"));
    let first = only(requests(udp(&mut world, ALICE, &call())));
    assert!(invites(&udp(&mut world, BOB, &first.answer(486, &[]))).is_empty());
    let second = only(invites(&world.resolve("desk.example.net", Some("198.51.100.7"))));
    assert_eq!(second.header("Diversion"), "<sip:bob@example.org>;reason=user-busy;counter=1");
    assert_eq!(statuses(&udp(&mut world, "198.51.100.7:5060", &second.answer(200, &[]))), [200]);
    nothing_is_left(&mut world, "after a lookup");
}

#[test]
fn the_branch_of_a_forward_shares_max_breadth_with_those_that_still_run() {
    let mut world = world(no_answer(5, OUTSIDE));
    let first = only(requests(udp(&mut world, ALICE, &call())));
    assert_eq!(first.header("Max-Breadth"), "30");
    udp(&mut world, BOB, &first.answer(180, &[]));
    assert_eq!(invites(&pass(&mut world, 6))[0].header("Max-Breadth"), "30");
    // After the final response all of it is free again (RFC 5393 §5.3.3.1).
    world.server.set_forwards(b"bob@example.org", busy(OUTSIDE));
    let first = only(requests(udp(&mut world, ALICE, &call().call_id("busy"))));
    let second = only(invites(&udp(&mut world, BOB, &first.answer(486, &[]))));
    assert_eq!(second.header("Max-Breadth"), "60");
    // A request that may have one branch only has no forward.
    let narrow = call().call_id("narrow").line("Max-Breadth: 1");
    let first = only(requests(udp(&mut world, ALICE, &narrow)));
    assert_eq!(first.header("Max-Breadth"), "1");
    assert_eq!(statuses(&udp(&mut world, BOB, &first.answer(486, &[]))), [486]);
}

/// Server with passwords, two trunks and a rule, at which bob has no phone.
fn world_with_trunks(rule: DestinationRule) -> World {
    World::with(|config| {
        carriers(config);
        config.auth.enabled = true;
        let rules = vec![Destination { prefix: "+900".into(), rule }];
        config.trunking.destinations = DestinationRules::new(rules).unwrap();
    })
}

fn strangers(call_id: &str) -> Request {
    let via = format!("SIP/2.0/UDP {STRANGER};rport;branch=z9hG4bK");
    call().from("sip:eve@example.net").via(&via).call_id(call_id)
}

#[test]
fn a_forward_to_a_number_takes_its_trunks_with_the_permission_of_the_user() {
    for (uri, at_trunk) in [
        ("sip:+441234@example.org", "sip:+441234@198.51.100.1:5060;user=phone"),
        ("sip:desk@other.example", "sip:desk@other.example;cause=302"),
    ] {
        let mut world = world_with_trunks(DestinationRule::Deny);
        world.server.set_forwards(b"bob@example.org", always(uri));
        let first = only(invites(&udp(&mut world, STRANGER, &strangers("one"))));
        assert_eq!((first.to().as_str(), first.uri().as_str()), (CARRIER_A, at_trunk));
        assert!(first.header("P-Asserted-Identity").starts_with("<sip:bob@example.org"), "{}", first.text());
        assert_eq!(first.header("Diversion"), "<sip:bob@example.org>;reason=unconditional;counter=1");
        assert!(first.header("History-Info").contains(&format!("<{at_trunk}>;index=1.1;mp=1")));
        let second = only(invites(&udp(&mut world, CARRIER_A, &first.answer(503, &[]))));
        assert_eq!(second.to(), CARRIER_B);
        assert_eq!(statuses(&udp(&mut world, CARRIER_B, &second.answer(200, &[]))), [200]);
        nothing_is_left(&mut world, uri);
    }
    // The same after a phone: bob's is busy.
    let mut world = World::with(carriers);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    world.server.set_forwards(b"bob@example.org", busy("sip:+441234@example.org"));
    let first = only(requests(udp(&mut world, ALICE, &call())));
    let at_a = only(invites(&udp(&mut world, BOB, &first.answer(486, &[]))));
    assert_eq!(at_a.to(), CARRIER_A);
    let at_b = only(invites(&udp(&mut world, CARRIER_A, &at_a.answer(503, &[]))));
    assert_eq!((at_b.to().as_str(), at_b.headers("Diversion").len()), (CARRIER_B, 1));
    assert_eq!(statuses(&udp(&mut world, CARRIER_B, &at_b.answer(404, &[]))), [486]);
    nothing_is_left(&mut world, "after a busy phone and two trunks");
}

#[test]
fn the_destination_rules_apply_to_the_user_who_forwards() {
    for uri in ["sip:+9001@example.org", "sip:+9001@other.example"] {
        let mut world = world_with_trunks(DestinationRule::Deny);
        world.server.set_forwards(b"bob@example.org", always(uri));
        let sent = udp(&mut world, STRANGER, &strangers("denied"));
        assert_eq!((invites(&sent).len(), statuses(&sent)), (0, vec![480]), "{uri}");
        assert_eq!(world.server.counters().destination_refusals, 1);
    }
    let mut world = world_with_trunks(DestinationRule::PerHour(2));
    for user in ["bob", "carol"] {
        let aor = format!("{user}@example.org");
        world.server.set_forwards(aor.as_bytes(), always("sip:+9001@example.org"));
    }
    for number in 0..3 {
        let sent = udp(&mut world, STRANGER, &strangers(&format!("rate{number}")));
        assert_eq!(invites(&sent).len(), usize::from(number < 2), "{number}");
    }
    assert_eq!(world.server.counters().destination_rates, 1);
    let of_carol = Request { uri: "sip:carol@example.org".into(), ..strangers("carol") };
    assert_eq!(invites(&udp(&mut world, STRANGER, &of_carol)).len(), 1, "each user has its own");
}

#[test]
fn a_phones_redirect_reaches_no_trunk() {
    let mut world = World::with(|config| {
        carriers(config);
        config.recurse = true;
    });
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    for contact in ["<sip:+441234@example.org>", "<sip:x@other.example>"] {
        let first = only(requests(udp(&mut world, ALICE, &call().call_id(contact.trim_matches(['<', '>'])))));
        let sent = udp(&mut world, BOB, &first.answer(302, &[&format!("Contact: {contact}")]));
        assert_eq!((invites(&sent).len(), statuses(&sent)), (0, vec![302]), "{contact}");
    }
}
