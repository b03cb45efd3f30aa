//! Stories of three nodes that share their registrations: faults of the store, of nodes, of the ways between them.

use ringway_sansio::Transport;
use ringway_server::Hold;
use ringway_sim::HostId;
use ringway_tests::{Cluster, StoreState};
use std::time::Duration;

/// A caller, and phones that are registered at the nodes in turn.
pub(crate) fn registered(cluster: &mut Cluster) -> (HostId, [HostId; 3]) {
    let (caller, phones) = cluster.people();
    for (node, phone) in phones.into_iter().enumerate() {
        cluster.registers(phone, node, 3600);
    }
    cluster.wait_ms(200);
    (caller, phones)
}

#[test]
fn phones_are_reached_over_every_node_until_they_leave() {
    Cluster::run("cluster", |cluster| {
        let (caller, phones) = registered(cluster);
        assert_eq!(cluster.stored_len(), 3);
        cluster.agrees();
        for phone in phones {
            cluster.is_reached(caller, phone);
        }
        for (node, phone) in phones.into_iter().enumerate() {
            // At another node than that of the registration.
            cluster.registers(phone, (node + 1) % 3, 0);
        }
        cluster.wait_ms(200);
        assert_eq!(cluster.stored_len(), 0);
        cluster.agrees();
        for phone in phones {
            cluster.is_not_reached(caller, phone);
        }
    });
}

#[test]
fn a_binding_ends_at_every_node() {
    Cluster::run("cluster: binding ends", |cluster| {
        let (caller, phones) = cluster.people();
        phones.into_iter().enumerate().for_each(|(node, phone)| cluster.registers(phone, node, 60));
        cluster.wait(40);
        cluster.agrees();
        cluster.wait(30);
        assert_eq!((0..3).map(|node| cluster.bindings_len(node)).sum::<usize>(), 0);
        cluster.is_not_reached(caller, phones[1]);
    });
}

#[test]
fn a_phone_moves_between_the_nodes() {
    Cluster::run("cluster: moves", |cluster| {
        let (caller, phones) = registered(cluster);
        for round in 1..=4 {
            for (node, phone) in phones.into_iter().enumerate() {
                cluster.registers(phone, (node + round) % 3, 3600);
            }
        }
        cluster.wait_ms(200);
        assert_eq!(cluster.stored_len(), 3);
        cluster.agrees();
        for phone in phones {
            cluster.is_reached(caller, phone);
        }
    });
}

#[test]
fn phones_of_a_user_register_at_two_nodes_at_once() {
    Cluster::run("cluster: at once", |cluster| {
        let caller = cluster.phone("alice", Transport::Udp, false);
        let phones =
            [cluster.phone("bob", Transport::Udp, true), cluster.phone("bob", Transport::Udp, false)];
        cluster.register(phones[0], 0, 3600);
        cluster.register(phones[1], 1, 3600);
        cluster.wait(1);
        assert_eq!(cluster.stored_len(), 2);
        cluster.agrees();
        // Both ring; the one that answers first has the call.
        for phone in phones {
            cluster.is_reached(caller, phone);
        }
    });
}

#[test]
fn nodes_that_hold_whom_they_serve_look_up_the_others() {
    Cluster::run_holding("cluster: served", Hold::Served, |cluster| {
        let (caller, phones) = registered(cluster);
        assert_eq!([0, 1, 2].map(|node| cluster.bindings_len(node)), [1, 1, 1]);
        for phone in phones {
            cluster.is_reached(caller, phone);
        }
        assert_eq!([0, 1, 2].map(|node| cluster.bindings_len(node)), [3, 3, 3]);
        // A second phone of a user that was looked up, and one of a user that nobody looked up.
        let second = cluster.phone("bob", Transport::Tcp, true);
        cluster.registers(second, 1, 3600);
        let erins = [0, 1].map(|node| {
            let phone = cluster.phone("erin", Transport::Udp, true);
            cluster.registers(phone, node, 3600);
            phone
        });
        cluster.wait_ms(200);
        cluster.agrees();
        for phone in [phones[0], second].into_iter().chain(erins) {
            cluster.is_reached(caller, phone);
        }
        for (node, phone) in phones.into_iter().enumerate() {
            // At another node than that of the registration.
            cluster.registers(phone, (node + 1) % 3, 0);
        }
        cluster.wait_ms(200);
        cluster.agrees();
        for phone in phones {
            cluster.is_not_reached(caller, phone);
        }
        cluster.is_reached(caller, second);
        // The user is looked up again when the phone is back.
        cluster.registers(phones[2], 0, 3600);
        cluster.wait_ms(200);
        cluster.is_reached(caller, phones[2]);
    });
}

