//! Stories of a neighbour: a phone over TCP that answers OPTIONS.
//!
//! Told: up, used, lost, dialled no more often than the back-off permits, up again; calls with a connection of their own. At
//! the end of each story the server has no connection, call, transaction or timer left.

use ringway_server::{Neighbour, NeighbourConnection};
use ringway_sim::{Faults, HostId, Reading};
use ringway_tests::{Behaviour, PhoneEvent, Story, World};
use std::time::Duration;

/// The first phone of a story.
const GATE: &str = "10.0.1.1:5060";

fn story(name: &'static str, connection: NeighbourConnection) -> Story {
    let story = Story::new(name);
    match connection {
        NeighbourConnection::Kept => {
            story.configure(|config| config.neighbours.push(gate_with(NeighbourConnection::Kept)))
        }
        NeighbourConnection::PerCall => {
            story.configure(|config| config.neighbours.push(gate_with(NeighbourConnection::PerCall)))
        }
    }
}

fn gate_with(connection: NeighbourConnection) -> Neighbour {
    Neighbour {
        name: "gate".into(),
        uri: format!("sip:{GATE};transport=tcp"),
        interval: Duration::from_secs(30),
        connection,
        certificate: None,
        offers_alias: false,
    }
}

/// The neighbour and a registered phone; the neighbour is up. Calls for `gate` go there.
fn hosts(world: &mut World) -> (HostId, HostId) {
    let gate = world.tcp_phone("gate");
    world.behave(gate, Behaviour::Answer { ring_ms: 100, answer_ms: 500 });
    world.set_permanent_contact("gate", &format!("sip:gate@{GATE};transport=tcp"));
    let alice = world.registered("alice");
    world.wait(5);
    assert_eq!(world.sim.connections(world.server).len(), 1, "it is up");
    (gate, alice)
}

fn call(world: &mut World, phone: HostId) {
    world.call(phone, "gate");
}

/// OPTIONS that the server sent, each after dialling or over the connection.
fn probes(world: &World) -> usize {
    world.forwarded("OPTIONS")
}

/// Checks that nothing is left after a stop.
fn stops(world: &mut World) {
    world.stop_server();
    world.wait(100);
    assert_eq!(
        (world.pending(), world.services.tables().read_neighbours(0, |table| table.calls_len())),
        ((0, 0, 0), 0)
    );
    let deadlines = |shard: &_| ringway_sansio::Node::next_deadline(shard).map(|deadline| deadline.reason);
    let reasons: Vec<_> = world.shards().iter().filter_map(deadlines).collect();
    assert!(reasons.iter().all(|reason| *reason == "a binding ends"), "{reasons:?}");
}

#[test]
fn an_hour_of_refusal_has_a_bounded_number_of_dials_and_a_return_is_noticed() {
    story("neighbour refuses", NeighbourConnection::Kept).run(|world| {
        let (gate, alice) = hosts(world);
        world.sim.set_link(world.server, gate, Faults::cut());
        world.sim.close(world.sim.connections(world.server)[0]);
        let before = probes(world);
        for _ in 0..60 {
            call(world, alice);
            world.wait(60);
            assert_eq!(world.events(alice).last(), Some(&PhoneEvent::Refused("INVITE", 480)));
        }
        // Waits of 15 to 30 s after the first four; requests dial nothing.
        let dials = probes(world) - before;
        assert!((120..=250).contains(&dials), "{dials} in an hour");
        assert!(world.sim.connections(world.server).is_empty());
        world.sim.set_link(world.server, gate, Faults::default());
        world.wait(61);
        assert_eq!(world.sim.connections(world.server).len(), 1);
        call(world, alice);
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, gate]), [1, 1]);
        world.hang_up(alice);
        world.wait(5);
        stops(world);
    });
}

#[test]
fn a_neighbour_that_hangs_is_found_by_options_and_used_after_it_is_back() {
    story("neighbour hangs", NeighbourConnection::Kept).run(|world| {
        let (gate, alice) = hosts(world);
        world.sim.set_reading(gate, Reading::Paused);
        // 30 s to the next OPTIONS, 32 s without an answer.
        world.wait(65);
        call(world, alice);
        world.wait(5);
        assert_eq!(world.events(alice).last(), Some(&PhoneEvent::Refused("INVITE", 480)));
        world.sim.set_reading(gate, Reading::AtOnce);
        world.wait(61);
        call(world, alice);
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, gate]), [1, 1]);
        let by = if world.seed() % 2 == 0 { alice } else { gate };
        world.hang_up(by);
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, gate]), [0, 0]);
        stops(world);
    });
}

#[test]
fn each_call_has_a_connection_and_all_end() {
    story("per-call connections", NeighbourConnection::PerCall).run(|world| {
        let (gate, alice) = hosts(world);
        let phones: Vec<_> = ["bob", "carol", "dave"].iter().map(|name| world.registered(name)).collect();
        for &phone in &phones {
            call(world, phone);
        }
        world.wait(5);
        assert_eq!(
            (world.services.tables().read_neighbours(0, |table| table.calls_len()), tcp_connections(world)),
            (3, 4)
        );
        // Either side ends, as the seed says; a BYE of the neighbour comes over a connection of its own.
        let by = if world.seed() % 2 == 0 { [phones[0], phones[1]] } else { [gate, phones[1]] };
        for phone in by {
            world.hang_up(phone);
            world.wait(5);
        }
        world.behave(gate, Behaviour::Refuse(486));
        call(world, alice);
        world.wait(5);
        assert_eq!(world.events(alice).last(), Some(&PhoneEvent::Refused("INVITE", 486)));
        world.behave(gate, Behaviour::Ring);
        call(world, alice);
        world.wait(2);
        world.cancel(alice);
        world.wait(5);
        let left: usize = world.calls_up(&phones).iter().sum();
        assert_eq!(world.services.tables().read_neighbours(0, |table| table.calls_len()), left);
        for phone in phones {
            world.hang_up(phone);
            world.wait(5);
        }
        assert_eq!(world.services.tables().read_neighbours(0, |table| table.calls_len()), 0);
        stops(world);
    });
}

#[test]
fn a_call_whose_bye_is_lost_ends_by_time() {
    story("per-call, no BYE", NeighbourConnection::PerCall).run(|world| {
        let (gate, alice) = hosts(world);
        call(world, alice);
        world.wait(5);
        assert_eq!(
            (
                world.calls_up(&[alice, gate]),
                world.services.tables().read_neighbours(0, |table| table.calls_len())
            ),
            (vec![1, 1], 1)
        );
        world.wait(1700);
        assert_eq!(tcp_connections(world), 2);
        world.wait(200);
        assert_eq!(
            (world.services.tables().read_neighbours(0, |table| table.calls_len()), tcp_connections(world)),
            (0, 1)
        );
        // The dialog is still there: its BYE opens another connection, which ends too.
        world.hang_up(alice);
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, gate]), [0, 0]);
        assert_eq!(
            (world.services.tables().read_neighbours(0, |table| table.calls_len()), tcp_connections(world)),
            (0, 1)
        );
        stops(world);
    });
}

fn tcp_connections(world: &World) -> usize {
    world.sim.connections(world.server).len()
}
