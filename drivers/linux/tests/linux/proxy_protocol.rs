//! Listeners with the PROXY protocol. Tested: the peer of a header, in any split and with the first message; connections that are
//! refused, each with its counter; a slow header; many of them; limits of the client and not of the proxy; a changed rule.
//! Not tested: TLS behind a header (`tests/testbed/src/interop/operator.rs`).

use crate::node::{PATIENCE, Talker, address, start};
use ringway_linux::{Acceptance, AcceptanceRule, Config, Runtime, StreamLimits};
use ringway_test_support::eventually::wait_until;
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// The only proxies of the listener.
const PROXIES: [[u8; 4]; 2] = [[127, 0, 0, 1], [127, 0, 0, 2]];
const STRANGER: [u8; 4] = [127, 0, 0, 3];
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn rule() -> AcceptanceRule {
    Arc::new(|_, source| match PROXIES.iter().any(|proxy| source == IpAddr::from(*proxy)) {
        true => Acceptance::Proxied,
        false => Acceptance::Refused,
    })
}

fn server(config: Config) -> (Runtime<Talker>, SocketAddr) {
    let config = Config { acceptance: Some(rule()), ..config };
    let runtime = start(&["tcp:127.0.0.1:0"], 1, 2, config);
    let at = address(&runtime, 0);
    (runtime, at)
}

