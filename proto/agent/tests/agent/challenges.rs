//! Tests of challenges: the ones that get credentials, and above all those that do not.

use crate::harness::{ALICE, PEER, SERVER, Sent, Table, account_at_server, answer, in_dialog};
use ringway_agent::{Account, AgentEvent, By, Config, Ha1, InDialogChallenges, Secret};
use ringway_sip::digest::{Algorithm, Credentials};

/// Challenges with both algorithms, MD5 first.
fn both(realm: &str) -> String {
    ["MD5", "SHA-256"]
        .map(|algorithm| {
            format!("WWW-Authenticate: Digest realm=\"{realm}\",nonce=\"n1\",algorithm={algorithm},qop=\"auth,auth-int\",opaque=\"o\"\r\n")
        })
        .concat()
}

fn proxy(realm: &str, nonce: &str, more: &str) -> String {
    format!(
        "Proxy-Authenticate: Digest realm=\"{realm}\",nonce=\"{nonce}\",algorithm=SHA-256,qop=\"auth\"{more}\r\n"
    )
}

fn register(table: &mut Table) -> Sent {
    table.ask(|agent, cx| agent.register(cx, ALICE));
    table.only()
}

/// True if the credentials in this field are alice's.
fn proves(request: &Sent, field: &str, method: &str) -> bool {
    let value = request.field(field).unwrap();
    let given = Credentials::parse(value.as_bytes()).unwrap().unwrap();
    let algorithm = given.algorithm.map_or(Algorithm::Md5, |name| Algorithm::from_name(name).unwrap());
    let ha1 = Ha1::new(b"alice", given.realm, b"secret");
    assert_eq!(given.uri, request.line().split(' ').nth(1).unwrap().as_bytes());
    algorithm.proves(&ha1, method.as_bytes(), b"", &given)
}

fn is_silent(table: &mut Table) -> bool {
    let sent = table.sent();
    sent.iter().all(|sent| !sent.text.contains("Authorization"))
}

#[test]
fn sha_256_is_chosen_in_any_order_and_the_next_request_counts_on() {
    let mut table = Table::at_server();
    let first = register(&mut table);
    assert!(first.field("Authorization").is_none());
    table.receive(SERVER, &answer(&first, 401, "r", &both("example.org"), None));
    let second = table.only();
    assert!(proves(&second, "Authorization", "REGISTER"));
    let value = second.field("Authorization").unwrap();
    for part in ["algorithm=SHA-256", "nc=00000001", "qop=auth", "opaque=\"o\"", "username=\"alice\""] {
        assert!(value.contains(part), "{value}");
    }
    assert_eq!(second.field("CSeq"), Some("2 REGISTER"));
    assert_eq!(second.field("Call-ID"), first.field("Call-ID"));
    assert_ne!(second.field("Via"), first.field("Via"));
    table.receive(SERVER, &answer(&second, 200, "r", "Expires: 100\r\n", None));
    table.pass(std::time::Duration::from_millis(65_200));
    let refresh = table.only();
    assert!(refresh.field("Authorization").unwrap().contains("nc=00000002"));
    assert!(proves(&refresh, "Authorization", "REGISTER"));
}

#[test]
fn md5_and_servers_that_name_no_qop_or_algorithm() {
    for (fields, is_plain) in [
        (
            "WWW-Authenticate: Digest realm=\"example.org\", nonce=\"n\", algorithm=MD5, qop=\"auth\"\r\n",
            false,
        ),
        ("WWW-Authenticate: Digest nonce=\"n\", realm=\"example.org\"\r\n", true),
        (
            "WWW-Authenticate: Basic realm=\"example.org\"\r\nWWW-Authenticate: Digest realm=\"example.org\",nonce=\"n\"\r\n",
            true,
        ),
    ] {
        let mut table = Table::at_server();
        let first = register(&mut table);
        table.receive(SERVER, &answer(&first, 401, "r", fields, None));
        let second = table.only();
        assert!(proves(&second, "Authorization", "REGISTER"), "{fields}");
        assert_eq!(!second.field("Authorization").unwrap().contains("qop"), is_plain);
    }
}

