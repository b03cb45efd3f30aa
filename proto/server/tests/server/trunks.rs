//! Tests of trunks: failover, silence, health checks; a call always ends.

use crate::ends::nothing_is_left;
use crate::harness::{ALICE, STRANGER, Sent, World, invite, only, request, requests, statuses};
use crate::routes::{CARRIER_A, CARRIER_B, carriers};
use ringway_sansio::Event;
use ringway_server::{
    Config, Neighbour, NeighbourConnection, NumberChange, Route, RouteTable, RouteTo, WeightedTrunk,
};
use std::time::Duration;

const NUMBER: &str = "sip:+441234@example.org";

fn call(world: &mut World) -> Sent {
    only(requests(world.udp(ALICE, &invite(NUMBER))))
}

/// The request of `sent` to the second carrier.
#[track_caller]
fn second(sent: Vec<Sent>) -> Sent {
    only(
        requests(sent)
            .into_iter()
            .filter(|sent| sent.method() == "INVITE" && sent.to() == CARRIER_B)
            .collect(),
    )
}

#[test]
fn a_trunk_that_fails_is_followed_by_the_next_one() {
    for status in [408, 500, 502, 503, 504] {
        for trying in [false, true] {
            let mut world = World::with(carriers);
            let first = call(&mut world);
            assert_eq!(first.to(), CARRIER_A);
            if trying {
                world.udp(CARRIER_A, &first.answer(100, &[]));
                assert!(requests(world.pass(Duration::from_secs(20))).is_empty(), "a 100 ends the silence");
            }
            let next = second(world.udp(CARRIER_A, &first.answer(status, &[])));
            assert_eq!(next.uri(), "sip:+441234@198.51.100.2:5060;user=phone");
            assert_eq!(next.header("CSeq"), first.header("CSeq"));
            assert_eq!(statuses(&world.udp(CARRIER_B, &next.answer(200, &[]))), [200]);
            assert_eq!(world.server.counters().trunk_failovers, 1);
            nothing_is_left(&mut world, &format!("failover after {status}"));
        }
    }
}

#[test]
fn what_a_trunk_says_of_the_callee_ends_the_call() {
    for (status, recurse) in [
        (302, false),
        (302, true),
        (403, true),
        (404, false),
        (480, false),
        (484, false),
        (486, false),
        (488, false),
        (501, false),
        (600, false),
        (603, false),
    ] {
        let mut world = World::with(|config| {
            carriers(config);
            config.recurse = recurse;
        });
        let first = call(&mut world);
        let contact = "Contact: <sip:premium@203.0.113.9>";
        let sent = world.udp(CARRIER_A, &first.answer(status, &[contact]));
        assert_eq!(statuses(&sent), [status], "and no other request");
        assert!(requests(sent).iter().all(|sent| sent.method() == "ACK"));
        assert_eq!(world.server.counters().trunk_failovers, 0);
        nothing_is_left(&mut world, &format!("{status}"));
    }
}

#[test]
fn a_trunk_that_rings_is_not_followed() {
    for status in [180, 183] {
        let mut world = World::with(carriers);
        let first = call(&mut world);
        world.udp(CARRIER_A, &first.answer(status, &[]));
        assert!(requests(world.pass(Duration::from_secs(60))).is_empty());
        assert_eq!(statuses(&world.udp(CARRIER_A, &first.answer(503, &[]))), [500]);
        nothing_is_left(&mut world, "a 503 after ringing");
    }
}

#[test]
fn a_silent_trunk_is_followed_after_its_time_and_tried_last_for_a_minute() {
    let mut world = World::with(carriers);
    call(&mut world);
    let sent = world.pass(Duration::from_secs(4));
    let next = second(sent);
    assert_eq!(statuses(&world.udp(CARRIER_B, &next.answer(200, &[]))), [200]);
    let other = only(requests(world.udp(ALICE, &invite(NUMBER).call_id("other"))));
    assert_eq!(other.to(), CARRIER_B, "the silent one is the last");
    world.udp(CARRIER_B, &other.answer(200, &[]));
    world.pass(Duration::from_secs(61));
    assert_eq!(only(requests(world.udp(ALICE, &invite(NUMBER).call_id("later")))).to(), CARRIER_A);
    nothing_is_left(&mut world, "a silent trunk");
}

