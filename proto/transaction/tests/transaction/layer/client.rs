//! Tests of client transactions: schedules, ACK, responses that are passed up, and ends.

use crate::layer::harness::{Line, REMOVAL_MS, first_line, header, outgoing, parse, response, tcp, udp};
use core::time::Duration;
use ringway_sansio::Token;
use ringway_transaction::{Answer, BranchKey, Limits, Notice, Timers, shard_of_response};

#[test]
fn an_unanswered_invite_is_retransmitted_at_doubling_intervals_until_timer_b() {
    let mut line = Line::new();
    let client = line.send_udp(&outgoing("INVITE"));
    line.pass(31_999);
    assert_eq!(line.take_times(), [0, 500, 1500, 3500, 7500, 15_500, 31_500]);
    assert_eq!(line.take_notices(), []);
    line.pass(1);
    assert_eq!(line.take_notices(), [(32_000, Notice::ClientTimedOut { client, owner: 7 })]);
    assert_eq!((line.layer.counters().requests_retransmitted, line.layer.counters().client_timeouts), (6, 1));
    line.assert_empty();
}

#[test]
fn an_unanswered_request_is_retransmitted_at_intervals_up_to_t2_until_timer_f() {
    let mut line = Line::new();
    let client = line.send_udp(&outgoing("OPTIONS"));
    line.pass(40_000);
    assert_eq!(line.take_times(), [0, 500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500]);
    assert_eq!(line.take_notices(), [(32_000, Notice::ClientTimedOut { client, owner: 7 })]);
    line.assert_empty();
}

#[test]
fn a_retransmission_has_the_same_bytes() {
    let mut line = Line::new();
    line.send_udp(&outgoing("INVITE"));
    line.pass(2000);
    let sent = line.take_sent();
    assert!(sent.windows(2).all(|two| two[0].text == two[1].text && two[0].flow == two[1].flow));
    assert_eq!(sent.len(), 3);
}

#[test]
fn after_a_provisional_response_requests_are_retransmitted_each_t2() {
    let mut line = Line::new();
    let client = line.send_udp(&outgoing("OPTIONS"));
    let request = line.take_one().text;
    line.pass(600);
    assert_eq!(line.answer(&response(&request, 100)), Answer::Pass { client, owner: 7 });
    line.pass(40_000);
    let times = [500, 1500, 5500, 9500, 13_500, 17_500, 21_500, 25_500, 29_500];
    assert_eq!(line.take_times(), times);
    assert_eq!(line.take_notices(), [(32_000, Notice::ClientTimedOut { client, owner: 7 })]);
    line.assert_empty();
}

#[test]
fn everything_scales_with_t1() {
    let mut line = Line::with_t1(100);
    line.send_udp(&outgoing("INVITE"));
    line.pass(10_000);
    assert_eq!(line.take_times(), [0, 100, 300, 700, 1500, 3100, 6300]);
    assert_eq!(line.take_notices().first().map(|notice| notice.0), Some(6400));
    line.send_udp(&outgoing("OPTIONS"));
    line.pass(10_000);
    assert_eq!(line.take_times(), [10_000, 10_100, 10_300, 10_700, 11_500, 13_100, 16_300]);
    assert_eq!(line.take_notices().first().map(|notice| notice.0), Some(16_400));
    line.assert_empty();
}

#[test]
fn t2_and_t4_are_settable() {
    let timers = Timers { t2: Duration::from_secs(1), t4: Duration::from_millis(200), ..Timers::default() };
    let mut line = Line::with(0, timers, Limits::default());
    line.send_udp(&outgoing("OPTIONS"));
    line.pass(4000);
    let sent = line.take_sent();
    assert_eq!(sent.iter().map(|sent| sent.at_ms).collect::<Vec<_>>(), [0, 500, 1500, 2500, 3500]);
    line.answer(&response(&sent[0].text, 200));
    line.pass(199);
    assert_eq!(line.layer.len(), (0, 1), "timer K still runs");
    line.pass(REMOVAL_MS);
    line.assert_empty();
}

