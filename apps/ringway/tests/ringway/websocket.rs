//! SIP over WebSocket (RFC 7118) of the built program, with `tungstenite` as the client.
//!
//! Tested: the subprotocol, origins, a registration and a call through the connection, by `ws` and `wss`. Not tested here:
//! frames and their faults (`proto/stream`), a browser.

use crate::program::{Running, secured};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;
use tempfile::TempDir;
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};

/// A server without passwords whose folder has certificates by `ringway cert init`.
fn serve(more: &str) -> (TempDir, Running, [String; 3]) {
    let folder = TempDir::new().unwrap();
    let args = ["cert", "init", "--domain", "localhost", "--address", "127.0.0.1", "--out", "."];
    Running::start(folder.path(), &args, "").done().ok();
    let config = "listen = [\"udp:127.0.0.1:0\", \"ws:127.0.0.1:0\", \"wss:127.0.0.1:0\"]\n\
        [auth]\nenabled = false\n[store]\nurl = \"memory:\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
        [tls]\ncertificate = \"cert.pem\"\nprivate_key = \"key.pem\"\n";
    fs::write(folder.path().join("ringway.toml"), format!("{config}{more}")).unwrap();
    let running = Running::start(folder.path(), &["serve"], "");
    let all = ["udp", "ws", "wss"].map(|transport| running.listener(transport));
    (folder, running, all)
}

fn tcp(address: &str) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

/// Opens a WebSocket connection with the headers; the error has the status.
fn open<S: Read + Write>(
    socket: S,
    host: &str,
    headers: &[(&'static str, &str)],
) -> Result<WebSocket<S>, String> {
    let mut request = format!("ws://{host}/").into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    match tungstenite::client(request, socket) {
        Ok((connection, response)) => {
            assert_eq!(response.headers()["sec-websocket-protocol"], "sip");
            Ok(connection)
        }
        Err(error) => Err(error.to_string()),
    }
}

const SIP: (&str, &str) = ("sec-websocket-protocol", "sip");

/// Registers bob by the connection and lets alice, who uses UDP, call him.
fn register_and_be_called<S: Read + Write>(mut bob: WebSocket<S>, via: &str, udp: &str) {
    let register = format!(
        "REGISTER sip:localhost SIP/2.0\r\nVia: SIP/2.0/{via} df7jal23ls0d.invalid;branch=z9hG4bKr\r\nMax-Forwards: 70\r\n\
        From: <sip:bob@localhost>;tag=b\r\nTo: <sip:bob@localhost>\r\nCall-ID: r\r\nCSeq: 1 REGISTER\r\n\
        Contact: <sip:bob@df7jal23ls0d.invalid;transport=ws>\r\n\r\n"
    );
    bob.send(Message::text(register)).unwrap();
    let ok = bob.read().unwrap().into_text().unwrap();
    assert!(ok.starts_with("SIP/2.0 200 OK"), "{ok}");
    let alice = UdpSocket::bind("127.0.0.1:0").unwrap();
    alice.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let from = alice.local_addr().unwrap();
    let invite = format!(
        "INVITE sip:bob@localhost SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bKi\r\nMax-Forwards: 70\r\n\
        From: <sip:alice@localhost>;tag=a\r\nTo: <sip:bob@localhost>\r\nCall-ID: i\r\nCSeq: 1 INVITE\r\n\
        Contact: <sip:alice@{from}>\r\nContent-Length: 0\r\n\r\n"
    );
    alice.send_to(invite.as_bytes(), udp).unwrap();
    let received = bob.read().unwrap().into_text().unwrap();
    assert!(received.starts_with("INVITE sip:bob@df7jal23ls0d.invalid;transport=ws SIP/2.0"), "{received}");
    assert!(received.contains(&format!("\r\nVia: SIP/2.0/{via} 127.0.0.1")), "{received}");
    let fields: Vec<&str> = received
        .lines()
        .filter(|line| {
            ["Via:", "From:", "To:", "Call-ID:", "CSeq:"].iter().any(|name| line.starts_with(name))
        })
        .collect();
    bob.send(Message::text(format!("SIP/2.0 486 Busy Here\r\n{}\r\n\r\n", fields.join("\r\n")))).unwrap();
    let mut room = [0; 4096];
    loop {
        let count = alice.recv(&mut room).unwrap();
        let answer = String::from_utf8_lossy(&room[..count]).into_owned();
        if !answer.starts_with("SIP/2.0 100") {
            assert!(answer.starts_with("SIP/2.0 486 Busy Here"), "{answer}");
            break;
        }
    }
}

#[test]
fn a_client_registers_and_is_called_by_ws() {
    let (_folder, _running, [udp, ws, _]) = serve("");
    let bob = open(tcp(&ws), &ws, &[SIP]).unwrap();
    register_and_be_called(bob, "WS", &udp);
}

#[test]
fn a_client_registers_and_is_called_by_wss() {
    let (folder, _running, [udp, _, wss]) = serve("");
    let bob = open(secured(tcp(&wss), folder.path()), &wss, &[SIP]).unwrap();
    register_and_be_called(bob, "WSS", &udp);
}

#[test]
fn other_subprotocols_and_foreign_origins_are_refused() {
    let (_folder, _running, [_, ws, _]) = serve("[websocket]\norigins = [\"https://phone.example.org\"]\n");
    let own = ("origin", "https://phone.example.org");
    assert!(open(tcp(&ws), &ws, &[SIP, own]).is_ok());
    let foreign = open(tcp(&ws), &ws, &[SIP, ("origin", "https://evil.example.org")]).err().unwrap();
    assert!(foreign.contains("403"), "{foreign}");
    let other = open(tcp(&ws), &ws, &[("sec-websocket-protocol", "chat"), own]).err().unwrap();
    assert!(other.contains("400"), "{other}");
}