#[test]
fn of_two_silent_trunks_the_one_that_answers_is_the_first() {
    let mut world = World::with(carriers);
    call(&mut world);
    second(world.pass(Duration::from_secs(4)));
    world.pass(Duration::from_secs(40));
    let sent = only(requests(world.udp(ALICE, &invite(NUMBER).call_id("both"))));
    assert_eq!(sent.to(), CARRIER_A);
    let next = second(world.pass(Duration::from_secs(4)));
    world.udp(CARRIER_B, &next.answer(486, &[]));
    assert_eq!(only(requests(world.udp(ALICE, &invite(NUMBER).call_id("next")))).to(), CARRIER_B);
}

#[test]
fn a_trunk_that_asks_for_a_pause_is_tried_last_for_that_time() {
    let mut world = World::with(carriers);
    let answered = only(requests(world.udp(ALICE, &invite(NUMBER).call_id("earlier"))));
    assert_eq!(answered.to(), CARRIER_A);
    let first = only(requests(world.udp(ALICE, &invite(NUMBER).call_id("one"))));
    let next = second(world.udp(CARRIER_A, &first.answer(503, &["Retry-After: 100"])));
    world.udp(CARRIER_B, &next.answer(486, &[]));
    world.udp(CARRIER_A, &answered.answer(200, &[]));
    for (id, pass_s) in [("two", 98), ("three", 1)] {
        let sent = only(requests(world.udp(ALICE, &invite(NUMBER).call_id(id))));
        assert_eq!(sent.to(), CARRIER_B, "{id}: answers to earlier calls do not end the pause");
        let sent = world.udp(CARRIER_B, &sent.answer(503, &[]));
        let last = only(requests(sent).into_iter().filter(|sent| sent.method() == "INVITE").collect());
        assert_eq!(
            last.to(),
            CARRIER_A,
            "{id}: it is tried last, and a 503 without Retry-After asks for nothing"
        );
        world.udp(CARRIER_A, &last.answer(486, &[]));
        world.pass(Duration::from_secs(pass_s));
    }
    world.pass(Duration::from_secs(1));
    assert_eq!(only(requests(world.udp(ALICE, &invite(NUMBER).call_id("later")))).to(), CARRIER_A);
    nothing_is_left(&mut world, "a trunk with a pause");
}

#[test]
fn a_late_answer_of_a_silent_trunk_has_the_call() {
    let mut world = World::with(carriers);
    let first = call(&mut world);
    second(world.pass(Duration::from_secs(4)));
    assert_eq!(statuses(&world.udp(CARRIER_A, &first.answer(200, &[]))), [200]);
    nothing_is_left(&mut world, "a late answer");
}

#[test]
fn if_both_are_silent_or_unreachable_the_call_ends() {
    let mut world = World::with(carriers);
    call(&mut world);
    let sent = world.pass(Duration::from_secs(60));
    assert_eq!(statuses(&sent).first(), Some(&408));
    nothing_is_left(&mut world, "two silent trunks");
    let mut world = World::with(carriers);
    let first = call(&mut world);
    let next = second(world.event(Event::Unreachable(first.token)));
    assert_eq!(statuses(&world.event(Event::Unreachable(next.token))), [480]);
    nothing_is_left(&mut world, "two unreachable trunks");
    let mut world = World::with(carriers);
    let first = call(&mut world);
    let next = second(world.udp(CARRIER_A, &first.answer(503, &[])));
    assert_eq!(statuses(&world.udp(CARRIER_B, &next.answer(503, &[]))), [500]);
    nothing_is_left(&mut world, "two overloaded trunks");
}

#[test]
fn the_trunks_that_max_breadth_permits_are_called() {
    for (breadth, is_followed) in [("1", false), ("2", true)] {
        let mut world = World::with(carriers);
        let call = invite(NUMBER).line(&format!("Max-Breadth: {breadth}"));
        let first = only(requests(world.udp(ALICE, &call)));
        let sent = world.udp(CARRIER_A, &first.answer(503, &[]));
        assert_eq!(requests(sent).iter().any(|sent| sent.to() == CARRIER_B), is_followed, "{breadth}");
    }
    let mut world = World::with(carriers);
    assert_eq!(only(world.udp(ALICE, &invite(NUMBER).line("Max-Breadth: 0"))).status(), 440);
}

