//! Stories of sides of a call that move (RFC 3261 §12.2): a new connection, another port of a NAT, another Contact, a GRUU, a restart of the
//! server. Each call is ended by one side, and the other one gets the BYE where it is then.

use ringway_sansio::Transport;
use ringway_server::{Config, Trunk};
use ringway_sim::HostId;
use ringway_tests::{Behaviour, PhoneEvent, Story, World};
use std::net::SocketAddr;

/// Call of `caller` to bob, who answers.
fn answered(world: &mut World, caller: HostId, bob: HostId) {
    world.call(caller, "bob");
    world.wait(5);
    assert_eq!(world.calls_up(&[caller, bob]), [1, 1]);
}

/// Ends the call of one side; the other one gets the BYE.
fn ends(world: &mut World, by: HostId, other: HostId) {
    world.hang_up(by);
    world.wait(5);
    assert_eq!(world.calls_up(&[by, other]), [0, 0], "{:?}", world.events(by));
    assert_eq!(world.events(by).last(), Some(&PhoneEvent::Accepted("BYE")));
    assert_eq!(world.count(other, &PhoneEvent::HungUp), 1);
}

/// Another port of a phone's address.
fn other_port(world: &World, phone: HostId) -> SocketAddr {
    SocketAddr::new(world.address(phone).ip(), 5070)
}

fn refreshes(world: &mut World, phone: HostId) {
    world.phone_do(phone, |phone, now, effects| phone.refresh(now, effects));
    world.wait(5);
    assert_eq!(world.events(phone).last(), Some(&PhoneEvent::Accepted("UPDATE")));
}

fn registers_again(world: &mut World, phone: HostId) {
    world.phone_do(phone, |phone, now, effects| phone.register(now, 3600, effects));
    world.wait(5);
    assert!(matches!(world.events(phone).last(), Some(PhoneEvent::Registered { .. })));
}

fn register_tcp(world: &mut World, user: &str, contact: Option<SocketAddr>) -> HostId {
    let phone = world.phone_with(user, Transport::Tcp, contact);
    world.register(phone);
    phone
}

#[test]
fn a_phone_that_connects_and_registers_again_gets_the_bye() {
    // With the address of a NAT in its Contact, and with its own.
    for contact in [Some("192.168.7.7:5060".parse().unwrap()), None] {
        Story::new("new connection").run(|world| {
            let alice = world.registered("alice");
            let bob = register_tcp(world, "bob", contact);
            answered(world, alice, bob);
            world.sim.close(world.sim.connections(bob)[0]);
            world.wait(1);
            registers_again(world, bob);
            ends(world, alice, bob);
        });
    }
}

#[test]
fn a_caller_that_connects_again_is_reached_after_its_request() {
    Story::new("caller's new connection").run(|world| {
        let alice = register_tcp(world, "alice", Some("192.168.7.7:5060".parse().unwrap()));
        let bob = world.registered("bob");
        answered(world, alice, bob);
        world.sim.close(world.sim.connections(alice)[0]);
        world.wait(1);
        refreshes(world, alice);
        ends(world, bob, alice);
    });
}

#[test]
fn another_port_of_a_nat_is_followed_from_the_next_register_on() {
    for is_ended_by_bob in [false, true] {
        Story::new("new port of the NAT").run(|world| {
            let alice = world.registered("alice");
            let bob = world.phone_with("bob", Transport::Udp, Some("192.168.7.7:5060".parse().unwrap()));
            world.register(bob);
            answered(world, alice, bob);
            let bob = world.moved(bob, other_port(world, bob));
            registers_again(world, bob);
            match is_ended_by_bob {
                true => ends(world, bob, alice),
                false => ends(world, alice, bob),
            }
        });
    }
}

/// Both sides, one after another, have another Contact at their address.
#[test]
fn a_target_refresh_moves_its_side() {
    for is_stranger in [false, true] {
        Story::new("target refresh").run(|world| {
            let alice = match is_stranger {
                true => world.caller_from_elsewhere("alice"),
                false => world.registered("alice"),
            };
            let bob = world.registered("bob");
            answered(world, alice, bob);
            let bob = world.moved(bob, other_port(world, bob));
            refreshes(world, bob);
            let alice = world.moved(alice, other_port(world, alice));
            refreshes(world, alice);
            match world.seed() % 2 {
                0 => ends(world, alice, bob),
                _ => ends(world, bob, alice),
            }
        });
    }
}

