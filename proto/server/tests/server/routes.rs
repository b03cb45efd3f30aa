//! Tests of routes: numbers, `tel:` URIs and domains, and who may use them.

use crate::challenge::{Login, answered};
use crate::harness::{
    ALICE, BOB, EDGE, Request, STRANGER, Sent, World, config, forwarded, invite, only, register, request,
    requests, statuses,
};
use ringway_server::{
    CallerNumber, CallerPrivacy, Config, Destination, DestinationRule, DestinationRules, NumberChange,
    NumberForm, Rate, RatePrefix, RateTable, Route, RouteMatch, RouteTable, RouteTo, Trunk, WeightedTrunk,
};
use std::time::Duration;

/// Addresses of the trunks.
pub(crate) const CARRIER_A: &str = "198.51.100.1:5060";
pub(crate) const CARRIER_B: &str = "198.51.100.2:5060";

/// Trunk at this address, without health checks.
pub(crate) fn trunk(name: &str, address: &str) -> Trunk {
    Trunk {
        networks: vec![address.split(':').next().unwrap().parse().unwrap()],
        ..Trunk::at(name, &format!("sip:{address}"))
    }
}

/// Route to these trunks in order.
pub(crate) fn to_trunks(matches: RouteMatch, trunks: &[u16]) -> Route {
    let trunks = trunks.iter().map(|&trunk| WeightedTrunk { trunk, weight: 0 }).collect();
    Route { matches, to: RouteTo::Trunks { trunks, change: NumberChange::default() } }
}

pub(crate) fn prefix(text: &str) -> RouteMatch {
    RouteMatch::Prefix(text.into())
}

/// Two carriers for all numbers with a `+`, and for the domain other.example.
pub(crate) fn carriers(config: &mut Config) {
    config.trunking.trunks = vec![trunk("carrier-a", CARRIER_A), trunk("carrier-b", CARRIER_B)].into();
    let change = NumberChange { strip: 1, add: "+49".into() };
    let national =
        RouteTo::Trunks { trunks: [WeightedTrunk { trunk: 0, weight: 0 }].as_slice().into(), change };
    let routes = vec![
        to_trunks(prefix("+"), &[0, 1]),
        Route { matches: RouteMatch::Pattern("0[1-9]*".into()), to: national },
        Route { matches: prefix("+4930123"), to: RouteTo::User("bob".into()) },
        to_trunks(RouteMatch::Domain("other.example".into()), &[0, 1]),
    ];
    config.trunking.routes = RouteTable::new(routes).unwrap();
}

/// Routes all numbers to the first trunk alone.
pub(crate) fn only_first(config: &mut Config) {
    config.trunking.trunks.edit().truncate(1);
    config.trunking.routes = RouteTable::new(vec![to_trunks(prefix("+"), &[0])]).unwrap();
}

fn closed_carriers(config: &mut Config) {
    carriers(config);
    config.auth.enabled = true;
}

/// Requests of `sent` to the carriers.
fn at_carriers(sent: Vec<Sent>) -> Vec<Sent> {
    let is_carrier = |sent: &Sent| [CARRIER_A, CARRIER_B].contains(&sent.to().as_str());
    requests(sent).into_iter().filter(is_carrier).collect()
}

#[test]
fn a_number_goes_to_its_trunk_by_the_longest_match() {
    for (uri, at_trunk) in [
        ("sip:+441234@example.org", "sip:+441234@198.51.100.1:5060;user=phone"),
        ("sip:+44-12.34@example.org;user=phone", "sip:+441234@198.51.100.1:5060;user=phone"),
        ("sip:0301234@example.org", "sip:+49301234@198.51.100.1:5060;user=phone"),
        ("tel:+44-1234;ext=2", "sip:+441234@198.51.100.1:5060;user=phone"),
        ("sip:+441234;npdi;rn=+44999@example.org", "sip:+441234@198.51.100.1:5060;user=phone"),
        ("tel:1234;phone-context=+44", "sip:+441234@198.51.100.1:5060;user=phone"),
        ("tel:0301234;phone-context=example.org", "sip:+49301234@198.51.100.1:5060;user=phone"),
    ] {
        let mut world = World::with(carriers);
        let sent = forwarded(world.udp(ALICE, &invite(uri)));
        assert_eq!((sent.to().as_str(), sent.uri().as_str()), (CARRIER_A, at_trunk), "{uri}");
        assert_eq!(world.server.counters().trunk_requests, 1);
    }
    for uri in [
        "sip:00491@example.org",
        "sip:1234@example.org",
        "sip:+44123a@example.org",
        "tel:0301234;phone-context=elsewhere.example",
        "tel:123456789012345678901234567890123",
        "tel:+",
    ] {
        let mut world = World::with(carriers);
        assert_eq!(only(world.udp(ALICE, &invite(uri))).status(), 404, "{uri}");
    }
}