#[test]
fn a_cancelled_call_goes_to_no_other_trunk() {
    let mut world = World::with(carriers);
    let first = call(&mut world);
    world.udp(ALICE, &invite(NUMBER).cancel());
    let sent = world.udp(CARRIER_A, &first.answer(503, &[]));
    assert!(requests(sent).iter().all(|sent| sent.to() == CARRIER_A));
    assert!(requests(world.pass(Duration::from_secs(60))).iter().all(|sent| sent.to() == CARRIER_A));
    nothing_is_left(&mut world, "a cancelled call");
}

#[test]
fn other_methods_go_to_trunks_too_and_end_in_their_time() {
    let mut world = World::with(carriers);
    let first = only(world.udp(ALICE, &request("MESSAGE", NUMBER)));
    assert_eq!(first.to(), CARRIER_A);
    let sent = world.pass(Duration::from_secs(60));
    assert!(requests(sent).iter().any(|sent| sent.to() == CARRIER_B));
    nothing_is_left(&mut world, "a silent MESSAGE");
}

/// The carriers with health checks.
pub(crate) fn probed(config: &mut Config) {
    carriers(config);
    probe_all(config);
}

/// Gives each trunk a health check every 30 s.
fn probe_all(config: &mut Config) {
    config.neighbours.clear();
    for (index, trunk) in config.trunking.trunks.edit().iter_mut().enumerate() {
        trunk.neighbour = Some(index);
        config.neighbours.push(Neighbour {
            name: trunk.name.clone(),
            uri: trunk.uri.clone(),
            interval: Duration::from_secs(30),
            connection: NeighbourConnection::Kept,
            certificate: None,
            offers_alias: false,
        });
    }
}

/// 10,000 trunks with a health check every 30 s each, after `before` others.
fn many(before: usize) -> impl FnOnce(&mut Config) {
    move |config: &mut Config| {
        let trunk = |number: usize| {
            let of = number.wrapping_sub(before);
            let address = format!("10.{}.{}.1:5060", of / 250 % 250, of % 250);
            crate::routes::trunk(&format!("t{of}"), &address)
        };
        config.trunking.trunks = (0..10_000 + before).map(trunk).collect::<Vec<_>>().into();
        probe_all(config);
    }
}

/// Answers each OPTIONS for so many seconds; returns the numbers of those in each second.
fn health_checks(world: &mut World, seconds: u64) -> Vec<usize> {
    let mut sent_in = Vec::new();
    for _ in 0..seconds {
        let mut count = 0;
        for _ in 0..50 {
            let probes = world.pass(Duration::from_millis(20));
            for probe in probes.iter().filter(|sent| sent.method() == "OPTIONS") {
                count += 1;
                world.udp(&probe.to(), &probe.answer(200, &[]));
            }
        }
        sent_in.push(count);
    }
    sent_in
}

#[test]
fn health_checks_of_ten_thousand_trunks_are_spread_and_a_reload_keeps_their_states() {
    let mut world = World::with(many(0));
    let up = |world: &World| {
        world.memory.tables().read_neighbours(0, |table| table.states().iter().filter(|up| **up).count())
    };
    let sent = health_checks(&mut world, 70);
    assert!(sent.iter().all(|count| *count <= 200), "{sent:?}");
    assert_eq!(up(&world), 10_000, "{sent:?}");
    let sent = health_checks(&mut world, 70);
    assert!(sent.iter().all(|count| (145..=155).contains(count)), "{sent:?}");
    assert!(world.server.counters().health_checks_delayed > 9_000, "each is due after 30 s");
    // One comes before them all.
    let mut changed = crate::harness::config();
    many(1)(&mut changed);
    world.server.reconfigure(std::sync::Arc::new(changed));
    let sent = health_checks(&mut world, 1);
    assert!(sent[0] <= 200 && up(&world) >= 10_000, "{} of {} are up", up(&world), 10_001);
    let silent = world.pass(Duration::from_secs(5));
    assert!(
        silent.iter().filter(|sent| sent.method() == "OPTIONS").count() <= 200 * 5 * 4,
        "with retransmissions"
    );
    assert!(up(&world) > 9_000, "a timeout ends one of those only that were not answered");
}

