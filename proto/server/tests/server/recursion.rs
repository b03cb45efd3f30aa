//! Tests of recursion on 3xx responses (RFC 3261 §16.7 step 4): targets, permission, limits, loops.

use crate::challenge::proven;
use crate::ends::nothing_is_left;
use crate::forwards::{SECOND, always, udp};
use crate::harness::{
    ALICE, BOB, CAROL, EDGE, Request, STRANGER, Sent, World, invite, only, register, request, requests,
    statuses,
};
use std::collections::BTreeSet;

fn world() -> World {
    let mut world = World::with(|config| config.recurse = true);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    world.register("carol", CAROL, "<sip:carol@192.0.2.30>");
    world
}

/// The same with passwords, which bob's registration needs.
fn closed() -> World {
    let mut world = World::with(|config| (config.recurse, config.auth.enabled) = (true, true));
    let sent = proven(&mut world, BOB, &register("bob", "<sip:bob@192.0.2.20>"), "bob");
    assert_eq!(only(sent).status(), 200);
    world
}

fn strangers(call_id: &str) -> Request {
    let via = format!("SIP/2.0/UDP {STRANGER};rport;branch=z9hG4bK");
    invite("sip:bob@example.org").from("sip:eve@example.net").via(&via).call_id(call_id)
}

fn invites(sent: &[Sent]) -> Vec<Sent> {
    sent.iter().filter(|sent| sent.method() == "INVITE").cloned().collect()
}

fn targets(sent: &[Sent]) -> Vec<String> {
    invites(sent).iter().map(Sent::uri).collect()
}

fn redirect(sent: &Sent, status: u16, contacts: &str) -> Vec<u8> {
    sent.answer(status, &[&format!("Contact: {contacts}")])
}

#[test]
fn without_the_key_a_redirect_is_passed_on() {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let first = only(requests(udp(&mut world, ALICE, &invite("sip:bob@example.org"))));
    let sent = udp(&mut world, BOB, &redirect(&first, 302, "<sip:x@198.51.100.7>"));
    let response = only(sent.into_iter().filter(|sent| sent.status() != 0).collect());
    assert_eq!(response.header("Contact"), "<sip:x@198.51.100.7>");
}

#[test]
fn the_contacts_of_a_302_are_called_by_falling_q_and_the_caller_gets_their_response() {
    for status in [300, 301, 302] {
        let mut world = world();
        let first = only(requests(udp(&mut world, ALICE, &invite("sip:bob@example.org"))));
        let contacts = "<sip:a@198.51.100.1>;q=0.5, <sip:b@198.51.100.2;method=BYE?Subject=x>, <sip:c@198.51.100.3>;q=0.5";
        let sent = udp(&mut world, BOB, &redirect(&first, status, contacts));
        assert!(statuses(&sent).is_empty(), "{status}");
        assert_eq!(targets(&sent), ["sip:b@198.51.100.2"]);
        let second = only(invites(&sent));
        assert_eq!(second.header("Diversion"), "<sip:bob@example.org>;reason=deflection;counter=1");
        let sent = udp(&mut world, "198.51.100.2:5060", &second.answer(404, &[]));
        assert_eq!(targets(&sent), ["sip:a@198.51.100.1", "sip:c@198.51.100.3"]);
        let last = invites(&sent);
        udp(&mut world, "198.51.100.1:5060", &last[0].answer(486, &[]));
        let sent = udp(&mut world, "198.51.100.3:5060", &last[1].answer(200, &[]));
        assert_eq!(statuses(&sent), [200]);
        assert_eq!(world.server.counters().recursions, 3);
        nothing_is_left(&mut world, "after a recursion");
    }
}

#[test]
fn a_redirect_to_a_user_of_ours_reaches_its_phones() {
    let mut world = world();
    let first = only(requests(udp(&mut world, ALICE, &invite("sip:bob@example.org"))));
    let second = only(invites(&udp(&mut world, BOB, &redirect(&first, 302, "<sip:carol@example.org>"))));
    assert_eq!((second.to().as_str(), second.uri().as_str()), (CAROL, "sip:carol@192.0.2.30"));
    assert_eq!(statuses(&udp(&mut world, CAROL, &second.answer(200, &[]))), [200]);
    nothing_is_left(&mut world, "after a redirected call");
}

