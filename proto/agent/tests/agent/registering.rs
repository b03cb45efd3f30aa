//! Tests of registration: refresh, refusals, removal.

use crate::harness::{ALICE, OWN, SERVER, Sent, Table, account_at_server, answer};
use ringway_agent::{Account, AgentEvent, Secret};
use ringway_sansio::{ConnectionId, Event, Flow, ListenerId, Transport};
use ringway_stun::{Class, METHOD_BINDING, Message, MessageWriter, TransactionId};
use std::time::Duration;

fn register(table: &mut Table) -> Sent {
    table.ask(|agent, cx| agent.register(cx, ALICE));
    table.only()
}

fn accept(table: &mut Table, request: &Sent, expires_s: u32) {
    let contact = request.field("Contact").unwrap().split(";expires").next().unwrap().to_string();
    let fields =
        format!("Contact: <sip:other@10.0.0.5>;expires=9\r\nContact: {contact};expires={expires_s}\r\n");
    table.receive(SERVER, &answer(request, 200, "r", &fields, None));
}

#[test]
fn a_register_has_address_contact_and_expiry() {
    let mut table = Table::at_server();
    let request = register(&mut table);
    assert_eq!((request.line(), request.to().as_str()), ("REGISTER sip:example.org SIP/2.0", SERVER));
    assert!(request.field("From").unwrap().starts_with("<sip:alice@example.org>;tag="));
    assert_eq!(request.field("To"), Some("<sip:alice@example.org>"));
    assert_eq!(request.field("Contact"), Some("<sip:alice@10.0.0.1:5060>;expires=3600"));
    assert_eq!(request.field("CSeq"), Some("1 REGISTER"));
    assert!(request.field("Via").unwrap().starts_with("SIP/2.0/UDP 10.0.0.1:5060;rport;branch=z9hG4bK"));
    assert!(request.field("User-Agent").unwrap().starts_with("Ringway/"));
    accept(&mut table, &request, 600);
    assert_eq!(table.events(), [AgentEvent::Registered { account: ALICE, expires_s: 600 }]);
    assert!(table.agent.is_registered(ALICE));
}

#[test]
fn the_lifetime_of_a_rewritten_contact_counts() {
    for (fields, expected) in [
        ("Contact: <sip:alice@198.51.100.7:40000>;expires=70\r\n", 70),
        ("Contact: <sip:alice@198.51.100.7:40000>;expires=70\r\nExpires: 500\r\n", 70),
        ("Contact: <sip:alice@198.51.100.7>;expires=0, <sip:alice@198.51.100.8>;expires=90\r\n", 90),
        ("Contact: <sip:other@198.51.100.7>;expires=70\r\n", 3600),
        ("Contact: <sip:other@198.51.100.7>;expires=70\r\nExpires: 500\r\n", 500),
        ("Contact: <sip:alice@10.0.0.1:5060>\r\n", 3600),
    ] {
        let mut table = Table::at_server();
        let request = register(&mut table);
        table.receive(SERVER, &answer(&request, 200, "r", fields, None));
        let registered = [AgentEvent::Registered { account: ALICE, expires_s: expected }];
        assert_eq!(table.events(), registered, "{fields}");
    }
}

#[test]
fn it_is_refreshed_before_it_ends_with_the_same_call_id_and_the_next_number() {
    let mut table = Table::at_server();
    let first = register(&mut table);
    accept(&mut table, &first, 600);
    table.pass_s(530);
    assert!(table.sent().is_empty());
    table.pass_s(11);
    let again = table.sent().remove(0);
    assert_eq!(again.field("Call-ID"), first.field("Call-ID"));
    assert_eq!(again.field("CSeq"), Some("2 REGISTER"));
}

#[test]
fn a_registrar_that_wants_longer_gets_it_once() {
    let mut table = Table::at_server();
    let first = register(&mut table);
    table.receive(SERVER, &answer(&first, 423, "r", "Min-Expires: 7200\r\n", None));
    let second = table.only();
    assert!(second.field("Contact").unwrap().ends_with(";expires=7200"));
    table.receive(SERVER, &answer(&second, 423, "r", "Min-Expires: 7200\r\n", None));
    assert!(table.sent().is_empty(), "the same expiry again would be refused again");
    assert!(matches!(table.events().as_slice(), [AgentEvent::RegistrationFailed { status: 423, .. }]));
}

