//! Both sides in memory, with certificates made for each test; with the feature `legacy-tls` by each pair of libraries.

mod challenges;
mod links;
mod names;

use crate::{
    Backend, ClientAuth, InlineTls, Observer, Offer, PeerCa, Role, Suite, TlsError, TlsFiles, TlsVersion,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
    date_time_ymd,
};
use ringway_linux::BoxedLayer;
use ringway_stream::{Decoded, Encoded, Layer, LayerError};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// Authority with a folder for its files.
pub(crate) struct Ca {
    pub(crate) folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

#[derive(Default)]
pub(crate) struct Failures(pub(crate) Mutex<Vec<(Role, String)>>);

impl Observer for Failures {
    fn failed(&self, _remote: SocketAddr, role: Role, reason: &str) {
        self.0.lock().unwrap().push((role, reason.to_owned()));
    }
}

impl Ca {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        fs::write(folder.path().join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { folder, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a certificate and its key; returns their paths.
    pub(crate) fn issue(
        &self,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (PathBuf, PathBuf) {
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

    pub(crate) fn files(&self, certificate: Option<(PathBuf, PathBuf)>) -> TlsFiles {
        TlsFiles { certificate, peer_ca: PeerCa::File(self.path("ca.pem")), ..TlsFiles::default() }
    }
}

/// Offers of caller and called side.
fn pairs() -> Vec<[Offer; 2]> {
    let rustls = Offer::default();
    let openssl = Offer::new(Backend::OpenSsl, Vec::new(), None, true);
    let mut pairs = vec![[rustls.clone(), rustls.clone()]];
    if let Ok(openssl) = openssl {
        pairs.push([openssl.clone(), rustls.clone()]);
        pairs.push([rustls, openssl.clone()]);
        pairs.push([openssl.clone(), openssl]);
    }
    pairs
}

/// Layers of caller and called side with the same files, for each pair of libraries.
fn both(files: &TlsFiles) -> Vec<[InlineTls; 2]> {
    let with = |offer: Offer| inline(&TlsFiles { offer, ..files.clone() }).0;
    pairs().into_iter().map(|offers| offers.map(with)).collect()
}

/// One side.
pub(crate) struct Side {
    pub(crate) layer: BoxedLayer,
    pub(crate) wire: Vec<u8>,
    pub(crate) got: Vec<u8>,
    is_ended: bool,
    pub(crate) is_failed: bool,
}

impl Side {
    pub(crate) fn new(layer: impl Layer + Send + 'static) -> Self {
        let layer = Box::new(layer);
        let mut side = Self { layer, wire: Vec::new(), got: Vec::new(), is_ended: false, is_failed: false };
        side.layer.start(&mut side.wire);
        side
    }

    pub(crate) fn send(&mut self, message: &[u8]) {
        assert_eq!(self.layer.encode(message, &mut self.wire), Ok(Encoded::Appended));
    }

    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.run(|layer, decoded, wire| layer.decode(bytes, decoded, wire));
    }

    pub(crate) fn resume(&mut self) {
        self.run(|layer, decoded, wire| layer.resume(decoded, wire));
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
}

/// Passes bytes in pieces of `piece` until both sides are silent.
pub(crate) fn exchange(one: &mut Side, other: &mut Side, piece: usize) {
    while !(one.wire.is_empty() && other.wire.is_empty()) {
        pass(one, other, piece);
        pass(other, one, piece);
    }
}

pub(crate) fn pass(from: &mut Side, to: &mut Side, piece: usize) {
    for bytes in std::mem::take(&mut from.wire).chunks(piece) {
        if !to.is_failed {
            to.receive(bytes);
        }
    }
}

pub(crate) fn remote() -> SocketAddr {
    "192.0.2.1:5061".parse().unwrap()
}

pub(crate) fn inline(files: &TlsFiles) -> (InlineTls, Arc<Failures>) {
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
    let both = both(&ca.files(Some(ca.issue("server", |_| {}))));
    for ([client, server], piece) in both.iter().flat_map(|tls| [1, 7, 100_000].map(|piece| (tls, piece))) {
        let mut caller = Side::new(client.client(remote(), Some("sip.example.org")).unwrap());
        let mut called = Side::new(server.server(remote()).unwrap());
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
fn of_many_connections_at_a_time_each_resumes_an_earlier_one() {
    let ca = Ca::new();
    let files = ca.files(Some(ca.issue("server", |_| {})));
    let [client, server] = [inline(&files).0, inline(&files).0];
    for _ in 0..2 {
        let mut sides: Vec<(Side, Side)> = (0..30)
            .map(|_| {
                let caller = Side::new(client.client(remote(), Some("sip.example.org")).unwrap());
                (caller, Side::new(server.server(remote()).unwrap()))
            })
            .collect();
        sides.iter_mut().for_each(|(caller, called)| exchange(caller, called, 100_000));
    }
    let counts = client.counters().counts();
    assert_eq!((counts.tls_dialled_full, counts.tls_dialled_resumed), (30, 30));
}

#[test]
fn the_second_connection_resumes_the_session() {
    let ca = Ca::new();
    let files = ca.files(Some(ca.issue("server", |_| {})));
    for (offers, [client, server]) in pairs().iter().zip(both(&files)) {
        for _ in 0..3 {
            connect(&client, &server, Some("sip.example.org"), 100_000);
        }
        // OpenSSL does not resume what it dials.
        let expected = if offers[0].backend() == Backend::Rustls { (1, 2) } else { (3, 0) };
        let counts = server.counters().counts();
        assert_eq!((counts.tls_accepted_full, counts.tls_accepted_resumed), expected, "{offers:?}");
        let counts = client.counters().counts();
        assert_eq!((counts.tls_dialled_full, counts.tls_dialled_resumed), expected, "{offers:?}");
    }
    let files = TlsFiles { session_timeout: None, ..ca.files(Some(ca.issue("other", |_| {}))) };
    for [client, server] in both(&files) {
        for _ in 0..2 {
            connect(&client, &server, Some("sip.example.org"), 100_000);
        }
        assert_eq!(server.counters().counts().tls_accepted_full, 2);
    }
}

/// Asserts that clients refuse a server with this certificate, for the reason.
#[track_caller]
fn refused(ca: &Ca, name: &str, pair: &(PathBuf, PathBuf), crl: Option<&PathBuf>, reason: &str) {
    for [caller, called] in pairs() {
        let (server, _) = inline(&TlsFiles { offer: called, ..ca.files(Some(pair.clone())) });
        let files = TlsFiles { crl: crl.cloned(), offer: caller.clone(), ..ca.files(None) };
        let (client, failures) = inline(&files);
        let (side, _) = connect(&client, &server, Some(name), 100_000);
        assert!(side.is_failed, "{name} is accepted by {caller:?}");
        assert_eq!(client.counters().counts().tls_failed_certificate, 1);
        let failures = failures.0.lock().unwrap();
        assert!(failures.len() == 1 && failures[0].1.contains(reason), "{caller:?}: {failures:?}");
    }
}

#[test]
fn eight_certificates_are_refused_each_with_its_reason() {
    let ca = Ca::new();
    let name = "sip.example.org";
    let expired = ca.issue("expired", |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    refused(&ca, name, &expired, None, "expired");
    let other = ca.issue("other", |_| {});
    refused(&ca, "sip.example.com", &other, None, "not valid for");
    let common_name = ca.issue("cn", |params| params.subject_alt_names.clear());
    refused(&ca, name, &common_name, None, "not valid for");
    let foreign = Ca::new();
    let wrong_ca = foreign.issue("wrong-ca", |_| {});
    refused(&ca, name, &wrong_ca, None, "");
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
    let pair = (ca.path("self.pem"), ca.path("self-key.pem"));
    fs::write(&pair.0, own.pem()).unwrap();
    fs::write(&pair.1, key.serialize_pem()).unwrap();
    refused(&ca, name, &pair, None, "");
    let usage = ca.issue("usage", |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    refused(&ca, name, &usage, None, "");
    let wildcard = ca.issue("wildcard", |params| {
        params.subject_alt_names = vec![SanType::DnsName("*.example.org".try_into().unwrap())];
    });
    for deeper in ["a.b.example.org", "sip.example.org"] {
        refused(&ca, deeper, &wildcard, None, "not valid for");
    }
    let serial = SerialNumber::from(77_u64);
    let revoked = ca.issue("revoked", |params| params.serial_number = Some(serial.clone()));
    let crl = crl_of(&ca, serial);
    refused(&ca, name, &revoked, Some(&crl), "Revoked");
    let good = ca.issue("good", |_| {});
    for [caller, called] in pairs() {
        let (server, _) = inline(&TlsFiles { offer: called, ..ca.files(Some(good.clone())) });
        let (client, _) = inline(&TlsFiles { crl: Some(crl.clone()), offer: caller, ..ca.files(None) });
        assert!(!connect(&client, &server, Some(name), 100_000).0.is_failed);
    }
}

#[test]
fn the_next_update_of_the_earliest_list_is_known() {
    let ca = Ca::new();
    let later = crl_of(&ca, SerialNumber::from(1_u64));
    let text = fs::read_to_string(&later).unwrap();
    let sooner = crl_until(&ca, SerialNumber::from(2_u64), 2025);
    let both = ca.path("both.pem");
    fs::write(&both, text + &fs::read_to_string(sooner).unwrap()).unwrap();
    for [offer, _] in pairs() {
        let material = TlsFiles { crl: Some(both.clone()), offer, ..ca.files(None) }.load().unwrap();
        let expire = SystemTime::UNIX_EPOCH + Duration::from_secs(1_735_689_600);
        assert_eq!(material.lists_expire(), Some(expire), "2025-01-01");
    }
    assert_eq!(ca.files(None).load().unwrap().lists_expire(), None);
}

fn crl_of(ca: &Ca, serial_number: SerialNumber) -> PathBuf {
    crl_until(ca, serial_number, 2099)
}

/// Revocation list whose next one is due at the beginning of a year.
fn crl_until(ca: &Ca, serial_number: SerialNumber, year: i32) -> PathBuf {
    let revoked = RevokedCertParams {
        serial_number,
        revocation_time: date_time_ymd(2024, 1, 1),
        reason_code: None,
        invalidity_date: None,
    };
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2024, 1, 1),
        next_update: date_time_ymd(year, 1, 1),
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
    for [client, server] in both(&ca.files(Some(pair.clone()))) {
        let (caller, _) = connect(&client, &server, Some("EXAMPLE.org"), 100_000);
        assert!(!caller.is_failed && !caller.layer.is_handshaking());
    }
    for other in ["sip.example.org", "example.net"] {
        refused(&ca, other, &pair, None, "not valid for");
    }
}

#[test]
fn the_certificate_covers_its_names_and_those_of_a_wildcard() {
    let ca = Ca::new();
    let covers = |names: &[&str], host: &str| {
        let pair = ca.issue("names", |params| {
            let name = |name: &&str| SanType::DnsName((*name).try_into().unwrap());
            params.subject_alt_names = names.iter().map(name).collect();
        });
        ca.files(Some(pair)).load().unwrap().covers(host)
    };
    assert_eq!(covers(&["example.org", "sip.example.org"], "SIP.example.org"), Some(true));
    assert_eq!(covers(&["example.org"], "sip.example.org"), Some(false));
    assert_eq!(covers(&["*.example.org"], "sip.example.org"), Some(true), "for web clients");
    assert_eq!(covers(&["*.example.org"], "example.org"), Some(false));
    assert_eq!(ca.files(None).load().unwrap().covers("example.org"), None);
}

#[test]
fn a_server_that_is_addressed_by_an_address_needs_it_in_its_certificate() {
    let ca = Ca::new();
    let pair = ca.issue("address", |params| params.subject_alt_names.push(SanType::IpAddress(remote().ip())));
    for [client, server] in both(&ca.files(Some(pair))) {
        assert!(!connect(&client, &server, None, 100_000).0.is_failed);
    }
    for [client, server] in both(&ca.files(Some(ca.issue("name", |_| {})))) {
        assert!(connect(&client, &server, None, 100_000).0.is_failed);
    }
}

#[test]
fn a_client_without_a_certificate_is_refused_where_one_is_required() {
    let ca = Ca::new();
    let files = TlsFiles {
        client_auth: ClientAuth::Required,
        client_ca: Some(ca.path("ca.pem")),
        ..ca.files(Some(ca.issue("server", |_| {})))
    };
    let client_pair = ca.issue("client", |_| {});
    for [caller, called] in pairs() {
        let (server, failures) = inline(&TlsFiles { offer: called, ..files.clone() });
        let (anonymous, _) = inline(&TlsFiles { offer: caller.clone(), ..ca.files(None) });
        assert!(connect(&anonymous, &server, Some("sip.example.org"), 100_000).1.is_failed);
        assert_eq!(server.counters().counts().tls_failed_certificate, 1);
        assert_eq!(failures.0.lock().unwrap()[0], (Role::Server, "the peer sent no certificate".to_owned()));
        let own = Some(client_pair.clone());
        let (proven, _) = inline(&TlsFiles { offer: caller.clone(), ..ca.files(own) });
        assert!(!connect(&proven, &server, Some("sip.example.org"), 100_000).1.is_failed);
        let other = Ca::new();
        let foreign = Some(other.issue("foreign", |_| {}));
        let (foreign, _) = inline(&TlsFiles { offer: caller, ..ca.files(foreign) });
        assert!(connect(&foreign, &server, Some("sip.example.org"), 100_000).1.is_failed);
    }
}

#[test]
fn named_suites_are_offered_in_their_order() {
    let ca = Ca::new();
    let pair = ca.issue("server", |_| {});
    let offer = |names: &[&str], version| {
        let suites = names.iter().map(|name| Suite::by_name(name).unwrap()).collect();
        Offer::new(Backend::Rustls, suites, version, false).unwrap()
    };
    let connect = |client: Offer, server: Offer| {
        let (client, failures) = inline(&TlsFiles { offer: client, ..ca.files(None) });
        let (server, refused) = inline(&TlsFiles { offer: server, ..ca.files(Some(pair.clone())) });
        connect(&client, &server, Some("sip.example.org"), 100_000);
        let refused = refused.0.lock().unwrap().first().map(|(_, reason)| reason.clone());
        let counts = server.counters().counts();
        assert_eq!(counts.tls_failed_parameters, u64::from(refused.is_some()));
        assert_eq!(failures.0.lock().unwrap().len(), usize::from(refused.is_some()));
        refused
    };
    let (gcm, chacha) = ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305");
    assert_eq!(connect(offer(&[gcm], None), offer(&[chacha, gcm], None)), None);
    let refused = connect(offer(&[gcm], None), offer(&[chacha], None)).unwrap();
    assert!(refused.contains("no cipher suite in common"), "{refused}");
    let only = |version| offer(&[], Some(version));
    assert_eq!(connect(only(TlsVersion::V1_3), Offer::default()), None);
    assert_eq!(connect(only(TlsVersion::V1_2), Offer::default()), None);
    let refused = connect(only(TlsVersion::V1_2), only(TlsVersion::V1_3)).unwrap();
    assert!(refused.contains("no version of TLS in common"), "{refused}");
}

#[test]
fn bytes_that_are_no_tls_end_the_connection() {
    let ca = Ca::new();
    let files = ca.files(Some(ca.issue("server", |_| {})));
    for [_, offer] in pairs() {
        let (tls, failures) = inline(&TlsFiles { offer, ..files.clone() });
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
        let counts = tls.counters().counts();
        assert_eq!((counts.tls_not_tls, counts.tls_failed_protocol), (3, 1));
    }
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

/// A stranger's bytes count in the memory that connections hold, as long as they cannot be processed.
#[test]
fn incomplete_messages_and_records_count_as_held_bytes() {
    let ca = Ca::new();
    let (server, _) = inline(&ca.files(Some(ca.issue("server", |_| {}))));
    let mut called = Side::new(server.server(remote()).unwrap());
    let before = called.layer.held_bytes();
    // A ClientHello of 60,000 bytes in records of 16,000, without its end.
    let mut hello = [&[1, 0, 234, 96][..], &vec![3; 60_000]].concat();
    hello.truncate(48_000);
    for part in hello.chunks(16_000) {
        called.receive(&[&[22, 3, 1, 62, 128][..], part].concat());
    }
    assert!(!called.is_failed && called.layer.held_bytes() >= before + hello.len(), "{before}");

    let mut called = Side::new(server.server(remote()).unwrap());
    let mut caller = Side::new(server.client(remote(), Some("sip.example.org")).unwrap());
    exchange(&mut caller, &mut called, 1000);
    let open = called.layer.held_bytes();
    called.receive(&[&[23, 3, 3, 64, 0][..], &[7; 10_000]].concat());
    assert_eq!(called.layer.held_bytes(), open + 10_005);
}

#[test]
fn a_connection_that_ends_before_the_servers_answer_is_reported() {
    let ca = Ca::new();
    let (server, _) = inline(&ca.files(Some(ca.issue("server", |_| {}))));
    let (client, failures) = inline(&ca.files(None));
    let reported = || std::mem::take(&mut *failures.0.lock().unwrap());
    let layer = || client.client(remote(), Some("sip.example.org")).unwrap().reporting_end();
    let dial = || Side::new(layer());
    drop(dial());
    let reports = reported();
    assert!(matches!(reports.as_slice(), [(Role::Client, why)] if why.contains("with TLS")), "{reports:?}");
    let (mut caller, mut called) = (dial(), Side::new(server.server(remote()).unwrap()));
    exchange(&mut caller, &mut called, 1000);
    drop(caller);
    // A connection that was never made has no handshake.
    drop(layer());
    assert!(reported().is_empty());
    let mut refused = dial();
    refused.receive(b"SIP/2.0 400 Bad Request\r\n\r\n");
    assert!(refused.is_failed);
    drop(refused);
    assert_eq!(reported().len(), 1, "its own reason only");
}
