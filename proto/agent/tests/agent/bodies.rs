//! Tests of bodies: dispositions, encodings, and descriptions in multipart bodies (RFC 3261 §8.2.3, §20.11, RFC 5621).

use crate::harness::{PEER, Sent, Table, answer, in_dialog, invite_with, media, sdp};
use ringway_agent::AgentEvent;

const MIXED: &str = "Content-Type: multipart/mixed; boundary=\"a:b\"\r\n";
const ALTERNATIVE: &str = "Content-Type: Multipart/Alternative;boundary=\"a:b\"\r\n";
const PIDF: &str = "Content-Type: application/pidf+xml\r\n\r\n<x/>";
const SDP: &str = "Content-Type: application/sdp\r\n\r\n";

fn offer() -> String {
    sdp("10.0.0.2", 7000)
}

fn sdp_part(port: u16) -> String {
    format!("{SDP}{}", sdp("10.0.0.2", port))
}

/// Body with these parts and the boundary `a:b`.
fn parts(parts: &[&str]) -> String {
    let parts: String = parts.iter().map(|part| format!("--a:b\r\n{part}\r\n")).collect();
    format!("preamble\r\n{parts}--a:b--\r\nepilogue")
}

fn part_with(fields: &str, part: &str) -> String {
    format!("{fields}\r\n{part}")
}

/// Response to an INVITE, and `has_offer` if the call rings.
fn rings(table: &mut Table, fields: &str, body: &str) -> Result<bool, Sent> {
    table.receive(PEER, &invite_with("c", 1, fields, Some(body)));
    let response = table.only();
    match table.events().as_slice() {
        [AgentEvent::Incoming { has_offer, .. }] => Ok(*has_offer),
        [] => Err(response),
        events => panic!("{events:?}"),
    }
}

/// Status of the refusal of an INVITE.
fn refused(fields: &str, body: &str) -> Sent {
    rings(&mut Table::direct(), fields, body).expect_err(fields)
}

/// Port of the offer that an INVITE has, by answering it.
fn offered_port(fields: &str, body: &str) -> u16 {
    let mut table = Table::direct();
    table.receive(PEER, &invite_with("c", 1, fields, Some(body)));
    let events = table.events();
    let [AgentEvent::Incoming { call, has_offer: true, .. }] = events.as_slice() else {
        panic!("{events:?} for {body}")
    };
    table.ask(|agent, cx| agent.answer(cx, *call, media())).unwrap();
    let events = table.events();
    let [AgentEvent::Answered { params, .. }] = events.as_slice() else { panic!("{events:?}") };
    params.remote.port()
}

#[test]
fn a_description_with_the_disposition_session_is_an_offer() {
    for disposition in
        ["session", "Session", "session;handling=optional", "session ; handling=required", ";;"]
    {
        let fields = format!("Content-Disposition: {disposition}\r\n");
        assert_eq!(offered_port(&fields, &offer()), 7000, "{disposition}");
    }
}

#[test]
fn a_body_that_is_not_understood_is_refused_unless_it_is_optional() {
    let cases = [
        ("early-session", "application/sdp"),
        ("render", "application/sdp"),
        ("session", "application/isup"),
        ("signal", "application/isup"),
    ];
    for (disposition, kind) in cases {
        for handling in ["", ";handling=required", ";handling=unknown", ";handling=optional"] {
            let fields = format!("Content-Disposition: {disposition}{handling}\r\nContent-Type: {kind}\r\n");
            let is_optional = handling.ends_with("optional");
            match rings(&mut Table::direct(), &fields, &offer()) {
                Ok(has_offer) => assert!(is_optional && !has_offer, "{fields}"),
                Err(refused) => {
                    assert!(!is_optional, "{fields}");
                    assert_eq!(refused.line(), "SIP/2.0 415 Unsupported Media Type");
                    assert!(refused.field("Accept").unwrap().starts_with("application/sdp"));
                    let named =
                        if disposition == "session" || disposition == "signal" { kind } else { disposition };
                    assert!(refused.field("Warning").unwrap().contains(named), "{}", refused.text);
                }
            }
        }
    }
}