#[test]
fn absurd_expiries_are_not_believed() {
    for fields in ["Min-Expires: 4294967295\r\n", "Min-Expires: x\r\n", ""] {
        let mut table = Table::at_server();
        let first = register(&mut table);
        table.receive(SERVER, &answer(&first, 423, "r", fields, None));
        assert!(table.sent().is_empty());
        assert!(matches!(table.events().as_slice(), [AgentEvent::RegistrationFailed { .. }]), "{fields}");
    }
    let mut table = Table::at_server();
    let first = register(&mut table);
    accept(&mut table, &first, u32::MAX);
    let expires_s = table.agent.config().limits.expires_s_max;
    assert_eq!(table.events(), [AgentEvent::Registered { account: ALICE, expires_s }]);
}

#[test]
fn failures_that_may_pass_are_tried_again_later_and_later() {
    let mut table = Table::at_server();
    register(&mut table);
    let mut pauses = Vec::new();
    for _ in 0..9 {
        table.pass_s(33);
        table.sent();
        let events = table.events();
        let [AgentEvent::RegistrationFailed { status: 408, retry_s: Some(pause_s), .. }] = events.as_slice()
        else {
            panic!("{events:?}")
        };
        pauses.push(*pause_s);
        table.pass_s(u64::from(*pause_s));
        assert!(table.sent().first().is_some_and(|sent| sent.line().starts_with("REGISTER ")));
    }
    for (place, pause_s) in pauses.iter().enumerate() {
        let upper = (30 << place).min(1800);
        assert!((upper / 2..=upper).contains(pause_s), "{pauses:?}");
    }
}

#[test]
fn retry_after_is_respected() {
    let mut table = Table::at_server();
    let first = register(&mut table);
    table.receive(SERVER, &answer(&first, 503, "r", "Retry-After: 100 (busy);duration=9\r\n", None));
    let events = table.events();
    assert!(
        matches!(events.as_slice(), [AgentEvent::RegistrationFailed { status: 503, retry_s: Some(100), .. }]),
        "{events:?}"
    );
}

#[test]
fn failures_that_stay_are_not_tried_again() {
    for status in [400, 403, 404, 420] {
        let mut table = Table::at_server();
        let first = register(&mut table);
        table.receive(SERVER, &answer(&first, status, "r", "", None));
        let events = table.events();
        assert!(
            matches!(events.as_slice(), [AgentEvent::RegistrationFailed { retry_s: None, .. }]),
            "{events:?}"
        );
        table.pass_s(5000);
        assert!(table.sent().is_empty());
    }
}

#[test]
fn it_is_removed_at_the_end() {
    let mut table = Table::at_server();
    let first = register(&mut table);
    accept(&mut table, &first, 600);
    table.events();
    table.ask(|agent, cx| agent.shut_down(cx));
    let last = table.only();
    assert!(last.field("Contact").unwrap().ends_with(";expires=0"));
    assert!(!table.agent.is_idle());
    table.receive(SERVER, &answer(&last, 200, "r", "", None));
    assert_eq!(table.events(), [AgentEvent::Unregistered { account: ALICE }]);
    assert!(table.agent.is_empty());
    table.pass_s(5000);
    assert!(table.sent().is_empty());
}

#[test]
fn a_lost_connection_is_made_again() {
    let mut account = account_at_server();
    account.server.as_mut().unwrap().transport = Transport::Tcp;
    let mut table = Table::with(account, |_| {});
    let first = register(&mut table);
    assert_eq!(first.flow.transport, Transport::Tcp);
    assert_eq!(first.field("Contact"), Some("<sip:alice@10.0.0.1:5060;transport=tcp>;expires=3600"));
    let flow =
        Flow { connection: Some(ConnectionId(4)), ..Flow::dial(ListenerId(1), SERVER.parse().unwrap()) };
    table.receive_bytes(flow, answer(&first, 200, "r", "Expires: 600\r\n", None).as_bytes());
    assert_eq!(table.events(), [AgentEvent::Registered { account: ALICE, expires_s: 600 }]);
    table.event(Event::Closed(ConnectionId(5)));
    table.pass_s(10);
    assert!(table.sent().is_empty(), "another connection has no effect");
    table.event(Event::Closed(ConnectionId(4)));
    table.pass_s(3);
    assert_eq!(table.only().field("CSeq"), Some("2 REGISTER"));
}

