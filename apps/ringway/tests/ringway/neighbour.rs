//! A neighbour of the built server: opened at the start, in use for requests, opened again after it was lost.
//!
//! Tested: real sockets, log and counters. The times of the back-off are tested on a virtual clock in `proto/server`.

use crate::program::{Running, Signal};
use ringway_test_support::eventually::wait_until;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;
use tempfile::TempDir;

/// Header block of the next request.
fn request(reader: &mut BufReader<TcpStream>) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the connection ended: {lines:?}");
        match line.trim_end() {
            "" => return lines,
            text => lines.push(text.to_owned()),
        }
    }
}

/// Accepts a connection, and answers its OPTIONS.
fn accept(listener: &TcpListener) -> BufReader<TcpStream> {
    let (socket, _) = listener.accept().unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut reader = BufReader::new(socket);
    let options = request(&mut reader);
    assert!(options[0].starts_with("OPTIONS sip:127.0.0.1:"), "{options:?}");
    let mut answer = "SIP/2.0 200 OK\r\n".to_owned();
    for line in options.iter().filter(|line| !line.starts_with("OPTIONS") && !line.starts_with("Max")) {
        answer.push_str(line);
        answer.push_str("\r\n");
    }
    reader.get_mut().write_all(format!("{answer}\r\n").as_bytes()).unwrap();
    reader
}

#[test]
fn a_reload_begins_and_ends_neighbours_and_their_connections_are_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("ringway.toml");
    let before = "listen = [\"tcp:127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n";
    fs::write(&file, before).unwrap();
    let running = Running::start(folder.path(), &["serve"], "");
    running.ready();
    let show = |what: &str| running.show(what);
    let uri = format!("sip:{};transport=tcp", listener.local_addr().unwrap());
    fs::write(&file, format!("{before}[[neighbour]]\nname = \"gate\"\nuri = \"{uri}\"\n")).unwrap();
    running.signal(Signal::HUP);
    let _gate = accept(&listener);
    running.says("neighbour is up");
    let connections = show("connections").to_string();
    assert!(connections.contains("\"neighbour\":\"gate\""), "{connections}");
    fs::write(&file, before).unwrap();
    running.signal(Signal::HUP);
    wait_until("it is no neighbour", || {
        let stats = show("stats");
        (stats["neighbours_up"].as_u64(), stats["neighbours_down"].as_u64()) == (Some(0), Some(0))
    });
    assert!(!show("connections").to_string().contains("gate"));
}

#[test]
fn what_is_down_is_named() {
    // Nothing listens at port 1.
    let peers = "[[neighbour]]\nname = \"gate\"\nuri = \"sip:127.0.0.1:1;transport=tcp\"\n\
        [[trunk]]\nname = \"carrier\"\nuri = \"sip:127.0.0.1:1;transport=tcp\"\n";
    let front =
        "[routing]\nedge_domains = [\"example.org\"]\nedge_nodes = [\"sip:127.0.0.1:1;transport=tcp\"]\n";
    let node = "node_up.sip:127.0.0.1:1;transport=tcp";
    for (sections, lines, down) in [
        (peers, &["neighbour is down", "trunk is down"][..], &["neighbour_up.gate", "trunk_up.carrier"][..]),
        (front, &["node is down"], &[node]),
    ] {
        let folder = TempDir::new().unwrap();
        let configuration =
            format!("listen = [\"tcp:127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n{sections}");
        fs::write(folder.path().join("ringway.toml"), configuration).unwrap();
        let running = Running::start(folder.path(), &["serve"], "");
        for line in lines {
            running.says(line);
        }
        let stats = running.show("stats");
        let named = stats.as_object().unwrap().iter().filter(|(name, value)| {
            let (kind, _) = name.split_once('.').unwrap_or_default();
            ["neighbour_up", "node_up"].contains(&kind) || (kind == "trunk_up" && value.as_u64() == Some(0))
        });
        let named: Vec<_> = named.map(|(name, value)| (name.as_str(), value.as_u64())).collect();
        assert!(down.iter().all(|name| named.contains(&(name, Some(0)))), "{named:?}");
        assert_eq!(named.iter().filter(|(name, _)| !name.starts_with("trunk")).count(), 1, "{named:?}");
    }
}

#[test]
fn a_stop_does_not_await_a_neighbour_that_never_answers() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = TempDir::new().unwrap();
    let config = format!(
        "listen = [\"udp:127.0.0.1:0\", \"tls:127.0.0.1:0\"]\n[tls]\ncertificate = \"tls/cert.pem\"\n\
         private_key = \"tls/key.pem\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[[neighbour]]\nname = \"gate\"\n\
         uri = \"sip:{};transport=tls\"\n",
        silent.local_addr().unwrap()
    );
    fs::write(folder.path().join("ringway.toml"), config).unwrap();
    Running::start(folder.path(), &["cert", "init", "--domain", "localhost"], "").done().ok();
    let running = Running::start(folder.path(), &["serve"], "");
    running.ready();
    // The OPTIONS cannot be sent before the handshake ends.
    let _connection = silent.accept().unwrap();
    running.end();
    let done = running.done();
    assert!(done.status == 0 && !done.err.contains("unanswered"), "{done:?}");
}

#[test]
fn a_neighbour_is_dialled_at_the_start_used_and_dialled_again_when_it_was_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let folder = TempDir::new().unwrap();
    let config = format!(
        "listen = [\"udp:127.0.0.1:0\", \"tcp:127.0.0.1:0\"]\n[auth]\nenabled = false\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [[neighbour]]\nname = \"gate\"\nuri = \"sip:127.0.0.1:{port};transport=tcp\"\n"
    );
    fs::write(folder.path().join("ringway.toml"), config).unwrap();
    let running = Running::start(folder.path(), &["serve"], "");
    let mut gate = accept(&listener);
    running.says("neighbour is up");
    let stat = |name: &str| running.stat(name);
    assert_eq!((stat("neighbours_up"), stat("neighbours_down")), (1, 0));
    let phone = UdpSocket::bind("127.0.0.1:0").unwrap();
    let udp = running.listener("udp");
    let from = phone.local_addr().unwrap();
    let message = format!(
        "MESSAGE sip:x@127.0.0.1:{port};transport=tcp SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bKm;rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:alice@localhost>;tag=1\r\nTo: <sip:x@127.0.0.1:{port}>\r\nCall-ID: m\r\n\
         CSeq: 1 MESSAGE\r\nContent-Length: 0\r\n\r\n"
    );
    phone.send_to(message.as_bytes(), udp).unwrap();
    assert!(request(&mut gate)[0].starts_with("MESSAGE"), "over the same connection");
    drop(gate);
    running.says("neighbour is down");
    let _gate = accept(&listener);
    wait_until("it is up again", || stat("neighbours_up") == 1);
    assert_eq!(stat("connections_dialled"), 2);
}