#[test]
fn a_stale_nonce_is_replaced_and_a_wrong_password_is_not_tried_twice() {
    let mut table = Table::at_server();
    let first = register(&mut table);
    table.receive(SERVER, &answer(&first, 401, "r", &both("example.org"), None));
    let second = table.only();
    let stale = "WWW-Authenticate: Digest realm=\"example.org\",nonce=\"n2\",algorithm=SHA-256,qop=\"auth\",stale=true\r\n";
    table.receive(SERVER, &answer(&second, 401, "r", stale, None));
    let third = table.only();
    assert!(third.field("Authorization").unwrap().contains("nonce=\"n2\""));
    table.receive(SERVER, &answer(&third, 401, "r", &both("example.org"), None));
    assert!(table.sent().is_empty());
    let events = table.events();
    let [AgentEvent::RegistrationFailed { status: 401, reason, retry_s: None, .. }] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert!(reason.contains("password is wrong"));
}

#[test]
fn a_server_that_finds_every_nonce_stale_is_given_up() {
    let mut table = Table::at_server();
    let mut request = register(&mut table);
    for round in 0..10 {
        let stale = format!(
            "WWW-Authenticate: Digest realm=\"example.org\",nonce=\"n{round}\",qop=\"auth\",stale=true\r\n"
        );
        table.receive(SERVER, &answer(&request, 401, "r", &stale, None));
        match table.sent().pop() {
            Some(next) => request = next,
            None => return assert_eq!(round, 3),
        }
    }
    panic!("it goes on for ever");
}

/// Challenge of a proxy to an INVITE, and the result: the next INVITE, or the reason of the call's end.
fn challenged_call(table: &mut Table, realm: &str) -> Result<Sent, String> {
    let (_, first) = table.call("sip:bob@example.org");
    table.receive(SERVER, &answer(&first, 407, "p", &proxy(realm, "p1", ""), None));
    let invite = table.sent().into_iter().find(|sent| sent.line().starts_with("INVITE "));
    let events = table.events();
    match (invite, events.as_slice()) {
        (Some(invite), []) => Ok(invite),
        (None, [AgentEvent::Ended { cause, .. }]) => Err(cause.reason.clone()),
        (invite, events) => panic!("{invite:?} {events:?}"),
    }
}

/// Registration with a server that has this realm.
fn registered(table: &mut Table, realm: &str) {
    let first = register(table);
    table.receive(SERVER, &answer(&first, 401, "r", &both(realm), None));
    let second = table.only();
    assert!(proves(&second, "Authorization", "REGISTER"));
    table.receive(SERVER, &answer(&second, 200, "r", "Expires: 600\r\n", None));
    table.events();
}

#[test]
fn the_realm_is_learnt_from_the_challenge_to_register_and_calls_are_proved_in_it_alone() {
    let mut table = Table::at_server();
    registered(&mut table, "asterisk");
    let invite = challenged_call(&mut table, "asterisk").unwrap();
    assert!(proves(&invite, "Proxy-Authorization", "INVITE"));
    // A callee after the server could guess the password offline with these.
    for realm in ["example.org", "10.0.0.9", "ASTERISK", "evil.example"] {
        let mut table = Table::at_server();
        registered(&mut table, "asterisk");
        let reason = challenged_call(&mut table, realm).unwrap_err();
        assert!(reason.contains(realm) && reason.contains("\"asterisk\""), "{reason}");
        assert_eq!(table.agent.counters().challenges_ignored, 1);
    }
}

#[test]
fn the_learnt_realm_stays_for_the_session() {
    let mut table = Table::at_server();
    registered(&mut table, "asterisk");
    let refresh = register(&mut table);
    table.receive(SERVER, &answer(&refresh, 401, "r", &both("evil.example"), None));
    assert!(table.sent().is_empty());
    let events = table.events();
    let [AgentEvent::RegistrationFailed { reason, .. }] = events.as_slice() else { panic!("{events:?}") };
    assert!(reason.contains("evil.example") && reason.contains("--realm"), "{reason}");
    assert!(challenged_call(&mut table, "evil.example").is_err());
}

#[test]
fn the_own_domain_is_learnt_before_a_realm_beside_it() {
    let mut table = Table::at_server();
    let first = register(&mut table);
    let fields = [both("evil.example"), both("example.org")].concat();
    table.receive(SERVER, &answer(&first, 401, "r", &fields, None));
    assert!(table.only().field("Authorization").unwrap().contains("realm=\"example.org\""));
}

