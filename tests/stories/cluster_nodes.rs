//! Stories of three nodes and the links between them: partitions, drain, a change of the secret, a rolling upgrade, cold starts.

use crate::cluster::registered;
use ringway_sansio::Transport;
use ringway_tests::{Cluster, PhoneEvent, StoreState};

#[test]
fn both_sides_of_a_call_between_nodes_end_it() {
    Cluster::run("cluster: dialogs", |cluster| {
        let (_, phones) = registered(cluster);
        for (caller_at, callee_at) in [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2)] {
            let (caller, callee) = (phones[caller_at], phones[callee_at]);
            let user = ["bob", "carol", "dave"][callee_at];
            for is_caller in [true, false] {
                cluster.call(caller, caller_at, user);
                cluster.wait(1);
                let [ends, other] = if is_caller { [caller, callee] } else { [callee, caller] };
                let before = count(cluster, other, &PhoneEvent::HungUp);
                cluster.hang_up(ends);
                cluster.wait(1);
                let after = count(cluster, other, &PhoneEvent::HungUp);
                assert_eq!(after, before + 1, "from node {caller_at} to node {callee_at}");
            }
        }
        for phone in phones {
            assert_eq!(count(cluster, phone, &PhoneEvent::NeverConfirmed), 0);
        }
    });
}

#[test]
fn nodes_do_not_reach_each_other_and_both_reach_the_store() {
    for both in [false, true] {
        Cluster::run("cluster: peers cut off", |cluster| {
            let (caller, phones) = registered(cluster);
            cluster.set_reaches_node(0, 1, false);
            cluster.set_reaches_node(1, 0, !both);
            // The probe of a link is not answered within twice its interval.
            cluster.wait(25);
            assert!(!cluster.is_linked(0, 1) && !cluster.is_linked(1, 0));
            assert!(!cluster.reaches(caller, 0, phones[1]), "the link of its node is down");
            for over in [1, 2] {
                assert!(cluster.reaches(caller, over, phones[1]), "over node {over}");
            }
            for over in [0, 1, 2] {
                assert!(cluster.reaches(caller, over, phones[0]), "it is dialled directly, over node {over}");
                assert!(cluster.reaches(caller, over, phones[2]), "over node {over}");
            }
            // The phone moves to a node that both reach.
            cluster.registers(phones[1], 2, 3600);
            cluster.wait_ms(200);
            cluster.is_reached(caller, phones[1]);
            cluster.registers(phones[1], 1, 3600);
            cluster.heal();
            cluster.wait(25);
            cluster.is_reached(caller, phones[1]);
        });
    }
}

#[test]
fn a_call_ends_although_the_link_is_cut_meanwhile() {
    Cluster::run("cluster: cut in calls", |cluster| {
        let (caller, phones) = registered(cluster);
        cluster.set_reaches_node(0, 1, false);
        // The link is not known to be down yet.
        assert!(!cluster.reaches(caller, 0, phones[1]));
        let refused = |cluster: &Cluster| {
            let events = cluster.events(caller);
            events.iter().filter(|event| matches!(event, PhoneEvent::Refused("INVITE", _))).count()
        };
        cluster.wait(35);
        assert_eq!(refused(cluster), 1, "{:?}", cluster.events(caller));
        // A late INVITE calls nobody after its caller was refused.
        cluster.heal();
        cluster.wait(40);
        cluster.is_reached(caller, phones[1]);
    });
}

#[test]
fn links_that_break_are_opened_again() {
    Cluster::run("cluster: links break", |cluster| {
        let (caller, phones) = registered(cluster);
        for node in [0, 1, 2, 1] {
            cluster.break_links(node);
            cluster.wait(3);
            for phone in phones {
                cluster.is_reached(caller, phone);
            }
        }
    });
}

#[test]
fn a_node_without_the_store_is_reached_over_its_links() {
    Cluster::run("cluster: cut off from the store", |cluster| {
        let (caller, phones) = registered(cluster);
        cluster.set_reaches_store(1, false);
        cluster.wait(30);
        for phone in phones {
            cluster.is_reached(caller, phone);
        }
        // Without a link too it is gone.
        for other in [0, 2] {
            cluster.set_reaches_node(1, other, false);
            cluster.set_reaches_node(other, 1, false);
        }
        cluster.wait(25);
        assert!(!cluster.reaches(caller, 0, phones[1]) && cluster.reaches(caller, 1, phones[1]));
        cluster.heal();
        cluster.wait(25);
        for phone in phones {
            cluster.is_reached(caller, phone);
        }
    });
}

#[test]
fn a_cold_node_looks_users_up() {
    Cluster::run("cluster: cold", |cluster| {
        let (caller, phones) = registered(cluster);
        let more = ["erin", "frank", "grace", "heidi"].map(|user| {
            let phone = cluster.phone(user, Transport::Udp, true);
            cluster.registers(phone, 1, 3600);
            phone
        });
        cluster.wait(1);
        cluster.kill(0);
        cluster.wait(6);
        cluster.restart(0);
        cluster.wait_ms(400);
        assert!(cluster.is_cold(0));
        assert!(cluster.reaches(caller, 0, phones[1]), "while the node reads all");
        for phone in more {
            assert!(cluster.reaches(caller, 0, phone), "while the node reads all, or after it");
        }
        // A node that cannot read is cold, has nobody of the others, and takes its own phones.
        cluster.kill(0);
        cluster.store.state = StoreState::Away;
        cluster.restart(0);
        cluster.wait(1);
        assert!(cluster.is_cold(0) && !cluster.reaches(caller, 0, phones[1]));
        cluster.registers(phones[1], 0, 3600);
        assert!(cluster.reaches(caller, 0, phones[1]));
        cluster.store.state = StoreState::Up;
        cluster.wait(20);
        assert!(!cluster.is_cold(0));
        cluster.agrees();
        cluster.is_reached(caller, phones[1]);
    });
}

