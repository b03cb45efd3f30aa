//! Tests of forms of digest: nonces for one use (RFC 7616 §3.5), `auth-int`, digests without qop (RFC 2069), `opaque`, realms
//! of domains, and phones that answer each challenge unusably.

use crate::challenge::{Login, answered, is_stale, nonce_of, proven};
use crate::harness::{
    ALICE, BOB, CAROL, Request, STRANGER, Sent, Wire, World, config, forwarded, invite, only, query,
    register, request,
};
use ringway_server::{Algorithm, Config, DigestPolicy, NoncePolicy};
use ringway_sip::digest::{AuthenticationInfo, Credentials, Ha1};
use std::time::Duration;

const ONCE: DigestPolicy = DigestPolicy { nonces: NoncePolicy::Once, auth_int: false, danger_rfc2069: false };
const AUTH_INT: DigestPolicy = DigestPolicy { auth_int: true, ..COUNT };
const RFC2069: DigestPolicy = DigestPolicy { danger_rfc2069: true, ..COUNT };
const COUNT: DigestPolicy =
    DigestPolicy { nonces: NoncePolicy::Count, auth_int: false, danger_rfc2069: false };

fn world(digest: DigestPolicy) -> World {
    World::with(|config| (config.auth.enabled, config.auth.digest) = (true, digest))
}

/// REGISTER of bob and its challenge.
fn challenged(world: &mut World) -> (Request, Sent) {
    let request = register("bob", "<sip:bob@192.0.2.20>").call_id("phone");
    let challenge = only(world.udp(BOB, &request));
    assert_eq!(challenge.status(), 401);
    (request, challenge)
}

/// Value of a header field of Authentication-Info, and that its `rspauth` is that of the request's credentials.
fn info_of(answer: &Sent, name: &str, request: &Request, user: &str, body: &[u8]) -> (String, bool) {
    let value = answer.header(name);
    let info = AuthenticationInfo::parse(value.as_bytes()).unwrap();
    let line = request.lines.iter().find(|line| line.contains("uthorization: Digest")).unwrap();
    let given = Credentials::parse(line.split_once(": ").unwrap().1.as_bytes()).unwrap().unwrap();
    let ha1 = Ha1::new(user.as_bytes(), given.realm, format!("{user}'s password").as_bytes());
    let proof = info.proof.map(|proof| {
        assert_eq!((Some(proof.cnonce), Some(proof.nc)), (given.cnonce, given.nc));
        assert_eq!(Some(proof.qop.name().as_bytes()), given.qop);
        let mut hex = [0; 64];
        assert_eq!(proof.rspauth, Algorithm::Md5.response(&ha1, b"", body, &given, &mut hex));
    });
    (String::from_utf8(info.nextnonce.unwrap().to_vec()).unwrap(), proof.is_some())
}

/// A request with a body, and credentials of bob or alice with `qop` for it.
fn with_body(request: &Request, login: &Login, qop: &str, body: &str) -> Vec<u8> {
    let algorithm = Algorithm::Md5;
    let line = login.line(request).replace("qop=auth,", &format!("qop={qop},"));
    let (name, value) = line.split_once(": ").unwrap();
    let mut given = Credentials::parse(value.as_bytes()).unwrap().unwrap();
    let ha1 = Ha1::new(login.user.as_bytes(), given.realm, login.password.as_bytes());
    let mut hex = [0; 64];
    given.response = algorithm.response(&ha1, request.method.as_bytes(), body.as_bytes(), &given, &mut hex);
    let mut value = Vec::new();
    given.write(&mut value);
    let line = format!("{name}: {}", String::from_utf8(value).unwrap());
    let request = request.clone().cseq(request.cseq + 1).line("Content-Type: text/plain").line(&line);
    let text = String::from_utf8(request.wire()).unwrap();
    text.replace("Content-Length: 0\r\n\r\n", &format!("Content-Length: {}\r\n\r\n{body}", body.len())).into()
}

// Nonces for one use

#[test]
fn with_count_no_authentication_info_is_sent() {
    let mut world = world(COUNT);
    let (request, challenge) = challenged(&mut world);
    let answer = only(world.udp(BOB, &answered(&request, &Login::to(&challenge, "bob"))));
    assert_eq!((answer.status(), answer.headers("Authentication-Info").len()), (200, 0));
}

