//! Tests of server transactions: responses to retransmitted requests, schedules, and ends.

use crate::layer::harness::{Line, ack_of, first_line, incoming, peer, response, tcp, udp};
use ringway_sansio::{Flow, ListenerId, Token};
use ringway_transaction::{Incoming, Limits, Timers};

#[test]
fn a_retransmitted_invite_gets_the_last_provisional_response() {
    let mut line = Line::new();
    let invite = incoming("INVITE", "z9hG4bK1");
    let server = line.serve(udp(), &invite);
    assert_eq!(line.request(&invite), Incoming::Absorbed);
    assert!(line.take_sent().is_empty(), "there is none yet");
    for status in [100, 180, 183] {
        assert!(line.respond(server, &invite, status));
        let first = line.take_one();
        assert_eq!(line.request(&invite), Incoming::Absorbed);
        let again = line.take_one();
        assert_eq!((again.text, again.flow), (first.text, udp()));
    }
    line.pass(3_600_000);
    assert!(line.take_sent().is_empty() && !line.layer.is_answered(server) && !line.layer.is_idle());
    assert_eq!(line.layer.counters().requests_absorbed, 4);
    assert_eq!(line.layer.counters().responses_retransmitted, 3);
}

#[test]
fn a_failure_is_retransmitted_at_intervals_up_to_t2_until_timer_h() {
    let mut line = Line::new();
    let invite = incoming("INVITE", "z9hG4bK1");
    let server = line.serve(udp(), &invite);
    line.respond(server, &invite, 486);
    assert!(line.layer.is_answered(server) && line.layer.is_idle());
    line.pass(31_999);
    assert_eq!(line.take_times(), [0, 500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500]);
    assert_eq!((line.take_gone(), line.layer.counters().acks_missed), (vec![], 0));
    line.pass(1);
    assert_eq!((line.take_gone(), line.layer.counters().acks_missed), (vec![9], 1));
    assert!(line.take_sent().is_empty());
    line.assert_empty();
}

#[test]
fn a_failures_schedule_follows_t1() {
    let mut line = Line::with_t1(100);
    let invite = incoming("INVITE", "z9hG4bK1");
    let server = line.serve(udp(), &invite);
    line.respond(server, &invite, 600);
    line.pass(10_000);
    assert_eq!(line.take_times(), [0, 100, 300, 700, 1500, 3100, 6300]);
    line.assert_empty();
}

#[test]
fn an_ack_ends_the_retransmissions_and_its_own_are_absorbed_until_timer_i() {
    let mut line = Line::new();
    let invite = incoming("INVITE", "z9hG4bK1");
    let server = line.serve(udp(), &invite);
    line.respond(server, &invite, 486);
    line.pass(600);
    assert_eq!(line.take_times(), [0, 500]);
    for _ in 0..3 {
        assert_eq!(line.request(&ack_of(&invite)), Incoming::Absorbed);
        line.pass(1000);
    }
    assert_eq!(line.request(&invite), Incoming::Absorbed, "a late retransmission of the INVITE");
    line.pass(1999);
    assert_eq!(line.layer.len(), (1, 0), "timer I still runs");
    line.pass(1);
    assert_eq!(line.take_gone(), [9]);
    assert!(line.take_sent().is_empty());
    assert_eq!(line.layer.counters().acks_missed, 0);
    line.assert_empty();
}

#[test]
fn a_retransmitted_invite_gets_the_failure_again() {
    let mut line = Line::new();
    let invite = incoming("INVITE", "z9hG4bK1");
    let server = line.serve(udp(), &invite);
    line.respond(server, &invite, 486);
    let busy = line.take_one();
    line.pass(100);
    assert_eq!(line.request(&invite), Incoming::Absorbed);
    assert_eq!(line.take_one().text, busy.text);
    line.pass(400);
    assert_eq!(line.take_times(), [500], "timer G is not affected");
}

#[test]
fn over_a_connection_a_failure_is_sent_once_and_its_ack_ends_it() {
    let mut line = Line::new();
    let invite = incoming("INVITE", "z9hG4bK1");
    let server = line.serve(tcp(), &invite);
    line.respond(server, &invite, 486);
    line.pass(31_999);
    assert_eq!(line.take_times(), [0]);
    assert_eq!(line.request(&ack_of(&invite)), Incoming::Absorbed);
    assert_eq!(line.take_gone(), [9]);
    line.assert_empty();
    let server = line.serve(tcp(), &invite);
    line.respond(server, &invite, 486);
    line.pass(32_000);
    assert_eq!((line.take_gone(), line.layer.counters().acks_missed), (vec![9], 1));
    line.assert_empty();
}

