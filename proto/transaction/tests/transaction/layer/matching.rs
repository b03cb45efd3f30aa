//! Tests of matching requests to transactions (RFC 3261 §17.2.3).

use crate::layer::harness::{Line, ack_of, incoming, parse, udp};
use ringway_transaction::Incoming;

/// Differences that make another request although the branches are equal.
const DIFFERENT: [(&str, &str); 4] = [
    ("198.51.100.1:5070", "198.51.100.2:5070"),
    ("198.51.100.1:5070", "198.51.100.1:5071"),
    ("198.51.100.1:5070", "198.51.100.1"),
    ("OPTIONS", "MESSAGE"),
];

#[test]
fn branch_sent_by_and_method_make_the_match() {
    let mut line = Line::new();
    let options = incoming("OPTIONS", "z9hG4bKabc");
    line.serve(udp(), &options);
    assert_eq!(line.request(&options), Incoming::Absorbed);
    let same = options
        .replace("call-1", "call-2")
        .replace("tag=a1", "tag=a2")
        .replace("CSeq: 1", "CSeq: 2")
        .replace("sip:bob@example.org SIP", "sip:carol@example.org SIP");
    assert_eq!(line.request(&same), Incoming::Absorbed, "a unique branch is sufficient");
    for (old, new) in DIFFERENT {
        assert_new(&mut line, &options.replace(old, new));
    }
    assert_new(&mut line, &options.replace("z9hG4bKabc", "z9hG4bKabd"));
    assert_new(&mut line, &options.replace("z9hG4bKabc", "z9hG4bKab"));
}

#[test]
fn an_ack_matches_its_invite_only() {
    let mut line = Line::new();
    let invite = incoming("INVITE", "z9hG4bKabc");
    let server = line.serve(udp(), &invite);
    line.respond(server, &invite, 486);
    let ack = ack_of(&invite);
    assert_new(&mut line, &ack.replace("z9hG4bKabc", "z9hG4bKabd"));
    assert_new(&mut line, &ack.replace("198.51.100.1", "198.51.100.2"));
    assert_eq!(line.request(&ack), Incoming::Absorbed);
    let options = incoming("OPTIONS", "z9hG4bKxyz");
    line.serve(udp(), &options);
    assert_new(&mut line, &incoming("ACK", "z9hG4bKxyz"));
}

#[test]
fn an_ack_before_the_answer_does_no_harm() {
    let mut line = Line::new();
    let invite = incoming("INVITE", "z9hG4bKabc");
    let server = line.serve(udp(), &invite);
    assert_eq!(line.request(&ack_of(&invite)), Incoming::Absorbed);
    assert!(!line.layer.is_answered(server));
    assert!(line.respond(server, &invite, 200));
}

/// Branches of RFC 2543 clients (none, or one without the cookie), and `z9hG4bK` alone, which counts as not unique.
const OLD_BRANCHES: [&str; 4] = [";branch=z9hG4bK", ";branch=1", ";branch=z9hG4b", ""];

#[test]
fn without_a_unique_branch_the_fields_that_a_retransmission_shares_make_the_match() {
    for branch in OLD_BRANCHES {
        let mut line = Line::new();
        let options = old("OPTIONS", branch);
        line.serve(udp(), &options);
        assert_eq!(line.request(&options), Incoming::Absorbed, "{branch:?}");
        for (old, new) in DIFFERENT {
            assert_new(&mut line, &options.replace(old, new));
        }
        assert_new(&mut line, &options.replace("sip:bob@example.org SIP", "sip:carol@example.org SIP"));
        assert_new(&mut line, &options.replace("tag=a1", "tag=a2"));
        assert_new(&mut line, &options.replace("call-1", "call-2"));
        assert_new(&mut line, &options.replace("CSeq: 1", "CSeq: 2"));
        assert_new(
            &mut line,
            &options.replace("To: <sip:bob@example.org>", "To: <sip:bob@example.org>;tag=x"),
        );
    }
}

#[test]
fn without_a_unique_branch_an_ack_matches_its_invite_although_its_to_has_a_tag() {
    for branch in OLD_BRANCHES {
        let mut line = Line::new();
        let invite = old("INVITE", branch);
        let server = line.serve(udp(), &invite);
        assert_eq!(
            line.layer.cancelled_by(&parse(&invite.replace("INVITE", "CANCEL"))).map(|found| found.0),
            Some(server)
        );
        line.respond(server, &invite, 486);
        line.take_sent();
        assert_eq!(line.request(&invite), Incoming::Absorbed, "{branch:?}");
        assert_new(&mut line, &ack_of(&invite).replace("CSeq: 1", "CSeq: 2"));
        assert_eq!(line.request(&ack_of(&invite)), Incoming::Absorbed);
        line.take_sent();
        line.pass(4000);
        assert!(line.take_sent().is_empty(), "the ACK stopped the retransmissions");
    }
}

/// RFC 6026 §6: such an ACK looks the same for a 2xx, and must then not be absorbed.
#[test]
fn without_a_unique_branch_the_ack_of_a_success_is_passed_up() {
    let mut line = Line::new();
    let invite = old("INVITE", "");
    let server = line.serve(udp(), &invite);
    line.respond(server, &invite, 200);
    assert_eq!(line.request(&ack_of(&invite)), Incoming::AckOfSuccess(9));
}

#[test]
fn parts_that_are_equal_when_concatenated_are_distinguished() {
    let mut line = Line::new();
    let one = old("OPTIONS", ";branch=1").replace("tag=a1", "tag=ab").replace("call-1", "cd");
    let other = one.replace("tag=ab", "tag=a").replace("Call-ID: cd", "Call-ID: bcd");
    line.serve(udp(), &one);
    assert_new(&mut line, &other);
    let one = incoming("OPTIONS", "z9hG4bK2");
    line.serve(udp(), &one);
    assert_new(&mut line, &incoming("OPTIONSz", "9hG4bK2"));
}

#[test]
fn a_cookie_in_another_case_is_a_cookie() {
    let mut line = Line::new();
    let options = incoming("OPTIONS", "Z9HG4BKabc");
    line.serve(udp(), &options);
    assert_eq!(line.request(&options.replace("call-1", "call-2")), Incoming::Absorbed);
}

fn assert_new(line: &mut Line, text: &str) {
    assert!(matches!(line.request(text), Incoming::New(_)), "taken for a retransmission: {text}");
}

fn old(method: &str, branch: &str) -> String {
    incoming(method, "REMOVED").replace(";branch=REMOVED", branch)
}
