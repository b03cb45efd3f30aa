//! A client and a server with a link between them, on a virtual clock. The certificates are files, as in `[tls]`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use super::session::{ASSOCIATION_BYTES, FIRST_RETRANSMISSION, MESSAGE_BYTES_MAX};
use super::{DtlsLimits, DtlsTransport};
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SanType};
use ringway_datagram::{Association, Associations, FirstDatagram, Output, SendError};
use ringway_sansio::{Flow, HostNameId, Instant, ListenerId, Seed, Transport};
use ringway_tls::{Observer, PeerCa, Role, TlsFiles, TlsMaterial};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

#[derive(Default)]
struct Reasons(Mutex<Vec<String>>);

impl Observer for Reasons {
    fn failed(&self, _remote: SocketAddr, _role: Role, reason: &str) {
        self.0.lock().unwrap().push(reason.to_owned());
    }
}

/// Both sides, and the certificate of the server.
struct Pair {
    server: DtlsTransport,
    client: DtlsTransport,
    reasons: Arc<Reasons>,
    now: Instant,
    _folder: TempDir,
}

fn load(folder: &Path, has_certificate: bool) -> TlsMaterial {
    let certificate = has_certificate.then(|| (folder.join("cert.pem"), folder.join("key.pem")));
    TlsFiles { certificate, peer_ca: PeerCa::File(folder.join("cert.pem")), ..TlsFiles::default() }
        .load()
        .unwrap()
}

/// Writes a certificate for `sip.example.org` and 192.0.2.1.
fn write_certificate(folder: &Path, key: &KeyPair) {
    let mut params = CertificateParams::new(vec!["sip.example.org".to_owned()]).unwrap();
    params.subject_alt_names.push(SanType::IpAddress("192.0.2.1".parse().unwrap()));
    std::fs::write(folder.join("cert.pem"), params.self_signed(key).unwrap().pem()).unwrap();
    std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
}

fn pair_with(limits: DtlsLimits, key: &KeyPair) -> Pair {
    let folder = TempDir::new().unwrap();
    write_certificate(folder.path(), key);
    let reasons = Arc::new(Reasons::default());
    let (server, client) = (load(folder.path(), true), load(folder.path(), false));
    let seed = Seed::from_number(1);
    let names =
        |host: HostNameId| Some(Arc::from(if host.0 == 1 { "sip.example.org" } else { "other.example.org" }));
    Pair {
        server: DtlsTransport::server(server, seed, limits, Arc::clone(&reasons) as _).unwrap(),
        client: DtlsTransport::client(client, Box::new(names), Arc::clone(&reasons) as _).unwrap(),
        reasons,
        now: Instant::from_secs(1000),
        _folder: folder,
    }
}

fn pair() -> Pair {
    pair_with(DtlsLimits::default(), &KeyPair::generate().unwrap())
}

fn flow(remote: &str, host: u32) -> Flow {
    let remote = remote.parse().unwrap();
    Flow { transport: Transport::Dtls, host: HostNameId(host), ..Flow::udp(ListenerId(0), remote) }
}

/// The client's address.
const ALICE: &str = "198.51.100.7:40000";

fn datagrams(of: &mut dyn Association) -> Vec<Vec<u8>> {
    outputs(of).into_iter().filter_map(|output| datagram(&output)).collect()
}

fn datagram(output: &Output) -> Option<Vec<u8>> {
    match output {
        Output::Datagram(bytes) => Some(bytes.clone()),
        _ => None,
    }
}

fn outputs(of: &mut dyn Association) -> Vec<Output> {
    std::iter::from_fn(|| of.poll()).collect()
}

/// Passes the datagrams of one side to the other.
fn give(from: &mut dyn Association, to: &mut dyn Association, now: Instant) {
    for bytes in datagrams(from) {
        to.on_datagram(now, &bytes);
    }
}

impl Pair {
    fn dial(&self, host: u32) -> Box<dyn Association> {
        self.client.dial(self.now, &flow("192.0.2.1:5061", host)).unwrap()
    }

    /// The answer to a ClientHello.
    fn judge(&self, from: &str, hello: &[u8]) -> (FirstDatagram, Vec<u8>) {
        let mut answer = Vec::new();
        (self.server.judge(self.now, &flow(from, 0), hello, &mut answer), answer)
    }

    /// The ClientHello with its cookie.
    fn hello(&self, client: &mut dyn Association, from: &str) -> Vec<u8> {
        let [first] = datagrams(client).try_into().unwrap();
        let (judged, answer) = self.judge(from, &first);
        assert_eq!(judged, FirstDatagram::Answered);
        assert!(answer.len() < first.len());
        client.on_datagram(self.now, &answer);
        let [second] = datagrams(client).try_into().unwrap();
        second
    }

