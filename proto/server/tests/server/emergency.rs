//! Tests of emergency calls: above every limit, with the number and the location of their site; and what a stranger can make of them.

use crate::challenge::{Login, answered, proven};
use crate::ends::nothing_is_left;
use crate::harness::{
    ALICE, BOB, Request, STRANGER, Sent, Wire, World, config, invite, only, requests, statuses, tcp_flow,
};
use crate::routes::{CARRIER_A, CARRIER_B, carriers, to_trunks, trunk};
use ringway_sansio::{Flow, Transport};
use ringway_server::{
    BlockPattern, CallerLimits, CallerNumber, Config, Destination, DestinationRule, DestinationRules,
    Emergency, EmergencyNumber, EmergencySite, RouteMatch, RouteTable, TrunkLimits,
};
use std::time::Duration;

const RESCUE: &str = "198.51.100.9:5060";

fn number(dialled: &str) -> EmergencyNumber {
    EmergencyNumber { dialled: dialled.into(), sent: dialled.into() }
}

/// Two carriers for calls, a third one for emergency calls before the first, and passwords.
pub(crate) fn rescue(config: &mut Config) {
    carriers(config);
    config.auth.enabled = true;
    config.trunking.trunks.edit().push(trunk("rescue", RESCUE));
    config.trunking.trunks.edit()[2].caller = CallerNumber::Number("+4930999".into());
    config.trunking.emergency = Emergency {
        numbers: vec![number("112"), EmergencyNumber { dialled: "0112".into(), sent: "112".into() }],
        services: vec![("sos.police".into(), "110".into())],
        trunks: vec![2, 0],
        sites: vec![EmergencySite {
            name: "berlin".into(),
            networks: vec!["192.0.2.0/27".parse().unwrap()],
            caller: Some("+4930111".into()),
            location: Some("https://lis.example.org/berlin".into()),
            ..EmergencySite::default()
        }],
        ..Emergency::default()
    };
}

fn call(uri: &str, id: &str) -> Request {
    invite(uri).call_id(id)
}

fn only_request(sent: Vec<Sent>) -> Sent {
    only(requests(sent))
}

#[test]
fn a_user_reaches_the_trunk_of_emergency_calls_with_its_place() {
    for (uri, expected) in [
        ("sip:112@example.org", "112"),
        ("sip:0112@example.org", "112"),
        ("tel:112;phone-context=example.org", "112"),
        ("tel:112;phone-context=+49", "112"),
        ("sip:112;phone-context=+49@example.org;user=phone", "112"),
        ("urn:service:sos", "112"),
        ("urn:service:sos.police", "110"),
        ("urn:service:sos.fire", "112"),
    ] {
        let mut world = World::with(rescue);
        let request = call(uri, "1").line("Priority: emergency").line("Resource-Priority: esnet.1");
        let sent = only_request(proven(&mut world, ALICE, &request, "alice"));
        let target = format!("sip:{expected}@{RESCUE};user=phone");
        assert_eq!((sent.to(), sent.uri()), (RESCUE.to_owned(), target), "{uri}");
        assert_eq!(sent.header("P-Asserted-Identity"), "<sip:+4930111@198.51.100.9;user=phone>");
        assert_eq!(sent.header("Geolocation"), "<https://lis.example.org/berlin>");
        assert_eq!(
            (sent.header("Priority"), sent.header("Resource-Priority")),
            ("emergency".into(), "esnet.1".into())
        );
        assert_eq!(world.server.counters().emergency_calls, 1);
        world.udp(RESCUE, &sent.answer(486, &[]));
        nothing_is_left(&mut world, uri);
    }
}

