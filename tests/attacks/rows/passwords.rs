//! To be taken for a user.

use super::{closed, eves, reached};
use crate::harness::{ALICE, BOB, CAROL, STRANGER, World, invite, only, query, register, requests};
use crate::login::{Login, answered, proven};
use crate::row::{Door, Row, Seen, Thesis};
use ringway_sansio::{ConnectionId, Defence, Flow, ListenerId, Transport};
use std::time::Duration;

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "a stranger registers its address for a user",
        door: Door::Udp,
        thesis: Thesis::RegistrationHijacking,
        defence: Defence::RegisterPassword,
        attack: registers_without_a_password,
    },
    Row {
        name: "a user registers its address for another user, with its own password",
        door: Door::Udp,
        thesis: Thesis::RegistrationHijacking,
        defence: Defence::OwnAddress,
        attack: registers_for_another,
    },
    Row {
        name: "a stranger calls in the name of a user",
        door: Door::Udp,
        thesis: Thesis::Impersonation,
        defence: Defence::CallerPassword,
        attack: calls_as_alice,
    },
    Row {
        name: "a captured call with its credentials is sent again from its forged address",
        door: Door::Udp,
        thesis: Thesis::Replay,
        defence: Defence::NonceCount,
        attack: call_is_replayed,
    },
    Row {
        name: "credentials that never arrived are sent from another address",
        door: Door::Udp,
        thesis: Thesis::Replay,
        defence: Defence::NonceSource,
        attack: credentials_from_elsewhere,
    },
    Row {
        name: "credentials that never arrived are sent a day later from their forged address",
        door: Door::Udp,
        thesis: Thesis::Replay,
        defence: Defence::NonceLifetime,
        attack: credentials_of_yesterday,
    },
    Row {
        name: "credentials for one number are used for another one",
        door: Door::Udp,
        thesis: Thesis::TollFraud,
        defence: Defence::DigestUri,
        attack: credentials_for_another_target,
    },
    Row {
        name: "a thousand words are tried as a password, the right one last",
        door: Door::Udp,
        thesis: Thesis::RegistrationHijacking,
        defence: Defence::Guessing,
        attack: guesses,
    },
    Row {
        name: "a page on a trusted host calls in the name of a user",
        door: Door::WebSocket,
        thesis: Thesis::Impersonation,
        defence: Defence::WebSocketAddress,
        attack: page_calls,
    },
    Row {
        name: "a called phone collects the credentials of its caller",
        door: Door::Udp,
        thesis: Thesis::Other,
        defence: Defence::OwnCredentials,
        attack: collects_credentials,
    },
];

/// True if a call to alice comes to this address.
fn alice_is_at(world: &mut World, address: &str) -> bool {
    reached(&world.udp(super::ELSEWHERE, &eves("sip:alice@example.org")), address)
}

fn registers_without_a_password() -> Seen {
    let mut world = closed();
    world.udp(STRANGER, &register("alice", &format!("<sip:alice@{STRANGER}>")));
    let succeeded = alice_is_at(&mut world, STRANGER);
    Seen::new(&world, succeeded)
}

fn registers_for_another() -> Seen {
    let mut world = closed();
    proven(&mut world, CAROL, &register("alice", &format!("<sip:alice@{CAROL}>")), "carol");
    let succeeded = alice_is_at(&mut world, CAROL);
    Seen::new(&world, succeeded)
}

fn calls_as_alice() -> Seen {
    let mut world = closed();
    let sent = world.udp(STRANGER, &invite("sip:bob@example.org"));
    Seen::new(&world, reached(&sent, BOB))
}

/// A call of alice to bob with her credentials, which is not sent yet.
fn prepared(world: &mut World) -> crate::harness::Request {
    let call = invite("sip:bob@example.org");
    let challenge = only(world.udp(ALICE, &call));
    answered(&call, &Login::to(&challenge, "alice"))
}

fn call_is_replayed() -> Seen {
    let mut world = closed();
    let call = prepared(&mut world);
    let got = requests(world.udp(ALICE, &call)).remove(0);
    let refused =
        only(world.udp(BOB, &got.answer(486, &[])).into_iter().filter(|one| one.to() == ALICE).collect());
    world.udp(ALICE, &call.ack_of(&refused));
    world.pass(Duration::from_secs(70));
    let sent = world.udp(ALICE, &call);
    Seen::new(&world, reached(&sent, BOB))
}

fn credentials_from_elsewhere() -> Seen {
    let mut world = closed();
    let call = prepared(&mut world);
    let sent = world.udp(STRANGER, &call);
    Seen::new(&world, reached(&sent, BOB))
}

fn credentials_of_yesterday() -> Seen {
    let mut world = closed();
    let call = prepared(&mut world);
    world.pass(Duration::from_secs(86_400));
    let sent = world.udp(ALICE, &call);
    Seen::new(&world, reached(&sent, BOB))
}

fn credentials_for_another_target() -> Seen {
    let mut world = closed();
    let mut call = prepared(&mut world);
    call.uri = "sip:carol@example.org".into();
    let sent = world.udp(ALICE, &call);
    Seen::new(&world, reached(&sent, CAROL))
}

fn guesses() -> Seen {
    let mut world = closed();
    let mut succeeded = false;
    for number in 0..1000 {
        let request = query("alice").call_id(&format!("guess {number}"));
        let challenge = only(world.udp(STRANGER, &request));
        let word = if number == 999 { "alice's password".into() } else { format!("word {number}") };
        let login = Login { password: word, ..Login::to(&challenge, "alice") };
        succeeded |= only(world.udp(STRANGER, &answered(&request, &login))).status() == 200;
        world.pass(Duration::from_millis(10));
    }
    Seen::new(&world, succeeded)
}

fn page_calls() -> Seen {
    let mut world = World::with(|config| {
        config.auth.enabled = true;
        let listener = config.listeners[1].clone();
        config.listeners.push(ringway_server::Listener { transport: Transport::Ws, ..listener });
    });
    super::at_home(&mut world);
    let page = Flow::new(Transport::Ws, ListenerId(3), "192.0.2.99:40000".parse().unwrap());
    let page = Flow { connection: Some(ConnectionId(9)), ..page };
    let call = invite("sip:bob@example.org").via("SIP/2.0/WS page.invalid;branch=z9hG4bK");
    let sent = world.message(page, &crate::harness::Wire::wire(&call));
    Seen::new(&world, reached(&sent, BOB))
}

fn collects_credentials() -> Seen {
    let mut world = closed();
    let call = prepared(&mut world);
    let got = requests(world.udp(ALICE, &call)).remove(0);
    let succeeded = !got.headers("Proxy-Authorization").is_empty();
    Seen::new(&world, succeeded)
}
