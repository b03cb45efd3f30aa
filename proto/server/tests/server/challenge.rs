//! Tests of challenges.

use crate::harness::{ALICE, BOB, Request, STRANGER, World, forwarded, invite, only, query, register};
pub(crate) use crate::login::{Login, answered, is_stale, nonce_of, proven};
use ringway_server::Algorithm;
use std::time::Duration;

#[test]
fn challenges_come_in_the_configured_order() {
    for (algorithms, names) in [
        (vec![Algorithm::Sha256, Algorithm::Md5], &["SHA-256", "MD5"][..]),
        (vec![Algorithm::Md5, Algorithm::Sha256], &["MD5", "SHA-256"]),
        (vec![Algorithm::Md5], &["MD5"]),
    ] {
        let mut world = World::with(|config| {
            config.auth.enabled = true;
            config.auth.algorithms = algorithms;
        });
        let answer = only(world.udp(BOB, &query("bob")));
        assert_eq!(answer.status(), 401);
        let nonce = nonce_of(&answer);
        let expected: Vec<_> = names
            .iter()
            .map(|name| {
                format!("Digest realm=\"example.org\",nonce=\"{nonce}\",algorithm={name},qop=\"auth\"")
            })
            .collect();
        assert_eq!(answer.headers("WWW-Authenticate"), expected);
        let answer = only(world.udp(ALICE, &invite("sip:bob@example.org")));
        assert_eq!(answer.status(), 407);
        assert_eq!(answer.headers("Proxy-Authenticate").len(), names.len());
        assert_ne!(nonce_of(&answer), nonce, "each challenge has its own nonce");
    }
}

#[test]
fn users_that_exist_and_users_that_do_not_get_equal_responses() {
    let mut world = World::closed();
    let shape = |world: &mut World, user: &str, with_password: bool| {
        let request = register(user, "<sip:x@192.0.2.20>").call_id("c");
        let first = only(world.udp(BOB, &request));
        let answer = match with_password {
            false => first,
            true => {
                let login = Login { password: "wrong".into(), ..Login::to(&first, user) };
                only(world.udp(BOB, &answered(&request, &login)))
            }
        };
        let (tag, nonce) = (answer.header("To"), nonce_of(&answer));
        let tag = tag.split("tag=").nth(1).unwrap();
        answer.text().replace(tag, "TAG").replace(&nonce, "NONCE").replace(user, "USER")
    };
    for with_password in [false, true] {
        let (known, unknown) =
            (shape(&mut world, "alice", with_password), shape(&mut world, "ghost", with_password));
        assert!(known.starts_with("SIP/2.0 401 "), "{known}");
        assert_eq!(known, unknown);
    }
    let call = |world: &mut World, user: &str| {
        let from = format!("<sip:{user}@example.org>;tag=f");
        let answer = only(world.udp(ALICE, &Request { from, ..invite("sip:bob@example.org") }));
        let nonce = nonce_of(&answer);
        answer.text().replace(&nonce, "NONCE").replace(user, "USER")
    };
    assert_eq!(call(&mut world, "carol"), call(&mut world, "ghost"));
}

#[test]
fn a_challenge_keeps_no_state_and_its_ack_is_ours() {
    let mut world = World::closed();
    let invite = invite("sip:bob@example.org");
    let challenge = only(world.udp(ALICE, &invite));
    assert_eq!(world.server.transactions_len(), (0, 0));
    assert!(world.udp(ALICE, &invite.ack_of(&challenge)).is_empty());
    assert_eq!(world.server.counters().stray, 0, "the ACK matches by its To tag");
    assert!(world.pass(Duration::from_secs(60)).is_empty(), "nothing is retransmitted");
}

#[test]
fn the_ack_of_a_challenge_in_a_dialog_goes_no_further() {
    let mut world = World::with(|config| (config.auth.enabled, config.auth.in_dialog) = (true, true));
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    let got = forwarded(proven(&mut world, ALICE, &invite("sip:bob@example.org"), "alice"));
    let answer = only(world.udp(&got.to(), &got.answer(200, &["Contact: <sip:bob@192.0.2.20>"])));
    let mut again = invite("sip:bob@192.0.2.20").to(&answer.header("To")).cseq(7);
    again.lines.push(format!("Route: {}", answer.header("Record-Route")));
    let challenge = only(world.udp(ALICE, &again));
    assert_eq!((challenge.status(), challenge.header("To")), (407, answer.header("To")));
    assert!(world.udp(ALICE, &again.ack_of(&challenge)).is_empty(), "RFC 3261 §17.1.1.3: hop by hop");
    assert_eq!(world.server.counters().forwarded, 1);
}

/// Without a valid mark there is no transaction, so that an invented To tag causes no retransmissions.
#[test]
fn a_challenge_for_a_made_up_dialog_is_sent_once() {
    let mut world = World::with(|config| (config.auth.enabled, config.auth.in_dialog) = (true, true));
    let again = invite("sip:bob@example.org").to("<sip:bob@example.org>;tag=made-up");
    assert_eq!(only(world.udp(STRANGER, &again)).status(), 407);
    assert_eq!(world.server.transactions_len(), (0, 0));
    assert!(world.pass(Duration::from_secs(64)).is_empty());
}