#[test]
fn an_update_that_waited_loses_against_a_later_register() {
    Cluster::run("cluster: late update", |cluster| {
        let (caller, phones) = registered(cluster);
        cluster.set_reaches_store(1, false);
        cluster.registers(phones[1], 1, 3600);
        cluster.wait(1);
        cluster.registers(phones[1], 0, 3600);
        let ends = cluster.sim.now() + Duration::from_secs(3600);
        cluster.wait(5);
        cluster.set_reaches_store(1, true);
        cluster.wait(2);
        assert!(cluster.is_stored(phones[1], 0, ends));
        cluster.agrees();
        cluster.is_reached(caller, phones[1]);
    });
}

#[test]
fn a_user_is_looked_up_at_the_node_that_changed_it_last() {
    Cluster::run_holding("cluster: served, changed last", Hold::Served, |cluster| {
        let caller = cluster.phone("alice", Transport::Udp, false);
        let phones =
            [cluster.phone("bob", Transport::Udp, true), cluster.phone("bob", Transport::Udp, false)];
        cluster.registers(phones[0], 0, 3600);
        cluster.registers(phones[1], 2, 3600);
        cluster.wait_ms(200);
        // At a node that does not serve the user.
        cluster.registers(phones[1], 1, 0);
        cluster.wait_ms(200);
        cluster.is_reached(caller, phones[0]);
    });
}

#[test]
fn a_phone_leaves_a_node_that_started_while_the_store_was_away() {
    for hold in [Hold::All, Hold::Served] {
        Cluster::run_holding("cluster: started without the store", hold, |cluster| {
            let caller = cluster.phone("alice", Transport::Udp, false);
            let phone = cluster.phone("bob", Transport::Tcp, true);
            cluster.kill(1);
            cluster.store.state = StoreState::Paused;
            cluster.restart(1);
            cluster.wait_ms(200);
            // Its update is written before its reader has a position.
            cluster.registers(phone, 1, 3600);
            cluster.store.state = StoreState::Up;
            cluster.wait(12);
            cluster.registers(phone, 2, 3600);
            cluster.wait_ms(200);
            cluster.agrees();
            cluster.is_reached(caller, phone);
        });
    }
}

#[test]
fn nodes_that_hold_whom_they_serve_miss_the_end_of_the_stream() {
    Cluster::run_holding("cluster: served, stream trimmed", Hold::Served, |cluster| {
        let (caller, phones) = registered(cluster);
        for phone in phones {
            cluster.is_reached(caller, phone);
        }
        cluster.set_reaches_store(0, false);
        // Node 0 had looked both users up.
        cluster.registers(phones[1], 2, 3600);
        cluster.registers(phones[2], 1, 3600);
        cluster.wait(1000);
        cluster.set_reaches_store(0, true);
        cluster.wait(4);
        cluster.agrees();
        for phone in phones {
            cluster.is_reached(caller, phone);
        }
    });
}

#[test]
fn nodes_that_hold_whom_they_serve_lose_one_and_the_store() {
    Cluster::run_holding("cluster: served, faults", Hold::Served, |cluster| {
        let (caller, phones) = registered(cluster);
        for phone in phones {
            cluster.is_reached(caller, phone);
        }
        cluster.kill(0);
        cluster.wait(1);
        cluster.restart(0);
        cluster.wait(1);
        cluster.store.lose_all();
        // Bindings that node 0 forgot when it was killed end at the others.
        cluster.wait(4);
        cluster.agrees();
        for phone in &phones[1..] {
            cluster.is_reached(caller, *phone);
        }
        cluster.store.state = StoreState::Away;
        assert!(cluster.reaches(caller, 0, phones[1]), "it was looked up before");
    });
}