/// Both carriers have rates; the second one is cheaper in Germany.
fn with_rates(config: &mut Config) {
    carriers(config);
    let rates = [("44", 0, 10), ("44", 1, 20), ("49", 0, 10), ("4930", 1, 5)];
    let rate = |(prefix, trunk, cost): (&str, u16, u64)| Rate {
        prefix: RatePrefix::parse(prefix.as_bytes()).unwrap(),
        trunk,
        cost,
    };
    config.trunking.rates = RateTable::new(rates.map(rate).to_vec());
    let national = NumberChange { strip: 1, add: "+49".into() };
    let routes = vec![
        Route { matches: prefix("+"), to: RouteTo::ByCost(NumberChange::default()) },
        Route { matches: RouteMatch::Pattern("0[1-9]*".into()), to: RouteTo::ByCost(national) },
    ];
    config.trunking.routes = RouteTable::new(routes).unwrap();
}

#[test]
fn a_route_by_cost_calls_the_cheapest_trunk_and_then_the_next() {
    for (uri, trunks) in [
        ("sip:+441@example.org", [CARRIER_A, CARRIER_B].as_slice()),
        ("sip:+4930123@example.org", &[CARRIER_B, CARRIER_A]),
        ("sip:030123@example.org", &[CARRIER_B, CARRIER_A]),
        ("sip:+4989123@example.org", &[CARRIER_A]),
    ] {
        let mut world = World::with(with_rates);
        let invites = |sent| at_carriers(sent).into_iter().filter(|sent| sent.method() == "INVITE").collect();
        let mut sent: Vec<Sent> = invites(world.udp(ALICE, &invite(uri)));
        for trunk in trunks {
            let at_trunk = only(sent);
            assert_eq!(at_trunk.to(), *trunk, "{uri}");
            sent = invites(world.udp(trunk, &at_trunk.answer(503, &[])));
        }
        assert!(sent.is_empty(), "{uri}: no other trunk has a rate");
        let failovers = trunks.len() as u64 - 1;
        assert_eq!(world.server.counters().trunk_failovers, failovers, "{uri}");
    }
    let mut world = World::with(with_rates);
    assert_eq!(only(world.udp(ALICE, &invite("sip:+331@example.org"))).status(), 404, "no rate");
}

#[test]
fn without_routes_a_tel_uri_is_refused_and_a_number_is_a_user() {
    let mut world = World::open();
    assert_eq!(only(world.udp(ALICE, &invite("tel:+441234"))).status(), 416);
    assert_eq!(only(world.udp(ALICE, &invite("sip:+441234@example.org").call_id("2"))).status(), 404);
    let mut world = World::with(carriers);
    let register = register("bob", "<sip:bob@192.0.2.20>");
    let of_number = Request { uri: "tel:+441234".into(), ..register };
    assert_eq!(only(world.udp(BOB, &of_number)).status(), 416);
}

#[test]
fn a_subscriber_with_a_number_takes_no_route() {
    let mut world = World::with(carriers);
    world.register("+441234", BOB, "<sip:+441234@192.0.2.20>");
    for (call, uri) in ["sip:+441234@example.org", "tel:+44-1234"].into_iter().enumerate() {
        let sent = forwarded(world.udp(ALICE, &invite(uri).call_id(&format!("call {call}"))));
        assert_eq!((sent.to().as_str(), sent.uri().as_str()), (BOB, "sip:+441234@192.0.2.20"));
    }
    world.add_user("+449", "example.org", "a password");
    assert_eq!(only(world.udp(ALICE, &invite("sip:+449@example.org"))).status(), 480, "not registered");
    assert_eq!(world.server.counters().trunk_requests, 0);
}