#[test]
fn an_encoding_that_is_not_supported_is_refused_with_those_that_are() {
    for coding in ["gzip", "identity, deflate", "x"] {
        let fields = format!("Content-Encoding: {coding}\r\n");
        let refused = refused(&fields, &offer());
        assert_eq!(refused.line(), "SIP/2.0 415 Unsupported Media Type");
        assert_eq!((refused.field("Accept-Encoding"), refused.field("Accept")), (Some("identity"), None));
        let optional = format!("{fields}Content-Disposition: session;handling=optional\r\n");
        assert_eq!(rings(&mut Table::direct(), &optional, &offer()).ok(), Some(false));
    }
    assert_eq!(offered_port("Content-Encoding: Identity\r\n", &offer()), 7000);
    assert_eq!(offered_port("Content-Transfer-Encoding: 8bit\r\n", &offer()), 7000);
    assert!(refused("Content-Transfer-Encoding: base64\r\n", &offer()).line().contains("415"));
}

#[test]
fn a_description_in_one_part_is_read() {
    let isup =
        part_with("Content-Disposition: signal;handling=optional", "Content-Type: application/isup\r\n\r\nx");
    let early = part_with("Content-Disposition: early-session;handling=optional", &sdp_part(6000));
    let coded = part_with(
        "Content-Encoding: gzip\r\nContent-Disposition: session;handling=optional",
        &sdp_part(6000),
    );
    let nested = format!("{ALTERNATIVE}\r\n{}", parts(&[PIDF, &sdp_part(7000)]).replace("a:b", "c"))
        .replace("a:b", "c");
    let (ours, other) = (sdp_part(7000), sdp_part(7002));
    let cases: [(&str, &[&str], u16); 11] = [
        (MIXED, &[&ours], 7000),
        (MIXED, &[&ours, PIDF], 7000),
        (MIXED, &[PIDF, &ours], 7000),
        (MIXED, &[&isup, &ours], 7000),
        (MIXED, &[&early, &ours], 7000),
        (MIXED, &[&coded, &ours], 7000),
        (MIXED, &["\r\nplain text", &ours, &other], 7000),
        (MIXED, &[PIDF, &nested], 7000),
        (ALTERNATIVE, &["Content-Type: text/plain\r\n\r\ntext", &ours], 7000),
        (ALTERNATIVE, &[&ours, &other], 7002),
        (ALTERNATIVE, &[&ours, PIDF], 7000),
    ];
    for (kind, of, port) in cases {
        assert_eq!(offered_port(kind, &parts(of)), port, "{kind}{of:?}");
    }
    // Every other kind of multipart body is read like a mixed one (RFC 2046 §5.1.3).
    let related = MIXED.replace("mixed", "related");
    assert_eq!(offered_port(&related, &parts(&[&ours, PIDF])), 7000);
    let line_feeds = parts(&[&ours]).replace("\r\n", "\n");
    assert_eq!(offered_port(MIXED, &line_feeds), 7000);
}

#[test]
fn parts_that_are_required_and_not_understood_are_refused() {
    let ours = sdp_part(7000);
    let required = part_with("Content-Disposition: signal;handling=required", PIDF);
    let disposed = part_with("Content-Disposition: render", PIDF);
    let of_whole = format!("{MIXED}Content-Disposition: render;handling=optional\r\n");
    for (fields, of, status) in [
        (MIXED, &[&*ours, &required][..], "415"),
        (MIXED, &[&disposed, &ours], "415"),
        (MIXED, &[PIDF], "415"),
        (ALTERNATIVE, &[PIDF], "415"),
        (MIXED, &[], "400"),
        ("Content-Type: multipart/mixed\r\n", &[&ours], "400"),
        ("Content-Type: multipart/mixed;boundary=\"\"\r\n", &[&ours], "400"),
        ("Content-Type: multipart/mixed;boundary=other\r\n", &[&ours], "400"),
    ] {
        let refused = refused(fields, &parts(of));
        assert!(refused.line().contains(status), "{} for {fields}{of:?}", refused.line());
        assert!(refused.field("Warning").is_some());
    }
    assert_eq!(offered_port(&of_whole, &parts(&[&ours, &required])), 7000);
    assert_eq!(rings(&mut Table::direct(), &of_whole, &parts(&[&required])).ok(), Some(false));
}

