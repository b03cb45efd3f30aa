//! Tests of digest authentication towards trunks (RFC 3261 §22, RFC 7616).

use crate::ends::nothing_is_left;
use crate::harness::{
    ALICE, BOB, Request, STRANGER, Sent, World, config, invite, only, request, requests, statuses,
};
use crate::routes::{CARRIER_A, CARRIER_B, carriers};
use ringway_sansio::Seed;
use ringway_server::{Algorithm, Config, Ha1, Server, TrunkLogin};
use ringway_sip::digest::Credentials;
use std::sync::Arc;
use std::time::Duration;

const NUMBER: &str = "sip:+441234@example.org";
const CHALLENGE: &str =
    "WWW-Authenticate: Digest realm=\"carrier.example\", nonce=\"n1\", qop=\"auth\", opaque=\"o\"";

fn with_login(config: &mut Config) {
    carriers(config);
    let realm = Some("carrier.example".to_owned());
    let (username, password) = ("acct\"1".to_owned(), "trunk secret".to_owned());
    config.trunking.trunks.edit()[0].login = Some(TrunkLogin { username, password, realm });
}

fn call(world: &mut World, id: &str) -> Sent {
    only(requests(world.udp(ALICE, &invite(NUMBER).call_id(id))))
}

/// The INVITE of `sent`; an ACK may be there too.
#[track_caller]
fn repeated(sent: Vec<Sent>) -> Sent {
    only(requests(sent).into_iter().filter(|sent| sent.method() != "ACK").collect())
}

/// Asserts that a request has the right credentials, with this nonce and count.
#[track_caller]
fn proves(sent: &Sent, field: &str, nonce: &str, nc: &str) {
    let value = sent.header(field);
    let given = Credentials::parse(value.as_bytes()).unwrap().unwrap();
    assert_eq!((given.nonce, given.nc), (nonce.as_bytes(), Some(nc.as_bytes())), "{value}");
    assert_eq!((given.uri, given.opaque), (sent.uri().as_bytes(), Some(&b"o"[..])));
    let algorithm = given.algorithm.and_then(Algorithm::from_name).unwrap_or(Algorithm::Md5);
    let ha1 = Ha1::new(b"acct\"1", b"carrier.example", b"trunk secret");
    assert!(algorithm.proves(&ha1, sent.method().as_bytes(), b"", &given), "{value}");
}

#[test]
fn a_challenge_is_answered_and_its_nonce_is_used_for_the_next_calls() {
    for (status, challenge, field) in [
        (401, CHALLENGE.to_owned(), "Authorization"),
        (407, CHALLENGE.replace("WWW-", "Proxy-"), "Proxy-Authorization"),
        (401, CHALLENGE.replace("opaque", "algorithm=SHA-256, opaque"), "Authorization"),
    ] {
        let mut world = World::with(with_login);
        let first = call(&mut world, "one");
        assert!(first.headers(field).is_empty());
        let sent = world.udp(CARRIER_A, &first.answer(status, &[&challenge]));
        assert!(statuses(&sent).is_empty(), "the caller gets no challenge");
        let again = repeated(sent);
        proves(&again, field, "n1", "00000001");
        assert_eq!((first.header("CSeq").as_str(), again.header("CSeq").as_str()), ("4 INVITE", "5 INVITE"));
        assert_eq!(again.uri(), first.uri());
        assert_ne!(again.headers("Via")[0], first.headers("Via")[0], "a new transaction");
        assert_eq!(statuses(&world.udp(CARRIER_A, &again.answer(200, &[]))), [200]);
        let next = call(&mut world, "two");
        proves(&next, field, "n1", "00000002");
        assert_eq!(statuses(&world.udp(CARRIER_A, &next.answer(180, &[]))), [180]);
        let counters = world.server.counters();
        assert_eq!((counters.trunk_challenges, counters.trunk_auth_failures), (1, 0));
        nothing_is_left(&mut world, "answered challenges");
    }
}