#[test]
fn other_redirects_and_requests_are_passed_on() {
    let mut world = world();
    for status in [305, 380] {
        let call = invite("sip:bob@example.org").call_id(&format!("call{status}"));
        let first = only(requests(udp(&mut world, ALICE, &call)));
        let sent = udp(&mut world, BOB, &redirect(&first, status, "<sip:x@198.51.100.7>"));
        assert_eq!(statuses(&sent), [status]);
    }
    let first = only(requests(udp(&mut world, ALICE, &request("MESSAGE", "sip:bob@example.org"))));
    assert_eq!(statuses(&udp(&mut world, BOB, &redirect(&first, 302, "<sip:x@198.51.100.7>"))), [302]);
    assert_eq!(world.server.counters().recursions, 0);
}

#[test]
fn no_target_is_called_twice_and_the_rest_of_the_contacts_reaches_the_caller() {
    let mut world = world();
    let first = only(requests(udp(&mut world, ALICE, &invite("sip:bob@example.org"))));
    let contacts = "<sip:bob@192.0.2.20>, <sip:a@198.51.100.1>, <sip:%61@198.51.100.1>, <tel:+49301>, <http://x>, \
                    <sip:bob@example.org>";
    let sent = udp(&mut world, BOB, &redirect(&first, 302, contacts));
    assert_eq!(targets(&sent), ["sip:a@198.51.100.1"]);
    assert_eq!(world.server.counters().recursions_refused, 5);
    let second = only(invites(&sent));
    let again = udp(&mut world, "198.51.100.1:5060", &redirect(&second, 302, "<sip:bob@192.0.2.20>"));
    let response = only(again.into_iter().filter(|sent| sent.status() != 0).collect());
    assert_eq!(response.status(), 302);
    assert!(!response.text().contains("sip:a@198.51.100.1>"), "{}", response.text());
    assert!(response.text().contains("<tel:+49301>"), "{}", response.text());
    nothing_is_left(&mut world, "after a repeated contact");
}

#[test]
fn a_request_has_a_limited_number_of_redirected_targets() {
    let mut world = world();
    let first = only(requests(udp(&mut world, ALICE, &invite("sip:bob@example.org"))));
    let contacts: Vec<_> = (0..50).map(|number| format!("<sip:a@198.51.100.{number}>")).collect();
    let sent = udp(&mut world, BOB, &redirect(&first, 302, &contacts.join(", ")));
    assert_eq!(invites(&sent).len(), 10);
    let breadths: u32 =
        invites(&sent).iter().map(|sent| sent.header("Max-Breadth").parse::<u32>().unwrap()).sum();
    assert_eq!(breadths, 60, "they share what the 302 freed");
    let counters = world.server.counters();
    assert_eq!((counters.recursions, counters.recursions_refused), (10, 40));
    nothing_is_left(&mut world, "after many contacts");
}

