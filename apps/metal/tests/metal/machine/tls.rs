//! TLS of a machine, with rustls and aws-lc as the client.

use crate::machine::world::{USERS, World, register};
use ringway_sansio::Seed;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use smoltcp::iface::SocketHandle;
use std::io::{Read, Write};
use std::sync::Arc;

/// A machine with TLS on port 5060 and SIP on UDP, and what its clients trust.
fn serving() -> (World, RootCertStore) {
    let certified = rcgen::generate_simple_self_signed(["sip.example.org".to_owned()]).unwrap();
    let file = (certified.cert.pem() + &certified.signing_key.serialize_pem()).into_bytes();
    let words = "users=users.csv domains=example.org auth=off udp=5060 tcp=off tls=5060";
    let mut world = World::with_boot_file(words, Some(Seed::from_number(1)), Some(file.leak()));
    world = world.with_file("users.csv", USERS);
    world.pass(100);
    assert!(world.machine.is_serving() && world.has_said("tls:192.0.2.1:5060"), "{}", world.said());
    let mut roots = RootCertStore::empty();
    roots.add(certified.cert.der().clone()).unwrap();
    (world, roots)
}

fn client(roots: RootCertStore) -> ClientConnection {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
    ClientConnection::new(Arc::new(config), "sip.example.org".try_into().unwrap()).unwrap()
}

/// Exchanges bytes between the client and its socket for some milliseconds; returns the received plain text.
fn exchange(world: &mut World, socket: SocketHandle, client: &mut ClientConnection) -> String {
    let mut plain = Vec::new();
    for _ in 0..20 {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        if !bytes.is_empty() {
            world.host.tcp(socket).send_slice(&bytes).unwrap();
        }
        world.pass(3);
        let mut received = Vec::new();
        while world.host.tcp(socket).can_recv() {
            world.host.tcp(socket).recv(|bytes| (bytes.len(), received.extend_from_slice(bytes))).unwrap();
        }
        let mut rest = &received[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            let state = client.process_new_packets().unwrap();
            let mut room = vec![0; state.plaintext_bytes_to_read()];
            client.reader().read_exact(&mut room).unwrap();
            plain.extend(room);
        }
    }
    String::from_utf8(plain).unwrap()
}

#[test]
fn a_phone_registers_and_is_called_over_its_connection() {
    let (mut world, roots) = serving();
    let socket = world.host.connect(4000);
    world.pass(10);
    let mut client = client(roots);
    let message = register("alice", 1, "")
        .replace("SIP/2.0/UDP", "SIP/2.0/TLS")
        .replace("192.0.2.2:5060>", "192.0.2.2:4000;transport=tls>");
    client.writer().write_all(message.as_bytes()).unwrap();
    let answer = exchange(&mut world, socket, &mut client);
    assert!(answer.starts_with("SIP/2.0 200 ") && answer.contains("transport=tls"), "{answer}");
    let call = "MESSAGE sip:alice@example.org SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.2:5060;branch=z9hG4bKm\r\n\
                Max-Forwards: 70\r\nFrom: <sip:bob@example.org>;tag=2\r\nTo: <sip:alice@example.org>\r\n\
                Call-ID: m\r\nCSeq: 1 MESSAGE\r\nContent-Length: 0\r\n\r\n";
    world.host.send(world.phone, call.as_bytes());
    let received = exchange(&mut world, socket, &mut client);
    assert!(received.starts_with("MESSAGE sip:alice@192.0.2.2:4000;transport=tls SIP/2.0\r\n"), "{received}");
    assert!(received.contains("Via: SIP/2.0/TLS 192.0.2.1:5060"), "{received}");
}

#[test]
fn half_done_handshakes_end_and_leave_others_alone() {
    let (mut world, roots) = serving();
    let silent: Vec<_> = (0..12).map(|number| world.host.connect(4100 + number)).collect();
    world.pass(10);
    for socket in silent.iter().take(4) {
        world.host.tcp(*socket).send_slice(&[22, 3, 1, 1, 0, 1]).unwrap();
    }
    world.pass(10);
    let open = |world: &mut World| silent.iter().filter(|socket| world.host.tcp(**socket).may_recv()).count();
    assert_eq!(open(&mut world), 8, "handshakes of one source at once");
    assert!(world.ask(&register("bob", 1, "")).starts_with("SIP/2.0 200 "), "UDP is served");
    world.pass_seconds(6);
    world.pass(50);
    assert_eq!(open(&mut world), 0, "their time is over");
    let socket = world.host.connect(4200);
    world.pass(10);
    let mut client = client(roots);
    client.writer().write_all(register("alice", 1, "").replace("/UDP", "/TLS").as_bytes()).unwrap();
    assert!(exchange(&mut world, socket, &mut client).starts_with("SIP/2.0 200 "));
}

#[test]
fn failures_are_logged_at_intervals() {
    let (mut world, _) = serving();
    for number in 0..3 {
        let socket = world.host.connect(4300 + number);
        world.pass(10);
        // A record that is no handshake message.
        world.host.tcp(socket).send_slice(&[22, 3, 1, 0, 4, 99, 0, 0, 0]).unwrap();
        world.pass(40);
    }
    assert_eq!(world.said().matches("tls: the handshake with 192.0.2.2:").count(), 1, "{}", world.said());
    world.pass_seconds(11);
    assert_eq!(world.said().matches("tls: the handshake with 192.0.2.2:").count(), 2, "{}", world.said());
    assert!(world.has_said("3 failed since the start"), "{}", world.said());
}

#[test]
fn without_certificate_key_or_randomness_it_does_not_serve() {
    let words = "domains=example.org auth=off tls=5061";
    for (seed, file, reason) in [
        (Some(Seed::from_number(1)), None, "needs a certificate and its key on the boot medium"),
        (Some(Seed::from_number(1)), Some(&b"no PEM"[..]), "TLS: the file has no certificate"),
        (None, Some(&b"no PEM"[..]), "neither RDRAND nor virtio-rng"),
    ] {
        let mut world = World::with_boot_file(words, seed, file);
        world.pass(100);
        assert!(!world.machine.is_serving() && world.has_said(reason), "{reason}: {}", world.said());
    }
}