#[test]
fn keep_alives_go_to_the_server_as_long_as_it_is_registered() {
    let mut account = account_at_server();
    account.keep_alive = Some(Duration::from_secs(20));
    let mut table = Table::with(account, |_| {});
    let first = register(&mut table);
    accept(&mut table, &first, 600);
    table.pass_s(61);
    let sent = table.sent();
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|sent| sent.text == "\r\n\r\n" && sent.to() == SERVER));
}

const INSTANCE: &str = "urn:uuid:00000000-0000-1000-8000-AABBCCDDEEFF";

/// Table of an account with an instance, and its first REGISTER.
fn with_flow() -> (Table, Sent) {
    let mut account = account_at_server();
    account.instance = Some(INSTANCE.into());
    let mut table = Table::with(account, |_| {});
    let first = register(&mut table);
    (table, first)
}

/// Accepts a REGISTER of a flow; these header lines are in the response.
fn accept_flow(table: &mut Table, request: &Sent, lines: &str) {
    let contact = request.field("Contact").unwrap();
    let fields = format!("Contact: {contact}\r\n{lines}");
    table.receive(SERVER, &answer(request, 200, "r", &fields, None));
    assert!(matches!(table.events().as_slice(), [AgentEvent::Registered { .. }]));
}

fn stun_request(sent: &Sent) -> Option<TransactionId> {
    let message = Message::parse(&sent.bytes).ok()?;
    (message.class() == Class::Request && sent.to() == SERVER).then(|| message.id())
}

fn stun_answer(id: TransactionId, mapped: &str) -> Vec<u8> {
    MessageWriter::new(Class::Success, METHOD_BINDING, id)
        .xor_mapped_address(mapped.parse().unwrap())
        .finish()
}

#[test]
fn an_account_with_an_instance_registers_its_flow() {
    let (_, first) = with_flow();
    let contact = format!("<sip:alice@10.0.0.1:5060>;+sip.instance=\"<{INSTANCE}>\";reg-id=1;expires=3600");
    assert_eq!(first.field("Contact"), Some(contact.as_str()));
    assert_eq!(first.field("Supported"), Some("path, outbound"));
    let mut account = account_at_server();
    for bad in ["", "x", "urn:a b", "urn:\"", "urn:\r\n"] {
        account.instance = Some(bad.into());
        let config = ringway_agent::Config::new(vec![account.clone()], Vec::new());
        let seed = ringway_sansio::Seed::from_number(1);
        let now = Table::at_server().now;
        assert!(ringway_agent::UserAgent::new(config, seed, now).is_err(), "{bad:?}");
    }
}

#[test]
fn behind_a_proxy_without_outbound_it_registers_its_contact() {
    let (mut table, first) = with_flow();
    table.receive(SERVER, &answer(&first, 439, "r", "", None));
    let second = table.only();
    assert_eq!(second.field("Contact"), Some("<sip:alice@10.0.0.1:5060>;expires=3600"));
    assert_eq!(second.field("Supported"), None);
    table.receive(SERVER, &answer(&second, 439, "r", "", None));
    assert!(table.sent().is_empty(), "it is refused once more");
}

