//! To act inside the calls of others, or beyond what a call permits.

use super::{EVE, closed, eves, reached};
use crate::harness::{ALICE, BOB, Request, STRANGER, Sent, World, invite, only, request, requests};
use crate::login::proven;
use crate::row::{Door, Row, Seen, Thesis};
use ringway_sansio::Defence;

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "a call is ended with its captured marks, from another address",
        door: Door::Udp,
        thesis: Thesis::IpSpoofing,
        defence: Defence::DialogSource,
        attack: ends_from_elsewhere,
    },
    Row {
        name: "a call is ended with the marks of another call, which the attacker may use",
        door: Door::Udp,
        thesis: Thesis::CallHijacking,
        defence: Defence::DialogMark,
        attack: ends_by_another_mark,
    },
    Row {
        name: "a stranger sends REFER to the phone that it called, which would dial a number of its choice",
        door: Door::Udp,
        thesis: Thesis::TollFraud,
        defence: Defence::CallMethods,
        attack: refers,
    },
];

/// A request of the caller in the dialog of this 200.
fn in_dialog(method: &str, answer: &Sent, from: &str) -> Request {
    let mut routes = answer.headers("Record-Route");
    routes.reverse();
    let mut request = request(method, "sip:bob@192.0.2.20:5060").to(&answer.header("To")).cseq(2);
    request.from = answer.header("From");
    request.call_id = answer.header("Call-ID");
    request.lines = routes.iter().map(|route| format!("Route: {route}")).collect();
    request.via(&format!("SIP/2.0/UDP {from};rport;branch=z9hG4bK"))
}

/// The 200 of a call that bob answers.
fn answered_by_bob(world: &mut World, sent: Vec<Sent>, caller: &str) -> Sent {
    let got = requests(sent).remove(0);
    let sent = world.udp(BOB, &got.answer(200, &["Contact: <sip:bob@192.0.2.20:5060>"]));
    only(sent.into_iter().filter(|one| one.to() == caller).collect())
}

fn ends_from_elsewhere() -> Seen {
    let mut world = closed();
    let sent = proven(&mut world, ALICE, &invite("sip:bob@example.org"), "alice");
    let answer = answered_by_bob(&mut world, sent, ALICE);
    let sent = world.udp(STRANGER, &in_dialog("BYE", &answer, STRANGER));
    Seen::new(&world, reached(&sent, BOB))
}

fn ends_by_another_mark() -> Seen {
    let mut world = closed();
    let sent = proven(&mut world, ALICE, &invite("sip:bob@example.org"), "alice");
    let alices = answered_by_bob(&mut world, sent, ALICE);
    let call = eves("sip:bob@example.org").via(&format!("SIP/2.0/UDP {STRANGER};rport;branch=z9hG4bK"));
    let sent = world.udp(STRANGER, &call);
    let own = answered_by_bob(&mut world, sent, STRANGER);
    let bye =
        Request { lines: in_dialog("BYE", &own, STRANGER).lines, ..in_dialog("BYE", &alices, STRANGER) };
    let sent = world.udp(STRANGER, &bye);
    Seen::new(&world, reached(&sent, BOB))
}

fn refers() -> Seen {
    let mut world = closed();
    let call = eves("sip:bob@example.org").via(&format!("SIP/2.0/UDP {STRANGER};rport;branch=z9hG4bK"));
    let sent = world.udp(STRANGER, &call);
    let answer = answered_by_bob(&mut world, sent, STRANGER);
    let refer = in_dialog("REFER", &answer, STRANGER).line("Refer-To: <sip:+8816123@example.org>");
    assert!(refer.from.contains(EVE));
    let sent = world.udp(STRANGER, &refer);
    Seen::new(&world, reached(&sent, BOB))
}
