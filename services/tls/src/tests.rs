//! Both sides in memory, with certificates made for each test.

use crate::{ClientAuth, HandshakeLimits, InlineTls, Observer, PeerCa, Role, TlsError, TlsFiles, TlsLayers};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
    date_time_ymd,
};
use ringway_linux::{BoxedLayer, Hosts, Layers, Resume};
use ringway_sansio::{Flow, HostNameId, ListenerId, Transport};
use ringway_stream::{Decoded, Encoded, Layer, LayerError, Origin};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Authority with a folder for its files.
struct Ca {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

#[derive(Default)]
struct Failures(Mutex<Vec<(Role, String)>>);

impl Observer for Failures {
    fn failed(&self, _remote: SocketAddr, role: Role, reason: &str) {
        self.0.lock().unwrap().push((role, reason.to_owned()));
    }
}

impl Ca {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        fs::write(folder.path().join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { folder, issuer: Issuer::new(params, key) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a certificate and its key; returns their paths.
    fn issue(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new(vec!["sip.example.org".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "sip.example.org");
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let paths = (self.path(&format!("{name}.pem")), self.path(&format!("{name}-key.pem")));
        fs::write(&paths.0, certificate.pem()).unwrap();
        fs::write(&paths.1, key.serialize_pem()).unwrap();
        paths
    }

    fn files(&self, certificate: Option<(PathBuf, PathBuf)>) -> TlsFiles {
        TlsFiles { certificate, peer_ca: PeerCa::File(self.path("ca.pem")), ..TlsFiles::default() }
    }
}

/// One side.
struct Side {
    layer: BoxedLayer,
    wire: Vec<u8>,
    got: Vec<u8>,
    is_ended: bool,
    is_failed: bool,
}

impl Side {
    fn new(layer: impl Layer + Send + 'static) -> Self {
        let layer = Box::new(layer);
        let mut side = Self { layer, wire: Vec::new(), got: Vec::new(), is_ended: false, is_failed: false };
        side.layer.start(&mut side.wire);
        side
    }

    fn send(&mut self, message: &[u8]) {
        assert_eq!(self.layer.encode(message, &mut self.wire), Ok(Encoded::Appended));
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.run(|layer, decoded, wire| layer.decode(bytes, decoded, wire));
    }

    fn run(
        &mut self,
        run: impl FnOnce(&mut BoxedLayer, &mut dyn FnMut(Decoded<'_>), &mut Vec<u8>) -> Result<(), LayerError>,
    ) {
        let Self { layer, wire, got, is_ended, .. } = self;
        let mut decoded = |part: Decoded<'_>| match part {
            Decoded::Bytes(bytes) => got.extend_from_slice(bytes),
            Decoded::StreamEnd => *is_ended = true,
            Decoded::MessageStart | Decoded::MessageEnd | Decoded::Ping => panic!("TLS has no messages"),
        };
        self.is_failed |= run(layer, &mut decoded, wire).is_err();
    }

    /// Waits for a thread to run the next step.
    fn wait(&mut self) {
        for _ in 0..5000 {
            if !self.wire.is_empty() || self.is_failed || !self.layer.is_handshaking() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
            self.run(|layer, decoded, wire| layer.resume(decoded, wire));
        }
        panic!("the threads do not answer");
    }
}

/// Passes bytes in pieces of `piece` until both sides are silent.
fn exchange(one: &mut Side, other: &mut Side, piece: usize) {
    while !(one.wire.is_empty() && other.wire.is_empty()) {
        pass(one, other, piece);
        pass(other, one, piece);
    }
}

fn pass(from: &mut Side, to: &mut Side, piece: usize) {
    for bytes in std::mem::take(&mut from.wire).chunks(piece) {
        if !to.is_failed {
            to.receive(bytes);
        }
    }
}

fn remote() -> SocketAddr {
    "192.0.2.1:5061".parse().unwrap()
}

fn inline(files: &TlsFiles) -> (InlineTls, Arc<Failures>) {
    let failures = Arc::new(Failures::default());
    (InlineTls::new(files.load().unwrap(), Arc::clone(&failures) as Arc<dyn Observer>), failures)
}

/// Connects by `name`; returns both sides after the handshake.
fn connect(client: &InlineTls, server: &InlineTls, name: Option<&str>, piece: usize) -> (Side, Side) {
    let mut caller = Side::new(client.client(remote(), name).unwrap());
    let mut called = Side::new(server.server(remote()).unwrap());
    exchange(&mut caller, &mut called, piece);
    (caller, called)
}

#[test]
fn messages_cross_in_both_directions_in_pieces_of_any_size() {
    let ca = Ca::new();
    let (tls, _) = inline(&ca.files(Some(ca.issue("server", |_| {}))));
    for piece in [1, 7, 100_000] {
        let mut caller = Side::new(tls.client(remote(), Some("sip.example.org")).unwrap());
        let mut called = Side::new(tls.server(remote()).unwrap());
        caller.send(b"sent before the handshake");
        assert!(caller.layer.is_handshaking() && called.layer.is_handshaking());
        exchange(&mut caller, &mut called, piece);
        assert!(!caller.layer.is_handshaking() && !called.layer.is_handshaking());
        let long = vec![b'x'; 100_000];
        called.send(&long);
        exchange(&mut caller, &mut called, piece);
        assert_eq!((called.got.as_slice(), caller.got.len()), (&b"sent before the handshake"[..], 100_000));
        caller.layer.finish(&mut caller.wire);
        exchange(&mut caller, &mut called, piece);
        assert!(called.is_ended && !called.is_failed);
    }
}

#[test]
fn the_second_connection_resumes_the_session() {
    let ca = Ca::new();
    let (tls, _) = inline(&ca.files(Some(ca.issue("server", |_| {}))));
    for _ in 0..3 {
        connect(&tls, &tls, Some("sip.example.org"), 100_000);
    }
    let counts = tls.counters().counts();
    assert_eq!((counts.tls_accepted_full, counts.tls_accepted_resumed), (1, 2));
    assert_eq!((counts.tls_dialled_full, counts.tls_dialled_resumed), (1, 2));
    let files = TlsFiles { session_timeout: None, ..ca.files(Some(ca.issue("other", |_| {}))) };
    let (tls, _) = inline(&files);
    for _ in 0..2 {
        connect(&tls, &tls, Some("sip.example.org"), 100_000);
    }
    assert_eq!(tls.counters().counts().tls_accepted_full, 2);
}

/// Layers of a server, whose workers have this time for handshakes.
fn served(files: &TlsFiles, inline_burst: Duration) -> (TlsLayers, Arc<Failures>) {
    let failures = Arc::new(Failures::default());
    let limits = HandshakeLimits { inline_burst, ..HandshakeLimits::default() };
    let hosts = Arc::new(Hosts::default());
    let observer = Arc::clone(&failures) as Arc<dyn Observer>;
    (TlsLayers::start(files.load().unwrap(), hosts, limits, observer).unwrap(), failures)
}

/// Side of a server whose steps may run on threads.
fn accept(layers: &TlsLayers) -> Side {
    let (transport, listener) = (Transport::Tls, ListenerId(0));
    let flow = Flow { transport, listener, remote: remote(), connection: None, host: HostNameId::NONE };
    Side::new(layers.layer(Origin::Accepted, &flow, Resume::none()).unwrap())
}

/// Handshake and one message; `called` may need threads.
fn shake_hands(client: &InlineTls, mut called: Side) -> Side {
    let mut caller = Side::new(client.client(remote(), Some("sip.example.org")).unwrap());
    caller.send(b"REGISTER");
    while called.got.is_empty() {
        pass(&mut caller, &mut called, 100_000);
        called.wait();
        pass(&mut called, &mut caller, 100_000);
        assert!(!caller.is_failed && !called.is_failed);
    }
    assert_eq!(called.got, b"REGISTER");
    called
}

#[test]
fn handshakes_run_on_the_worker_while_it_has_time_for_them() {
    let ca = Ca::new();
    let files = ca.files(Some(ca.issue("server", |_| {})));
    let (client, _) = inline(&files);
    for (burst, expected) in [(Duration::from_secs(60), (3, 0)), (Duration::ZERO, (0, 3))] {
        let (layers, _) = served(&files, burst);
        for _ in 0..3 {
            shake_hands(&client, accept(&layers));
        }
        let counts = layers.counters().counts();
        assert_eq!((counts.tls_handshakes_inline, counts.tls_handshakes_handed_over), expected);
    }
}

#[test]
fn a_flood_of_handshakes_is_handed_over() {
    let ca = Ca::new();
    let files = ca.files(Some(ca.issue("server", |_| {})));
    let (client, _) = inline(&files);
    let (layers, _) = served(&files, HandshakeLimits::default().inline_burst);
    // The client takes no more time than the server, so the server's share would be a third at least.
    for _ in 0..200 {
        shake_hands(&client, accept(&layers));
    }
    let counts = layers.counters().counts();
    assert_eq!(counts.tls_handshakes_inline + counts.tls_handshakes_handed_over, 200);
    assert!(counts.tls_handshakes_handed_over > 100, "{counts:?}");
}

#[test]
fn a_clients_certificate_is_verified_on_a_thread() {
    let ca = Ca::new();
    let files = TlsFiles {
        client_auth: ClientAuth::Required,
        client_ca: Some(ca.path("ca.pem")),
        ..ca.files(Some(ca.issue("server", |_| {})))
    };
    let (layers, _) = served(&files, Duration::from_secs(60));
    let (client, _) = inline(&files);
    for _ in 0..3 {
        shake_hands(&client, accept(&layers));
    }
    let counts = layers.counters().counts();
    assert_eq!(
        (counts.tls_accepted_full, counts.tls_handshakes_handed_over),
        (1, 1),
        "resumed ones are inline"
    );
}

#[test]
fn a_handshake_on_a_thread_has_limits_and_one_report() {
    let ca = Ca::new();
    let (layers, failures) = served(&ca.files(Some(ca.issue("server", |_| {}))), Duration::ZERO);
    // The header of a record that is longer than permitted, then more than a job takes.
    let mut called = accept(&layers);
    called.receive(&[22, 3, 1, 255, 255, 0]);
    called.wait();
    assert!(called.is_failed);
    assert_eq!(failures.0.lock().unwrap().len(), 1);
    let mut called = accept(&layers);
    while !called.is_failed {
        assert!(called.layer.held_bytes() < 128 << 10);
        called.receive(&[[22, 3, 1, 0x40, 0].as_slice(), &[0; 4000]].concat());
    }
    assert_eq!(failures.0.lock().unwrap().len(), 2);
    assert_eq!(layers.counters().counts().tls_failed_protocol, 2);
}

#[test]
fn bytes_of_a_closed_connection_are_still_processed() {
    let ca = Ca::new();
    let (layers, failures) = served(&ca.files(Some(ca.issue("server", |_| {}))), Duration::ZERO);
    let mut called = accept(&layers);
    // A ClientHello that cannot be read.
    called.receive(&[22, 3, 1, 0, 4, 1, 0, 0, 0]);
    drop(called);
    for _ in 0..5000 {
        if !failures.0.lock().unwrap().is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the failure is not reported");
}

/// Asserts that a client refuses a server with this certificate; returns the reason.
#[track_caller]
fn refusal(ca: &Ca, name: &str, pair: (PathBuf, PathBuf), crl: Option<PathBuf>) -> String {
    let (server, _) = inline(&ca.files(Some(pair)));
    let (client, failures) = inline(&TlsFiles { crl, ..ca.files(None) });
    let (caller, _) = connect(&client, &server, Some(name), 100_000);
    assert!(caller.is_failed, "{name} is accepted");
    assert_eq!(client.counters().counts().tls_failed_certificate, 1);
    let failures = failures.0.lock().unwrap();
    assert_eq!(failures.len(), 1);
    failures[0].1.clone()
}

#[test]
fn eight_certificates_are_refused_each_with_its_reason() {
    let ca = Ca::new();
    let name = "sip.example.org";
    let expired = ca.issue("expired", |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    assert!(refusal(&ca, name, expired, None).contains("expired"));
    let other = ca.issue("other", |_| {});
    assert!(refusal(&ca, "sip.example.com", other, None).contains("not valid for"));
    let common_name = ca.issue("cn", |params| params.subject_alt_names.clear());
    refusal(&ca, name, common_name, None);
    let foreign = Ca::new();
    let wrong_ca = foreign.issue("wrong-ca", |_| {});
    refusal(&ca, name, wrong_ca, None);
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
    let pair = (ca.path("self.pem"), ca.path("self-key.pem"));
    fs::write(&pair.0, own.pem()).unwrap();
    fs::write(&pair.1, key.serialize_pem()).unwrap();
    refusal(&ca, name, pair, None);
    let usage = ca.issue("usage", |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    refusal(&ca, name, usage, None);
    let wildcard = ca.issue("wildcard", |params| {
        params.subject_alt_names = vec![SanType::DnsName("*.example.org".try_into().unwrap())];
    });
    for deeper in ["a.b.example.org", "sip.example.org"] {
        refusal(&ca, deeper, wildcard.clone(), None);
    }
    let serial = SerialNumber::from(77_u64);
    let revoked = ca.issue("revoked", |params| params.serial_number = Some(serial.clone()));
    let crl = crl_of(&ca, serial);
    assert!(refusal(&ca, name, revoked, Some(crl)).contains("Revoked"));
}

fn crl_of(ca: &Ca, serial_number: SerialNumber) -> PathBuf {
    let revoked = RevokedCertParams {
        serial_number,
        revocation_time: date_time_ymd(2024, 1, 1),
        reason_code: None,
        invalidity_date: None,
    };
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2024, 1, 1),
        next_update: date_time_ymd(2099, 1, 1),
        crl_number: SerialNumber::from(1_u64),
        issuing_distribution_point: None,
        revoked_certs: vec![revoked],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let path = ca.path("crl.pem");
    fs::write(&path, list.signed_by(&ca.issuer).unwrap().pem().unwrap()).unwrap();
    path
}

#[test]
fn sip_uris_are_the_identities_where_there_are_some() {
    let ca = Ca::new();
    let uri = |uri: &str| SanType::URI(uri.try_into().unwrap());
    let pair = ca.issue("uris", |params| {
        params.subject_alt_names.push(uri("sip:example.org"));
        params.subject_alt_names.push(uri("sip:alice@example.net"));
    });
    let (server, _) = inline(&ca.files(Some(pair.clone())));
    let (client, _) = inline(&ca.files(None));
    let (caller, _) = connect(&client, &server, Some("EXAMPLE.org"), 100_000);
    assert!(!caller.is_failed && !caller.layer.is_handshaking());
    for other in ["sip.example.org", "example.net"] {
        refusal(&ca, other, pair.clone(), None);
    }
}

#[test]
fn a_server_that_is_addressed_by_an_address_needs_it_in_its_certificate() {
    let ca = Ca::new();
    let pair = ca.issue("address", |params| params.subject_alt_names.push(SanType::IpAddress(remote().ip())));
    let (server, _) = inline(&ca.files(Some(pair)));
    let (client, _) = inline(&ca.files(None));
    assert!(!connect(&client, &server, None, 100_000).0.is_failed);
    let (server, _) = inline(&ca.files(Some(ca.issue("name", |_| {}))));
    assert!(connect(&client, &server, None, 100_000).0.is_failed);
}

#[test]
fn a_client_without_a_certificate_is_refused_where_one_is_required() {
    let ca = Ca::new();
    let files = TlsFiles {
        client_auth: ClientAuth::Required,
        client_ca: Some(ca.path("ca.pem")),
        ..ca.files(Some(ca.issue("server", |_| {})))
    };
    let (server, failures) = inline(&files);
    let (anonymous, _) = inline(&ca.files(None));
    assert!(connect(&anonymous, &server, Some("sip.example.org"), 100_000).1.is_failed);
    assert_eq!(server.counters().counts().tls_failed_certificate, 1);
    assert_eq!(failures.0.lock().unwrap()[0].0, Role::Server);
    let (proven, _) = inline(&ca.files(Some(ca.issue("client", |_| {}))));
    assert!(!connect(&proven, &server, Some("sip.example.org"), 100_000).1.is_failed);
}

#[test]
fn bytes_that_are_no_tls_end_the_connection() {
    let ca = Ca::new();
    let (tls, failures) = inline(&ca.files(Some(ca.issue("server", |_| {}))));
    for bytes in
        [&b"REGISTER sip:example.org SIP/2.0\r\n"[..], &[22, 3, 1, 255, 255, 0], &[0; 64], &[255; 64]]
    {
        let mut side = Side::new(tls.server(remote()).unwrap());
        side.receive(bytes);
        assert!(side.is_failed, "{bytes:?}");
        side.receive(b"more");
        assert!(side.layer.encode(b"x", &mut side.wire).is_err());
    }
    assert_eq!(failures.0.lock().unwrap().len(), 4);
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let ca = Ca::new();
    let (certificate, key) = ca.issue("server", |_| {});
    let other_key = ca.issue("other", |_| {}).1;
    let error = |files: TlsFiles| files.load().err().unwrap().to_string();
    let missing = error(ca.files(Some((ca.path("none.pem"), key.clone()))));
    assert!(missing.starts_with("certificate: cannot read") && missing.contains("none.pem"), "{missing}");
    let swapped = error(ca.files(Some((key, certificate.clone()))));
    assert!(swapped.contains("no certificate in PEM"), "{swapped}");
    let pair = error(ca.files(Some((certificate.clone(), other_key))));
    assert!(pair.contains("does not fit the certificate"), "{pair}");
    let ca_missing =
        TlsFiles { peer_ca: PeerCa::File(Path::new("/nonexistent/ca.pem").into()), ..TlsFiles::default() };
    assert!(error(ca_missing).starts_with("peer_ca: "));
    let no_client_ca =
        TlsFiles { client_auth: ClientAuth::Optional, ..ca.files(Some(ca.issue("third", |_| {}))) };
    assert!(matches!(no_client_ca.load().err(), Some(TlsError::NoClientCa)));
    let loaded =
        ca.files(Some(ca.issue("fourth", |params| params.not_after = date_time_ymd(2098, 5, 1)))).load();
    assert_eq!(
        loaded.unwrap().expires().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs(),
        4_049_740_800
    );
}