fn events(world: &World) -> Vec<String> {
    std::mem::take(&mut *world.memory.events.lock().unwrap())
}

#[test]
fn a_trunk_that_does_not_answer_options_is_not_tried() {
    let mut world = World::with(probed);
    let probes = world.due();
    let [to_a, to_b] = &probes[..] else { panic!("{probes:?}") };
    assert_eq!((to_a.method().as_str(), to_a.to().as_str()), ("OPTIONS", CARRIER_A));
    let refused = only(world.udp(ALICE, &invite(NUMBER).call_id("early")));
    assert_eq!((refused.status(), refused.header("Retry-After").as_str()), (503, "30"));
    world.udp(CARRIER_B, &to_b.answer(404, &[]));
    let sent = only(requests(world.udp(ALICE, &invite(NUMBER).call_id("one"))));
    assert_eq!(sent.to(), CARRIER_B);
    world.udp(CARRIER_B, &sent.answer(486, &[]));
    world.udp(CARRIER_A, &to_a.answer(200, &[]));
    assert_eq!(only(requests(world.udp(ALICE, &invite(NUMBER).call_id("two")))).to(), CARRIER_A);
    let log = events(&world);
    assert!(log.contains(&"carrier-a up".into()) && log.contains(&"carrier-b up".into()), "{log:?}");
    assert_eq!(world.server.counters().trunks_down, 1);
}

/// OPTIONS to the first carrier within `wait_s` seconds.
fn probe_of_a(world: &mut World, wait_s: u64) -> Option<Sent> {
    (0..wait_s).find_map(|_| {
        let sent = requests(world.pass(Duration::from_secs(1)));
        for probe in sent.iter().filter(|sent| sent.method() == "OPTIONS" && sent.to() == CARRIER_B) {
            world.udp(CARRIER_B, &probe.answer(200, &[]));
        }
        sent.into_iter().find(|sent| sent.method() == "OPTIONS" && sent.to() == CARRIER_A)
    })
}

#[test]
fn a_trunk_that_answers_options_with_503_gets_no_new_calls_until_it_answers_otherwise() {
    let mut world = World::with(probed);
    for probe in world.due() {
        world.udp(&probe.to(), &probe.answer(200, &[]));
    }
    let answered = only(requests(world.udp(ALICE, &invite(NUMBER).call_id("running"))));
    assert_eq!(answered.to(), CARRIER_A);
    let success = only(world.udp(CARRIER_A, &answered.answer(200, &["Contact: <sip:gw@198.51.100.1:5060>"])));
    let probe = probe_of_a(&mut world, 31).expect("a check every 30 s");
    events(&world);
    world.udp(CARRIER_A, &probe.answer(503, &[]));
    assert_eq!(events(&world), ["carrier-a Unavailable"]);
    let sent = only(requests(world.udp(ALICE, &invite(NUMBER).call_id("new"))));
    assert_eq!(sent.to(), CARRIER_B);
    let sent = world.udp(CARRIER_B, &sent.answer(503, &[]));
    assert_eq!(statuses(&sent), [500], "carrier-a is not tried");
    // The call that runs goes on, and ends.
    let route = success.header("Record-Route");
    let bye = request("BYE", "sip:gw@198.51.100.1:5060").call_id("running").cseq(2);
    let bye = bye.to(&success.header("To")).line(&format!("Route: {route}"));
    assert_eq!(only(requests(world.udp(ALICE, &bye))).to(), CARRIER_A);
    // The checks have the times of the back-off: 2 s, 4 s and so on, or what the trunk asks for.
    let probe = probe_of_a(&mut world, 3).expect("a check within 2 s");
    world.udp(CARRIER_A, &probe.answer(503, &["Retry-After: 100"]));
    assert!(probe_of_a(&mut world, 99).is_none(), "it asked for a pause");
    let probe = probe_of_a(&mut world, 3).expect("a check after the pause");
    world.udp(CARRIER_A, &probe.answer(503, &[]));
    assert!(events(&world).iter().all(|event| !event.starts_with("carrier-a")), "reported once");
    let probe = probe_of_a(&mut world, 31).expect("a check");
    world.udp(CARRIER_A, &probe.answer(404, &[]));
    assert!(events(&world).contains(&"carrier-a up".into()));
    assert_eq!(only(requests(world.udp(ALICE, &invite(NUMBER).call_id("after")))).to(), CARRIER_A);
    let probe = probe_of_a(&mut world, 31).expect("a check every 30 s");
    drop(probe);
    world.pass(Duration::from_secs(31));
    assert!(events(&world).contains(&"carrier-a NoAnswer".into()));
}

