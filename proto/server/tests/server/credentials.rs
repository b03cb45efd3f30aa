//! Tests of credentials (RFC 3261 §22, RFC 7616, RFC 8760): permissions to register and to call, and replays.

use crate::challenge::{Login, answered, is_stale, nonce_of, proven};
use crate::harness::{
    ALICE, BOB, CAROL, Request, STRANGER, World, forwarded, invite, only, query, register, request, requests,
    statuses,
};
use ringway_sansio::Seed;
use ringway_server::{Algorithm, NonceMaker};
use std::time::Duration;

/// REGISTER of bob and its challenge.
fn challenged(world: &mut World) -> (Request, Login) {
    let request = register("bob", "<sip:bob@192.0.2.20>").call_id("phone");
    let challenge = only(world.udp(BOB, &request));
    assert_eq!(challenge.status(), 401);
    (request, Login::to(&challenge, "bob"))
}

#[test]
fn the_right_password_is_accepted_with_either_algorithm() {
    for algorithm in [Algorithm::Md5, Algorithm::Sha256] {
        let mut world = World::closed();
        let (request, login) = challenged(&mut world);
        let answer = only(world.udp(BOB, &answered(&request, &login.algorithm(algorithm))));
        assert_eq!((answer.status(), answer.headers("Contact").len()), (200, 1));
        assert_eq!((world.server.counters().challenged, world.server.counters().authenticated), (1, 1));
    }
}

#[test]
fn an_algorithm_that_is_not_offered_proves_nothing() {
    let mut world = World::with(|config| {
        config.auth.enabled = true;
        config.auth.algorithms = vec![Algorithm::Sha256];
    });
    let (request, login) = challenged(&mut world);
    assert_eq!(only(world.udp(BOB, &answered(&request, &login))).status(), 401);
}

#[test]
fn a_client_that_names_no_algorithm_means_md5() {
    let mut world = World::closed();
    let (request, login) = challenged(&mut world);
    let mut request = answered(&request, &login);
    let line = request.lines.pop().unwrap().replace(" algorithm=MD5,", "");
    assert_eq!(only(world.udp(BOB, &request.line(&line))).status(), 200);
}

#[test]
fn a_wrong_password_is_asked_again_and_is_not_stale() {
    let mut world = World::closed();
    let (request, login) = challenged(&mut world);
    let wrong = Login { password: "wrong".into(), ..login.clone() };
    let answer = only(world.udp(BOB, &answered(&request, &wrong)));
    assert!(answer.status() == 401 && !is_stale(&answer));
    assert_eq!(world.server.location().bindings_len(), 0);
    // The count is still unused: only a proven password uses it.
    assert_eq!(only(world.udp(BOB, &answered(&request, &login))).status(), 200);
}

#[test]
fn a_nonce_too_old_is_stale_and_does_not_reveal_if_the_password_is_right() {
    let mut world = World::closed();
    let (request, login) = challenged(&mut world);
    world.pass(Duration::from_secs(301));
    assert!(is_stale(&only(world.udp(BOB, &answered(&request, &login)))));
    let wrong = Login { password: "wrong".into(), ..login };
    assert!(is_stale(&only(world.udp(BOB, &answered(&request, &wrong)))));
    assert_eq!(world.memory.tables().logins(), [0, 0, 0], "no password was checked");
}

#[test]
fn a_nonce_of_another_secret_is_stale_and_does_not_reveal_if_the_password_is_right() {
    let mut world = World::closed();
    let (request, login) = challenged(&mut world);
    let mut nonce = Vec::new();
    NonceMaker::new(&[8; 32], &Seed::from_number(1), Duration::from_secs(300), 0).write(
        world.now,
        ALICE.parse::<std::net::SocketAddr>().unwrap().ip(),
        &mut nonce,
    );
    let forged = Login { nonce: String::from_utf8(nonce).unwrap(), ..login.clone() };
    let invented = Login { nonce: "mine".into(), ..login };
    for right in [forged, invented] {
        let wrong = Login { password: "wrong".into(), ..right.clone() };
        for login in [right, wrong] {
            assert!(is_stale(&only(world.udp(BOB, &answered(&request, &login)))));
        }
    }
    assert_eq!(world.memory.tables().logins(), [0, 0, 0], "no password was checked");
}

