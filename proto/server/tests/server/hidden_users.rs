//! Answers to somebody without a password: alike for known and unknown users, registered or not (RFC 3261 §26.1.5).

use crate::challenge::{Login, answered, proven};
use crate::harness::{
    ALICE, BOB, CAROL, Request, STRANGER, Sent, World, invite, only, query, requests, statuses,
};
use ringway_server::Strangers;

/// Of the same length: registered, without a registration, unknown.
const NAMES: [&str; 3] = ["carol", "alice", "zelda"];

/// Server with passwords that hides its users; carol is registered.
fn world(strangers: Strangers) -> World {
    let mut world = World::with(|config| {
        config.auth.enabled = true;
        config.auth.hide_users = true;
        config.auth.strangers = strangers;
    });
    let register = query("carol").line(&format!("Contact: <sip:carol@{CAROL}>")).call_id("registers");
    assert_eq!(only(proven(&mut world, CAROL, &register, "carol")).status(), 200);
    world
}

/// A response without what differs in any two responses: the name that was asked for, the nonce, the tag of the server.
fn seen(sent: Vec<Sent>, name: &str) -> (u16, usize, String) {
    let response = only(sent);
    let text = response.text().replace(name, "NAME");
    let without = |text: String, start: &str, end: char| {
        text.split(start)
            .enumerate()
            .map(|(at, part)| match at {
                0 => part.to_owned(),
                _ => part.split_once(end).map_or(String::new(), |(_, rest)| rest.to_owned()),
            })
            .collect::<Vec<_>>()
            .join(start)
    };
    let text = without(without(text, "nonce=\"", '"'), ">;tag=", '\r');
    (response.status(), response.bytes.len(), text)
}

#[track_caller]
fn alike(status: u16, mut answer: impl FnMut(&str) -> Vec<Sent>) {
    let [first, rest @ ..] = NAMES.map(|name| seen(answer(name), name));
    assert_eq!(first.0, status, "{}", first.2);
    for other in rest {
        assert_eq!(other, first);
    }
}

#[test]
fn challenges_are_alike_for_known_and_unknown_users() {
    for strangers in [Strangers::Call, Strangers::None] {
        let mut world = world(strangers);
        alike(401, |name| world.udp(STRANGER, &query(name).call_id("register")));
        alike(407, |name| {
            let call = invite("sip:1234@example.org").from(&format!("sip:{name}@example.org"));
            world.udp(STRANGER, &call.call_id("own"))
        });
        // With a wrong password.
        alike(401, |name| {
            let register = query(name).call_id("wrong");
            let challenge = only(world.udp(STRANGER, &register));
            let login = Login { password: "wrong".into(), ..Login::to(&challenge, name) };
            world.udp(STRANGER, &answered(&register, &login))
        });
    }
    let mut world = world(Strangers::None);
    alike(407, |name| world.udp(STRANGER, &call_of_stranger(name)));
    alike(407, |name| {
        let subscribe = Request { method: "SUBSCRIBE".into(), ..call_of_stranger(name) };
        world.udp(STRANGER, &subscribe.line("Event: presence"))
    });
}

fn call_of_stranger(name: &str) -> Request {
    invite(&format!("sip:{name}@example.org")).from("sip:eve@example.net").call_id("stranger")
}

#[test]
fn a_stranger_gets_480_for_unknown_and_unregistered_users_alike() {
    for method in ["INVITE", "OPTIONS"] {
        let mut world = world(Strangers::Call);
        let mut ask = |name: &str| {
            let request = Request { method: method.into(), ..call_of_stranger(name) };
            world.udp(STRANGER, &request)
        };
        let [absent, unknown] = ["alice", "zelda"].map(|name| seen(ask(name), name));
        assert_eq!((absent.0, &absent), (480, &unknown));
        assert_eq!(requests(ask("carol")).len(), 1, "a registered one rings");
    }
}

#[test]
fn a_user_of_ours_and_a_stranger_of_another_configuration_get_404() {
    let mut hiding = world(Strangers::Call);
    let call = invite("sip:zelda@example.org").call_id("own");
    assert_eq!(statuses(&proven(&mut hiding, ALICE, &call, "alice")), [404]);
    let call = invite("sip:bobby@example.org").from("sip:bob@example.org").call_id("other");
    assert_eq!(statuses(&proven(&mut hiding, BOB, &call, "bob")), [404]);
    let mut showing = World::closed();
    assert_eq!(statuses(&showing.udp(STRANGER, &call_of_stranger("zelda"))), [404]);
    assert_eq!(statuses(&showing.udp(STRANGER, &call_of_stranger("alice"))), [480]);
}
