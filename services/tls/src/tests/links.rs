//! Links between nodes: certificates from the secret, and whom they keep out.

use super::*;
use crate::{LinkTls, TlsLayers, TlsMaterial};
use ringway_linux::{Hosts, Layers, Resume};
use ringway_sansio::{Flow, Instant, ListenerId, Transport};
use ringway_stream::Origin;
use std::collections::HashMap;

const OWN: [u8; 32] = [1; 32];
const OTHER: [u8; 32] = [2; 32];
const A: &str = "a.node.ringway.internal";
const B: &str = "b.node.ringway.internal";
/// Listener of links, and a public one.
const LINKS: ListenerId = ListenerId(4);
const PUBLIC: ListenerId = ListenerId(3);

fn material(name: &str, current: &[u8; 32], accepted: Option<&[u8; 32]>) -> TlsMaterial {
    TlsMaterial::of_node(name, current, accepted).unwrap()
}

fn node(name: &str, current: &[u8; 32], accepted: Option<&[u8; 32]>) -> InlineTls {
    InlineTls::new(material(name, current, accepted), Arc::<Failures>::default())
}

/// True if both sides have an open connection.
fn is_open((caller, called): &(Side, Side)) -> bool {
    [caller, called].iter().all(|side| !side.is_failed && !side.layer.is_handshaking())
}

fn is_below(side: &Side) -> bool {
    let now = Instant::from_secs(1_800_000_000);
    side.layer.peer_names().is_some_and(|peer| peer.is_below("node.ringway.internal", now))
}

#[test]
fn nodes_with_the_same_secret_connect_and_show_their_names() {
    let (a, b) = (node(A, &OWN, None), node(B, &OWN, None));
    for _ in 0..2 {
        let both = connect(&a, &b, Some(B), 100_000);
        assert!(is_open(&both) && is_below(&both.1));
    }
    assert_eq!(b.counters().counts().tls_accepted_resumed, 0);
    assert!(!is_open(&connect(&a, &b, Some(A), 100_000)), "it is another node");
    assert!(!is_open(&connect(&a, &b, None, 100_000)), "its address is no name");
}

#[test]
fn nodes_change_their_secret_one_by_one() {
    let ways = |one: (&[u8; 32], Option<&[u8; 32]>), other: (&[u8; 32], Option<&[u8; 32]>)| {
        let (a, b) = (node(A, one.0, one.1), node(B, other.0, other.1));
        [is_open(&connect(&a, &b, Some(B), 100_000)), is_open(&connect(&b, &a, Some(A), 100_000))]
    };
    // The new one is accepted, then used, then alone.
    assert_eq!(ways((&OWN, Some(&OTHER)), (&OWN, None)), [true, true]);
    assert_eq!(ways((&OTHER, Some(&OWN)), (&OWN, Some(&OTHER))), [true, true]);
    assert_eq!(ways((&OTHER, None), (&OTHER, Some(&OWN))), [true, true]);
    assert_eq!(ways((&OTHER, None), (&OWN, None)), [false, false]);
    assert_eq!(ways((&OTHER, Some(&OWN)), (&OWN, None)), [false, false], "too early");
}

#[test]
fn nobody_else_opens_a_link() {
    let ca = Ca::new();
    let a = node(A, &OWN, None);
    let named = |name: &str, dns: &str| {
        inline(&TlsFiles {
            verify_peer: false,
            ..ca.files(Some(ca.issue(name, |params| {
                params.subject_alt_names = vec![SanType::DnsName(dns.try_into().unwrap())];
            })))
        })
        .0
    };
    let anonymous = inline(&TlsFiles { verify_peer: false, ..ca.files(None) }).0;
    let of_another_secret = node(B, &OTHER, None);
    for (client, why) in [
        (anonymous, "without a certificate"),
        (named("user", "phone.example.org"), "of tls.client_ca"),
        (named("node", B), "with the name of a node, of another authority"),
        (of_another_secret, "of another cluster"),
    ] {
        let (caller, called) = connect(&client, &a, Some(A), 100_000);
        assert!(called.is_failed && called.layer.peer_names().is_none(), "{why}");
        assert!(called.got.is_empty() && caller.got.is_empty(), "{why}");
    }
    // And a node opens none to somebody else.
    for server in [named("other", B), node(B, &OTHER, None)] {
        assert!(connect(&a, &server, Some(B), 100_000).0.is_failed);
    }
}