#[test]
fn a_nonce_count_proves_a_password_once() {
    let mut world = World::closed();
    let (request, login) = challenged(&mut world);
    assert_eq!(only(world.udp(BOB, &answered(&request, &login))).status(), 200);
    let next = answered(&request.clone().cseq(5), &login);
    assert!(is_stale(&only(world.udp(BOB, &next))), "another request with the same count");
    let next = answered(&request.clone().cseq(6), &login.clone().nc(3));
    assert_eq!(only(world.udp(BOB, &next)).status(), 200, "counts may be left out");
    let next = answered(&request.clone().cseq(7), &login.clone().nc(2));
    assert_eq!(only(world.udp(BOB, &next)).status(), 200, "and come late");
    let next = answered(&request.cseq(8), &login.nc(2));
    assert!(is_stale(&only(world.udp(BOB, &next))), "but once only");
}

#[test]
fn a_retransmission_is_no_replay() {
    let mut world = World::closed();
    let (request, login) = challenged(&mut world);
    let request = answered(&request, &login);
    assert_eq!(only(world.udp(BOB, &request)).status(), 200);
    world.pass(Duration::from_secs(4));
    assert_eq!(only(world.udp(BOB, &request)).status(), 200, "the 200 was lost");
    world.pass(Duration::from_secs(33));
    assert!(is_stale(&only(world.udp(BOB, &request))), "no retransmission comes so late");
}

#[test]
fn a_captured_invite_does_not_ring_again() {
    let replays = [0, 3, 6, 10, 31, 33].map(Duration::from_secs);
    for (status, seconds) in
        [200, 486, 487].into_iter().flat_map(|status| replays.map(|after| (status, after)))
    {
        let mut world = World::closed();
        world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20:5060"]);
        let call = invite("sip:bob@example.org");
        let challenge = only(world.udp(ALICE, &call));
        let call = answered(&call, &Login::to(&challenge, "alice"));
        let got = forwarded(world.udp(ALICE, &call));
        assert_eq!(statuses(&world.udp(ALICE, &call)), [100], "a retransmission of the call under way");
        if status == 487 {
            world.udp(BOB, &got.answer(180, &[]));
            world.udp(ALICE, &call.cancel());
        }
        let sent = world.udp(BOB, &got.answer(status, &["Contact: <sip:bob@192.0.2.20>"]));
        let answer = sent.iter().find(|sent| sent.status() == status).expect("the final response");
        world.udp(ALICE, &call.ack_of(answer));
        world.pass(seconds);
        let sent = world.udp(ALICE, &call);
        assert!(requests(sent.clone()).is_empty(), "{status}: it rings after {seconds:?}");
        assert!(sent.iter().all(|sent| sent.status() == 200 || is_stale(sent)), "{status} {seconds:?}");
        let is_replay = sent.iter().any(is_stale) && seconds < Duration::from_secs(32);
        assert!(!is_replay || world.server.counters().invites_replayed == 1, "{status} {seconds:?}");
    }
}

#[test]
fn a_refused_invite_that_is_retransmitted_gets_the_same_answer() {
    let mut world = World::closed();
    let call = invite("sip:nobody@example.org");
    let challenge = only(world.udp(ALICE, &call));
    let call = answered(&call, &Login::to(&challenge, "alice"));
    let refusal = only(world.udp(ALICE, &call));
    assert_eq!(refusal.status(), 404);
    world.pass(Duration::from_secs(4));
    assert_eq!(only(world.udp(ALICE, &call)).bytes, refusal.bytes, "the 404 was lost");
}

#[test]
fn a_stateless_proxy_forwards_retransmissions() {
    let mut world = World::with(|config| {
        config.auth.enabled = true;
        config.stateful = false;
    });
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20:5060"]);
    let call = invite("sip:bob@example.org");
    let challenge = only(world.udp(ALICE, &call));
    let call = answered(&call, &Login::to(&challenge, "alice"));
    let first = forwarded(world.udp(ALICE, &call));
    world.pass(Duration::from_millis(500));
    assert_eq!(forwarded(world.udp(ALICE, &call)).uri(), first.uri());
}

