//! Certificates of signers from servers over TLS on loopback, some of which answer what they should not.

use super::certificate::tests::changed;
use super::*;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, IsCa, KeyPair,
    PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, SignatureAlgorithm,
};
use ringway_sansio::{Rng, Seed};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use time::OffsetDateTime;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Content of a certificate, and its public key.
struct Issued {
    pem: String,
    key: Vec<u8>,
}

fn issue(
    authority: &Authority,
    algorithm: &'static SignatureAlgorithm,
    change: impl FnOnce(&mut CertificateParams),
) -> Issued {
    let key = KeyPair::generate_for(algorithm).unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    let provider = b"\x30\x08\xa0\x06\x16\x041234".to_vec();
    params.custom_extensions =
        vec![CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 26], provider)];
    change(&mut params);
    let pem = params.signed_by(&key, authority).unwrap().pem();
    Issued { pem, key: key.public_key_raw().to_vec() }
}

fn good(authority: &Authority) -> Issued {
    issue(authority, &PKCS_ECDSA_P256_SHA256, |_| {})
}

/// Server that answers each request with these bytes; without any it never answers. Returns its URL and its certificate.
fn server(answer: Option<Vec<u8>>) -> (String, CertificateDer<'static>) {
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let certificate = own.der().clone();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}/c.pem", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (config, answer) = (Arc::clone(&config), answer.clone());
            std::thread::spawn(move || {
                let connection = rustls::ServerConnection::new(config).unwrap();
                let mut stream = rustls::StreamOwned::new(connection, stream.unwrap());
                let Ok(_) = stream.read(&mut [0; 4096]) else { return };
                match answer {
                    Some(answer) => drop(stream.write_all(&answer).and_then(|()| stream.flush())),
                    None => std::thread::sleep(Duration::from_secs(10)),
                }
            });
        }
    });
    (url, certificate)
}

fn ok(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn start(
    authority: &Authority,
    server: CertificateDer<'static>,
    permits: impl Fn(IpAddr) -> bool + Send + Sync + 'static,
) -> (Signers, Receiver<(u16, Event)>) {
    let (sender, receiver) = channel();
    let sender = Mutex::new(sender);
    let rules = SignerRules {
        authorities: vec![authority.der().clone()],
        servers: vec![server],
        permits: Arc::new(permits),
    };
    let answer = move |shard, event| sender.lock().unwrap().send((shard, event)).unwrap();
    (Signers::start(rules, answer).unwrap(), receiver)
}

fn next(receiver: &Receiver<(u16, Event)>) -> (u16, u64, Found) {
    match receiver.recv_timeout(Duration::from_secs(20)).unwrap() {
        (shard, Event::SignerFound { query, result }) => (shard, query, result),
        other => panic!("{other:?}"),
    }
}

/// Result for a server with this answer.
fn result_of(authority: &Authority, answer: Option<Vec<u8>>) -> Found {
    let (url, certificate) = server(answer);
    let (signers, receiver) = start(authority, certificate, |_| true);
    signers.ask(3, 7, url.into());
    let (shard, query, result) = next(&receiver);
    assert_eq!((shard, query), (3, 7));
    result
}

#[test]
fn a_certificate_is_fetched_once_checked_and_cached() {
    let authority = authority();
    let issued = good(&authority);
    let (url, certificate) = server(Some(ok(issued.pem.as_bytes())));
    let (signers, receiver) = start(&authority, certificate, |ip| ip.is_loopback());
    for query in 0..10 {
        signers.ask(1, query, url.clone().into());
    }
    for _ in 0..10 {
        let (_, _, result) = next(&receiver);
        let found = result.unwrap();
        assert_eq!((&*found.public_key, found.numbers.len()), (issued.key.as_slice(), 0));
    }
    signers.ask(1, 11, url.into());
    assert!(next(&receiver).2.is_ok());
    let stats = signers.stats();
    assert_eq!((stats.fetched, stats.failed, stats.refused), (1, 0, 0));
    assert!(stats.cached >= 1);
}

#[test]
fn a_certificate_in_der_or_behind_an_intermediate_is_accepted() {
    let root = authority();
    let body = rustls::pki_types::pem::PemObject::from_pem_slice(good(&root).pem.as_bytes());
    let body: CertificateDer<'static> = body.unwrap();
    assert!(result_of(&root, Some(ok(&body))).is_ok());
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(rcgen::DnType::CommonName, "intermediate");
    let between = CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), &root).unwrap();
    let chain = format!("{}{}", good(&between).pem, between.pem());
    assert!(result_of(&root, Some(ok(chain.as_bytes()))).is_ok());
}

