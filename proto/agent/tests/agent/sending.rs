//! Tests of the sending of requests: host names, transports, sizes, queries, and the trace.

use crate::harness::{
    ALICE, OWN, PEER, SERVER, Sent, Table, account_at_server, answer, invite, media, resolved, sdp,
};
use ringway_agent::{
    Abilities, Account, Action, AgentEvent, CallState, Config, Ended, InDialogChallenges, LargeRequests,
    MessageDirection, ServerAddress, Trace,
};
use ringway_sansio::{
    ConnectionId, Event, Flow, HostNameId, ListenerId, LocatedServer, LocatedServers, Transport,
};

fn resolve(table: &mut Table) -> u64 {
    let found = table.actions.iter().find_map(|action| match action {
        Action::Resolve { query, .. } => Some(*query),
        Action::Event(_) => None,
    });
    let query = found.expect("nothing is looked up");
    table.actions.clear();
    query
}

#[test]
fn a_name_is_looked_up_once_and_then_known_for_a_while() {
    let account = Account {
        server: Some(ServerAddress {
            host: "sip.example.org".into(),
            port: Some(5070),
            transport: Transport::Udp,
        }),
        ..account_at_server()
    };
    let mut table = Table::with(account, |_| {});
    table.ask(|agent, cx| agent.start(cx));
    assert!(table.sent().is_empty());
    let query = resolve(&mut table);
    table.event(Event::Resolved { query, servers: resolved("10.0.0.9:5070") });
    assert_eq!(table.only().to(), "10.0.0.9:5070");
    table.event(Event::Resolved { query, servers: resolved("10.6.6.6:5060") });
    assert!(table.sent().is_empty(), "one answer is enough");
    let (_, invite) = table.call("bob");
    assert_eq!(invite.to(), "10.0.0.9:5070");
}

#[test]
fn an_unknown_host_name_ends_the_call() {
    for answered in [true, false] {
        let mut table = Table::direct();
        let target = "sip:bob@nowhere.example";
        table.ask(|agent, cx| agent.call(cx, ALICE, target, media())).unwrap();
        let query = resolve(&mut table);
        if answered {
            table.event(Event::Resolved { query, servers: LocatedServers::NONE });
        } else {
            table.pass_s(33);
        }
        assert!(matches!(
            table.events().as_slice(),
            [AgentEvent::Ended { cause: Ended { status: 503, .. }, .. }]
        ));
        assert!(table.agent.is_empty());
    }
    // A name with a broadcast address counts as unknown.
    let mut table = Table::direct();
    table.ask(|agent, cx| agent.call(cx, ALICE, "sip:b@x.example", media())).unwrap();
    let query = resolve(&mut table);
    table.event(Event::Resolved { query, servers: resolved("255.255.255.255:5060") });
    assert!(table.sent().is_empty());
}

#[test]
fn a_call_given_up_while_its_name_is_looked_up_is_never_sent() {
    let mut table = Table::direct();
    let target = "sip:bob@slow.example";
    let call = table.ask(|agent, cx| agent.call(cx, ALICE, target, media())).unwrap();
    let query = resolve(&mut table);
    table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
    assert!(matches!(
        table.events().as_slice(),
        [AgentEvent::Ended { cause: Ended { status: 487, .. }, .. }]
    ));
    table.event(Event::Resolved { query, servers: resolved("10.0.0.2:5060") });
    assert!(table.sent().is_empty() && table.agent.is_empty());
}

#[test]
fn the_uri_chooses_the_transport() {
    let mut table = Table::direct();
    let (_, invite) = table.call(&format!("sip:bob@{PEER};transport=tcp"));
    assert_eq!(invite.flow.transport, Transport::Tcp);
    assert!(invite.field("Via").unwrap().starts_with("SIP/2.0/TCP "));
    assert_eq!(invite.field("Contact"), Some("<sip:alice@10.0.0.1:5060;transport=tcp>"));
}

/// Account whose name makes its INVITE larger than the datagram limit.
fn large() -> Account {
    Account { display_name: "x".repeat(1300), ..Account::direct("sip:alice@example.org") }
}