#[test]
fn a_replay_from_another_source_is_refused() {
    let mut world = World::closed();
    let (request, login) = challenged(&mut world);
    let request = answered(&request, &login);
    assert_eq!(only(world.udp(BOB, &request)).status(), 200);
    for source in ["192.0.2.20:5061", STRANGER] {
        assert!(is_stale(&only(world.udp(source, &request))), "{source}");
    }
    assert!(is_stale(&only(world.tcp(3, BOB, &request.clone().tcp()))));
}

#[test]
fn a_replay_with_another_contact_is_refused() {
    let mut world = World::closed();
    let (request, login) = challenged(&mut world);
    let request = answered(&request, &login);
    assert_eq!(only(world.udp(BOB, &request)).status(), 200);
    let mut changed = request;
    changed.lines =
        changed.lines.iter().map(|line| line.replace("Contact: <sip:bob@", "Contact: <sip:eve@")).collect();
    assert!(is_stale(&only(world.udp(BOB, &changed))));
}

#[test]
fn a_replay_over_a_connection_is_refused_even_from_the_same_source() {
    let mut world = World::closed();
    let request = register("bob", "<sip:bob@192.0.2.20;transport=tcp>").tcp();
    let challenge = only(world.tcp(1, BOB, &request));
    let request = answered(&request, &Login::to(&challenge, "bob"));
    assert_eq!(only(world.tcp(1, BOB, &request)).status(), 200);
    world.pass(Duration::from_millis(1));
    assert!(is_stale(&only(world.tcp(1, BOB, &request))), "a stream has no retransmissions");
    assert!(is_stale(&only(world.tcp(2, BOB, &request))));
}

#[test]
fn a_user_cannot_register_another_user() {
    let mut world = World::closed();
    let request = register("bob", "<sip:alice@192.0.2.10>");
    let answer = only(proven(&mut world, ALICE, &request, "alice"));
    assert_eq!(answer.status(), 403);
    assert_eq!((world.server.location().bindings_len(), world.server.counters().forbidden), (0, 1));
}

#[test]
fn a_user_cannot_call_as_another_user() {
    let mut world = World::closed();
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    let call = invite("sip:bob@example.org");
    let refused = only(proven(&mut world, CAROL, &call, "carol"));
    assert_eq!(refused.status(), 403);
    let sent = proven(&mut world, ALICE, &call.clone().call_id("mine"), "alice");
    assert_eq!(statuses(&sent), [100]);
    let nameless = call.call_id("nameless").from("sip:example.org");
    assert_eq!(only(world.udp(ALICE, &nameless)).status(), 403);
}

#[test]
fn credentials_for_us_end_here_and_others_go_on() {
    let mut world = World::closed();
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    let theirs = "Digest username=\"a\", realm=\"example.net\", nonce=\"n\", uri=\"u\", response=\"r\"";
    let call = invite("sip:bob@example.org")
        .line(&format!("Proxy-Authorization: {theirs}"))
        .line("Authorization: Bearer abc")
        .line(&format!("Authorization: {}", theirs.replace("example.net", "example.org")));
    let sent = forwarded(proven(&mut world, ALICE, &call, "alice"));
    assert_eq!(sent.headers("Proxy-Authorization"), [theirs]);
    assert_eq!(sent.headers("Authorization"), ["Bearer abc"]);
}

#[test]
fn credentials_for_us_end_here_in_any_spelling() {
    // No passwords are required, so the credentials are not verified.
    let mut world = World::open();
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    let good = "Digest username=\"a\", realm=\"example.net\", nonce=\"n\", uri=\"u\", response=\"r\"";
    let ours = good.replace("example.net", "example.org");
    for (number, (value, passes)) in [
        (good.to_owned(), true),
        ("Bearer abc".into(), true),
        (ours.clone(), false),
        (ours.replace("example.org", "EXAMPLE.org"), false),
        (ours.replace("example.org", "ex\\ample.\\org"), false),
        (ours.replace("example.org", " example.org "), false),
        (ours.replace("\"example.org\"", "example.org"), false),
        (ours.replace("Digest", "dIGEST"), false),
        (ours.replace("Digest ", "Digest\t"), false),
        (ours.replace("Digest ", "Digest,"), false),
        (ours.replace(", response=\"r\"", ""), false),
        (ours.replace("response=\"r\"", "response=\"r"), false),
        (format!("{ours}, realm=\"example.net\""), false),
        (format!("{good}, realm=\"example.org\""), false),
        (format!("{good}, {ours}"), false),
        ("Basic Ym9iOnBhc3N3b3Jk".into(), false),
        ("Digest".into(), false),
        (String::new(), false),
    ]
    .into_iter()
    .enumerate()
    {
        for name in ["Authorization", "Proxy-Authorization"] {
            for method in ["INVITE", "MESSAGE", "ACK"] {
                let request =
                    request(method, "sip:bob@example.org").call_id(&format!("{number}{name}{method}"));
                let sent = forwarded(world.udp(ALICE, &request.line(&format!("{name}: {value}"))));
                assert_eq!(sent.headers(name), if passes { vec![value.clone()] } else { vec![] }, "{value}");
            }
        }
    }
}