#[test]
fn a_registration_gets_its_next_nonce_and_is_not_challenged_again() {
    let mut world = world(ONCE);
    let (request, challenge) = challenged(&mut world);
    let mut login = Login::to(&challenge, "bob");
    for cseq in 2..10 {
        let again = answered(&request.clone().cseq(cseq), &login);
        let answer = only(world.udp(BOB, &again));
        assert_eq!(answer.status(), 200, "{cseq}");
        let (next, is_proof) = info_of(&answer, "Authentication-Info", &again, "bob", b"");
        assert!(is_proof && next != login.nonce);
        login.nonce = next;
        world.pass(Duration::from_secs(60));
    }
    assert_eq!(world.server.counters().challenged, 1);
}

#[test]
fn a_second_use_of_a_nonce_is_stale_with_any_count_and_is_no_wrong_password() {
    let mut world = world(ONCE);
    let (request, challenge) = challenged(&mut world);
    let login = Login::to(&challenge, "bob");
    let first = answered(&request, &login.clone().nc(5));
    assert_eq!(only(world.udp(BOB, &first)).status(), 200);
    assert_eq!(only(world.udp(BOB, &first)).status(), 200, "a retransmission is no second use");
    for (cseq, nc) in [(10, 5), (11, 6), (12, 1), (13, u32::MAX)] {
        let answer = only(world.udp(BOB, &answered(&request.clone().cseq(cseq), &login.clone().nc(nc))));
        assert!(is_stale(&answer), "{nc}");
        let fresh = Login::to(&answer, "bob");
        assert_ne!(fresh.nonce, login.nonce);
        assert_eq!(only(world.udp(BOB, &answered(&request.clone().cseq(cseq + 10), &fresh))).status(), 200);
    }
    assert_eq!(world.server.counters().wrong_passwords, 0);
    assert_eq!(world.memory.tables().logins(), [10, 0, 0]);
}

#[test]
fn a_wrong_password_gets_no_next_nonce() {
    let mut world = world(ONCE);
    let (request, challenge) = challenged(&mut world);
    let wrong = Login { password: "wrong".into(), ..Login::to(&challenge, "bob") };
    let answer = only(world.udp(BOB, &answered(&request, &wrong)));
    assert_eq!((answer.status(), answer.headers("Authentication-Info").len()), (401, 0));
}

/// A cnonce that is long, or could close the quotes of the response, is not repeated.
#[test]
fn a_strange_cnonce_gets_a_next_nonce_and_no_proof() {
    for cnonce in [Box::leak("c".repeat(129).into_boxed_str()), "a\\\"b", "a\\", "a b", "ä"] {
        let mut world = world(ONCE);
        let (request, challenge) = challenged(&mut world);
        let login = Login { cnonce, ..Login::to(&challenge, "bob") };
        let request = answered(&request, &login);
        let sent = world.udp(BOB, &request);
        if cnonce == "a\\" {
            assert_eq!(only(sent).status(), 400, "its quotes do not close");
            continue;
        }
        let answer = only(sent);
        assert_eq!(answer.status(), 200, "{cnonce}");
        assert!(!info_of(&answer, "Authentication-Info", &request, "bob", b"").1, "{cnonce}");
    }
}

#[test]
fn every_final_response_to_a_call_has_the_next_nonce() {
    let mut world = world(ONCE);
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    let mut nonce = None;
    for (number, status) in [(1, 200), (2, 486), (3, 603), (4, 408)] {
        let call = invite("sip:bob@example.org").call_id(&format!("call {number}"));
        let login = match nonce {
            None => Login::to(&only(world.udp(ALICE, &call)), "alice"),
            Some(nonce) => Login {
                nonce,
                field: "Proxy-Authorization",
                ..Login::to(&only(world.udp(BOB, &query("bob").call_id(&format!("{number}")))), "alice")
            },
        };
        let call = answered(&call, &login);
        let got = forwarded(world.udp(ALICE, &call));
        let answer = match status {
            408 => world.pass(Duration::from_secs(33)).into_iter().find(|sent| sent.status() == 408).unwrap(),
            _ => {
                let ringing = only(world.udp(BOB, &got.answer(180, &[])));
                assert!(ringing.headers("Proxy-Authentication-Info").is_empty());
                let sent = world.udp(BOB, &got.answer(status, &["Contact: <sip:bob@192.0.2.20>"]));
                sent.into_iter().find(|sent| sent.status() == status).unwrap()
            }
        };
        let (next, is_proof) = info_of(&answer, "Proxy-Authentication-Info", &call, "alice", b"");
        assert!(is_proof, "{status}");
        nonce = Some(next);
        world.pass(Duration::from_secs(33));
    }
    assert_eq!(world.server.counters().challenged, 4, "alice once, and bob's three nonces of the test");
    assert_eq!(world.memory.tables().reserved_bytes(), 0);
}

