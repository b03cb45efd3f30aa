//! `[[advertise]]`: the address that peers get in place of the listener's.

use crate::program::Running;
use ringway_stun::{Class, METHOD_BINDING, Message, MessageWriter};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use tempfile::TempDir;

/// A server that shows peers on loopback `address`, and asks `stun` for it if that is `auto`.
fn serve(address: &str, stun: Option<SocketAddr>) -> (TempDir, Running) {
    let folder = TempDir::new().unwrap();
    let stun = stun.map_or_else(String::new, |server| format!("stun = \"{server}\"\n"));
    let configuration = format!(
        "domains = [\"example.org\"]\nlisten = [\"udp:127.0.0.1:0\"]\n\
         [[advertise]]\naddress = \"{address}\"\n{stun}networks = [\"127.0.0.0/8\"]\n\
         [store]\nurl = \"memory:\"\n[auth]\nenabled = false\n[admin]\nlisten = \"127.0.0.1:0\"\n"
    );
    fs::write(folder.path().join("ringway.toml"), configuration).unwrap();
    let running = Running::start(folder.path(), &["serve"], "");
    running.ready();
    (folder, running)
}

/// Request of a phone at `phone`.
fn send(phone: &UdpSocket, server: &str, method: &str, uri: &str, more: &str) {
    let own = phone.local_addr().unwrap();
    let request = format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{method};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:bob@example.org>;tag=1\r\nTo: <sip:bob@example.org>\r\nCall-ID: {method}\r\nCSeq: 1 {method}\r\n\
         Contact: <sip:bob@{own}>\r\n{more}Content-Length: 0\r\n\r\n"
    );
    phone.send_to(request.as_bytes(), server).unwrap();
}

fn receive(phone: &UdpSocket, start: &str) -> String {
    let mut buffer = [0; 4096];
    loop {
        let (length, _) = phone.recv_from(&mut buffer).unwrap();
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        if text.starts_with(start) {
            return text;
        }
    }
}

/// Via and Record-Route of an INVITE that the server forwards.
fn shown(running: &Running) -> (String, String) {
    let phone = UdpSocket::bind("127.0.0.1:0").unwrap();
    phone.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let server = running.address();
    send(&phone, &server, "REGISTER", "sip:example.org", "");
    receive(&phone, "SIP/2.0 200 ");
    send(&phone, &server, "INVITE", "sip:bob@example.org", "");
    let invite = receive(&phone, "INVITE ");
    let line = |name: &str| {
        let found = invite.lines().find(|line| line.starts_with(name));
        found.unwrap_or_else(|| panic!("{name} {invite}")).to_owned()
    };
    (line("Via: "), line("Record-Route: "))
}

/// Answers one Binding request with this address.
fn answer(server: &UdpSocket, mapped: &str) {
    let mut buffer = [0; 1500];
    let (length, client) = server.recv_from(&mut buffer).unwrap();
    let id = Message::parse(&buffer[..length]).unwrap().id();
    let answer = MessageWriter::new(Class::Success, METHOD_BINDING, id);
    let answer = answer.xor_mapped_address(mapped.parse().unwrap()).finish_with_fingerprint();
    server.send_to(&answer, client).unwrap();
}

fn stun_server() -> UdpSocket {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    server
}

#[test]
fn via_and_record_route_have_the_advertised_name() {
    let (_folder, running) = serve("sip.example.net:5070", None);
    let (via, route) = shown(&running);
    assert!(via.starts_with("Via: SIP/2.0/UDP sip.example.net:5070;"), "{via}");
    assert!(route.starts_with("Record-Route: <sip:sip.example.net:5070;lr;"), "{route}");
}

#[test]
fn the_address_that_a_stun_server_sees_is_advertised() {
    let stun = stun_server();
    let (_folder, running) = serve("auto", Some(stun.local_addr().unwrap()));
    let port = running.address().rsplit_once(':').unwrap().1.to_owned();
    answer(&stun, "203.0.113.5:40000");
    running.says("public address 203.0.113.5");
    // The settings follow in the next turn of the main thread.
    let expected = format!("Record-Route: <sip:203.0.113.5:{port};lr;");
    let begun = std::time::Instant::now();
    while !shown(&running).1.starts_with(&expected) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{expected}");
    }
}

#[test]
fn an_answer_that_is_no_public_address_is_refused_and_calls_go_on() {
    let stun = stun_server();
    let (_folder, running) = serve("auto", Some(stun.local_addr().unwrap()));
    answer(&stun, "10.0.0.1:40000");
    running.says("it answers 10.0.0.1, which is no public address and is not advertised");
    let (_, route) = shown(&running);
    assert!(route.starts_with(&format!("Record-Route: <sip:{};lr;", running.address())), "{route}");
}
