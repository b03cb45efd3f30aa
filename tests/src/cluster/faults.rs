//! Faults of a cluster, and what its administrators do.

use super::{Cluster, StoreState, secrets};
use ringway_server::{ClusterSecret, Hold};
use ringway_sim::Faults;
use std::time::Duration;

impl Cluster {
    /// Kills a node: its connections are closed.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].kill(&mut self.sim);
    }

    /// Starts a node that was killed. Its clock is up to 30 s ahead of that of the simulation.
    pub fn restart(&mut self, node: usize) {
        let ahead = Duration::from_millis(self.rng.below(CLOCKS_DIFFER_MS));
        self.nodes[node].start(&mut self.sim, ahead);
        self.cut_ways();
    }

    /// Starts a node that was killed with the next version, whose records the others cannot read.
    pub fn upgrade(&mut self, node: usize) {
        self.nodes[node].version += 1;
        self.restart(node);
    }

    /// Pauses the process of a node.
    pub fn pause(&mut self, node: usize) {
        self.nodes[node].pause(&mut self.sim);
    }

    /// Lets the process of a node go on.
    pub fn resume(&mut self, node: usize) {
        self.nodes[node].resume(&mut self.sim);
    }

    /// True if the node is neither killed nor paused.
    pub fn runs(&self, node: usize) -> bool {
        self.nodes[node].runs(&self.sim)
    }

    /// True if the node has a process, which may be paused.
    pub fn is_started(&self, node: usize) -> bool {
        self.nodes[node].host.is_some()
    }

    /// True if the node drains.
    pub fn is_draining(&self, node: usize) -> bool {
        self.nodes[node].is_draining
    }

    /// True for a node that holds all users, false for one that holds whom it serves.
    pub(crate) fn holds_all(&self, node: usize) -> bool {
        self.nodes[node].hold == Hold::All
    }

    /// True if a node has read all records that it missed, and ended the bindings that are not among them.
    pub(crate) fn has_read(&self, node: usize) -> bool {
        self.nodes[node].has_read()
    }

    /// True until a node has read all records.
    pub fn is_cold(&self, node: usize) -> bool {
        self.nodes[node].is_cold()
    }

    /// True if a node has a link to another one that answers.
    pub fn is_linked(&self, node: usize, other: usize) -> bool {
        self.nodes[node].is_linked(&self.nodes[other].name)
    }

    /// Cuts or restores the way between a node and the store.
    pub fn set_reaches_store(&mut self, node: usize, reaches: bool) {
        self.nodes[node].reaches_store = reaches;
    }

    /// Cuts or restores the way from one node to another: what was sent arrives after it is restored.
    pub fn set_reaches_node(&mut self, from: usize, to: usize, reaches: bool) {
        match reaches {
            true => self.cut.remove(&(from, to)),
            false => self.cut.insert((from, to)),
        };
        self.cut_ways();
    }

    /// True if the ways between two nodes work in both directions.
    pub fn can_link(&self, node: usize, other: usize) -> bool {
        !self.cut.contains(&(node, other)) && !self.cut.contains(&(other, node))
    }

    fn cut_ways(&mut self) {
        for from in 0..Self::NODES {
            for to in 0..Self::NODES {
                if let (Some(sender), Some(receiver)) = (self.nodes[from].host, self.nodes[to].host) {
                    let is_cut = self.cut.contains(&(from, to));
                    let faults = if is_cut { Faults::cut() } else { Faults::default() };
                    self.sim.set_link(sender, receiver, faults);
                }
            }
        }
    }

    /// Closes the connections of a node to the others.
    pub fn break_links(&mut self, node: usize) {
        self.nodes[node].close_links(&mut self.sim);
    }

    /// Drains a node within some seconds, or ends that.
    pub fn drain(&mut self, node: usize, over_s: Option<u64>) {
        self.nodes[node].drain(&mut self.sim, over_s.map(Duration::from_secs));
    }

    /// Takes the next step of a change of the secret at a node, unless another node did not take the one before.
    pub fn rotate(&mut self, node: usize) {
        let steps = self.rotated[node];
        if self.rotated.iter().all(|others| *others >= steps) && steps < SECRET_STEPS {
            self.rotated[node] = steps + 1;
            self.nodes[node].set_secrets(&mut self.sim, secrets(steps + 1));
        }
    }

    /// Gives a node a secret that no other node has; false: the one that it had.
    pub fn set_foreign_secret(&mut self, node: usize, is_foreign: bool) {
        let foreign = (ClusterSecret::new(&[9; 32]), None);
        let secrets = if is_foreign { foreign } else { secrets(self.rotated[node]) };
        self.nodes[node].set_secrets(&mut self.sim, secrets);
    }

    /// A replica of the store takes over, which lost the last second; `ahead`: its clock.
    pub fn fail_over(&mut self, ahead: Duration) {
        self.clock_moved += self.store.fail_over(self.sim.now(), ahead);
        self.changed.1 = self.sim.now();
    }

    /// Ends all faults.
    pub fn heal(&mut self) {
        self.sim.set_faults(Faults::default());
        self.store.state = StoreState::Up;
        self.cut.clear();
        self.cut_ways();
        for node in 0..Self::NODES {
            self.set_reaches_store(node, true);
            if !self.is_started(node) {
                self.restart(node);
            } else if !self.runs(node) {
                self.resume(node);
            }
            self.drain(node, None);
        }
    }
}

/// Steps of a change of the secret.
pub(super) const SECRET_STEPS: usize = 3;
const CLOCKS_DIFFER_MS: u64 = 30_001;
