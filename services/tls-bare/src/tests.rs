//! The layer with rustls and aws-lc as the client.

mod client;

use crate::{Credentials, CredentialsError, HANDSHAKES_MAX, TlsLayers};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::{ConnectionId, Flow, Instant, ListenerId, Seed, Transport};
use ringway_stream::{Decoded, Encoded, Layer, StreamLayers};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use std::io::{Read, Write};

const NAME: &str = "sip.example.org";
const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// A server, and the certificate that its clients trust.
struct Server {
    layers: TlsLayers,
    certificate: CertificateDer<'static>,
    now: Instant,
    connections: u64,
}

/// PEM file of a server, and its certificate.
fn credentials() -> (String, CertificateDer<'static>) {
    let certified = rcgen::generate_simple_self_signed([NAME.to_string()]).unwrap();
    let pem = certified.cert.pem() + &certified.signing_key.serialize_pem();
    (pem, certified.cert.der().clone())
}

impl Server {
    fn new() -> Self {
        let (pem, certificate) = credentials();
        let now = Instant::from_secs(1_800_000_000);
        let mut layers = TlsLayers::new(now);
        layers
            .set_credentials(Credentials::from_pem(pem.as_bytes()).unwrap(), &Seed::from_number(1))
            .unwrap();
        Self { layers, certificate, now, connections: 0 }
    }

    /// The next turn, after a pause of idle ones.
    fn turn(&mut self) {
        for pause in [Duration::from_millis(1), Duration::from_secs(1)] {
            self.now = self.now + pause;
            self.layers.begin_turn(self.now);
        }
    }

    fn accept_from(&mut self, remote: &str) -> Option<Box<dyn Layer>> {
        self.connections += 1;
        let connection = Some(ConnectionId(self.connections));
        let flow = Flow::new(Transport::Tls, ListenerId(0), remote.parse().unwrap());
        self.layers.accept(&Flow { connection, ..flow })
    }

    fn accept(&mut self) -> Box<dyn Layer> {
        self.turn();
        self.accept_from("192.0.2.7:50000").unwrap()
    }

    fn client(&self, version: &'static SupportedProtocolVersion) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_protocol_versions(&[version]).unwrap();
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        ClientConnection::new(Arc::new(config), NAME.try_into().unwrap()).unwrap()
    }
}

/// Passes `bytes` to the layer in parts of `part` bytes; returns the decoded bytes, and true at the stream's end.
fn decode(layer: &mut impl Layer, bytes: &[u8], part: usize, wire: &mut Vec<u8>) -> Option<(Vec<u8>, bool)> {
    let (mut plain, mut is_end) = (Vec::new(), false);
    for bytes in bytes.chunks(part) {
        let mut take = |decoded: Decoded<'_>| match decoded {
            Decoded::Bytes(bytes) => plain.extend_from_slice(bytes),
            Decoded::StreamEnd => is_end = true,
            _ => panic!("no messages, no pings"),
        };
        layer.decode(bytes, &mut take, wire).ok()?;
    }
    Some((plain, is_end))
}

