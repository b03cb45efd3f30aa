//! Tests of the bytes that one datagram makes the server send to its source, which may be forged.

use crate::harness::{ALICE, BOB, Request, STRANGER, Sent, Wire, World, invite, only, requests};
use std::time::Duration;

const EVE: &str = "sip:eve@example.net";

fn world() -> World {
    let mut world = World::closed();
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    world
}

/// Number of bytes to the source of a call.
fn bytes_to(sent: &[Sent], to: &str) -> usize {
    sent.iter().filter(|one| one.to() == to).map(|one| one.bytes.len()).sum()
}

/// Packets to `source` within 64·T1 without any packet from there.
fn reflected(world: &mut World, source: &str, call: &Request) -> (usize, usize) {
    let mut sent = world.udp(source, call);
    sent.extend(world.pass(Duration::from_secs(64)));
    (bytes_to(&sent, source), call.wire().len())
}

#[test]
fn an_unacknowledged_failure_is_at_most_three_times_its_request() {
    for uri in ["sip:ghost@example.org", "sip:carol@example.org", "sip:x@192.0.2.77", "sips:bob@example.org"]
    {
        let mut world = world();
        let (out, received) =
            reflected(&mut world, STRANGER, &invite(uri).from(EVE).to("<sip:x@example.org>"));
        assert!(out > 0 && out <= (3 * received).max(800), "{uri}: {out} for {received}");
        assert_eq!(world.server.transactions_len(), (0, 0), "refusals keep no transaction");
    }
    // Not forwarded, because bob is not registered: a local failure after 32 s, retransmitted within the allowance.
    let mut world = world();
    let (out, received) = reflected(&mut world, STRANGER, &invite("sip:bob@example.org").from(EVE));
    assert!(out > 0 && out <= (3 * received).max(800), "408: {out} for {received}");
    assert!(world.server.transaction_counters().responses_limited > 0);
}

#[test]
fn a_challenge_is_at_most_three_times_its_request_or_800_bytes() {
    for method in ["INVITE", "MESSAGE", "REGISTER"] {
        let mut world = world();
        let to = if method == "REGISTER" { "sip:example.org" } else { "sip:bob@example.org" };
        let tagged = crate::harness::request(method, to).to("<sip:bob@example.org>;tag=x");
        let (out, received) = reflected(&mut world, STRANGER, &tagged);
        assert!(out > 0 && out <= (3 * received).max(800), "{method}: {out} for {received}");
    }
}

#[test]
fn a_420_lists_as_many_options_as_fit() {
    for (method, to, field) in [
        ("OPTIONS", "sip:example.org", "Require"),
        ("REGISTER", "sip:example.org", "Require"),
        ("INVITE", "sip:bob@example.org", "Proxy-Require"),
    ] {
        for count in [1, 20, 100, 1000] {
            let options: Vec<String> = (0..count).map(|number| format!("o{number}")).collect();
            let request =
                crate::harness::request(method, to).line(&format!("{field}: {}", options.join(",")));
            let answer = only(world().udp(STRANGER, &request));
            let (out, received) = (answer.bytes.len(), request.wire().len());
            assert!(answer.status() == 420 && out <= (3 * received).max(800), "{out} for {received}");
            let listed = answer.headers("Unsupported");
            assert!(options.starts_with(&listed) && listed.len() >= count.min(15), "{count}: {listed:?}");
        }
        let options: Vec<String> = (0..100).map(|number| format!("o{number}")).collect();
        let request = crate::harness::request(method, to).line(&format!("{field}: {}", options.join(",")));
        let answer = only(world().tcp(1, STRANGER, &request.tcp()));
        assert_eq!(answer.headers("Unsupported"), options, "a connection proves its address");
    }
}

#[test]
fn forwarded_responses_pass_once_each_and_together_ten_times_their_request() {
    let mut world = world();
    let call = invite("sip:bob@example.org").from(EVE);
    let received = call.wire().len();
    let mut sent = world.udp(STRANGER, &call);
    let got = requests(sent.clone()).remove(0);
    for number in 0..200 {
        let ringing =
            got.answer(180, &[&format!("X-Number: {number}"), &format!("X-Pad: {}", "x".repeat(400))]);
        sent.extend(world.udp(BOB, &ringing));
    }
    sent.extend(world.udp(BOB, &got.answer(486, &[])));
    sent.extend(world.pass(Duration::from_secs(64)));
    let out = bytes_to(&sent, STRANGER);
    assert!(out <= 10 * received + (3 * received).max(800), "{out} for {received}");
    assert!(world.server.transaction_counters().responses_limited > 100);
}

/// An authenticated caller and one by TCP have a verified address: retransmissions follow RFC 3261.
#[test]
fn a_verified_caller_gets_all_retransmissions() {
    let mut world = world();
    let call = invite("sip:bob@example.org");
    let got = requests(crate::challenge::proven(&mut world, ALICE, &call, "alice")).remove(0);
    let mut sent = world.udp(BOB, &got.answer(486, &[]));
    sent.extend(world.pass(Duration::from_secs(64)));
    let failures = sent.iter().filter(|one| one.status() == 486).count();
    assert_eq!(failures, 11, "timer G until timer H");
    assert_eq!(world.server.transaction_counters().responses_limited, 0);
}
