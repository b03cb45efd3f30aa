//! Two servers that are neighbours by TLS: calls over a connection of their own, and one connection for both directions.
//!
//! Tested: connections and handshakes, by the counters of `/metrics` on both sides; the phones are UDP sockets. The rules of
//! such connections are tested on a virtual clock in `proto/server`.

use crate::admin_api;
use crate::program::Running;
use ringway_test_support::eventually::{PATIENCE, holds};
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// A server in a folder of its own.
struct Served {
    running: Running,
    _folder: TempDir,
}

impl Served {
    fn start(files: &Path, domain: &str, more: &str) -> Self {
        Self::start_at(files, domain, 0, more)
    }

    /// Server whose TLS listener has this port.
    fn start_at(files: &Path, domain: &str, port: u16, more: &str) -> Self {
        let folder = TempDir::new().unwrap();
        for name in ["ca.pem", "cert.pem", "key.pem"] {
            fs::copy(files.join("tls").join(name), folder.path().join(name)).unwrap();
        }
        let config = format!(
            "domains = [\"{domain}\"]\nlisten = [\"udp:127.0.0.1:0\", \"tls:127.0.0.1:{port}\"]\n[auth]\nenabled = false\n\
             [store]\nurl = \"memory:\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[tls]\ncertificate = \"cert.pem\"\n\
             private_key = \"key.pem\"\npeer_ca = \"ca.pem\"\n{more}"
        );
        fs::write(folder.path().join("ringway.toml"), config).unwrap();
        let running = Running::start(folder.path(), &["serve"], "");
        running.ready();
        Self { running, _folder: folder }
    }

    fn listener(&self, transport: &str) -> String {
        self.running.listener(transport)
    }

    /// Value in `/metrics`.
    fn metric(&self, name: &str) -> u64 {
        let (_, text) = admin_api::exchange(&self.running.admin(), "GET", "/metrics", "", "");
        let value = |line: &str| line.strip_prefix("ringway_")?.strip_prefix(name)?.trim().parse().ok();
        let value = |line: &str| value(line).or_else(|| value(&line.replace("_total ", " ")));
        text.lines().find_map(value).unwrap_or_else(|| panic!("no {name} in {text}"))
    }

    #[track_caller]
    fn reaches(&self, name: &str, wanted: u64) {
        let is_reached = holds(PATIENCE, || self.metric(name) == wanted);
        assert!(is_reached, "{name} is {}, not {wanted}", self.metric(name));
    }
}

/// A phone that sends and receives text.
struct Phone {
    socket: UdpSocket,
    server: String,
}

impl Phone {
    fn new(server: &Served) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { socket, server: server.listener("udp") }
    }

    fn address(&self) -> String {
        self.socket.local_addr().unwrap().to_string()
    }

    fn request(&self, line: &str, (from, to, call_id): (&str, &str, &str), cseq: &str, more: &str) {
        let (address, branch) = (self.address(), format!("{call_id}{}", cseq.replace(' ', "")));
        let text = format!(
            "{line} SIP/2.0\r\nVia: SIP/2.0/UDP {address};branch=z9hG4bK{branch};rport\r\nMax-Forwards: 70\r\n\
             From: {from}\r\nTo: {to}\r\nCall-ID: {call_id}\r\nCSeq: {cseq}\r\nContact: <sip:x@{address}>\r\n{more}\
             Content-Length: 0\r\n\r\n"
        );
        self.socket.send_to(text.as_bytes(), &self.server).unwrap();
    }

    /// Next message that begins so; others are retransmissions or provisional.
    fn receive(&self, start: &str) -> String {
        let mut room = [0; 4096];
        loop {
            let (count, _) = self.socket.recv_from(&mut room).unwrap();
            let text = String::from_utf8(room[..count].to_vec()).unwrap();
            if text.starts_with(start) {
                return text;
            }
        }
    }

    /// Answers a request with 200.
    fn accept(&self, request: &str) {
        let copied = ["Via:", "Record-Route:", "From:", "Call-ID:", "CSeq:"];
        let mut text = "SIP/2.0 200 OK\r\n".to_owned();
        for line in request.lines() {
            if copied.iter().any(|name| line.starts_with(name)) {
                text += &format!("{line}\r\n");
            } else if line.starts_with("To:") {
                text += line;
                text += if line.contains(";tag=") { "\r\n" } else { ";tag=bob\r\n" };
            }
        }
        let address = self.address();
        text += &format!("Contact: <sip:bob@{address}>\r\nContent-Length: 0\r\n\r\n");
        self.socket.send_to(text.as_bytes(), &self.server).unwrap();
    }
}

fn header<'m>(message: &'m str, name: &str) -> Vec<&'m str> {
    message.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).collect()
}

/// An answered call: what its further requests have.
struct Call {
    to: String,
    contact: String,
    routes: String,
    call_id: String,
}

const FROM: &str = "<sip:alice@front.example>;tag=alice";