#[test]
fn a_node_that_missed_the_end_of_the_stream_reads_all_again() {
    Cluster::run("cluster: stream trimmed", |cluster| {
        let (caller, phones) = registered(cluster);
        cluster.set_reaches_store(0, false);
        cluster.registers(phones[1], 2, 3600);
        cluster.registers(phones[2], 1, 0);
        cluster.registers(phones[2], 0, 3600);
        cluster.wait(1000);
        cluster.set_reaches_store(0, true);
        cluster.wait_ms(50);
        assert!(cluster.is_cold(0), "the stream begins later");
        cluster.wait(20);
        cluster.agrees();
        for phone in phones {
            cluster.is_reached(caller, phone);
        }
    });
}

#[test]
fn phones_leave_a_node_that_drains() {
    Cluster::run("cluster: drain", |cluster| {
        let (caller, phones) = registered(cluster);
        cluster.drain(2, Some(20));
        assert!(!cluster.reaches(caller, 2, phones[0]), "it refuses new calls");
        cluster.wait(25);
        // The connection of its phone is closed, which ends the binding everywhere.
        cluster.agrees();
        cluster.is_not_reached(caller, phones[2]);
        cluster.register(phones[2], 2, 3600);
        cluster.wait(1);
        let refused = PhoneEvent::Refused("REGISTER", 503);
        assert_eq!(count(cluster, phones[2], &refused), 1);
        cluster.registers(phones[2], 1, 3600);
        // A phone behind NAT that is reached by UDP stays until it refreshes.
        cluster.drain(1, Some(0));
        cluster.wait(1);
        assert!(cluster.reaches(caller, 0, phones[1]), "over the link of a node that drains");
        cluster.drain(1, None);
        cluster.drain(2, None);
        cluster.registers(phones[2], 2, 3600);
        cluster.wait_ms(200);
        for phone in phones {
            cluster.is_reached(caller, phone);
        }
    });
}

#[test]
fn the_secret_changes_while_phones_call() {
    Cluster::run("cluster: secret", |cluster| {
        let (caller, phones) = registered(cluster);
        for _ in 0..3 {
            for node in 0..Cluster::NODES {
                cluster.rotate(node);
                // Nonces of both secrets, links between nodes of two steps.
                cluster.wait(4);
                for phone in phones {
                    cluster.is_reached(caller, phone);
                }
                for (at, phone) in phones.into_iter().enumerate() {
                    let registered = cluster.registrations(phone);
                    cluster.register_across(phone, ((at + 1) % 3, at), 3600);
                    cluster.wait(1);
                    assert_eq!(cluster.registrations(phone), registered + 1);
                }
            }
        }
        for node in 0..Cluster::NODES {
            cluster.kill(node);
            cluster.wait(1);
            cluster.restart(node);
        }
        cluster.wait(15);
        for phone in &phones[..2] {
            cluster.is_reached(caller, *phone);
        }
    });
}

#[test]
fn a_node_with_another_secret_has_no_link() {
    Cluster::run("cluster: another secret", |cluster| {
        let (caller, phones) = registered(cluster);
        cluster.set_foreign_secret(1, true);
        cluster.wait(30);
        for other in [0, 2] {
            assert!(!cluster.is_linked(1, other) && !cluster.is_linked(other, 1));
            assert!(!cluster.reaches(caller, other, phones[1]));
        }
        cluster.set_foreign_secret(1, false);
        cluster.wait(15);
        cluster.is_reached(caller, phones[1]);
    });
}

#[test]
fn a_credential_for_one_node_is_good_once_at_another() {
    Cluster::run("cluster: nonces", |cluster| {
        let phone = cluster.phone("carol", Transport::Udp, true);
        for (first, second) in [(0, 1), (1, 2), (2, 0), (0, 2)] {
            let before = cluster.registrations(phone);
            cluster.register_across(phone, (first, second), 3600);
            cluster.wait(1);
            assert_eq!(cluster.registrations(phone), before + 1, "from node {first} to node {second}");
        }
        // The node that made the nonce starts again.
        cluster.register_across(phone, (1, 2), 3600);
        cluster.wait_ms(3);
        cluster.kill(1);
        cluster.restart(1);
        cluster.wait(2);
        assert_eq!(cluster.registrations(phone), 5);
    });
}

#[test]
fn nodes_of_two_versions_serve_their_own_phones() {
    Cluster::run("cluster: upgrade", |cluster| {
        let (caller, phones) = cluster.people();
        for (node, phone) in phones.into_iter().enumerate() {
            cluster.registers(phone, node, 3600);
        }
        cluster.wait(1);
        for node in 0..Cluster::NODES {
            cluster.kill(node);
            cluster.wait(6);
            cluster.upgrade(node);
            cluster.wait(10);
            // Its records are of the later version: nodes of the earlier one pass them over, and keep what they had.
            cluster.registers(phones[node], node, 3600);
            cluster.wait_ms(200);
            for phone in &phones[..=node] {
                assert!(cluster.reaches(caller, node, *phone), "over the node of the later version");
            }
            for (at, phone) in phones.iter().enumerate().skip(node + 1) {
                assert!(cluster.reaches(caller, at, *phone), "of a node of the earlier version");
                assert!(cluster.reaches(caller, node, *phone), "a record of the earlier version");
            }
        }
        cluster.wait(2);
        cluster.agrees();
        for phone in phones {
            cluster.is_reached(caller, phone);
        }
    });
}

fn count(cluster: &Cluster, phone: ringway_sim::HostId, wanted: &PhoneEvent) -> usize {
    cluster.events(phone).iter().filter(|event| *event == wanted).count()
}
