//! Connections to neighbours on a virtual clock: opened, probed, used, lost, and opened again after a back-off.

use crate::harness::{ALICE, Sent, World, forwarded, invite, only, requests, statuses, tcp_flow};
use ringway_sansio::{ConnectionId, Event, Flow, HostNameId, LocatedServer, Target, Transport};
use ringway_server::{Config, Neighbour, NeighbourConnection};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const GATE: &str = "198.51.100.5:5060";
const BACK_OFF_MAX_S: u64 = 30;

/// Neighbour with a connection that is kept.
pub(crate) fn neighbour(uri: &str) -> Neighbour {
    Neighbour {
        name: "gate".into(),
        uri: uri.into(),
        interval: Duration::from_secs(30),
        connection: NeighbourConnection::Kept,
        certificate: None,
        offers_alias: false,
    }
}

fn world(uri: &str) -> World {
    World::with(|config| config.neighbours.push(neighbour(uri)))
}

fn gate() -> World {
    world("sip:198.51.100.5;transport=tcp")
}

/// Lets time pass; returns the OPTIONS.
fn seconds(world: &mut World, seconds: u64) -> Vec<Sent> {
    requests(world.pass(Duration::from_secs(seconds)))
}

/// OPTIONS of these that dial.
fn dials(sent: &[Sent]) -> usize {
    sent.iter().filter(|sent| sent.method() == "OPTIONS" && sent.flow.connection.is_none()).count()
}

fn answer(world: &mut World, connection: u64, probe: &Sent, status: u16) -> Vec<Sent> {
    world.message(tcp_flow(connection, GATE), &probe.answer(status, &[]))
}

fn events(world: &World) -> Vec<String> {
    std::mem::take(&mut *world.memory.events.lock().unwrap())
}

fn call(world: &mut World, id: &str) -> Vec<Sent> {
    let route = "Route: <sip:198.51.100.5:5060;transport=tcp;lr>";
    world.udp(ALICE, &invite("sip:someone@example.com").line(route).call_id(id))
}

#[test]
fn a_connection_is_opened_at_the_start_kept_and_used_by_requests() {
    let mut world = gate();
    let probe = only(world.due());
    assert_eq!(
        (probe.method().as_str(), probe.to().as_str(), probe.flow.connection),
        ("OPTIONS", GATE, None)
    );
    assert_eq!(probe.header("Max-Forwards"), "0");
    assert!(probe.header("Via").starts_with("SIP/2.0/TCP 192.0.2.1:5060;branch=z9hG4bK"), "{}", probe.text());
    assert_eq!(statuses(&call(&mut world, "early")), [100, 480], "not up yet, and nothing is dialled for it");
    assert!(answer(&mut world, 7, &probe, 483).is_empty(), "any final response will do");
    assert_eq!(events(&world), ["early Begun", "early Failed(480)", "gate up"]);
    assert_eq!(forwarded(call(&mut world, "one")).flow.connection, Some(ConnectionId(7)));
    assert_eq!(forwarded(call(&mut world, "two")).flow.connection, Some(ConnectionId(7)));
    let (kept, until) = *world.kept.last().unwrap();
    assert!(kept == ConnectionId(7) && until > world.now + Duration::from_secs(62));
    let again = only(seconds(&mut world, 30).into_iter().filter(|sent| sent.method() == "OPTIONS").collect());
    assert_eq!(again.flow.connection, Some(ConnectionId(7)));
    assert_ne!(again.header("CSeq"), probe.header("CSeq"));
    assert_eq!(world.server.counters().neighbour_down, 1);
}

#[test]
fn a_neighbour_that_dies_comes_back() {
    let mut world = gate();
    let probe = only(world.due());
    answer(&mut world, 7, &probe, 200);
    assert!(world.event(Event::Closed(ConnectionId(8))).is_empty());
    world.event(Event::Closed(ConnectionId(7)));
    assert_eq!(statuses(&call(&mut world, "down")), [100, 480]);
    let mut last = only(seconds(&mut world, 2));
    let mut attempts = 0;
    while attempts < 5 {
        assert_eq!(dials(std::slice::from_ref(&last)), 1);
        world.event(Event::Unreachable(last.token));
        attempts += 1;
        last = only(seconds(&mut world, 2_u64.pow(attempts + 1).min(BACK_OFF_MAX_S)));
    }
    answer(&mut world, 9, &last, 200);
    assert_eq!(forwarded(call(&mut world, "back")).flow.connection, Some(ConnectionId(9)));
    let events = events(&world);
    let of_gate: Vec<_> = events.iter().filter(|event| event.starts_with("gate")).collect();
    assert_eq!(of_gate, ["gate up", "gate Closed", "gate up"], "one line for each change");
}