#[test]
fn a_domain_goes_to_its_trunk_as_it_is_and_another_one_by_dns() {
    let mut world = World::with(carriers);
    let sent = forwarded(world.udp(ALICE, &invite("sip:carol@OTHER.example;x=y")));
    assert_eq!((sent.to().as_str(), sent.uri().as_str()), (CARRIER_A, "sip:carol@OTHER.example;x=y"));
    assert_eq!(sent.header("Route"), "<sip:198.51.100.1:5060;lr>");
    world.udp(ALICE, &invite("sip:carol@third.example").call_id("2"));
    assert_eq!(&*world.lookups[0].1.host, "third.example");
}

#[test]
fn a_route_to_a_user_is_an_alias_for_everybody() {
    for from in [ALICE, CARRIER_A, STRANGER] {
        let mut world = World::with(closed_carriers);
        let request = invite("sip:+4930123@example.org").from("sip:+441@carrier.example");
        let own = forwarded(world.udp(from, &request));
        assert_eq!(
            (own.uri().as_str(), own.to().as_str()),
            ("sip:bob@example.org", "192.0.2.1:5060"),
            "{from}"
        );
        assert_eq!(world.server.counters().trunk_requests, 0);
    }
}

#[test]
fn nobody_without_a_password_reaches_a_trunk() {
    let targets = [
        "sip:+441234@example.org",
        "tel:+441234",
        "sip:carol@other.example",
        "sip:0301@example.org;user=phone",
    ];
    for source in [STRANGER, ALICE, CARRIER_A, CARRIER_B] {
        for from in ["sip:alice@example.org", "sip:x@elsewhere.example", "tel:+4412", "sip:+49@198.51.100.1"]
        {
            for target in targets {
                for method in ["INVITE", "MESSAGE", "OPTIONS", "BYE", "ACK", "CANCEL", "REFER", "SUBSCRIBE"] {
                    for strangers in [ringway_server::Strangers::Call, ringway_server::Strangers::All] {
                        let mut world = World::with(|config| {
                            closed_carriers(config);
                            config.auth.strangers = strangers;
                        });
                        let sent = world.udp(source, &request(method, target).from(from));
                        assert!(at_carriers(sent).is_empty(), "{method} {target} of {from} at {source}");
                        assert!(at_carriers(world.pass(Duration::from_secs(40))).is_empty());
                    }
                }
            }
        }
    }
}

#[test]
fn a_user_with_a_password_reaches_a_trunk() {
    let mut world = World::with(closed_carriers);
    let call = invite("tel:+44-1234");
    let challenge = only(world.udp(ALICE, &call));
    assert_eq!(challenge.status(), 407);
    let login = Login::to(&challenge, "alice");
    let sent = forwarded(world.udp(ALICE, &answered(&call, &login)));
    assert_eq!(sent.to(), CARRIER_A);
    assert!(sent.headers("Proxy-Authorization").is_empty(), "the user's credentials stay here");
}

#[test]
fn a_trunk_reaches_our_users_and_no_trunk() {
    let mut world = World::with(|config| {
        closed_carriers(config);
        // Also if its address is that of a trusted proxy.
        config.auth.trusted.push("198.51.100.0/24".parse().unwrap());
    });
    let call = |uri: &str, id: &str| invite(uri).from("sip:alice@example.org").call_id(id);
    assert_eq!(only(world.udp(CARRIER_B, &call("sip:+441234@example.org", "1"))).status(), 404);
    assert_eq!(only(world.udp(CARRIER_B, &call("sip:x@other.example", "2"))).status(), 403);
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    let identity = "P-Asserted-Identity: <tel:+441>";
    let sent = forwarded(world.udp(CARRIER_B, &call("sip:bob@example.org", "3").line(identity)));
    assert_eq!((sent.to().as_str(), sent.header("P-Asserted-Identity").as_str()), (BOB, "<tel:+441>"));
}