#[test]
fn a_refused_call_has_none_and_is_challenged_once_more() {
    let mut world = world(ONCE);
    let call = invite("sip:bob@example.org");
    let challenge = only(world.udp(ALICE, &call));
    let login = Login::to(&challenge, "alice");
    let refused = only(world.udp(ALICE, &answered(&call, &login)));
    assert_eq!((refused.status(), refused.headers("Proxy-Authentication-Info").len()), (480, 0));
    assert!(is_stale(&only(world.udp(ALICE, &answered(&call.cseq(5), &login)))));
}

// auth-int

#[test]
fn auth_int_is_offered_where_it_is_on_and_covers_the_body() {
    let mut world = world(AUTH_INT);
    let (request, challenge) = challenged(&mut world);
    assert!(challenge.headers("WWW-Authenticate").iter().all(|line| line.ends_with("qop=\"auth,auth-int\"")));
    let login = Login::to(&challenge, "bob");
    let good = with_body(&request, &login, "auth-int", "v=0\r\n");
    let changed = String::from_utf8(good.clone()).unwrap().replace("v=0", "v=1").into_bytes();
    assert_eq!(only(world.udp(BOB, &changed)).status(), 401, "another body");
    assert_eq!(world.server.counters().wrong_passwords, 1);
    assert_eq!(only(world.udp(BOB, &good)).status(), 200);
    let with_auth = answered(&request.cseq(7), &login.nc(2));
    assert_eq!(only(world.udp(BOB, &with_auth)).status(), 200, "auth is accepted too");
}

#[test]
fn auth_int_that_is_not_offered_is_not_accepted() {
    let mut world = world(COUNT);
    let (request, challenge) = challenged(&mut world);
    let good = with_body(&request, &Login::to(&challenge, "bob"), "auth-int", "");
    assert_eq!(only(world.udp(BOB, &good)).status(), 401);
    let counters = world.server.counters();
    assert_eq!((counters.unusable_digests, counters.wrong_passwords), (1, 0));
}

#[test]
fn rspauth_of_auth_int_covers_the_body_of_our_response_only() {
    let mut world = world(DigestPolicy { auth_int: true, ..ONCE });
    let (request, challenge) = challenged(&mut world);
    let login = Login::to(&challenge, "bob");
    let good = with_body(&request, &login, "auth-int", "v=0\r\n");
    let answer = only(world.udp(BOB, &good));
    let line = login.line(&request).replace("qop=auth,", "qop=auth-int,");
    assert!(info_of(&answer, "Authentication-Info", &request.line(&line), "bob", b"").1);
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    let call = invite("sip:bob@example.org");
    let login = Login::to(&only(world.udp(ALICE, &call)), "alice");
    let got = forwarded(world.udp(ALICE, &with_body(&call, &login, "auth-int", "v=0\r\n")));
    let answer =
        only(world.udp(BOB, &got.answer(486, &[])).into_iter().filter(|sent| sent.status() == 486).collect());
    let value = answer.header("Proxy-Authentication-Info");
    assert!(value.starts_with("nextnonce=") && !value.contains("rspauth"), "{value}");
}

// Digests without qop

/// Credentials without qop for a challenge.
fn old(request: &Request, login: &Login) -> Request {
    let line = login.line(request);
    let (name, value) = line.split_once(": ").unwrap();
    let given = Credentials::parse(value.as_bytes()).unwrap().unwrap();
    let mut given = Credentials { qop: None, cnonce: None, nc: None, ..given };
    let ha1 = Ha1::new(login.user.as_bytes(), given.realm, login.password.as_bytes());
    let mut hex = [0; 64];
    given.response = Algorithm::Md5.response(&ha1, request.method.as_bytes(), b"", &given, &mut hex);
    let mut value = Vec::new();
    given.write(&mut value);
    let line = format!("{name}: {}", String::from_utf8(value).unwrap());
    request.clone().cseq(request.cseq + 1).line(&line)
}

#[test]
fn a_digest_without_qop_is_accepted_once_for_a_nonce_where_that_is_configured() {
    let mut world = world(RFC2069);
    let (request, challenge) = challenged(&mut world);
    let login = Login::to(&challenge, "bob");
    let first = old(&request, &login);
    assert_eq!(only(world.udp(BOB, &first)).status(), 200);
    assert_eq!(only(world.udp(BOB, &first)).status(), 200, "a retransmission");
    let mut stolen = old(&request.clone().cseq(8), &login);
    stolen.lines[0] = "Contact: <sip:eve@192.0.2.66>".into();
    assert!(is_stale(&only(world.udp(BOB, &stolen))), "the same response with another contact");
    let with_qop = answered(&request.clone().cseq(9), &login.clone().nc(9));
    assert!(is_stale(&only(world.udp(BOB, &with_qop))), "the nonce is used up for digests with qop too");
    let wrong = Login { password: "x".into(), ..login };
    let answer = only(world.udp(BOB, &old(&request.clone().cseq(10), &wrong)));
    assert!(answer.status() == 401 && !is_stale(&answer));
    assert_eq!(world.server.counters().wrong_passwords, 1);
    let answer = only(proven(&mut world, BOB, &request.cseq(20), "bob"));
    assert_eq!(answer.status(), 200, "phones with qop are not affected");
}