#[test]
fn a_certificate_of_a_node_is_refused_elsewhere() {
    let ca = Ca::new();
    for client_auth in [ClientAuth::Optional, ClientAuth::Required] {
        let files = TlsFiles {
            client_auth,
            client_ca: Some(ca.path("ca.pem")),
            ..ca.files(Some(ca.issue("server", |_| {})))
        };
        let (server, _) = inline(&files);
        let called = connect(&node(A, &OWN, None), &server, Some("sip.example.org"), 100_000).1;
        assert!(called.layer.peer_names().is_none());
    }
}

/// Layers of a node with a public certificate, and the address of the other node.
fn layers(ca: &Ca, name: &str, current: &[u8; 32], other: &str) -> TlsLayers {
    let files = ca.files(Some(ca.issue(name, |_| {})));
    let limits = crate::HandshakeLimits::default();
    let layers = TlsLayers::start(
        files.load().unwrap(),
        Arc::new(Hosts::default()),
        limits,
        Arc::<Failures>::default(),
    );
    let layers = layers.unwrap();
    layers.set_links(links(name, current, other));
    layers
}

fn links(name: &str, current: &[u8; 32], other: &str) -> LinkTls {
    let names = HashMap::from([(remote(), other.to_owned())]);
    LinkTls { listener: LINKS, material: material(name, current, None), names }
}

fn flow(listener: ListenerId, remote: SocketAddr) -> Flow {
    Flow::new(Transport::Tls, listener, remote)
}

/// Connects two layers; the called side accepts at `listener`.
fn connected(a: &TlsLayers, b: &TlsLayers, from: ListenerId, to: ListenerId) -> Option<(Side, Side)> {
    let caller = a.layer(Origin::Dialled, &flow(from, remote()), Resume::none())?;
    let called = b.layer(Origin::Accepted, &flow(to, "192.0.2.9:40000".parse().unwrap()), Resume::none())?;
    let side = |layer: BoxedLayer| {
        let mut side = Side { layer, wire: Vec::new(), got: Vec::new(), is_ended: false, is_failed: false };
        side.layer.start(&mut side.wire);
        side
    };
    let (mut caller, mut called) = (side(caller), side(called));
    exchange(&mut caller, &mut called, 100_000);
    // Chains are verified on other threads.
    while ![&caller, &called].iter().any(|side| side.is_failed)
        && [&caller, &called].iter().any(|side| side.layer.is_handshaking())
    {
        std::thread::yield_now();
        caller.resume();
        called.resume();
        exchange(&mut caller, &mut called, 100_000);
    }
    Some((caller, called))
}

#[test]
fn the_listener_chooses_the_certificates() {
    let ca = Ca::new();
    let (a, b) = (layers(&ca, A, &OWN, B), layers(&ca, B, &OWN, A));
    let both = connected(&a, &b, LINKS, LINKS).unwrap();
    assert!(is_open(&both) && is_below(&both.0) && is_below(&both.1));
    for (from, to) in [(LINKS, PUBLIC), (PUBLIC, LINKS)] {
        assert!(!is_open(&connected(&a, &b, from, to).unwrap()), "{from:?} {to:?}");
    }
    // No other address is dialled as a node.
    let elsewhere = flow(LINKS, "192.0.2.77:5070".parse().unwrap());
    assert!(a.layer(Origin::Dialled, &elsewhere, Resume::none()).is_none());
    // The node at this address is another one now.
    a.set_links(links(A, &OWN, "c.node.ringway.internal"));
    assert!(!is_open(&connected(&a, &b, LINKS, LINKS).unwrap()));
    // Names end with the secret of their certificates; a reload of the public files does not change them.
    a.reload(ca.files(None).load().unwrap());
    b.reload(ca.files(None).load().unwrap());
    assert!(is_below(&both.0) && is_below(&both.1));
    b.set_links(links(B, &OTHER, A));
    assert!(is_below(&both.0) && !is_below(&both.1));
}