#[test]
fn a_registration_teaches_nothing_that_its_server_did_not_send() {
    let mut table = Table::at_server();
    let first = register(&mut table);
    table.receive(PEER, &answer(&first, 401, "r", &both("asterisk"), None));
    assert!(is_silent(&mut table));
    let events = table.events();
    let [AgentEvent::RegistrationFailed { reason, .. }] = events.as_slice() else { panic!("{events:?}") };
    assert!(reason.contains("not our server"), "{reason}");
    assert!(challenged_call(&mut table, "asterisk").is_err());
}

#[test]
fn without_a_registration_another_realm_gets_nothing_and_the_option_is_named() {
    for realm in ["evil.example", "asterisk"] {
        let mut table = Table::at_server();
        let reason = challenged_call(&mut table, realm).unwrap_err();
        assert!(reason.contains(&format!("--realm \"{realm}\"")), "{reason}");
        assert_eq!(table.agent.counters().challenges_ignored, 1);
    }
    for realm in ["example.org", "10.0.0.9"] {
        let mut table = Table::at_server();
        assert!(proves(&challenged_call(&mut table, realm).unwrap(), "Proxy-Authorization", "INVITE"));
    }
}

#[test]
fn a_configured_realm_is_the_only_one() {
    let account = Account { realm: Some("asterisk".into()), ..account_at_server() };
    let mut table = Table::with(account, |_| {});
    let first = register(&mut table);
    table.receive(SERVER, &answer(&first, 401, "r", &both("example.org"), None));
    assert!(table.sent().is_empty());
    let first = register(&mut table);
    table.receive(SERVER, &answer(&first, 401, "r", &both("asterisk"), None));
    assert!(proves(&table.only(), "Authorization", "REGISTER"));
}

#[test]
fn a_call_through_the_server_proves_itself_to_the_proxy_and_keeps_its_dialog() {
    let mut table = Table::at_server();
    let (call, first) = table.call("sip:bob@example.org");
    assert_eq!(first.to(), SERVER);
    table.receive(SERVER, &answer(&first, 407, "p", &proxy("example.org", "n1", ""), None));
    let sent = table.sent();
    assert!(sent[0].line().starts_with("ACK "), "the failure is acknowledged");
    let second = &sent[1];
    assert!(proves(second, "Proxy-Authorization", "INVITE"));
    assert_eq!(second.field("CSeq"), Some("2 INVITE"));
    assert_eq!((second.field("From"), second.body()), (first.field("From"), first.body()));
    assert!(table.events().is_empty());
    let contact = format!("Contact: <sip:bob@{PEER}>\r\nRecord-Route: <sip:{SERVER};lr>\r\n");
    let body = crate::harness::sdp("10.0.0.2", 7000);
    table.receive(SERVER, &answer(second, 200, "bob", &contact, Some(&body)));
    let ack = table.only();
    assert_eq!((ack.field("CSeq"), ack.to().as_str()), (Some("2 ACK"), SERVER));
    assert!(matches!(table.events().as_slice(), [AgentEvent::Answered { .. }]));
    // The next request needs no challenge.
    table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
    assert!(is_silent(&mut table), "the other side sees what is in a dialog");
    table.events();
    let (_, other) = table.call("sip:carol@example.org");
    assert!(other.field("Proxy-Authorization").unwrap().contains("nc=00000002"));
}

#[test]
fn a_call_given_up_is_not_made_again_with_credentials() {
    let mut table = Table::at_server();
    let (call, first) = table.call("sip:bob@example.org");
    table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
    table.receive(SERVER, &answer(&first, 407, "p", &proxy("example.org", "n1", ""), None));
    assert!(table.only().line().starts_with("ACK "));
    let events = table.events();
    assert!(matches!(events.as_slice(), [AgentEvent::Ended { .. }]), "{events:?}");
    assert!(table.agent.is_empty());
}