/// RFC 3261 §22.2: the number rises with the challenge, and so for the whole dialog (§12.2.1.1); the caller sees its own.
#[test]
fn the_cseq_rises_with_each_challenge_and_each_request_of_a_dialog() {
    let mut world = World::with(with_login);
    let contact = "Contact: <sip:gw@198.51.100.1:5060>";
    let first = call(&mut world, "one");
    let sent = requests(world.udp(CARRIER_A, &first.answer(401, &[CHALLENGE])));
    let numbers: Vec<_> = sent.iter().map(|sent| sent.header("CSeq")).collect();
    assert_eq!(
        (first.header("CSeq").as_str(), numbers),
        ("4 INVITE", vec!["4 ACK".to_owned(), "5 INVITE".into()])
    );
    let again = repeated(sent);
    let rings = only(world.udp(CARRIER_A, &again.answer(183, &[contact, "RSeq: 77", "Require: 100rel"])));
    assert_eq!(rings.header("CSeq"), "1 INVITE");
    let inside = |method: &str, cseq: u32| {
        let request = request(method, "sip:gw@198.51.100.1:5060").call_id("one").cseq(cseq);
        request.to(&rings.header("To")).line(&format!("Route: {}", rings.header("Record-Route")))
    };
    let prack = only(requests(world.udp(ALICE, &inside("PRACK", 2).line("RAck: 77 1 INVITE"))));
    assert_eq!((prack.header("CSeq").as_str(), prack.header("RAck").as_str()), ("8 PRACK", "77 5 INVITE"));
    assert_eq!(only(world.udp(CARRIER_A, &prack.answer(200, &[]))).header("CSeq"), "2 PRACK");
    let success = again.answer(200, &[contact]);
    for _ in 0..2 {
        assert_eq!(only(world.udp(CARRIER_A, &success)).header("CSeq"), "1 INVITE", "also retransmitted");
    }
    assert_eq!(only(world.udp(ALICE, &inside("ACK", 1))).header("CSeq"), "5 ACK");
    // An INVITE inside the dialog.
    let change =
        only(requests(world.udp(ALICE, &inside("INVITE", 3).line("Contact: <sip:alice@192.0.2.10:5060>"))));
    assert_eq!(change.header("CSeq"), "12 INVITE");
    let stale = CHALLENGE.replace("n1", "n2") + ", stale=true";
    let again = repeated(world.udp(CARRIER_A, &change.answer(401, &[&stale])));
    assert_eq!(again.header("CSeq"), "13 INVITE");
    assert_eq!(only(world.udp(CARRIER_A, &again.answer(200, &[contact]))).header("CSeq"), "3 INVITE");
    assert_eq!(only(world.udp(ALICE, &inside("ACK", 3))).header("CSeq"), "13 ACK");
    // The trunk numbers its own requests.
    let from_trunk = request("INFO", "sip:alice@192.0.2.10:5060")
        .call_id("one")
        .cseq(7)
        .via("SIP/2.0/UDP 198.51.100.1:5060;branch=z9hG4bKinfo");
    let (from, to) = (rings.header("To"), rings.header("From"));
    let mut from_trunk = from_trunk.to(&to).line(&format!("Route: {}", rings.header("Record-Route")));
    from_trunk.from = from;
    let info = only(requests(world.udp(CARRIER_A, &from_trunk)));
    assert_eq!((info.to().as_str(), info.header("CSeq").as_str()), (ALICE, "7 INFO"));
    assert_eq!(only(world.udp(ALICE, &info.answer(200, &[]))).header("CSeq"), "7 INFO");
    // RFC 3515 §2.4.6: NOTIFYs name the number that the REFER had at the trunk.
    for (event, expected) in
        [("refer;id=12", "refer;id=3"), ("refer", "refer"), ("refer; id=13;x=y", "refer;id=3;x=y")]
    {
        let notify = Request { method: "NOTIFY".into(), cseq: from_trunk.cseq + 1, ..from_trunk.clone() };
        let notify = notify
            .line(&format!("Event: {event}"))
            .via(&format!("SIP/2.0/UDP 198.51.100.1:5060;branch=z9hG4bK{}", expected.len()));
        let got = only(requests(world.udp(CARRIER_A, &notify)));
        assert_eq!(got.header("Event"), expected);
    }
    let bye = only(requests(world.udp(ALICE, &inside("BYE", 4))));
    assert_eq!(bye.header("CSeq"), "16 BYE");
    let again = repeated(
        world.udp(CARRIER_A, &bye.answer(407, &[&stale.replace("WWW-", "Proxy-").replace("n2", "n3")])),
    );
    assert_eq!(again.header("CSeq"), "17 BYE");
    assert_eq!(only(world.udp(CARRIER_A, &again.answer(200, &[]))).header("CSeq"), "4 BYE");
    nothing_is_left(&mut world, "a call with challenges");
}