#[test]
fn two_headers_of_one_client_are_read_both() {
    let mut world = World::closed();
    let (request, login) = challenged(&mut world);
    let wrong = Login { password: "wrong".into(), ..login.clone() }.algorithm(Algorithm::Sha256);
    for (first, second) in [
        (login.clone().algorithm(Algorithm::Sha256), login.clone()),
        (wrong.clone(), login.clone().nc(2)),
        (login.clone().nc(3), wrong),
    ] {
        let both = request.clone().cseq(first.nc.max(second.nc) + 1).line(&first.line(&request));
        let both = both.line(&second.line(&request));
        assert_eq!(only(world.udp(BOB, &both)).status(), 200);
    }
}

#[test]
fn a_header_that_cannot_be_read_is_400() {
    let mut world = World::closed();
    for value in [
        "Digest",
        "Digest username=\"bob\"",
        "Digest username=\"bob",
        "Digest username=bob,realm=b,nonce=c,uri=d,response=e,realm=f",
        "Digest ,,,",
    ] {
        let request = query("bob").line(&format!("Authorization: {value}"));
        assert_eq!(only(world.udp(BOB, &request)).status(), 400, "{value}");
    }
}

#[test]
fn what_has_no_digest_of_ours_is_challenged() {
    let mut world = World::closed();
    let (request, login) = challenged(&mut world);
    let good = login.line(&request);
    let without_cnonce = Login { cnonce: "", ..login.clone() }.line(&request).replace("cnonce=\"\", ", "");
    for line in [
        "Authorization: Basic Ym9iOnBhc3N3b3Jk".into(),
        good.replace("realm=\"example.org\"", "realm=\"example.net\""),
        good.replace("algorithm=MD5", "algorithm=MD5-sess"),
        good.replace("algorithm=MD5", "algorithm=SHA-512-256"),
        // RFC 2069: without qop there is no nonce count.
        good.replace(", qop=auth", ""),
        good.replace("qop=auth", "qop=auth-int"),
        good.replace(", nc=00000001", ""),
        good.replace("nc=00000001", "nc=1"),
        good.replace("nc=00000001", "nc=00000000"),
        without_cnonce,
        good.replace("username=\"bob\"", "username=\"alice\""),
        good.replace("Authorization", "Proxy-Authorization"),
    ] {
        let request = request.clone().cseq(2).line(&line);
        assert_eq!(only(world.udp(BOB, &request)).status(), 401, "{line}");
    }
    assert_eq!(only(world.udp(BOB, &request.cseq(3).line(&good))).status(), 200, "the count is unused");
}