#[test]
fn a_call_without_a_server_never_gets_credentials() {
    let account =
        Account { secret: Secret::Password("secret".into()), ..Account::direct("sip:alice@example.org") };
    let mut table = Table::with(account, |_| {});
    for status in [401, 407] {
        let (call, first) = table.call(&format!("sip:bob@{PEER}"));
        let fields = [both("example.org"), proxy("example.org", "n", "")].concat();
        table.receive(PEER, &answer(&first, status, "b", &fields, None));
        assert!(is_silent(&mut table));
        let events = table.events();
        let [AgentEvent::Ended { call: ended, cause }] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((*ended, cause.status, cause.by), (call, status, By::Remote));
        assert!(cause.reason.contains("not our server"), "{}", cause.reason);
    }
}

#[test]
fn an_attacker_who_challenges_our_bye_gets_nothing() {
    // Called directly by the attacker, with an account at another server; and through the server.
    for (target, from) in [(format!("sip:bob@{PEER}"), PEER), ("sip:bob@example.org".to_string(), SERVER)] {
        let account =
            if from == PEER { Account { server: None, ..account_at_server() } } else { account_at_server() };
        let mut table = Table::with(account, |_| {});
        // The server is known from a registration.
        if from == SERVER {
            let request = register(&mut table);
            table.receive(SERVER, &answer(&request, 401, "r", &both("example.org"), None));
            let request = table.only();
            table.receive(SERVER, &answer(&request, 200, "r", "Expires: 600\r\n", None));
            table.events();
        }
        let (call, first) = table.call(&target);
        let contact = format!("Contact: <sip:mallory@10.6.6.6>\r\nRecord-Route: <sip:{from};lr>\r\n");
        let body = crate::harness::sdp("10.0.0.2", 7000);
        table.receive(from, &answer(&first, 200, "bob", &contact, Some(&body)));
        table.sent();
        table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
        let bye = table.only();
        for status in [401, 407] {
            let fields = [both("example.org"), proxy("example.org", "chosen", ",stale=true")].concat();
            table.receive(from, &answer(&bye, status, "bob", &fields, None));
            assert!(table.sent().is_empty(), "{status} from {from}");
        }
        table.pass_s(100);
        assert!(is_silent(&mut table));
    }
}

#[test]
fn an_attacker_who_calls_us_and_challenges_our_requests_gets_nothing() {
    let mut table = Table::at_server();
    let (call, ok) = table.answered();
    table.ask(|agent, cx| agent.hold(cx, call)).unwrap();
    let reinvite = table.only();
    let fields = [both("example.org"), proxy("example.org", "chosen", "")].concat();
    table.receive(PEER, &answer(&reinvite, 401, "b", &fields, None));
    assert!(is_silent(&mut table));
    let events = table.events();
    assert!(matches!(events.as_slice(), [AgentEvent::ChangeRefused { status: 401, .. }]), "{events:?}");
    table.receive(PEER, &in_dialog("BYE", 2, &ok, "", None));
    assert_eq!(table.lines(), ["SIP/2.0 200 OK"]);
}

#[test]
fn a_server_that_asks_inside_dialogs_is_answered_where_that_is_configured() {
    let account = Account { in_dialog: InDialogChallenges::AnsweredAtServer, ..account_at_server() };
    let mut table = Table::with(account, |_: &mut Config| {});
    let (call, first) = table.call("sip:bob@example.org");
    let contact = format!("Contact: <sip:bob@{PEER}>\r\nRecord-Route: <sip:{SERVER};lr>\r\n");
    let body = crate::harness::sdp("10.0.0.2", 7000);
    table.receive(SERVER, &answer(&first, 200, "bob", &contact, Some(&body)));
    table.sent();
    table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
    let bye = table.only();
    table.receive(SERVER, &answer(&bye, 401, "bob", &both("example.org"), None));
    assert!(table.sent().is_empty(), "401 is the other side's");

    let (call, first) = table.call("sip:bob@example.org");
    table.receive(SERVER, &answer(&first, 200, "bob", &contact, Some(&body)));
    table.sent();
    table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
    let bye = table.only();
    table.receive(SERVER, &answer(&bye, 407, "bob", &proxy("example.org", "n", ""), None));
    let again = table.only();
    assert!(proves(&again, "Proxy-Authorization", "BYE"));
    table.receive(SERVER, &answer(&again, 407, "bob", &proxy("example.org", "n2", ",stale=true"), None));
    assert!(table.sent().is_empty(), "once");
}