#[test]
fn a_user_who_changes_networks_proves_the_password_and_goes_on() {
    Story::new("another network").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        answered(world, alice, bob);
        let alice = world.moved(alice, "10.0.3.1:5060".parse().unwrap());
        refreshes(world, alice);
        assert_eq!(world.counts(|counters| counters.moved_challenged), 2, "without and with the password");
        match world.seed() % 2 {
            0 => ends(world, alice, bob),
            _ => ends(world, bob, alice),
        }
        assert_eq!(world.counts(|counters| counters.moved_challenged), 2);
    });
}

#[test]
fn a_stranger_who_changes_networks_is_refused() {
    Story::new("a stranger elsewhere").run(|world| {
        let (eve, bob) = (world.caller_from_elsewhere("eve"), world.registered("bob"));
        answered(world, eve, bob);
        let eve = world.moved(eve, "10.0.3.1:5060".parse().unwrap());
        world.phone_do(eve, |phone, now, effects| phone.refresh(now, effects));
        world.wait(5);
        assert_eq!(world.events(eve).last(), Some(&PhoneEvent::Refused("UPDATE", 403)));
        world.hang_up(bob);
        world.wait(60);
        assert_eq!(world.count(eve, &PhoneEvent::HungUp), 0);
    });
}

/// The first phone of a story is a trunk with two addresses.
fn trunk(config: &mut Config) {
    config.trunking.trunks = vec![Trunk {
        networks: ["10.0.1.1", "10.0.4.1"].map(|ip| ip.parse().expect("an address")).into(),
        ..Trunk::at("carrier", "sip:10.0.1.1:5060")
    }]
    .into();
}

#[test]
fn a_trunk_goes_on_at_another_address_of_its_networks() {
    Story::new("trunk moves").configure(trunk).run(|world| {
        let carrier = world.caller_from_elsewhere("carrier");
        let bob = world.registered("bob");
        answered(world, carrier, bob);
        let carrier = world.moved(carrier, "10.0.4.1:5060".parse().unwrap());
        refreshes(world, carrier);
        match world.seed() % 2 {
            0 => ends(world, carrier, bob),
            _ => ends(world, bob, carrier),
        }
    });
}

#[test]
fn a_gruu_leads_to_the_phone_after_it_has_connected_again() {
    let gruu = |config: &mut Config| config.registrar.gruu = true;
    Story::new("GRUU").configure(gruu).run(|world| {
        let alice = world.registered("alice");
        let bob = world.phone_with("bob", Transport::Tcp, None);
        let register = |world: &mut World| {
            let address = world.address(bob);
            let contact = format!(
                "Contact: <sip:bob@{address};transport=tcp>;+sip.instance=\"<urn:uuid:b>\"\r\nSupported: gruu\r\nExpires: 3600\r\n"
            );
            world.phone_do(bob, |phone, now, effects| phone.register_with(now, &contact, effects));
            world.wait(20);
        };
        register(world);
        world.phone_do(bob, |phone, _, _| phone.set_contact_uri("sip:bob@example.org;gr=urn:uuid:b"));
        answered(world, alice, bob);
        world.sim.close(world.sim.connections(bob)[0]);
        world.wait(1);
        register(world);
        ends(world, alice, bob);
    });
}

#[test]
fn phones_that_register_again_end_their_call_after_a_restart() {
    for is_ended_by_bob in [false, true] {
        Story::new("restart in a call").run(|world| {
            let alice = register_tcp(world, "alice", Some("192.168.7.6:5060".parse().unwrap()));
            let bob = register_tcp(world, "bob", Some("192.168.7.7:5060".parse().unwrap()));
            answered(world, alice, bob);
            world.restart_server();
            world.wait(2);
            registers_again(world, alice);
            registers_again(world, bob);
            match is_ended_by_bob {
                true => ends(world, bob, alice),
                false => ends(world, alice, bob),
            }
        });
    }
}

/// A phone that does not answer any more is not looked for: nobody can tell it from one that is silent.
#[test]
fn a_phone_that_is_gone_gets_nothing() {
    Story::new("gone").run(|world| {
        let alice = world.registered("alice");
        let bob = register_tcp(world, "bob", Some("192.168.7.7:5060".parse().unwrap()));
        world.behave(bob, Behaviour::Answer { ring_ms: 50, answer_ms: 100 });
        answered(world, alice, bob);
        world.sim.close(world.sim.connections(bob)[0]);
        world.wait(1);
        world.hang_up(alice);
        world.wait(5);
        assert_eq!(world.events(alice).last(), Some(&PhoneEvent::Refused("BYE", 480)));
    });
}
