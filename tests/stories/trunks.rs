//! Stories of two trunks: one dies and returns, packets to it are lost and duplicated, it challenges. Every call reaches one
//! trunk or ends, and at the end of each story the server has no context and no transaction left.

use ringway_server::{
    Config, Emergency, EmergencyNumber, Neighbour, NeighbourConnection, NumberChange, Rate, RatePrefix,
    RateTable, Route, RouteMatch, RouteTable, RouteTo, Trunk, TrunkLimits, TrunkLogin, WeightedTrunk,
};
use ringway_sim::{Faults, HostId};
use ringway_tests::{Behaviour, PhoneEvent, Story, World};
use std::time::Duration;

/// Names and addresses of the trunks, the first two phones of a story.
const TRUNKS: [(&str, &str); 2] = [("first", "10.0.1.1"), ("second", "10.0.1.2")];
const NUMBER: &str = "+441234";

/// The trunks, each with its password and an OPTIONS every 30 s, for all numbers.
fn trunks(config: &mut Config) {
    for (index, (name, address)) in TRUNKS.into_iter().enumerate() {
        let uri = format!("sip:{address}:5060");
        config.neighbours.push(Neighbour {
            name: name.into(),
            uri: uri.clone(),
            interval: Duration::from_secs(30),
            connection: NeighbourConnection::Kept,
            certificate: None,
            offers_alias: false,
        });
        config.trunking.trunks.edit().push(Trunk {
            neighbour: Some(index),
            login: Some(TrunkLogin {
                username: name.into(),
                password: format!("secret of {name}"),
                realm: None,
            }),
            networks: vec![address.parse().expect("an address")],
            ..Trunk::at(name, &uri)
        });
    }
    let trunks = [0, 1].map(|trunk| WeightedTrunk { trunk, weight: 0 }).as_slice().into();
    let to = RouteTo::Trunks { trunks, change: NumberChange::default() };
    let route = Route { matches: RouteMatch::Prefix("+".into()), to };
    config.trunking.routes = RouteTable::new(vec![route]).expect("a valid route");
}

fn story(name: &'static str) -> Story {
    Story::new(name).configure(trunks)
}

/// The two trunks and the phone of a user.
fn hosts(world: &mut World) -> (HostId, HostId, HostId) {
    let hosts = TRUNKS.map(|(name, _)| world.phone(name));
    for host in hosts {
        world.behave(host, Behaviour::Challenge);
    }
    let alice = world.registered("alice");
    world.wait(5);
    (hosts[0], hosts[1], alice)
}

fn bad_network() -> Faults {
    Faults {
        loss_per_mille: 150,
        duplicate_per_mille: 100,
        reorder_per_mille: 100,
        delay: Duration::from_millis(1)..Duration::from_millis(60),
    }
}

/// Calls and waits so long; true if the call goes through `trunk`. Ends it.
fn reaches(world: &mut World, (alice, trunk): (HostId, HostId), wait_s: u64) -> bool {
    world.call(alice, NUMBER);
    world.wait(wait_s);
    let is_up = world.calls_up(&[alice, trunk]) == [1, 1];
    world.hang_up(alice);
    world.wait(5);
    assert_eq!(world.calls_up(&[alice, trunk]), [0, 0], "it ends everywhere");
    is_up
}

fn invites_to(world: &World, trunk: HostId) -> usize {
    requests_to(world, &format!("INVITE sip:{NUMBER}@{}", world.address(trunk)))
}

fn requests_to(world: &World, start: &str) -> usize {
    let packets = world.sim.trace().packets();
    packets.filter(|seen| seen.first_line().starts_with(start)).count()
}

#[test]
fn a_trunk_that_dies_is_left_and_used_again_after_it_is_back() {
    story("trunk dies and returns").run(|world| {
        let (first, second, alice) = hosts(world);
        assert!(reaches(world, (alice, first), 2), "the first one");
        world.sim.set_link(world.server, first, Faults::cut());
        // No response in 4 s, or it is known to be down: 30 s to the next OPTIONS and 32 s without an answer.
        world.wait(world.seed() * 7 % 80);
        assert!(reaches(world, (alice, second), 6), "the second one");
        world.wait(70);
        let before = invites_to(world, first);
        assert!(before > 1, "the challenged and the answered one");
        assert!(reaches(world, (alice, second), 2), "at once");
        assert_eq!(invites_to(world, first), before, "OPTIONS found that it is down");
        world.sim.set_link(world.server, first, Faults::default());
        world.wait(125);
        assert!(reaches(world, (alice, first), 2), "it is back");
        ends(world);
    });
}

/// The second trunk is the cheapest for the number; when it dies, the next one is called.
#[test]
fn the_cheapest_trunk_is_called_and_the_next_when_it_dies() {
    let by_cost = |config: &mut Config| {
        trunks(config);
        let rates = [("44", 0, 20), ("44", 1, 30), ("441", 1, 10), ("49", 0, 1)];
        let rate = |(prefix, trunk, cost): (&str, u16, u64)| Rate {
            prefix: RatePrefix::parse(prefix.as_bytes()).expect("digits"),
            trunk,
            cost,
        };
        config.trunking.rates = RateTable::new(rates.map(rate).to_vec());
        let to = RouteTo::ByCost(NumberChange::default());
        let route = Route { matches: RouteMatch::Prefix("+".into()), to };
        config.trunking.routes = RouteTable::new(vec![route]).expect("a valid route");
    };
    Story::new("trunks by cost").configure(by_cost).run(|world| {
        let (first, second, alice) = hosts(world);
        assert!(reaches(world, (alice, second), 2), "the cheapest one, by its longer prefix");
        assert_eq!(invites_to(world, first), 0);
        world.sim.set_link(world.server, second, Faults::cut());
        world.wait(world.seed() * 7 % 80);
        assert!(reaches(world, (alice, first), 6), "the next one");
        ends(world);
    });
}