#[test]
fn over_a_connection_nothing_is_retransmitted_and_the_wait_is_the_same() {
    for method in ["INVITE", "OPTIONS"] {
        let mut line = Line::new();
        let client = line.send(tcp(), &outgoing(method)).unwrap();
        line.pass(60_000);
        assert_eq!(line.take_times(), [0], "{method}");
        assert_eq!(line.take_notices(), [(32_000, Notice::ClientTimedOut { client, owner: 7 })]);
        line.assert_empty();
    }
}

#[test]
fn a_provisional_response_stops_the_retransmissions_and_timer_b() {
    let mut line = Line::new();
    let client = line.send_udp(&outgoing("INVITE"));
    let invite = line.take_one().text;
    for status in [100, 180, 183] {
        assert_eq!(line.answer(&response(&invite, status)), Answer::Pass { client, owner: 7 });
    }
    line.pass(3_600_000);
    assert!(line.take_sent().is_empty() && line.take_notices().is_empty());
    assert_eq!(line.layer.len(), (0, 1), "the user limits the ringing (timer C)");
}

#[test]
fn a_failure_is_acknowledged_each_time_and_passed_up_once() {
    let mut line = Line::new();
    let client = line.send_udp(&outgoing("INVITE"));
    let invite = line.take_one().text;
    let busy = response(&invite, 486);
    assert_eq!(line.answer(&busy), Answer::Pass { client, owner: 7 });
    assert_eq!(line.take_lines(), ["ACK"]);
    for _ in 0..3 {
        line.pass(4000);
        assert_eq!(line.answer(&busy), Answer::Absorbed);
        assert_eq!(line.take_lines(), ["ACK"]);
    }
    assert_eq!(line.answer(&response(&invite, 180)), Answer::Absorbed, "overtaken");
    assert_eq!(line.answer(&response(&invite, 200)), Answer::Absorbed, "too late");
    assert!(line.take_sent().is_empty());
    line.pass(19_999);
    assert_eq!(line.layer.len(), (0, 1), "timer D still runs");
    line.pass(1);
    line.assert_empty();
    assert_eq!(line.answer(&busy), Answer::Stray);
}

#[test]
fn timer_d_is_32_seconds_however_small_t1_is() {
    let mut line = Line::with_t1(10);
    line.send_udp(&outgoing("INVITE"));
    let busy = response(&line.take_one().text, 486);
    line.answer(&busy);
    line.take_sent();
    line.pass(31_999);
    assert_eq!(line.answer(&busy), Answer::Absorbed);
    assert_eq!(line.take_lines(), ["ACK"]);
    line.pass(1);
    line.assert_empty();
}

#[test]
fn over_a_connection_a_failure_ends_the_invite_at_once() {
    let mut line = Line::new();
    let client = line.send(tcp(), &outgoing("INVITE")).unwrap();
    let busy = response(&line.take_one().text, 486);
    assert_eq!(line.answer(&busy), Answer::Pass { client, owner: 7 });
    let ack = line.take_one();
    assert_eq!((first_line(&ack.text).as_str(), ack.flow), ("ACK", tcp()));
    line.assert_empty();
}

