//! Conditions of a cluster that hold at any time, or at the end of a story.

use super::{Cluster, node};
use crate::PhoneEvent;
use ringway_location::NodeName;
use ringway_server::Hold;
use ringway_sim::HostId;
use ringway_sip::{HeaderName, Limits, Message};
use std::net::SocketAddr;
use std::time::Duration;

impl Cluster {
    /// Asserts that `callee` is reached over every node that runs and does not drain.
    #[track_caller]
    pub fn is_reached(&mut self, caller: HostId, callee: HostId) {
        for node in 0..Self::NODES {
            if self.runs(node) && !self.is_draining(node) {
                assert!(self.reaches(caller, node, callee), "not reached over node {node}");
            }
        }
    }

    /// Asserts that nobody reaches `callee`.
    #[track_caller]
    pub fn is_not_reached(&mut self, caller: HostId, callee: HostId) {
        for node in 0..Self::NODES {
            assert!(!self.reaches(caller, node, callee), "reached over node {node}");
        }
    }

    /// Asserts that each running node has the bindings of the store, but for those that end soon by one of the clocks.
    #[track_caller]
    pub fn agrees(&self) {
        (0..Self::NODES).for_each(|node| self.node_agrees(node));
    }

    /// The same for one node.
    #[track_caller]
    fn node_agrees(&self, index: usize) {
        let (node, stored) = (&self.nodes[index], self.store.all(self.sim.now()));
        let Some(known) = node.bindings(&self.sim) else { return };
        for (of_one, left, others) in known
            .iter()
            .map(|(of_one, left)| (of_one, left, &stored))
            .chain(stored.iter().map(|(of_one, left)| (of_one, left, &known)))
        {
            // A binding that a node cannot take back after a restart is not its own.
            let is_lost = others == &known && of_one.2 == node.name;
            // A user that is not served here.
            let is_lost = is_lost
                || node.hold == Hold::Served
                    && others == &known
                    && !known.iter().any(|(other, _)| other.0 == of_one.0);
            // A node reads no user again that it looked up, although the store lost it.
            let is_stale = node.hold == Hold::Served && self.store.generation > 0 && others == &stored;
            let is_lost = is_lost || is_stale && of_one.2 != node.name;
            // Nobody writes a binding of a node that is gone again, and the others keep it.
            let is_lost =
                is_lost || self.store.generation > 0 && others == &stored && self.is_silent(&of_one.2);
            let is_there = others.iter().any(|(other, _)| other == of_one);
            assert!(
                is_there || is_lost || *left <= self.clock_moved,
                "node {index} has {}; the store {}",
                self.shown(&known),
                self.shown(&stored)
            );
        }
    }

    /// True if the node with this name does not run.
    fn is_silent(&self, name: &NodeName) -> bool {
        self.nodes.iter().any(|node| node.name == *name && !node.runs(&self.sim))
    }

    /// Time for which a node has run and reached a store that is up.
    pub fn connected_for(&self, node: usize) -> Duration {
        self.connected[node].map_or(Duration::ZERO, |since| self.sim.now().since(since))
    }

    /// Time since the last change of the store.
    pub fn unchanged_for(&self) -> Duration {
        self.sim.now().since(self.changed.1)
    }

    /// True if no node has an update for the store.
    pub fn has_written(&self) -> bool {
        self.nodes.iter().all(node::ClusterNode::has_written)
    }

    /// Checks what must hold at any time.
    pub(super) fn check_step(&mut self) {
        let now = self.sim.now();
        if self.changed.0 != self.store.stream_end() {
            self.changed = (self.store.stream_end(), now);
        }
        for index in 0..Self::NODES {
            let node = &self.nodes[index];
            let is_connected = node.runs(&self.sim) && node.reaches_store && self.store.is_up();
            self.connected[index] = is_connected.then(|| self.connected[index].unwrap_or(now));
        }
        self.check_links();
        if now < self.compared_at || self.unchanged_for() < SETTLED || !self.is_of_one_version() {
            return;
        }
        self.compared_at = now + COMPARED_INTERVAL;
        for index in 0..Self::NODES {
            let node = &self.nodes[index];
            if self.connected_for(index) >= SETTLED && node.has_written() && node.has_read() {
                self.node_agrees(index);
            }
        }
    }

    fn is_of_one_version(&self) -> bool {
        self.nodes.iter().all(|node| node.version == self.nodes[0].version)
    }

    /// Ends all faults, advances the clock past every timer, and checks what must hold at the end of any story.
    pub(super) fn settle(&mut self) {
        self.heal();
        self.wait(100);
        // A caller whose node was lost while a phone rang gives up after some minutes.
        if self.phones.iter().any(|phone| self.node_of(*phone).transactions_len() != (0, 0)) {
            self.wait(200);
        }
        if self.is_of_one_version() {
            self.agrees();
        }
        for (index, node) in self.nodes.iter().enumerate() {
            // Each end of a link is probed, by a transaction that ends some seconds after its response.
            let (contexts, servers, clients) = node.pending(&self.sim);
            let probes = 2 * (Self::NODES - 1);
            assert!(
                contexts == 0 && servers <= probes && clients <= probes,
                "{} has {contexts} contexts, {servers} and {clients} transactions",
                node.name
            );
            assert_eq!(node.services.tables().reserved_bytes(), 0, "{} reserves memory", node.name);
            for other in (0..Self::NODES).filter(|other| *other != index) {
                assert!(self.is_linked(index, other), "no link from node {index} to {other}");
            }
        }
        if let Some(front) = &self.front {
            front.keeps_nothing(&self.sim);
        }
        for &phone in &self.phones {
            let phone = self.node_of(phone);
            assert_eq!(phone.transactions_len(), (0, 0), "{} has transactions left", phone.user());
            assert!(!phone.events().contains(&PhoneEvent::Unreadable), "{}", phone.user());
        }
        self.check_links();
    }

    /// No request crosses two links.
    fn check_links(&mut self) {
        assert_eq!(self.sim.trace().forgotten(), 0, "the story is too long to be checked");
        let node_at = |address: SocketAddr| (0..Self::NODES).find(|&node| node::ip(node) == address.ip());
        let packets = self.sim.trace().packets();
        let len = packets.len();
        for seen in packets.skip(self.checked) {
            let (Some(from), Some(to)) = (node_at(seen.from), node_at(seen.to)) else { continue };
            if from == to || !seen.bytes.starts_with(b"INVITE ") {
                continue;
            }
            let message = Message::parse(&seen.bytes, &Limits::default()).expect("nodes send valid messages");
            assert!(message.has(HeaderName::Route), "a request over a link names its flow");
            let call = (message.call_id().to_vec(), message.cseq().number);
            let before = self.crossed.entry(call).or_default();
            assert!(!before.contains(&from), "a call crosses two links");
            before.push(to);
        }
        self.checked = len;
    }
}

/// Time between two comparisons of the nodes with the store.
const COMPARED_INTERVAL: Duration = Duration::from_secs(1);
/// Time after which a change is everywhere.
const SETTLED: Duration = Duration::from_secs(2);