#[test]
fn the_digest_uri_is_the_request_uri_or_the_server() {
    let permanent = |world: &mut World| {
        world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    };
    for (uri, expected) in [
        ("sip:bob@example.org", Ok((0, 0))),
        ("sip:b%6Fb@EXAMPLE.org", Ok((0, 0))),
        ("sip:example.org", Ok((1, 0))),
        ("sip:example.org:5060", Ok((1, 0))),
        ("sip:example.org.", Ok((1, 0))),
        ("sip:192.0.2.1:5060", Ok((1, 0))),
        ("sip:192.0.2.1;transport=udp", Ok((1, 0))),
        ("sip:bob@example.org:5060", Ok((0, 1))),
        ("sip:bob@example.org:15060", Ok((0, 1))),
        ("sip:bob@example.org;user=phone", Ok((0, 1))),
        ("sip:bob@Example.org.;transport=UDP", Ok((0, 1))),
        ("sip:bob@example.org;maddr=203.0.113.66", Err(400)),
        ("sip:carol@example.org", Err(400)),
        ("sip:Bob@example.org", Err(400)),
        ("sips:bob@example.org", Err(400)),
        ("sip:example.net", Err(400)),
        ("sip:192.0.2.2:5060", Err(400)),
        ("sip:192.0.2.1:5061", Err(400)),
        ("bob", Err(400)),
        ("*", Err(400)),
    ] {
        let mut world = World::closed();
        permanent(&mut world);
        let call = invite("sip:bob@example.org");
        let login = Login::to(&only(world.udp(ALICE, &call)), "alice");
        // The password is proven for this URI, for any Request-URI.
        let line = login.line(&Request { uri: uri.into(), ..call.clone() });
        let sent = world.udp(ALICE, &call.cseq(2).line(&line));
        let counters = world.server.counters();
        let counted = (counters.digest_uri_server, counters.digest_uri_alike, counters.digest_uri_other);
        match expected {
            Ok((server, alike)) => {
                assert_eq!((statuses(&sent), counted), (vec![100], (server, alike, 0)), "{uri}");
            }
            Err(status) => assert_eq!((statuses(&sent), counted), (vec![status], (0, 0, 1)), "{uri}"),
        }
    }
}

/// The Request-URI has what the digest's `uri` lacks.
#[test]
fn the_digest_uri_may_lack_a_port_and_parameters_of_the_request_uri() {
    for uri in ["sip:bob@example.org:5060", "sip:bob@example.org;user=phone", "sip:bob@example.org."] {
        let mut world = World::closed();
        world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
        let call = invite(uri);
        let login = Login::to(&only(world.udp(ALICE, &call)), "alice");
        let line = login.line(&Request { uri: "sip:bob@example.org".into(), ..call.clone() });
        assert_eq!(statuses(&world.udp(ALICE, &call.cseq(2).line(&line))), [100], "{uri}");
        assert_eq!(world.server.counters().digest_uri_alike, 1, "{uri}");
    }
}

