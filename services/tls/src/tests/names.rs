//! Names of peers with certificates.

use super::*;
use ringway_sansio::{Instant, PeerNames};

fn uri(uri: &str) -> SanType {
    SanType::URI(uri.try_into().unwrap())
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

/// Server that requests certificates of clients.
fn server_files(ca: &Ca) -> TlsFiles {
    TlsFiles {
        client_auth: ClientAuth::Optional,
        client_ca: Some(ca.path("ca.pem")),
        ..ca.files(Some(ca.issue("server", |_| {})))
    }
}

/// Client with a certificate for these names.
fn client_files(ca: &Ca, name: &str, names: Vec<SanType>) -> TlsFiles {
    ca.files(Some(ca.issue(name, |params| params.subject_alt_names = names)))
}

fn now() -> Instant {
    Instant::from_secs(1_800_000_000)
}

fn users(peer: &PeerNames) -> Vec<&str> {
    peer.users(now()).collect()
}

#[test]
fn a_client_has_the_names_of_its_certificate_also_after_resumption() {
    let ca = Ca::new();
    let (server, _) = inline(&server_files(&ca));
    let names = vec![uri("sip:alice@example.org"), dns("phone.example.org"), uri("sip:bob@example.org")];
    let (client, _) = inline(&client_files(&ca, "alice", names));
    for _ in 0..2 {
        let mut caller = Side::new(client.client(remote(), Some("sip.example.org")).unwrap());
        let mut called = Side::new(server.server(remote()).unwrap());
        assert_eq!(called.layer.peer_names(), None, "not before the handshake");
        exchange(&mut caller, &mut called, 100_000);
        let peer = called.layer.peer_names().unwrap();
        assert_eq!(users(&peer), ["sip:alice@example.org", "sip:bob@example.org"]);
        assert!(peer.is_domain("phone.example.org", now()), "DNS names count without a URI of a domain");
        assert!(!peer.is_domain("sip.example.org", now()), "that is the common name");
    }
    let counts = server.counters().counts();
    assert_eq!((counts.tls_accepted_full, counts.tls_accepted_resumed), (1, 1));
}

#[test]
fn a_client_without_a_certificate_or_without_names_has_none() {
    let ca = Ca::new();
    let (server, _) = inline(&server_files(&ca));
    let (anonymous, _) = inline(&ca.files(None));
    assert_eq!(connect(&anonymous, &server, Some("sip.example.org"), 100_000).1.layer.peer_names(), None);
    let (common_name, _) = inline(&client_files(&ca, "cn", Vec::new()));
    assert_eq!(connect(&common_name, &server, Some("sip.example.org"), 100_000).1.layer.peer_names(), None);
    let (not_asked, _) = inline(&ca.files(Some(ca.issue("silent", |_| {}))));
    let (alice, _) = inline(&client_files(&ca, "alice", vec![uri("sip:alice@example.org")]));
    assert_eq!(connect(&alice, &not_asked, Some("sip.example.org"), 100_000).1.layer.peer_names(), None);
}

#[test]
fn uris_of_domains_are_preferred_to_dns_names_and_wildcards_count_for_nothing() {
    let ca = Ca::new();
    let (server, _) = inline(&server_files(&ca));
    let names = vec![uri("sip:trunk.example.net"), dns("other.example.net"), uri("https://example.com")];
    let (client, _) = inline(&client_files(&ca, "trunk", names));
    let called = connect(&client, &server, Some("sip.example.org"), 100_000).1;
    let peer = called.layer.peer_names().unwrap();
    assert!(peer.is_domain("trunk.example.net", now()) && users(&peer).is_empty());
    assert!(!peer.is_domain("other.example.net", now()) && !peer.is_domain("example.com", now()));
    let (client, _) = inline(&client_files(&ca, "wild", vec![dns("*.example.net")]));
    let called = connect(&client, &server, Some("sip.example.org"), 100_000).1;
    let is_trunk = |peer: Arc<PeerNames>| peer.is_domain("trunk.example.net", now());
    assert!(!called.layer.peer_names().is_some_and(is_trunk));
}

#[test]
fn a_certificate_with_too_many_names_has_none_and_is_reported() {
    let ca = Ca::new();
    let (server, failures) = inline(&server_files(&ca));
    let many: Vec<_> = (0..=PeerNames::NAMES_MAX).map(|n| uri(&format!("sip:user{n}@example.org"))).collect();
    let long = vec![uri(&format!("sip:{}@example.org", "a".repeat(300)))];
    // A URI of a domain after the limit must not make the DNS name count.
    let hidden = (0..=PeerNames::NAMES_MAX)
        .map(|n| uri(&format!("https://{n}.example.org")))
        .chain([uri("sip:example.com"), dns("trunk.example.net")]);
    for (name, names) in [("many", many), ("long", long)] {
        let (client, _) = inline(&client_files(&ca, name, names));
        let called = connect(&client, &server, Some("sip.example.org"), 100_000).1;
        assert!(!called.is_failed && called.layer.peer_names().is_none(), "{name}");
    }
    let (client, _) = inline(&client_files(&ca, "hidden", hidden.collect()));
    let called = connect(&client, &server, Some("sip.example.org"), 100_000).1;
    assert_eq!(called.layer.peer_names(), None);
    assert_eq!(server.counters().counts().tls_names_refused, 2);
    assert!(failures.0.lock().unwrap()[0].1.contains("more than 16 names"));
}

#[test]
fn expired_and_revoked_certificates_and_those_of_servers_are_refused() {
    let ca = Ca::new();
    let expired = ca.issue("expired", |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    let usage = ca.issue("usage", |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    let serial = SerialNumber::from(77_u64);
    let revoked = ca.issue("revoked", |params| params.serial_number = Some(serial.clone()));
    let files = TlsFiles { crl: Some(crl_of(&ca, serial)), ..server_files(&ca) };
    for pair in [expired, usage, revoked] {
        let (server, _) = inline(&files);
        let (client, _) = inline(&ca.files(Some(pair)));
        let called = connect(&client, &server, Some("sip.example.org"), 100_000).1;
        assert!(called.is_failed && called.layer.peer_names().is_none());
        assert_eq!(server.counters().counts().tls_failed_certificate, 1);
    }
}

#[test]
fn a_reload_withdraws_the_names_of_certificates_that_it_does_not_accept() {
    let ca = Ca::new();
    let (server, failures) = inline(&server_files(&ca));
    let serial = SerialNumber::from(77_u64);
    let alice = ca.issue("alice", |params| {
        params.serial_number = Some(serial.clone());
        params.subject_alt_names = vec![uri("sip:alice@example.org")];
    });
    let (alice, _) = inline(&ca.files(Some(alice)));
    let (bob, _) = inline(&client_files(&ca, "bob", vec![uri("sip:bob@example.org")]));
    let of_alice = connect(&alice, &server, Some("sip.example.org"), 100_000).1.layer;
    let of_bob = connect(&bob, &server, Some("sip.example.org"), 100_000).1.layer;
    let files = TlsFiles { crl: Some(crl_of(&ca, serial)), ..server_files(&ca) };
    server.verified.reload(files.load().unwrap().verifiers());
    assert!(of_alice.peer_names().is_none() && of_bob.peer_names().is_some(), "alice's is revoked");
    assert!(failures.0.lock().unwrap()[0].1.contains("not accepted any more"));
    // A handshake that began before the reload and ends after it.
    let late = connect(&alice, &server, Some("sip.example.org"), 100_000).1.layer;
    assert_eq!(late.peer_names(), None);
    server.verified.reload(ca.files(None).load().unwrap().verifiers());
    assert!(of_bob.peer_names().is_none(), "client_auth = \"none\"");
    assert_eq!(server.counters().counts().tls_names_withdrawn, 3);
}

#[test]
fn a_reload_with_another_client_ca_resumes_no_session() {
    let (ca, other) = (Ca::new(), Ca::new());
    let files = server_files(&ca);
    let (before, _) = inline(&files);
    let (client, _) = inline(&client_files(&ca, "alice", vec![uri("sip:alice@example.org")]));
    for _ in 0..2 {
        assert!(!connect(&client, &before, Some("sip.example.org"), 100_000).1.is_failed);
    }
    assert_eq!(before.counters().counts().tls_accepted_resumed, 1);
    let (after, _) = inline(&TlsFiles { client_ca: Some(other.path("ca.pem")), ..files });
    let called = connect(&client, &after, Some("sip.example.org"), 100_000).1;
    assert!(called.is_failed && called.layer.peer_names().is_none());
    let counts = after.counters().counts();
    assert_eq!((counts.tls_accepted_resumed, counts.tls_failed_certificate), (0, 1));
}
