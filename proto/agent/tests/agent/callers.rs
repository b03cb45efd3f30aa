//! Tests of callers that must prove a password, and of called phones that challenge.

use crate::harness::{
    ALICE, OWN, PEER, SERVER, Sent, Table, account_at_server, answer, in_dialog, invite, media, sdp,
};
use ringway_agent::{Account, AgentEvent, CallerAuth, Config, Ha1, PeerCredentials};
use ringway_sip::digest::{Algorithm, Credentials, ReceivedChallenge};

const REALM: &str = "alice@example.org";

fn challenging() -> Table {
    Table::with(Account::direct("sip:alice@example.org"), |config: &mut Config| {
        let ha1 = Ha1::new(b"bob", REALM.as_bytes(), b"secret");
        config.caller_auth = Some(CallerAuth { realm: REALM.into(), users: vec![("bob".into(), ha1)] });
    })
}

/// INVITE without credentials.
fn bare(call_id: &str) -> String {
    invite(call_id, 1, Some(&sdp("10.0.0.2", 7000)))
}

/// Next INVITE of the same call, with credentials for the challenge.
fn proving(call_id: &str, challenge: &Sent, password: &str, uri: &str) -> String {
    let line = challenge.field("WWW-Authenticate").unwrap();
    let challenge = ReceivedChallenge::all(line.as_bytes()).next().unwrap();
    let mut given = Credentials {
        username: b"bob",
        realm: challenge.realm,
        nonce: challenge.nonce,
        uri: uri.as_bytes(),
        algorithm: challenge.algorithm,
        cnonce: Some(b"c"),
        qop: Some(b"auth"),
        nc: Some(b"00000001"),
        ..Credentials::default()
    };
    let ha1 = Ha1::new(b"bob", challenge.realm, password.as_bytes());
    let mut hex = [0; 64];
    let algorithm = Algorithm::from_name(challenge.algorithm.unwrap()).unwrap();
    given.response = algorithm.response(&ha1, b"INVITE", b"", &given, &mut hex);
    let mut value = Vec::new();
    given.write(&mut value);
    let field = format!("Authorization: {}\r\nContact:", String::from_utf8(value).unwrap());
    invite(call_id, 2, Some(&sdp("10.0.0.2", 7000))).replacen("Contact:", &field, 1)
}

fn own_uri() -> String {
    format!("sip:alice@{OWN}")
}

#[test]
fn an_invite_without_proof_is_challenged_and_leaves_nothing() {
    let mut table = challenging();
    table.receive(PEER, &bare("c1"));
    let first = table.only();
    assert_eq!(first.line(), "SIP/2.0 401 Unauthorized");
    let challenges: Vec<&str> =
        first.text.lines().filter(|line| line.starts_with("WWW-Authenticate: ")).collect();
    assert_eq!(challenges.len(), 1, "a second one is the end for baresip: {challenges:?}");
    assert!(challenges[0].contains("algorithm=MD5"), "{challenges:?}");
    assert!(challenges[0].contains("realm=\"alice@example.org\""), "{challenges:?}");
    table.receive(PEER, &bare("c1"));
    assert_eq!(table.only().field("To"), first.field("To"));
    assert!(table.agent.is_empty() && table.agent.is_idle() && table.events().is_empty());
    table.receive(PEER, &in_dialog("ACK", 1, &first, "", None));
    assert!(table.sent().is_empty());
    let counters = table.agent.counters();
    assert_eq!((counters.callers_challenged, counters.stray), (2, 0));
}

#[test]
fn a_proven_caller_rings_and_is_named() {
    for uri in [own_uri(), "sip:alice@example.org".to_owned()] {
        let mut table = challenging();
        table.receive(PEER, &bare("c1"));
        let challenge = table.only();
        table.receive(PEER, &proving("c1", &challenge, "secret", &uri));
        assert_eq!(table.only().line(), "SIP/2.0 100 Trying");
        let events = table.events();
        let [AgentEvent::Incoming { call, proven_user: Some(user), .. }] = events.as_slice() else {
            panic!("{events:?}")
        };
        assert_eq!(user, "bob");
        let call = *call;
        table.ask(|agent, cx| agent.answer(cx, call, media())).unwrap();
        let ok = table.only();
        table.receive(PEER, &in_dialog("ACK", 2, &ok, "", None));
        table.receive(PEER, &in_dialog("INVITE", 3, &ok, "", Some(&sdp("10.0.0.2", 7000))));
        assert_eq!(table.only().line(), "SIP/2.0 200 OK", "requests inside the call are not challenged");
    }
}

