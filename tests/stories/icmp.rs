//! Stories of ICMP errors: closed ports, and strangers who forge errors.

use ringway_agent::CallState;
use ringway_sansio::{Flow, ListenerId};
use ringway_sim::{ClosedPorts, HostId};
use ringway_tests::{Behaviour, PhoneEvent, Story, World};

#[test]
fn a_call_to_a_phone_that_crashed_fails_within_a_second() {
    Story::new("closed port").run(|world| {
        world.sim.set_closed_ports(ClosedPorts::IcmpError);
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.crash(bob);
        world.call(alice, "bob");
        world.wait_ms(400);
        assert_eq!(world.call_events(alice), [], "a phone that is starting gets the retransmission");
        world.wait_ms(600);
        assert_eq!(world.call_events(alice), [PhoneEvent::Refused("INVITE", 480)]);
        assert_eq!(bindings(world), 2, "an ICMP error ends no registration");
    });
}

#[test]
fn another_phone_of_the_user_still_rings() {
    Story::new("one closed port of two").run(|world| {
        world.sim.set_closed_ports(ClosedPorts::IcmpError);
        let alice = world.registered("alice");
        let (first, second) = (world.registered("bob"), world.registered("bob"));
        world.crash(first);
        world.call(alice, "bob");
        world.wait(3);
        assert_eq!(world.calls_up(&[alice, second]), [1, 1]);
        world.hang_up(alice);
        world.wait(2);
    });
}

#[test]
fn a_phone_whose_server_is_down_fails_within_a_second_and_registers_later() {
    Story::new("server down").run(|world| {
        world.sim.set_closed_ports(ClosedPorts::IcmpError);
        let (alice, bob) = (world.registered_softphone("alice"), world.registered_softphone("bob"));
        world.sim.remove(world.server);
        let call = world.dial(alice, "bob");
        world.wait(1);
        assert_eq!(world.ended(alice, call), Some(503));
        world.restart_server();
        world.wait(4000);
        let call = world.dial(alice, "bob");
        world.wait(1);
        let inward = world.pick_up(bob).expect("it rings");
        world.wait(1);
        assert_eq!(world.agent(bob).call_state(inward), Some(CallState::Established));
        let _ = world.agent_do(alice, |agent, cx| agent.hang_up(cx, call));
        world.wait(2);
    });
}

/// Everybody who sees the requests can forge perfect errors. They come too late once there is a response.
#[test]
fn forged_errors_for_answered_requests_change_nothing() {
    Story::new("forged errors, answered").run(|world| {
        let (alice, bob) = (world.registered_softphone("alice"), world.registered_softphone("bob"));
        let call = world.dial(alice, "bob");
        world.wait(1);
        forge(world, &[alice, bob], |_| {});
        world.wait(1);
        let inward = world.pick_up(bob).expect("it still rings");
        world.wait(1);
        forge(world, &[alice, bob], |_| {});
        world.wait(1);
        for (phone, call) in [(alice, call), (bob, inward)] {
            assert_eq!(world.agent(phone).call_state(call), Some(CallState::Established));
            assert!(world.agent(phone).is_registered(ringway_agent::AccountId(0)));
        }
        assert_eq!((bindings(world), failures(world)), (2, 0));
        let _ = world.agent_do(alice, |agent, cx| agent.hang_up(cx, call));
        world.wait(2);
    });
}

/// A stranger who has all of a pending request but its branch.
#[test]
fn forged_errors_with_guessed_branches_change_nothing() {
    Story::new("forged errors, guessed").run(|world| {
        let (alice, bob) = (world.registered("alice"), world.registered("bob"));
        world.behave(bob, Behaviour::Silent);
        world.call(alice, "bob");
        for _ in 0..20 {
            world.wait(1);
            forge(world, &[], |bytes| {
                let at = find(bytes, b"branch=z9hG4bK").map_or(0, |at| at + b"branch=z9hG4bK.t".len());
                // The shard and the slot are easily guessed; the check behind them is not.
                bytes.iter_mut().skip(at + 20).take(16).for_each(|byte| *byte = b'7');
            });
        }
        assert_eq!((world.call_events(alice), failures(world)), (vec![], 0));
        forge(world, &[], |_| {});
        world.wait(1);
        assert_eq!(world.call_events(alice), [PhoneEvent::Refused("INVITE", 480)]);
        assert_eq!((bindings(world), failures(world)), (2, 1));
    });
}

/// Sends the server and `phones` an ICMP error for each datagram that they have sent, changed by `change`.
fn forge(world: &mut World, phones: &[HostId], change: fn(&mut Vec<u8>)) {
    let packets: Vec<_> = world.sim.trace().packets().cloned().collect();
    for packet in packets {
        let owner = phones.iter().find(|&&phone| world.softphone_address(phone) == packet.from);
        let host = match owner {
            Some(&phone) => phone,
            None if packet.sender == "server" => world.server,
            None => continue,
        };
        let mut quoted = packet.bytes.clone();
        change(&mut quoted);
        world.sim.send_icmp_error(host, Flow::udp(ListenerId(0), packet.to), &quoted);
    }
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}

fn bindings(world: &World) -> usize {
    world.shards().iter().map(|shard| shard.location().bindings_len()).sum()
}

fn failures(world: &World) -> u64 {
    world.shards().iter().map(|shard| shard.transaction_counters().icmp_failures).sum()
}