#[test]
fn the_callers_number_is_asserted_and_the_phones_is_not_believed() {
    let claim = "P-Asserted-Identity: <sip:+1@claimed.example>";
    let numbers = || vec![("alice".into(), "+49301".into()), ("bob".into(), "+49302".into())];
    let number = CallerNumber::Number("+4930".into());
    for (caller, callers, privacy, identity) in [
        (CallerNumber::User, vec![], CallerPrivacy::None, "<sip:alice@example.org>"),
        (CallerNumber::User, numbers(), CallerPrivacy::Id, "<sip:+49301@198.51.100.1;user=phone>"),
        (number.clone(), vec![], CallerPrivacy::None, "<sip:+4930@198.51.100.1;user=phone>"),
        (number, numbers(), CallerPrivacy::Id, "<sip:+49301@198.51.100.1;user=phone>"),
    ] {
        let mut world = World::with(|config| {
            carriers(config);
            config.trunking.trunks.edit()[0].caller = caller.clone();
            config.trunking.trunks.edit()[0].callers = callers.clone();
            config.trunking.trunks.edit()[0].privacy = privacy;
        });
        let call =
            invite("sip:+441234@example.org").line(claim).line("Remote-Party-ID: <sip:+1@claimed.example>");
        let sent = forwarded(world.udp(ALICE, &call));
        assert_eq!(sent.header("P-Asserted-Identity"), identity);
        assert!(sent.headers("Remote-Party-ID").is_empty());
        assert_eq!(sent.headers("Privacy").is_empty(), privacy == CallerPrivacy::None);
        assert_eq!(sent.header("From"), call.from, "From is the caller's");
    }
    // The identity that a trusted proxy asserts is believed.
    let mut world = World::with(|config| {
        closed_carriers(config);
        config.trunking.trunks.edit()[0].privacy = CallerPrivacy::Id;
    });
    let sent = forwarded(world.udp(EDGE, &invite("sip:+441234@example.org").line(claim)));
    assert_eq!(sent.header("P-Asserted-Identity"), "<sip:+1@claimed.example>");
    assert_eq!(sent.header("Privacy"), "id");
}

#[test]
fn a_user_part_with_escapes_has_the_number_of_its_user() {
    let mut world = World::with(|config| {
        carriers(config);
        config.trunking.trunks.edit()[0].callers = vec![("alice".into(), "+49301".into())];
    });
    let sent = forwarded(world.udp(ALICE, &invite("sip:+441@example.org").from("sip:%61lice@example.org")));
    assert_eq!(sent.header("P-Asserted-Identity"), "<sip:+49301@198.51.100.1;user=phone>");
}

fn with_rules(config: &mut Config) {
    carriers(config);
    let rule = |prefix: &str, rule| Destination { prefix: prefix.into(), rule };
    let rules = vec![rule("+", DestinationRule::PerHour(3)), rule("+881", DestinationRule::Deny)];
    config.trunking.destinations = DestinationRules::new(rules).unwrap();
}

#[test]
fn destination_rules_see_the_number_that_the_trunk_gets() {
    let mut world = World::with(with_rules);
    for (uri, status) in [
        ("sip:+8811@example.org", 403),
        ("tel:+88-1-1", 403),
        ("sip:+8811@other.example", 403),
        ("sip:+88-11@example.org;user=phone", 403),
        ("sip:+88-11@other.example", 403),
        ("sip:+88%31%31;x=y@other.example", 403),
        ("sip:+8811,1@other.example", 403),
        ("sip:%2b8811aaaaaaaaaaaa@other.example", 403),
        ("sip:+88110000000000000000000000000000000000@other.example", 403),
    ] {
        assert_eq!(only(world.udp(ALICE, &invite(uri).call_id(uri))).status(), status, "{uri}");
    }
    assert_eq!(world.server.counters().destination_refusals, 9);
    let events = world.memory.events.lock().unwrap();
    assert!(events.iter().any(|event| event == "alice@example.org may not call +8811 (+881)"), "{events:?}");
}

/// One trunk that gets all numbers of a route, and these rules.
fn one_route(config: &mut Config, matches: &str, change: NumberChange, rules: &[(&str, DestinationRule)]) {
    carriers(config);
    config.trunking.trunks.edit().truncate(1);
    let trunks = [WeightedTrunk { trunk: 0, weight: 0 }].as_slice().into();
    let route = Route { matches: prefix(matches), to: RouteTo::Trunks { trunks, change } };
    config.trunking.routes = RouteTable::new(vec![route]).unwrap();
    let rules = rules.iter().map(|&(prefix, rule)| Destination { prefix: prefix.into(), rule });
    config.trunking.destinations = DestinationRules::new(rules.collect()).unwrap();
}

/// True for users that reach the trunk.
fn reach(world: &mut World, users: &[&str]) -> Vec<bool> {
    let reaches = |user: &&str| {
        let uri = format!("sip:{}@example.org", user.replace('#', "%23"));
        !at_carriers(world.udp(ALICE, &invite(&uri).call_id(&uri))).is_empty()
    };
    users.iter().map(reaches).collect()
}

