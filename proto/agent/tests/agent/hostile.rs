//! Tests with malformed messages and messages of strangers.

use crate::harness::resolved;
use crate::harness::{
    ALICE, PEER, SERVER, Table, account_at_server, answer, in_dialog, invite, invite_with, sdp,
    server_address, udp,
};
use ringway_agent::{Account, Action, AgentEvent, CallState, ServerAddress};
use ringway_sansio::{ConnectionId, Event, Flow, Rng, Seed, Transport};

#[test]
fn no_part_of_an_invite_makes_a_call() {
    let text = invite_with("c", 1, "Record-Route: <sip:10.0.0.9;lr>\r\n", Some(&sdp("10.0.0.2", 7000)));
    for len in 0..text.len() {
        let mut table = Table::direct();
        table.receive_bytes(udp(PEER), &text.as_bytes()[..len]);
        assert!(table.events().is_empty(), "a call of {len} bytes");
        assert_eq!(table.agent.len(), (0, 0), "{len}");
    }
}

#[test]
fn no_part_of_an_answer_or_a_change_harms_a_call() {
    let mut table = Table::direct();
    let (call, invite) = table.established(&format!("sip:bob@{PEER}"));
    let change = in_dialog("INVITE", 1, &invite, "", Some(&sdp("10.0.0.2", 7000)));
    let bye = in_dialog("BYE", 2, &invite, "", None);
    let ok = answer(&invite, 200, "other", "Contact: <sip:x@10.0.0.3>\r\n", Some(&sdp("10.0.0.3", 7000)));
    for text in [change, bye, ok] {
        for len in 0..text.len() {
            table.receive_bytes(udp(PEER), &text.as_bytes()[..len]);
            assert_eq!(table.agent.call_state(call), Some(CallState::Established), "{}", &text[..len]);
        }
    }
    assert!(table.events().is_empty());
}

#[test]
fn random_damage_never_harms_the_agent() {
    for seed in 0..200 {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let mut table = Table::at_server();
        let (call, first) = table.established(&format!("sip:bob@{PEER}"));
        let _ = table.ask(|agent, cx| agent.hold(cx, call));
        let sent = table.sent();
        let mut texts = vec![
            invite_with("c", 1, "Replaces: x;to-tag=1;from-tag=2\r\n", Some(&sdp("10.0.0.2", 7000))),
            in_dialog("INVITE", 1, &first, "", Some(&sdp("10.0.0.2", 7000))),
            in_dialog("REFER", 2, &first, "Refer-To: <sip:c@10.0.0.7?Replaces=a%3Bb>\r\n", None),
            in_dialog("UPDATE", 3, &first, "", Some(&sdp("10.0.0.2", 7000))),
            in_dialog(
                "NOTIFY",
                4,
                &first,
                "Event: refer\r\nContent-Type: message/sipfrag\r\n",
                Some("SIP/2.0 200 OK"),
            ),
            in_dialog("ACK", 1, &first, "", Some("v=0")),
        ];
        let challenge = "WWW-Authenticate: Digest realm=\"example.org\",nonce=\"n\",qop=\"auth\"\r\n";
        texts.extend(sent.iter().map(|sent| answer(sent, 401, "bob", challenge, None)));
        texts.extend(sent.iter().map(|sent| answer(sent, 200, "bob", "", Some(&sdp("10.0.0.2", 7000)))));
        for _ in 0..60 {
            let text = &texts[rng.below(texts.len() as u64) as usize];
            let mut bytes = text.clone().into_bytes();
            for _ in 0..1 + rng.below(4) {
                if bytes.is_empty() {
                    break;
                }
                let at = rng.below(bytes.len() as u64) as usize;
                match rng.below(4) {
                    0 => bytes[at] = rng.next_u64() as u8,
                    1 => drop(bytes.remove(at)),
                    2 => bytes.insert(at, b",;=\r\n<>\"\0"[rng.below(9) as usize]),
                    _ => bytes.truncate(at.max(1)),
                }
            }
            table.receive_bytes(udp(PEER), &bytes);
            table.pass(std::time::Duration::from_millis(rng.below(500)));
        }
        table.ask(|agent, cx| agent.shut_down(cx));
        table.pass_s(600);
        assert_eq!(table.agent.len(), (0, 0), "seed {seed}");
        assert_eq!(table.agent.transactions().len(), (0, 0), "seed {seed}");
        assert!(table.agent.is_idle(), "seed {seed}");
    }
}

