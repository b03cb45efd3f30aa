//! Stories of phones that go to another node, and of a front or a node that restarts, while they have a call. Both sides end it.

use ringway_sim::HostId;
use ringway_tests::{Cluster, PhoneEvent, REALM};

/// Alice, and dave over a connection from behind a NAT, who is registered at `node`.
fn registered(cluster: &mut Cluster, node: usize) -> (HostId, HostId) {
    let (alice, [.., dave]) = cluster.people();
    cluster.registers(dave, node, 3600);
    cluster.wait_ms(200);
    (alice, dave)
}

/// Dave's connection ends, and he registers at a node again.
fn comes_back(cluster: &mut Cluster, dave: HostId, node: usize) {
    for connection in cluster.sim.connections(dave) {
        cluster.sim.close(connection);
    }
    cluster.wait(1);
    cluster.registers(dave, node, 3600);
    cluster.wait_ms(200);
}

/// Ends the call of one side; the other one gets the BYE.
fn ends(cluster: &mut Cluster, by: HostId, other: HostId) {
    let hung_up = |cluster: &Cluster| {
        cluster.events(other).into_iter().filter(|event| *event == PhoneEvent::HungUp).count()
    };
    let before = hung_up(cluster);
    cluster.hang_up(by);
    cluster.wait(2);
    assert_eq!(hung_up(cluster), before + 1, "{:?}", cluster.events(by));
}

#[test]
fn a_phone_at_another_node_gets_the_bye_of_its_peer() {
    // The node of the call, that of the phone, and the one that it goes to.
    for [caller_at, first, second] in [[2, 2, 1], [2, 2, 2], [0, 2, 1], [0, 2, 2], [0, 2, 0]] {
        Cluster::run("cluster: another node in a call", |cluster| {
            let (alice, dave) = registered(cluster, first);
            cluster.call(alice, caller_at, "dave");
            cluster.wait(1);
            assert_eq!((cluster.calls_len(alice), cluster.calls_len(dave)), (1, 1));
            comes_back(cluster, dave, second);
            ends(cluster, alice, dave);
        });
    }
}

#[test]
fn a_phone_at_another_node_ends_its_call() {
    for [caller_at, first, second] in [[2, 2, 1], [0, 2, 1], [0, 2, 2]] {
        Cluster::run("cluster: ended from another node", |cluster| {
            let (alice, dave) = registered(cluster, first);
            cluster.call(alice, caller_at, "dave");
            cluster.wait(1);
            comes_back(cluster, dave, second);
            ends(cluster, dave, alice);
        });
    }
}

/// Call of alice to dave, both behind a front.
fn call_through_front(cluster: &mut Cluster) -> (HostId, HostId) {
    cluster.add_front();
    let (alice, [.., dave]) = cluster.people();
    for phone in [alice, dave] {
        cluster.registers(phone, Cluster::FRONT, 3600);
    }
    cluster.wait_ms(200);
    let uri = format!("sip:dave@{REALM}");
    cluster.phone_do(alice, |phone, now, effects| phone.call(now, &uri, effects));
    cluster.wait(2);
    assert_eq!((cluster.calls_len(alice), cluster.calls_len(dave)), (1, 1));
    (alice, dave)
}

#[test]
fn a_phone_behind_a_front_ends_its_call_after_a_restart_of_the_front() {
    Cluster::run("front: restart in a call", |cluster| {
        let (alice, dave) = call_through_front(cluster);
        cluster.restart_front();
        comes_back(cluster, dave, Cluster::FRONT);
        ends(cluster, dave, alice);
    });
}

#[test]
fn a_phone_behind_a_front_ends_its_call_over_a_new_connection() {
    Cluster::run("front: new connection in a call", |cluster| {
        let (alice, dave) = call_through_front(cluster);
        comes_back(cluster, dave, Cluster::FRONT);
        ends(cluster, dave, alice);
    });
}

#[test]
fn a_phone_behind_a_front_gets_the_bye_of_its_peer_over_its_new_connection() {
    Cluster::run("front: new connection, ended by the peer", |cluster| {
        let (alice, dave) = call_through_front(cluster);
        comes_back(cluster, dave, Cluster::FRONT);
        ends(cluster, alice, dave);
    });
}
