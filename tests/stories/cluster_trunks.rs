//! Stories of nodes that share trunks which register: one node registers each, another one takes over.

use ringway_tests::Cluster;

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
        let shares: Vec<usize> = (0..Cluster::NODES).map(|node| cluster.accounts_of(node).len()).collect();
        assert!(shares.iter().all(|share| (250..420).contains(share)), "{shares:?}");
        assert_eq!(shares.iter().sum::<usize>(), 1000);
        for node in 0..Cluster::NODES {
            assert!(cluster.registers_per_s_max(node) <= 50, "node {node}");
        }
        // Its links end with it, and its last heartbeat is up to half a second old.
        let (killed_at, before) = (cluster.sim.now(), cluster.registers_len());
        cluster.kill(1);
        cluster.wait_ms(4600);
        assert!(cluster.registers_len() > before, "nobody registers the trunks of the lost node");
        // Two requests for each, by two nodes as fast as the rate permits.
        cluster.wait_ms(8400);
        for node in [0, 2] {
            let mut times = cluster.registers_of(node);
            times.retain(|at| *at > killed_at);
            let in_five_s = times.iter().filter(|at| at.since(times[0]).as_secs() < 5).count();
            assert!(in_five_s >= 225, "node {node}: {in_five_s} in 5 s");
        }
        let accounts = cluster.accounts_of(0).union(&cluster.accounts_of(2)).count();
        assert_eq!(accounts, 1000, "with a contact of a node that is there");
        cluster.wait(25);
        let accounts = cluster.accounts_of(0).union(&cluster.accounts_of(2)).count();
        assert_eq!((accounts, cluster.contacts().len()), (1000, 1000), "one contact for each account");
        // It comes back, and has its share again.
        cluster.restart(1);
        cluster.wait(40);
        assert_eq!(cluster.contacts().len(), 1000);
        assert_eq!(
            (0..Cluster::NODES).map(|node| cluster.accounts_of(node).len()).collect::<Vec<_>>(),
            shares
        );
    });
}

#[test]
fn a_node_without_the_store_keeps_its_trunks_and_a_draining_one_gives_them_up() {
    Cluster::run("cluster: trunks, store", |cluster| {
        cluster.add_trunks(30);
        cluster.wait(100);
        let shares: Vec<usize> = (0..Cluster::NODES).map(|node| cluster.accounts_of(node).len()).collect();
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
        assert_eq!((cluster.contacts().len(), cluster.accounts_of(2).len()), (30, 0), "it takes no calls");
        cluster.drain(2, None);
        cluster.wait(10);
        assert_eq!(cluster.accounts_of(2).len(), shares[2]);
        // So few trunks of a lost node are all registered again within 5 s.
        cluster.kill(1);
        cluster.wait_ms(5000);
        assert_eq!(cluster.accounts_of(0).union(&cluster.accounts_of(2)).count(), 30);
    });
}

/// Two nodes start within a second, in all orders of what they read of each other, and one of them is killed.
#[test]
fn nodes_that_start_together_leave_each_trunk_at_its_owner() {
    Cluster::run("cluster: trunks, start", |cluster| {
        cluster.add_trunks(30);
        cluster.wait(20);
        (0..Cluster::NODES).for_each(|node| cluster.kill(node));
        cluster.wait(10);
        cluster.restart(0);
        let apart_ms = cluster.rng.below(1000);
        cluster.wait_ms(apart_ms);
        cluster.restart(1);
        cluster.wait(12);
        let first: Vec<usize> = (0..2).map(|node| cluster.accounts_of(node).len()).collect();
        assert_eq!((first.iter().sum::<usize>(), cluster.accounts_of(2).len()), (30, 0), "{first:?}");
        let lasting = cluster.registers_len();
        cluster.wait(120);
        assert_eq!(cluster.registers_len(), lasting, "it is settled");
        // Whichever is killed, also soon after its start: no account keeps a contact that leads nowhere.
        cluster.kill(1);
        cluster.wait(3);
        cluster.restart(1);
        let soon_ms = cluster.rng.below(3000);
        cluster.wait_ms(soon_ms);
        cluster.kill(0);
        cluster.wait(6);
        assert_eq!(cluster.accounts_of(1).len(), 30);
        cluster.heal();
    });
}
