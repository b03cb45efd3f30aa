//! Dialled connections: with the server of this crate, and with rustls and aws-lc as the server.

use super::{NAME, Server, VERSIONS, credentials, decode};
use crate::{Credentials, TlsClient, TlsLayers};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;
use ringway_sansio::{Flow, Instant, Seed, Transport};
use ringway_stream::{Layer, StreamLayers};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::io::{Read, Write};

const NOW: Instant = Instant::from_secs(1_800_000_000);
const PEER: &str = "192.0.2.1:5061";

/// Client that trusts `certificate`.
fn client(certificate: &CertificateDer<'static>, seed: u64) -> TlsClient {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    TlsClient::new(verifier, &Seed::from_number(seed), NOW).unwrap()
}

fn dial(client: &TlsClient, name: &str) -> Box<dyn Layer> {
    client.layer(PEER.parse().unwrap(), Some(name)).unwrap()
}

/// Passes what one side wrote to the other until both are silent; returns all bytes, and false if a side failed.
fn converse(
    one: &mut Box<dyn Layer>,
    other: &mut Box<dyn Layer>,
    mut wire: Vec<u8>,
    part: usize,
) -> (Vec<u8>, bool) {
    let mut all = Vec::new();
    let (mut from, mut to) = (one, other);
    while !wire.is_empty() {
        all.extend_from_slice(&wire);
        let mut answer = Vec::new();
        if decode(to, &wire, part, &mut answer).is_none() {
            decode(from, &answer, part, &mut Vec::new());
            return (all, false);
        }
        wire = answer;
        core::mem::swap(&mut from, &mut to);
    }
    (all, true)
}

#[test]
fn both_sides_of_this_crate_understand_each_other_and_equal_seeds_give_equal_bytes() {
    let (pem, certificate) = credentials();
    let run = |seed: u64| {
        let mut layers = TlsLayers::new(NOW);
        layers
            .set_credentials(Credentials::from_pem(pem.as_bytes()).unwrap(), &Seed::from_number(seed))
            .unwrap();
        let client = client(&certificate, seed + 100);
        let flow =
            Flow { transport: Transport::Tls, ..Flow::dial(Default::default(), PEER.parse().unwrap()) };
        layers.begin_turn(NOW);
        let (mut accepted, mut dialled) = (layers.accept(&flow).unwrap(), dial(&client, NAME));
        let mut wire = Vec::new();
        dialled.encode(b"early", &mut wire).unwrap();
        assert!(wire.is_empty(), "it is kept");
        dialled.start(&mut wire);
        let (mut all, is_good) = converse(&mut dialled, &mut accepted, wire, 1000);
        assert!(is_good && !dialled.is_handshaking() && !accepted.is_handshaking());
        for (from, to) in [(0, 1), (1, 0)] {
            let sides = [&mut dialled, &mut accepted];
            let (mut wire, mut answer) = (Vec::new(), Vec::new());
            sides[from].encode(b"a message", &mut wire).unwrap();
            assert_eq!(decode(sides[to], &wire, 7, &mut answer), Some((b"a message".to_vec(), false)));
            all.extend(wire);
        }
        let mut wire = Vec::new();
        dialled.finish(&mut wire);
        assert_eq!(decode(&mut accepted, &wire, 1000, &mut Vec::new()), Some((Vec::new(), true)));
        assert_eq!((layers.counters().completed, client.counters().completed), (1, 1));
        all.extend(wire);
        all
    };
    let first = run(1);
    assert!(first == run(1), "equal seeds give equal bytes");
    assert!(first != run(2), "others do not");
}