/// The ACK has the number of the INVITE that was answered, not that of an earlier trunk's.
#[test]
fn the_next_trunk_has_numbers_of_its_own() {
    for has_login in [false, true] {
        let mut world = World::with(|config| {
            with_login(config);
            if has_login {
                let mut trunks = config.trunking.trunks.edit();
                trunks[1].login = trunks[0].login.clone();
            }
        });
        let first = call(&mut world, "one");
        let again = repeated(world.udp(CARRIER_A, &first.answer(401, &[CHALLENGE])));
        // The challenge comes once more: its ACK is that of the first INVITE.
        assert_eq!(only(world.udp(CARRIER_A, &first.answer(401, &[CHALLENGE]))).header("CSeq"), "4 ACK");
        let sent = requests(world.udp(CARRIER_A, &again.answer(500, &[])));
        let next = only(sent.into_iter().filter(|sent| sent.to() == CARRIER_B).collect());
        let number = if has_login { 4 } else { 1 };
        assert_eq!(next.header("CSeq"), format!("{number} INVITE"));
        let success = only(world.udp(CARRIER_B, &next.answer(200, &["Contact: <sip:gw@198.51.100.2:5060>"])));
        assert_eq!(success.header("CSeq"), "1 INVITE");
        for (method, cseq, at_trunk) in [("ACK", 1, number), ("BYE", 2, if has_login { 8 } else { 2 })] {
            let request = request(method, "sip:gw@198.51.100.2:5060").call_id("one").cseq(cseq);
            let request = request.to(&success.header("To"));
            let request = request.line(&format!("Route: {}", success.header("Record-Route")));
            let sent = only(requests(world.udp(ALICE, &request)));
            assert_eq!(sent.header("CSeq"), format!("{at_trunk} {method}"));
        }
    }
}

#[test]
fn failures_and_cancels_of_a_call_with_another_cseq_have_the_right_one() {
    let mut world = World::with(with_login);
    let first = call(&mut world, "one");
    let again = repeated(world.udp(CARRIER_A, &first.answer(401, &[CHALLENGE])));
    let sent = world.udp(CARRIER_A, &again.answer(486, &[]));
    assert_eq!(sent.iter().map(|sent| sent.header("CSeq")).collect::<Vec<_>>(), ["5 ACK", "1 INVITE"]);
    let next = call(&mut world, "two");
    assert_eq!(next.header("CSeq"), "4 INVITE");
    world.udp(CARRIER_A, &next.answer(180, &[]));
    let sent = world.udp(ALICE, &invite(NUMBER).call_id("two").cancel());
    assert_eq!(only(requests(sent)).header("CSeq"), "4 CANCEL");
    let sent = world.udp(CARRIER_A, &next.answer(487, &[]));
    assert_eq!(sent.iter().map(|sent| sent.header("CSeq")).collect::<Vec<_>>(), ["4 ACK", "1 INVITE"]);
    // A number that leaves no room, and a dialog that does not pass this server, keep their numbers.
    let large = only(requests(world.udp(ALICE, &invite(NUMBER).call_id("large").cseq(2_000_000_000))));
    assert_eq!(large.header("CSeq"), "2000000000 INVITE");
    assert!(!large.header("Record-Route").contains(";rc="), "{}", large.text());
    let mut world = World::with(|config| {
        with_login(config);
        config.record_route = false;
    });
    assert_eq!(call(&mut world, "one").header("CSeq"), "1 INVITE");
}

