//! Tests of amplification by contacts that lead back to this server (RFC 5393).

use crate::harness::{ALICE, Request, Sent, World, invite, only, request, requests, statuses};
use ringway_server::{ForwardUri, Forwards, NoAnswer};
use std::collections::VecDeque;
use std::time::Duration;

const SERVER: &str = "192.0.2.1:5060";

/// Spellings of `user` that are equal by RFC 3261 §19.1.4: a different letter is escaped in each.
fn spelled(user: &str, number: usize) -> String {
    let letters = user.char_indices().map(|(at, letter)| match number >> at & 1 {
        1 => format!("%{:02x}", u32::from(letter)),
        _ => letter.into(),
    });
    letters.collect()
}

/// Number of datagrams for one request until the server is idle; requests to the server itself are delivered to it.
fn storm(world: &mut World, sent: Vec<Sent>) -> usize {
    let mut waiting = VecDeque::from(sent);
    let mut count = 0;
    for _ in 0..400 {
        while let Some(next) = waiting.pop_front() {
            count += 1;
            assert!(count < 5000, "it multiplies");
            if next.to() == SERVER {
                waiting.extend(world.udp(SERVER, &next.bytes));
            }
        }
        waiting.extend(world.pass(Duration::from_secs(1)));
    }
    assert_eq!((world.server.transactions_len(), world.server.contexts_len()), ((0, 0), 0), "it ends");
    count
}

fn users(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("user{}", (b'a' + number as u8) as char)).collect()
}

/// Registers for each of `users` contacts that lead to the users with these numbers, all in different spellings.
fn bind(world: &mut World, users: &[String], contacts: impl Fn(usize) -> Vec<usize>) {
    for (number, user) in users.iter().enumerate() {
        let to = contacts(number).into_iter().enumerate();
        let uris: Vec<String> = to
            .map(|(contact, to)| {
                format!(
                    "sip:{}@example.org;p={number}-{contact}",
                    spelled(&users[to], 1 + number * 3 + contact)
                )
            })
            .collect();
        let uris: Vec<&[u8]> = uris.iter().map(|uri| uri.as_bytes()).collect();
        world.server.set_permanent_contacts(format!("{user}@example.org").as_bytes(), &uris);
    }
}

fn call(method: &str, user: &str) -> Request {
    let uri = format!("sip:{user}@example.org");
    if method == "INVITE" { invite(&uri) } else { request(method, &uri) }
}

#[test]
fn accounts_registered_at_each_other_do_not_multiply_a_request() {
    for count in 1..=10 {
        for stateful in [true, false] {
            for method in ["INVITE", "MESSAGE"] {
                let users = users(count);
                let mut world = World::with(|config| config.stateful = stateful);
                bind(&mut world, &users, |number| {
                    (0..10).map(|contact| (number + contact) % count).collect()
                });
                let sent = world.udp(ALICE, &call(method, &users[0]));
                let datagrams = storm(&mut world, sent);
                assert!(datagrams <= 300, "{datagrams} datagrams for one {method} with {count} accounts");
            }
        }
    }
}

#[test]
fn forwards_beside_contacts_do_not_multiply_a_request() {
    for count in 1..=10 {
        for after_s in [1, 10] {
            let users = users(count);
            let mut world = World::with(|config| config.recurse = true);
            bind(&mut world, &users, |number| (0..3).map(|contact| (number + contact) % count).collect());
            for (number, user) in users.iter().enumerate() {
                let next =
                    ForwardUri::new(&format!("sip:{}@example.org", users[(number + 1) % count])).unwrap();
                let no_answer = NoAnswer::new(after_s, next.clone()).unwrap();
                let forwards = Forwards {
                    busy: Some(next.clone()),
                    unregistered: Some(next),
                    no_answer: Some(no_answer),
                    always: None,
                };
                world.server.set_forwards(format!("{user}@example.org").as_bytes(), forwards);
            }
            let sent = world.udp(ALICE, &call("INVITE", &users[0]));
            let datagrams = storm(&mut world, sent);
            assert!(datagrams <= 300, "{datagrams} datagrams with {count} accounts and {after_s} s");
        }
    }
}

#[test]
fn no_shape_of_a_tree_of_accounts_multiplies_a_request() {
    // Each level has as many users as a fork has branches, and each of them leads to all users of the next level.
    for widths in
        [&[1, 2, 2, 2, 2, 2, 2, 2, 2][..], &[1, 10, 6, 1, 1, 1, 1], &[1, 10, 1, 1, 1, 1, 1], &[1, 3, 4, 5]]
    {
        let starts: Vec<usize> =
            widths.iter().scan(0, |sum, width| Some(std::mem::replace(sum, *sum + width))).collect();
        let users = users(widths.iter().sum());
        let mut world = World::open();
        bind(&mut world, &users, |number| {
            let level = starts.iter().rposition(|&start| start <= number).unwrap();
            match widths.get(level + 1) {
                Some(width) => (0..*width).map(|next| starts[level + 1] + next).collect(),
                None => vec![],
            }
        });
        let sent = world.udp(ALICE, &call("INVITE", &users[0]));
        let datagrams = storm(&mut world, sent);
        assert!(datagrams <= 300, "{datagrams} datagrams for {widths:?}");
    }
}

