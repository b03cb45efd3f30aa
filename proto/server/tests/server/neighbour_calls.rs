//! Calls to a neighbour that have a connection of their own (`connection = "per-call"`).
//!
//! Tested: one connection a call, its end after a refusal, a BYE of either side, a challenge, and by time; limits; reports.
//! The driver, which dials and closes, is tested in `drivers/` and `tests/stories/`.

use crate::harness::{
    ALICE, Request, STRANGER, Sent, World, forwarded, invite, only, request, requests, statuses, tcp_flow,
};
use ringway_sansio::{ConnectionId, DialledId, Event, Flow};
use ringway_server::{CALLS_MAX, Neighbour, NeighbourConnection};
use std::time::Duration;

const GATE: &str = "198.51.100.5:5060";
const ROUTE: &str = "Route: <sip:198.51.100.5:5060;transport=tcp;lr>";

/// Server with a neighbour that is up.
fn world() -> World {
    let mut world = World::with(|config| {
        config.neighbours.push(Neighbour {
            name: "gate".into(),
            uri: format!("sip:{GATE};transport=tcp"),
            interval: Duration::from_secs(30),
            connection: NeighbourConnection::PerCall,
            certificate: None,
            offers_alias: false,
        });
    });
    let probe = only(world.due());
    assert_eq!((probe.flow.connection, probe.flow.dialled), (None, DialledId::SHARED));
    world.message(tcp_flow(7, GATE), &probe.answer(200, &[]));
    world
}

/// The request as it is sent to the neighbour, over a connection that is dialled for its call.
#[track_caller]
fn sent(world: &mut World, request: &Request) -> Sent {
    let sent = forwarded(world.udp(ALICE, request));
    assert_eq!((sent.to().as_str(), sent.flow.connection), (GATE, None), "{}", sent.text());
    assert_ne!(sent.flow.dialled, DialledId::SHARED);
    sent
}

/// Response of the neighbour over the connection of the call.
fn answered(world: &mut World, request: &Sent, status: u16) -> Vec<Sent> {
    let flow =
        Flow { dialled: request.flow.dialled, ..tcp_flow(100 + u64::from(request.flow.dialled.0), GATE) };
    world.message(flow, &request.answer(status, &[&format!("Contact: <sip:gate@{GATE};transport=tcp>")]))
}

/// Numbers of the connections that were to be closed since the last call.
fn closed(world: &mut World) -> Vec<DialledId> {
    let flows = std::mem::take(&mut world.disconnected);
    assert!(flows.iter().all(|flow| flow.connection.is_none() && flow.remote.to_string() == GATE));
    flows.iter().map(|flow| flow.dialled).collect()
}

fn call(id: &str) -> Request {
    invite("sip:someone@example.com").line(ROUTE).call_id(id)
}

/// Request of the caller in the dialog of a call that was answered with `ok`.
fn in_dialog(method: &str, id: &str, ok: &Sent) -> Request {
    let route = ok.headers("Record-Route").join(", ");
    let uri = format!("sip:gate@{GATE};transport=tcp");
    request(method, &uri).to(&ok.header("To")).call_id(id).cseq(2).line(&format!("Route: {route}"))
}

fn open_calls(world: &World) -> usize {
    world.memory.tables().read_neighbours(0, |table| table.calls_len())
}

/// An answered and acknowledged call: its number, and the 200 that the caller got.
fn established(world: &mut World, id: &str) -> (DialledId, Sent) {
    let invite = sent(world, &call(id));
    let ok = only(answered(world, &invite, 200));
    let ack = sent(world, &in_dialog("ACK", id, &ok));
    assert_eq!(ack.flow.dialled, invite.flow.dialled);
    (invite.flow.dialled, ok)
}

#[test]
fn each_call_has_a_connection_until_its_bye_is_answered() {
    let mut world = world();
    let (one, ok) = established(&mut world, "one");
    let (two, _) = established(&mut world, "two");
    assert_ne!(one, two);
    let info = sent(&mut world, &in_dialog("INFO", "one", &ok));
    answered(&mut world, &info, 200);
    assert!(info.flow.dialled == one && closed(&mut world).is_empty());
    let bye = sent(&mut world, &in_dialog("BYE", "one", &ok).cseq(3));
    assert!(bye.flow.dialled == one && closed(&mut world).is_empty(), "its response is awaited");
    answered(&mut world, &bye, 200);
    assert_eq!((closed(&mut world), open_calls(&world)), (vec![one], 1));
}

#[test]
fn a_bye_of_the_neighbour_closes_the_connection_too() {
    let mut world = world();
    let (number, ok) = established(&mut world, "call");
    let route = ok.headers("Record-Route").join(", ");
    let mut bye =
        request("BYE", &format!("sip:alice@{ALICE}")).tcp().call_id("call").line(&format!("Route: {route}"));
    bye.from = ok.header("To");
    bye.to = ok.header("From");
    let forwarded = forwarded(world.tcp(50, "198.51.100.5:40000", &bye));
    assert!(forwarded.to() == ALICE && closed(&mut world).is_empty());
    world.udp(ALICE, &forwarded.answer(200, &[]));
    assert_eq!((closed(&mut world), open_calls(&world)), (vec![number], 0));
}