#[test]
fn the_ack_of_a_failure_has_the_header_fields_of_the_rfc() {
    let mut line = Line::new();
    let route = "Route: <sip:p1.example.org;lr>, <sip:p2.example.org;lr>\r\nMax-Forwards";
    let text = outgoing("INVITE")
        .replace("Max-Forwards", route)
        .replace("Call-ID", "Via: SIP/2.0/UDP phone;branch=z9hG4bKup\r\nContact: <sip:a@phone>\r\nCall-ID");
    line.send_udp(&text);
    let invite = line.take_one();
    // Folded, as RFC 3261 §7.3.1 allows; the ACK is sent nevertheless.
    let busy = response(&invite.text, 486).replace(";tag=b1", "\r\n ;tag=b1");
    line.answer(&busy);
    let ack = line.take_one();
    assert_eq!(ack.flow, invite.flow);
    assert_eq!(ack.token, Token::NONE);
    assert!(ack.text.starts_with("ACK sip:bob@example.org SIP/2.0\r\n"), "{}", ack.text);
    let top_via = invite.text.lines().find(|line| line.starts_with("Via: ")).unwrap();
    assert_eq!(format!("Via: {}", header(&ack.text, "Via")), top_via, "one Via, the INVITE's top one");
    for name in ["From", "Call-ID", "Route"] {
        assert_eq!(header(&ack.text, name), header(&invite.text, name));
    }
    assert_eq!(parse(&ack.text).to().tag(), Some(&b"b1"[..]));
    assert_eq!(header(&ack.text, "CSeq"), "1 ACK");
    assert!(!ack.text.contains("Contact"));
}

#[test]
fn every_2xx_is_passed_up_until_timer_m() {
    let mut line = Line::new();
    let client = line.send_udp(&outgoing("INVITE"));
    let invite = line.take_one().text;
    let pass = Answer::Pass { client, owner: 7 };
    let ok = response(&invite, 200);
    let of_another_branch = ok.replace(";tag=b1", ";tag=b2");
    assert_eq!(line.answer(&ok), pass);
    for _ in 0..3 {
        line.pass(8000);
        assert_eq!(line.answer(&ok), pass, "a retransmission");
        assert_eq!(line.answer(&of_another_branch), pass);
    }
    assert_eq!(line.answer(&response(&invite, 180)), Answer::Absorbed);
    assert_eq!(line.answer(&response(&invite, 486)), Answer::Absorbed);
    assert!(line.take_sent().is_empty(), "the caller sends the ACK of a 2xx");
    line.pass(7999);
    assert_eq!(line.layer.len(), (0, 1));
    line.pass(1);
    line.assert_empty();
    assert_eq!(line.answer(&ok), Answer::Stray);
}

#[test]
fn the_answer_to_a_request_is_passed_up_once_and_absorbed_until_timer_k() {
    let mut line = Line::new();
    let client = line.send_udp(&outgoing("OPTIONS"));
    let ok = response(&line.take_one().text, 200);
    assert_eq!(line.answer(&ok), Answer::Pass { client, owner: 7 });
    line.pass(4999);
    assert_eq!(line.answer(&ok), Answer::Absorbed);
    line.pass(REMOVAL_MS);
    line.assert_empty();
    assert_eq!(line.answer(&ok), Answer::Stray);
    assert!(line.take_sent().is_empty());
    let client = line.send(tcp(), &outgoing("OPTIONS")).unwrap();
    let ok = response(&line.take_one().text, 404);
    assert_eq!(line.answer(&ok), Answer::Pass { client, owner: 7 });
    line.assert_empty();
}

#[test]
fn responses_to_no_request_are_stray() {
    let mut line = Line::new();
    line.send_udp(&outgoing("INVITE"));
    let ok = response(&line.take_one().text, 200);
    let branch = as_branch(&ok);
    let last = branch.chars().last().unwrap();
    let forged = format!("{}{}", &branch[..branch.len() - 1], if last == '0' { '1' } else { '0' });
    let next_slot = branch.replace("z9hG4bK.t000000000000", "z9hG4bK.t000000000001");
    assert_ne!(next_slot, branch);
    for other in
        [forged.as_str(), &next_slot, &branch[..branch.len() - 1], "z9hG4bK.t", "z9hG4bK.s", "z9hG4bKx", "x"]
    {
        assert_eq!(line.answer(&ok.replace(&branch, other)), Answer::Stray, "{other}");
    }
    let bye = ok.replace("1 INVITE", "1 BYE");
    assert_eq!(line.answer(&bye), Answer::Stray, "the method is part of the match (RFC 3261 §17.1.3)");
    assert_eq!(line.layer.counters().stray_responses, 8);
    assert!(matches!(line.answer(&ok), Answer::Pass { .. }), "the true response still matches");
}

