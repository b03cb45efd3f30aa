//! `[[proxy_protocol]]` of the built program: the address of a header in Via, in the list of connections and for the block list, also
//! before TLS; a reload; and `dscp`.
//!
//! Not tested here: hostile headers (`proto/stream`), limits (`drivers/linux`), HAProxy itself (`xtask interop`).

use crate::program::{Running, secured};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use tempfile::TempDir;

const CLIENT: [u8; 4] = [203, 0, 113, 9];

/// A server on loopback with these lines of its configuration at the top.
fn serve(folder: &TempDir, top: &str) {
    let configuration = format!(
        "domains = [\"example.org\"]\nlisten = [\"udp:127.0.0.1:0\", \"tcp:127.0.0.1:0\", \"tls:127.0.0.1:0\"]\n{top}\
         [tls]\ncertificate = \"cert.pem\"\nprivate_key = \"key.pem\"\n[admin]\nlisten = \"127.0.0.1:0\"\n"
    );
    fs::write(folder.path().join("ringway.toml"), configuration).unwrap();
}

fn behind(transport: &str, networks: &str) -> String {
    format!("[[proxy_protocol]]\nlisten = \"{transport}:127.0.0.1:0\"\nnetworks = [\"{networks}\"]\n")
}

fn header() -> Vec<u8> {
    let ports = [0x9c, 0x40, 0x13, 0xc4];
    [b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", &CLIENT[..], &[192, 0, 2, 10], &ports].concat()
}

/// A request whose response shows the source.
fn request(transport: &str) -> String {
    format!(
        "OPTIONS sip:example.org SIP/2.0\r\nVia: SIP/2.0/{transport} 192.0.2.99;branch=z9hG4bK1;rport\r\nMax-Forwards: 70\r\n\
         From: <sip:a@example.net>;tag=1\r\nTo: <sip:example.org>\r\nCall-ID: 1\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
    )
}

fn connect(to: &str) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Text received until the end of a response, or of the connection.
fn response(stream: &mut impl Read) -> String {
    let (mut text, mut bytes) = (String::new(), [0; 2048]);
    while !text.contains("\r\n\r\n") {
        match stream.read(&mut bytes) {
            Ok(0) | Err(_) => break,
            Ok(count) => text.push_str(&String::from_utf8_lossy(&bytes[..count])),
        }
    }
    text
}

#[test]
fn the_program_sees_the_client_of_a_proxy() {
    let folder = TempDir::new().unwrap();
    let made = ["cert", "init", "--domain", "localhost", "--address", "127.0.0.1", "--out", "."];
    Running::start(folder.path(), &made, "").done().ok();
    serve(&folder, &[behind("tcp", "127.0.0.0/8"), behind("tls", "127.0.0.1")].concat());
    let running = Running::start(folder.path(), &["serve"], "");
    let (tcp, tls) = (running.listener("tcp"), running.listener("tls"));

    let mut proxied = connect(&tcp);
    proxied.write_all(&[&header()[..], request("TCP").as_bytes()].concat()).unwrap();
    let answer = response(&mut proxied);
    assert!(answer.contains("received=203.0.113.9") && answer.contains("rport=40000"), "{answer}");
    let connections = running.show("connections").to_string();
    assert!(connections.contains("203.0.113.9:40000"), "{connections}");

    let mut secure = connect(&tls);
    secure.write_all(&header()).unwrap();
    let mut secure = secured(secure, folder.path());
    secure.write_all(request("TLS").as_bytes()).unwrap();
    let answer = response(&mut secure);
    assert!(answer.contains("received=203.0.113.9"), "{answer}");

    // Without a header.
    let mut direct = connect(&tcp);
    direct.write_all(request("TCP").as_bytes()).unwrap();
    assert_eq!(response(&mut direct), "");
    assert_eq!(running.stat("proxy_headers_refused"), 1);

    // The block list has the client, and not the proxy.
    let blocked = ["block", "add", "--network", "203.0.113.9"];
    Running::start(folder.path(), &blocked, "").done().ok();
    let is_blocked = || {
        let mut proxied = connect(&tcp);
        proxied.write_all(&[&header()[..], request("TCP").as_bytes()].concat()).unwrap();
        response(&mut proxied).is_empty()
    };
    assert!((0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        is_blocked()
    }));
    assert!(running.stat("blocked_sources") > 0);

    // A reload: another proxy, then none.
    let reload = || Running::start(folder.path(), &["reload", "--admin", &running.admin()], "").done().ok();
    serve(&folder, &behind("tcp", "127.0.0.77"));
    reload();
    assert_eq!(response(&mut connect(&tcp)), "");
    assert_eq!(running.stat("proxy_sources_refused"), 1);
    serve(&folder, "");
    reload();
    let mut direct = connect(&tcp);
    direct.write_all(request("TCP").as_bytes()).unwrap();
    assert!(response(&mut direct).contains("received=127.0.0.1"));

    // The mark needs a restart.
    serve(&folder, "dscp = \"cs3\"\n");
    let done = Running::start(folder.path(), &["reload", "--admin", &running.admin()], "").done();
    assert!(done.status != 0 && done.err.contains("dscp cannot change while the server runs"), "{done:?}");
}
