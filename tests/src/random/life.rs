//! Phones of several users on a network with random faults: both sides of every call must agree in the end, and the server must have no
//! state left.

use crate::{Behaviour, PhoneEvent, Story, Violation, World};
use ringway_sansio::{Rng, Seed, Transport};
use ringway_server::{Config, ForwardUri, Forwards, NoAnswer};
use ringway_sim::{Faults, HostId};
use std::time::Duration;

/// Random actions.
pub(super) fn calls(seed: u64) -> Result<(), Violation> {
    let story = Story::new("calls").configure(limit_contacts);
    story.play(seed, |world| live(world, Agree::BothSides, Reached::Bindings))
}

/// The same through a stateless proxy.
pub(super) fn stateless(seed: u64) -> Result<(), Violation> {
    let story = Story::new("stateless").configure(|config| {
        limit_contacts(config);
        config.stateful = false;
    });
    story.play(seed, |world| live(world, Agree::Perhaps, Reached::Bindings))
}

/// The same with users who forward their calls.
pub(super) fn forwards(seed: u64) -> Result<(), Violation> {
    let to = |user: &str| ForwardUri::new(&format!("sip:{user}@example.org")).expect("a valid URI");
    let story = Story::new("forwards").configure(|config| {
        limit_contacts(config);
        config.recurse = true;
    });
    story.play(seed, |world| {
        let no_answer = NoAnswer::new(3, to("carol")).expect("a valid time");
        let busy = Forwards { busy: Some(to("carol")), no_answer: Some(no_answer), ..Forwards::default() };
        world.set_forwards("bob", &busy);
        world.set_forwards("carol", &Forwards { busy: Some(to("bob")), ..Forwards::default() });
        world.set_forwards("dave", &Forwards { always: Some(to("eve")), ..Forwards::default() });
        world.set_forwards("eve", &Forwards { unregistered: Some(to("dave")), ..Forwards::default() });
        live(world, Agree::BothSides, Reached::Others);
    })
}

/// The same with a server that starts again and again, while nothing is on its way.
pub(super) fn restarts(seed: u64) -> Result<(), Violation> {
    let story = Story::new("restarts").configure(limit_contacts);
    story.play(seed, |world| {
        let mut rng = rng_of(world);
        let phones = people(world);
        for _ in 0..3 {
            act_for_some_time(world, &phones, 40, &mut rng);
            calm_down(world, &phones);
            world.restart_server();
        }
        act_for_some_time(world, &phones, 20, &mut rng);
        calm_down(world, &phones);
        world.check_random(false);
    })
}

/// Bob has a phone more than he may have.
fn limit_contacts(config: &mut Config) {
    config.registrar.max_contacts = 2;
}

/// Comparison of the two sides of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Agree {
    /// A call that ended for one has ended for the other.
    BothSides,
    Perhaps,
}

/// Receivers of the requests to a user.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reached {
    /// His bindings alone.
    Bindings,
    /// Other users, too.
    Others,
}

fn live(world: &mut World, agree: Agree, reached: Reached) {
    let mut rng = rng_of(world);
    let phones = people(world);
    act_for_some_time(world, &phones, 120, &mut rng);
    calm_down(world, &phones);
    world.check_random(reached == Reached::Others);
    let everybody_heard = phones.iter().all(|&phone| {
        !world.events(phone).iter().any(|events| {
            matches!(
                events,
                PhoneEvent::Unanswered(_) | PhoneEvent::Refused("BYE", _) | PhoneEvent::NeverConfirmed
            )
        })
    });
    if agree == Agree::BothSides && everybody_heard {
        assert_eq!(world.calls_up(&phones), vec![0; phones.len()]);
    }
}

fn rng_of(world: &World) -> Rng {
    Rng::new(&Seed::from_number(world.seed()).part(50))
}

fn act_for_some_time(world: &mut World, phones: &[HostId], actions: u32, rng: &mut Rng) {
    world.sim.set_faults(weather(rng));
    for _ in 0..actions {
        let phone = phones[rng.below(phones.len() as u64) as usize];
        act(world, phone, rng);
        world.wait_ms([0, 5, 100, 3000][rng.below(4) as usize]);
    }
}

/// Ends all faults and calls.
fn calm_down(world: &mut World, phones: &[HostId]) {
    // Calls that still ring end by timer C or by a CANCEL of the caller.
    world.sim.set_faults(Faults::default());
    world.wait(400);
    for _ in 0..20 {
        for &phone in phones {
            world.hang_up(phone);
        }
        world.wait(2);
    }
    world.wait(100);
}

/// Five users; one has three phones, of which two may be registered, one uses TCP.
fn people(world: &mut World) -> Vec<HostId> {
    let mut phones: Vec<HostId> = ["alice", "bob", "bob", "carol"].map(|user| world.registered(user)).into();
    for (user, transport) in [("dave", Transport::Tcp), ("eve", Transport::Udp)] {
        let phone = world.phone_with(user, transport, None);
        world.register(phone);
        phones.push(phone);
    }
    phones.push(world.phone("bob"));
    phones
}

fn weather(rng: &mut Rng) -> Faults {
    let mut up_to = |bound| u32::try_from(rng.below(bound)).unwrap_or(0);
    let (loss_per_mille, duplicate_per_mille, reorder_per_mille) = (up_to(250), up_to(200), up_to(200));
    let delay = Duration::from_millis(1)..Duration::from_millis(2 + rng.below(200));
    Faults { loss_per_mille, duplicate_per_mille, reorder_per_mille, delay }
}

fn act(world: &mut World, phone: HostId, rng: &mut Rng) {
    match rng.below(11) {
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
        9 => world.replay(phone),
        _ => {
            let callee = ["alice", "bob", "carol", "dave", "eve"][rng.below(5) as usize];
            let uri = format!("sip:{callee}@example.org");
            world.phone_do(phone, |phone, now, effects| {
                phone.request_outside(now, "MESSAGE", &uri, "", effects);
            });
        }
    }
}