#[test]
fn a_strangers_call_is_redirected_outside_by_a_users_phone_only() {
    // The user's phone, whose binding needed a password.
    let mut world = closed();
    let first = only(requests(udp(&mut world, STRANGER, &strangers("phone"))));
    let sent = udp(&mut world, BOB, &redirect(&first, 302, "<sip:x@198.51.100.7>"));
    assert_eq!(targets(&sent), ["sip:x@198.51.100.7"]);
    let second = only(invites(&sent));
    // The server outside redirects on: by whose permission?
    let sent = udp(&mut world, "198.51.100.7:5060", &redirect(&second, 302, "<sip:y@198.51.100.8>"));
    assert_eq!((targets(&sent), statuses(&sent)), (vec![], vec![302]));
    // Into our domains anybody may be redirected.
    let first = only(requests(udp(&mut world, STRANGER, &strangers("inside"))));
    let second = only(invites(&udp(&mut world, BOB, &redirect(&first, 302, "<sip:x@198.51.100.7>"))));
    let sent = udp(&mut world, "198.51.100.7:5060", &redirect(&second, 302, "<sip:carol@example.org>"));
    assert_eq!(statuses(&sent), [480], "carol has no phone");
    // A permanent contact is not the user's phone.
    world.server.remove_user(b"bob@example.org");
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:gw@198.51.100.9"]);
    let first = only(requests(udp(&mut world, STRANGER, &strangers("trunk"))));
    let sent = udp(&mut world, "198.51.100.9:5060", &redirect(&first, 302, "<sip:x@198.51.100.7>"));
    assert_eq!((targets(&sent), statuses(&sent)), (vec![], vec![302]));
    // A caller of ours may call there itself.
    let call = invite("sip:bob@example.org").call_id("proven");
    let first = only(requests(proven(&mut world, ALICE, &call, "alice")));
    let sent = udp(&mut world, "198.51.100.9:5060", &redirect(&first, 302, "<sip:x@198.51.100.7>"));
    assert_eq!(targets(&sent), ["sip:x@198.51.100.7"]);
    assert!(invites(&sent)[0].headers("Diversion").is_empty(), "no user of ours diverts it");
    nothing_is_left(&mut world, "after redirects");
}

#[test]
fn redirected_calls_that_leave_by_one_users_permission_are_limited() {
    let mut world = closed();
    for number in 0..33 {
        let first = only(requests(udp(&mut world, STRANGER, &strangers(&format!("call{number}")))));
        let sent = udp(&mut world, BOB, &redirect(&first, 302, "<sip:x@198.51.100.7>"));
        match number {
            32 => assert_eq!((invites(&sent).len(), statuses(&sent)), (0, vec![302])),
            _ => assert_eq!(invites(&sent).len(), 1),
        }
    }
    assert_eq!(world.server.counters().over_user_forwards, 1);
    nothing_is_left(&mut world, "after many redirects");
}

#[test]
fn a_cancelled_call_is_not_redirected() {
    let mut world = world();
    let call = invite("sip:bob@example.org");
    let first = only(requests(udp(&mut world, ALICE, &call)));
    udp(&mut world, BOB, &first.answer(180, &[]));
    udp(&mut world, ALICE, &call.cancel());
    let sent = udp(&mut world, BOB, &redirect(&first, 302, "<sip:x@198.51.100.7>"));
    assert_eq!((invites(&sent).len(), statuses(&sent)), (0, vec![302]));
    nothing_is_left(&mut world, "after a cancel");
}

#[test]
fn users_whose_phones_redirect_to_each_other_do_not_multiply_a_call() {
    let count = 10;
    let mut world = World::with(|config| config.recurse = true);
    let user = |number: usize| format!("u{}", number % count);
    for number in 0..count {
        let name = user(number);
        world.register(&name, ALICE, &format!("<sip:{name}@{ALICE}>"));
    }
    let mut waiting = invites(&udp(&mut world, ALICE, &invite("sip:u0@example.org")));
    let mut called = 0;
    while let Some(next) = waiting.pop() {
        called += 1;
        assert!(called <= 120, "it multiplies");
        let own: usize = next.uri()[5..6].parse().unwrap();
        let others: Vec<_> = (1..count)
            .map(|other| format!("<sip:{}@example.org;p={called}-{other}>", user(own + other)))
            .collect();
        waiting.extend(invites(&udp(&mut world, ALICE, &redirect(&next, 302, &others.join(", ")))));
    }
    nothing_is_left(&mut world, "after redirecting users");
}

#[test]
fn the_target_of_a_forward_that_redirects_counts_as_the_callers() {
    let mut world = closed();
    world.server.set_forwards(b"bob@example.org", always("sip:desk@198.51.100.7"));
    let first = only(invites(&udp(&mut world, STRANGER, &strangers("forwarded"))));
    let sent = udp(&mut world, "198.51.100.7:5060", &redirect(&first, 302, "<sip:y@198.51.100.8>"));
    assert_eq!((targets(&sent), statuses(&sent)), (vec![], vec![302]));
    nothing_is_left(&mut world, "after a redirected forward");
}

