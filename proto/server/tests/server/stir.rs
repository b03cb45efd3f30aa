//! Tests of signed identities of callers (decision 0064): calls to trunks are signed, those of trunks verified, and what strangers and
//! hostile carriers can cause.

use crate::challenge::proven;
use crate::ends::nothing_is_left;
use crate::forwards::always;
use crate::harness::{
    ALICE, BOB, EDGE, Request, STRANGER, Sent, World, forwarded, invite, only, requests, statuses, udp_flow,
};
use crate::overload::{fill, under_overload};
use crate::routes::{CARRIER_A, CARRIER_B, carriers};
use ringway_auth::stir::{Attestation, Claims, Passport, PassportKind};
use ringway_sansio::{Event, NoSigner, SignerCertificate, SignerNumbers};
use ringway_server::{
    CallSigner, CallerCheck, CertificateHost, Config, NumberForm, StirConfig, TrunkLimits, TrunkLogin,
    TrunkStir,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Keys of P-256 in PKCS #8, hexadecimal digits: that of this server, and that of the carrier.
const OWN_KEY: &str = "308187020100301306072a8648ce3d020106082a8648ce3d030107046d306b02010104208bbab64d9bcdf550c583c572a823f4e9\
    b113ad1daff0c46fafcf6b9f88be5006a14403420004167da8f51d4113a68342aceb69f4a03ca3457bf48b960112adf42d5c14f932777141\
    3f849e88d6714210eb0f4b5d04796cdffc057bcfbe2b616b3f2405f6fba1";
const OWN_URL: &str = "https://cert.example.org/own.pem";
const URL: &str = "https://cert.carrier.example/a.pem";
const ORIGIN_ID: &str = "123e4567-e89b-12d3-a456-426655440000";
/// The number of the caller at the carrier, and bob's.
const CALLER: &str = "12155550121";
const CALLED: &str = "4930123401";

fn der(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn own_signer() -> CallSigner {
    CallSigner::from_der(&der(OWN_KEY), OWN_URL).unwrap()
}

/// Another key: the scalar 1, 2, and so on, in SEC 1.
fn signer(number: u8, url: &str) -> CallSigner {
    let mut key = der("30310201010420");
    key.extend([0; 31]);
    key.push(number);
    key.extend(der("a00a06082a8648ce3d030107"));
    CallSigner::from_der(&key, url).unwrap()
}

fn certificate(number: u8) -> SignerCertificate {
    SignerCertificate { public_key: signer(number, URL).public_key().into(), numbers: Box::default() }
}

/// Carriers of which the first gets signed calls and whose calls are verified; `+4930123401` is bob's.
fn signing(check: CallerCheck) -> impl FnOnce(&mut Config) {
    move |config| {
        carriers(config);
        let stir = TrunkStir { signs: true, check };
        config.trunking.trunks.edit()[0].stir = stir;
        config.trunking.trunks.edit()[0].callers = vec![("alice".into(), "+4930123402".into())];
        config.stir = StirConfig {
            signer: Some(Arc::new(own_signer())),
            origin_id: ORIGIN_ID.into(),
            hosts: vec![CertificateHost::parse("*.carrier.example").unwrap()],
            ..StirConfig::default()
        };
    }
}

fn verifying(check: CallerCheck) -> World {
    let mut world = World::with(signing(check));
    world.memory.is_tracing.store(true, Ordering::Relaxed);
    add_bob(&mut world);
    world
}

/// Registers the called phone.
fn add_bob(world: &mut World) {
    let user = format!("+{CALLED}");
    world.add_user(&user, "example.org", "password");
    world.register(&user, BOB, "<sip:bob@192.0.2.20>");
}

fn claims(world: &World) -> Claims {
    Claims {
        origin: CALLER.into(),
        destinations: vec![CALLED.into()],
        made_s: world.now.as_secs(),
        attestation: Some(Attestation::Full),
        origin_id: ORIGIN_ID.into(),
        diverted: Box::default(),
    }
}

fn identity(claims: &Claims) -> String {
    String::from_utf8(signer(1, URL).identity(PassportKind::Shaken, claims)).unwrap()
}

/// Call of the carrier to bob.
fn call() -> Request {
    let mut call =
        invite(&format!("sip:+{CALLED}@example.org")).from(&format!("sip:+{CALLER}@carrier.example"));
    call.via = format!("SIP/2.0/UDP {CARRIER_A};rport;branch=z9hG4bK");
    call.lines = vec![format!("Contact: <sip:{CARRIER_A}>")];
    call
}

fn signed_call(world: &World) -> Request {
    call().line(&format!("Identity: {}", identity(&claims(world))))
}

/// Answers the oldest request for a certificate.
#[track_caller]
fn found(world: &mut World, result: Result<SignerCertificate, NoSigner>) -> Vec<Sent> {
    let (query, url) = world.signers.remove(0);
    assert_eq!(&*url, URL);
    world.event(Event::SignerFound { query, result: result.map(Arc::new) })
}

/// The request that the phone gets, after the pass of this server to itself.
#[track_caller]
fn at_bob(world: &mut World, sent: Vec<Sent>) -> Sent {
    let own = forwarded(sent);
    let sent =
        if own.to() == "192.0.2.1:5060" { forwarded(world.udp("192.0.2.1:5060", &own.bytes)) } else { own };
    assert_eq!(sent.to(), BOB);
    sent
}

fn decisions(world: &World) -> String {
    std::mem::take(&mut *world.memory.decisions.lock().unwrap()).join("\n")
}

#[test]
fn a_call_to_a_trunk_is_signed_with_the_rights_of_its_caller() {
    for (change, user, expected) in [
        ((|_: &mut Config| {}) as fn(&mut Config), "alice", (Attestation::Full, "4930123402")),
        (
            |config| config.trunking.trunks.edit()[0].callers.clear(),
            "+4930123409",
            (Attestation::Partial, "4930123409"),
        ),
    ] {
        let mut world = World::with(|config| {
            signing(CallerCheck::Off)(config);
            config.auth.enabled = true;
            change(config);
        });
        world.add_user(user, "example.org", &format!("{user}'s password"));
        let call = invite("sip:+441234@example.org").from(&format!("sip:{user}@example.org"));
        let forged = call
            .line("Identity: forged.by.user;info=<https://a.example/>")
            .line("Date: Thu, 01 Jan 1970 00:00:00 GMT");
        let sent = forwarded(proven(&mut world, ALICE, &forged, user));
        assert_eq!(sent.to(), CARRIER_A);
        let value = sent.header("Identity");
        let passport = Passport::parse(value.as_bytes()).unwrap();
        let attested = (passport.claims.attestation.unwrap(), &*passport.claims.origin);
        assert_eq!(attested, expected, "{user}");
        let Claims { destinations, made_s, origin_id, .. } = &passport.claims;
        assert_eq!((destinations.as_slice(), &**origin_id), (&["441234".into()][..], ORIGIN_ID));
        assert_eq!((*made_s, &*passport.url), (world.now.as_secs(), OWN_URL));
        assert!(passport.is_signed_by(&own_signer().public_key()));
        assert_eq!(sent.header("Date"), "Fri, 15 Jan 2027 08:00:00 GMT");
        assert_eq!(world.server.counters().identities_signed, 1);
        // The next trunk wants none.
        let mut next = requests(world.udp(CARRIER_A, &sent.answer(503, &[])));
        next.retain(|sent| sent.method() == "INVITE");
        let next = only(next);
        assert_eq!(
            (next.to().as_str(), next.headers("Identity").len()),
            (CARRIER_B, 1),
            "the user's own, as it is"
        );
        world.udp(CARRIER_B, &next.answer(486, &[]));
        nothing_is_left(&mut world, "after a signed call");
    }
}

#[test]
fn what_has_no_number_of_e164_is_not_signed() {
    for (caller, called) in [("alice", "sip:112@example.org"), ("carol", "sip:+441234@example.org")] {
        let mut world = World::with(|config| {
            signing(CallerCheck::Off)(config);
            let all = ringway_server::RouteMatch::Pattern("112".into());
            let routes = vec![
                crate::routes::to_trunks(all, &[0]),
                crate::routes::to_trunks(crate::routes::prefix("+"), &[0]),
            ];
            config.trunking.routes = ringway_server::RouteTable::new(routes).unwrap();
        });
        let sent = forwarded(world.udp(ALICE, &invite(called).from(&format!("sip:{caller}@example.org"))));
        assert!(sent.headers("Identity").is_empty() && sent.headers("Date").is_empty(), "{}", sent.text());
        assert_eq!(world.server.counters().identities_not_signed, 1);
    }
}

#[test]
fn numbers_are_signed_in_the_form_of_e164_whatever_form_the_trunk_has() {
    let mut world = World::with(|config| {
        signing(CallerCheck::Off)(config);
        config.trunking.trunks.edit()[0].numbers_out =
            NumberForm::National { country: "49".into(), prefix: "0".into(), international: "00".into() };
    });
    let sent = forwarded(world.udp(ALICE, &invite("sip:03012345@example.org")));
    assert!(sent.uri().starts_with("sip:03012345@198"), "{}", sent.uri());
    let value = sent.header("Identity");
    let claims = Passport::parse(value.as_bytes()).unwrap().claims;
    assert_eq!((&*claims.origin, &*claims.destinations[0]), ("4930123402", "493012345"));
    assert_eq!(claims.attestation, Some(Attestation::Gateway), "nobody has a password here");
}

/// RFC 8946: a forward to a trunk continues the identity that the carrier has signed, or that of a trusted caller.
#[test]
fn a_forward_to_a_trunk_says_who_diverted_the_call() {
    let asserted = format!("P-Asserted-Identity: <sip:+{CALLER}@carrier.example>");
    for (is_signed, is_asserted) in [(true, false), (false, true), (false, false)] {
        let mut world = verifying(CallerCheck::Off);
        world
            .server
            .set_forwards(format!("+{CALLED}@example.org").as_bytes(), always("sip:+441234@example.org"));
        let mut call = if is_signed { signed_call(&world) } else { call() };
        call.lines.extend(is_asserted.then(|| asserted.clone()));
        let own = forwarded(world.udp(CARRIER_A, &call));
        let sent =
            if own.to() == CARRIER_A { own } else { forwarded(world.udp("192.0.2.1:5060", &own.bytes)) };
        assert_eq!(sent.to(), CARRIER_A);
        let values = sent.headers("Identity");
        let first = Passport::parse(values[0].as_bytes()).unwrap();
        assert_eq!(first.kind, PassportKind::Shaken);
        if !is_signed && !is_asserted {
            // The call is one of the user who forwards: with its number, and to the new target.
            let Claims { origin, destinations, attestation, .. } = &first.claims;
            assert_eq!((values.len(), &**origin, &*destinations[0]), (1, CALLED, "441234"));
            assert_eq!(*attestation, Some(Attestation::Partial));
            continue;
        }
        let second = Passport::parse(values[1].as_bytes()).unwrap();
        assert_eq!((values.len(), second.kind), (2, PassportKind::Div));
        assert_eq!((&*first.claims.origin, &*first.claims.destinations[0]), (CALLER, CALLED));
        if is_signed {
            assert!(
                call.lines.contains(&format!("Identity: {}", values[0])),
                "that of the carrier is unchanged"
            );
        }
        assert_eq!((&*second.claims.origin, &*second.claims.diverted), (CALLER, CALLED));
        assert_eq!((&*second.claims.destinations[0], &*second.url), ("441234", OWN_URL));
        assert!(second.is_signed_by(&own_signer().public_key()));
    }
}

#[test]
fn a_valid_identity_is_shown_to_the_called_phone() {
    for (attestation, shown) in [
        (Attestation::Full, "TN-Validation-Passed"),
        (Attestation::Partial, "No-TN-Validation"),
        (Attestation::Gateway, "No-TN-Validation"),
    ] {
        for check in [CallerCheck::Verify, CallerCheck::Require] {
            let mut world = verifying(check);
            let claims = Claims { attestation: Some(attestation), ..claims(&world) };
            let call = call().line(&format!("Identity: {}", identity(&claims)));
            assert!(world.udp(CARRIER_A, &call).is_empty(), "it waits");
            assert!(world.udp(CARRIER_A, &call).is_empty(), "a retransmission too");
            assert_eq!(world.signers.len(), 1);
            let sent = found(&mut world, Ok(certificate(1)));
            let sent = at_bob(&mut world, sent);
            let asserted = format!("<sip:+{CALLER};verstat={shown}@carrier.example;user=phone>");
            assert_eq!(sent.header("P-Asserted-Identity"), asserted);
            assert_eq!(sent.header("Identity"), identity(&claims), "passed on unchanged");
            assert_eq!(sent.header("From"), call.from);
            let decided = decisions(&world);
            assert!(
                decided
                    .contains(&format!("identity of its caller is valid ({}: {URL})", attestation.letter())),
                "{decided}"
            );
            assert_eq!(world.server.counters().identities_verified, 1);
            world.udp(BOB, &sent.answer(486, &[]));
            nothing_is_left(&mut world, "after a verified call");
        }
    }
}

/// The result is set at the first pass, and stays at the second.
#[test]
fn a_call_that_passes_this_server_twice_is_verified_once() {
    let mut world = World::with(signing(CallerCheck::Require));
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let claims = Claims { destinations: vec!["4930123".into()], ..claims(&world) };
    let mut call = call().line(&format!("Identity: {}", identity(&claims)));
    call.uri = "sip:+4930123@example.org".into();
    call.to = "<sip:+4930123@example.org>".into();
    world.udp(CARRIER_A, &call);
    let own = forwarded(found(&mut world, Ok(certificate(1))));
    assert_eq!(own.to(), "192.0.2.1:5060", "a route to a user");
    let sent = forwarded(world.udp("192.0.2.1:5060", &own.bytes));
    let asserted = format!("<sip:+{CALLER};verstat=TN-Validation-Passed@carrier.example;user=phone>");
    assert_eq!((sent.to().as_str(), sent.header("P-Asserted-Identity")), (BOB, asserted));
    assert!(world.signers.is_empty());
}

/// The result is that of the number in the form that the phone's domain has, also in a second pass.
#[test]
fn the_result_is_shown_with_the_number_of_the_called_phone() {
    for is_returned in [false, true] {
        let mut world = World::with(|config: &mut Config| {
            signing(CallerCheck::Verify)(config);
            config.trunking.trunks.edit()[0].numbers_in =
                NumberForm::National { country: "1".into(), prefix: "0".into(), international: "00".into() };
        });
        add_bob(&mut world);
        world.register("bob", BOB, "<sip:bob@192.0.2.20>");
        let called = if is_returned { "4930123" } else { CALLED };
        let claims = Claims { destinations: vec![called.into()], ..claims(&world) };
        let mut call = call().line(&format!("Identity: {}", identity(&claims)));
        call.uri = format!("sip:00{called}@example.org");
        call.to = format!("<{}>", call.uri);
        call.from = "sip:02155550121@carrier.example".into();
        let call = call.line("P-Asserted-Identity: \"A\" <sip:02155550121;verstat=x@carrier.example>");
        world.udp(CARRIER_A, &call);
        let sent = found(&mut world, Ok(certificate(1)));
        let sent = at_bob(&mut world, sent);
        let asserted =
            format!("\"A\" <sip:+{CALLER};verstat=TN-Validation-Passed@carrier.example;user=phone>");
        assert_eq!(sent.header("P-Asserted-Identity"), asserted, "{is_returned}");
    }
}

/// Two accounts at one carrier: the call has the rules of that at whose contact it came in, also after it has waited.
#[test]
fn a_call_to_a_registered_contact_is_verified_by_the_rules_of_its_account() {
    for is_first in [true, false] {
        let mut world = World::with(|config: &mut Config| {
            signing(CallerCheck::Off)(config);
            for (trunk, name) in config.trunking.trunks.edit().iter_mut().zip(["one", "two"]) {
                trunk.uri = "sip:198.51.100.1:5060".into();
                trunk.networks = vec!["198.51.100.1".parse().unwrap()];
                (trunk.registers, trunk.stir.check) = (true, CallerCheck::Off);
                trunk.login =
                    Some(TrunkLogin { username: name.into(), password: "secret".into(), realm: None });
            }
            config.trunking.trunks.edit()[1].stir.check = CallerCheck::Require;
            config.trunking.trunks.edit()[1].calls_in =
                Some(TrunkLimits { under_way: Some(1), per_second: None });
        });
        add_bob(&mut world);
        let registers = requests(world.pass(Duration::from_secs(1)));
        let name = if is_first { "sip:one@" } else { "sip:two@" };
        let register = registers.iter().find(|sent| sent.header("To").contains(name)).unwrap();
        let mut called = signed_call(&world);
        called.uri = register.header("Contact").trim_matches(['<', '>']).to_owned();
        called.to = format!("<sip:+{CALLED}@carrier.example>");
        let sent = world.udp(CARRIER_A, &called);
        assert_eq!(world.signers.len(), usize::from(!is_first), "that of the second account");
        let sent = if is_first { sent } else { found(&mut world, Ok(certificate(1))) };
        at_bob(&mut world, sent);
        assert_eq!(world.memory.tables().trunk_calls("carrier-b").1, u32::from(!is_first));
    }
}

/// Identity header fields that are not valid, with the status for a call that needs one, and the result for the phone.
#[test]
fn an_identity_that_does_not_fit_is_refused_without_a_lookup() {
    let good = |world: &World| claims(world);
    type Change = fn(Claims) -> Claims;
    let changed: [(Change, u16, &str); 6] = [
        (|of| Claims { made_s: of.made_s - 61, ..of }, 403, "TN-Validation-Failed"),
        (|of| Claims { made_s: of.made_s + 61, ..of }, 403, "TN-Validation-Failed"),
        (|of| Claims { origin: "12155550122".into(), ..of }, 438, "TN-Validation-Failed"),
        (|of| Claims { origin: Box::default(), ..of }, 438, "TN-Validation-Failed"),
        (|of| Claims { destinations: vec!["4930123499".into()], ..of }, 438, "TN-Validation-Failed"),
        (|of| Claims { destinations: Vec::new(), ..of }, 438, "TN-Validation-Failed"),
    ];
    let mut cases: Vec<(Vec<String>, u16, &str)> = Vec::new();
    let world = World::open();
    for (change, status, shown) in changed {
        cases.push((vec![identity(&change(good(&world)))], status, shown));
    }
    let own =
        |url: &str| String::from_utf8(signer(1, url).identity(PassportKind::Shaken, &good(&world))).unwrap();
    let valid = identity(&good(&world));
    let (token, _) = valid.split_once(';').unwrap();
    let many: Vec<String> =
        (0..50).map(|_| "a.b.c;info=<https://cert.carrier.example/>".to_owned()).collect();
    for (lines, status, shown) in [
        (vec![], 428, "No-TN-Validation"),
        (vec![valid.replace("\"shaken\"", "\"rph\"")], 428, "No-TN-Validation"),
        (vec!["x".into()], 438, "TN-Validation-Failed"),
        (
            vec![format!("{token};info=<{URL}>;ppt=shaken;pad={}", "p".repeat(4096))],
            438,
            "TN-Validation-Failed",
        ),
        (many, 438, "TN-Validation-Failed"),
        (
            vec![format!("{token};info=<https://other.carrier.example/a.pem>;ppt=shaken")],
            438,
            "TN-Validation-Failed",
        ),
        (vec![format!("{token};info=<{URL}>;alg=RS256;ppt=shaken")], 437, "TN-Validation-Failed"),
        (vec![own("https://127.0.0.1/a.pem")], 436, "No-TN-Validation"),
        (vec![own("https://169.254.169.254/latest/meta-data")], 436, "No-TN-Validation"),
        (vec![own("http://cert.carrier.example/a.pem")], 436, "No-TN-Validation"),
        (vec![own("file:///etc/passwd")], 436, "No-TN-Validation"),
        (vec![own("https://cert.carrier.example@evil.example/")], 436, "No-TN-Validation"),
        (vec![own("https://evil.example/")], 436, "No-TN-Validation"),
    ] {
        cases.push((lines, status, shown));
    }
    for (lines, status, shown) in cases {
        let with = |mut call: Request| {
            call.lines.extend(lines.iter().map(|line| format!("Identity: {line}")));
            call
        };
        let mut world = verifying(CallerCheck::Require);
        let refused = only(world.udp(CARRIER_A, &with(call())));
        assert_eq!(refused.status(), status, "{lines:?}");
        assert!(world.signers.is_empty(), "nothing is fetched: {lines:?}");
        nothing_is_left(&mut world, "after a refused call");
        let mut world = verifying(CallerCheck::Verify);
        let sent = world.udp(CARRIER_A, &with(call()));
        let sent = at_bob(&mut world, sent);
        assert!(
            sent.header("P-Asserted-Identity").contains(&format!(";verstat={shown}@")),
            "{}",
            sent.text()
        );
        let counters = world.server.counters();
        assert_eq!(counters.identities_invalid + counters.identities_missing, 1, "{lines:?}");
    }
}

#[test]
fn a_certificate_that_does_not_fit_is_no_proof() {
    let listed = |first: &str| SignerCertificate {
        numbers: Box::new([SignerNumbers { first: first.into(), count: 10 }]),
        ..certificate(1)
    };
    for (result, status, shown) in [
        (Ok(listed("12155550120")), 0, "TN-Validation-Passed"),
        (Ok(listed("12155550200")), 437, "TN-Validation-Failed"),
        (Ok(certificate(2)), 438, "TN-Validation-Failed"),
        (
            Ok(SignerCertificate { public_key: Box::default(), numbers: Box::default() }),
            438,
            "TN-Validation-Failed",
        ),
        (Err(NoSigner::Unsupported), 437, "TN-Validation-Failed"),
        (Err(NoSigner::Unreachable), 436, "No-TN-Validation"),
    ] {
        for check in [CallerCheck::Require, CallerCheck::Verify] {
            let mut world = verifying(check);
            let call = signed_call(&world);
            world.udp(CARRIER_A, &call);
            let sent = found(&mut world, result.clone());
            if status != 0 && check == CallerCheck::Require {
                assert_eq!(statuses(&sent), [status]);
                nothing_is_left(&mut world, "after a refused call");
                continue;
            }
            let sent = at_bob(&mut world, sent);
            assert!(
                sent.header("P-Asserted-Identity").contains(&format!(";verstat={shown}@")),
                "{}",
                sent.text()
            );
        }
    }
}

#[test]
fn a_call_waits_for_a_certificate_for_a_few_seconds_and_can_be_cancelled() {
    let mut world = verifying(CallerCheck::Require);
    let call = signed_call(&world);
    world.udp(CARRIER_A, &call);
    let sent = world.pass(Duration::from_secs(5));
    assert_eq!(statuses(&sent), [436]);
    assert!(found(&mut world, Ok(certificate(1))).is_empty(), "a late result is worth nothing");
    let call = signed_call(&world).call_id("another");
    world.udp(CARRIER_A, &call);
    let sent = world.udp(CARRIER_A, &call.cancel());
    assert_eq!(statuses(&sent), [200, 487]);
    assert_eq!(statuses(&world.udp(CARRIER_A, &call)), [487], "a retransmission that was under way");
    assert!(found(&mut world, Ok(certificate(1))).is_empty());
    // Another address ends nothing.
    let call = signed_call(&world).call_id("third");
    world.udp(CARRIER_A, &call);
    assert_eq!(statuses(&world.udp(CARRIER_B, &call.cancel())), [481]);
    assert_eq!(requests(found(&mut world, Ok(certificate(1)))).len(), 1);
    nothing_is_left(&mut world, "after calls that waited");
}

#[test]
fn a_call_that_waits_for_a_certificate_is_not_refused_under_overload() {
    let mut world = World::with(|config| {
        signing(CallerCheck::Require)(config);
        under_overload(config);
    });
    world.memory.is_tracing.store(true, Ordering::Relaxed);
    add_bob(&mut world);
    let call = signed_call(&world);
    world.udp(CARRIER_A, &call);
    fill(&mut world, udp_flow(BOB), |_| {});
    let late = Duration::from_millis(180);
    assert!(!statuses(&world.late(CARRIER_A, &call, late)).contains(&503), "its retransmission");
    assert_eq!(statuses(&world.late(CARRIER_A, &call.cancel(), late)), [200, 487]);
    assert_eq!(statuses(&world.late(CARRIER_A, &signed_call(&world).call_id("another"), late)), [503]);
}

/// Verification costs a signature: neither strangers nor users nor phones cause any, and no lookup.
#[test]
fn nobody_but_the_trunk_causes_a_verification() {
    for source in [STRANGER, ALICE, EDGE, CARRIER_B] {
        for auth in [true, false] {
            let mut world = World::with(|config| {
                signing(CallerCheck::Require)(config);
                config.auth.enabled = auth;
            });
            let call = signed_call(&world);
            world.udp(source, &call);
            assert!(world.signers.is_empty(), "{source}");
        }
    }
    let mut world = verifying(CallerCheck::Require);
    let own = Request { via: "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bKx".into(), ..signed_call(&world) };
    world.udp("192.0.2.1:5060", &own);
    assert!(world.signers.is_empty(), "this server itself");
}

#[test]
fn verifications_of_a_trunk_are_limited_and_counted() {
    for (check, status) in [(CallerCheck::Require, 503), (CallerCheck::Verify, 0)] {
        let mut world = World::with(|config| {
            signing(check)(config);
            config.stir.checks_per_second = 3;
        });
        add_bob(&mut world);
        let mut statuses_of = Vec::new();
        for number in 0..5 {
            let call = signed_call(&world).call_id(&format!("call{number}"));
            let sent = world.udp(CARRIER_A, &call);
            statuses_of.extend(sent.first().map(Sent::status));
        }
        assert_eq!(world.signers.len(), 3);
        assert_eq!(world.server.counters().identities_over_rate, 2);
        if status != 0 {
            assert_eq!(statuses_of, [status, status]);
        }
        world.pass(Duration::from_secs(1));
        let call = signed_call(&world).call_id("later");
        world.udp(CARRIER_A, &call);
        assert_eq!(world.signers.len(), 4);
    }
}

/// A phone believes `verstat`: nobody but this server writes it.
#[test]
fn the_result_that_a_sender_has_written_is_removed() {
    let forged = format!("sip:+{CALLER};verstat=TN-Validation-Passed@carrier.example");
    for (source, check) in [
        (CARRIER_A, CallerCheck::Verify),
        (CARRIER_A, CallerCheck::Off),
        (CARRIER_B, CallerCheck::Verify),
        (STRANGER, CallerCheck::Off),
    ] {
        let mut world = verifying(check);
        let call = call().from(&forged).line(&format!(
            "P-Asserted-Identity: \"x\" <{forged}>, <tel:+{CALLER};verstat=TN-Validation-Passed>"
        ));
        let sent = world.udp(source, &call);
        let sent = at_bob(&mut world, sent);
        assert!(!sent.text().contains("TN-Validation-Passed"), "{source} {check:?}\n{}", sent.text());
        assert!(sent.text().contains(&format!("+{CALLER}@")), "{}", sent.text());
        let is_checked = source == CARRIER_A && check == CallerCheck::Verify;
        assert_eq!(sent.text().matches("verstat=No-TN-Validation").count(), if is_checked { 2 } else { 0 });
        // The sender gets back what it wrote.
        let back = world.udp(BOB, &sent.answer(180, &[]));
        assert_eq!(only(back).header("From"), call.from);
    }
}

#[test]
fn a_call_in_a_dialog_and_what_ends_one_are_not_verified() {
    let mut world = verifying(CallerCheck::Require);
    let call = signed_call(&world);
    world.udp(CARRIER_A, &call);
    let sent = found(&mut world, Ok(certificate(1)));
    let sent = at_bob(&mut world, sent);
    let answer = only(world.udp(BOB, &sent.answer(200, &["Contact: <sip:bob@192.0.2.20>"])));
    for (cseq, method) in [(1, "ACK"), (2, "INVITE"), (3, "BYE")] {
        let mut request =
            crate::harness::request(method, "sip:bob@192.0.2.20").cseq(cseq).to(&answer.header("To"));
        request.via = format!("SIP/2.0/UDP {CARRIER_A};rport;branch=z9hG4bKin{cseq}");
        request.from = call.from.clone();
        let mut routes = answer.headers("Record-Route");
        routes.reverse();
        request.lines = routes.iter().map(|route| format!("Route: {route}")).collect();
        let sent = world.udp(CARRIER_A, &request);
        assert!(statuses(&sent).iter().all(|status| *status < 400), "{method} {:?}", statuses(&sent));
        assert_eq!(requests(sent).len(), 1, "{method}");
    }
    assert!(world.signers.is_empty());
}

/// Identity header fields with bytes changed at random: each is refused or waits, nothing panics, and none is taken for valid.
#[test]
fn changed_identities_are_never_valid() {
    let mut world = verifying(CallerCheck::Require);
    let mut seed = 7_u64;
    for round in 0..600 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut value = identity(&claims(&world)).into_bytes();
        let token_len = value.iter().position(|&byte| byte == b';').unwrap();
        let (at, byte) = ((seed >> 33) as usize % token_len, b'!' + (seed >> 24) as u8 % 90);
        if value[at] == byte {
            continue;
        }
        value[at] = byte;
        let line = format!("Identity: {}", String::from_utf8(value).unwrap());
        let sent = world.udp(CARRIER_A, &call().call_id(&format!("c{round}")).line(&line));
        let sent = if world.signers.is_empty() { sent } else { found(&mut world, Ok(certificate(1))) };
        assert!(requests(sent).is_empty(), "{at} {byte}");
        world.pass(Duration::from_millis(30));
    }
    assert_eq!(world.server.counters().identities_verified, 0);
}