/// Phones that want an address for the account write it as the user name; H(A1) is another one then.
#[test]
fn the_user_name_may_be_the_address_of_the_user() {
    let login_as = |user: &str, password: &str, algorithm: Algorithm| {
        let mut world = World::closed();
        let (request, login) = challenged(&mut world);
        let login = Login { user: user.into(), password: password.into(), ..login }.algorithm(algorithm);
        let sent = only(world.udp(BOB, &answered(&request, &login)));
        let counters = world.server.counters();
        (sent.status(), counters.full_usernames, counters.wrong_passwords)
    };
    for algorithm in [Algorithm::Md5, Algorithm::Sha256] {
        assert_eq!(login_as("bob@example.org", "bob's password", algorithm), (200, 1, 0));
        assert_eq!(login_as("bob", "bob's password", algorithm), (200, 0, 0));
    }
    for (user, password, expected) in [
        ("bob@example.org", "another", (401, 0, 1)),
        ("bob@example.net", "bob's password", (401, 0, 1)),
        ("dave@example.org", "bob's password", (401, 0, 1)),
        ("@example.org", "bob's password", (401, 0, 1)),
        ("carol@example.org", "carol's password", (403, 1, 0)),
    ] {
        assert_eq!(login_as(user, password, Algorithm::Md5), expected, "{user}");
    }
    // Some hash the user alone, and some take the realm for the domain.
    for name in ["bob@example.org", "bob@EXAMPLE.org", "bob@example.org.", "bob@the realm"] {
        let mut world = World::with(|config| {
            config.auth.enabled = true;
            config.auth.realms = "the realm".into();
        });
        world.memory.subscribe("bob", "example.org", "the realm", "bob's password");
        let (request, login) = challenged(&mut world);
        let line = Login { realm: "the realm".into(), ..login }.line(&request);
        let line = line.replace("username=\"bob\"", &format!("username=\"{name}\""));
        assert_eq!(only(world.udp(BOB, &request.cseq(2).line(&line))).status(), 200, "{name}");
        assert_eq!(world.server.counters().full_usernames, 1, "{name}");
    }
    // An escape in the quoted string is not hashed.
    let mut world = World::closed();
    let (request, login) = challenged(&mut world);
    let line = Login { user: "bob@example.org".into(), ..login }.line(&request);
    let line = line.replace("\"bob@example.org\"", "\"b\\ob\\@example.org\"");
    assert_eq!(only(world.udp(BOB, &request.cseq(2).line(&line))).status(), 200);
    // A user of that very name is meant first.
    let mut world = World::closed();
    world.add_user("bob@example.org", "example.org", "secret");
    let (request, login) = challenged(&mut world);
    let login = Login { user: "bob@example.org".into(), ..login };
    assert_eq!(only(world.udp(BOB, &answered(&request, &login))).status(), 401);
    // Each domain has its own realm.
    let mut world = World::with(|config| {
        config.auth.enabled = true;
        config.domains.push("second.example".into());
        assert!(config.auth.realms.add("second.example", "second realm".into()));
    });
    world.memory.subscribe("bob", "second.example", "second realm", "bob's password");
    let mut request = register("bob", "<sip:bob@192.0.2.20>");
    request.to = "<sip:bob@second.example>".into();
    let login = Login::to(&only(world.udp(BOB, &request)), "bob");
    let login = Login { user: "bob@second.example".into(), realm: "second realm".into(), ..login };
    assert_eq!(only(world.udp(BOB, &answered(&request, &login))).status(), 200);
    // A password of which only the hash of the plain name is known: who hashes that logs in.
    for (hashed, expected) in [("bob", (200, 1, 0)), ("bob@example.org", (401, 0, 1))] {
        let mut world = World::closed();
        world.memory.forget_full("bob", "example.org");
        let (request, login) = challenged(&mut world);
        let line = Login { user: hashed.into(), ..login }.line(&request);
        let line = line.replace("username=\"bob\"", "username=\"bob@example.org\"");
        let status = only(world.udp(BOB, &request.cseq(2).line(&line))).status();
        let counters = world.server.counters();
        assert_eq!((status, counters.full_usernames, counters.wrong_passwords), expected, "{hashed}");
    }
    // Calls too.
    let mut world = World::closed();
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    let call = invite("sip:bob@example.org");
    let login = Login::to(&only(world.udp(ALICE, &call)), "alice");
    let line = Login { user: "alice@example.org".into(), ..login }.line(&call);
    assert_eq!(statuses(&world.udp(ALICE, &call.cseq(2).line(&line))), [100]);
}

/// A domain and the same with a dot at its end are one (RFC 1034 §3.1), in REGISTER, From, To and Request-URI.
#[test]
fn a_domain_may_end_in_a_dot() {
    let mut world = World::closed();
    let mut register = register("bob", "<sip:bob@192.0.2.20>");
    register.uri = "sip:example.org.".into();
    register.to = "<sip:bob@example.org.>".into();
    register.from = "<sip:bob@EXAMPLE.org.>;tag=from-bob".into();
    let line = Login::to(&only(world.udp(BOB, &register)), "bob").line(&register);
    assert_eq!(only(world.udp(BOB, &register.cseq(2).line(&line))).status(), 200);
    for (id, from, uri) in [
        ("1", "sip:alice@example.org.", "sip:bob@example.org"),
        ("2", "sip:alice@example.org", "sip:bob@example.org."),
        ("3", "sip:alice@example.org", "sip:bob@example.org.:5060"),
    ] {
        let call = invite(uri).from(from).call_id(id);
        let line = Login::to(&only(world.udp(ALICE, &call)), "alice").line(&call);
        let sent = only(requests(world.udp(ALICE, &call.cseq(2).line(&line))));
        assert_eq!((sent.to().as_str(), sent.uri().as_str()), (BOB, "sip:bob@192.0.2.20"), "{from} {uri}");
    }
    assert_eq!(world.server.counters().root_dots, 8, "each with its challenge");
    let other = invite("sip:bob@example.org..").call_id("4").from("sip:x@example.com");
    assert_eq!(requests(world.udp(STRANGER, &other)).len(), 0, "two dots are no root");
}