/// A route makes `+` of an international prefix; what follows it may be another one, or a service code.
#[test]
fn a_plus_before_another_prefix_or_a_service_code_passes_no_rule() {
    let [country, national, international] = ["49", "0", "00"].map(Into::into);
    let forms = [
        NumberForm::Unchanged,
        NumberForm::Plain,
        NumberForm::DoubleZero,
        NumberForm::National { country, prefix: national, international },
    ];
    for form in forms {
        for prefixes in [vec![], vec!["00".to_owned()]] {
            let mut world = World::with(|config| {
                let change = NumberChange { strip: 2, add: "+".into() };
                one_route(config, "00", change, &[("+881", DestinationRule::Deny)]);
                let trunk = &mut config.trunking.trunks.edit()[0];
                (trunk.numbers_out, trunk.international) = (form.clone(), prefixes.clone());
            });
            let users =
                ["000088161234", "0000881612345", "00000088161234", "00*31#0088161234", "00*310088161234"];
            assert_eq!(reach(&mut world, &users), [false; 5], "{form:?} {prefixes:?}");
            let others = ["0044161234", "000044161234", "00*31#0044161234"];
            assert_eq!(reach(&mut world, &others), [true; 3], "{form:?} {prefixes:?}");
        }
    }
}

/// A carrier dials what follows a service code, also by a trunk without a form and without international prefixes.
#[test]
fn rules_hold_behind_service_codes() {
    use DestinationRule::{Allow, Deny};
    let mut world = World::with(|config| {
        one_route(config, "", NumberChange::default(), &[("00", Deny), ("00881", Deny)]);
    });
    let users = ["*31#00881612345", "#31#00881612345", "*31*00881612345", "*3100881612345", "*67004412345"];
    assert_eq!(reach(&mut world, &users), [false; 5]);
    assert_eq!(reach(&mut world, &["*31#0301234", "*98", "*21*0301234#", "0301234"]), [true; 4]);
    // Rules that permit some numbers only: both the code and the number behind it.
    let mut world = World::with(|config| {
        let rules = [("", Deny), ("030", Allow), ("*31#", Allow)];
        one_route(config, "", NumberChange::default(), &rules);
    });
    let users = ["0301234", "*31#0301234", "*31#0401234", "#31#0301234"];
    assert_eq!(reach(&mut world, &users), [true, true, false, false]);
}

#[test]
fn a_number_with_a_context_is_allowed_with_and_without_its_digits() {
    let deny = |prefix: &str| Destination { prefix: prefix.into(), rule: DestinationRule::Deny };
    let mut world = World::with(|config| {
        carriers(config);
        config.trunking.destinations = DestinationRules::new(vec![deny("0900"), deny("+88")]).unwrap();
    });
    for (uri, is_allowed) in [
        ("sip:09001;phone-context=+44@other.example", false),
        ("sip:1;phone-context=+88@other.example", false),
        ("sip:1;phone-context=+44@other.example", true),
    ] {
        let sent = world.udp(ALICE, &invite(uri).call_id(uri));
        assert_eq!(!requests(sent).is_empty(), is_allowed, "{uri}");
    }
}

#[test]
fn calls_of_an_hour_are_limited_for_each_user_and_a_retransmission_is_no_call() {
    let mut world = World::with(with_rules);
    let call = |user: &str, number: u32| {
        let from = format!("sip:{user}@example.org");
        invite(&format!("sip:+44{number}@example.org")).from(&from).call_id(&format!("{user} {number}"))
    };
    for number in 0..3 {
        for _ in 0..3 {
            world.udp(ALICE, &call("alice", number));
        }
    }
    assert_eq!(world.server.counters().trunk_requests, 3);
    assert_eq!(only(world.udp(ALICE, &call("alice", 4))).status(), 403);
    assert_eq!(statuses(&world.udp(BOB, &call("bob", 1))), [100]);
    assert_eq!(world.server.counters().destination_rates, 1);
    world.pass(Duration::from_secs(2 * 3600));
    assert_eq!(statuses(&world.udp(ALICE, &call("alice", 5))), [100]);
}

#[test]
fn a_request_for_a_number_without_a_trunk_that_fits_is_not_answered_by_the_server() {
    let mut world = World::with(carriers);
    assert_eq!(only(world.udp(ALICE, &request("OPTIONS", "tel:7"))).status(), 404);
    assert!(config().trunking.routes.is_empty());
}
