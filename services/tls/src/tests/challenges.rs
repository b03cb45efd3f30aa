//! TLS-ALPN-01 beside other connections.

use super::*;
use ringway_linux::{Hosts, Layers, Resume};
use ringway_sansio::{Flow, ListenerId, Transport};
use ringway_stream::Origin;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, Error};
use std::collections::HashMap;

/// Client that offers these protocols, and accepts every certificate.
fn client(protocols: &[&str], name: &str) -> ClientConnection {
    let crypto = Arc::new(aws_lc_rs::default_provider());
    let verifier = Arc::new(crate::ServerVerifier::accepting_all(&crypto));
    let mut config = ClientConfig::builder_with_provider(crypto)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    ClientConnection::new(Arc::new(config), ServerName::try_from(name.to_owned()).unwrap()).unwrap()
}

/// Both sides exchange what they have, in pieces.
fn shake_hands(client: &mut ClientConnection, called: &mut Side, piece: usize) -> Result<(), Error> {
    for _ in 0..10 {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        for bytes in wire.chunks(piece) {
            if !called.is_failed {
                called.receive(bytes);
            }
        }
        let sent = std::mem::take(&mut called.wire);
        let mut bytes = sent.as_slice();
        while !bytes.is_empty() {
            client.read_tls(&mut bytes).unwrap();
            client.process_new_packets()?;
        }
    }
    Ok(())
}

#[test]
fn an_authority_gets_the_certificate_of_the_challenge_and_all_others_the_usual_one() {
    let ca = Ca::new();
    let limits = crate::HandshakeLimits { inline_burst: Duration::from_secs(60), ..Default::default() };
    let files = ca.files(Some(ca.issue("server", |_| {})));
    let hosts = Arc::new(Hosts::default());
    let layers =
        crate::TlsLayers::start(files.load().unwrap(), hosts, limits, Arc::<Failures>::default()).unwrap();
    let accept = || {
        let flow = Flow::new(Transport::Tls, ListenerId(0), remote());
        Side::new(layers.layer(Origin::Accepted, &flow, Resume::none()).unwrap())
    };
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["example.org".to_owned()]).unwrap().self_signed(&key).unwrap();
    let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let signer = aws_lc_rs::sign::any_supported_type(&private).unwrap();
    let pair = Arc::new(CertifiedKey::new(vec![own.der().clone()], signer));
    let presented = |client: &ClientConnection| client.peer_certificates().unwrap()[0].clone();

    // Without a challenge the protocol means nothing.
    let (mut caller, mut called) = (client(&["acme-tls/1"], "example.org"), accept());
    shake_hands(&mut caller, &mut called, 100_000).unwrap();
    assert_ne!(presented(&caller), *own.der());
    assert!(!called.is_ended);

    layers.set_challenges(HashMap::from([("example.org".to_owned(), Arc::clone(&pair))])).unwrap();
    for piece in [1, 7, 100_000] {
        let (mut caller, mut called) = (client(&["acme-tls/1"], "EXAMPLE.org"), accept());
        shake_hands(&mut caller, &mut called, piece).unwrap();
        assert_eq!(caller.alpn_protocol(), Some(&b"acme-tls/1"[..]));
        assert_eq!(presented(&caller), *own.der());
        assert!(called.is_ended && !called.is_failed, "the connection ends with its handshake");
        for protocols in [&[][..], &["sip/2"], &["http/1.1", "acme-tls/1"]] {
            let (mut caller, mut called) = (client(protocols, "example.org"), accept());
            shake_hands(&mut caller, &mut called, piece).unwrap();
            assert_ne!(presented(&caller), *own.der(), "{protocols:?}");
            assert_eq!(caller.alpn_protocol(), None);
            assert!(!called.is_ended && !called.layer.is_handshaking());
        }
    }
    let (mut caller, mut called) = (client(&["acme-tls/1"], "other.example"), accept());
    assert!(shake_hands(&mut caller, &mut called, 100_000).is_err() && called.is_failed);
    // A ClientHello that cannot be read gets an alert.
    let mut called = accept();
    called.receive(&[22, 3, 1, 0, 4, 1, 0, 0, 0]);
    assert!(called.is_failed && called.wire.first() == Some(&21), "{:?}", called.wire);

    layers.set_challenges(HashMap::new()).unwrap();
    let (mut caller, mut called) = (client(&["acme-tls/1"], "example.org"), accept());
    shake_hands(&mut caller, &mut called, 100_000).unwrap();
    assert_ne!(presented(&caller), *own.der());
}
