//! RFC 3263 §4, by hand: tested are NAPTR with preferences and foreign services, SRV with weights, denial, and absence,
//! address families, determinism for stateless proxies (§4.4), and answers of any size.

use super::*;
use alloc::string::{String, ToString};
use alloc::vec;
use core::net::Ipv4Addr;

fn target(host: &str) -> Target {
    Target { host: host.into(), port: None, transport: None, is_sips: false, draw: 7, source: None }
}

fn usable() -> Usable {
    [Transport::Udp, Transport::Tcp, Transport::Tls]
        .into_iter()
        .fold(Usable::default(), |usable, transport| usable.with(transport, true))
}

fn srv(priority: u16, weight: u16, port: u16, target: &str) -> Srv<'_> {
    Srv { priority, weight, port, target }
}

fn naptr<'r>(order: u16, service: &'r str, replacement: &'r str) -> Naptr<'r> {
    Naptr { order, preference: 50, flags: "s", service, regexp: "", replacement }
}

fn asked(locator: &Locator) -> String {
    match locator.question() {
        Some(Question::Naptr(name)) => ["naptr ", &name].concat(),
        Some(Question::Srv(name)) => ["srv ", &name].concat(),
        Some(Question::Addresses(name)) => ["addresses ", &name].concat(),
        None => String::new(),
    }
}

fn ip(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))
}

fn found(locator: Locator) -> Vec<String> {
    let servers = locator.into_servers(HostNameId(3));
    assert!(servers.iter().all(|server| (server.host == HostNameId(3)) == server.transport.is_stream()));
    servers.iter().map(|it| [it.transport.name(), " ", &it.address.to_string()].concat()).collect()
}

#[test]
fn naptr_records_choose_the_transport_and_the_name() {
    let mut locator = Locator::new(target("example.com"), usable());
    assert_eq!(asked(&locator), "naptr example.com");
    locator.on_naptr([
        naptr(100, "SIP+D2U", "_sip._udp.example.com"),
        naptr(50, "SIPS+D2T", "_sips._tcp.example.net"),
        naptr(10, "E2U+sip", "ignored.example"),
    ]);
    assert_eq!(asked(&locator), "srv _sips._tcp.example.net");
    locator.on_srv([srv(0, 1, 5061, "a.example.net"), srv(1, 1, 5062, "b.example.net")]);
    assert_eq!(asked(&locator), "addresses a.example.net");
    locator.on_addresses([ip(1), ip(2)]);
    assert_eq!(asked(&locator), "addresses b.example.net");
    locator.on_addresses([ip(3)]);
    assert_eq!(asked(&locator), "");
    assert_eq!(found(locator), ["tls 192.0.2.1:5061", "tls 192.0.2.2:5061", "tls 192.0.2.3:5062"]);
}

#[test]
fn a_service_without_records_leads_to_the_next_one() {
    let mut locator = Locator::new(target("example.com"), usable());
    locator.on_naptr([
        naptr(1, "SIP+D2T", "_sip._tcp.example.com"),
        naptr(2, "SIP+D2U", "_sip._udp.example.com"),
    ]);
    locator.on_srv([]);
    assert_eq!(asked(&locator), "srv _sip._udp.example.com");
    locator.on_srv([srv(0, 0, 5060, "a.example.com")]);
    locator.on_addresses([ip(1)]);
    assert_eq!(found(locator), ["udp 192.0.2.1:5060"]);
}

#[test]
fn without_naptr_each_transport_is_asked_and_then_the_host() {
    let mut locator = Locator::new(target("example.com"), usable());
    locator.on_naptr([]);
    for service in ["_sip._udp", "_sip._tcp", "_sips._tcp"] {
        assert_eq!(asked(&locator), ["srv ", service, ".example.com"].concat());
        locator.on_srv([]);
    }
    assert_eq!(asked(&locator), "addresses example.com");
    locator.on_addresses([ip(9)]);
    assert_eq!(found(locator), ["udp 192.0.2.9:5060"]);
}

#[test]
fn a_port_or_an_address_in_the_uri_skips_records() {
    let locator = Locator::new(Target { port: Some(5070), ..target("example.com") }, usable());
    assert_eq!(asked(&locator), "addresses example.com");
    let locator = Locator::new(Target { is_sips: true, ..target("192.0.2.7") }, usable());
    assert_eq!(asked(&locator), "");
    assert_eq!(found(locator), ["tls 192.0.2.7:5061"]);
    let locator = Locator::new(Target { transport: Some(Transport::Tcp), ..target("example.com") }, usable());
    assert_eq!(asked(&locator), "srv _sip._tcp.example.com");
}

