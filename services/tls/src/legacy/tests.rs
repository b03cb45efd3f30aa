//! Legacy versions and suites, with `openssl` as the peer where it does what our side does not.

use super::{Contexts, OpenSsl};
use crate::tests::{Ca, Side, inline, remote};
use crate::{Backend, ClientAuth, Offer, Suite, TlsError, TlsFiles, TlsVersion};
use openssl::asn1::Asn1Time;
use openssl::bn::BigNum;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::rsa::Rsa;
use openssl::x509::extension::SubjectAlternativeName;
use openssl::x509::{X509, X509NameBuilder};
use ringway_stream::{Decoded, Layer};
use rustls::pki_types::ServerName;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

fn offer(suites: &[&str], version: Option<TlsVersion>) -> Offer {
    let suites = suites.iter().map(|name| Suite::by_name(name).unwrap()).collect();
    Offer::new(Backend::OpenSsl, suites, version, true).unwrap()
}

/// Writes a certificate with an RSA key of so many bits, which signs itself with SHA-1; returns the paths.
fn rsa(ca: &Ca, bits: u32) -> (PathBuf, PathBuf) {
    let key = PKey::from_rsa(Rsa::generate(bits).unwrap()).unwrap();
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_text("CN", "sip.example.org").unwrap();
    let name = name.build();
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    builder.set_serial_number(&BigNum::from_u32(1).unwrap().to_asn1_integer().unwrap()).unwrap();
    builder.set_subject_name(&name).unwrap();
    builder.set_issuer_name(&name).unwrap();
    builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::days_from_now(1).unwrap()).unwrap();
    builder.set_pubkey(&key).unwrap();
    let names =
        SubjectAlternativeName::new().dns("sip.example.org").build(&builder.x509v3_context(None, None));
    builder.append_extension(names.unwrap()).unwrap();
    builder.sign(&key, MessageDigest::sha1()).unwrap();
    let paths = (ca.path(&format!("rsa-{bits}.pem")), ca.path(&format!("rsa-{bits}-key.pem")));
    fs::write(&paths.0, builder.build().to_pem().unwrap()).unwrap();
    fs::write(&paths.1, key.private_key_to_pem_pkcs8().unwrap()).unwrap();
    paths
}

/// Files of a side that trusts its own certificate, which both sides have.
fn files(pair: &(PathBuf, PathBuf), offer: Offer) -> TlsFiles {
    TlsFiles {
        certificate: Some(pair.clone()),
        peer_ca: crate::PeerCa::File(pair.0.clone()),
        client_ca: Some(pair.0.clone()),
        offer,
        ..TlsFiles::default()
    }
}

/// Connects two sides, and sends a message of each; returns version and suite.
fn connect(client: &Contexts, server: &Contexts) -> Result<(String, String), rustls::Error> {
    let name = ServerName::try_from("sip.example.org").unwrap();
    let (mut caller, mut called) = (client.dial(name).unwrap(), server.accept().unwrap());
    let pass = |from: &mut OpenSsl, to: &mut OpenSsl| -> Result<Vec<u8>, rustls::Error> {
        let (mut wire, mut got) = (Vec::new(), Vec::new());
        from.write_records(&mut wire);
        to.receive(&wire, &mut |part| match part {
            Decoded::Bytes(bytes) => got.extend_from_slice(bytes),
            _ => panic!("{part:?}"),
        })?;
        Ok(got)
    };
    for _ in 0..3 {
        pass(&mut caller, &mut called)?;
        pass(&mut called, &mut caller)?;
    }
    assert!(!caller.is_handshaking() && !called.is_handshaking());
    caller.send(&[b'x'; 20_000]).unwrap();
    assert_eq!(pass(&mut caller, &mut called)?, [b'x'; 20_000]);
    called.send(b"answer").unwrap();
    assert_eq!(pass(&mut called, &mut caller)?, b"answer");
    assert_eq!(caller.agreed(), called.agreed());
    let (version, suite) = called.agreed();
    Ok((version.to_owned(), suite.to_owned()))
}