    /// Both sides of a handshake, after the ClientHello was accepted.
    fn begin(&self) -> (Box<dyn Association>, Box<dyn Association>) {
        let mut client = self.dial(1);
        let hello = self.hello(&mut *client, ALICE);
        assert_eq!(self.judge(ALICE, &hello).0, FirstDatagram::Proven);
        (client, self.server.accept(self.now, &flow(ALICE, 0), &hello).unwrap())
    }

    fn established(&self) -> (Box<dyn Association>, Box<dyn Association>) {
        let (mut client, mut server) = self.begin();
        for _ in 0..2 {
            give(&mut *server, &mut *client, self.now);
            for output in outputs(&mut *client) {
                datagram(&output).into_iter().for_each(|bytes| server.on_datagram(self.now, &bytes));
            }
        }
        assert!(client.is_established() && server.is_established());
        outputs(&mut *client);
        outputs(&mut *server);
        (client, server)
    }
}

fn expect_message(from: &mut dyn Association, to: &mut dyn Association, message: &[u8], now: Instant) {
    from.send(now, message).unwrap();
    give(from, to, now);
    assert_eq!(outputs(to), [Output::Message(message.to_vec())]);
}

#[test]
fn messages_pass_in_both_directions_after_a_handshake_with_a_cookie() {
    let pair = pair();
    let (mut client, mut server) = pair.established();
    expect_message(&mut *client, &mut *server, b"REGISTER", pair.now);
    expect_message(&mut *server, &mut *client, b"200", pair.now);
    expect_message(&mut *client, &mut *server, &vec![b'x'; MESSAGE_BYTES_MAX], pair.now);
    assert_eq!(client.send(pair.now, &vec![0; MESSAGE_BYTES_MAX + 1]), Err(SendError::TooLong));
    let names = client.peer_names().unwrap();
    assert!(names.is_domain("sip.example.org", pair.now), "{names:?}");
    let also = |host: u32| client.is_also(&flow("192.0.2.1:5061", host));
    assert_eq!((also(0), also(1), also(2)), (true, true, false), "its address, its name, another name");
    let (server, client) = (pair.server.counters().counts(), pair.client.counters().counts());
    assert_eq!((server.dtls_cookies_sent, server.dtls_accepted, client.dtls_dialled), (1, 1, 1));
    assert_eq!((client.dtls_too_long, server.dtls_failed), (1, 0));
}

#[test]
fn keys_of_every_usual_kind_serve() {
    let p384 = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    pair_with(DtlsLimits::default(), &p384).established();
    let folder = TempDir::new().unwrap();
    write_certificate(folder.path(), &KeyPair::generate_for(&PKCS_ED25519).unwrap());
    let (material, seed) = (load(folder.path(), true), Seed::from_number(1));
    let made = DtlsTransport::server(material, seed, DtlsLimits::default(), Arc::<Reasons>::default());
    let error = made.err().unwrap().to_string();
    assert!(error.contains("P-256"), "{error}");
}

#[test]
fn a_cookie_of_another_address_or_time_begins_nothing() {
    let mut pair = pair();
    let mut client = pair.dial(1);
    let hello = pair.hello(&mut *client, ALICE);
    assert_eq!(pair.judge("198.51.100.8:40000", &hello), (FirstDatagram::Dropped, Vec::new()));
    pair.now = pair.now + Duration::from_secs(121);
    assert_eq!(pair.judge(ALICE, &hello).0, FirstDatagram::Dropped);
    assert_eq!(pair.judge(ALICE, b"OPTIONS sip:example.org SIP/2.0").0, FirstDatagram::Dropped);
    let counts = pair.server.counters().counts();
    assert_eq!((counts.dtls_cookies_wrong, counts.dtls_not_hello, counts.dtls_accepted), (2, 1, 0));
}