/// The called user's requests go to the trunk too.
#[test]
fn the_cseq_rises_also_in_a_dialog_that_the_trunk_began() {
    let mut world = World::with(with_login);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let call = request("INVITE", "sip:bob@example.org")
        .call_id("in")
        .via("SIP/2.0/UDP 198.51.100.1:5060;branch=z9hG4bKin");
    let call = call.from("sip:+441234@198.51.100.1").line("Contact: <sip:gw@198.51.100.1:5060>");
    let got = only(requests(world.udp(CARRIER_A, &call)));
    assert_eq!((got.to().as_str(), got.header("CSeq").as_str()), (BOB, "1 INVITE"));
    let success = only(world.udp(BOB, &got.answer(200, &["Contact: <sip:bob@192.0.2.20>"])));
    let mut bye = request("BYE", "sip:gw@198.51.100.1:5060")
        .call_id("in")
        .cseq(1)
        .via("SIP/2.0/UDP 192.0.2.20:5060;branch=z9hG4bKbye");
    bye = bye.to(&success.header("From")).line(&format!("Route: {}", success.header("Record-Route")));
    bye.from = success.header("To");
    let sent = only(requests(world.udp(BOB, &bye)));
    assert_eq!((sent.to().as_str(), sent.header("CSeq").as_str()), (CARRIER_A, "4 BYE"));
    let again = repeated(world.udp(CARRIER_A, &sent.answer(401, &[CHALLENGE])));
    assert_eq!(again.header("CSeq"), "5 BYE");
    assert_eq!(only(world.udp(CARRIER_A, &again.answer(200, &[]))).header("CSeq"), "1 BYE");
}

/// A trunk that limits its nonces would otherwise challenge each shard again and again.
#[test]
fn all_shards_use_one_nonce_of_a_trunk() {
    let mut world = World::with(with_login);
    let first = call(&mut world, "one");
    let again = repeated(world.udp(CARRIER_A, &first.answer(401, &[CHALLENGE])));
    proves(&again, "Authorization", "n1", "00000001");
    let mut settings = config();
    with_login(&mut settings);
    let (settings, host) = (Arc::new(settings), Arc::clone(&world.memory));
    let other_shard = Server::new(settings, host, world.memory.tables(), 1, Seed::from_number(1), world.now);
    let first_shard = std::mem::replace(&mut world.server, other_shard);
    let next = call(&mut world, "two");
    proves(&next, "Authorization", "n1", "00000002");
    let again = repeated(world.udp(CARRIER_A, &next.answer(401, &[&CHALLENGE.replace("n1", "n2")])));
    proves(&again, "Authorization", "n2", "00000001");
    world.server = first_shard;
    proves(&call(&mut world, "three"), "Authorization", "n2", "00000002");
}

/// Each shard gets a new configuration at its own time.
#[test]
fn a_nonce_is_used_with_the_password_and_for_the_trunk_that_it_was_answered_with() {
    let change_password = |config: &mut Config| {
        config.trunking.trunks.edit()[0].login.as_mut().unwrap().password = "another".to_owned();
    };
    let change_trunk =
        |config: &mut Config| config.trunking.trunks.edit()[0].uri = format!("sip:{CARRIER_B}");
    for (change, is_used) in
        [(None, true), (Some(&change_password as &dyn Fn(&mut Config)), false), (Some(&change_trunk), false)]
    {
        let mut world = World::with(with_login);
        let first = call(&mut world, "one");
        repeated(world.udp(CARRIER_A, &first.answer(401, &[CHALLENGE])));
        let mut changed = config();
        with_login(&mut changed);
        if let Some(change) = change {
            change(&mut changed);
        }
        world.server.reconfigure(Arc::new(changed));
        assert_eq!(call(&mut world, "two").headers("Authorization").len(), usize::from(is_used));
    }
}

#[test]
fn an_old_nonce_is_replaced_with_and_without_stale() {
    for stale in ["", ", stale=true"] {
        let mut world = World::with(with_login);
        let first = call(&mut world, "one");
        let again = repeated(world.udp(CARRIER_A, &first.answer(401, &[CHALLENGE])));
        world.udp(CARRIER_A, &again.answer(200, &[]));
        let next = call(&mut world, "two");
        let newer = CHALLENGE.replace("n1", "n2") + stale;
        let again = repeated(world.udp(CARRIER_A, &next.answer(401, &[&newer])));
        proves(&again, "Authorization", "n2", "00000001");
        assert_eq!(statuses(&world.udp(CARRIER_A, &again.answer(200, &[]))), [200]);
    }
}