#[test]
fn each_named_suite_is_the_one_that_is_used() {
    let ca = Ca::new();
    let rsa = rsa(&ca, 2048);
    let ecdsa = ca.issue("ecdsa", |_| {});
    let mut missing = Vec::new();
    for suite in Suite::all() {
        let mut files = files(&rsa, offer(&[suite.name()], None));
        if suite.name().contains("ECDSA") {
            files.certificate = Some(ecdsa.clone());
            files.peer_ca = crate::PeerCa::File(ca.path("ca.pem"));
        }
        match Contexts::load(&files) {
            Ok((contexts, _)) => {
                let (_, used) =
                    connect(&contexts, &contexts).unwrap_or_else(|error| panic!("{suite:?}: {error}"));
                assert_eq!(used, suite.openssl_name());
            }
            Err(TlsError::NoSuite(name)) => missing.push(name),
            Err(error) => panic!("{suite:?}: {error}"),
        }
    }
    // Those that OpenSSL has only if it is built for them.
    if cfg!(feature = "legacy-tls-vendored") {
        assert!(missing.is_empty(), "{missing:?}");
    }
    assert!(missing.iter().all(|name| name.contains("DES")), "{missing:?}");
}

#[test]
fn old_versions_and_short_keys_are_accepted_for_named_suites_only() {
    let ca = Ca::new();
    let pair = rsa(&ca, 1024);
    for version in [TlsVersion::V1_0, TlsVersion::V1_1, TlsVersion::V1_2] {
        let files = TlsFiles {
            client_auth: ClientAuth::Required,
            ..files(&pair, offer(&["TLS_RSA_WITH_AES_128_CBC_SHA"], Some(version)))
        };
        let (contexts, _) = Contexts::load(&files).unwrap();
        let (used, _) = connect(&contexts, &contexts).unwrap();
        assert_eq!(
            used.trim_start_matches("TLSv").trim_end_matches(".0"),
            version.name().trim_end_matches(".0")
        );
    }
    let Err(error) = Contexts::load(&files(&pair, offer(&[], None))) else {
        panic!("a short key is accepted")
    };
    assert!(matches!(error, TlsError::Pair { .. }), "{error}");
}

#[test]
fn a_wrong_name_or_no_common_version_is_refused() {
    let ca = Ca::new();
    let pair = rsa(&ca, 1024);
    let of = |version| inline(&files(&pair, offer(&["AES128-SHA"], Some(version))));
    let ((server, refused), (client, failures)) = (of(TlsVersion::V1_0), of(TlsVersion::V1_0));
    let connect = |client: &crate::InlineTls, name: &str| {
        let mut caller = Side::new(client.client(remote(), Some(name)).unwrap());
        let mut called = Side::new(server.server(remote()).unwrap());
        crate::tests::exchange(&mut caller, &mut called, 1000);
        caller.is_failed
    };
    assert!(!connect(&client, "sip.example.org"));
    assert!(connect(&client, "sip.example.com"));
    assert!(failures.0.lock().unwrap()[0].1.contains("not valid for the host"));
    assert_eq!(client.counters().counts().tls_failed_certificate, 1);
    let (newer, failures) = of(TlsVersion::V1_2);
    assert!(connect(&newer, "sip.example.org"));
    assert_eq!(newer.counters().counts().tls_failed_parameters, 1, "{:?}", failures.0.lock().unwrap());
    assert_eq!(refused.0.lock().unwrap().len(), 2);
}

#[test]
fn sessions_end_with_the_keys_of_their_tickets() {
    let ca = Ca::new();
    let server = TlsFiles {
        session_timeout: Some(Duration::ZERO),
        offer: offer(&[], None),
        ..ca.files(Some(ca.issue("server", |_| {})))
    };
    let ((server, _), (client, _)) = (inline(&server), inline(&ca.files(None)));
    for _ in 0..2 {
        let mut caller = Side::new(client.client(remote(), Some("sip.example.org")).unwrap());
        let mut called = Side::new(server.server(remote()).unwrap());
        crate::tests::exchange(&mut caller, &mut called, 1000);
    }
    let counts = server.counters().counts();
    assert_eq!((counts.tls_accepted_full, counts.tls_accepted_resumed), (2, 0));
}