#[test]
fn a_redirection_does_not_take_credentials_with_it() {
    let mut table = Table::at_server();
    let (_, first) = table.call("sip:bob@example.org");
    table.receive(SERVER, &answer(&first, 302, "p", "Contact: <sip:bob@10.6.6.6>\r\n", None));
    let second = table.sent().pop().unwrap();
    assert_eq!(second.to(), "10.6.6.6:5060");
    let fields = [both("example.org"), proxy("example.org", "n", "")].concat();
    table.receive("10.6.6.6:5060", &answer(&second, 407, "b", &fields, None));
    assert!(is_silent(&mut table));
}

#[test]
fn quotes_in_a_challenge_stay_closed() {
    let account = Account { realm: Some("a\"b".into()), ..account_at_server() };
    let mut table = Table::with(account, |_| {});
    let first = register(&mut table);
    let fields = "WWW-Authenticate: Digest realm=\"a\\\"b\",nonce=\"n\\\"\\\\\",\r\n qop=\"auth\"\r\n";
    table.receive(SERVER, &answer(&first, 401, "r", fields, None));
    let second = table.only();
    let value = second.field("Authorization").unwrap();
    assert!(value.contains("realm=\"a\\\"b\"") && value.contains("nonce=\"n\\\"\\\\\""), "{value}");
    assert!(Credentials::parse(value.as_bytes()).unwrap().is_some());
}

#[test]
fn a_challenge_that_is_not_supported_is_named() {
    for (challenge, reason) in [
        (
            "Digest realm=\"example.org\", nonce=\"n\", algorithm=SHA-512-256",
            "algorithm \"SHA-512-256\"; MD5 and SHA-256",
        ),
        ("Digest realm=\"example.org\", nonce=\"n\", algorithm=MD5-sess, qop=auth", "algorithm \"MD5-sess\""),
        (
            "Digest realm=\"example.org\", nonce=\"n\", qop=\"auth-conf\"",
            "qop \"auth-conf\"; auth and auth-int",
        ),
        ("Bearer authz_server=\"https://example.org\"", "scheme Bearer; only Digest"),
        ("Digest realm=\"example.org\"", "without a challenge that can be read"),
    ] {
        let mut table = Table::with(account_at_server(), |_| {});
        let (_, first) = table.call("sip:bob@example.org");
        let fields = format!("Proxy-Authenticate: {challenge}\r\n");
        table.receive(SERVER, &answer(&first, 407, "b", &fields, None));
        let events = table.events();
        let [AgentEvent::Ended { cause, .. }] = events.as_slice() else { panic!("{events:?}") };
        assert!(cause.reason.contains(reason), "{}", cause.reason);
    }
    // A supported one beside it is answered.
    let mut table = Table::with(account_at_server(), |_| {});
    let (_, first) = table.call("sip:bob@example.org");
    let fields = "Proxy-Authenticate: Digest realm=\"example.org\", nonce=\"n\", algorithm=SHA-512-256\r\n\
                  Proxy-Authenticate: Digest realm=\"example.org\", nonce=\"m\", algorithm=MD5\r\n";
    table.receive(SERVER, &answer(&first, 407, "b", fields, None));
    assert!(table.sent().iter().any(|sent| sent.field("Proxy-Authorization").is_some()));
}

#[test]
fn a_called_phone_with_another_algorithm_is_named() {
    let credentials = ringway_agent::PeerCredentials {
        realm: "bob@10.0.0.2".into(),
        username: "alice".into(),
        password: "p".into(),
    };
    let account = Account { peer_credentials: vec![credentials], ..Account::direct("sip:alice@example.org") };
    let mut table = Table::with(account, |_| {});
    let (_, first) = table.call(&format!("sip:bob@{PEER}"));
    let fields = "WWW-Authenticate: Digest realm=\"bob@10.0.0.2\", nonce=\"n\", algorithm=SHA-512-256\r\n";
    table.receive(PEER, &answer(&first, 401, "b", fields, None));
    let events = table.events();
    let [AgentEvent::Ended { cause, .. }] = events.as_slice() else { panic!("{events:?}") };
    assert!(cause.reason.contains("SHA-512-256"), "{}", cause.reason);
}