fn call(alice: &Phone, bob: &Phone, gate: &str, call_id: &str) -> Call {
    let route = format!("Route: <sip:{gate};transport=tls;lr>\r\n");
    let parties = (FROM, "<sip:bob@gate.example>", call_id);
    alice.request("INVITE sip:bob@gate.example", parties, "1 INVITE", &route);
    bob.accept(&bob.receive("INVITE"));
    let ok = alice.receive("SIP/2.0 200");
    let contact = header(&ok, "Contact")[0].trim_matches(['<', '>']).to_owned();
    let mut routes: Vec<&str> =
        header(&ok, "Record-Route").iter().flat_map(|line| line.split(", ")).collect();
    routes.reverse();
    let routes = routes.iter().map(|route| format!("Route: {route}\r\n")).collect();
    let call = Call { to: header(&ok, "To")[0].to_owned(), contact, routes, call_id: call_id.to_owned() };
    call.request(alice, "ACK", "1 ACK");
    bob.receive("ACK");
    call
}

impl Call {
    fn request(&self, alice: &Phone, method: &str, cseq: &str) {
        let line = format!("{method} {}", self.contact);
        alice.request(&line, (FROM, &self.to, &self.call_id), cseq, &self.routes);
    }

    fn end(&self, alice: &Phone, bob: &Phone) {
        self.request(alice, "BYE", "2 BYE");
        bob.accept(&bob.receive("BYE"));
        alice.receive("SIP/2.0 200");
    }
}

fn certificates() -> TempDir {
    let files = TempDir::new().unwrap();
    let cert = ["cert", "init", "--domain", "gate.example", "--address", "127.0.0.1"];
    Running::start(files.path(), &cert, "").done().ok();
    files
}

#[test]
fn neighbours_share_the_connection_that_one_of_them_opened() {
    let files = certificates();
    // The first server needs the second one's port before that is there.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let neighbour = |address: &str| {
        format!(
            "client_auth = \"optional\"\nclient_ca = \"ca.pem\"\n[[neighbour]]\nname = \"other\"\n\
             uri = \"sip:{address};transport=tls\"\ncertificate = \"gate.example\"\n"
        )
    };
    let first = Served::start(files.path(), "first.example", &neighbour(&format!("127.0.0.1:{port}")));
    first.running.says("neighbour is down");
    let tls = first.listener("tls");
    let second = Served::start_at(files.path(), "second.example", port, &neighbour(&tls));
    for served in [&second, &first] {
        served.running.says("neighbour is up");
        assert_eq!(served.metric("connections_open"), 1);
    }
    let counts = ["tls_dialled_full", "tls_accepted_full", "neighbour_aliases"];
    assert_eq!(counts.map(|name| first.metric(name)), [0, 1, 1]);
    assert_eq!(counts.map(|name| second.metric(name)), [1, 0, 0]);
    for (from, to, address) in [(&first, "second", &format!("127.0.0.1:{port}")), (&second, "first", &tls)] {
        let phone = Phone::new(from);
        let domain = if to == "second" { "first" } else { "second" };
        let (aor, uri) = (format!("<sip:x@{to}.example>"), format!("MESSAGE sip:x@{to}.example"));
        let from = format!("<sip:a@{domain}.example>;tag=a");
        let route = format!("Route: <sip:{address};transport=tls;lr>\r\n");
        phone.request(&uri, (&from, &aor, domain), "1 MESSAGE", &route);
        phone.receive("SIP/2.0 404");
    }
    assert_eq!([&first, &second].map(|served| served.metric("connections_open")), [1, 1]);
}

#[test]
fn each_call_opens_a_connection_by_resumption_and_closes_it_at_its_end() {
    let files = certificates();
    let gate = Served::start(files.path(), "gate.example", "");
    let tls = gate.listener("tls");
    let neighbour = format!(
        "[[neighbour]]\nname = \"gate\"\nuri = \"sip:{tls};transport=tls\"\nconnection = \"per-call\"\n"
    );
    let front = Served::start(files.path(), "front.example", &neighbour);
    front.running.says("neighbour is up");
    let (alice, bob) = (Phone::new(&front), Phone::new(&gate));
    let (aor, line) = ("<sip:bob@gate.example>", "REGISTER sip:gate.example");
    bob.request(line, ("<sip:bob@gate.example>;tag=b", aor, "register"), "1 REGISTER", "");
    bob.receive("SIP/2.0 200");

    let calls: Vec<_> = (0..3).map(|number| call(&alice, &bob, &tls, &format!("call{number}"))).collect();
    assert_eq!((front.metric("neighbour_calls"), gate.metric("connections_open")), (3, 4));
    for call in &calls {
        call.end(&alice, &bob);
    }
    // The connection of the OPTIONS stays.
    gate.reaches("connections_open", 1);
    for number in 3..6 {
        call(&alice, &bob, &tls, &format!("call{number}")).end(&alice, &bob);
    }
    gate.reaches("connections_open", 1);
    assert_eq!((front.metric("neighbour_calls"), front.metric("connections_dialled")), (0, 7));
    for (served, side) in [(&front, "dialled"), (&gate, "accepted")] {
        let counts = ["full", "resumed"].map(|kind| served.metric(&format!("tls_{side}_{kind}")));
        assert_eq!(counts, [1, 6], "{side}");
    }
}
