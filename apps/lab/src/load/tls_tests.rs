//! Generator against generator over TLS and WebSocket: both sides of a connection are ours.

use super::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use ringway_tls::{ClientAuth, Observer, PeerCa, Role, TlsFiles};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

/// Observer that nobody reads.
struct Silent;

impl Observer for Silent {
    fn failed(&self, _remote: SocketAddr, _role: Role, _reason: &str) {}
}

/// Files of an authority, and of a certificate of 127.0.0.1 by it.
fn files(folder: &Path) -> TlsFiles {
    let [ca_file, certificate_file, key_file] =
        ["ca.pem", "user.pem", "user-key.pem"].map(|name| folder.join(name));
    let mut authority = CertificateParams::new([]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    fs::write(&ca_file, authority.pem()).unwrap();
    fs::write(&certificate_file, certificate.pem()).unwrap();
    fs::write(&key_file, key.serialize_pem()).unwrap();
    TlsFiles {
        certificate: Some((certificate_file, key_file)),
        client_ca: Some(ca_file.clone()),
        peer_ca: PeerCa::File(ca_file),
        ..TlsFiles::default()
    }
}

/// Counters of 20 OPTIONS of callers to called users in this process.
fn options(transport: Transport, connections: ConnectionUse, files: &TlsFiles) -> WireCounters {
    let tls = LoadTls::load(files, None, Arc::new(Silent)).unwrap();
    let users = || Users::by_rule("u", 2, 0, 10, "").unwrap();
    let plan = Plan {
        is_direct: true,
        transport,
        connections,
        tls: transport.is_secure().then_some(tls),
        rate: 40.0,
        length: Duration::from_millis(500),
        ..Plan::new(([127, 0, 0, 1], 9).into(), Flow::Options, users(), users())
    };
    let statistics = run(&plan).unwrap().finish().unwrap();
    assert_eq!((statistics.successes(), statistics.ended()), (20, 20), "{:?}", statistics.outcomes());
    statistics.wire()
}

#[test]
fn both_sides_of_tls_connections_are_played() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    for transport in [Transport::Tls, Transport::Wss] {
        let wire = options(transport, ConnectionUse::PerAttempt, &files);
        assert_eq!((wire.opened, wire.accepted, wire.broken, wire.tls_failed), (20, 20, 0, 0));
        assert_eq!(
            (wire.tls_full + wire.tls_resumed, wire.tls_accepted_full + wire.tls_accepted_resumed),
            (20, 20)
        );
        // One after another: each connection brings the ticket of the next.
        assert!(wire.resumed_share() > Some(0.5) && wire.accepted_resumed_share() == wire.resumed_share());
    }
    let wire = options(Transport::Tls, ConnectionUse::PerUser, &files);
    assert_eq!((wire.opened, wire.tls_full + wire.tls_resumed), (10, 10));
}

#[test]
fn both_sides_show_a_certificate_and_resume_nothing_if_they_shall() {
    let folder = tempfile::tempdir().unwrap();
    let files = TlsFiles { client_auth: ClientAuth::Required, session_timeout: None, ..files(folder.path()) };
    let wire = options(Transport::Tls, ConnectionUse::PerAttempt, &files);
    assert_eq!((wire.tls_full, wire.tls_accepted_full, wire.tls_resumed), (20, 20, 0));
}

#[test]
fn both_sides_of_connections_without_tls_are_played() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    for transport in [Transport::Tcp, Transport::Ws] {
        let wire = options(transport, ConnectionUse::PerAttempt, &files);
        assert_eq!((wire.opened, wire.accepted, wire.broken), (20, 20, 0), "{transport}");
    }
}

#[test]
fn a_server_that_connects_needs_a_certificate_of_the_called_users() {
    let folder = tempfile::tempdir().unwrap();
    let files = TlsFiles { certificate: None, ..files(folder.path()) };
    let users = || Users::by_rule("u", 2, 0, 10, "").unwrap();
    let plan = |transport: Transport| Plan {
        transport,
        tls: transport.is_secure().then(|| LoadTls::load(&files, None, Arc::new(Silent)).unwrap()),
        called: Called::Dialled,
        ..Plan::new(([127, 0, 0, 1], 9).into(), Flow::Call, users(), users())
    };
    for (transport, expected) in
        [(Transport::Tls, "--certificate"), (Transport::Udp, "such as TCP"), (Transport::Ws, "RFC 7118")]
    {
        let error = plan(transport).check().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(plan(Transport::Tcp).check().is_ok());
}