#[test]
fn a_phone_without_qop_gets_403_after_ten_challenges_and_one_a_minute() {
    let mut world = world(COUNT);
    let loop_of = |world: &mut World, from: &str, user: &str, rounds: u32| -> Vec<u16> {
        let request = register(user, "<sip:x@192.0.2.20>").call_id(&format!("{from} {user}"));
        let mut answer = only(world.udp(from, &request));
        let mut statuses = Vec::new();
        for cseq in 1..=rounds {
            let login = Login::to(&answer, user);
            let next = only(world.udp(from, &old(&request.clone().cseq(10 * cseq), &login)));
            statuses.push(next.status());
            if next.status() == 403 {
                assert!(next.start().ends_with("Digest Has No qop"), "{}", next.start());
                answer = only(world.udp(from, &request.clone().cseq(10 * cseq + 5)));
            } else {
                answer = next;
            }
            assert_eq!(answer.status(), 401);
        }
        statuses
    };
    assert_eq!(loop_of(&mut world, BOB, "bob", 13), [vec![401; 10], vec![403; 3]].concat());
    assert_eq!(loop_of(&mut world, BOB, "carol", 1), [401], "another user there");
    assert_eq!(loop_of(&mut world, CAROL, "bob", 1), [401], "the same user elsewhere");
    let counters = world.server.counters();
    assert_eq!((counters.unusable_digests, counters.unusable_refused), (15, 3));
    assert_eq!(counters.wrong_passwords, 0);
    world.pass(Duration::from_secs(120));
    assert_eq!(loop_of(&mut world, BOB, "bob", 3), [401, 401, 403]);
    let good = register("bob", "<sip:bob@192.0.2.20>").call_id("new phone");
    assert_eq!(
        only(proven(&mut world, BOB, &good, "bob")).status(),
        200,
        "a phone that works is not refused"
    );
}

/// Without a fresh nonce for its source a digest takes no token, so that forged addresses do nothing.
#[test]
fn digests_with_nonces_of_others_take_no_tokens() {
    let mut world = world(COUNT);
    let theirs = Login::to(&only(world.udp(STRANGER, &query("bob"))), "bob");
    for cseq in 1..50 {
        let forged = old(&query("bob").cseq(cseq), &theirs);
        assert_eq!(only(world.udp(BOB, &forged)).status(), 401);
    }
    assert_eq!(world.server.counters().unusable_digests, 0);
    assert_eq!(*world.memory.events.lock().unwrap(), [] as [&str; 0]);
    let (request, challenge) = challenged(&mut world);
    assert_eq!(only(world.udp(BOB, &old(&request, &Login::to(&challenge, "bob")))).status(), 401);
}

#[test]
fn a_call_that_cannot_be_verified_is_refused_likewise_and_leaves_no_state() {
    let mut world = world(COUNT);
    let call = request("MESSAGE", "sip:bob@example.org");
    let challenge = only(world.udp(ALICE, &call));
    let statuses: Vec<u16> = (0..12)
        .map(|number| {
            let again = call.clone().call_id(&format!("{number}"));
            only(world.udp(ALICE, &old(&again, &Login::to(&challenge, "alice")))).status()
        })
        .collect();
    assert_eq!(statuses, [vec![407; 10], vec![403; 2]].concat());
    assert_eq!((world.server.transactions_len(), world.server.contexts_len()), ((0, 0), 0));
}

// Realms and opaque

/// Server for example.org and example.net, which has a realm of its own.
fn two_realms(digest: DigestPolicy) -> World {
    let two = |config: &mut Config| {
        config.domains.push("example.net".into());
        assert!(config.auth.realms.add("example.net", "the other".into()));
        (config.auth.enabled, config.auth.digest) = (true, digest);
    };
    let world = World::with(two);
    world.memory.subscribe("dave", "example.net", "the other", "dave's password");
    world.memory.subscribe("eve", "example.net", "example.org", "eve's password");
    world
}