#[test]
fn large_requests_go_by_tcp_and_by_udp_if_that_fails() {
    let mut table = Table::with(large(), |_| {});
    let (_, invite) = table.call(&format!("sip:bob@{PEER}"));
    assert_eq!(invite.flow.transport, Transport::Tcp);
    assert_eq!(table.agent.counters().switched_to_tcp, 1);
    // The driver could not connect.
    let (_, invite) = {
        let mut table = Table::with(large(), |_| {});
        let target = format!("sip:bob@{PEER}");
        table.ask(|agent, cx| agent.call(cx, ALICE, &target, media())).unwrap();
        let token = table.out.packets().next().unwrap().0.token;
        table.sent();
        table.event(Event::Unreachable(token));
        ((), table.only())
    };
    assert_eq!(invite.flow.transport, Transport::Udp);

    let mut table = Table::with(large(), |config| config.large_requests = LargeRequests::StayOnUdp);
    let (_, invite) = table.call(&format!("sip:bob@{PEER}"));
    assert_eq!(invite.flow.transport, Transport::Udp);
}

/// Calls a peer by TCP, which fails; returns the INVITE by UDP.
fn call_without_tcp(table: &mut Table, peer: &str) -> Sent {
    let target = format!("sip:bob@{peer}");
    table.ask(|agent, cx| agent.call(cx, ALICE, &target, media())).unwrap();
    let (packet, _) = table.out.packets().next().unwrap();
    let (transport, token) = (packet.flow.transport, packet.token);
    assert_eq!(transport, Transport::Tcp, "{peer}");
    table.sent();
    table.event(Event::Unreachable(token));
    table.only()
}

fn transport_to(table: &mut Table, peer: &str) -> Transport {
    let (_, invite) = table.call(&format!("sip:bob@{peer}"));
    table.receive_bytes(invite.flow, answer(&invite, 486, "b", "", None).as_bytes());
    table.sent();
    invite.flow.transport
}

#[test]
fn tcp_that_failed_is_not_tried_again_for_an_hour() {
    let mut table = Table::with(large(), |_| {});
    let invite = call_without_tcp(&mut table, PEER);
    assert_eq!(invite.flow.transport, Transport::Udp);
    table.receive(PEER, &answer(&invite, 486, "b", "", None));
    table.sent();
    table.pass_s(3590);
    assert_eq!(transport_to(&mut table, PEER), Transport::Udp);
    assert_eq!(table.agent.counters().kept_on_udp, 1);
    assert_eq!(transport_to(&mut table, "10.0.0.3:5060"), Transport::Tcp, "another address");
    table.pass_s(20);
    assert_eq!(transport_to(&mut table, PEER), Transport::Tcp);
}

#[test]
fn tcp_is_tried_again_when_udp_fails_too_or_the_peer_answers_by_tcp() {
    let mut table = Table::with(large(), |_| {});
    call_without_tcp(&mut table, PEER);
    table.pass_s(40);
    assert!(matches!(
        table.events().as_slice(),
        [AgentEvent::Ended { cause: Ended { status: 408, .. }, .. }]
    ));
    table.sent();
    let invite = call_without_tcp(&mut table, PEER);
    table.receive(PEER, &answer(&invite, 486, "b", "", None));
    table.sent();
    let (_, invite) = table.call(&format!("sip:bob@{PEER};transport=tcp"));
    table.receive_bytes(by_tcp(4, PEER), answer(&invite, 486, "b", "", None).as_bytes());
    table.sent();
    assert_eq!(transport_to(&mut table, PEER), Transport::Tcp);
}

#[test]
fn addresses_without_tcp_beyond_those_that_are_kept_are_counted() {
    let mut table = Table::with(large(), |_| {});
    for number in 1..=18 {
        let peer = format!("10.0.1.{number}:5060");
        let invite = call_without_tcp(&mut table, &peer);
        table.receive(&peer, &answer(&invite, 486, "b", "", None));
        table.sent();
    }
    assert_eq!(table.agent.counters().tcp_failures_displaced, 2);
    assert_eq!(transport_to(&mut table, "10.0.1.18:5060"), Transport::Udp);
}

#[test]
fn a_peer_that_cannot_be_reached_ends_the_call() {
    let mut table = Table::direct();
    let target = format!("sip:bob@{PEER};transport=tcp");
    table.ask(|agent, cx| agent.call(cx, ALICE, &target, media())).unwrap();
    let token = table.out.packets().next().unwrap().0.token;
    table.event(Event::Unreachable(token));
    assert!(matches!(
        table.events().as_slice(),
        [AgentEvent::Ended { cause: Ended { status: 503, .. }, .. }]
    ));
    assert!(table.agent.is_empty());
}