#[test]
fn every_lost_flight_is_sent_again_after_a_doubling_interval() {
    let pair = pair();
    let (mut client, mut server) = pair.begin();
    let (mut now, mut interval) = (pair.now, FIRST_RETRANSMISSION);
    let lost = datagrams(&mut *server);
    assert!(!lost.is_empty());
    for _ in 0..3 {
        assert_eq!(server.next_deadline(), Some(now + interval));
        server.on_timeout(now + interval / 2);
        assert!(server.poll().is_none(), "it is not due");
        now = now + interval;
        server.on_timeout(now);
        interval *= 2;
        assert_eq!(datagrams(&mut *server).len(), lost.len());
    }
    // The client repeats its ClientHello meanwhile, which changes nothing.
    client.on_timeout(now);
    for bytes in datagrams(&mut *client) {
        server.on_datagram(now, &bytes);
    }
    assert!(server.poll().is_none());
    now = now + interval;
    server.on_timeout(now);
    give(&mut *server, &mut *client, now);
    // The client's Finished is lost once, then the server's.
    assert!(!datagrams(&mut *client).is_empty());
    now = now + FIRST_RETRANSMISSION;
    client.on_timeout(now);
    give(&mut *client, &mut *server, now);
    assert!(server.is_established() && server.next_deadline().is_none());
    assert!(!datagrams(&mut *server).is_empty());
    now = now + FIRST_RETRANSMISSION * 2;
    client.on_timeout(now);
    give(&mut *client, &mut *server, now);
    give(&mut *server, &mut *client, now);
    assert!(client.is_established());
    outputs(&mut *client);
    expect_message(&mut *client, &mut *server, b"REGISTER", now);
}

#[test]
fn the_servers_records_continue_the_numbers_of_a_client_that_retransmitted() {
    let pair = pair();
    let mut client = pair.dial(1);
    let first = datagrams(&mut *client);
    client.on_timeout(pair.now + FIRST_RETRANSMISSION);
    let [repeated] = datagrams(&mut *client).try_into().unwrap();
    assert_ne!(repeated[10], first[0][10], "record numbers");
    let (_, answer) = pair.judge(ALICE, &repeated);
    assert_eq!(answer[10], repeated[10], "RFC 6347 §4.2.1");
    client.on_datagram(pair.now, &answer);
    let [hello] = datagrams(&mut *client).try_into().unwrap();
    let mut server = pair.server.accept(pair.now, &flow(ALICE, 0), &hello).unwrap();
    assert_eq!(datagrams(&mut *server)[0][10], hello[10]);
}

#[test]
fn a_server_with_another_name_is_refused() {
    let pair = pair();
    for (host, fits) in [(0, true), (1, true), (2, false)] {
        let mut client = pair.dial(host);
        let hello = pair.hello(&mut *client, ALICE);
        let mut server = pair.server.accept(pair.now, &flow(ALICE, 0), &hello).unwrap();
        give(&mut *server, &mut *client, pair.now);
        let flight = outputs(&mut *client);
        assert_eq!(flight.contains(&Output::Failed), !fits, "host {host}");
        flight.iter().filter_map(datagram).for_each(|bytes| server.on_datagram(pair.now, &bytes));
        give(&mut *server, &mut *client, pair.now);
        assert_eq!((client.is_established(), server.is_established()), (fits, fits), "host {host}");
    }
    let reasons = pair.reasons.0.lock().unwrap().join("\n");
    assert!(reasons.contains("RFC 5922"), "{reasons}");
    assert_eq!(pair.client.counters().counts().dtls_failed_certificate, 1);
}

#[test]
fn the_end_of_an_association_reaches_the_peer() {
    let pair = pair();
    let (mut client, mut server) = pair.established();
    client.close(pair.now);
    assert_eq!(client.send(pair.now, b"BYE"), Err(SendError::NotEstablished));
    give(&mut *client, &mut *server, pair.now);
    assert!(outputs(&mut *server).contains(&Output::Closed));
    assert_eq!(server.send(pair.now, b"BYE"), Err(SendError::NotEstablished));
}

#[test]
fn forged_datagrams_neither_end_an_association_nor_grow_it() {
    let pair = pair();
    let (mut client, mut server) = pair.established();
    let alert = [21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 99, 0, 2, 2, 40];
    let forged =
        [23, 254, 253, 0, 1, 0, 0, 0, 0, 0, 99, 0, 24].into_iter().chain([7; 24]).collect::<Vec<_>>();
    let fragment = [22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 98, 0, 14, 11, 0, 9, 9, 0, 9, 0, 0, 0, 0, 0, 2, 1, 1];
    for bytes in [&alert[..], &forged, b"junk", &[]] {
        server.on_datagram(pair.now, bytes);
    }
    for _ in 0..100 {
        server.on_datagram(pair.now, &fragment);
    }
    assert!(server.is_established());
    outputs(&mut *server);
    // The alert and the junk; a repeat of the handshake is not counted.
    assert_eq!(pair.server.counters().counts().dtls_excess, 2);
    expect_message(&mut *client, &mut *server, b"REGISTER", pair.now);
}