#[test]
fn keep_alives_of_a_flow_are_stun_requests_and_a_new_address_is_registered() {
    let (mut table, first) = with_flow();
    accept_flow(&mut table, &first, "Require: outbound\r\n");
    table.pass_s(23);
    assert!(table.sent().is_empty());
    for mapped in ["198.51.100.7:1000", "198.51.100.7:1000"] {
        table.pass_s(8);
        let id = stun_request(&table.only()).unwrap();
        // From elsewhere, or with another ID, it says nothing.
        table.receive_bytes(crate::harness::udp("10.0.0.77:5060"), &stun_answer(id, "198.51.100.7:9"));
        table.receive_bytes(
            crate::harness::udp(SERVER),
            &stun_answer(TransactionId([0; 12]), "198.51.100.7:9"),
        );
        table.receive_bytes(crate::harness::udp(SERVER), &stun_answer(id, mapped));
        assert!(table.sent().is_empty());
        table.pass_s(20);
    }
    table.pass_s(10);
    let id = stun_request(&table.sent().remove(0)).unwrap();
    table.receive_bytes(crate::harness::udp(SERVER), &stun_answer(id, "198.51.100.7:2000"));
    assert_eq!(table.only().field("CSeq"), Some("2 REGISTER"), "the NAT has another port");
}

#[test]
fn a_flow_without_answers_is_registered_again() {
    let (mut table, first) = with_flow();
    accept_flow(&mut table, &first, "Require: outbound\r\nFlow-Timer: 10\r\n");
    table.pass_s(10);
    assert!(stun_request(&table.only()).is_some());
    table.pass_s(10);
    assert_eq!(table.sent().remove(0).field("CSeq"), Some("2 REGISTER"));
}

#[test]
fn a_registrar_without_outbound_gets_no_keep_alives() {
    let (mut table, first) = with_flow();
    accept_flow(&mut table, &first, "Supported: outbound\r\n");
    table.pass_s(300);
    assert!(table.sent().is_empty());
}

#[test]
fn without_a_server_it_goes_to_the_domain() {
    let account = Account { aor: "sip:alice@10.0.0.9".into(), ..Account::direct("") };
    let mut table = Table::with(account, |_| {});
    assert_eq!(register(&mut table).to(), SERVER);
    let account = Account { secret: Secret::None, ..Account::direct("sips:alice@x") };
    let config = ringway_agent::Config::new(vec![account], Vec::new());
    let seed = ringway_sansio::Seed::from_number(1);
    let error = ringway_agent::UserAgent::new(config, seed, table.now).err().unwrap();
    assert!(error.to_string().contains("needs TLS"), "{error}");
}

/// RFC 5630 §5.1.1.1: the Request-URI, From, To and Contact are `sips:` URIs without `transport=tls`.
#[test]
fn a_sips_account_registers_a_sips_contact_by_tls_only() {
    let sips = |transport| {
        let mut account = account_at_server();
        account.aor = "sips:alice@example.org".into();
        account.server.as_mut().unwrap().transport = transport;
        let tls = ringway_agent::Listener { transport: Transport::Tls, address: OWN.parse().unwrap() };
        Table::with(account, |config| config.listeners.push(tls))
    };
    let mut table = sips(Transport::Tls);
    let first = register(&mut table);
    assert_eq!((first.flow.transport, first.line()), (Transport::Tls, "REGISTER sips:example.org SIP/2.0"));
    assert_eq!(first.field("Contact"), Some("<sips:alice@10.0.0.1:5060>;expires=3600"));
    assert!(first.field("From").unwrap().starts_with("<sips:alice@example.org>;tag="));
    assert_eq!(first.field("To"), Some("<sips:alice@example.org>"));
    // Of two bindings, the own one has the expiry.
    let contacts =
        "Contact: <sip:alice@10.0.0.1:5060>;expires=70, <sips:alice@10.0.0.1:5060>;expires=600\r\n";
    table.receive_bytes(first.flow, answer(&first, 200, "r", contacts, None).as_bytes());
    assert_eq!(table.events(), [AgentEvent::Registered { account: ALICE, expires_s: 600 }]);

    let mut table = sips(Transport::Tcp);
    table.ask(|agent, cx| agent.register(cx, ALICE));
    assert!(table.sent().is_empty(), "never without TLS");
    let events = table.events();
    assert!(
        matches!(events.last(), Some(AgentEvent::RegistrationFailed { reason, .. }) if reason.contains("needs TLS")),
        "{events:?}"
    );
}