/// Flow of the peer's TCP connection with this number.
fn by_tcp(number: u64, from: &str) -> Flow {
    Flow { connection: Some(ConnectionId(number)), ..Flow::dial(ListenerId(1), from.parse().unwrap()) }
}

#[test]
fn a_connection_that_ends_during_an_invite_ends_the_call_at_once() {
    for status in [100, 180] {
        let mut table = Table::direct();
        let (call, invite) = table.call(&format!("sip:bob@{PEER};transport=tcp"));
        table.receive_bytes(by_tcp(4, PEER), answer(&invite, status, "b", "", None).as_bytes());
        table.events();
        table.event(Event::Closed(ConnectionId(5)));
        assert!(table.events().is_empty(), "another connection has no effect");
        table.event(Event::Closed(ConnectionId(4)));
        let events = table.events();
        let [AgentEvent::Ended { call: ended, cause }] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((*ended, cause.status), (call, 503));
        assert!(cause.reason.contains("connection"), "{}", cause.reason);
        assert!(table.agent.is_empty() && table.agent.is_idle());
    }
}

#[test]
fn a_connection_that_a_registration_went_by_ends_the_invite_that_went_by_it_too() {
    let mut account = account_at_server();
    account.server.as_mut().unwrap().transport = Transport::Tcp;
    let mut table = Table::with(account, |_| {});
    table.ask(|agent, cx| agent.register(cx, ALICE));
    let register = table.only();
    table.receive_bytes(by_tcp(4, SERVER), answer(&register, 200, "r", "Expires: 600\r\n", None).as_bytes());
    table.events();
    let (call, _) = table.call("sip:bob@example.org");
    table.event(Event::Closed(ConnectionId(4)));
    let events = table.events();
    let [AgentEvent::Ended { call: ended, cause: Ended { status: 503, .. } }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(*ended, call);
    assert!(table.agent.is_empty());
    table.pass_s(3);
    assert_eq!(table.only().field("CSeq"), Some("2 REGISTER"), "and the phone registers again");
}

#[test]
fn connections_beyond_those_that_are_kept_are_counted() {
    let mut table = Table::direct();
    for number in 1..=34_u64 {
        let peer = format!("10.0.1.{number}:5060");
        let (_, invite) = table.call(&format!("sip:bob@{peer};transport=tcp"));
        table.receive_bytes(by_tcp(number, &peer), answer(&invite, 486, "b", "", None).as_bytes());
        table.sent();
    }
    assert_eq!(table.agent.counters().connections_displaced, 2);
}

#[test]
fn names_beyond_those_that_are_kept_are_counted() {
    let mut table = Table::direct();
    for number in 1..=18_u8 {
        let target = format!("sip:bob@host{number}.example.net");
        table.ask(|agent, cx| agent.call(cx, ALICE, &target, media())).unwrap();
        let query = resolve(&mut table);
        let servers = resolved(&format!("10.0.1.{number}:5060"));
        table.event(Event::Resolved { query, servers });
        let invite = table.only();
        table.receive(&invite.to(), &answer(&invite, 486, "b", "", None));
        table.sent();
    }
    assert_eq!(table.agent.counters().names_displaced, 2);
}

#[test]
fn a_cancelled_invite_ends_with_its_connection_and_an_answered_one_does_not() {
    let mut table = Table::direct();
    let (call, invite) = table.call(&format!("sip:bob@{PEER};transport=tcp"));
    table.receive_bytes(by_tcp(4, PEER), answer(&invite, 180, "b", "", None).as_bytes());
    table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
    table.sent();
    table.events();
    table.event(Event::Closed(ConnectionId(4)));
    assert!(matches!(
        table.events().as_slice(),
        [AgentEvent::Ended { cause: Ended { status: 487, .. }, .. }]
    ));
    assert!(table.agent.is_empty() && table.agent.is_idle());

    let mut table = Table::direct();
    let (call, invite) = table.call(&format!("sip:bob@{PEER};transport=tcp"));
    let contact = format!("Contact: <sip:bob@{PEER};transport=tcp>\r\n");
    let ok = answer(&invite, 200, "b", &contact, Some(&sdp("10.0.0.2", 7000)));
    table.receive_bytes(by_tcp(4, PEER), ok.as_bytes());
    table.events();
    table.event(Event::Closed(ConnectionId(4)));
    assert!(table.events().is_empty());
    assert_eq!(table.agent.call_state(call), Some(CallState::Established));
}

#[test]
fn queries_are_sent_and_answered() {
    let mut table = Table::direct();
    let target = format!("sip:bob@{PEER}");
    let query = table.ask(|agent, cx| agent.query(cx, ALICE, &target)).unwrap();
    let options = table.only();
    assert!(options.line().starts_with("OPTIONS "));
    table.pass(std::time::Duration::from_millis(30));
    let fields = "Allow: INVITE\r\nAllow: ACK\r\nSupported: 100rel\r\nServer: Peer 1.0\r\n";
    table.receive(PEER, &answer(&options, 200, "b", fields, None));
    let abilities = Abilities {
        allow: "INVITE, ACK".into(),
        supported: "100rel".into(),
        accept: String::new(),
        user_agent: "Peer 1.0".into(),
        round_trip: std::time::Duration::from_millis(30),
    };
    let answered = |status, reason: &str, abilities| AgentEvent::QueryAnswered {
        query,
        status,
        reason: reason.into(),
        abilities,
    };
    assert_eq!(table.events(), [answered(200, "Reason 200", Some(Box::new(abilities)))]);
    table.receive(PEER, &invite("o", 1, None).replace("INVITE", "OPTIONS"));
    let ok = table.only();
    assert_eq!(ok.line(), "SIP/2.0 200 OK");
    assert_eq!(ok.field("Allow"), Some("INVITE, ACK, CANCEL, BYE, OPTIONS, REFER, NOTIFY, UPDATE"));
    assert_eq!(
        ok.field("Accept"),
        Some("application/sdp, message/sipfrag, multipart/mixed, multipart/alternative")
    );
    table.receive(PEER, &invite("p", 1, None).replace("INVITE", "OPTIONS").replace("sip:alice@", "sip:x@"));
    assert_eq!(table.only().line(), "SIP/2.0 404 Not Found");
}

#[test]
fn an_answer_that_cannot_be_written_leaves_no_transaction() {
    let broken = |config: &mut Config| config.user_agent = "one\r\nInjected: 1".to_owned();
    let mut table = Table::with(Account::direct("sip:alice@example.org"), broken);
    table.receive(PEER, &invite("o", 1, None).replace("INVITE", "OPTIONS"));
    assert!(table.sent().is_empty());
    assert!(table.agent.transactions().is_idle());
}

#[test]
fn other_methods_are_refused_by_name() {
    let mut table = Table::direct();
    for (method, line) in [
        ("REGISTER", "SIP/2.0 405 Method Not Allowed"),
        ("MESSAGE", "SIP/2.0 405 Method Not Allowed"),
        ("SUBSCRIBE", "SIP/2.0 405 Method Not Allowed"),
        ("PRACK", "SIP/2.0 405 Method Not Allowed"),
        ("NEWMETHOD", "SIP/2.0 501 Not Implemented"),
        ("UPDATE", "SIP/2.0 481 Call/Transaction Does Not Exist"),
        ("BYE", "SIP/2.0 481 Call/Transaction Does Not Exist"),
    ] {
        table.receive(PEER, &invite(method, 1, None).replace("INVITE", method));
        assert_eq!(table.only().line(), line, "{method}");
    }
}

#[test]
fn the_trace_has_first_lines_and_no_secrets() {
    let mut table = Table::with(account_at_server(), |config| config.trace = Trace::FirstLines);
    table.receive(PEER, &invite("c", 1, Some(&sdp("10.0.0.2", 7000))));
    let seen: Vec<_> = table
        .events()
        .into_iter()
        .filter_map(|event| match event {
            AgentEvent::Message { direction, line, cseq, .. } => Some((direction, line, cseq)),
            _ => None,
        })
        .collect();
    let cseq = String::from("1 INVITE");
    let expected = [
        (MessageDirection::Received, format!("INVITE sip:alice@{OWN} SIP/2.0"), cseq.clone()),
        (MessageDirection::Sent, "SIP/2.0 100 Trying".into(), cseq),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn the_whole_trace_has_each_message_as_it_was() {
    let mut table = Table::with(account_at_server(), |config| config.trace = Trace::Whole);
    let sent = invite("c", 1, Some(&sdp("10.0.0.2", 7000)));
    table.receive(PEER, &sent);
    let wholes = table.events().into_iter().filter_map(|event| match event {
        AgentEvent::Message { whole, bytes, .. } => Some((whole.len() == bytes, whole)),
        _ => None,
    });
    let wholes: Vec<_> = wholes.collect();
    assert_eq!(wholes.len(), 2);
    assert_eq!(wholes[0], (true, sent.into()));
    assert!(wholes[1].1.starts_with(b"SIP/2.0 100 Trying\r\n"));
}

/// Phone whose server is reached by TLS at 10.0.0.9, and its INVITE.
fn calling_by_tls() -> (Table, ringway_agent::CallId, Sent) {
    let mut account = account_at_server();
    account.in_dialog = InDialogChallenges::AnsweredAtServer;
    account.server =
        Some(ServerAddress { host: "sip.example.org".into(), port: None, transport: Transport::Tls });
    let tls = ringway_agent::Listener { transport: Transport::Tls, address: OWN.parse().unwrap() };
    let mut table = Table::with(account, |config| config.listeners.push(tls));
    let call = table.ask(|agent, cx| agent.call(cx, ALICE, "sip:bob@example.org", media())).unwrap();
    let query = resolve(&mut table);
    let address = "10.0.0.9:5061".parse().unwrap();
    let located = LocatedServer { transport: Transport::Tls, address, host: HostNameId(7) };
    table.event(Event::Resolved { query, servers: located.into() });
    let invite = table.only();
    (table, call, invite)
}

/// The callee can write the server's address with another transport into its Record-Route.
#[test]
fn credentials_that_were_sent_by_tls_are_not_sent_without_it() {
    for (transport, is_proven) in [("tls", true), ("udp", false)] {
        let (mut table, call, invite) = calling_by_tls();
        let challenge = "Proxy-Authenticate: Digest realm=\"example.org\",nonce=\"n\",qop=\"auth\"\r\n";
        table.receive_bytes(invite.flow, answer(&invite, 407, "s", challenge, None).as_bytes());
        let invite = table.sent().pop().unwrap();
        assert!(invite.field("Proxy-Authorization").is_some(), "{}", invite.text);
        let fields = format!(
            "Contact: <sip:bob@10.0.0.2>\r\nRecord-Route: <sip:10.0.0.9:5061;transport={transport};lr>\r\n"
        );
        let ok = answer(&invite, 200, "b", &fields, Some(&sdp("10.0.0.2", 7000)));
        table.receive_bytes(invite.flow, ok.as_bytes());
        let ack = table.only();
        assert_eq!((ack.line().starts_with("ACK "), ack.to().as_str()), (true, "10.0.0.9:5061"));
        assert_eq!(ack.field("Proxy-Authorization").is_some(), is_proven, "{}", ack.text);
        table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
        let bye = table.only();
        table.receive_bytes(bye.flow, answer(&bye, 407, "b", challenge, None).as_bytes());
        let again = table.sent();
        assert_eq!(again.iter().any(|sent| sent.text.contains("Authorization")), is_proven);
    }
}

/// The server is found by its name and records its route by its address: one connection is used, which the certificate of
/// the name was verified for.
#[test]
fn requests_in_a_dialog_use_the_verified_connection_of_the_server() {
    let (mut table, call, invite) = calling_by_tls();
    let address = invite.flow.remote;
    assert_eq!(invite.flow.host, HostNameId(7));
    let fields = "Contact: <sip:bob@10.0.0.2>\r\nRecord-Route: <sip:10.0.0.9:5061;transport=tls;lr>\r\n";
    let ok = answer(&invite, 200, "b", fields, Some(&sdp("10.0.0.2", 7000)));
    table.receive_bytes(invite.flow, ok.as_bytes());
    let ack = table.only();
    assert!(ack.text.starts_with("ACK "), "{}", ack.text);
    assert_eq!((ack.flow.remote, ack.flow.host), (address, HostNameId(7)));
    table.ask(|agent, cx| agent.hang_up(cx, call)).unwrap();
    let bye = table.only();
    assert!(bye.text.starts_with("BYE "), "{}", bye.text);
    assert_eq!((bye.flow.remote, bye.flow.host), (address, HostNameId(7)));
}