#[test]
fn credentials_of_another_uri_time_or_call_prove_nothing() {
    let mut table = challenging();
    table.receive(PEER, &bare("c1"));
    let challenge = table.only();
    let other_uri = proving("c1", &challenge, "secret", "sip:carol@example.org");
    table.receive(PEER, &other_uri);
    assert_eq!(table.only().line(), "SIP/2.0 401 Unauthorized");
    let good = proving("c1", &challenge, "secret", &own_uri());
    table.receive("10.0.0.66:5060", &good);
    assert!(table.only().text.contains("stale=true"), "the nonce was given to another address");
    table.receive(PEER, &good);
    assert_eq!(table.only().line(), "SIP/2.0 100 Trying");
    table.events();
    table.receive(PEER, &good.replace("Call-ID: c1", "Call-ID: c2").replace("z9hG4bKc1", "z9hG4bKc2"));
    assert!(table.only().text.contains("stale=true"), "replayed");
    table.receive(PEER, &bare("c3"));
    let challenge = table.only();
    table.pass_s(301);
    table.sent();
    table.receive(PEER, &proving("c3", &challenge, "secret", &own_uri()));
    assert!(table.only().text.contains("stale=true"), "too old");
}

#[test]
fn wrong_passwords_are_reported_and_soon_not_checked() {
    let mut table = challenging();
    let mut reported = 0;
    for number in 0..25 {
        let call = format!("w{number}");
        table.receive(PEER, &bare(&call));
        let challenge = table.only();
        table.receive(PEER, &proving(&call, &challenge, "guess", &own_uri()));
        let refusal = table.only();
        let events = table.events();
        match events.as_slice() {
            [AgentEvent::CallerRefused { from, user, source }] => {
                assert_eq!((from.as_str(), user.as_str()), ("sip:bob@example.net", "bob"));
                assert_eq!(source.to_string(), PEER);
                assert!(refusal.line().starts_with("SIP/2.0 401 "));
                reported += 1;
            }
            [] => {
                assert!(refusal.line().starts_with("SIP/2.0 503 "), "{}", refusal.line());
                assert!(refusal.field("Retry-After").is_some());
            }
            events => panic!("{events:?}"),
        }
        assert!(table.agent.is_empty() && table.agent.is_idle());
    }
    let counters = table.agent.counters();
    assert_eq!((reported, counters.caller_passwords_wrong, counters.callers_slowed), (20, 20, 5));
}

fn peer_account(account: Account) -> Account {
    let credentials = PeerCredentials {
        realm: "bob@example.org".into(),
        username: "al\"ice".into(),
        password: "pass".into(),
    };
    Account { peer_credentials: vec![credentials], ..account }
}

fn challenge_of(realm: &str) -> String {
    format!("WWW-Authenticate: Digest realm=\"{realm}\",nonce=\"n1\",algorithm=SHA-256,qop=\"auth\"\r\n")
}

/// True if the request proves the password for the called phone.
fn proves_to_peer(request: &Sent) -> bool {
    let Some(value) = request.field("Authorization") else { return false };
    let given = Credentials::parse(value.as_bytes()).unwrap().unwrap();
    assert_eq!(given.realm, b"bob@example.org");
    let ha1 = Ha1::new(b"al\"ice", given.realm, b"pass");
    Algorithm::Sha256.proves(&ha1, b"INVITE", b"", &given)
}

