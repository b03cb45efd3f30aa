//! To use up the server, or a victim by its help.

use super::{closed, eves};
use crate::harness::{BOB, STRANGER, Sent, World, invite, request, requests, statuses};
use crate::row::{Door, Row, Seen, Thesis};
use ringway_sansio::Defence;
use ringway_stun::{Class, METHOD_BINDING, MessageWriter, TransactionId};
use std::time::Duration;

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "an accomplice's responses are sent to a forged address, ten times as long as the request",
        door: Door::Udp,
        thesis: Thesis::IpSpoofing,
        defence: Defence::Amplification,
        attack: reflects,
    },
    Row {
        name: "two users who forward to each other keep a call going round",
        door: Door::Udp,
        thesis: Thesis::UdpFlood,
        defence: Defence::Loops,
        attack: goes_round,
    },
    Row {
        name: "a tree of users makes thousands of requests of one",
        door: Door::Udp,
        thesis: Thesis::UdpFlood,
        defence: Defence::Breadth,
        attack: multiplies,
    },
    Row {
        name: "one user's phone rings for three hundred strangers at a time",
        door: Door::Udp,
        thesis: Thesis::UdpFlood,
        defence: Defence::UserRequests,
        attack: rings_for_all,
    },
    Row {
        name: "one source has five thousand requests under way",
        door: Door::Udp,
        thesis: Thesis::UdpFlood,
        defence: Defence::SourceRequests,
        attack: fills,
    },
    Row {
        name: "a user registers forty contacts, and each call is sent to all of them",
        door: Door::Udp,
        thesis: Thesis::UdpFlood,
        defence: Defence::Contacts,
        attack: registers_many,
    },
    Row {
        name: "a forged address gets a hundred times as many STUN answers as its rate",
        door: Door::Stun,
        thesis: Thesis::UdpFlood,
        defence: Defence::SourceRate,
        attack: asks_stun,
    },
    Row {
        name: "a source sends ten times as much as its rate",
        door: Door::Udp,
        thesis: Thesis::UdpFlood,
        defence: Defence::SourceRate,
        attack: floods,
    },
];

fn reflects() -> Seen {
    let mut world = closed();
    let call = eves("sip:bob@example.org");
    let received = crate::harness::Wire::wire(&call).len();
    let mut sent = world.udp(STRANGER, &call);
    let got = requests(sent.clone()).remove(0);
    for number in 0..200 {
        let lines = [format!("X-Number: {number}"), format!("X-Pad: {}", "x".repeat(400))];
        sent.extend(world.udp(BOB, &got.answer(180, &[&lines[0], &lines[1]])));
    }
    let bytes: usize = sent.iter().filter(|one| one.to() == STRANGER).map(|one| one.bytes.len()).sum();
    Seen::new(&world, bytes > 10 * received + 800)
}

/// Number of INVITEs that one caused.
fn caused(world: &mut World, sent: Vec<Sent>) -> usize {
    let all = super::delivered(world, sent);
    requests(all).iter().filter(|one| one.method() == "INVITE").count()
}

fn goes_round() -> Seen {
    let mut world = World::open();
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:carol@example.org"]);
    world.server.set_permanent_contacts(b"carol@example.org", &[b"sip:bob@example.org"]);
    let sent = world.udp(STRANGER, &invite("sip:bob@example.org"));
    let count = caused(&mut world, sent);
    Seen::new(&world, count > 10)
}

fn multiplies() -> Seen {
    let mut world = World::open();
    for level in 0..6 {
        for slot in 0..3 {
            let next = |to| format!("sip:user{}-{to}@example.org;by={slot}", level + 1);
            let contacts = [next(0), next(1), next(2)];
            let contacts: Vec<_> = contacts.iter().map(|contact| contact.as_bytes()).collect();
            let aor = format!("user{level}-{slot}@example.org");
            world.server.set_permanent_contacts(aor.as_bytes(), &contacts);
        }
    }
    let sent = world.udp(STRANGER, &invite("sip:user0-0@example.org"));
    let count = caused(&mut world, sent);
    Seen::new(&world, count > 60)
}

fn floods() -> Seen {
    let mut world = World::limited(10);
    let mut answered = 0;
    for number in 0..100 {
        let options = request("OPTIONS", "sip:192.0.2.1:5060").call_id(&format!("{number}"));
        answered += statuses(&world.udp(STRANGER, &options)).len();
    }
    world.pass(Duration::from_millis(1));
    Seen::new(&world, answered == 100)
}

fn rings_for_all() -> Seen {
    let mut world = closed();
    let mut rings = 0;
    for number in 0..300 {
        let from = format!("203.0.{}.{}:5060", number / 200, 1 + number % 200);
        let call = eves("sip:bob@example.org").call_id(&format!("{number}"));
        let call = call.via(&format!("SIP/2.0/UDP {from};rport;branch=z9hG4bK"));
        rings += requests(world.udp(&from, &call)).len();
    }
    Seen::new(&world, rings == 300)
}

fn fills() -> Seen {
    let mut world = closed();
    for user in 0..20 {
        let (aor, contact) = (format!("user{user}@example.org"), format!("sip:user{user}@192.0.2.20"));
        world.server.set_permanent_contacts(aor.as_bytes(), &[contact.as_bytes()]);
    }
    let mut begun = 0;
    for number in 0..5000 {
        let call = eves(&format!("sip:user{}@example.org", number % 20)).call_id(&format!("{number}"));
        begun += requests(world.udp(STRANGER, &call)).len();
    }
    Seen::new(&world, begun == 5000)
}

fn registers_many() -> Seen {
    let mut world = World::open();
    for number in 0..40 {
        let contact = format!("<sip:{number}@192.0.2.20>");
        world.udp(BOB, &crate::harness::register("bob", &contact).call_id(&format!("{number}")));
    }
    let sent = world.udp(STRANGER, &invite("sip:bob@example.org"));
    Seen::new(&world, requests(sent).len() == 40)
}

fn asks_stun() -> Seen {
    let mut world = World::limited(10);
    let request = MessageWriter::new(Class::Request, METHOD_BINDING, TransactionId([7; 12])).finish();
    let answers: usize = (0..1000).map(|_| world.udp(STRANGER, &request).len()).sum();
    Seen::new(&world, answers == 1000)
}