/// The other server of a trunk's name may have no reason to refuse.
#[test]
fn a_trunk_of_a_name_whose_first_server_answers_options_with_503_uses_the_second_one() {
    let mut world = World::with(|config| {
        probed(config);
        config.trunking.trunks.edit()[0].uri = "sip:gate.example.net".into();
        config.neighbours[0].uri = "sip:gate.example.net".into();
    });
    let probes = world.due();
    assert_eq!(only(probes).to(), CARRIER_B);
    let servers = ["198.51.100.7:5060", CARRIER_A];
    let first = only(world.resolve_to("gate.example.net", &servers));
    assert_eq!(first.to(), servers[0]);
    world.udp(servers[0], &first.answer(503, &["Retry-After: 300"]));
    world.pass(Duration::from_secs(2));
    let second = only(world.resolve_to("gate.example.net", &servers));
    assert_eq!(second.to(), CARRIER_A);
    world.udp(CARRIER_A, &second.answer(200, &[]));
    world.udp(ALICE, &invite(NUMBER));
    let sent = only(requests(world.resolve_to("gate.example.net", &servers)));
    assert_eq!((sent.method().as_str(), sent.to().as_str()), ("INVITE", CARRIER_A));
}

#[test]
fn a_trunk_that_dies_is_probed_again_and_comes_back() {
    let mut world = World::with(probed);
    for probe in world.due() {
        world.udp(&probe.to(), &probe.answer(200, &[]));
    }
    events(&world);
    let mut answered = 0;
    for _ in 0..200 {
        for probe in requests(world.pass(Duration::from_secs(1))) {
            if probe.to() == CARRIER_B {
                answered += 1;
                world.udp(CARRIER_B, &probe.answer(200, &[]));
            }
        }
    }
    assert!((5..=7).contains(&answered), "a probe every 30 s, and not {answered} in 200 s");
    assert_eq!(events(&world), ["carrier-a NoAnswer"], "reported once");
    assert_eq!(only(requests(world.udp(ALICE, &invite(NUMBER)))).to(), CARRIER_B);
    let probe = (0..200).find_map(|_| {
        let sent = requests(world.pass(Duration::from_secs(1)));
        sent.into_iter().find(|sent| sent.to() == CARRIER_A && sent.method() == "OPTIONS")
    });
    let probe = probe.expect("it is probed again");
    assert!(world.udp(STRANGER, &probe.answer(200, &[])).is_empty());
    assert!(events(&world).iter().all(|event| event != "carrier-a up"), "a stranger answered");
    world.udp(CARRIER_A, &probe.answer(200, &[]));
    assert!(events(&world).contains(&"carrier-a up".into()));
}

#[test]
fn weights_choose_by_call_id_and_a_trunk_that_is_down_gives_way() {
    let mut world = World::with(|config| {
        probed(config);
        let trunks = [WeightedTrunk { trunk: 0, weight: 80 }, WeightedTrunk { trunk: 1, weight: 20 }]
            .as_slice()
            .into();
        let to = RouteTo::Trunks { trunks, change: NumberChange::default() };
        let route = Route { matches: crate::routes::prefix("+"), to };
        config.trunking.routes = RouteTable::new(vec![route]).unwrap();
    });
    for probe in world.due() {
        world.udp(&probe.to(), &probe.answer(200, &[]));
    }
    let first = |world: &mut World, id: u32| {
        let sent = requests(world.udp(ALICE, &invite(NUMBER).call_id(&format!("call-{id}"))));
        let sent = only(sent);
        world.udp(&sent.to(), &sent.answer(486, &[]));
        sent.to()
    };
    let count = (0..300).filter(|&id| first(&mut world, id) == CARRIER_A).count();
    assert!((210..270).contains(&count), "{count} of 300");
}