#[test]
fn certificates_that_do_not_count_are_refused() {
    let authority = authority();
    let other = self::authority();
    let day = |days| OffsetDateTime::now_utc() + Duration::from_secs(86_400) * days;
    let expired = |params: &mut CertificateParams| {
        params.not_before = OffsetDateTime::from_unix_timestamp(0).unwrap();
        params.not_after = OffsetDateTime::from_unix_timestamp(1_000_000_000).unwrap();
    };
    for (issued, why) in [
        (issue(&authority, &PKCS_ECDSA_P256_SHA256, expired), "expired"),
        (issue(&authority, &PKCS_ECDSA_P256_SHA256, |params| params.not_before = day(1)), "not yet valid"),
        (good(&other), "of another authority"),
        (issue(&authority, &PKCS_ECDSA_P384_SHA384, |_| {}), "another curve"),
        (
            issue(&authority, &PKCS_ECDSA_P256_SHA256, |params| params.custom_extensions.clear()),
            "without a list",
        ),
        (
            issue(&authority, &PKCS_ECDSA_P256_SHA256, |params| {
                let empty = CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 26], vec![0x30, 0]);
                params.custom_extensions = vec![empty];
            }),
            "with an empty list",
        ),
    ] {
        assert_eq!(
            result_of(&authority, Some(ok(issued.pem.as_bytes()))),
            Err(NoSigner::Unsupported),
            "{why}"
        );
    }
    for body in [&b""[..], b"<html>", b"-----BEGIN CERTIFICATE-----", &[0x30; 4000]] {
        assert_eq!(result_of(&authority, Some(ok(body))), Err(NoSigner::Unsupported));
    }
}

#[test]
fn servers_that_do_not_answer_as_they_should_are_given_up() {
    let authority = authority();
    let pem = good(&authority).pem;
    let redirect =
        b"HTTP/1.1 302 Found\r\nLocation: https://localhost/\r\nContent-Length: 0\r\n\r\n".to_vec();
    let endless = [b"HTTP/1.1 200 OK\r\nA: ".as_slice(), &[b'a'; 100_000]].concat();
    for answer in [
        Some(ok(&[b'x'; 20_000])),
        Some(redirect),
        Some(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec()),
        Some(b"nonsense\r\n\r\n".to_vec()),
        Some(endless),
        None,
    ] {
        let began = Instant::now();
        assert_eq!(result_of(&authority, answer), Err(NoSigner::Unreachable));
        assert!(began.elapsed() < Duration::from_secs(6));
    }
    // Nobody connects to an address that is not permitted, whatever name leads there.
    let (url, certificate) = server(Some(ok(pem.as_bytes())));
    let (signers, receiver) = start(&authority, certificate.clone(), |ip| !ip.is_loopback());
    signers.ask(1, 1, url.clone().into());
    assert_eq!(next(&receiver).2, Err(NoSigner::Unreachable));
    // The failure is remembered.
    signers.ask(1, 2, url.clone().into());
    assert_eq!(next(&receiver).2, Err(NoSigner::Unreachable));
    assert_eq!((signers.stats().failed, signers.stats().cached), (1, 1));
    // A server with the certificate of another name, and one of another authority.
    let (signers, receiver) = start(&authority, certificate, |_| true);
    signers.ask(1, 1, url.replace("localhost", "127.0.0.1").into());
    assert_eq!(next(&receiver).2, Err(NoSigner::Unreachable));
    let (signers, receiver) = start(&authority, authority.der().clone(), |_| true);
    signers.ask(1, 1, url.into());
    assert_eq!(next(&receiver).2, Err(NoSigner::Unreachable));
}

#[test]
fn a_changed_certificate_is_never_accepted() {
    let authority = authority();
    let authorities = Authorities::new(&[authority.der().clone()]).unwrap();
    let pem = good(&authority).pem;
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let (accepted, _) = authorities.accept(&der).unwrap();
    let mut rng = Rng::new(&Seed::from_number(1));
    for _ in 0..2000 {
        let bytes = changed(&der, &mut rng);
        assert!(bytes == *der || authorities.accept(&bytes).is_err(), "{bytes:x?}");
        // A change of the text around the certificate changes nothing.
        if let Ok((other, _)) = authorities.accept(&changed(pem.as_bytes(), &mut rng)) {
            assert_eq!(other.public_key, accepted.public_key);
        }
    }
}