#[test]
fn strange_acks_change_nothing() {
    let mut table = Table::direct();
    let call = table.ringing(&invite("c", 1, Some(&sdp("10.0.0.2", 7000))));
    table.receive(PEER, &invite("c", 1, None).replace("INVITE", "ACK").replace("z9hG4bKc1", "z9hG4bKx"));
    assert_eq!(table.agent.call_state(call), Some(CallState::Ringing));
    let media = crate::harness::media();
    table.ask(|agent, cx| agent.answer(cx, call, media)).unwrap();
    let ok = table.only();
    table.receive(PEER, &in_dialog("ACK", 2, &ok, "", None));
    table.receive(PEER, &in_dialog("ACK", 1, &ok, "", None).replace(";tag=b\r\n", ";tag=x\r\n"));
    assert_eq!(table.agent.call_state(call), Some(CallState::Accepted));
    table.receive(PEER, &in_dialog("ACK", 1, &ok, "", None));
    assert_eq!(table.agent.call_state(call), Some(CallState::Established));
    for _ in 0..3 {
        table.receive(PEER, &in_dialog("ACK", 1, &ok, "", Some("v=0\r\nnonsense")));
    }
    assert_eq!(table.agent.call_state(call), Some(CallState::Established));
    assert_eq!(table.agent.counters().stray, 6);
    assert!(table.sent().is_empty());
}

#[test]
fn a_strangers_answers_are_stray() {
    let mut table = Table::direct();
    let (call, first) = table.call(&format!("sip:bob@{PEER}"));
    let ok = answer(&first, 200, "x", "Contact: <sip:x@10.6.6.6>\r\n", Some(&sdp("10.6.6.6", 7000)));
    let branch = first.field("Via").unwrap().split("branch=").nth(1).unwrap();
    let wrong = format!("{}x", &branch[..branch.len() - 1]);
    table.receive("10.6.6.6:5060", &ok.replace(branch, &wrong));
    assert_eq!(table.agent.call_state(call), Some(CallState::Calling));
    assert_eq!(table.agent.counters().stray, 1);
}

#[test]
fn texts_for_a_person_have_no_control_characters() {
    let mut table = Table::direct();
    let text = invite("c", 1, Some(&sdp("10.0.0.2", 7000))).replace("\"Bob\"", "\"B\\\x1b[2Jb\\\"\u{9b}\"");
    table.receive(PEER, &text);
    let events = table.events();
    let reported = format!("{events:?}");
    assert_eq!(events.len(), 1);
    assert!(!reported.contains("\\u{1b}") && !reported.contains("\\u{9b}"), "{reported}");
}

#[test]
fn keep_alives_and_noise_are_not_answered() {
    let mut table = Table::direct();
    for bytes in [&b""[..], b"\r\n", b"\r\n\r\n", b"\0\0", b"hello", &[0xff; 60], b"SIP/2.0 200 OK\r\n\r\n"] {
        table.receive_bytes(udp(PEER), bytes);
    }
    assert!(table.sent().is_empty() && table.events().is_empty());
}

#[test]
fn requests_without_end_meet_limits() {
    let mut table = Table::direct();
    let mut refused = 0;
    for number in 0..3000 {
        let from = format!("10.0.1.{}:5060", number % 250);
        table.receive(&from, &invite(&format!("f{number}"), 1, Some(&sdp("10.0.0.2", 7000))));
        refused += table.lines().iter().filter(|line| line.starts_with("SIP/2.0 503")).count();
    }
    assert!(refused > 1000 && table.agent.counters().overflow > 1000);
    assert_eq!(table.agent.calls().count(), table.agent.config().limits.calls_max);
    table.pass_s(300);
    assert_eq!(table.agent.transactions().len(), (0, 0));
}

