//! Tests of the branch of statelessly forwarded requests (RFC 3261 §16.11).

use crate::layer::harness::{Line, ack_of, as_text, incoming, parse, response};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use ringway_sansio::{Flow, ListenerId, Transport};
use ringway_transaction::{Answer, Branch, BranchKey, StatelessBranch, reply_address, shard_of_response};

#[test]
fn a_retransmission_the_ack_and_the_cancel_have_the_branch_of_their_request() {
    let invite = received("INVITE");
    let branch = stateless(&invite, 5);
    assert_eq!(stateless(&invite.clone(), 5), branch, "a retransmission");
    assert_eq!(stateless(&ack_of(&invite), 5), branch);
    assert_eq!(stateless(&invite.replace("INVITE", "CANCEL"), 5), branch);
    assert!(branch.starts_with("z9hG4bK"));
}

#[test]
fn other_requests_have_other_branches() {
    let invite = received("INVITE");
    let branch = stateless(&invite, 5);
    for (old, new) in [
        ("z9hG4bKup", "z9hG4bKuq"),
        ("call-1", "call-2"),
        ("CSeq: 1", "CSeq: 2"),
        ("tag=a1", "tag=a2"),
        ("rport=40000", "rport=40001"),
        ("received=192.0.2.1", "received=192.0.2.2"),
    ] {
        let other = invite.replace(old, new);
        assert_ne!(other, invite);
        assert_ne!(stateless(&other, 5), branch, "{new}");
    }
    assert_ne!(stateless(&invite, 6), branch, "another connection");
    let key = BranchKey::new([9; 16]);
    let mut other = Vec::new();
    key.write_stateless(&parse(&invite), reply(&invite), 5, &TARGET, &mut other);
    assert_ne!(as_text(&other), branch, "another secret");
}

#[test]
fn its_response_is_recognised_and_has_the_connection_of_the_request() {
    let mut line = Line::new();
    for connection in [0, 5, u64::MAX] {
        let invite = received("INVITE");
        let forwarded = forward(&invite, connection);
        for status in [100, 180, 200, 486] {
            let response = response(&forwarded, status);
            assert_eq!(line.answer(&response), Answer::Stateless(stateless_branch(connection)));
            assert_eq!(shard_of_response(response.as_bytes()), None, "any shard can forward it");
        }
    }
    assert_eq!(line.layer.counters().stray_responses, 0);
    line.assert_empty();
}

/// The response's second Via is its destination; a changed one could direct it at a third party.
#[test]
fn a_response_whose_next_via_was_changed_is_refused() {
    let mut line = Line::new();
    let good = response(&forward(&received("INVITE"), 5), 200);
    assert_eq!(line.answer(&good), Answer::Stateless(stateless_branch(5)));
    let connection = "z9hG4bK.s0000000000000005";
    assert!(good.contains(connection));
    for (old, new) in [
        ("received=192.0.2.1", "received=203.0.113.9"),
        ("received=192.0.2.1;", ""),
        ("rport=40000", "rport=53"),
        (";rport=40000", ""),
        ("z9hG4bKup", "z9hG4bKother"),
        ("call-1", "call-2"),
        ("CSeq: 1", "CSeq: 2"),
        ("tag=a1", "tag=a2"),
        (connection, "z9hG4bK.s0000000000000006"),
        ("received=192.0.2.1", "received=255.255.255.255"),
    ] {
        let forged = good.replace(old, new);
        assert_ne!(forged, good, "{old}");
        assert_eq!(line.answer(&forged), Answer::Stray, "{new}");
    }
    let mut lines: Vec<&str> = good.split("\r\n").collect();
    lines.retain(|line| !line.contains("z9hG4bKup"));
    assert_eq!(line.answer(&lines.join("\r\n")), Answer::Stray, "no next Via at all");
    assert_eq!(line.layer.counters().stray_responses, 11);
}

#[test]
fn both_kinds_of_branch_read_back_as_what_was_written() {
    let key = BranchKey::new(KEY);
    let mut line = Line::with(0x1234, Default::default(), Default::default());
    line.send_udp(&crate::layer::harness::outgoing("OPTIONS"));
    let ok = response(&line.take_one().text, 200);
    assert!(matches!(key.read(&parse(&ok)), Some(Branch::Transaction { shard: 0x1234, .. })));
    assert_eq!(shard_of_response(ok.as_bytes()), Some(0x1234));
    let ok = response(&forward(&received("OPTIONS"), 77), 200);
    assert_eq!(key.read(&parse(&ok)), Some(Branch::Stateless(stateless_branch(77))));
}

/// Request whose top Via is stamped with its source.
fn received(method: &str) -> String {
    incoming(method, "z9hG4bKup;received=192.0.2.1;rport=40000")
}

/// Next hop of the requests.
const TARGET: Flow =
    Flow::udp(ListenerId(0), SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 44)), 5060));

/// Content of the branch of [`received`], sent to [`TARGET`].
fn stateless_branch(connection: u64) -> StatelessBranch {
    let target = BranchKey::new(KEY).target_of(&TARGET);
    let reply = SocketAddr::from(([192, 0, 2, 1], 40000));
    StatelessBranch { connection, target, transport: Transport::Udp, reply }
}

fn reply(request: &str) -> SocketAddr {
    reply_address(parse(request).via()).unwrap()
}

fn stateless(request: &str, connection: u64) -> String {
    let mut branch = Vec::new();
    BranchKey::new(KEY).write_stateless(&parse(request), reply(request), connection, &TARGET, &mut branch);
    as_text(&branch)
}

/// Request with our Via on top.
fn forward(request: &str, connection: u64) -> String {
    let via = format!("Via: SIP/2.0/UDP 203.0.113.1;branch={}\r\nVia: ", stateless(request, connection));
    request.replacen("Via: ", &via, 1)
}

/// Branch key of the harness.
const KEY: [u8; 16] = [2; 16];
