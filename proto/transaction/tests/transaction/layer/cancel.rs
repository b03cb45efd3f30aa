//! Tests of CANCEL, sent (RFC 3261 §9.1) and received (§9.2).

use crate::layer::harness::{Line, Sent, first_line, header, incoming, outgoing, response, tcp, udp};
use ringway_transaction::{Answer, ClientId, Incoming, Notice};

#[test]
fn a_ringing_invite_is_cancelled_at_once() {
    let (mut line, client, invite) = ringing();
    line.cancel(client);
    let cancel = line.take_one();
    assert!(cancel.text.starts_with("CANCEL sip:bob@example.org SIP/2.0\r\n"), "{}", cancel.text);
    for name in ["Via", "From", "To", "Call-ID", "Route"] {
        assert_eq!(header(&cancel.text, name), header(&invite.text, name), "equal in both");
    }
    assert_eq!(header(&cancel.text, "CSeq"), "1 CANCEL");
    assert_eq!(cancel.flow, invite.flow);
    line.cancel(client);
    assert!(line.take_sent().is_empty(), "it is sent once");
}

#[test]
fn the_answers_of_a_cancelled_invite() {
    let (mut line, client, invite) = ringing();
    line.cancel(client);
    let cancel = line.take_one();
    assert_eq!(
        line.answer(&response(&cancel.text, 200)),
        Answer::Absorbed,
        "only the INVITE's response is passed up"
    );
    assert_eq!(line.answer(&response(&invite.text, 487)), Answer::Pass { client, owner: 7 });
    assert_eq!(line.take_lines(), ["ACK"]);
    line.pass(32_000);
    assert!(line.take_sent().is_empty() && line.take_notices().is_empty());
    line.assert_empty();
}

#[test]
fn an_unanswered_cancel_is_retransmitted_and_the_invite_given_up_after_64_t1() {
    let (mut line, client, _) = ringing();
    line.pass(1000);
    line.cancel(client);
    line.pass(40_000);
    let sent = line.take_sent();
    assert!(sent.windows(2).all(|two| two[0].text == two[1].text));
    assert_eq!(
        sent.iter().map(|sent| sent.at_ms - 1000).collect::<Vec<_>>(),
        [0, 500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500]
    );
    assert_eq!(line.take_notices(), [(33_000, Notice::ClientTimedOut { client, owner: 7 })]);
    assert_eq!(line.layer.counters().client_timeouts, 1);
    line.assert_empty();
}

#[test]
fn an_answered_cancel_is_not_retransmitted_but_the_invite_is_given_up_all_the_same() {
    let (mut line, client, _) = ringing();
    line.cancel(client);
    let cancel = line.take_one();
    line.pass(700);
    assert_eq!(line.take_times(), [500]);
    for status in [200, 481] {
        assert_eq!(line.answer(&response(&cancel.text, status)), Answer::Absorbed);
    }
    line.pass(40_000);
    assert!(line.take_sent().is_empty());
    assert_eq!(line.take_notices(), [(32_000, Notice::ClientTimedOut { client, owner: 7 })]);
    line.assert_empty();
}

#[test]
fn a_cancel_with_a_provisional_response_is_retransmitted_each_t2() {
    let (mut line, client, _) = ringing();
    line.cancel(client);
    let cancel = line.take_one();
    line.pass(600);
    assert_eq!(line.answer(&response(&cancel.text, 100)), Answer::Absorbed);
    line.pass(10_000);
    assert_eq!(line.take_times(), [500, 1500, 5500, 9500]);
}

#[test]
fn a_180_does_not_delay_the_end_of_a_cancelled_invite() {
    let (mut line, client, invite) = ringing();
    line.cancel(client);
    for _ in 0..4 {
        line.pass(7000);
        assert_eq!(line.answer(&response(&invite.text, 180)), Answer::Pass { client, owner: 7 });
    }
    line.pass(4000);
    assert_eq!(line.take_notices(), [(32_000, Notice::ClientTimedOut { client, owner: 7 })]);
}

#[test]
fn over_a_connection_a_cancel_is_sent_once() {
    let mut line = Line::new();
    let client = line.send(tcp(), &outgoing("INVITE")).unwrap();
    let invite = line.take_one();
    line.answer(&response(&invite.text, 180));
    line.cancel(client);
    assert_eq!(line.take_one().flow, tcp());
    line.pass(31_999);
    assert!(line.take_sent().is_empty() && line.take_notices().is_empty());
    line.pass(1);
    assert_eq!(line.take_notices(), [(32_000, Notice::ClientTimedOut { client, owner: 7 })]);
    line.assert_empty();
}

#[test]
fn before_a_provisional_response_a_cancel_is_held() {
    let mut line = Line::new();
    let client = line.send_udp(&outgoing("INVITE"));
    let invite = line.take_one();
    line.cancel(client);
    line.cancel(client);
    line.pass(4000);
    assert_eq!(line.take_lines(), ["INVITE", "INVITE", "INVITE"], "and the INVITE is still retransmitted");
    assert_eq!(line.answer(&response(&invite.text, 100)), Answer::Pass { client, owner: 7 });
    assert_eq!(line.take_lines(), ["CANCEL"]);
    line.answer(&response(&invite.text, 180));
    assert!(line.take_sent().is_empty());
    line.pass(32_000);
    assert_eq!(line.take_notices(), [(36_000, Notice::ClientTimedOut { client, owner: 7 })]);
    line.assert_empty();
}