/// A record with fragments of one byte each of the message `sequence`, a ClientKeyExchange of 1,024 bytes.
fn fragments(record: u16, sequence: u8, offsets: std::ops::Range<u16>) -> Vec<u8> {
    let fragment = |offset: u16| {
        let [high, low] = offset.to_be_bytes();
        [16, 0, 4, 0, 0, sequence, 0, high, low, 0, 0, 1, 7]
    };
    let payload: Vec<u8> = offsets.flat_map(fragment).collect();
    let [high, low] = record.to_be_bytes();
    let header = [22, 254, 253, 0, 0, 0, 0, 0, 0, high, low];
    [&header, &(payload.len() as u16).to_be_bytes()[..], &payload].concat()
}

#[test]
fn a_megabyte_of_fragments_keeps_little() {
    let pair = pair();
    let (_client, mut server) = pair.begin();
    let before = server.held_bytes();
    let mut sent = 0;
    for number in 0..1200_u16 {
        // Every other byte: the message is never complete.
        let datagram = fragments(number + 2, (number % 9 + 2) as u8, number % 900..number % 900 + 70);
        sent += datagram.len();
        server.on_datagram(pair.now, &datagram);
    }
    assert!(sent > 1 << 20, "{sent}");
    assert!(server.held_bytes() < before + (25 << 10), "{} bytes more", server.held_bytes() - before);
    let excess = pair.server.counters().counts().dtls_excess;
    assert!(excess > 1000, "{excess} refused");
}

/// All handshakes that one source may have, each with parts of messages that never become whole.
#[test]
fn a_megabyte_of_fragments_of_one_source_keeps_64_kib() {
    let per_source = DtlsLimits::default().per_source;
    let limits = DtlsLimits { rate_per_source: 1000, burst: 1000, rate: 1000, ..DtlsLimits::default() };
    let pair = pair_with(limits, &KeyPair::generate().unwrap());
    let mut sessions: Vec<_> = (0..per_source).map(|_| pair.begin()).collect();
    let (mut sent, mut kept_max) = (0, 0);
    for number in 0..40 {
        // All but the first byte of a ClientKeyExchange.
        let mut datagram = vec![22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 9, 4, 11];
        datagram.extend([16, 0, 4, 0, 0, number % 6 + 2, 0, 0, 1, 0, 3, 255]);
        datagram.resize(13 + 1035, 0);
        sent += per_source * datagram.len();
        sessions.iter_mut().for_each(|(_, server)| server.on_datagram(pair.now, &datagram));
        // A driver forgets those that have failed.
        sessions.retain_mut(|(_, server)| !outputs(&mut **server).contains(&Output::Failed));
        let kept = sessions.iter().map(|(_, server)| server.held_bytes() - ASSOCIATION_BYTES).sum::<usize>();
        kept_max = kept_max.max(kept);
    }
    assert!(sent > 1 << 20, "{sent}");
    assert!((32 << 10..=64 << 10).contains(&kept_max), "{kept_max} bytes");
    assert!(pair.server.counters().counts().dtls_refused_source > 0 && !sessions.is_empty());
}

#[test]
fn chains_of_fragments_after_the_handshake_are_not_followed() {
    let pair = pair();
    let (mut client, mut server) = pair.established();
    for number in 0..100 {
        for sequence in [3, 4, 5] {
            server.on_datagram(pair.now, &fragments(1000 + number, sequence, 0..1024));
        }
    }
    assert!(server.poll().is_none());
    expect_message(&mut *client, &mut *server, b"REGISTER", pair.now);
}

#[test]
fn a_source_whose_handshakes_keep_too_much_loses_them() {
    let limits = DtlsLimits { bytes_per_source: 1024, ..DtlsLimits::default() };
    let pair = pair_with(limits, &KeyPair::generate().unwrap());
    let (_client, mut server) = pair.begin();
    let mut record = vec![22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 9, 4, 11];
    record.extend([16, 0, 4, 0, 0, 2, 0, 0, 0, 0, 3, 255]);
    record.resize(13 + 1035, 0);
    server.on_datagram(pair.now, &record);
    assert_eq!(outputs(&mut *server).last(), Some(&Output::Failed), "two ClientHellos and this");
    assert_eq!(pair.server.counters().counts().dtls_refused_source, 1);
}

#[test]
fn handshakes_that_end_give_their_number_back() {
    let limits = DtlsLimits { per_source: 1, ..DtlsLimits::default() };
    let pair = pair_with(limits, &KeyPair::generate().unwrap());
    let accept = || {
        let mut client = pair.dial(1);
        let hello = pair.hello(&mut *client, ALICE);
        pair.server.accept(pair.now, &flow(ALICE, 0), &hello)
    };
    let first = accept();
    assert!(first.is_some() && accept().is_none());
    drop(first);
    let (client, server) = pair.established();
    assert!(accept().is_some(), "an established one is no handshake");
    assert_eq!(pair.server.counters().counts().dtls_refused_source, 1);
    drop((client, server));
}