#[test]
fn the_certificate_is_that_of_the_domain_that_the_client_names() {
    let ca = Ca::new();
    let (certificate, private_key) = ca.issue("domain", |params| {
        params.subject_alt_names = vec![rcgen::SanType::DnsName("sip.example.com".try_into().unwrap())];
    });
    let domain = crate::DomainFiles { name: "sip.example.com".to_owned(), certificate, private_key };
    let files = TlsFiles {
        domains: vec![domain],
        client_auth: ClientAuth::Required,
        client_ca: Some(ca.path("ca.pem")),
        offer: offer(&[], None),
        ..ca.files(Some(ca.issue("server", |_| {})))
    };
    let (tls, failures) = inline(&files);
    for name in ["sip.example.com", "sip.example.org"] {
        let mut caller = Side::new(tls.client(remote(), Some(name)).unwrap());
        let mut called = Side::new(tls.server(remote()).unwrap());
        crate::tests::exchange(&mut caller, &mut called, 1000);
        assert!(!caller.is_failed && !called.is_failed, "{name}: {:?}", failures.0.lock().unwrap());
    }
}

/// Output of `openssl s_client` with these options and lines to send, towards a server that accepts so many connections.
fn s_client(
    files: &TlsFiles,
    connections: usize,
    options: &[&str],
    lines: &str,
) -> (String, crate::TlsCounts) {
    let (tls, _) = inline(files);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let served = std::thread::spawn(move || {
        for _ in 0..connections {
            let (mut socket, _) = listener.accept().unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let (mut layer, mut wire, mut room) = (tls.server(remote()).unwrap(), Vec::new(), [0; 4096]);
            while let Ok(count @ 1..) = socket.read(&mut room) {
                let mut is_over = false;
                let mut decoded = |part: Decoded<'_>| is_over |= part == Decoded::StreamEnd;
                is_over |= layer.decode(&room[..count], &mut decoded, &mut wire).is_err();
                let is_closed = socket.write_all(&std::mem::take(&mut wire)).is_err();
                if is_over || is_closed {
                    break;
                }
            }
        }
        tls.counters().counts()
    });
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &address]).args(options);
    let mut client =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The commands of s_client are lines that arrive after the handshake.
    let mut input = client.stdin.take().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let _ = input.write_all(lines.as_bytes());
    drop(input);
    let output = client.wait_with_output().unwrap();
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (text, served.join().unwrap())
}

#[test]
fn legacy_sessions_of_others_are_resumed() {
    let ca = Ca::new();
    let files = files(&rsa(&ca, 1024), offer(&["AES128-SHA"], None));
    for of_client in [&["-no_ticket"][..], &[]] {
        let options =
            [&["-tls1_2", "-cipher", "AES128-SHA:@SECLEVEL=0", "-reconnect"][..], of_client].concat();
        let (text, counts) = s_client(&files, 6, &options, "");
        assert!(text.contains("Reused, ") && text.contains("AES128-SHA"), "{text}");
        assert_eq!((counts.tls_accepted_full, counts.tls_accepted_resumed), (1, 5), "{text}");
    }
}

#[test]
fn renegotiation_is_refused() {
    let ca = Ca::new();
    let files = files(&rsa(&ca, 1024), offer(&["AES128-SHA"], None));
    let options = ["-tls1_2", "-cipher", "AES128-SHA:@SECLEVEL=0"];
    let (text, counts) = s_client(&files, 1, &options, "R\n");
    assert!(text.contains("RENEGOTIATING") && text.contains("no renegotiation"), "{text}");
    assert_eq!(counts.tls_accepted_full, 1);
}