#[test]
fn transfers_of_a_peer_do_not_use_up_our_requests() {
    let mut table = Table::direct();
    let (call, first) = table.established(&format!("sip:bob@{PEER}"));
    for cseq in 1..200 {
        let refer = in_dialog("REFER", cseq, &first, "Refer-To: <sip:c@10.0.0.7>\r\n", None);
        table.receive(PEER, &refer);
        let _ = table.ask(|agent, cx| agent.reject_transfer(cx, call));
    }
    // The call, the INVITE that is kept for late 2xx, and its unanswered NOTIFYs.
    assert!(table.agent.len().1 < 10, "{:?}", table.agent.len());
    let refused = table.lines().iter().filter(|line| line.starts_with("SIP/2.0 491")).count();
    assert!(refused > 190, "{refused}");
    table.pass_s(40);
    table.sent();
    table.receive(PEER, &in_dialog("REFER", 200, &first, "Refer-To: <sip:c@10.0.0.7>\r\n", None));
    assert_eq!(table.sent()[0].line(), "SIP/2.0 202 Accepted");
}

#[test]
fn calls_that_end_at_once_do_not_use_up_our_requests() {
    let mut table = Table::direct();
    for number in 0..200 {
        table.receive(PEER, &invite(&format!("c{number}"), 1, None));
        table.sent();
        let Some(AgentEvent::Incoming { call, .. }) = table.events().pop() else { continue };
        let media = crate::harness::media();
        table.ask(|agent, cx| agent.answer(cx, call, media)).unwrap();
        let ok = table.only();
        // Without the answer to our offer the call ends; the BYE is not answered.
        table.receive(PEER, &in_dialog("ACK", 1, &ok, "", None));
    }
    assert!(table.agent.len().1 < 32, "{:?}", table.agent.len());
    assert!(table.agent.counters().too_many_calls > 150);
    table.call("sip:carol@10.0.0.3");
}

#[test]
fn a_stranger_leaves_places_for_the_server_and_for_others() {
    let mut table = Table::at_server();
    let mut receive = |from: &str, number: usize| {
        table.receive(from, &invite(&format!("s{number}"), 1, Some(&sdp("10.0.0.2", 7000))));
        let line = table.only().line().to_string();
        (line, table.events())
    };
    let mut lines = Vec::new();
    for number in 0..20 {
        // Another port is the same source.
        let (line, events) = receive(&format!("10.0.0.2:{}", 6000 + number), number);
        for event in events {
            assert!(matches!(event, AgentEvent::Incoming { bypasses_server: true, .. }), "{event:?}");
        }
        lines.push(line);
    }
    let busy = |lines: &[String]| lines.iter().filter(|line| *line == "SIP/2.0 486 Busy Here").count();
    assert_eq!(busy(&lines), 18, "{lines:?}");
    // Many sources, and a port of the server's host that is not the server's, have a limit of their own, below the whole.
    let others = (20..40).map(|number| receive(&format!("10.0.1.{number}:5060"), number).0);
    assert_eq!(busy(&others.collect::<Vec<_>>()), 18);
    assert_eq!(receive("10.0.0.9:5070", 40).0, "SIP/2.0 486 Busy Here");
    for number in 41..45 {
        let (line, events) = receive(SERVER, number);
        assert_eq!(line, "SIP/2.0 100 Trying");
        assert!(
            matches!(events.as_slice(), [AgentEvent::Incoming { bypasses_server: false, .. }]),
            "{events:?}"
        );
    }
    assert_eq!(receive(SERVER, 45).0, "SIP/2.0 486 Busy Here");
    let counters = table.agent.counters();
    assert_eq!((counters.too_many_ringing_of_source, counters.too_many_ringing_bypassing), (18, 19));
    assert_eq!(counters.too_many_calls, 1);
    // No call rings for ever, and others can ring again.
    table.pass_s(200);
    assert_eq!((table.agent.calls().count(), table.agent.counters().rings_timed_out), (0, 8));
    table.sent();
    table.events();
    table.ringing(&invite("again", 1, Some(&sdp("10.0.0.2", 7000))));
}

