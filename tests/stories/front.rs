//! Stories of a front before three nodes that share their registrations: phones reach the front only. Whatever happens to nodes, a later
//! request works, calls are ended through the front, and the front keeps nothing.

use ringway_sansio::Transport;
use ringway_sim::HostId;
use ringway_tests::{Cluster, PhoneEvent};

/// Phones of three kinds, registered through the front, and a caller.
fn registered(cluster: &mut Cluster) -> (HostId, [HostId; 3]) {
    cluster.add_front();
    let caller = cluster.phone("alice", Transport::Udp, true);
    let kinds =
        [("bob", Transport::Udp, false), ("carol", Transport::Udp, true), ("dave", Transport::Tcp, true)];
    let phones = kinds.map(|(user, transport, is_behind_nat)| cluster.phone(user, transport, is_behind_nat));
    for phone in [caller].into_iter().chain(phones) {
        cluster.registers(phone, Cluster::FRONT, 3600);
    }
    cluster.wait_ms(200);
    (caller, phones)
}

/// Calls and waits so long; true if both phones have the call.
fn calls(cluster: &mut Cluster, caller: HostId, user: &str, callee: HostId, wait_s: u64) -> bool {
    let before = (cluster.calls_len(caller), cluster.calls_len(callee));
    let uri = format!("sip:{user}@{}", ringway_tests::REALM);
    cluster.phone_do(caller, |phone, now, effects| phone.call(now, &uri, effects));
    cluster.wait(wait_s);
    (cluster.calls_len(caller), cluster.calls_len(callee)) == (before.0 + 1, before.1 + 1)
}

/// Ends the last call of one phone, and with it that of the other one.
fn ends(cluster: &mut Cluster, phone: HostId, other: HostId) {
    cluster.phone_do(phone, |phone, now, effects| phone.hang_up(now, effects));
    cluster.wait(1);
    assert_eq!((cluster.calls_len(phone), cluster.calls_len(other)), (0, 0), "the call has not ended");
}

#[test]
fn phones_are_called_through_the_front_and_dialled_by_every_node() {
    Cluster::run("front", |cluster| {
        let (caller, phones) = registered(cluster);
        assert_eq!(cluster.stored_len(), 4);
        for (user, phone) in ["bob", "carol", "dave"].into_iter().zip(phones) {
            assert!(calls(cluster, caller, user, phone, 2), "{user} is not called");
            ends(cluster, phone, caller);
            assert!(calls(cluster, caller, user, phone, 2), "{user} is not called again");
            ends(cluster, caller, phone);
        }
        // A caller that has a node for its server: that one dials the front, wherever the phone registered.
        let direct = cluster.phone("erin", Transport::Udp, false);
        for phone in phones {
            cluster.is_reached(direct, phone);
        }
        assert_eq!(cluster.calls_between_nodes(), 0);
    });
}

#[test]
fn after_the_loss_of_a_node_the_next_request_works() {
    Cluster::run("front: node killed", |cluster| {
        let (caller, phones) = registered(cluster);
        let bob = phones[0];
        let first = cluster.stored_at(bob).expect("bob is registered");
        cluster.kill(first);
        // The caller waits for the silence of the node at most.
        assert!(calls(cluster, caller, "bob", bob, 6), "not called right after the loss");
        ends(cluster, bob, caller);
        cluster.wait(15);
        assert!(calls(cluster, caller, "bob", bob, 1), "not called at once after the loss was found");
        ends(cluster, caller, bob);
        cluster.registers(bob, Cluster::FRONT, 3600);
        cluster.wait_ms(200);
        let second = cluster.stored_at(bob).expect("bob is registered again");
        assert_ne!(second, first);
        cluster.restart(first);
        cluster.wait(65);
        cluster.registers(bob, Cluster::FRONT, 3600);
        cluster.wait_ms(200);
        assert_eq!(cluster.stored_at(bob), Some(first), "its own node is back");
    });
}

#[test]
fn a_call_ends_in_both_directions_after_the_choice_has_changed() {
    Cluster::run("front: choice changed", |cluster| {
        let (caller, phones) = registered(cluster);
        let bob = phones[0];
        let first = cluster.stored_at(bob).expect("bob is registered");
        for is_ended_by_caller in [true, false] {
            cluster.kill(first);
            cluster.wait(15);
            assert!(calls(cluster, caller, "bob", bob, 2), "not called through another node");
            cluster.restart(first);
            cluster.wait(65);
            match is_ended_by_caller {
                true => ends(cluster, caller, bob),
                false => ends(cluster, bob, caller),
            }
        }
    });
}

#[test]
fn without_nodes_a_request_gets_one_503() {
    Cluster::run("front: no node", |cluster| {
        let (_, phones) = registered(cluster);
        (0..Cluster::NODES).for_each(|node| cluster.kill(node));
        cluster.wait(15);
        let refused = PhoneEvent::Refused("REGISTER", 503);
        let count = |cluster: &mut Cluster| {
            cluster.phone_do(phones[2], |phone, _, _| {
                phone.events().into_iter().filter(|event| *event == refused).count()
            })
        };
        cluster.register(phones[2], Cluster::FRONT, 3600);
        cluster.wait(2);
        assert_eq!(count(cluster), 1);
        assert_eq!(cluster.front_counts(|counters| counters.trunks_down), 1);
        cluster.restart(1);
        cluster.wait(10);
        cluster.registers(phones[2], Cluster::FRONT, 3600);
    });
}