#[test]
fn a_called_phone_of_another_realm_is_named() {
    let credentials = ringway_agent::PeerCredentials {
        realm: "carol@10.0.0.2".into(),
        username: "alice".into(),
        password: "p".into(),
    };
    let account = Account { peer_credentials: vec![credentials], ..Account::direct("sip:alice@example.org") };
    let mut table = Table::with(account, |_| {});
    let (_, first) = table.call(&format!("sip:bob@{PEER}"));
    table.receive(PEER, &answer(&first, 401, "b", &both("bob@10.0.0.2"), None));
    let events = table.events();
    let [AgentEvent::Ended { cause, .. }] = events.as_slice() else { panic!("{events:?}") };
    let expected = "asked for a password of realm \"bob@10.0.0.2\", but --peer-realm is \"carol@10.0.0.2\"";
    assert_eq!(cause.reason, expected);
}

#[test]
fn the_next_nonce_of_the_server_is_used_and_that_of_others_is_not() {
    let mut table = Table::at_server();
    let first = register(&mut table);
    table.receive(SERVER, &answer(&first, 401, "r", &both("example.org"), None));
    let second = table.only();
    let info = "Expires: 100\r\nAuthentication-Info: nextnonce=\"n7\",qop=auth,nc=00000001,rspauth=\"0\",cnonce=\"c\"\r\n";
    table.receive(SERVER, &answer(&second, 200, "r", info, None));
    table.pass(std::time::Duration::from_millis(65_200));
    let refresh = table.only();
    let value = refresh.field("Authorization").unwrap();
    for part in ["nonce=\"n7\"", "nc=00000001", "opaque=\"o\""] {
        assert!(value.contains(part), "{value}");
    }
    assert!(proves(&refresh, "Authorization", "REGISTER"));
    let forged = "Expires: 100\r\nAuthentication-Info: nextnonce=\"of somebody\"\r\n";
    table.receive(PEER, &answer(&refresh, 200, "r", forged, None));
    table.pass(std::time::Duration::from_millis(65_200));
    let value = table.only().field("Authorization").unwrap().to_owned();
    assert!(value.contains("nonce=\"n7\"") && value.contains("nc=00000002"), "{value}");
    assert_eq!(table.agent.counters().next_nonces, 1);
}

#[test]
fn a_call_gets_its_next_nonce_from_the_proxy() {
    let mut table = Table::at_server();
    let invite = challenged_call(&mut table, "example.org").unwrap();
    let info = "Proxy-Authentication-Info: nextnonce=\"p7\"\r\n";
    table.receive(SERVER, &answer(&invite, 486, "bob", info, None));
    table.sent();
    let (_, next) = table.call("sip:bob@example.org");
    let value = next.field("Proxy-Authorization").unwrap();
    assert!(value.contains("nonce=\"p7\"") && value.contains("nc=00000001"), "{value}");
}

#[test]
fn a_challenge_with_auth_int_alone_is_answered_for_the_body() {
    for (offer, expected) in [("auth-int", "auth-int"), ("auth-int,auth", "auth"), ("auth-conf", "")] {
        let mut table = Table::at_server();
        let (_, first) = table.call("sip:bob@example.org");
        let challenge = format!(
            "Proxy-Authenticate: Digest realm=\"example.org\",nonce=\"n\",algorithm=SHA-256,qop=\"{offer}\"\r\n"
        );
        table.receive(SERVER, &answer(&first, 407, "p", &challenge, None));
        let invite = table.sent().into_iter().find(|sent| sent.line().starts_with("INVITE "));
        let Some(invite) = invite else {
            assert_eq!(expected, "", "{offer}");
            continue;
        };
        let given = Credentials::parse(invite.field("Proxy-Authorization").unwrap().as_bytes());
        let given = given.unwrap().unwrap();
        assert_eq!(given.qop, Some(expected.as_bytes()), "{offer}");
        let body = invite.text.split_once("\r\n\r\n").unwrap().1.as_bytes();
        let ha1 = Ha1::new(b"alice", b"example.org", b"secret");
        assert!(!body.is_empty() && Algorithm::Sha256.proves(&ha1, b"INVITE", body, &given));
    }
}