#[test]
fn redirects_of_a_group_run_beside_it_and_a_silent_target_is_followed() {
    let mut world = World::with(|config| config.recurse = true);
    let through = "Via: SIP/2.0/UDP 192.0.2.99;branch=z9hG4bKx";
    let contacts = "<sip:bob@192.0.2.20>, <sip:bob@192.0.2.21>, <sip:bob@192.0.2.22>;q=0.1";
    assert_eq!(only(world.udp(EDGE, &register("bob", contacts).line(through))).status(), 200);
    let first = requests(udp(&mut world, ALICE, &invite("sip:bob@example.org")));
    assert_eq!(first.len(), 2);
    udp(&mut world, "192.0.2.21:5060", &first[1].answer(180, &[]));
    let contacts = "<sip:a@198.51.100.1>, <sip:b@198.51.100.2>;q=0.5";
    let sent = udp(&mut world, BOB, &redirect(&first[0], 302, contacts));
    assert_eq!(targets(&sent), ["sip:a@198.51.100.1"]);
    let sent = world.pass(21 * SECOND);
    assert!(targets(&sent).contains(&"sip:b@198.51.100.2".to_owned()));
    let sent = world.pass(21 * SECOND);
    assert!(targets(&sent).contains(&"sip:bob@192.0.2.22".to_owned()));
    let all: BTreeSet<_> = targets(&sent).into_iter().collect();
    assert!(!all.contains("sip:bob@192.0.2.21"));
    nothing_is_left(&mut world, "after silent targets");
}

/// The sender of a 3xx names no address that it could not reach itself, and nobody that calls for this server.
#[test]
fn a_redirection_from_outside_leads_to_no_private_address_and_no_trusted_proxy() {
    let closed = || {
        World::with(|config| {
            (config.recurse, config.auth.enabled) = (true, true);
            config.auth.trusted.push("203.0.113.9".parse().unwrap());
        })
    };
    let outside = "203.0.113.66:5060";
    let redirected = |world: &mut World, contact: &str| {
        let sent = udp(world, ALICE, &invite("sip:x@203.0.113.66"));
        let first = only(invites(&if invites(&sent).is_empty() {
            let call = invite("sip:x@203.0.113.66").call_id("own");
            proven(world, ALICE, &call, "alice")
        } else {
            sent
        }));
        udp(world, outside, &redirect(&first, 302, &format!("<sip:+8812@{contact}>")))
    };
    for contact in
        ["10.0.0.7", "127.0.0.1:5070", "192.0.2.1:5070", "203.0.113.9", "[64:ff9b::a00:5]", "[fd00::1]"]
    {
        let sent = redirected(&mut closed(), contact);
        assert_eq!((invites(&sent).len(), statuses(&sent)), (0, vec![302]), "{contact}");
    }
    for (address, is_called) in
        [("10.0.0.5:5060", false), ("203.0.113.9:5060", false), ("203.0.113.70:5060", true)]
    {
        let mut world = closed();
        assert!(invites(&redirected(&mut world, "rebound.example")).is_empty());
        let sent = world.resolve_to("rebound.example", &[address]);
        assert_eq!(invites(&sent).iter().any(|sent| sent.to() == address), is_called, "{address}");
    }
    // A phone of a private network redirects within it, if requests may name its hosts.
    for (named, called) in [("10.0.0.0/24", 1), ("10.0.1.0/24", 0)] {
        let mut world = World::with(|config| {
            (config.recurse, config.inner_networks) = (true, vec![named.parse().unwrap()]);
        });
        world.register("bob", "10.0.0.4:5060", "<sip:bob@10.0.0.4>");
        let first = only(invites(&udp(&mut world, ALICE, &invite("sip:bob@example.org"))));
        let sent = udp(&mut world, "10.0.0.4:5060", &redirect(&first, 302, "<sip:x@10.0.0.7>"));
        let to: Vec<_> = invites(&sent).iter().map(Sent::to).collect();
        assert_eq!(to, vec!["10.0.0.7:5060"; called], "{named}");
    }
}