#[test]
fn a_phone_elsewhere_has_its_users_place_or_the_number_of_the_trunk_and_keeps_its_own_location() {
    let mut world = World::with(|config| {
        rescue(config);
        config.trunking.emergency.sites[0].users = vec!["bob@example.org".into()];
    });
    let mut request = call("sip:112@example.org", "1");
    request.from = request.from.replace("alice", "bob");
    let sent = only_request(proven(&mut world, STRANGER, &request, "bob"));
    assert!(sent.header("P-Asserted-Identity").contains("+4930111"), "{}", sent.text());
    let request = call("sip:112@example.org", "2").line("Geolocation: <https://phone.example/me>");
    let sent = only_request(proven(&mut world, STRANGER, &request, "alice"));
    assert!(sent.header("P-Asserted-Identity").contains("+4930999"), "{}", sent.text());
    assert_eq!(sent.headers("Geolocation"), ["<https://phone.example/me>"]);
    let request = call("sip:112@example.org", "3").line("Geolocation: <https://phone.example/me>");
    let sent = only_request(proven(&mut world, ALICE, &request, "alice"));
    assert_eq!(sent.headers("Geolocation"), ["<https://phone.example/me>"], "not two of them");
}

/// Everything that refuses calls is at its limit, and the user forwards and is blocked.
#[test]
fn no_limit_rule_block_or_forward_keeps_an_emergency_call() {
    let one = TrunkLimits { under_way: Some(1), per_second: None };
    let mut config = config();
    rescue(&mut config);
    config.caller_limits = CallerLimits { of_user: one, of_domain: one, ..CallerLimits::default() };
    config.trunking.trunks.edit()[2].call_limits = Some(one);
    let deny = |prefix: &str| Destination { prefix: prefix.into(), rule: DestinationRule::Deny };
    config.trunking.destinations = DestinationRules::new(vec![deny("1")]).unwrap();
    let routes = vec![to_trunks(RouteMatch::Prefix("+".into()), &[2])];
    config.trunking.routes = RouteTable::new(routes).unwrap();
    let mut world = World::at(config, 4);
    world.add_user("112", "example.org", "x");
    // The limit of the user, of the domain, and of the trunk.
    let sent = only_request(proven(&mut world, ALICE, &call("sip:+441@example.org", "1"), "alice"));
    assert_eq!(sent.to(), RESCUE);
    world.pass(Duration::from_secs(1));
    let refused = proven(&mut world, ALICE, &call("sip:+442@example.org", "2"), "alice");
    assert_eq!(only(refused).status(), 403, "Too Many Calls");
    // The rate of the source.
    while world.server.counters().over_rate == 0 {
        world.udp(ALICE, &call("sip:+443@example.org", "3"));
    }
    // A block of the caller.
    world
        .memory
        .tables()
        .change_blocks(|blocks| blocks.set_all([BlockPattern::caller("alice@example.org").unwrap()]));
    let sent = only_request(proven(&mut world, ALICE, &call("sip:112@example.org", "4"), "alice"));
    assert_eq!((sent.to(), sent.uri().contains("112")), (RESCUE.to_owned(), true));
    assert_eq!(world.server.counters().over_rate_emergencies, 2, "with and without the password");
    // The ACK and the BYE of the call pass too.
    let answer = sent.answer_tagged(200, "theirs", &[&format!("Contact: <sip:112@{RESCUE}>")]);
    let answer = only(world.udp(RESCUE, &answer));
    for (cseq, method) in [(2, "ACK"), (3, "BYE")] {
        let mut request =
            crate::harness::request(method, &format!("sip:112@{RESCUE}")).call_id("4").cseq(cseq);
        (request.from, request.to) = (answer.header("From"), answer.header("To"));
        let request = request.line(&format!("Route: {}", answer.header("Record-Route")));
        assert_eq!(only_request(world.udp(ALICE, &request)).to(), RESCUE, "{method}");
    }
}

/// The trunk fails in some way: the next one gets the call, also if the first one is down or refuses it.
#[test]
fn the_next_trunk_gets_a_call_that_the_first_one_refuses() {
    for status in [403, 404, 486, 500, 503] {
        let mut world = World::with(rescue);
        let sent = only_request(proven(&mut world, ALICE, &call("sip:112@example.org", "1"), "alice"));
        let sent = requests(world.udp(RESCUE, &sent.answer(status, &[])));
        let next = only(sent.into_iter().filter(|sent| sent.method() == "INVITE").collect());
        assert_eq!(next.to(), CARRIER_A, "{status}");
        let answered = world.udp(CARRIER_A, &next.answer(200, &[&format!("Contact: <sip:112@{CARRIER_A}>")]));
        assert_eq!(statuses(&answered), [200]);
    }
}