#[test]
fn a_loop_is_found_in_any_spelling() {
    for (target, spelling) in [
        ("sip:bob@example.org", "sip:b%6fb@EXAMPLE.org;x=1"),
        ("sip:x@192.0.2.88;transport=udp;A=b", "sip:%78@192.0.2.88;Transport=UDP;a=%62"),
        ("sip:x@phone.example.net", "sip:%78@Phone.Example.NET"),
    ] {
        let mut world = World::open();
        world.register("bob", crate::harness::BOB, "<sip:bob@192.0.2.20>");
        let mut sent = world.udp(ALICE, &invite(target));
        if let [_] = &sent[..] {
            sent.extend(world.resolve("phone.example.net", Some("192.0.2.88")));
        }
        let sent = only(requests(sent));
        let back = sent.text().replacen(&format!("INVITE {}", sent.uri()), &format!("INVITE {spelling}"), 1);
        assert_eq!(only(world.udp("192.0.2.88:5060", &back.into_bytes())).status(), 482, "{spelling}");
    }
}

#[test]
fn max_breadth_is_divided_among_the_branches() {
    for (given, phones, expected) in [
        (None, 1, Ok("60")),
        (None, 4, Ok("15")),
        (None, 7, Ok("8")),
        (Some("5"), 5, Ok("1")),
        (Some("5"), 2, Ok("2")),
        (Some("4294967295"), 3, Ok("20")),
        (Some("2"), 3, Err(440)),
        (Some("0"), 1, Err(440)),
        (Some("x"), 1, Err(400)),
        (Some("7\r\nMax-Breadth: 7"), 1, Err(400)),
    ] {
        let mut world = World::open();
        let contacts: Vec<String> =
            (0..phones).map(|phone| format!("sip:b@192.0.2.{}", 20 + phone)).collect();
        let contacts: Vec<&[u8]> = contacts.iter().map(|contact| contact.as_bytes()).collect();
        world.server.set_permanent_contacts(b"bob@example.org", &contacts);
        let mut call = invite("sip:bob@example.org");
        call.lines.extend(given.map(|given| format!("Max-Breadth: {given}")));
        let sent = world.udp(ALICE, &call);
        match expected {
            Ok(expected) => {
                let branches = requests(sent);
                assert_eq!(branches.len(), phones);
                assert!(branches.iter().all(|branch| branch.header("Max-Breadth") == expected), "{given:?}");
            }
            Err(status) => assert_eq!(statuses(&sent), [status], "{given:?}"),
        }
        assert_eq!(world.server.counters().too_broad, u64::from(expected == Err(440)));
    }
}

/// Max-Breadth and spirals of a sent request.
fn limits(sent: &Sent) -> (String, String) {
    let via = sent.headers("Via").remove(0);
    let spirals = via.split("spirals=").nth(1).unwrap().split(';').next().unwrap().to_owned();
    (sent.header("Max-Breadth"), spirals)
}

#[test]
fn a_branch_that_is_sent_again_has_the_limits_of_the_first_time() {
    for stateful in [true, false] {
        let mut world = World::with(|config| config.stateful = stateful);
        let contacts: [&[u8]; 2] = [b"sip:bob@gate.example.net", b"sip:bob@192.0.2.20"];
        world.server.set_permanent_contacts(b"bob@example.org", &contacts);
        let mut call = invite("sip:bob@example.org").line("Max-Breadth: 9");
        call.via.push('1');
        world.udp(ALICE, &call);
        let first = only(world.resolve_to("gate.example.net", &["192.0.2.41:5060", "192.0.2.42:5060"]));
        if !stateful {
            assert_eq!(limits(&first), ("9".into(), "59".into()));
            continue;
        }
        assert_eq!(limits(&first), ("4".into(), "29".into()));
        let sent = world.udp(&first.to(), &first.answer(503, &[]));
        let second = sent.iter().find(|sent| sent.method() == "INVITE").expect("the second server");
        assert_eq!(limits(second), limits(&first), "after a failover");
    }
}

#[test]
fn all_contacts_that_a_user_may_have_can_be_called() {
    let mut world = World::with(|config| config.registrar.max_contacts = 100);
    let contacts: Vec<String> = (0..100).map(|phone| format!("sip:b@192.0.2.{}", 20 + phone)).collect();
    let contacts: Vec<&[u8]> = contacts.iter().map(|contact| contact.as_bytes()).collect();
    world.server.set_permanent_contacts(b"bob@example.org", &contacts);
    assert_eq!(requests(world.udp(ALICE, &invite("sip:bob@example.org"))).len(), 100);
}