#[test]
fn the_store_is_away_for_a_minute() {
    Cluster::run("cluster: store away", |cluster| {
        let (caller, phones) = registered(cluster);
        cluster.store.state = StoreState::Away;
        let late = cluster.phone("erin", Transport::Udp, true);
        cluster.registers(late, 1, 3600);
        for (node, phone) in phones.into_iter().enumerate() {
            cluster.registers(phone, node, 3600);
            cluster.is_reached(caller, phone);
        }
        cluster.wait(60);
        assert!(
            cluster.reaches(caller, 1, late) && !cluster.reaches(caller, 0, late),
            "its node has it only"
        );
        cluster.store.state = StoreState::Up;
        cluster.wait_ms(200);
        cluster.agrees();
        cluster.is_reached(caller, late);
    });
}

#[test]
fn the_store_never_comes_back() {
    Cluster::run("cluster: store away for good", |cluster| {
        let (caller, phones) = registered(cluster);
        cluster.store.state = StoreState::Away;
        cluster.wait(1800);
        for phone in phones {
            cluster.is_reached(caller, phone);
        }
        // Each phone is served by its node, and the binding at the others ends.
        cluster.registers(phones[1], 1, 7200);
        cluster.wait(1900);
        assert!(cluster.reaches(caller, 1, phones[1]));
        assert!(!cluster.reaches(caller, 0, phones[1]));
    });
}

#[test]
fn the_store_is_paused_and_goes_on() {
    Cluster::run("cluster: store paused", |cluster| {
        let (caller, phones) = registered(cluster);
        cluster.store.state = StoreState::Paused;
        for (node, phone) in phones.into_iter().enumerate() {
            cluster.registers(phone, (node + 1) % 3, 3600);
        }
        cluster.wait(10);
        cluster.store.state = StoreState::Up;
        cluster.wait_ms(200);
        cluster.agrees();
        for phone in phones {
            cluster.is_reached(caller, phone);
        }
    });
}

#[test]
fn a_failover_loses_the_last_second_and_another_clock_takes_over() {
    for ahead in [0, 30, 60] {
        Cluster::run("cluster: failover", |cluster| {
            let (caller, phones) = registered(cluster);
            cluster.wait(2);
            let late = cluster.phone("erin", Transport::Udp, true);
            cluster.registers(late, 1, 3600);
            cluster.registers(phones[1], 2, 3600);
            cluster.wait_ms(200);
            cluster.fail_over(Duration::from_secs(ahead));
            cluster.wait(3);
            cluster.agrees();
            for phone in phones.into_iter().chain([late]) {
                cluster.is_reached(caller, phone);
            }
        });
    }
}

#[test]
fn the_store_loses_everything() {
    Cluster::run("cluster: store empty", |cluster| {
        let (caller, phones) = registered(cluster);
        cluster.store.lose_all();
        cluster.wait(3);
        assert_eq!(cluster.stored_len(), 3);
        cluster.agrees();
        for phone in phones {
            cluster.is_reached(caller, phone);
        }
    });
}

#[test]
fn a_phone_that_left_at_another_node_during_an_outage_does_not_come_back() {
    for first in [0, 1] {
        Cluster::run("cluster: left during an outage", |cluster| {
            let (caller, phones) = cluster.people();
            cluster.store.state = StoreState::Away;
            for phone in phones {
                cluster.registers(phone, 1, 3600);
                cluster.registers(phone, 0, 0);
            }
            cluster.wait(5);
            // One of the two nodes writes first.
            cluster.set_reaches_store(1 - first, false);
            cluster.store.state = StoreState::Up;
            cluster.wait(2);
            cluster.set_reaches_store(1 - first, true);
            cluster.wait_ms(500);
            assert_eq!(cluster.stored_len(), 0);
            cluster.agrees();
            phones.into_iter().for_each(|phone| cluster.is_not_reached(caller, phone));
            cluster.registers(phones[1], 1, 3600);
            cluster.wait_ms(200);
            cluster.is_reached(caller, phones[1]);
        });
    }
}