#[test]
fn a_neighbour_that_accepts_and_never_answers_is_disconnected_and_dialled_with_back_off() {
    let mut world = gate();
    let sent = seconds(&mut world, 3600);
    // Each attempt lasts 30 s, and from the fifth on a wait of 15 to 30 s follows.
    assert!((60..=85).contains(&dials(&sent)) && dials(&sent) == sent.len(), "{}", dials(&sent));
    assert!(world.disconnected.len() >= dials(&sent) - 1);
    assert!(world.disconnected.iter().all(|flow| flow.remote.to_string() == GATE));
    assert_eq!(events(&world), ["gate NoAnswer"]);
    let waits = world.server.transactions_len().1;
    assert!(waits <= 1, "{waits} transactions");
}

#[test]
fn a_connection_that_stops_answering_is_closed() {
    let mut world = gate();
    let probe = only(world.due());
    answer(&mut world, 7, &probe, 200);
    let sent = seconds(&mut world, 30 + 29);
    assert_eq!((sent.len(), dials(&sent)), (1, 0));
    assert!(world.disconnected.is_empty());
    seconds(&mut world, 1);
    assert_eq!(world.disconnected.len(), 1);
    // The end of the connection that it asked for begins no second back-off.
    world.event(Event::Closed(ConnectionId(7)));
    assert_eq!(dials(&seconds(&mut world, 2)), 1);
    assert_eq!(events(&world), ["gate up", "gate NoAnswer"]);
    // A late answer over the old connection does not bring it up.
    answer(&mut world, 7, &sent[0], 200);
    assert_eq!(statuses(&call(&mut world, "late")), [100, 480]);
}

#[test]
fn a_neighbour_that_closes_each_connection_at_once_is_not_dialled_more_often_than_the_back_off() {
    for answers in [false, true] {
        let mut world = gate();
        let mut sent = world.due();
        let (end, mut attempts, mut connection) = (world.now + Duration::from_secs(3600), 0, 100);
        while world.now < end {
            for probe in std::mem::take(&mut sent) {
                attempts += dials(std::slice::from_ref(&probe));
                connection += 1;
                if answers {
                    answer(&mut world, connection, &probe, 200);
                    world.event(Event::Closed(ConnectionId(connection)));
                } else {
                    world.event(Event::Unreachable(probe.token));
                }
                // Requests of others dial nothing.
                assert_eq!(requests(call(&mut world, &format!("{connection}"))).len(), 0);
            }
            sent = seconds(&mut world, 1);
        }
        assert!((120..=250).contains(&attempts), "{attempts} in an hour, answers: {answers}");
    }
}

#[test]
fn a_host_name_is_looked_up_for_each_attempt() {
    let mut world = world("sip:gate.example.net;transport=tcp");
    assert!(world.due().is_empty());
    assert!(world.resolve("gate.example.net", None).is_empty());
    assert_eq!(events(&world), ["gate NoAddress"]);
    assert!(seconds(&mut world, 2).is_empty());
    let (query, target) = world.lookups.remove(0);
    assert_eq!(&*target.host, "gate.example.net");
    let servers = target.server_at("198.51.100.5".parse().unwrap(), HostNameId(5)).into();
    let probe = only(world.event(Event::Resolved { query, servers }));
    assert_eq!((probe.to().as_str(), probe.flow.host), (GATE, HostNameId(5)));
    assert!(world.event(Event::Resolved { query, servers }).is_empty(), "a second result");
    // Lookups without any result end too.
    let mut lost = world_of_name();
    seconds(&mut lost, 600);
    assert!((8..=60).contains(&lost.lookups.len()), "{}", lost.lookups.len());
}

/// Requests of others to many servers that fail do not displace the memory that the neighbour's first server failed.
#[test]
fn the_second_server_of_a_host_name_is_tried_whatever_others_do() {
    let mut world = world_of_name();
    let first = located(&mut world);
    assert_eq!(first.to(), "198.51.100.4:5060");
    world.event(Event::Unreachable(first.token));
    for port in 1..=300 {
        let target = Target::of_address("203.0.113.66", port, Transport::Udp);
        let server = target.server_at([203, 0, 113, 66].into(), HostNameId::NONE);
        world.memory.tables().note_failed(world.now, &server, world.now + Duration::from_secs(60));
    }
    seconds(&mut world, 2);
    assert_eq!(located(&mut world).to(), GATE);
}

#[test]
fn a_neighbour_that_answers_503_is_left_only_for_another_server_of_its_name() {
    let mut world = gate();
    let probe = only(world.due());
    answer(&mut world, 7, &probe, 503);
    assert_eq!(events(&world), ["gate up"], "any final response will do");
    assert_eq!(forwarded(call(&mut world, "one")).flow.connection, Some(ConnectionId(7)));
    let mut world = world_of_name();
    let first = located(&mut world);
    answer_at(&mut world, &first, 503);
    assert_eq!(events(&world), ["gate Unavailable"]);
    seconds(&mut world, 2);
    assert_eq!(located(&mut world).to(), GATE);
}