#[test]
fn a_server_of_another_name_or_authority_is_refused() {
    let mut server = Server::new();
    let trusting = client(&server.certificate, 1);
    let distrusting = client(&credentials().1, 2);
    for (client, name) in [(&trusting, "other.example.org"), (&distrusting, NAME)] {
        let (mut accepted, mut dialled) = (server.accept(), dial(client, name));
        let mut wire = Vec::new();
        dialled.start(&mut wire);
        let (_, is_good) = converse(&mut dialled, &mut accepted, wire, 1000);
        assert!(!is_good && !dialled.is_handshaking());
        let (peer, why) = client.take_failure().unwrap();
        assert_eq!(peer, PEER.parse::<SocketAddr>().unwrap());
        assert!(why.contains("certificate"), "{why}");
        let (_, why) = server.layers.take_failure().unwrap();
        assert!(why.contains("alert"), "the server got an alert: {why}");
        assert_eq!((client.counters().failed, server.layers.handshakes()), (1, 0));
    }
    assert!(trusting.layer(PEER.parse().unwrap(), Some("not a name")).is_none());
}

/// Server by rustls and aws-lc.
fn other_server(pem: &str, version: usize) -> ServerConnection {
    let chain = vec![CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_protocol_versions(&[VERSIONS[version]]).unwrap();
    let config = builder.with_no_client_auth().with_single_cert(chain, key).unwrap();
    ServerConnection::new(Arc::new(config)).unwrap()
}

#[test]
fn it_speaks_both_versions_with_another_implementation() {
    let (pem, certificate) = credentials();
    for version in 0..VERSIONS.len() {
        for part in [1, 7, 100_000] {
            let client = client(&certificate, 1);
            let (mut layer, mut server) = (dial(&client, NAME), other_server(&pem, version));
            let (mut wire, mut plain) = (Vec::new(), Vec::new());
            layer.start(&mut wire);
            layer.encode(b"REGISTER", &mut wire).unwrap();
            for _ in 0..6 {
                let mut rest = &wire[..];
                while !rest.is_empty() {
                    server.read_tls(&mut rest).unwrap();
                    let state = server.process_new_packets().unwrap();
                    let mut room = vec![0; state.plaintext_bytes_to_read()];
                    server.reader().read_exact(&mut room).unwrap();
                    plain.extend(room);
                }
                wire.clear();
                let mut bytes = Vec::new();
                while server.wants_write() {
                    server.write_tls(&mut bytes).unwrap();
                }
                decode(&mut layer, &bytes, part, &mut wire).unwrap();
            }
            assert_eq!((plain.as_slice(), layer.is_handshaking()), (&b"REGISTER"[..], false));
            server.writer().write_all(b"200 OK").unwrap();
            server.send_close_notify();
            let mut bytes = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut bytes).unwrap();
            }
            let received = decode(&mut layer, &bytes, part, &mut wire);
            assert_eq!(received, Some((b"200 OK".to_vec(), true)));
        }
    }
}

/// Changed bytes of a server's first flight: nothing panics, the handshake fails or waits for more.
#[test]
fn damaged_flights_of_a_server_end_the_handshake() {
    let (pem, certificate) = credentials();
    for version in 0..VERSIONS.len() {
        let flight = |client: &TlsClient| {
            let (mut layer, mut server) = (dial(client, NAME), other_server(&pem, version));
            let (mut wire, mut bytes) = (Vec::new(), Vec::new());
            layer.start(&mut wire);
            server.read_tls(&mut &wire[..]).unwrap();
            server.process_new_packets().unwrap();
            while server.wants_write() {
                server.write_tls(&mut bytes).unwrap();
            }
            (layer, bytes)
        };
        let client = client(&certificate, 3);
        let length = flight(&client).1.len();
        for index in (0..length).step_by(5) {
            let (mut layer, mut bytes) = flight(&client);
            let Some(byte) = bytes.get_mut(index) else { continue };
            *byte ^= 0xff;
            decode(&mut layer, &bytes, 100, &mut Vec::new());
        }
        // A signature may be shorter by some bytes, and a longer record is waited for.
        assert!(client.counters().failed as usize > length / 10);
        let why: Option<(SocketAddr, String)> = client.take_failure();
        assert!(why.is_some());
    }
}
