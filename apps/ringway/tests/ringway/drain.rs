//! `ringway drain` of the built server, without a cluster.

use crate::program::Running;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;
use tempfile::TempDir;

const CONFIGURATION: &str = "domains = [\"example.org\"]\nlisten = [\"udp:127.0.0.1:0\", \"tcp:127.0.0.1:0\"]\nworkers = 2\n\
                             [auth]\nenabled = false\n[admin]\nlisten = \"127.0.0.1:0\"\n";
const TIME_MAX: Duration = Duration::from_secs(20);

fn request(method: &str, (transport, own): (&str, SocketAddr), cseq: u32) -> String {
    format!(
        "{method} sip:example.org SIP/2.0\r\nVia: SIP/2.0/{transport} {own};branch=z9hG4bK{method}{cseq}\r\nMax-Forwards: 70\r\n\
         From: <sip:bob@example.org>;tag=1\r\nTo: <sip:bob@example.org>\r\nCall-ID: {method}{transport}\r\nCSeq: {cseq} {method}\r\n\
         Contact: <sip:bob@{own};transport={transport}>\r\nContent-Length: 0\r\n\r\n"
    )
}

/// Status line and the rest of a response by UDP.
fn ask(phone: &UdpSocket, method: &str, cseq: u32) -> String {
    phone.send(request(method, ("UDP", phone.local_addr().unwrap()), cseq).as_bytes()).unwrap();
    let mut answer = [0; 2000];
    let length = phone.recv(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

#[test]
fn phones_leave_and_come_back_after_a_cancel() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("ringway.toml"), CONFIGURATION).unwrap();
    let server = Running::start(folder.path(), &["serve"], "");
    let admin = server.admin();
    let run =
        |args: &[&str]| Running::start(folder.path(), &[args, &["--admin", &admin]].concat(), "").done();
    let stat = |name: &str| server.stat(name);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.connect(server.listener("udp")).unwrap();
    udp.set_read_timeout(Some(TIME_MAX)).unwrap();
    let mut tcp = TcpStream::connect(server.listener("tcp")).unwrap();
    tcp.set_read_timeout(Some(TIME_MAX)).unwrap();
    tcp.write_all(request("REGISTER", ("TCP", tcp.local_addr().unwrap()), 1).as_bytes()).unwrap();
    let mut answer = [0; 2000];
    let length = tcp.read(&mut answer).unwrap();
    assert!(answer[..length].starts_with(b"SIP/2.0 200"));
    assert_eq!((stat("draining"), stat("bindings")), (0, 1));
    assert!(run(&["drain", "--cancel"]).refused(1).contains("does not drain"));

    let said = run(&["drain", "--over", "0"]).ok();
    assert!(said.contains("phones leave within 0 s") && said.contains("--cancel"), "{said}");
    assert_eq!(tcp.read(&mut answer).unwrap(), 0, "its connection is closed");
    let refused = ask(&udp, "REGISTER", 1);
    assert!(refused.starts_with("SIP/2.0 503 Draining") && refused.contains("Retry-After: "), "{refused}");
    assert!(ask(&udp, "OPTIONS", 1).starts_with("SIP/2.0 503 Draining"));
    assert_eq!((stat("draining"), stat("drain_left_s"), stat("drained_registers")), (1, 0, 1));
    server.says("drain done");

    assert_eq!(run(&["drain", "--cancel", "--json"]).json()["ok"], true);
    server.says("drain cancelled");
    assert!(ask(&udp, "REGISTER", 2).starts_with("SIP/2.0 200"));
    assert_eq!(stat("draining"), 0);
    assert_eq!(run(&["drain", "--json"]).json()["over_s"], 600);
    assert!(stat("drain_left_s") > 500);
    assert_eq!(server.said().matches("drain done").count(), 1);
}