/// Answers the lookup of the neighbour with two servers; returns the OPTIONS.
fn located(world: &mut World) -> Sent {
    let (query, _) = world.lookups.remove(0);
    let server = |address: &str| LocatedServer {
        transport: Transport::Tcp,
        address: address.parse().unwrap(),
        host: HostNameId(5),
    };
    let servers = ["198.51.100.4:5060", GATE].map(server).into_iter().collect();
    only(world.event(Event::Resolved { query, servers }))
}

fn answer_at(world: &mut World, probe: &Sent, status: u16) -> Vec<Sent> {
    let flow = Flow { connection: Some(ConnectionId(7)), ..probe.flow };
    world.message(flow, &probe.answer(status, &[]))
}

fn world_of_name() -> World {
    let mut world = world("sip:gate.example.net;transport=tcp");
    world.due();
    world
}

#[test]
fn forged_answers_and_other_connections_do_not_bring_it_up() {
    let mut world = gate();
    let probe = only(world.due());
    let elsewhere = Flow { remote: "203.0.113.66:5060".parse().unwrap(), ..tcp_flow(8, GATE) };
    world.message(elsewhere, &probe.answer(200, &[]));
    assert_eq!(statuses(&call(&mut world, "forged")), [100, 480]);
    answer(&mut world, 7, &probe, 100);
    assert_eq!(statuses(&call(&mut world, "provisional")), [100, 480]);
    answer(&mut world, 7, &probe, 200);
    answer(&mut world, 9, &probe, 200);
    assert_eq!(forwarded(call(&mut world, "up")).flow.connection, Some(ConnectionId(7)));
}

#[test]
fn a_server_that_stops_sends_no_more_probes() {
    let mut world = gate();
    let probe = only(world.due());
    answer(&mut world, 7, &probe, 200);
    world.server.stop_new_work(world.now + Duration::from_secs(5));
    assert!(seconds(&mut world, 120).is_empty() && world.server.is_idle());
    assert!(world.disconnected.is_empty(), "requests may be pending on it");
}

#[test]
fn a_server_that_stops_awaits_no_probe() {
    let mut world = gate();
    let probe = only(world.due());
    world.server.stop_new_work(world.now + Duration::from_secs(5));
    assert!(world.due().is_empty());
    assert_eq!((world.server.transactions_len(), world.disconnected.as_slice()), ((0, 0), &[probe.flow][..]));
    answer(&mut world, 7, &probe, 200);
    assert!(seconds(&mut world, 120).is_empty() && events(&world).is_empty());
}

/// Replaces the neighbours, as a reload does.
fn reload(world: &mut World, neighbours: &[(&str, &str)]) {
    let neighbour = |&(name, uri): &(&str, &str)| Neighbour {
        name: name.into(),
        uri: uri.into(),
        interval: Duration::from_secs(30),
        connection: NeighbourConnection::Kept,
        certificate: None,
        offers_alias: false,
    };
    let neighbours = neighbours.iter().map(neighbour).collect();
    world.server.reconfigure(Arc::new(Config { neighbours, ..crate::harness::config() }));
}

#[test]
fn a_reload_begins_new_neighbours_and_ends_removed_ones() {
    const OTHER: &str = "198.51.100.6:5060";
    let (gate_is, other_is) =
        (("gate", "sip:198.51.100.5;transport=tcp"), ("other", "sip:198.51.100.6;transport=tcp"));
    let mut world = gate();
    let probe = only(world.due());
    answer(&mut world, 7, &probe, 200);
    reload(&mut world, &[other_is, gate_is]);
    let probe = only(world.due());
    assert_eq!((probe.to().as_str(), probe.flow.connection), (OTHER, None), "the gate is as before");
    assert_eq!(world.memory.tables().neighbour_connection(1), Some(ConnectionId(7)), "at its new position");
    assert_eq!(forwarded(call(&mut world, "one")).flow.connection, Some(ConnectionId(7)));

    // The other one gets another name while it is being dialled.
    reload(&mut world, &[("third", other_is.1)]);
    let again = only(world.due());
    assert_eq!((again.to().as_str(), world.server.transactions_len().1), (OTHER, 2), "one call, one OPTIONS");
    world.message(tcp_flow(8, OTHER), &probe.answer(200, &[]));
    assert_eq!(world.memory.tables().neighbour_connection(0), None, "an answer for another link");
    world.message(tcp_flow(9, OTHER), &again.answer(200, &[]));
    assert_eq!(world.memory.tables().neighbour_connection(0), Some(ConnectionId(9)));
    let dialled = forwarded(call(&mut world, "two"));
    assert_eq!((dialled.to().as_str(), dialled.flow.connection), (GATE, None), "no neighbour any more");
    assert!(world.event(Event::Closed(ConnectionId(7))).is_empty());

    reload(&mut world, &[]);
    assert!(seconds(&mut world, 120).iter().all(|sent| sent.method() != "OPTIONS"));
    assert_eq!(world.memory.tables().neighbour_connection(0), None);
    world.server.stop_new_work(world.now + Duration::from_secs(5));
    reload(&mut world, &[gate_is]);
    assert!(seconds(&mut world, 120).is_empty(), "nothing begins after a stop");
}
