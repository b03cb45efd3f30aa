//! The list of nodes: heartbeats of this one, and the states of the others.

use crate::{NodeInfo, NodeState, Settings};
use ringway_location::NodeName;
use std::time::{Duration, Instant};

/// Text of a heartbeat: version of the text, of the link, incarnation, link, state, time.
pub(crate) fn heartbeat(settings: &Settings, is_draining: bool, now_ms: u64) -> String {
    let state = if is_draining { "draining" } else { "up" };
    let Settings { link, link_version, incarnation, .. } = settings;
    format!("1 {link_version} {incarnation} {link} {state} {now_ms}")
}

/// Reads a [`heartbeat`].
pub(crate) fn read(name: &[u8], text: &[u8]) -> Option<NodeInfo> {
    let mut words = std::str::from_utf8(text).ok()?.split(' ');
    // A later version adds words before the time.
    words.next()?.parse::<u16>().ok()?;
    Some(NodeInfo {
        name: NodeName::read(name)?,
        version: words.next()?.parse().ok()?,
        incarnation: words.next()?.parse().ok()?,
        link: words.next()?.parse().ok()?,
        state: if words.next()? == "draining" { NodeState::Draining } else { NodeState::Up },
        last_seen_ms: words.next_back()?.parse().ok()?,
    })
}

/// States of the other nodes.
#[derive(Default)]
pub(crate) struct Nodes {
    known: Vec<NodeInfo>,
    /// A node that was up is not gone before: all nodes lost the store, and return one by one.
    patience_until: Option<Instant>,
}

/// Result of a read of the list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) is_changed: bool,
    pub(crate) up: Vec<NodeName>,
    pub(crate) gone: Vec<NodeName>,
}

impl Nodes {
    /// Notes that the store is reachable again.
    pub(crate) fn reconnected(&mut self, now: Instant) {
        self.patience_until = Some(now + PATIENCE);
    }

    pub(crate) fn list(&self) -> &[NodeInfo] {
        &self.known
    }

    /// Number of nodes that are not gone.
    pub(crate) fn alive(&self) -> usize {
        self.known.iter().filter(|node| node.state != NodeState::Gone).count()
    }

    /// Takes the heartbeats of the other nodes in the store, at `store_now_ms` of its clock.
    pub(crate) fn update(&mut self, heard: &[NodeInfo], store_now_ms: u64, now: Instant) -> Changes {
        let is_patient = self.patience_until.is_some_and(|until| now < until);
        let mut changes = Changes::default();
        let mut names: Vec<NodeName> = heard.iter().chain(&self.known).map(|node| node.name).collect();
        names.sort_unstable();
        names.dedup();
        let mut list = Vec::with_capacity(names.len());
        for name in names {
            let before = self.known.iter().find(|node| node.name == name);
            let Some(mut node) = heard.iter().find(|node| node.name == name).or(before).copied() else {
                continue;
            };
            let age_ms = store_now_ms.saturating_sub(node.last_seen_ms);
            if age_ms > FORGOTTEN_AFTER_MS {
                changes.is_changed |= before.is_some();
                continue;
            }
            if age_ms > GONE_AFTER_MS {
                let was_alive = before.filter(|before| before.state != NodeState::Gone);
                node.state = was_alive.filter(|_| is_patient).map_or(NodeState::Gone, |before| before.state);
            }
            let was_alive = before.is_some_and(|before| before.state != NodeState::Gone);
            match node.state {
                NodeState::Gone if was_alive => changes.gone.push(name),
                NodeState::Up | NodeState::Draining if !was_alive => changes.up.push(name),
                NodeState::Gone | NodeState::Up | NodeState::Draining => {}
            }
            let without_time = |node: &NodeInfo| NodeInfo { last_seen_ms: 0, ..*node };
            changes.is_changed |= before.map(without_time) != Some(without_time(&node));
            list.push(node);
        }
        if list.len() > NODES_MAX {
            list.sort_by_key(|node| (node.state == NodeState::Gone, std::cmp::Reverse(node.last_seen_ms)));
            list.truncate(NODES_MAX);
            list.sort_unstable_by_key(|node| node.name);
        }
        self.known = list;
        changes
    }
}

/// Maximum number of other nodes.
const NODES_MAX: usize = 63;
/// Time without a heartbeat after which a node is gone.
const GONE_AFTER_MS: u64 = 5_000;
/// Time without a heartbeat after which a node is not listed.
const FORGOTTEN_AFTER_MS: u64 = 86_400_000;
/// Longer than the longest pause between connections of a node.
const PATIENCE: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(name: &str, state: &str, at: u64) -> NodeInfo {
        let text = format!("1 2 33 192.0.2.1:5061 {state} {at}");
        read(name.as_bytes(), text.as_bytes()).unwrap()
    }

    fn states(nodes: &Nodes) -> Vec<(String, NodeState)> {
        nodes.list().iter().map(|node| (node.name.to_string(), node.state)).collect()
    }

    #[test]
    fn a_node_is_gone_five_seconds_after_its_last_heartbeat() {
        let (mut nodes, now) = (Nodes::default(), Instant::now());
        let changes = nodes.update(&[heard("b", "up", 1_000), heard("a", "draining", 1_000)], 1_000, now);
        assert!(changes.is_changed && changes.up.len() == 2);
        let list = [heard("b", "up", 2_000), heard("a", "draining", 1_000)];
        assert_eq!(nodes.update(&list, 6_000, now), Changes::default());
        let changes = nodes.update(&list, 6_001, now);
        assert_eq!((changes.is_changed, changes.gone.len()), (true, 1));
        assert_eq!(states(&nodes), [("a".into(), NodeState::Gone), ("b".into(), NodeState::Up)]);
        assert_eq!(nodes.update(&[], 8_000, now).gone.len(), 1, "a list that lost a node");
        assert!(nodes.update(&list, 6_002 + FORGOTTEN_AFTER_MS, now).is_changed);
    }

    #[test]
    fn an_outage_of_the_store_makes_no_node_gone() {
        let (mut nodes, now) = (Nodes::default(), Instant::now());
        nodes.update(&[heard("a", "up", 1_000)], 1_000, now);
        nodes.reconnected(now);
        assert_eq!(nodes.update(&[heard("a", "up", 1_000)], 900_000, now), Changes::default());
        let changes = nodes.update(&[heard("a", "up", 1_000)], 920_000, now + PATIENCE);
        assert_eq!(changes.gone.len(), 1);
        let changes = nodes.update(&[heard("a", "up", 920_001)], 920_001, now + PATIENCE);
        assert_eq!(changes.up.len(), 1);
    }

    #[test]
    fn invalid_heartbeats_are_passed_over() {
        assert!(read(b"a", b"2 3 4 [::1]:5 up new words 6").is_some());
        for text in ["", "1 2 3", "1 2 3 host:1 up 5", "1 2 x 192.0.2.1:1 up 5", "1 2 3 192.0.2.1:1 up x"] {
            assert!(read(b"a", text.as_bytes()).is_none(), "{text}");
        }
        assert!(read(b"A", b"1 2 3 192.0.2.1:1 up 5").is_none());
    }
}