#[test]
fn a_held_cancel_is_dropped_with_its_invite() {
    let mut line = Line::new();
    let client = line.send_udp(&outgoing("INVITE"));
    line.cancel(client);
    line.pass(32_000);
    assert!(line.take_lines().iter().all(|first| first == "INVITE"));
    assert_eq!(line.take_notices(), [(32_000, Notice::ClientTimedOut { client, owner: 7 })]);
    line.assert_empty();
}

/// A provisional response after a final one must not send the CANCEL: there is nothing to cancel, and its timer would
/// replace that of the answered INVITE.
#[test]
fn a_held_cancel_is_dropped_when_a_final_answer_comes_first() {
    for status in [200, 486] {
        let mut line = Line::new();
        let client = line.send_udp(&outgoing("INVITE"));
        let invite = line.take_one();
        line.cancel(client);
        assert_eq!(line.answer(&response(&invite.text, status)), Answer::Pass { client, owner: 7 });
        line.take_sent();
        line.pass(1000);
        assert_eq!(line.answer(&response(&invite.text, 180)), Answer::Absorbed);
        line.cancel(client);
        line.pass(31_000);
        assert!(line.take_sent().is_empty(), "{status}");
        assert_eq!(line.take_notices(), [], "{status}");
        line.assert_empty();
    }
}

#[test]
fn a_cancel_that_crosses_a_final_answer_is_not_retransmitted() {
    for (status, expected) in [(200, &[][..]), (486, &["ACK"][..])] {
        let (mut line, client, invite) = ringing();
        line.cancel(client);
        let cancel = line.take_one();
        line.pass(100);
        assert_eq!(line.answer(&response(&invite.text, status)), Answer::Pass { client, owner: 7 });
        line.pass(5000);
        assert_eq!(line.take_lines(), expected, "{status}");
        assert_eq!(line.answer(&response(&cancel.text, 481)), Answer::Absorbed);
        line.pass(40_000);
        assert_eq!(line.take_notices(), [], "{status}");
        line.assert_empty();
        assert_eq!(line.answer(&response(&cancel.text, 481)), Answer::Stray);
    }
}

#[test]
fn nothing_but_an_invite_is_cancelled() {
    let mut line = Line::new();
    let client = line.send_udp(&outgoing("OPTIONS"));
    let options = line.take_one();
    line.answer(&response(&options.text, 100));
    line.cancel(client);
    assert!(line.take_sent().is_empty());
}

#[test]
fn a_received_cancel_finds_its_invite_and_is_a_transaction_of_its_own() {
    let mut line = Line::new();
    let invite = incoming("INVITE", "z9hG4bK1");
    let cancel = incoming("CANCEL", "z9hG4bK1");
    let server = line.serve(udp(), &invite);
    let message = crate::layer::harness::parse(&cancel);
    assert!(matches!(line.request(&cancel), Incoming::New(_)));
    let (found, owner, flow) = line.layer.cancelled_by(&message).unwrap();
    assert_eq!((found, owner, flow), (server, 9, udp()));
    let own = line.serve(udp(), &cancel);
    assert!(line.respond(own, &cancel, 200));
    line.take_sent();
    assert_eq!(line.request(&cancel), Incoming::Absorbed);
    assert_eq!(line.take_lines(), ["SIP/2.0 200"]);
    assert!(line.respond(server, &invite, 487));
    assert!(line.layer.cancelled_by(&message).is_some() && line.layer.is_answered(server));
}

#[test]
fn a_cancel_of_another_request_matches_nothing() {
    let mut line = Line::new();
    line.serve(udp(), &incoming("INVITE", "z9hG4bK1"));
    line.serve(udp(), &incoming("OPTIONS", "z9hG4bK2"));
    let cancel = incoming("CANCEL", "z9hG4bK1");
    for other in [
        cancel.replace("z9hG4bK1", "z9hG4bK2"),
        cancel.replace("z9hG4bK1", "z9hG4bK3"),
        cancel.replace("198.51.100.1:5070", "198.51.100.1:5071"),
        cancel.replace("198.51.100.1:5070", "198.51.100.2:5070"),
    ] {
        assert_eq!(line.layer.cancelled_by(&crate::layer::harness::parse(&other)), None, "{other}");
    }
}

/// INVITE with a Route that has got a 180.
fn ringing() -> (Line, ClientId, Sent) {
    let mut line = Line::new();
    let text = outgoing("INVITE").replace("From:", "Route: <sip:p1.example.org;lr>\r\nFrom:");
    let client = line.send_udp(&text);
    let invite = line.take_one();
    assert_eq!(first_line(&invite.text), "INVITE");
    line.answer(&response(&invite.text, 180));
    (line, client, invite)
}