#[test]
fn a_called_phone_is_answered_in_the_realm_that_there_is_a_password_for() {
    let mut direct = Table::with(peer_account(Account::direct("sip:alice@example.org")), |_| {});
    let (_, first) = direct.call(&format!("sip:bob@{PEER}"));
    direct.receive(PEER, &answer(&first, 401, "b", &challenge_of("bob@example.org"), None));
    let sent = direct.sent();
    let [ack, second] = sent.as_slice() else { panic!("{sent:?}") };
    assert!(ack.line().starts_with("ACK ") && proves_to_peer(second));
    assert_eq!(second.field("CSeq"), Some("2 INVITE"));
    // The next call to another target does not have it.
    let (_, other) = direct.call("sip:carol@10.0.0.3:5060");
    assert!(other.field("Authorization").is_none());
    direct.receive(PEER, &answer(second, 401, "b", &challenge_of("bob@example.org"), None));
    let events = direct.events();
    let [AgentEvent::Ended { cause, .. }] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((cause.status, cause.reason.contains("password is wrong")), (401, true));
}

#[test]
fn behind_a_server_both_are_answered_each_with_its_own_password() {
    let mut table = Table::with(peer_account(account_at_server()), |_| {});
    let (_, first) = table.call("sip:bob@example.org");
    let asks = "Proxy-Authenticate: Digest realm=\"example.org\",nonce=\"p\",qop=\"auth\"\r\n";
    table.receive(SERVER, &answer(&first, 407, "s", asks, None));
    let second = table.sent().pop().unwrap();
    table.receive(SERVER, &answer(&second, 401, "b", &challenge_of("bob@example.org"), None));
    let third = table.sent().pop().unwrap();
    assert!(third.field("Proxy-Authorization").unwrap().contains("realm=\"example.org\""));
    assert!(proves_to_peer(&third));
    assert_eq!(table.agent.counters().peer_challenges_answered, 1);
}

#[test]
fn other_realms_other_senders_and_requests_in_the_call_get_nothing() {
    for (from, realm) in
        [(PEER, "example.org"), (PEER, "carol@example.org"), ("10.0.0.66:5060", "bob@example.org")]
    {
        let mut table = Table::with(peer_account(Account::direct("sip:alice@example.org")), |_| {});
        let (_, first) = table.call(&format!("sip:bob@{PEER}"));
        table.receive(from, &answer(&first, 401, "b", &challenge_of(realm), None));
        assert!(table.sent().iter().all(|sent| sent.field("Authorization").is_none()), "{from} {realm}");
    }
    let mut table = Table::with(peer_account(Account::direct("sip:alice@example.org")), |_| {});
    let (call, _) = table.established(&format!("sip:bob@{PEER}"));
    table.ask(|agent, cx| agent.hold(cx, call)).unwrap();
    let hold = table.only();
    table.receive(PEER, &answer(&hold, 401, "bob", &challenge_of("bob@example.org"), None));
    assert!(table.sent().iter().all(|sent| sent.field("Authorization").is_none()));
    let mut table = Table::with(peer_account(account_at_server()), |_| {});
    table.ask(|agent, cx| agent.register(cx, ALICE));
    let register = table.only();
    table.receive(SERVER, &answer(&register, 401, "r", &challenge_of("bob@example.org"), None));
    let again = table.sent();
    assert!(again.iter().all(|sent| !sent.text.contains("al\\\"ice")), "{again:?}");
}

#[test]
fn a_caller_whose_digests_cannot_be_verified_is_refused_in_the_end() {
    let mut table = challenging();
    table.receive(PEER, &bare("old-phone"));
    let challenge = table.only();
    let old = proving("old-phone", &challenge, "b", &own_uri()).replace(", qop=auth", "");
    let answers: Vec<u16> = (0..12)
        .map(|number| {
            table.receive(PEER, &old.replace("old-phone", &format!("o{number}")));
            table.only().line()[8..11].parse().unwrap()
        })
        .collect();
    assert_eq!(answers, [vec![401; 10], vec![403; 2]].concat());
    assert_eq!(table.agent.counters().caller_digests_refused, 2);
    table.receive(PEER, &bare("again"));
    assert!(
        table.only().line().starts_with("SIP/2.0 401 "),
        "an INVITE without credentials is challenged as before"
    );
}