#[test]
fn a_network_of_ipv6_is_one_source_and_an_answered_call_frees_its_place() {
    let mut table = Table::direct();
    for number in 0..3_u8 {
        let text = invite(&format!("c{number}"), 1, Some(&sdp("10.0.0.2", 7000)));
        table.receive(&format!("[2001:db8::{number}]:5060"), &text);
    }
    assert_eq!(table.agent.counters().too_many_ringing_of_source, 1);
    let events = table.events();
    let [AgentEvent::Incoming { call, bypasses_server: false, .. }, _] = *events.as_slice() else {
        panic!("{events:?}")
    };
    table.ask(|agent, cx| agent.answer(cx, call, crate::harness::media())).unwrap();
    table.receive("[2001:db8::3]:5060", &invite("c3", 1, Some(&sdp("10.0.0.2", 7000))));
    assert_eq!(table.agent.calls().count(), 3);
}

#[test]
fn the_address_of_the_registration_is_the_servers() {
    let server = ServerAddress { host: "sip.example.org".into(), ..server_address() };
    let mut table = Table::with(Account { server: Some(server), ..account_at_server() }, |_| {});
    let tcp = |from: &str| Flow { transport: Transport::Tcp, connection: Some(ConnectionId(9)), ..udp(from) };
    let bypasses = |table: &mut Table, flow, call_id: &str| {
        table.receive_bytes(flow, invite(call_id, 1, Some(&sdp("10.0.0.2", 7000))).as_bytes());
        let events = table.events();
        let [AgentEvent::Incoming { bypasses_server, .. }] = *events.as_slice() else { panic!("{events:?}") };
        bypasses_server
    };
    assert!(!bypasses(&mut table, udp(PEER), "before"), "no address of the server is known yet");
    table.ask(|agent, cx| agent.register(cx, ALICE));
    let Some(Action::Resolve { query, .. }) = table.actions.pop() else { panic!("{:?}", table.actions) };
    table.event(Event::Resolved { query, servers: resolved("10.0.0.9:5060") });
    let register = table.sent().pop().unwrap();
    table.receive(SERVER, &answer(&register, 200, "r", "Expires: 600\r\n", None));
    table.events();
    assert!(bypasses(&mut table, udp(PEER), "peer"));
    assert!(!bypasses(&mut table, udp(SERVER), "server"));
    // A server may connect from any port.
    assert!(!bypasses(&mut table, tcp("10.0.0.9:40000"), "server-tcp"));
    assert!(bypasses(&mut table, tcp("10.0.0.3:5060"), "other-tcp"));
}

#[test]
fn a_forged_source_gets_little_more_than_was_sent() {
    let far = "10.6.6.6:5060";
    let many = ["x"; 300].join(",");
    let texts = [
        invite("a", 1, None).replace("sip:alice@", "sip:nobody@"),
        invite_with("b", 1, &format!("Require: {many}\r\n"), None),
        invite("c", 1, None).replace("INVITE", "OPTIONS"),
        invite("d", 1, None).replace("INVITE", "INFO"),
    ];
    for text in texts {
        let mut table = Table::direct();
        table.receive(far, &text);
        table.pass_s(100);
        let bytes: usize = table.sent().iter().map(|sent| sent.text.len()).sum();
        assert!(bytes <= (3 * text.len()).max(800), "{bytes} bytes for {}: {text}", text.len());
    }
    // A call that rings, and then is answered.
    for is_answered in [false, true] {
        let mut table = Table::direct();
        let text = invite("e", 1, Some(&sdp("10.0.0.2", 7000)));
        let call = table.ringing(&text);
        table.ask(|agent, cx| agent.ring(cx, call, 180)).unwrap();
        match is_answered {
            false => table.ask(|agent, cx| agent.reject(cx, call, 486)).unwrap(),
            true => table.ask(|agent, cx| agent.answer(cx, call, crate::harness::media())).unwrap(),
        }
        table.pass_s(31);
        let bytes: usize = table.sent().iter().map(|sent| sent.text.len()).sum();
        let factor = if is_answered { 13 } else { 3 };
        assert!(bytes <= factor * text.len(), "{is_answered}: {bytes} bytes for {}", text.len());
    }
}
