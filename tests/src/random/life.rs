//! Stories of random actions: phones of several users on a network with random faults.
//!
//! There are no expectations for a single call. The checks of [`ringway_tests::check`] must hold, both sides of every
//! call must agree in the end, and the server must have no state left.

use ringway_sansio::{Rng, Seed, Transport};
use ringway_server::{ForwardUri, Forwards, NoAnswer};
use ringway_sim::{Faults, HostId};
use ringway_tests::{Behaviour, PhoneEvent, Rules, Story, World};
use std::time::Duration;

#[test]
fn no_state_is_left_after_random_actions() {
    Story::new("life").run(|world| live(world, true, false));
}

#[test]
fn random_actions_through_a_stateless_proxy() {
    Story::new("stateless life")
        .configure(|config| config.stateful = false)
        .run(|world| live(world, false, false));
}

#[test]
fn random_actions_of_users_who_forward() {
    let to = |user: &str| ForwardUri::new(&format!("sip:{user}@example.org")).expect("a valid URI");
    Story::new("life with forwards").configure(|config| config.recurse = true).run(|world| {
        let no_answer = NoAnswer::new(3, to("carol")).expect("a valid time");
        let busy = Forwards { busy: Some(to("carol")), no_answer: Some(no_answer), ..Forwards::default() };
        world.set_forwards("bob", &busy);
        world.set_forwards("carol", &Forwards { busy: Some(to("bob")), ..Forwards::default() });
        world.set_forwards("dave", &Forwards { always: Some(to("eve")), ..Forwards::default() });
        world.set_forwards("eve", &Forwards { unregistered: Some(to("dave")), ..Forwards::default() });
        live(world, true, true);
    });
}

fn live(world: &mut World, agree: bool, forwards: bool) {
    let mut rng = Rng::new(&Seed::from_number(world.seed()).part(50));
    let phones = people(world);
    world.sim.set_faults(weather(&mut rng));
    for _ in 0..120 {
        let phone = phones[rng.below(phones.len() as u64) as usize];
        act(world, phone, &mut rng);
        world.wait_ms([0, 5, 100, 3000][rng.below(4) as usize]);
    }
    // Calls that still ring end by timer C or by a CANCEL of the caller.
    world.sim.set_faults(Faults::default());
    world.wait(400);
    for _ in 0..20 {
        for &phone in &phones {
            world.hang_up(phone);
        }
        world.wait(2);
    }
    world.wait(100);
    world.check_registrar(Rules { only_bindings: !forwards });
    let everybody_events = phones.iter().all(|&phone| {
        !world.events(phone).iter().any(|events| {
            matches!(
                events,
                PhoneEvent::Unanswered(_) | PhoneEvent::Refused("BYE", _) | PhoneEvent::NeverConfirmed
            )
        })
    });
    if agree && everybody_events {
        assert_eq!(world.calls_up(&phones), vec![0; phones.len()]);
    }
}

/// Five users; one has two phones, one uses TCP.
fn people(world: &mut World) -> Vec<HostId> {
    let mut phones: Vec<HostId> = ["alice", "bob", "bob", "carol"].map(|user| world.registered(user)).into();
    for (user, transport) in [("dave", Transport::Tcp), ("eve", Transport::Udp)] {
        let phone = world.phone_with(user, transport, None);
        world.register(phone);
        phones.push(phone);
    }
    phones
}

fn weather(rng: &mut Rng) -> Faults {
    let mut up_to = |bound| u32::try_from(rng.below(bound)).unwrap_or(0);
    let (loss_per_mille, duplicate_per_mille, reorder_per_mille) = (up_to(250), up_to(200), up_to(200));
    let delay = Duration::from_millis(1)..Duration::from_millis(2 + rng.below(200));
    Faults { loss_per_mille, duplicate_per_mille, reorder_per_mille, delay }
}

fn act(world: &mut World, phone: HostId, rng: &mut Rng) {
    match rng.below(10) {
        0..=3 => {
            let callee = ["alice", "bob", "carol", "dave", "eve", "nobody"][rng.below(6) as usize];
            world.call(phone, callee);
        }
        4 => world.cancel(phone),
        5 => world.hang_up(phone),
        6 => {
            let seconds = [0, 60, 600, 3600][rng.below(4) as usize];
            world.phone_do(phone, |phone, now, effects| phone.register(now, seconds, effects));
        }
        7 => {
            let behaviour = match rng.below(4) {
                0 => Behaviour::Answer { ring_ms: rng.below(300), answer_ms: 300 + rng.below(3000) },
                1 => Behaviour::Ring,
                2 => Behaviour::Refuse([404, 480, 486, 503, 603][rng.below(5) as usize]),
                _ => Behaviour::Silent,
            };
            world.behave(phone, behaviour);
        }
        8 => {
            if let Some(&connection) = world.sim.connections(phone).first() {
                world.sim.close(connection);
            }
        }
        _ => {
            let callee = ["alice", "bob", "carol", "dave", "eve"][rng.below(5) as usize];
            let uri = format!("sip:{callee}@example.org");
            world.phone_do(phone, |phone, now, effects| {
                phone.request_outside(now, "MESSAGE", &uri, "", effects);
            });
        }
    }
}