#[test]
fn an_accepted_invite_absorbs_its_retransmissions_and_sends_further_2xx_until_timer_l() {
    for flow in [udp(), tcp()] {
        let mut line = Line::new();
        let invite = incoming("INVITE", "z9hG4bK1");
        let server = line.serve(flow, &invite);
        assert!(line.respond(server, &invite, 200));
        assert_eq!(line.take_lines(), ["SIP/2.0 200"]);
        line.pass(5000);
        assert_eq!(line.request(&invite), Incoming::Absorbed);
        assert!(line.take_sent().is_empty(), "RFC 6026 §7.1: the sender of a 2xx retransmits it");
        assert!(line.respond(server, &invite, 200), "which does, through here");
        assert_eq!(line.take_lines(), ["SIP/2.0 200"]);
        assert!(!line.respond(server, &invite, 180) && !line.respond(server, &invite, 486));
        assert_eq!(line.request(&ack_of(&invite)), Incoming::AckOfSuccess(9));
        line.pass(26_999);
        assert_eq!(line.layer.len(), (1, 0), "timer L still runs");
        line.pass(1);
        assert_eq!(line.take_gone(), [9]);
        assert!(line.take_sent().is_empty());
        line.assert_empty();
        assert!(matches!(line.request(&invite), Incoming::New(_)));
    }
}

#[test]
fn a_retransmitted_request_gets_the_last_response_until_timer_j() {
    let mut line = Line::new();
    let options = incoming("OPTIONS", "z9hG4bK1");
    let server = line.serve(udp(), &options);
    assert_eq!(line.request(&options), Incoming::Absorbed);
    assert!(line.take_sent().is_empty());
    line.respond(server, &options, 100);
    assert_eq!(line.request(&options), Incoming::Absorbed);
    assert_eq!(line.take_lines(), ["SIP/2.0 100", "SIP/2.0 100"]);
    line.respond(server, &options, 200);
    for _ in 0..3 {
        line.pass(8000);
        assert_eq!(line.request(&options), Incoming::Absorbed);
    }
    assert_eq!(line.take_times(), [0, 8000, 16_000, 24_000], "only after a retransmission");
    line.pass(7999);
    assert_eq!(line.layer.len(), (1, 0));
    line.pass(1);
    assert_eq!(line.take_gone(), [9]);
    line.assert_empty();
}

#[test]
fn over_a_connection_an_answered_request_ends() {
    let mut line = Line::new();
    let options = incoming("OPTIONS", "z9hG4bK1");
    let server = line.serve(tcp(), &options);
    line.respond(server, &options, 200);
    assert_eq!(line.take_one().flow, tcp());
    assert_eq!(line.take_gone(), [9]);
    line.assert_empty();
    assert!(line.layer.is_answered(server));
}

#[test]
fn after_a_final_response_nothing_else_is_sent() {
    for method in ["INVITE", "OPTIONS"] {
        let mut line = Line::new();
        let request = incoming(method, "z9hG4bK1");
        let server = line.serve(udp(), &request);
        assert!(line.respond(server, &request, 404));
        let first = line.take_one();
        for status in [100, 180, 200, 486, 600] {
            assert!(!line.respond(server, &request, status), "{method} {status}");
        }
        assert!(line.take_sent().is_empty());
        line.request(&request);
        assert_eq!(line.take_one().text, first.text, "a retransmission gets the response that was sent");
    }
}

#[test]
fn a_transaction_that_will_not_be_answered_can_be_dropped() {
    let mut line = Line::new();
    let options = incoming("OPTIONS", "z9hG4bK1");
    let server = line.serve(udp(), &options);
    assert_eq!(line.layer.reply_flow_of(server), Some(udp()));
    line.layer.drop_server(server);
    line.layer.drop_server(server);
    assert_eq!(line.take_gone(), [9]);
    assert_eq!(line.layer.reply_flow_of(server), None);
    assert!(!line.respond(server, &options, 200) && line.take_sent().is_empty());
    line.assert_empty();
}