fn connect(ip: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((ip, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Header of a client with IPv4.
fn header(client: [u8; 4], port: u16) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    [SIGNATURE, &[0x21, 0x11, 0, 12], &client, &[192, 0, 2, 10, high, low, 0x13, 0xc4]].concat()
}

fn line(stream: &mut TcpStream) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while byte != *b"\n" {
        stream.read_exact(&mut byte).expect("a line in time");
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap().trim_end().to_owned()
}

/// Waits for the end of a connection; true if nothing was received.
fn ends(mut stream: TcpStream) -> bool {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => rest.is_empty(),
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn the_peer_is_the_one_in_the_header_however_its_bytes_arrive() {
    let (runtime, at) = server(Config::default());
    let bytes = [&header([203, 0, 113, 9], 40_000)[..], b"1 from\n"].concat();
    for size in [bytes.len(), 1, 12, 16, 17, 28, 30] {
        let mut stream = connect(PROXIES[0], at);
        for part in bytes.chunks(size) {
            stream.write_all(part).unwrap();
            // Most parts arrive alone.
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(line(&mut stream), "203.0.113.9:40000", "{size}");
        let open = runtime.connections().page(None, 10);
        assert!(open.iter().any(|open| open.remote == "203.0.113.9:40000".parse().unwrap()), "{open:?}");
        drop(stream);
        wait_until("its end", || runtime.counts().connections_open == 0);
    }
    let ip = "2001:db8::9".parse::<std::net::Ipv6Addr>().unwrap().octets();
    let ipv6 = [SIGNATURE, &[0x21, 0x21, 0, 40], &ip, &[0; 16], &[0, 9, 0, 0], &[4, 0, 1, 7], b"1 from\n"];
    let mut stream = connect(PROXIES[1], at);
    stream.write_all(&ipv6.concat()).unwrap();
    assert_eq!(line(&mut stream), "[2001:db8::9]:9");
    // A health check of the proxy is its own connection.
    let mut stream = connect(PROXIES[1], at);
    stream.write_all(&[SIGNATURE, &[0x20, 0, 0, 0], b"1 from\n"].concat()).unwrap();
    assert_eq!(line(&mut stream), stream.local_addr().unwrap().to_string());
    let counts = runtime.counts();
    let refused = [counts.proxy_headers_late, counts.proxy_headers_refused, counts.proxy_sources_refused];
    assert_eq!((refused, counts.connections_accepted), ([0; 3], 9));
}

#[test]
fn a_stranger_is_refused_before_a_byte_is_read() {
    let (runtime, at) = server(Config::default());
    let mut stream = connect(STRANGER, at);
    // It may be closed already.
    let _ = stream.write_all(&[&header([203, 0, 113, 9], 40_000)[..], b"1 from\n"].concat());
    assert!(ends(stream));
    wait_until("the count", || runtime.counts().proxy_sources_refused == 1);
    let counts = runtime.counts();
    assert_eq!(
        (counts.connections_accepted, counts.stream_bytes_in, counts.proxy_headers_refused),
        (0, 0, 0)
    );
}

#[test]
fn a_connection_of_a_proxy_without_a_valid_header_is_closed() {
    let (runtime, at) = server(Config::default());
    let no_header: [&[u8]; 6] = [
        b"1 from\n",
        b"PROXY TCP4 203.0.113.9 192.0.2.10 40000 5060\r\n1 from\n",
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc",
        &[SIGNATURE, &[0x11, 0x11, 0, 12], &[7; 12]].concat(),
        &[SIGNATURE, &[0x21, 0x00, 0, 0], b"1 from\n"].concat(),
        &[SIGNATURE, &[0x21, 0x11, 0x10, 0], &[7; 4096]].concat(),
    ];
    for (count, bytes) in no_header.iter().enumerate() {
        let mut stream = connect(PROXIES[0], at);
        stream.write_all(bytes).unwrap();
        assert!(ends(stream), "{bytes:?}");
        wait_until("the count", || runtime.counts().proxy_headers_refused == count as u64 + 1);
    }
    // One that only connects is no fault; one that ends within its header is.
    drop(connect(PROXIES[0], at));
    let mut stream = connect(PROXIES[0], at);
    stream.write_all(&SIGNATURE[..5]).unwrap();
    drop(stream);
    wait_until("the count", || runtime.counts().proxy_headers_refused == 7);
    assert_eq!((runtime.counts().connections_accepted, runtime.counts().framing_errors), (0, 0));
}

#[test]
fn a_header_has_the_time_of_a_handshake() {
    let streams = StreamLimits { handshake: Duration::from_millis(200), ..StreamLimits::default() };
    let (runtime, at) = server(Config { streams, ..Config::default() });
    let mut slow = connect(PROXIES[0], at);
    slow.write_all(&header([203, 0, 113, 9], 1)[..27]).unwrap();
    let silent = connect(PROXIES[0], at);
    assert!(ends(slow) && ends(silent));
    wait_until("the count", || runtime.counts().proxy_headers_late == 2);
}

#[test]
fn half_open_connections_leave_room_for_those_with_a_header() {
    let (runtime, at) = server(Config { max_connections: 3, ..Config::default() });
    let silent: Vec<TcpStream> = (0..80).map(|_| connect(PROXIES[0], at)).collect();
    wait_until("the oldest to be closed", || runtime.counts().proxy_headers_late == 16);
    let mut proxied = connect(PROXIES[1], at);
    proxied.write_all(&[&header([203, 0, 113, 9], 1)[..], b"1 from\n"].concat()).unwrap();
    assert_eq!(line(&mut proxied), "203.0.113.9:1");
    let mut silent = silent.into_iter();
    assert!(silent.by_ref().take(16).all(ends), "the oldest are closed");
    let mut last = silent.next_back().unwrap();
    last.write_all(&[&header([203, 0, 113, 9], 2)[..], b"1 from\n"].concat()).unwrap();
    assert_eq!(line(&mut last), "203.0.113.9:2", "the newest wait");
    assert_eq!(runtime.counts().connections_open, 2, "without a header there is no connection");
}

#[test]
fn limits_are_those_of_the_client_and_not_of_the_proxy() {
    let (runtime, at) = server(Config { max_connections_per_source: 2, ..Config::default() });
    let open = |client: u8, port: u16| {
        let mut stream = connect(PROXIES[0], at);
        stream.write_all(&[&header([203, 0, 113, client], port)[..], b"1 from\n"].concat()).unwrap();
        stream
    };
    let mut clients: Vec<TcpStream> = (1..=8).map(|client| open(client, 5060)).collect();
    for (client, stream) in (1..).zip(&mut clients) {
        assert_eq!(line(stream), format!("203.0.113.{client}:5060"));
    }
    let mut second = open(1, 5061);
    assert_eq!(line(&mut second), "203.0.113.1:5061");
    assert!(ends(open(1, 5062)), "the third one of a client");
    assert_eq!(runtime.counts().connections_over_source, 1);
    // A closed one does not count any more.
    drop(second);
    wait_until("its end", || runtime.counts().connections_open == 8);
    assert_eq!(line(&mut open(1, 5063)), "203.0.113.1:5063");
}

#[test]
fn a_changed_rule_is_that_of_later_connections() {
    let (runtime, at) = server(Config::default());
    let mut before = connect(PROXIES[0], at);
    before.write_all(&[&header([203, 0, 113, 9], 1)[..], b"1 from\n"].concat()).unwrap();
    assert_eq!(line(&mut before), "203.0.113.9:1");
    runtime.set_acceptance(None);
    let mut direct = connect(STRANGER, at);
    direct.write_all(b"1 from\n").unwrap();
    assert_eq!(line(&mut direct), direct.local_addr().unwrap().to_string());
    runtime.set_acceptance(Some(rule()));
    assert!(ends(connect(STRANGER, at)));
    before.write_all(b"2 from\n").unwrap();
    assert_eq!(line(&mut before), "203.0.113.9:1");
}