#[test]
fn a_stranger_gets_no_emergency_call_unless_its_network_is_listed() {
    for uri in ["sip:112@example.org", "urn:service:sos"] {
        let mut world = World::with(rescue);
        let mut request = call(uri, "1");
        request.from = "<sip:x@elsewhere.example>;tag=1".into();
        let sent = world.udp(STRANGER, &request);
        assert!(requests(sent.clone()).is_empty() && (400..500).contains(&only(sent).status()), "{uri}");
        // A wrong password, and a carrier.
        let challenge = only(world.udp(STRANGER, &call(uri, "2")));
        let login = Login { password: "wrong".into(), ..Login::to(&challenge, "alice") };
        assert_eq!(only(world.udp(STRANGER, &answered(&call(uri, "2"), &login))).status(), 407);
        assert!(requests(world.udp(CARRIER_B, &call(uri, "3"))).is_empty(), "from trunk to trunk");
        assert_eq!(world.server.counters().emergency_calls, 0);
    }
    let mut world = World::with(|config| {
        rescue(config);
        config.trunking.emergency.strangers = vec!["203.0.113.0/24".parse().unwrap()];
        config.trunking.emergency.sites[0].networks = vec!["203.0.113.0/24".parse().unwrap()];
    });
    let mut request = call("urn:service:sos", "1").line("P-Asserted-Identity: <sip:chief@example.org>");
    request.from = "\"Boss\" <sip:bob@example.org>;tag=1".into();
    let sent = only_request(world.udp(STRANGER, &request));
    let asserted = sent.headers("P-Asserted-Identity");
    assert_eq!(asserted, ["<sip:+4930111@198.51.100.9;user=phone>"], "its site, and nothing of its own");
    assert!(requests(world.udp(STRANGER, &call("sip:+441@example.org", "2"))).is_empty(), "no other call");
    let page = Flow { transport: Transport::Ws, ..tcp_flow(7, STRANGER) };
    let sent = world.message(page, &call("sip:112@example.org", "3").tcp().wire());
    assert!(requests(sent).is_empty(), "nor does a page of some site in a browser there");
}

/// One source may begin so many emergency calls, and so many more requests for them beyond its rate.
#[test]
fn a_flood_of_emergency_calls_has_its_own_bound() {
    let mut config = config();
    rescue(&mut config);
    let mut world = World::at(config, 30);
    let challenge = only(world.udp(ALICE, &call("sip:112@example.org", "0")));
    let mut login = Login::to(&challenge, "alice");
    let mut begun = 0;
    for number in 1..100 {
        let request = call("sip:112@example.org", &format!("{number}"));
        let request = Request { via: format!("SIP/2.0/UDP {ALICE};branch=z9hG4bKf{number}"), ..request };
        login = login.nc(number);
        begun += requests(world.udp(ALICE, &answered(&request, &login))).len();
    }
    assert_eq!(begun, 10);
    let counters = world.server.counters();
    assert_eq!((counters.emergency_calls, counters.over_rate_emergencies), (10, 20));
    assert!(counters.emergency_calls_refused >= 20, "{}", counters.emergency_calls_refused);
    // Another one is not affected.
    let mut request = call("sip:112@example.org", "other");
    request.from = request.from.replace("alice", "bob");
    assert_eq!(only_request(proven(&mut world, BOB, &request, "bob")).to(), RESCUE);
}

#[test]
fn without_the_section_nothing_is_an_emergency_call() {
    let mut world = World::with(|config| {
        carriers(config);
        config.auth.enabled = true;
    });
    assert_eq!(only(proven(&mut world, ALICE, &call("sip:112@example.org", "1"), "alice")).status(), 404);
    assert_eq!(only(world.udp(ALICE, &call("urn:service:sos", "2"))).status(), 416);
    let mut world = World::with(rescue);
    let options = crate::harness::request("OPTIONS", "urn:service:sos");
    assert_eq!(only(world.udp(ALICE, &options)).status(), 416);
}