fn sent(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

/// Plain text of the records in `wire`.
fn received(client: &mut ClientConnection, wire: &mut Vec<u8>) -> Vec<u8> {
    let (mut plain, mut wire) = (Vec::new(), core::mem::take(wire));
    let mut rest = &wire[..];
    while !rest.is_empty() {
        client.read_tls(&mut rest).unwrap();
        let state = client.process_new_packets().unwrap();
        let mut room = vec![0; state.plaintext_bytes_to_read()];
        client.reader().read_exact(&mut room).unwrap();
        plain.extend(room);
    }
    wire.clear();
    plain
}

/// Runs the handshake, with the client's bytes in parts of `part` bytes.
fn handshake(layer: &mut Box<dyn Layer>, client: &mut ClientConnection, part: usize) {
    let mut wire = Vec::new();
    for _ in 0..6 {
        decode(layer, &sent(client), part, &mut wire).unwrap();
        received(client, &mut wire);
    }
    assert!(!client.is_handshaking() && !layer.is_handshaking());
}

#[test]
fn both_versions_carry_messages_in_both_directions() {
    for version in VERSIONS {
        for part in [1, 7, 100_000] {
            let mut server = Server::new();
            let (mut layer, mut client) = (server.accept(), server.client(version));
            assert!(layer.is_handshaking());
            handshake(&mut layer, &mut client, part);
            assert_eq!(client.protocol_version(), Some(version.version));
            let mut wire = Vec::new();
            for length in [1, 600, 16_384, 16_385, 60_000] {
                let message: Vec<u8> = (0..length).map(|index| index as u8).collect();
                client.writer().write_all(&message).unwrap();
                let (plain, _) = decode(&mut layer, &sent(&mut client), part, &mut wire).unwrap();
                assert_eq!(plain, message);
                assert_eq!(layer.encode(&message, &mut wire), Ok(Encoded::Appended));
                assert_eq!(received(&mut client, &mut wire), message);
            }
            assert!(layer.held_bytes() < 30_000, "{} bytes", layer.held_bytes());
            let counters = server.layers.counters();
            assert_eq!((counters.completed, counters.failed, counters.waited), (1, 0, 0));
            assert_eq!(server.layers.handshakes(), 0);
        }
    }
}

#[test]
fn both_sides_end_with_close_notify() {
    for version in VERSIONS {
        let mut server = Server::new();
        let (mut layer, mut client) = (server.accept(), server.client(version));
        handshake(&mut layer, &mut client, 1000);
        let mut wire = Vec::new();
        layer.finish(&mut wire);
        client.read_tls(&mut &wire[..]).unwrap();
        assert!(client.process_new_packets().unwrap().peer_has_closed());
        client.send_close_notify();
        let mut bytes = sent(&mut client);
        bytes.extend_from_slice(b"bytes after the end");
        assert_eq!(decode(&mut layer, &bytes, 1000, &mut wire), Some((Vec::new(), true)));
    }
}

#[test]
fn keys_are_updated_on_request() {
    let mut server = Server::new();
    let (mut layer, mut client) = (server.accept(), server.client(&TLS13));
    handshake(&mut layer, &mut client, 1000);
    let mut wire = Vec::new();
    for _ in 0..3 {
        client.refresh_traffic_keys().unwrap();
        client.writer().write_all(b"request").unwrap();
        assert_eq!(decode(&mut layer, &sent(&mut client), 1000, &mut wire).unwrap().0, b"request");
        layer.encode(b"answer", &mut wire).unwrap();
        assert_eq!(received(&mut client, &mut wire), b"answer");
    }
}

#[test]
fn messages_before_the_end_of_the_handshake_are_sent_after_it() {
    let mut server = Server::new();
    let (mut layer, mut client) = (server.accept(), server.client(&TLS13));
    let mut wire = Vec::new();
    assert_eq!(layer.encode(b"early", &mut wire), Ok(Encoded::Appended));
    assert!(wire.is_empty());
    let mut plain = Vec::new();
    for _ in 0..6 {
        decode(&mut layer, &sent(&mut client), 1000, &mut wire).unwrap();
        plain.extend(received(&mut client, &mut wire));
    }
    assert_eq!(plain, b"early");
}

#[test]
fn other_protocols_are_closed_and_counted() {
    let mut server = Server::new();
    for bytes in [&b"OPTIONS sip:example.org SIP/2.0\r\n"[..], b"\r\n\r\n", b"\x80\x2e\x01\x00\x02"] {
        let mut layer = server.accept();
        assert_eq!(decode(&mut layer, bytes, 1000, &mut Vec::new()), None);
        assert!(layer.encode(b"x", &mut Vec::new()).is_err());
    }
    let counters = server.layers.counters();
    assert_eq!((counters.not_tls, counters.failed), (3, 0));
    assert_eq!(server.layers.handshakes(), 0);
}

/// A ClientHello that is cut, and one with a changed byte: nothing panics, nothing is kept.
#[test]
fn damaged_handshakes_end() {
    let mut server = Server::new();
    for version in VERSIONS {
        let hello = sent(&mut server.client(version));
        for index in 0..hello.len() {
            let mut damaged = hello.clone();
            damaged[index] ^= 0xff;
            let mut layer = server.accept();
            decode(&mut layer, &damaged, 100, &mut Vec::new());
            let mut layer = server.accept();
            assert!(decode(&mut layer, &hello[..index], 100, &mut Vec::new()).is_some());
            assert!(layer.is_handshaking());
            assert!(layer.held_bytes() < 20_000);
        }
    }
    assert_eq!(server.layers.handshakes(), 0);
    let (peer, why) = server.layers.take_failure().unwrap();
    assert_eq!(peer, "192.0.2.7:50000".parse::<SocketAddr>().unwrap());
    assert!(!why.is_empty());
    assert_eq!(server.layers.take_failure(), None);
}

/// Random changes of all flights of a client: nothing panics, and each connection ends or waits.
#[test]
fn random_changes_of_a_whole_connection_do_not_panic() {
    let mut rng = ringway_sansio::Rng::new(&Seed::from_number(5));
    let mut server = Server::new();
    for round in 0..400 {
        let (mut layer, mut client) = (server.accept(), server.client(VERSIONS[round % 2]));
        let mut wire = Vec::new();
        let hit = rng.below(4);
        for flight in 0..5 {
            let mut bytes = sent(&mut client);
            if flight == 2 && client.writer().write_all(b"REGISTER").is_ok() {
                bytes.extend(sent(&mut client));
            }
            if flight == hit && !bytes.is_empty() {
                for _ in 0..=rng.below(3) {
                    let at = rng.below(bytes.len() as u64) as usize;
                    match rng.below(4) {
                        0 => bytes[at] = rng.next_u64() as u8,
                        1 => bytes.truncate(at + 1),
                        2 => bytes.insert(at, rng.next_u64() as u8),
                        _ => bytes.extend_from_within(at..),
                    }
                }
            }
            let part = 1 + rng.below(1500) as usize;
            decode(&mut layer, &bytes, part, &mut wire);
            let mut rest = &wire[..];
            while !rest.is_empty() && client.read_tls(&mut rest).is_ok() {
                if client.process_new_packets().is_err() {
                    break;
                }
            }
            wire.clear();
            assert!(layer.held_bytes() < 40_000);
        }
    }
    assert!(server.layers.counters().completed > 50 && server.layers.counters().failed > 50);
}

/// Records after a handshake with a changed byte, or an invalid length.
#[test]
fn damaged_records_end_the_connection() {
    for version in VERSIONS {
        let mut server = Server::new();
        for index in 0..40 {
            let (mut layer, mut client) = (server.accept(), server.client(version));
            handshake(&mut layer, &mut client, 1000);
            client.writer().write_all(b"REGISTER sip:example.org").unwrap();
            let mut damaged = sent(&mut client);
            damaged[index] ^= 0xff;
            // A longer length makes the layer wait for the rest.
            damaged.extend([0; 20_000]);
            let mut wire = Vec::new();
            assert_eq!(decode(&mut layer, &damaged, 5000, &mut wire), None, "byte {index}");
            assert!(layer.decode(b"more", &mut |_| {}, &mut wire).is_err());
        }
    }
}

#[test]
fn a_peer_that_sends_a_long_handshake_is_closed() {
    let mut server = Server::new();
    let mut layer = server.accept();
    // A record header that announces 16 KiB of a handshake.
    let mut bytes = vec![22, 3, 1, 0x40, 0];
    bytes.resize(16_000, 1);
    assert_eq!(decode(&mut layer, &bytes, 1000, &mut Vec::new()), None);
    assert_eq!(server.layers.counters().failed, 1);
}

#[test]
fn a_client_that_refuses_the_certificate_is_reported() {
    let mut server = Server::new();
    let other = Server::new();
    for version in VERSIONS {
        let (mut layer, mut client) = (server.accept(), other.client(version));
        let mut wire = Vec::new();
        for _ in 0..3 {
            decode(&mut layer, &sent(&mut client), 1000, &mut wire);
            let mut rest = &wire[..];
            while !rest.is_empty() {
                client.read_tls(&mut rest).unwrap();
                let _ = client.process_new_packets();
            }
            wire.clear();
        }
        let (_, why) = server.layers.take_failure().unwrap();
        assert!(why.contains("alert"), "{why}");
    }
    assert_eq!((server.layers.counters().failed, server.layers.handshakes()), (2, 0));
}

#[test]
fn handshakes_take_turns() {
    let mut server = Server::new();
    server.turn();
    let mut layers = Vec::new();
    for number in 0..4 {
        let mut layer = server.accept_from("192.0.2.7:50000").unwrap();
        let hello = sent(&mut server.client(&TLS13));
        let mut wire = Vec::new();
        decode(&mut layer, &hello, 10_000, &mut wire).unwrap();
        assert_eq!(wire.is_empty(), number > 0, "one is answered in this turn");
        layers.push(layer);
    }
    for waiting in (0..3).rev() {
        assert!(server.layers.resumes());
        server.turn();
        let mut answered = 0;
        for layer in &mut layers[1..] {
            let mut wire = Vec::new();
            layer.resume(&mut |_| {}, &mut wire).unwrap();
            answered += usize::from(!wire.is_empty());
        }
        assert_eq!(answered, 1, "{waiting} left");
    }
    assert_eq!(server.layers.counters().waited, 3);
    assert!(!server.layers.resumes());
    let hello = sent(&mut server.client(&TLS13));
    let mut layer = server.accept_from("192.0.2.7:50000").unwrap();
    decode(&mut layer, &hello, 10_000, &mut Vec::new()).unwrap();
    assert!(server.layers.resumes());
    drop(layer);
    assert!(!server.layers.resumes(), "one that ends does not wait any more");
}

#[test]
fn half_done_handshakes_are_limited_and_forgotten() {
    let mut server = Server::new();
    let mut layers = Vec::new();
    for number in 0..HANDSHAKES_MAX + 1 {
        let remote = std::format!("192.0.2.{}:50000", 1 + number / 8);
        layers.extend(server.accept_from(&remote));
    }
    assert_eq!(layers.len(), HANDSHAKES_MAX);
    assert_eq!(server.layers.counters().refused, 1);
    layers.clear();
    assert_eq!(server.layers.handshakes(), 0);
    for _ in 0..20 {
        layers.extend(server.accept_from("192.0.2.1:50000"));
    }
    assert_eq!(layers.len(), 8, "one source");
    assert_eq!(server.layers.counters().refused_source, 12);
}

#[test]
fn credentials_are_checked() {
    let (pem, _) = credentials();
    let (other, _) = credentials();
    let (certificate, key) = pem.split_at(pem.find("-----BEGIN PRIVATE KEY").unwrap());
    let other_key = &other[other.find("-----BEGIN PRIVATE KEY").unwrap()..];
    let read = |pem: &str| Credentials::from_pem(pem.as_bytes()).err();
    assert_eq!(read(key), Some(CredentialsError::NoCertificate));
    assert_eq!(read(certificate), Some(CredentialsError::NotOneKey));
    assert_eq!(read(&[&pem[..], key].concat()), Some(CredentialsError::NotOneKey));
    assert_eq!(read(""), Some(CredentialsError::NoCertificate));
    assert_eq!(read(&pem[..pem.len() - 30]), Some(CredentialsError::Pem));
    for wrong in [
        [certificate, other_key].concat(),
        [certificate, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"].concat(),
        ["-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", key].concat(),
    ] {
        let credentials = Credentials::from_pem(wrong.as_bytes()).unwrap();
        let mut layers = TlsLayers::new(Instant::from_secs(1));
        let error = layers.set_credentials(credentials, &Seed::from_number(1)).unwrap_err();
        assert!(matches!(error, CredentialsError::Unusable(_)), "{error}");
    }
}