#[test]
fn sips_takes_secure_services_only() {
    let mut locator = Locator::new(Target { is_sips: true, ..target("example.com") }, usable());
    locator.on_naptr([naptr(1, "SIP+D2U", "_sip._udp.example.com")]);
    assert_eq!(asked(&locator), "", "the domain has no secure service");
    assert!(found(locator).is_empty());
    let mut locator = Locator::new(Target { is_sips: true, ..target("example.com") }, usable());
    locator.on_naptr([]);
    locator.on_srv([]);
    locator.on_addresses([ip(1)]);
    assert_eq!(found(locator), ["tls 192.0.2.1:5061"]);
}

#[test]
fn a_dot_as_target_denies_the_service() {
    let mut locator =
        Locator::new(Target { transport: Some(Transport::Udp), ..target("example.com") }, usable());
    locator.on_srv([srv(0, 0, 0, ".")]);
    assert_eq!(asked(&locator), "", "no fall-back to the addresses of the domain");
    assert!(found(locator).is_empty());
}

#[test]
fn servers_that_no_listener_reaches_are_left_out() {
    let v6_too = Usable::default().with(Transport::Udp, true).with(Transport::Tcp, false);
    let mut locator = Locator::new(target("example.com"), v6_too);
    locator.on_naptr([]);
    locator.on_srv([srv(0, 0, 5060, "a.example.com")]);
    locator.on_addresses(["2001:db8::1".parse().unwrap(), ip(1)]);
    assert_eq!(found(locator), ["udp 192.0.2.1:5060"]);
}

#[test]
fn weights_share_the_first_choice() {
    let records = [srv(1, 0, 1, "c"), srv(0, 30, 1, "a"), srv(0, 10, 1, "b")];
    let first = |draw: u64| {
        let mut rng = Rng::new(&Seed::from_number(draw));
        let ranked = by_priority(records, &mut rng).unwrap();
        assert_eq!(ranked.len(), 3);
        assert_eq!(&*ranked[2].host, "c", "the higher number comes last");
        &*ranked[0].host == "a"
    };
    let chosen = (0..4000).filter(|&draw| first(draw)).count();
    assert!((2800..3300).contains(&chosen), "{chosen} of 4000; a seed each, so always the same number");
}

#[test]
fn one_draw_gives_one_order() {
    let order = |draw: u64| {
        let records = (1..=9).map(|port| srv(0, 10, port, "host"));
        let ranked = by_priority(records, &mut Rng::new(&Seed::from_number(draw))).unwrap();
        ranked.into_iter().map(|it| it.port).collect::<Vec<_>>()
    };
    assert_eq!(order(5), order(5));
    assert_ne!(order(5), order(6));
}

#[test]
fn ten_thousand_records_give_few_questions() {
    let mut locator = Locator::new(target("example.com"), usable());
    locator.on_naptr((0..10_000).map(|order| naptr(order, "SIP+D2U", "_sip._udp.example.com")));
    locator.on_srv((0..10_000).rev().map(|priority| srv(priority, 1, 5060, "a.example.com")));
    let mut questions = 2;
    while let Some(question) = locator.question() {
        assert!(matches!(question, Question::Addresses(_)));
        locator.on_addresses([]);
        questions += 1;
    }
    assert_eq!(questions, Locator::QUESTIONS_MAX);
    assert!(found(locator).is_empty());
    let mut locator = Locator::new(Target { port: Some(5060), ..target("example.com") }, usable());
    locator.on_addresses((0..10_000).map(|number| ip((number % 250) as u8)));
    assert_eq!(found(locator).len(), LocatedServers::MAX);
}

#[test]
fn names_that_no_dns_can_have_end_the_search() {
    for host in [String::new(), "x".repeat(300), ".".to_string()] {
        assert_eq!(Locator::new(target(&host), usable()).question(), None);
    }
    let mut locator = Locator::new(target("example.com"), usable());
    let long = "x".repeat(300);
    locator.on_naptr([naptr(1, "SIP+D2U", &long)]);
    assert_eq!(locator.question(), None);
    let answers = vec![srv(0, 0, 0, "no-port.example"), srv(0, 0, 5060, &long)];
    let mut locator =
        Locator::new(Target { transport: Some(Transport::Udp), ..target("example.com") }, usable());
    locator.on_srv(answers);
    assert_eq!(asked(&locator), "addresses example.com");
}
