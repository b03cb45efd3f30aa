//! Tests of the end of contexts and transactions, for all kinds of responses.

use crate::harness::{ALICE, BOB, CAROL, Sent, World, invite, request, requests};
use ringway_sansio::{Rng, Seed};
use std::time::Duration;

/// Server with a callee's contacts: two that respond, one that is silent.
fn world() -> World {
    let mut world = World::open();
    let contacts: [&[u8]; 3] = [b"sip:bob@192.0.2.20", b"sip:bob@192.0.2.30", b"sip:bob@192.0.2.40"];
    world.server.set_permanent_contacts(b"bob@example.org", &contacts);
    world
}

/// Asserts that no state is left after the last timer.
#[track_caller]
pub(crate) fn nothing_is_left(world: &mut World, what: &str) {
    // Timer C may be extended for an hour; after it every timer of a transaction is shorter than 64·T1.
    world.pass(Duration::from_secs(3600 + 300));
    assert_eq!(world.server.contexts_len(), 0, "contexts are left: {what}");
    assert_eq!(world.server.transactions_len(), (0, 0), "transactions are left: {what}");
    let tables = world.memory.tables();
    let reserved = (tables.reserved_bytes(), tables.has_reservations());
    assert_eq!(reserved, (0, false), "memory is still reserved: {what}");
    world.still_answers();
}

/// Vias of a response.
#[derive(Clone, Copy, Debug)]
enum Vias {
    AsSent,
    OnlyOurs,
    Unreadable,
}

fn with_vias(response: &[u8], vias: Vias) -> Vec<u8> {
    let text = String::from_utf8_lossy(response).into_owned();
    let mut seen = 0;
    let lines = text.split_inclusive("\r\n").map(|line| {
        seen += usize::from(line.starts_with("Via:"));
        match (line.starts_with("Via:") && seen > 1, vias) {
            (true, Vias::OnlyOurs) => "",
            (true, Vias::Unreadable) => "Via: ???\r\n",
            (true, Vias::AsSent) | (false, _) => line,
        }
    });
    lines.collect::<String>().into_bytes()
}

#[test]
fn a_final_response_whose_only_via_is_ours_ends_its_branch() {
    for method in ["INVITE", "OPTIONS", "MESSAGE", "BYE"] {
        for status in [200, 202, 302, 404, 486, 503, 600] {
            let mut world = world();
            world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
            let sent = requests(world.udp(ALICE, &request(method, "sip:bob@example.org")));
            let reply = world.udp(&sent[0].to(), &with_vias(&sent[0].answer(status, &[]), Vias::OnlyOurs));
            assert_eq!(reply.last().map(Sent::status), Some(502), "{method} {status}");
            nothing_is_left(&mut world, &format!("{method} {status}"));
        }
    }
}

#[test]
fn an_invite_that_rang_ends_when_its_answer_cannot_be_forwarded() {
    for first in [180, 183] {
        for (status, vias) in [(200, Vias::OnlyOurs), (486, Vias::OnlyOurs), (180, Vias::OnlyOurs)] {
            let mut world = world();
            let sent = requests(world.udp(ALICE, &invite("sip:bob@example.org")));
            for one in &sent {
                world.udp(&one.to(), &one.answer(first, &[]));
                world.udp(&one.to(), &with_vias(&one.answer(status, &[]), vias));
            }
            nothing_is_left(&mut world, &format!("{first} then {status} {vias:?}"));
        }
    }
}

/// A phone that sends 180 for ever keeps its caller's INVITE for one hour.
#[test]
fn endless_ringing_ends() {
    let mut world = world();
    let sent = requests(world.udp(ALICE, &invite("sip:bob@example.org")));
    let mut cancelled = 0;
    for _ in 0..90 {
        world.udp(&sent[0].to(), &sent[0].answer(180, &[]));
        cancelled +=
            world.pass(Duration::from_secs(60)).iter().filter(|one| one.method() == "CANCEL").count();
    }
    assert!(cancelled > 0, "the branch is never cancelled");
    nothing_is_left(&mut world, "endless ringing");
}

/// Random responses with all kinds of Vias, retransmissions, a CANCEL and pauses.
#[test]
fn no_state_is_left_after_any_responses() {
    for seed in 0..400 {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let mut world = world();
        let method = ["INVITE", "INVITE", "INVITE", "OPTIONS", "MESSAGE", "UPDATE"][rng.below(6) as usize];
        let first = request(method, "sip:bob@example.org").call_id(&format!("{seed}"));
        let sent = requests(world.udp(ALICE, &first));
        for _ in 0..rng.below(12) {
            match rng.below(8) {
                0 => drop(world.udp(ALICE, &first.cancel())),
                1 => drop(world.udp(ALICE, &first)),
                2 => drop(world.pass(Duration::from_millis(rng.below(100_000)))),
                _ => {
                    let one = &sent[rng.below(sent.len() as u64) as usize];
                    let status = match rng.below(3) {
                        0 => 101 + rng.below(99) as u16,
                        1 => 200 + rng.below(5) as u16,
                        _ => 300 + rng.below(400) as u16,
                    };
                    let vias = [Vias::AsSent, Vias::OnlyOurs, Vias::Unreadable][rng.below(3) as usize];
                    let from = if rng.below(4) == 0 { CAROL.into() } else { one.to() };
                    let from = if rng.below(8) == 0 { BOB.into() } else { from };
                    world.udp(&from, &with_vias(&one.answer(status, &[]), vias));
                }
            }
        }
        nothing_is_left(&mut world, &format!("seed {seed}"));
    }
}
