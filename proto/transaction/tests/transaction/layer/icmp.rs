//! Tests of ICMP errors: which of them end a client transaction.

use crate::layer::harness::{Line, outgoing, peer, response, tcp, udp};
use core::net::SocketAddr;
use ringway_sansio::{Flow, ListenerId};
use ringway_transaction::{Notice, shard_of_quoted};

#[test]
fn the_error_of_a_retransmission_ends_the_transaction() {
    for method in ["INVITE", "OPTIONS"] {
        let mut line = Line::new();
        let client = line.send_udp(&outgoing(method));
        let request = line.take_one().text;
        line.pass(3);
        line.icmp(udp(), request.as_bytes());
        assert_eq!(line.take_notices(), [], "the peer may be starting");
        line.pass(500);
        assert_eq!(line.take_one().text, request);
        // Linux quotes 520 bytes.
        line.icmp(udp(), &request.as_bytes()[..request.len().min(200)]);
        assert_eq!(line.take_notices(), [(503, Notice::ClientUnreachable { client, owner: 7 })]);
        line.icmp(udp(), request.as_bytes());
        assert_eq!((line.take_notices(), line.layer.counters().icmp_failures), (vec![], 1));
        line.assert_empty();
    }
}

#[test]
fn a_forged_error_has_no_effect() {
    let mut line = Line::new();
    line.send_udp(&outgoing("INVITE"));
    let request = line.take_one().text;
    line.pass(600);
    let at = request.find(";branch=").unwrap() + ";branch=".len();
    let elsewhere = |address: &str| Flow::udp(ListenerId(0), address.parse::<SocketAddr>().unwrap());
    // A destination other than that of the request, another listener or transport.
    for flow in
        [elsewhere("192.0.2.1:40001"), elsewhere("192.0.2.2:40000"), Flow::udp(ListenerId(1), peer()), tcp()]
    {
        line.icmp(flow, request.as_bytes());
    }
    // Nothing quoted, the headers of IP and UDP only, a request without its branch, a branch that is cut off.
    for length in [0, 8, at, at + 40, at + 61] {
        line.icmp(udp(), &request.as_bytes()[..length]);
    }
    // A guessed branch: any change of it.
    for index in at..at + 62 {
        let mut guessed = request.clone().into_bytes();
        guessed[index] = if guessed[index] == b'1' { b'2' } else { b'1' };
        line.icmp(udp(), &guessed);
    }
    assert_eq!((line.take_notices(), line.layer.counters().icmp_failures), (vec![], 0));
    line.icmp(udp(), &request.as_bytes()[..at + 62]);
    assert_eq!(line.layer.counters().icmp_failures, 1, "the whole branch is enough");
}

#[test]
fn an_error_after_a_response_has_no_effect() {
    for (method, status) in
        [("INVITE", 100), ("INVITE", 200), ("INVITE", 486), ("OPTIONS", 100), ("OPTIONS", 200)]
    {
        let mut line = Line::new();
        line.send_udp(&outgoing(method));
        let request = line.take_one().text;
        line.pass(600);
        line.answer(&response(&request, status));
        line.icmp(udp(), request.as_bytes());
        assert_eq!(
            (line.take_notices(), line.layer.counters().icmp_failures),
            (vec![], 0),
            "{method} {status}"
        );
        assert_eq!(line.layer.len(), (0, 1), "{method} {status}");
    }
}

#[test]
fn a_quoted_response_has_no_shard() {
    let mut line =
        Line::with(7, ringway_transaction::Timers::default(), ringway_transaction::Limits::default());
    line.send_udp(&outgoing("OPTIONS"));
    let request = line.take_one().text;
    assert_eq!(shard_of_quoted(request.as_bytes()), Some(7));
    assert_eq!(shard_of_quoted(response(&request, 200).as_bytes()), None);
    assert_eq!((shard_of_quoted(b""), shard_of_quoted(&request.as_bytes()[..40])), (None, None));
}