#[test]
fn refused_credentials_end_at_the_next_trunk_and_never_loop() {
    for stale in [false, true] {
        let mut world = World::with(with_login);
        let mut sent = call(&mut world, "one");
        let mut rounds = 0;
        let last = loop {
            let challenge = CHALLENGE.replace("n1", &format!("n{rounds}"));
            let challenge = if stale { challenge + ", stale=true" } else { challenge };
            let reply = world.udp(CARRIER_A, &sent.answer(401, &[&challenge]));
            sent = repeated(reply);
            rounds += 1;
            if sent.to() != CARRIER_A {
                break sent;
            }
        };
        assert_eq!((last.to().as_str(), rounds), (CARRIER_B, if stale { 3 } else { 2 }));
        assert!(last.headers("Authorization").is_empty(), "the other trunk gets no credentials");
        assert_eq!(statuses(&world.udp(CARRIER_B, &last.answer(401, &[CHALLENGE]))), [500]);
        assert_eq!(world.server.counters().trunk_auth_failures, 2);
        let events = world.memory.events.lock().unwrap();
        let response =
            |name: &str| events.iter().filter(|event| **event == format!("{name} refused the login")).count();
        assert_eq!((response("carrier-a"), response("carrier-b")), (1, 1), "{events:?}");
        drop(events);
        nothing_is_left(&mut world, "refused credentials");
    }
}

#[test]
fn only_the_pinned_realm_and_a_supported_challenge_get_credentials() {
    let huge = format!("{CHALLENGE}, nonce2=\"\"").replace("n1", &"n".repeat(2000));
    for challenge in [
        CHALLENGE.replace("carrier.example", "other.example"),
        CHALLENGE.replace("qop=\"auth\"", "qop=\"auth-conf\""),
        CHALLENGE.replace("opaque", "algorithm=SHA-512-256, opaque"),
        CHALLENGE.replace("Digest", "Basic"),
        "WWW-Authenticate: ".to_owned(),
        huge,
    ] {
        let mut world = World::with(with_login);
        let first = call(&mut world, "one");
        let next = repeated(world.udp(CARRIER_A, &first.answer(401, &[&challenge])));
        assert_eq!(next.to(), CARRIER_B, "{challenge}");
        assert!(next.headers("Authorization").is_empty());
        assert_eq!(world.server.counters().trunk_auth_failures, 1, "{challenge}");
    }
}

#[test]
fn a_challenge_from_elsewhere_gets_nothing() {
    let mut world = World::with(with_login);
    let first = call(&mut world, "one");
    assert!(world.udp(STRANGER, &first.answer(401, &[CHALLENGE])).is_empty());
    // Another user's phone is no trunk.
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let to_bob = only(requests(world.udp(ALICE, &invite("sip:bob@example.org").call_id("two"))));
    assert_eq!(statuses(&world.udp(BOB, &to_bob.answer(401, &[CHALLENGE]))), [401]);
    assert_eq!(world.server.counters().trunk_challenges, 0);
}

#[test]
fn a_request_inside_the_dialog_is_answered_too() {
    let mut world = World::with(with_login);
    let first = call(&mut world, "one");
    let contact = "Contact: <sip:gw@198.51.100.1:5060>";
    let ok = only(world.udp(CARRIER_A, &first.answer(200, &[contact])));
    let route = format!("Route: {}", ok.header("Record-Route"));
    let bye =
        request("BYE", "sip:gw@198.51.100.1:5060").call_id("one").cseq(2).to(&ok.header("To")).line(&route);
    let forwarded = only(world.udp(ALICE, &bye));
    assert_eq!(forwarded.to(), CARRIER_A);
    let again = repeated(world.udp(CARRIER_A, &forwarded.answer(401, &[CHALLENGE])));
    proves(&again, "Authorization", "n1", "00000001");
    // Refused credentials are the end: the phone gets the response.
    let refused = world.udp(CARRIER_A, &again.answer(401, &[&CHALLENGE.replace("n1", "n2")]));
    assert_eq!(statuses(&refused), [401]);
    nothing_is_left(&mut world, "a challenged BYE");
}