#[test]
fn each_ended_transaction_is_reported_once() {
    let mut line = Line::new();
    for owner in 0..50_u64 {
        let method = if owner % 2 == 0 { "INVITE" } else { "OPTIONS" };
        let text = incoming(method, &format!("z9hG4bK{owner}"));
        let Incoming::New(key) = line.request(&text) else { panic!("new") };
        let flow = if owner % 3 == 0 { tcp() } else { udp() };
        let server = line.layer.start_server(key, owner % 2 == 0, flow, 5060, owner).unwrap();
        line.respond(server, &text, if owner % 5 == 0 { 200 } else { 404 });
        line.pass(100);
    }
    line.pass(40_000);
    let mut gone = line.take_gone();
    gone.sort_unstable();
    assert_eq!(gone, (0..50).collect::<Vec<_>>());
    assert_eq!(line.take_gone(), []);
    line.assert_empty();
}

#[test]
fn over_the_limit_there_is_no_transaction_and_that_is_counted() {
    let limits = Limits { servers_max: 1, ..Limits::default() };
    let mut line = Line::with(0, Timers::default(), limits);
    let first = incoming("OPTIONS", "z9hG4bK1");
    let server = line.serve(udp(), &first);
    let Incoming::New(key) = line.request(&incoming("OPTIONS", "z9hG4bK2")) else { panic!("new") };
    assert_eq!(line.layer.start_server(key, false, udp(), 5060, 2), None);
    assert_eq!((line.layer.counters().transactions_refused, line.layer.len()), (1, (1, 0)));
    assert_eq!(line.request(&first), Incoming::Absorbed, "existing transactions still work");
    line.layer.drop_server(server);
    assert!(line.layer.start_server(key, false, udp(), 5060, 2).is_some());
}

/// RFC 3261 §18.2.2: a closed connection is replaced by one to the source address, at the port of sent-by.
#[test]
fn a_response_whose_connection_is_closed_is_sent_to_the_address_of_the_via() {
    for status in [180, 200, 486] {
        let mut line = Line::new();
        let invite = incoming("INVITE", "z9hG4bK1");
        let server = line.serve(tcp(), &invite);
        line.respond(server, &invite, status);
        let first = line.take_one();
        assert_eq!(first.flow, tcp());
        line.unreachable(first.token);
        let second = line.take_one();
        let mut sent_by = peer();
        sent_by.set_port(5070);
        assert_eq!(second.flow, Flow::dial(ListenerId(0), sent_by), "{status}");
        assert_eq!(second.text, first.text);
        assert_eq!(line.layer.reply_flow_of(server), Some(second.flow), "further responses go there too");
        line.unreachable(second.token);
        assert!(line.take_sent().is_empty(), "there is no further address");
        assert_eq!(line.layer.len(), (1, 0), "RFC 6026 §7.1: the transaction stays");
        assert_eq!(line.request(&invite), Incoming::Absorbed);
    }
}

#[test]
fn the_last_response_is_sent_to_the_fallback_address() {
    let mut line = Line::new();
    let invite = incoming("INVITE", "z9hG4bK1");
    let server = line.serve(tcp(), &invite);
    line.respond(server, &invite, 180);
    line.respond(server, &invite, 486);
    let sent = line.take_sent();
    line.unreachable(sent[0].token);
    line.unreachable(sent[1].token);
    assert_eq!(line.take_lines(), ["SIP/2.0 486"]);
}

#[test]
fn a_datagram_that_cannot_be_sent_changes_nothing() {
    let mut line = Line::new();
    let invite = incoming("INVITE", "z9hG4bK1");
    let server = line.serve(udp(), &invite);
    line.respond(server, &invite, 486);
    let token = line.take_one().token;
    assert_ne!(token, Token::NONE);
    line.unreachable(token);
    assert!(line.take_sent().is_empty() && line.take_notices().is_empty());
    line.pass(500);
    assert_eq!(line.take_lines(), ["SIP/2.0 486"], "timer G tries again");
}

#[test]
fn the_user_writes_the_responses() {
    let mut line = Line::new();
    let invite = incoming("INVITE", "z9hG4bK1");
    let server = line.serve(udp(), &invite);
    line.respond(server, &invite, 183);
    let sent = line.take_one();
    assert_eq!((first_line(&sent.text).as_str(), sent.text), ("SIP/2.0 183", response(&invite, 183)));
}
