//! Tested: the choice between the worker and the threads, results and failures of the threads.

use crate::tests::{Ca, Failures, Side, inline, pass, remote};
use crate::{
    ClientAuth, HandshakeLimits, InlineTls, Observer, Offer, TlsCounts, TlsFiles, TlsLayers, TlsVersion,
};
use ringway_linux::{Hosts, Layers, Resume};
use ringway_sansio::{Flow, ListenerId, Transport};
use ringway_stream::Origin;
use std::sync::Arc;
use std::time::Duration;

/// Waits for a thread to run the next step.
fn wait(side: &mut Side) {
    for _ in 0..5000 {
        if !side.wire.is_empty() || side.is_failed || !side.layer.is_handshaking() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
        side.resume();
    }
    panic!("the threads do not answer");
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
    let flow = Flow::new(transport, listener, remote());
    Side::new(layers.layer(Origin::Accepted, &flow, Resume::none()).unwrap())
}

/// Handshake and one message; `called` may need threads.
fn shake_hands(client: &InlineTls, mut called: Side) -> Side {
    let mut caller = Side::new(client.client(remote(), Some("sip.example.org")).unwrap());
    caller.send(b"REGISTER");
    while called.got.is_empty() {
        pass(&mut caller, &mut called, 100_000);
        wait(&mut called);
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

/// Counters of a server after three connections of a client with the certificate and `more` certificates of authorities.
fn with_certificates(version: TlsVersion, more: usize) -> TlsCounts {
    let ca = Ca::new();
    let (chain, key) = ca.issue("server", |_| {});
    let authority = std::fs::read_to_string(ca.path("ca.pem")).unwrap();
    let own = std::fs::read_to_string(&chain).unwrap();
    let client_chain = ca.path("client.pem");
    std::fs::write(&client_chain, own + &authority.repeat(more)).unwrap();
    let files = TlsFiles {
        client_auth: ClientAuth::Required,
        client_ca: Some(ca.path("ca.pem")),
        offer: Offer::new(Default::default(), Vec::new(), Some(version), false).unwrap(),
        ..ca.files(Some((chain, key.clone())))
    };
    let (layers, _) = served(&files, Duration::from_secs(60));
    let (client, _) = inline(&TlsFiles { certificate: Some((client_chain, key)), ..files });
    for _ in 0..3 {
        shake_hands(&client, accept(&layers));
    }
    layers.counters().counts()
}

#[test]
fn a_clients_certificates_are_verified_on_a_thread_unless_they_are_seen_to_be_few() {
    use TlsVersion::{V1_2, V1_3};
    for (version, more, threads) in [(V1_2, 0, 0), (V1_2, 1, 0), (V1_2, 2, 1), (V1_3, 0, 1)] {
        let counts = with_certificates(version, more);
        assert_eq!(
            (counts.tls_accepted_full, counts.tls_handshakes_handed_over),
            (1, threads),
            "{version:?}, {more} more; resumed ones are inline"
        );
    }
}

#[test]
fn a_handshake_on_a_thread_has_limits_and_one_report() {
    let ca = Ca::new();
    let (layers, failures) = served(&ca.files(Some(ca.issue("server", |_| {}))), Duration::ZERO);
    // The header of a record that is longer than permitted, then more than a job takes.
    let mut called = accept(&layers);
    called.receive(&[22, 3, 1, 255, 255, 0]);
    wait(&mut called);
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
