//! Stories of phones that use TCP.

use ringway_sansio::Transport;
use ringway_sim::{Faults, HostId};
use ringway_tests::{PhoneEvent, Story, World};

#[test]
fn calls_between_phones_of_either_transport() {
    for (caller, callee) in
        [(Transport::Tcp, Transport::Tcp), (Transport::Tcp, Transport::Udp), (Transport::Udp, Transport::Tcp)]
    {
        Story::new("tcp").run(|world| {
            let alice = registered(world, "alice", caller);
            let bob = registered(world, "bob", callee);
            world.call(alice, "bob");
            world.wait(5);
            assert_eq!(world.calls_up(&[alice, bob]), [1, 1], "{caller} to {callee}");
            let by = if world.seed() % 2 == 0 { alice } else { bob };
            world.hang_up(by);
            world.wait(5);
            assert_eq!(world.calls_up(&[alice, bob]), [0, 0], "{caller} to {callee}");
            assert_eq!(world.events(by).last(), Some(&PhoneEvent::Accepted("BYE")));
        });
    }
}

#[test]
fn a_request_to_a_binding_goes_by_the_connection_it_was_registered_by() {
    Story::new("connection reuse").run(|world| {
        let alice = registered(world, "alice", Transport::Udp);
        let bob = registered(world, "bob", Transport::Tcp);
        world.call(alice, "bob");
        world.wait(5);
        assert_eq!(world.sim.connections(world.server).len(), 1);
        world.hang_up(alice);
        world.wait(5);
        assert_eq!(world.sim.connections(bob).len(), 1, "no second connection was made");
    });
}

/// As behind a NAT: the contact is an unreachable address.
#[test]
fn a_contact_that_only_its_connection_reaches_is_gone_with_it() {
    Story::new("flow only").run(|world| {
        let alice = world.registered("alice");
        let unreachable = "192.168.7.7:5060".parse().unwrap();
        let bob = world.phone_with("bob", Transport::Tcp, Some(unreachable));
        world.register(bob);
        world.call(alice, "bob");
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, bob]), [1, 1]);
        world.hang_up(alice);
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, bob]), [0, 0], "the BYE too went by the connection");

        world.sim.close(world.sim.connections(bob)[0]);
        world.wait(1);
        world.call(alice, "bob");
        world.wait(5);
        assert_eq!(world.events(alice).last(), Some(&PhoneEvent::Refused("INVITE", 480)));

        world.register(bob);
        world.wait(1);
        world.phone_do(bob, |phone, now, effects| phone.register(now, 3600, effects));
        world.wait(1);
        world.call(alice, "bob");
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, bob]), [1, 1], "registered anew, it can be called again");
    });
}

#[test]
fn a_reachable_contact_is_dialled_when_its_connection_is_gone() {
    Story::new("dialled anew").run(|world| {
        let alice = registered(world, "alice", Transport::Udp);
        let bob = registered(world, "bob", Transport::Tcp);
        world.sim.close(world.sim.connections(bob)[0]);
        world.wait(1);
        world.call(alice, "bob");
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, bob]), [1, 1]);
        world.hang_up(alice);
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, bob]), [0, 0]);
    });
}

#[test]
fn a_caller_whose_connection_breaks_is_answered_by_a_new_one() {
    Story::new("broken while ringing").run(|world| {
        let alice = registered(world, "alice", Transport::Tcp);
        let bob = registered(world, "bob", Transport::Udp);
        world.call(alice, "bob");
        world.wait_ms(500);
        world.sim.close(world.sim.connections(alice)[0]);
        world.wait(5);
        assert_eq!(world.calls_up(&[alice, bob]), [1, 1], "RFC 3261 §18.2.2");
    });
}

#[test]
fn a_slow_network_breaks_no_stream() {
    let slow = Faults {
        loss_per_mille: 300,
        duplicate_per_mille: 0,
        reorder_per_mille: 0,
        delay: std::time::Duration::from_millis(10)..std::time::Duration::from_millis(400),
    };
    Story::new("slow tcp").faults(slow).run(|world| {
        let alice = registered(world, "alice", Transport::Tcp);
        let bob = registered(world, "bob", Transport::Tcp);
        world.call(alice, "bob");
        world.wait(120);
        assert_eq!(world.calls_up(&[alice, bob]), [1, 1]);
        world.hang_up(bob);
        world.wait(120);
        assert_eq!(world.calls_up(&[alice, bob]), [0, 0]);
    });
}

fn registered(world: &mut World, user: &str, transport: Transport) -> HostId {
    let phone = world.phone_with(user, transport, None);
    world.register(phone);
    phone
}
