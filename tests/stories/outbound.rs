//! Stories of phones whose flows die (RFC 5626): a NAT gives another port, or one of two networks is lost.

use ringway_sim::{ClosedPorts, HostId};
use ringway_tests::{PhoneEvent, Story, World};

const INSTANCE: &str = "<urn:uuid:00000000-0000-1000-8000-AABBCCDDEEFF>";

/// Registers a host as a flow of bob's phone. Each host is another address of the same phone.
fn register_flow(world: &mut World, phone: HostId, reg_id: u32) {
    let contact = format!(
        "Contact: <sip:bob@{}>;+sip.instance=\"{INSTANCE}\";reg-id={reg_id}\r\nSupported: path, outbound\r\nExpires: 3600\r\n",
        world.address(phone)
    );
    world.phone_do(phone, |phone, now, effects| phone.register_with(now, &contact, effects));
    world.wait(20);
    assert!(matches!(world.events(phone).first(), Some(PhoneEvent::Registered { .. })), "it is registered");
}

/// A call to a phone with two flows, whose first one is dead; the caller, and the end of the second flow.
fn call_with_a_dead_first_flow(world: &mut World) -> [HostId; 2] {
    let alice = world.registered("alice");
    let second = world.phone("bob");
    register_flow(world, second, 2);
    let first = world.phone("bob");
    register_flow(world, first, 1);
    world.crash(first);
    world.call(alice, "bob");
    [alice, second]
}

#[test]
fn a_phone_that_comes_back_from_a_new_address_rings_there_only() {
    Story::new("new port of the NAT").run(|world| {
        let alice = world.registered("alice");
        let old = world.phone("bob");
        register_flow(world, old, 1);
        let new = world.phone("bob");
        register_flow(world, new, 1);
        world.call(alice, "bob");
        world.wait(20);
        assert!(world.call_events(old).is_empty(), "its binding is replaced");
        assert_eq!(world.calls_up(&[alice, old, new]), [1, 0, 1]);
        assert_eq!(world.forwarded("INVITE"), 1);
        world.hang_up(alice);
    });
}

#[test]
fn without_outbound_the_old_address_rings_too() {
    Story::new("without outbound").run(|world| {
        let alice = world.registered("alice");
        let (old, new) = (world.registered("bob"), world.registered("bob"));
        world.call(alice, "bob");
        world.wait(20);
        assert_eq!(world.forwarded("INVITE"), 2);
        assert_eq!(world.count(old, &PhoneEvent::Called) + world.count(new, &PhoneEvent::Called), 2);
        world.hang_up(alice);
    });
}

#[test]
fn a_call_comes_over_the_second_flow_when_the_first_is_dead() {
    Story::new("a dead flow").run(|world| {
        let [alice, second] = call_with_a_dead_first_flow(world);
        // Timer B of the first flow, unless an ICMP error says it earlier.
        world.wait(40);
        assert_eq!(world.calls_up(&[alice, second]), [1, 1]);
        world.hang_up(alice);
    });
}

#[test]
fn an_icmp_error_of_the_first_flow_leads_to_the_second_within_a_second() {
    Story::new("a closed flow").run(|world| {
        world.sim.set_closed_ports(ClosedPorts::IcmpError);
        let [alice, second] = call_with_a_dead_first_flow(world);
        world.wait_ms(2_500);
        assert_eq!(world.calls_up(&[alice, second]), [1, 1]);
        world.hang_up(alice);
    });
}

#[test]
fn a_call_to_a_phone_whose_flows_are_all_dead_ends() {
    Story::new("all flows dead").run(|world| {
        let alice = world.registered("alice");
        for reg_id in [1, 2, 3] {
            let flow = world.phone("bob");
            register_flow(world, flow, reg_id);
            world.crash(flow);
        }
        world.call(alice, "bob");
        world.wait(150);
        assert_eq!(world.forwarded("INVITE"), 3);
        let end = world.events(alice).into_iter().next_back();
        assert!(matches!(end, Some(PhoneEvent::Refused("INVITE", 408 | 480))), "{end:?}");
    });
}