#[test]
fn a_node_that_missed_removals_reads_all_and_drops_them() {
    Cluster::run("cluster: missed removals", |cluster| {
        let (caller, phones) = registered(cluster);
        cluster.is_reached(caller, phones[1]);
        cluster.set_reaches_store(0, false);
        cluster.registers(phones[1], 1, 0);
        cluster.registers(phones[2], 2, 0);
        cluster.wait_ms(200);
        assert_eq!([0, 1, 2].map(|node| cluster.bindings_len(node)), [3, 1, 1]);
        // One comes back while the node reads all.
        cluster.store.trim();
        cluster.set_reaches_store(0, true);
        cluster.register(phones[2], 2, 3600);
        cluster.wait_ms(500);
        cluster.agrees();
        assert_eq!([0, 1, 2].map(|node| cluster.bindings_len(node)), [2; 3]);
        for phone in [phones[0], phones[2]] {
            cluster.is_reached(caller, phone);
        }
        cluster.is_not_reached(caller, phones[1]);
    });
}

#[test]
fn a_store_that_lost_everything_ends_no_binding_of_a_node_that_is_lost() {
    Cluster::run("cluster: store and node lost", |cluster| {
        let (caller, phones) = registered(cluster);
        cluster.kill(0);
        cluster.wait(6);
        cluster.store.lose_all();
        cluster.wait(4);
        assert!(cluster.reaches(caller, 1, phones[0]) && cluster.reaches(caller, 2, phones[0]));
        assert_eq!(cluster.stored_len(), 2);
        cluster.registers(phones[0], 1, 3600);
    });
}

#[test]
fn a_node_is_killed_and_starts_again() {
    Cluster::run("cluster: killed", |cluster| {
        let (caller, phones) = registered(cluster);
        for (node, phone) in phones.into_iter().enumerate() {
            cluster.kill(node);
            cluster.wait(6);
            let others = [(node + 1) % 3, (node + 2) % 3];
            for other in others {
                // Only what is dialled directly needs no node.
                assert_eq!(cluster.reaches(caller, other, phone), node == 0, "phone {node} over {other}");
            }
            cluster.restart(node);
            cluster.wait(5);
            cluster.agrees();
            if node < 2 {
                cluster.is_reached(caller, phone);
            }
            // A connection is gone: its phone registers again.
            cluster.registers(phone, node, 3600);
            cluster.wait_ms(200);
            cluster.agrees();
            cluster.is_reached(caller, phone);
        }
    });
}

#[test]
fn phones_of_a_lost_node_move_to_another() {
    Cluster::run("cluster: lost", |cluster| {
        let (caller, phones) = registered(cluster);
        cluster.kill(1);
        cluster.registers(phones[1], 2, 3600);
        cluster.wait_ms(200);
        assert!(cluster.reaches(caller, 0, phones[1]) && cluster.reaches(caller, 2, phones[1]));
        cluster.restart(1);
        cluster.wait(1);
        cluster.agrees();
        cluster.is_reached(caller, phones[1]);
    });
}

#[test]
fn a_node_is_paused_for_forty_seconds() {
    Cluster::run("cluster: paused", |cluster| {
        let (caller, phones) = registered(cluster);
        cluster.pause(1);
        cluster.wait(20);
        assert!(!cluster.reaches(caller, 0, phones[1]), "only node 1 reaches it");
        // One phone moves away from the paused node.
        cluster.registers(phones[2], 0, 3600);
        cluster.wait(20);
        cluster.resume(1);
        cluster.wait(2);
        cluster.agrees();
        for phone in phones {
            cluster.is_reached(caller, phone);
        }
    });
}

#[test]
fn a_node_does_not_reach_the_store() {
    Cluster::run("cluster: partition", |cluster| {
        let (caller, phones) = registered(cluster);
        cluster.set_reaches_store(1, false);
        // One phone moves to the node without a store, one away from it.
        cluster.registers(phones[2], 1, 3600);
        cluster.registers(phones[1], 0, 3600);
        cluster.wait(30);
        for node in [0, 2] {
            assert!(cluster.reaches(caller, node, phones[1]));
        }
        assert!(cluster.reaches(caller, 1, phones[2]));
        cluster.set_reaches_store(1, true);
        cluster.wait_ms(500);
        cluster.agrees();
        for phone in phones {
            cluster.is_reached(caller, phone);
        }
    });
}
