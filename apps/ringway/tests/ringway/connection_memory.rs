//! Resident memory of a server with as many TLS connections as it may have, compared with what `ringway check` says of them.

use crate::program::{Running, secured};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use tempfile::TempDir;

/// Connections, and those before the measurement, so that what the first ones need is there.
const CONNECTIONS: usize = 400;
const FIRST: usize = 50;

#[test]
fn the_resident_memory_of_connections_is_115_percent_of_their_part_of_the_sum_at_most() {
    let folder = TempDir::new().unwrap();
    let path = folder.path();
    let run = |args: &[&str]| Running::start(path, args, "").done();
    run(&["cert", "init", "--domain", "localhost", "--address", "127.0.0.1"]).ok();
    let config = format!(
        "listen = [\"udp:127.0.0.1:0\", \"tls:127.0.0.1:0\"]\nworkers = 1\n\
         [tls]\ncertificate = \"tls/cert.pem\"\nprivate_key = \"tls/key.pem\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [limits]\nmax_connections = {CONNECTIONS}\nmax_connections_per_source = 0\nper_source_rate = 0\n"
    );
    fs::write(path.join("ringway.toml"), config).unwrap();
    let memory = run(&["check", "ringway.toml", "--memory", "--json"]).json();
    let part = memory["memory"]["parts"].as_array().unwrap().iter().find(|part| part["of"] == "connections");
    let part = part.unwrap()["bytes"].as_u64().unwrap();
    let server = Running::start(path, &["serve"], "");
    server.ready();
    let address = server.listener("tls");
    let connect = |number: usize| {
        let mut stream = secured(TcpStream::connect(&address).unwrap(), &path.join("tls"));
        let text = format!(
            "OPTIONS sip:localhost SIP/2.0\r\nVia: SIP/2.0/TLS h;branch=z9hG4bK{number};rport\r\nMax-Forwards: 70\r\n\
             From: <sip:x@h>;tag=1\r\nTo: <sip:localhost>\r\nCall-ID: {number}\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(text.as_bytes()).unwrap();
        let mut start = [0; 12];
        stream.read_exact(&mut start).unwrap();
        assert_eq!(&start[..], b"SIP/2.0 200 ");
        stream
    };
    let mut open: Vec<_> = (0..FIRST).map(connect).collect();
    let before = resident_bytes(&server);
    open.extend((FIRST..CONNECTIONS).map(connect));
    let grown = resident_bytes(&server) - before;
    let size = part / CONNECTIONS as u64 * (CONNECTIONS - FIRST) as u64;
    println!("{} connections: {grown} bytes resident of {size}", open.len());
    assert!(grown * 100 <= size * 115, "{grown} bytes of {size}");
    assert!(grown * 8 >= size, "the connections are not there: {grown} bytes of {size}");
}

fn resident_bytes(server: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