#[test]
fn without_a_trunk_a_call_fails_in_time_and_is_possible_later() {
    story("both trunks die").run(|world| {
        let (first, second, alice) = hosts(world);
        for trunk in [first, second] {
            world.sim.set_link(world.server, trunk, Faults::cut());
        }
        world.call(alice, NUMBER);
        world.wait(40);
        assert!(matches!(world.events(alice).last(), Some(PhoneEvent::Refused("INVITE", 408))));
        world.wait(70);
        world.call(alice, NUMBER);
        world.wait(1);
        assert_eq!(world.events(alice).last(), Some(&PhoneEvent::Refused("INVITE", 503)), "at once");
        for trunk in [first, second] {
            world.sim.set_link(world.server, trunk, Faults::default());
        }
        world.wait(125);
        assert!(reaches(world, (alice, first), 2), "they are back");
        ends(world);
    });
}

/// Challenge, credentials, answer and BYE are lost and come twice, on both sides of the server.
#[test]
fn challenged_calls_on_a_bad_network_reach_one_trunk_or_end() {
    story("trunk with digest, loss").run(|world| {
        let (first, second, alice) = hosts(world);
        world.sim.set_faults(bad_network());
        for _ in 0..3 {
            world.call(alice, NUMBER);
            world.wait(60);
            let up = world.calls_up(&[alice, first, second]);
            assert_eq!(up[0], up[1] + up[2], "both sides or none have the call: {up:?}");
            world.hang_up(alice);
            world.wait(60);
        }
        world.sim.set_faults(Faults::default());
        world.wait(250);
        assert_eq!(world.calls_up(&[alice, first, second]), [0, 0, 0]);
        ends(world);
    });
}

#[test]
fn a_caller_that_gives_up_ends_the_call_at_both_trunks() {
    story("trunks and CANCEL").run(|world| {
        let (first, second, alice) = hosts(world);
        world.behave(first, Behaviour::Silent);
        world.behave(second, Behaviour::Ring);
        world.sim.set_faults(bad_network());
        world.call(alice, NUMBER);
        world.wait_ms(world.seed() * 397 % 8000);
        world.cancel(alice);
        world.wait(60);
        world.sim.set_faults(Faults::default());
        world.wait(250);
        assert_eq!(world.calls_up(&[alice, first, second]), [0, 0, 0]);
        ends(world);
    });
}

/// A trunk has no password here; its calls reach users, and no other trunk.
#[test]
fn calls_of_a_trunk_on_a_bad_network_end() {
    story("calls of a trunk, loss").run(|world| {
        let (first, second, alice) = hosts(world);
        world.sim.set_faults(bad_network());
        world.call(first, "alice");
        world.wait(60);
        let up = world.calls_up(&[first, alice]);
        assert_eq!(up[0], up[1], "both sides or none have the call");
        // Either side ends it.
        world.hang_up(if world.seed() % 2 == 0 { first } else { alice });
        world.wait(60);
        world.sim.set_faults(Faults::default());
        world.call(first, NUMBER);
        world.wait(5);
        assert_eq!(world.events(first).last(), Some(&PhoneEvent::Refused("INVITE", 404)));
        assert_eq!(invites_to(world, second), 0);
        world.wait(250);
        assert_eq!(world.calls_up(&[first, alice]), [0, 0]);
        ends(world);
    });
}

/// One line for the user and one at the trunk: both are in use, and the emergency call goes through. Later calls find a free line again,
/// whatever was lost.
#[test]
fn an_emergency_call_passes_full_lines_on_a_bad_network() {
    fn limited(config: &mut Config) {
        trunks(config);
        let one = TrunkLimits { under_way: Some(1), per_second: None };
        config.caller_limits.of_user = one;
        config.trunking.trunks.edit().iter_mut().for_each(|trunk| trunk.call_limits = Some(one));
        let number = EmergencyNumber { dialled: "112".into(), sent: "112".into() };
        config.trunking.emergency =
            Emergency { numbers: vec![number], trunks: vec![1, 0], ..Emergency::default() };
    }
    Story::new("emergency call, full lines, loss").configure(limited).run(|world| {
        let (first, second, alice) = hosts(world);
        world.call(alice, NUMBER);
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, first, second]), [1, 1, 0]);
        world.call(alice, NUMBER);
        world.wait(5);
        assert_eq!(world.events(alice).last(), Some(&PhoneEvent::Refused("INVITE", 403)));
        world.sim.set_faults(bad_network());
        world.call(alice, "112");
        world.wait(60);
        assert!(requests_to(world, "INVITE sip:112@10.0.1.") > 0, "an emergency service is called");
        assert!(world.counts(|counters| counters.emergency_calls) > 0);
        // The last call, and the one before it.
        for _ in 0..2 {
            world.hang_up(alice);
            world.wait(60);
        }
        world.sim.set_faults(Faults::default());
        world.wait(250);
        assert_eq!(world.calls_up(&[alice, first, second]), [0, 0, 0]);
        assert!(reaches(world, (alice, first), 2), "the lines are free");
        ends(world);
    });
}

/// Fails unless the server has nothing left after a stop.
fn ends(world: &mut World) {
    world.stop_server();
    world.wait(100);
    assert_eq!(world.pending(), (0, 0, 0));
}