#[test]
fn parts_and_levels_have_limits() {
    let (ours, max) = (sdp_part(7000), Table::direct().agent.config().limits.body_parts_max);
    let many = |count: usize| parts(&[&[PIDF].repeat(count)[..], &[&*ours]].concat());
    assert_eq!(offered_port(MIXED, &many(max - 1)), 7000);
    let level = |level: usize, body: &str| {
        format!("Content-Type: multipart/mixed;boundary={level}\r\n\r\n--{level}\r\n{body}\r\n--{level}--")
    };
    let levels = |count: usize| (1..count).fold(ours.clone(), |body, at| level(at, &body));
    let levels_max = usize::from(Table::direct().agent.config().limits.body_levels_max);
    assert_eq!(offered_port(MIXED, &parts(&[&levels(levels_max)])), 7000);
    for body in [many(max), parts(&[&levels(levels_max + 1)]), parts(&[&levels(200)])] {
        let mut table = Table::direct();
        assert!(rings(&mut table, MIXED, &body).expect_err("over a limit").line().contains("513"));
        assert_eq!(table.agent.counters().body_too_large, 1);
    }
}

#[test]
fn answers_in_responses_and_in_the_ack_are_read_too() {
    let required = part_with("Content-Disposition: signal;handling=required", PIDF);
    let body = parts(&[&required, &sdp_part(7000)]);
    let fields = format!("Contact: <sip:bob@{PEER}>\r\n{MIXED}");
    let mut table = Table::direct();
    let (_, invite) = table.call(&format!("sip:bob@{PEER}"));
    table.receive(PEER, &answer(&invite, 183, "bob", &fields, Some(&body)));
    let events = table.events();
    assert!(
        matches!(events.as_slice(), [AgentEvent::Progress { .. }, AgentEvent::EarlyMedia { .. }]),
        "{events:?}"
    );
    table.receive(PEER, &answer(&invite, 200, "bob", &fields, Some(&body)));
    assert!(matches!(table.events().as_slice(), [AgentEvent::Answered { .. }]));
    let mut table = Table::direct();
    let id = table.ringing(&invite_with("late", 1, "", None));
    table.ask(|agent, cx| agent.answer(cx, id, media())).unwrap();
    let ok = table.only();
    table.receive(PEER, &in_dialog("ACK", 1, &ok, MIXED, Some(&body)));
    assert!(matches!(table.events().as_slice(), [AgentEvent::Answered { .. }]));
}

/// RFC 3959: an early session is an offer of its own.
#[test]
fn an_early_session_is_no_early_answer() {
    let mut table = Table::direct();
    let (_, invite) = table.call(&format!("sip:bob@{PEER}"));
    table.receive(
        PEER,
        &answer(&invite, 183, "bob", "Content-Disposition: early-session\r\n", Some(&offer())),
    );
    assert!(matches!(table.events().as_slice(), [AgentEvent::Progress { .. }]));
}

