//! Stories of nodes that share trunks which register: one node registers each, another one takes over.

use ringway_tests::Cluster;
use std::collections::BTreeSet;

/// 1,000 trunks of three nodes that start, and a node that is killed: figures of decision 0057.
#[test]
fn each_trunk_is_registered_by_one_node_and_by_another_when_that_is_killed() {
    Cluster::run("cluster: trunks", |cluster| {
        let begin = cluster.sim.now();
        cluster.add_trunks(1000);
        while cluster.contacts().len() < 1000 {
            cluster.wait(1);
            assert!(
                cluster.sim.now().since(begin).as_secs() <= 60,
                "{} registered",
                cluster.contacts().len()
            );
        }
        cluster.wait(2);
        let shares: Vec<usize> = (0..Cluster::NODES).map(|node| cluster.contacts_of(node)).collect();
        assert!(shares.iter().all(|share| (250..420).contains(share)), "{shares:?}");
        assert_eq!(shares.iter().sum::<usize>(), 1000);
        assert!(cluster.registers_per_s_max() <= 50 * Cluster::NODES);
        // Its links end with it, and its last heartbeat is up to half a second old.
        let before = cluster.registers_len();
        cluster.kill(1);
        cluster.wait_ms(4600);
        assert!(cluster.registers_len() > before, "nobody registers the trunks of the lost node");
        cluster.wait(25);
        let accounts: BTreeSet<String> = cluster.contacts().into_iter().map(|(account, _)| account).collect();
        assert_eq!((accounts.len(), cluster.contacts_of(1)), (1000, 0), "one contact for each account");
        assert_eq!(cluster.contacts().len(), 1000);
        // It comes back, and has its share again.
        cluster.restart(1);
        cluster.wait(40);
        assert_eq!(cluster.contacts().len(), 1000);
        assert_eq!((0..Cluster::NODES).map(|node| cluster.contacts_of(node)).collect::<Vec<_>>(), shares);
    });
}

#[test]
fn a_node_without_the_store_keeps_its_trunks_and_a_draining_one_gives_them_up() {
    Cluster::run("cluster: trunks, store", |cluster| {
        cluster.add_trunks(30);
        cluster.wait(100);
        let shares: Vec<usize> = (0..Cluster::NODES).map(|node| cluster.contacts_of(node)).collect();
        assert_eq!(shares.iter().sum::<usize>(), 30, "{shares:?}");
        let before = cluster.registers_len();
        cluster.set_reaches_store(0, false);
        cluster.wait(30);
        assert_eq!(cluster.registers_len(), before, "the links are there: nothing changes");
        cluster.set_reaches_store(0, true);
        cluster.wait(5);
        assert_eq!(cluster.registers_len(), before);
        cluster.drain(2, Some(600));
        cluster.wait(10);
        assert_eq!((cluster.contacts().len(), cluster.contacts_of(2)), (30, 0), "it takes no calls");
        cluster.drain(2, None);
        cluster.wait(10);
        assert_eq!(cluster.contacts_of(2), shares[2]);
    });
}