/// REGISTER of a user of example.net.
fn at_net(user: &str) -> Request {
    let mut request = request("REGISTER", "sip:example.net").call_id(user);
    request.from = format!("<sip:{user}@example.net>;tag=f");
    request.to = format!("<sip:{user}@example.net>");
    request.line("Contact: <sip:x@192.0.2.20>")
}

fn opaque_of(challenge: &Sent) -> String {
    challenge.text().split("opaque=\"").nth(1).unwrap().split('"').next().unwrap().into()
}

fn login_at_net(challenge: &Sent, user: &str) -> Login {
    Login { realm: "the other".into(), ..Login::to(challenge, user) }
}

#[test]
fn each_domain_asks_in_its_realm() {
    let mut world = two_realms(COUNT);
    let challenge = only(world.udp(BOB, &at_net("dave")));
    assert!(challenge.headers("WWW-Authenticate")[0].starts_with("Digest realm=\"the other\","));
    let answer = only(world.udp(BOB, &answered(&at_net("dave"), &login_at_net(&challenge, "dave"))));
    assert_eq!(answer.status(), 200);
    let (request, challenge) = challenged(&mut world);
    assert!(challenge.headers("WWW-Authenticate")[0].starts_with("Digest realm=\"example.org\","));
    assert_eq!(only(world.udp(BOB, &answered(&request, &Login::to(&challenge, "bob")))).status(), 200);
    let in_other_realm = login_at_net(&only(world.udp(BOB, &at_net("eve"))), "eve");
    let answer = only(world.udp(BOB, &answered(&at_net("eve"), &in_other_realm)));
    assert_eq!(answer.status(), 401, "her H(A1) was made for another realm");
    let mut call = invite("sip:bob@example.org").call_id("of dave");
    call.from = "<sip:dave@example.net>;tag=f".into();
    let challenge = only(world.udp(BOB, &call));
    assert!(challenge.headers("Proxy-Authenticate")[0].starts_with("Digest realm=\"the other\","));
}

#[test]
fn credentials_for_any_realm_of_ours_are_not_forwarded() {
    let mut world = two_realms(COUNT);
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    let call = invite("sip:bob@example.org");
    let challenge = only(world.udp(ALICE, &call));
    let foreign = login_at_net(&challenge, "dave").line(&call);
    let theirs = foreign.replace("the other", "somewhere else");
    let call = answered(&call, &Login::to(&challenge, "alice")).line(&foreign).line(&theirs);
    let sent = forwarded(world.udp(ALICE, &call));
    let passed = sent.headers("Proxy-Authorization");
    assert!(passed.len() == 1 && passed[0].contains("somewhere else"), "{passed:?}");
}

#[test]
fn opaque_is_that_of_the_realm_and_another_one_is_challenged_and_then_refused() {
    let mut world = two_realms(COUNT);
    let (request, challenge) = challenged(&mut world);
    let (bobs, daves) = (opaque_of(&challenge), opaque_of(&only(world.udp(BOB, &at_net("dave")))));
    assert!(bobs.len() == 8 && daves.len() == 8 && bobs != daves);
    let send = |world: &mut World, cseq: u32, opaque: &str| {
        let challenge = only(world.udp(BOB, &request.clone().cseq(cseq)));
        let mut answer = answered(&request.clone().cseq(cseq), &Login::to(&challenge, "bob"));
        let line = answer.lines.pop().unwrap();
        only(world.udp(BOB, &answer.line(&format!("{line}, opaque=\"{opaque}\""))))
    };
    assert_eq!(send(&mut world, 10, &bobs).status(), 200);
    for cseq in 2..12 {
        assert!(is_stale(&send(&mut world, 10 * cseq, &daves)), "its user need not type the password again");
    }
    let refused = send(&mut world, 200, "0");
    assert_eq!(refused.start(), "SIP/2.0 403 Digest Has Another opaque");
    assert_eq!(world.server.counters().wrong_passwords, 0);
    let left_out = answered(&request.clone().cseq(300), &Login::to(&challenge, "bob"));
    assert_eq!(only(world.udp(BOB, &left_out)).status(), 200);
}

#[test]
fn challenges_of_one_realm_have_no_opaque() {
    let mut world = world(COUNT);
    let (_, challenge) = challenged(&mut world);
    let nonce = nonce_of(&challenge);
    let expected = format!("Digest realm=\"example.org\",nonce=\"{nonce}\",algorithm=MD5,qop=\"auth\"");
    assert_eq!(challenge.headers("WWW-Authenticate")[1], expected);
    assert_eq!(config().auth.realms.of(b"example.net"), "example.org");
}