#[test]
fn changes_of_a_call_are_read_in_parts_and_refused_like_calls() {
    let mut table = Table::direct();
    let (_, ok) = table.answered();
    let body = parts(&[PIDF, &sdp_part(7300)]);
    table.receive(PEER, &in_dialog("UPDATE", 2, &ok, MIXED, Some(&body)));
    assert_eq!(table.only().line(), "SIP/2.0 200 OK");
    let events = table.events();
    let [AgentEvent::MediaChanged { params, .. }] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(params.remote.port(), 7300);
    // No offer: the target is refreshed only.
    let optional = "Content-Type: text/plain\r\nContent-Disposition: render;handling=optional\r\n";
    table.receive(PEER, &in_dialog("UPDATE", 3, &ok, optional, Some("hello")));
    let refreshed = table.only();
    assert_eq!((refreshed.line(), refreshed.body()), ("SIP/2.0 200 OK", ""));
    assert!(table.events().is_empty());
    table.receive(PEER, &in_dialog("INVITE", 4, &ok, "Content-Type: text/plain\r\n", Some("hello")));
    assert_eq!(table.only().line(), "SIP/2.0 415 Unsupported Media Type");
}

#[test]
fn reports_on_a_transfer_are_read_in_parts_and_refused_like_calls() {
    let fragment = "Content-Type: message/sipfrag\r\n\r\nSIP/2.0 486 Busy Here";
    let cases = [
        (MIXED.to_owned(), parts(&[PIDF, fragment]), Ok(Some(486))),
        ("Content-Type: message/sipfrag\r\n".into(), "SIP/2.0 486 Busy".into(), Ok(Some(486))),
        ("Content-Type: text/plain\r\n".into(), "hello".into(), Err("Accept")),
        (
            "Content-Type: message/sipfrag\r\nContent-Encoding: gzip\r\n".into(),
            "x".into(),
            Err("Accept-Encoding"),
        ),
        (
            "Content-Type: text/plain\r\nContent-Disposition: render;handling=optional\r\n".into(),
            "hello".into(),
            Ok(None),
        ),
    ];
    for (fields, body, expected) in cases {
        let mut table = Table::direct();
        let (call, ok) = table.answered();
        table.ask(|agent, cx| agent.transfer(cx, call, "sip:carol@10.0.0.3")).unwrap();
        table.sent();
        let fields = format!("Event: refer\r\nSubscription-State: active\r\n{fields}");
        table.receive(PEER, &in_dialog("NOTIFY", 2, &ok, &fields, Some(&body)));
        let (response, events) = (table.only(), table.events());
        let status = events.iter().find_map(|event| match event {
            AgentEvent::TransferDone { status, .. } => Some(*status),
            _ => None,
        });
        match expected {
            Ok(expected) => assert_eq!((response.line(), status), ("SIP/2.0 200 OK", expected), "{fields}"),
            Err(field) => {
                assert_eq!(response.line(), "SIP/2.0 415 Unsupported Media Type");
                assert!(response.field(field).is_some() && status.is_none(), "{}", response.text);
            }
        }
    }
}

/// Bytes of all pieces in any order: every INVITE gets one response or rings, and nothing panics.
#[test]
fn hostile_multipart_bodies_are_answered() {
    let ours = sdp_part(7000);
    let pieces = [
        "--a:b",
        "--a:b--",
        "\r\n",
        "\r\n\r\n",
        "--",
        &ours,
        PIDF,
        MIXED,
        ALTERNATIVE,
        SDP,
        "Content-Disposition: session;handling=optional\r\n",
        "Content-Disposition: ;\r\n",
        "Content-Encoding: x\r\n",
    ];
    let mut state = 1_u64;
    let mut read = 0;
    for number in 0..400 {
        let mut body = String::from("--a:b\r\n");
        for _ in 0..10 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            body.push_str(pieces[(state >> 33) as usize % pieces.len()]);
        }
        let mut table = Table::direct();
        read += usize::from(rings(&mut table, MIXED, &body).is_ok());
        let cut = &body[..(number * 7) % body.len()];
        let _ = rings(&mut Table::direct(), MIXED, cut);
    }
    assert!(read > 2, "{read} were read");
}