/// Behind a port forward the server's address is not the one that SIPp sends to.
#[test]
fn behind_a_translator_the_digest_uri_may_be_any_address_without_a_user() {
    for (uri, status) in [
        ("sip:127.0.0.1:15060", 100),
        ("sip:203.0.113.9", 100),
        ("sip:bob@203.0.113.9", 400),
        ("sip:example.net", 400),
    ] {
        let mut world = World::with(|config| {
            config.auth.enabled = true;
            for listener in &mut config.listeners[..2] {
                listener.advertised = "10.0.2.15:5060".parse().unwrap();
                listener.bound = listener.advertised;
            }
        });
        world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
        let call = invite("sip:bob@example.org");
        let login = Login::to(&only(world.udp(ALICE, &call)), "alice");
        let line = login.line(&Request { uri: uri.into(), ..call.clone() });
        assert_eq!(statuses(&world.udp(ALICE, &call.cseq(2).line(&line))), [status], "{uri}");
    }
}

#[test]
fn a_request_from_before_a_restart_is_stale_with_any_clock() {
    let mut world = World::closed();
    world.pass(Duration::from_secs(3600));
    let (request, login) = challenged(&mut world);
    let captured = answered(&request, &login);
    assert_eq!(only(world.udp(BOB, &captured)).status(), 200);
    let made = world.now;
    for behind_s in [0, 1, 10, 299, 3600] {
        let mut world = World::closed_restarted(made - Duration::from_secs(behind_s));
        for wait_s in [0, 1, 10, 250] {
            world.pass(Duration::from_secs(wait_s));
            let answer = only(world.udp(BOB, &captured));
            assert!(is_stale(&answer), "{behind_s} s behind, {wait_s} s later: {}", answer.status());
        }
        // The phone authenticates again without its user.
        let (request, login) = challenged(&mut world);
        assert_eq!(only(world.udp(BOB, &answered(&request, &login))).status(), 200);
    }
}

#[test]
fn a_user_name_may_need_escapes() {
    let mut world = World::closed();
    world.add_user("o\"b", "example.org", "secret");
    let mut request = register("bob", "<sip:x@192.0.2.20>");
    request.to = "<sip:o%22b@example.org>".into();
    let challenge = only(world.udp(BOB, &request));
    let login = Login { user: "o\\\"b".into(), password: "secret".into(), ..Login::to(&challenge, "") };
    assert_eq!(only(world.udp(BOB, &answered(&request, &login))).status(), 200);
}

#[test]
fn a_realm_may_have_several_domains_with_users_of_their_own() {
    let mut world = World::with(|config| {
        config.auth.enabled = true;
        config.domains = vec!["example.org".into(), "example.com".into()];
    });
    let request = register("bob", "<sip:x@192.0.2.20>").to("<sip:bob@example.com>");
    let answer = only(proven(&mut world, BOB, &request, "bob"));
    assert_eq!(answer.status(), 401, "bob is a user of example.org only");
    world.add_user("bob", "example.com", "bob's password");
    assert_eq!(only(proven(&mut world, BOB, &request.cseq(9), "bob")).status(), 200);
    assert_eq!(world.server.location().iter().next().unwrap().to_owned().aor, b"bob@example.com");
}

#[test]
fn every_method_that_begins_something_is_challenged() {
    let mut world = World::closed();
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    for method in ["INVITE", "MESSAGE", "SUBSCRIBE", "PUBLISH", "REFER", "OPTIONS", "NOTIFY", "BYE", "FOO"] {
        let request = request(method, "sip:bob@example.org").call_id(method);
        let challenge = only(world.udp(ALICE, &request));
        assert_eq!(challenge.status(), 407, "{method}");
        let login = Login::to(&challenge, "alice");
        assert_eq!(forwarded(world.udp(ALICE, &answered(&request, &login))).method(), method);
    }
}

#[test]
fn a_nonce_of_one_shard_is_good_on_the_next_request() {
    let mut world = World::closed();
    let (request, login) = challenged(&mut world);
    for count in 1..100 {
        let next = answered(&request.clone().cseq(count), &login.clone().nc(count));
        let answer = only(world.udp(BOB, &next));
        assert_eq!(answer.status(), 200, "{count}");
    }
    assert_eq!(world.server.counters().challenged, 1, "phones that keep their nonce are not asked again");
    assert_ne!(nonce_of(&only(world.udp(CAROL, &query("carol")))), login.nonce);
}