#[test]
fn a_branch_is_invalid_in_another_shard_and_under_another_key() {
    let mut three = Line::with(3, Timers::default(), Limits::default());
    let mut four = Line::with(4, Timers::default(), Limits::default());
    three.send_udp(&outgoing("OPTIONS"));
    four.send_udp(&outgoing("OPTIONS"));
    let ok = response(&three.take_one().text, 200);
    assert_eq!(shard_of_response(ok.as_bytes()), Some(3));
    assert_eq!(four.answer(&ok), Answer::Stray);
    let stranger = BranchKey::new([9; 16]);
    assert_eq!(stranger.read(&parse(&ok)), None);
    assert!(matches!(three.answer(&ok), Answer::Pass { .. }));
}

#[test]
fn a_slot_that_is_used_again_does_not_get_responses_to_its_last_request() {
    let mut line = Line::new();
    line.send_udp(&outgoing("OPTIONS"));
    let old = response(&line.take_one().text, 200);
    line.pass(32_000);
    line.take_sent();
    line.send_udp(&outgoing("OPTIONS"));
    let new = response(&line.take_one().text, 200);
    assert_eq!(as_branch(&old)[..21], as_branch(&new)[..21], "the same shard and slot");
    assert_eq!(line.answer(&old), Answer::Stray);
    assert!(matches!(line.answer(&new), Answer::Pass { .. }));
}

#[test]
fn a_request_that_cannot_be_delivered_is_reported_once() {
    for method in ["INVITE", "OPTIONS"] {
        let mut line = Line::new();
        let client = line.send(tcp(), &outgoing(method)).unwrap();
        let token = line.take_one().token;
        line.pass(10);
        line.unreachable(Token::NONE);
        assert_eq!(line.take_notices(), []);
        line.unreachable(token);
        assert_eq!(line.take_notices(), [(10, Notice::ClientUnreachable { client, owner: 7 })]);
        line.unreachable(token);
        assert_eq!(line.take_notices(), []);
        line.assert_empty();
        line.send_udp(&outgoing(method));
        line.unreachable(token);
        assert_eq!(
            (line.take_notices(), line.layer.len()),
            (vec![], (0, 1)),
            "the token is of its predecessor"
        );
    }
}

#[test]
fn a_token_names_its_shard_in_its_top_bits_and_is_never_none() {
    for shard in [0, 1, 0xffff] {
        let mut line = Line::with(shard, Timers::default(), Limits::default());
        line.send(udp(), &outgoing("OPTIONS")).unwrap();
        let token = line.take_one().token;
        assert_eq!(token.0 >> 48, u64::from(shard));
        assert_ne!(token, Token::NONE);
    }
}

#[test]
fn over_the_limit_nothing_is_sent_and_that_is_counted() {
    let limits = Limits { clients_max: 2, ..Limits::default() };
    let mut line = Line::with(0, Timers::default(), limits);
    line.send_udp(&outgoing("OPTIONS"));
    line.send_udp(&outgoing("INVITE"));
    line.take_sent();
    assert_eq!(line.send(udp(), &outgoing("OPTIONS")), None);
    assert!(line.take_sent().is_empty());
    assert_eq!((line.layer.counters().transactions_refused, line.layer.len()), (1, (0, 2)));
    line.pass(32_000);
    assert!(line.send(udp(), &outgoing("OPTIONS")).is_some());
}

#[test]
fn writing_nothing_starts_nothing() {
    let mut line = Line::new();
    assert_eq!(line.send(udp(), ""), None);
    line.assert_empty();
    assert_eq!(line.layer.counters().transactions_refused, 0);
}

fn as_branch(text: &str) -> String {
    crate::layer::harness::as_text(parse(text).via().branch.unwrap())
}