#[test]
fn a_cancelled_call_is_not_repeated_with_credentials() {
    let mut world = World::with(with_login);
    let first = call(&mut world, "one");
    world.udp(ALICE, &invite(NUMBER).call_id("one").cancel());
    let sent = world.udp(CARRIER_A, &first.answer(401, &[CHALLENGE]));
    assert!(requests(sent).iter().all(|sent| sent.method() != "INVITE"));
    assert!(requests(world.pass(Duration::from_secs(60))).iter().all(|sent| sent.method() != "INVITE"));
    nothing_is_left(&mut world, "a cancelled call with a challenge");
}

#[test]
fn the_challenge_of_a_superseded_trunk_is_not_passed_on() {
    let mut world = World::with(with_login);
    let first = call(&mut world, "one");
    let second = repeated(
        world.pass(Duration::from_secs(4)).into_iter().filter(|sent| sent.to() == CARRIER_B).collect(),
    );
    assert!(statuses(&world.udp(CARRIER_A, &first.answer(401, &[CHALLENGE]))).is_empty());
    let sent = world.udp(CARRIER_B, &second.answer(486, &[]));
    assert_eq!(statuses(&sent), [486]);
    assert!(sent.iter().all(|sent| sent.headers("WWW-Authenticate").is_empty()));
    nothing_is_left(&mut world, "a superseded trunk that challenges");
}

#[test]
fn credentials_go_to_no_other_server_of_a_name_in_a_dialog() {
    let mut world = World::with(with_login);
    let first = call(&mut world, "one");
    let contact = "Contact: <sip:gw@gateway.example>";
    let ok = only(world.udp(CARRIER_A, &first.answer(200, &[contact])));
    let route = format!("Route: {}", ok.header("Record-Route"));
    let update =
        request("INVITE", "sip:gw@gateway.example").call_id("one").cseq(2).to(&ok.header("To")).line(&route);
    world.udp(ALICE, &update);
    let sent = requests(world.resolve_to("gateway.example", &[CARRIER_A, "203.0.113.66:5060"]));
    let sent = only(sent);
    let again = repeated(world.udp(CARRIER_A, &sent.answer(401, &[CHALLENGE])));
    proves(&again, "Authorization", "n1", "00000001");
    let sent = world.udp(CARRIER_A, &again.answer(503, &[]));
    assert!(requests(sent).iter().all(|sent| sent.to() == CARRIER_A), "no failover with credentials");
    assert!(requests(world.pass(Duration::from_secs(60))).iter().all(|sent| sent.to() == CARRIER_A));
}

#[test]
fn the_password_is_in_no_debug_output() {
    let mut config = crate::harness::config();
    with_login(&mut config);
    let shown = format!("{config:?}");
    assert!(shown.contains("acct") && !shown.contains("trunk secret"));
}

#[test]
fn after_a_change_of_the_trunks_a_pending_call_gets_no_credentials_and_no_other_trunk() {
    let mut world = World::with(with_login);
    let first = call(&mut world, "one");
    let mut changed = config();
    with_login(&mut changed);
    changed.trunking.trunks.edit().swap(0, 1);
    world.server.reconfigure(Arc::new(changed));
    let sent = world.udp(CARRIER_A, &first.answer(401, &[CHALLENGE]));
    assert_eq!(statuses(&sent), [500], "the caller cannot answer the challenge");
    assert!(requests(sent).iter().all(|sent| sent.method() == "ACK"));
    nothing_is_left(&mut world, "changed trunks");

    let mut world = World::with(with_login);
    let first = call(&mut world, "two");
    let mut changed = config();
    with_login(&mut changed);
    changed.trunking.trunks.edit().swap(0, 1);
    world.server.reconfigure(Arc::new(changed));
    let sent = world.udp(CARRIER_A, &first.answer(503, &[]));
    assert!(requests(sent).iter().all(|sent| sent.method() == "ACK"));
    nothing_is_left(&mut world, "changed trunks, with a later group");
}

#[test]
fn a_trunk_that_a_reload_took_away_does_not_challenge_the_caller() {
    for status in [401, 407] {
        let mut world = World::with(with_login);
        let first = call(&mut world, "one");
        world.server.reconfigure(Arc::new(config()));
        let sent = world.udp(CARRIER_A, &first.answer(status, &[CHALLENGE]));
        assert_eq!(statuses(&sent), [500], "the caller has no password of the trunk");
        nothing_is_left(&mut world, "no trunks");
    }
}