#[test]
fn a_refused_call_is_acknowledged_before_its_connection_is_closed() {
    let mut world = world();
    let invite = sent(&mut world, &call("refused"));
    let after = answered(&mut world, &invite, 486);
    let ack = only(requests(after));
    assert_eq!((ack.method().as_str(), ack.flow), ("ACK", invite.flow));
    assert_eq!(closed(&mut world), [invite.flow.dialled]);
    let message = request("MESSAGE", "sip:someone@example.com").line(ROUTE).call_id("text");
    let message = sent(&mut world, &message);
    answered(&mut world, &message, 200);
    assert_eq!((closed(&mut world), open_calls(&world)), (vec![message.flow.dialled], 0));
}

#[test]
fn a_challenged_call_continues_on_its_connection_and_an_abandoned_one_ends() {
    let mut world = world();
    let first = sent(&mut world, &call("call"));
    answered(&mut world, &first, 407);
    assert!(closed(&mut world).is_empty());
    let again = sent(&mut world, &call("call").cseq(2));
    assert_eq!(again.flow.dialled, first.flow.dialled);
    answered(&mut world, &again, 407);
    seconds_up(&mut world, 30);
    assert!(closed(&mut world).is_empty());
    seconds_up(&mut world, 30);
    assert_eq!((closed(&mut world), open_calls(&world)), (vec![first.flow.dialled], 0));
    assert_eq!(world.server.counters().neighbour_calls_idle, 1);
}

#[test]
fn a_dialog_whose_bye_never_comes_ends_by_time_and_dials_again_for_a_late_request() {
    let mut world = world();
    let (number, ok) = established(&mut world, "call");
    seconds_up(&mut world, 1700);
    assert!(closed(&mut world).is_empty());
    seconds_up(&mut world, 140);
    assert_eq!((closed(&mut world), open_calls(&world)), (vec![number], 0));
    let bye = sent(&mut world, &in_dialog("BYE", "call", &ok));
    assert_ne!(bye.flow.dialled, number);
    answered(&mut world, &bye, 200);
    assert_eq!((closed(&mut world), open_calls(&world)), (vec![bye.flow.dialled], 0));
}

/// Lets time pass; the neighbour answers its probes.
fn seconds_up(world: &mut World, seconds: u64) {
    for _ in 0..seconds / 10 {
        for probe in requests(world.pass(Duration::from_secs(10))) {
            world.message(tcp_flow(7, GATE), &probe.answer(200, &[]));
        }
    }
}

#[test]
fn a_call_that_cannot_be_dialled_or_is_cancelled_leaves_nothing() {
    let mut world = world();
    let unreachable = sent(&mut world, &call("unreachable"));
    assert_eq!(statuses(&world.event(Event::Unreachable(unreachable.token))), [480]);
    let cancelled = sent(&mut world, &call("cancelled"));
    answered(&mut world, &cancelled, 180);
    let cancel = forwarded(world.udp(ALICE, &call("cancelled").cancel()));
    assert_eq!((cancel.method().as_str(), cancel.flow), ("CANCEL", cancelled.flow));
    answered(&mut world, &cancelled, 487);
    assert_eq!(closed(&mut world), [unreachable.flow.dialled, cancelled.flow.dialled]);
    let silent = sent(&mut world, &call("silent"));
    seconds_up(&mut world, 300);
    assert_eq!((closed(&mut world), open_calls(&world)), (vec![silent.flow.dialled], 0));
}

#[test]
fn nothing_is_dialled_for_a_call_while_the_neighbour_is_down() {
    let mut world = world();
    let (number, ok) = established(&mut world, "before");
    world.event(Event::Closed(ConnectionId(7)));
    assert_eq!(statuses(&world.udp(ALICE, &call("down"))), [100, 480]);
    assert_eq!(statuses(&world.udp(ALICE, &in_dialog("BYE", "before", &ok))), [480]);
    seconds_up(&mut world, 3600);
    assert_eq!((closed(&mut world).contains(&number), open_calls(&world)), (true, 0));
}

#[test]
fn the_number_of_connections_is_limited_and_counted() {
    let mut world = world();
    let text = |call: usize| {
        request("MESSAGE", "sip:someone@example.com")
            .line(ROUTE)
            .call_id(&format!("{call}"))
            .via(&format!("SIP/2.0/UDP 192.0.2.{}:5060;rport;branch=z9hG4bK", call % 200 + 20))
    };
    for call in 0..CALLS_MAX {
        let source = format!("192.0.2.{}:5060", call % 200 + 20);
        let sent = forwarded(world.udp(&source, &text(call)));
        // Challenged: the connection is kept, and little memory.
        answered(&mut world, &sent, 407);
    }
    assert_eq!(statuses(&world.udp(ALICE, &text(CALLS_MAX))), [500]);
    assert_eq!((world.server.counters().neighbour_calls_refused, open_calls(&world)), (1, CALLS_MAX));
    seconds_up(&mut world, 100);
    assert_eq!((closed(&mut world).len(), open_calls(&world)), (CALLS_MAX, 0));
}

/// Nobody can be asked for credentials with an ACK, so one without its call dials nothing.
#[test]
fn a_strangers_ack_opens_no_connection() {
    let mut world = world();
    world
        .server
        .set_permanent_contacts(b"bob@example.org", &[format!("sip:bob@{GATE};transport=tcp").as_bytes()]);
    for number in 0..100 {
        let mut ack = request("ACK", "sip:bob@example.org").call_id(&format!("{number}"));
        ack.from = "<sip:mallory@example.com>;tag=m".into();
        let sent = forwarded(world.udp(STRANGER, &ack));
        assert_eq!((sent.flow.connection, sent.flow.dialled), (Some(ConnectionId(7)), DialledId::SHARED));
    }
    assert_eq!(open_calls(&world), 0);
}
