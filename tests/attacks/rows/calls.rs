//! To end, take over or colour the calls of others.

use super::{EVE, closed, eves, reached};
use crate::harness::{ALICE, BOB, STRANGER, Sent, World, requests, statuses};
use crate::row::{Door, Row, Seen, Thesis};
use ringway_sansio::Defence;
use ringway_server::BlockPattern;

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "a stranger cancels a call that rings",
        door: Door::Udp,
        thesis: Thesis::IpSpoofing,
        defence: Defence::CancelHop,
        attack: cancels,
    },
    Row {
        name: "a stranger refuses a call instead of its callee",
        door: Door::Udp,
        thesis: Thesis::CallHijacking,
        defence: Defence::ResponseSource,
        attack: answers_for_bob,
    },
    Row {
        name: "a stranger calls with the identity of another caller",
        door: Door::Udp,
        thesis: Thesis::Impersonation,
        defence: Defence::Identities,
        attack: claims_an_identity,
    },
    Row {
        name: "a caller whose network is blocked calls",
        door: Door::Udp,
        thesis: Thesis::UdpFlood,
        defence: Defence::Blocks,
        attack: blocked_calls,
    },
    Row {
        name: "a stranger sends a text without a password",
        door: Door::Udp,
        thesis: Thesis::Impersonation,
        defence: Defence::StrangerMethods,
        attack: stranger_writes,
    },
];

/// A call of alice to bob, who rings: the call and what bob got.
fn ringing(world: &mut World) -> (crate::harness::Request, Sent) {
    let call = eves("sip:bob@example.org");
    let got = requests(world.udp(ALICE, &call)).remove(0);
    world.udp(BOB, &got.answer(180, &[]));
    (call, got)
}

fn cancels() -> Seen {
    let mut world = closed();
    let (call, _) = ringing(&mut world);
    let sent = world.udp(STRANGER, &call.cancel());
    Seen::new(&world, requests(sent).iter().any(|sent| sent.method() == "CANCEL"))
}

fn answers_for_bob() -> Seen {
    let mut world = closed();
    let (_, got) = ringing(&mut world);
    let sent = world.udp(STRANGER, &got.answer_tagged(603, "forged", &[]));
    let to_alice: Vec<_> = sent.into_iter().filter(|sent| sent.to() == ALICE).collect();
    Seen::new(&world, statuses(&to_alice).contains(&603))
}

fn claims_an_identity() -> Seen {
    let mut world = closed();
    let call = eves("sip:bob@example.org").line("P-Asserted-Identity: <sip:boss@example.org>");
    let got = requests(world.udp(STRANGER, &call)).remove(0);
    Seen::new(&world, !got.headers("P-Asserted-Identity").is_empty())
}

fn blocked_calls() -> Seen {
    let mut world = closed();
    let networks = vec![BlockPattern::network("203.0.113.0/24").unwrap()];
    world.memory.tables().change_blocks(|list| list.set_all(networks));
    let sent = world.udp(STRANGER, &eves("sip:bob@example.org"));
    Seen::new(&world, reached(&sent, BOB))
}

fn stranger_writes() -> Seen {
    let mut world = closed();
    let text = crate::harness::request("MESSAGE", "sip:bob@example.org").from(EVE);
    let sent = world.udp(STRANGER, &text);
    Seen::new(&world, reached(&sent, BOB))
}
