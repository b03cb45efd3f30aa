//! Tests with RFC 4475 §3.2 and §3.3: well-formed messages whose request cannot or must not be executed.

use crate::harness::{BOB, World, forwarded, only, statuses};
use crate::torture;
use crate::torture_valid::{TESTER, is_the_same, world};
use ringway_sansio::Framer;
use ringway_server::SipFramer;

/// Asserts that the message gets `status` and is not forwarded.
#[track_caller]
fn is_answered(message: &[u8], status: u16) -> crate::harness::Sent {
    let mut world = occupied();
    let answer = only(world.udp(TESTER, &message));
    assert_eq!(answer.status(), status, "{}", answer.text());
    assert_eq!(world.server.counters().forwarded, 0);
    world.still_answers();
    answer
}

/// Asserts that the message is forwarded unchanged.
#[track_caller]
fn is_forwarded(message: &[u8]) {
    let mut world = occupied();
    let request = forwarded(world.udp(TESTER, &message));
    assert_eq!(request.to(), BOB);
    is_the_same(message, &request);
    world.still_answers();
}

fn occupied() -> World {
    let mut world = world();
    world.server.set_permanent_contacts(b"user@example.com", &[b"sip:bob@192.0.2.20"]);
    world
}

// §3.2 Transaction layer

#[test]
fn badbranch_is_processed_and_meets_no_other_request() {
    let mut world = occupied();
    let message = torture!("badbranch");
    let first = forwarded(world.udp(TESTER, &message));
    is_the_same(message, &first);
    assert!(world.udp(TESTER, &message).is_empty(), "the same request again is a retransmission");
    let other = String::from_utf8(message.to_vec()).unwrap().replace("badbranch.", "another.");
    assert_ne!(other.as_bytes(), message);
    let second = forwarded(world.udp(TESTER, &other.into_bytes()));
    assert_ne!(first.headers("Via")[0], second.headers("Via")[0], "another request has its own transaction");
    assert_eq!(statuses(&world.udp(BOB, &second.answer(200, &[]))), [200]);
    assert_eq!(statuses(&world.udp(BOB, &first.answer(486, &[]))), [486]);
    world.still_answers();
}

// §3.3 Application layer

#[test]
fn insuf_without_mandatory_fields_is_400() {
    let answer = is_answered(torture!("insuf"), 400).text();
    assert!(!answer.contains("Call-ID:") && !answer.contains("From:"), "nothing is invented: {answer}");
}

#[test]
fn unkscm_with_an_unknown_scheme_is_416() {
    is_answered(torture!("unkscm"), 416);
}

#[test]
fn novelsc_with_another_scheme_is_416() {
    is_answered(torture!("novelsc"), 416);
}

#[test]
fn unksm2_is_400_at_the_registrar() {
    is_answered(torture!("unksm2"), 400);
}

#[test]
fn bext01_is_420_with_what_the_proxy_does_not_understand() {
    let answer = is_answered(torture!("bext01"), 420);
    assert_eq!(answer.headers("Unsupported"), ["noProxiesSupportThis", "norDoAnyProxiesSupportThis"]);
}

#[test]
fn invut_is_forwarded_whatever_its_body_is() {
    is_forwarded(torture!("invut"));
}

#[test]
fn regaut01_with_an_unknown_scheme_is_challenged() {
    let mut world = World::with(|config| {
        config.domains = vec!["example.com".into()];
        config.auth.enabled = true;
    });
    let answer = only(world.udp(TESTER, &torture!("regaut01")));
    assert_eq!(answer.status(), 401);
    let challenges = answer.headers("WWW-Authenticate");
    assert_eq!(challenges.len(), 2);
    assert!(
        challenges
            .iter()
            .all(|challenge| challenge.starts_with("Digest realm=") && !challenge.contains("stale"))
    );
    world.still_answers();
}

#[test]
fn multi01_with_everything_twice_is_400() {
    is_answered(torture!("multi01"), 400);
}

#[test]
fn mcl01_with_two_lengths_is_400() {
    is_answered(torture!("mcl01"), 400);
}

#[test]
fn mcl01_on_a_stream_closes_it() {
    let mut framer = SipFramer::new(65_535);
    framer.push(torture!("mcl01"));
    assert!(framer.next_frame().is_err());
}

#[test]
fn bcast_is_dropped_and_nothing_is_broadcast() {
    let mut world = occupied();
    assert!(world.udp(TESTER, &torture!("bcast")).is_empty());
    assert_eq!(world.server.counters().stray, 1);
    world.still_answers();
}

#[test]
fn zeromf_is_483() {
    is_answered(torture!("zeromf"), 483);
}

#[test]
fn cparam01_has_a_parameter_of_the_contact() {
    let mut world = world();
    let answer = only(world.udp(TESTER, &torture!("cparam01")));
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.header("Contact"), "<sip:+19725552222@gw1.example.net>;unknownparam;expires=3600");
    world.still_answers();
}

#[test]
fn cparam02_has_a_parameter_of_the_uri() {
    let mut world = world();
    let answer = only(world.udp(TESTER, &torture!("cparam02")));
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.header("Contact"), "<sip:+19725552222@gw1.example.net;unknownparam>;expires=3600");
    world.still_answers();
}

#[test]
fn regescrt_is_kept_as_data_and_never_becomes_a_route() {
    let mut world = world();
    let answer = only(world.udp(TESTER, &torture!("regescrt")));
    assert_eq!(answer.status(), 200);
    assert_eq!(
        answer.header("Contact"),
        "<sip:user@example.com?Route=%3Csip:sip.example.com%3E>;expires=3600"
    );
    world.still_answers();
}

#[test]
fn regescrt_headers_of_a_contact_are_not_sent_in_a_request_uri() {
    let mut world = World::open();
    for (contact, uri) in [
        ("sip:bob@192.0.2.20?Route=%3Csip:evil.example.com%3E", "sip:bob@192.0.2.20"),
        ("sip:bob@192.0.2.20?", "sip:bob@192.0.2.20"),
        ("sip:b?b@192.0.2.20;x=1;method=BYE;y?a=b", "sip:b?b@192.0.2.20;x=1;y"),
        ("sip:b;x?b@192.0.2.20;lr;z=%41", "sip:b;x?b@192.0.2.20;lr;z=%41"),
    ] {
        world.server.set_permanent_contacts(b"bob@example.org", &[contact.as_bytes()]);
        let call = crate::harness::invite("sip:bob@example.org").call_id(contact);
        let request = forwarded(world.udp(crate::harness::ALICE, &call));
        assert_eq!(request.uri(), uri, "RFC 3261 §16.6 step 2");
        assert!(request.headers("Route").is_empty());
    }
}

/// Asserts that every message of the archive has a test.
#[test]
fn every_message_of_the_archive_has_a_test_of_its_name() {
    let tests = [
        include_str!("torture_valid.rs"),
        include_str!("torture_invalid.rs"),
        include_str!("torture_semantic.rs"),
    ];
    let tests = tests.concat();
    let table = include_str!("../../../../testdata/rfc4475/expected.tsv");
    let files: Vec<_> = table.lines().skip(1).filter_map(|row| row.split(".dat").next()).collect();
    assert_eq!(files.len(), 50);
    for file in files {
        let name = if file == "test" { "test_dat" } else { file };
        assert!(
            tests.contains(&format!("torture!(\"{file}\")")) && tests.contains(&format!("fn {name}_")),
            "{file}"
        );
    }
}

#[test]
fn sdp01_is_forwarded_whatever_it_accepts() {
    is_forwarded(torture!("sdp01"));
}
