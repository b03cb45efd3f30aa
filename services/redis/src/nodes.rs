//! The list of nodes: heartbeats of this one, and the states of the others.

use crate::{NodeInfo, NodeState, Settings};
use ringway_location::NodeName;
use std::time::{Duration, Instant};

/// Text of a heartbeat: version of the text, of the link, incarnation, link, state, the hash of its trunks if it has some, a word while it
/// writes its registrations again, time.
pub(crate) fn heartbeat(
    settings: &Settings,
    (is_draining, writes_again): (bool, bool),
    trunks: u64,
    now_ms: u64,
) -> String {
    let state = if is_draining { "draining" } else { "up" };
    let again = if writes_again { format!("{WRITES_AGAIN} ") } else { String::new() };
    let trunks = if trunks == 0 { String::new() } else { format!("{TRUNKS}{trunks:016x} ") };
    let Settings { link, link_version, incarnation, .. } = settings;
    format!("1 {link_version} {incarnation} {link} {state} {trunks}{again}{now_ms}")
}

/// Reads a [`heartbeat`].
pub(crate) fn read(name: &[u8], text: &[u8]) -> Option<NodeInfo> {
    let mut words = std::str::from_utf8(text).ok()?.split(' ');
    // A later version adds words before the time.
    words.next()?.parse::<u16>().ok()?;
    let mut node = NodeInfo {
        name: NodeName::read(name)?,
        version: words.next()?.parse().ok()?,
        incarnation: words.next()?.parse().ok()?,
        link: words.next()?.parse().ok()?,
        state: if words.next()? == "draining" { NodeState::Draining } else { NodeState::Up },
        last_seen_ms: words.next_back()?.parse().ok()?,
        writes_again: false,
        trunks: 0,
        is_silent: false,
    };
    for word in words {
        node.writes_again |= word == WRITES_AGAIN;
        let trunks = word.strip_prefix(TRUNKS).and_then(|hash| u64::from_str_radix(hash, 16).ok());
        node.trunks = trunks.unwrap_or(node.trunks);
    }
    Some(node)
}

/// States of the other nodes.
#[derive(Default)]
pub(crate) struct Nodes {
    known: Vec<NodeInfo>,
    /// Known nodes that the store does not have any more, and the times of the reads that missed them first.
    missing: Vec<(NodeName, Instant)>,
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

    /// Takes the heartbeats in the store, the one of the node `own` among them, at `store_now_ms` of its clock.
    pub(crate) fn update(
        &mut self,
        own: NodeName,
        listed: &[NodeInfo],
        store_now_ms: u64,
        now: Instant,
    ) -> Changes {
        let is_near = |node: &&NodeInfo| node.last_seen_ms <= store_now_ms.saturating_add(AHEAD_MAX_MS);
        let listed: Vec<&NodeInfo> = listed.iter().filter(is_near).collect();
        let own_age = listed.iter().find(|node| node.name == own).map(|node| age(node, store_now_ms));
        // A store that takes no heartbeat of this node takes none of the others: their silence means nothing.
        let is_frozen = own_age.is_none_or(|age_ms| age_ms > WRITABLE_TIME_MS);
        if is_frozen {
            self.reconnected(now);
        }
        let is_patient = self.patience_until.is_some_and(|until| now < until);
        let others = listed.iter().copied().filter(|node| node.name != own);
        self.note_missing(&listed, is_frozen, now);
        let mut changes = Changes::default();
        let mut names: Vec<NodeName> = others.clone().chain(&self.known).map(|node| node.name).collect();
        names.sort_unstable();
        names.dedup();
        let mut list = Vec::with_capacity(names.len());
        for name in names {
            let before = self.known.iter().find(|node| node.name == name);
            let Some(mut node) = others.clone().find(|node| node.name == name).or(before).copied() else {
                continue;
            };
            // A time ahead of the store's clock would end late, if at all.
            node.last_seen_ms = node.last_seen_ms.min(store_now_ms);
            let age_ms = age(&node, store_now_ms);
            node.is_silent =
                age_ms > SILENT_AFTER_MS && !is_patient && own_age.is_some_and(|own| own <= FRESH_TIME_MS);
            if age_ms > GONE_AFTER_MS {
                let was_alive = before.filter(|before| before.state != NodeState::Gone);
                node.state = was_alive.filter(|_| is_patient).map_or(NodeState::Gone, |before| before.state);
            }
            if node.state == NodeState::Gone && (age_ms > FORGOTTEN_AFTER_MS || self.is_missing(name, now)) {
                continue;
            }
            list.push(node);
        }
        if list.len() > NODES_MAX {
            let is_new = |node: &NodeInfo| !self.known.iter().any(|known| known.name == node.name);
            list.sort_by_key(|node| {
                (node.state == NodeState::Gone, is_new(node), std::cmp::Reverse(node.last_seen_ms))
            });
            list.truncate(NODES_MAX);
            list.sort_unstable_by_key(|node| node.name);
        }
        self.compare(&list, &mut changes);
        self.missing.retain(|(name, _)| list.iter().any(|node| node.name == *name));
        self.known = list;
        changes
    }

    /// Notes which known nodes the store does not have.
    fn note_missing(&mut self, listed: &[&NodeInfo], is_frozen: bool, now: Instant) {
        let mut missing = std::mem::take(&mut self.missing);
        let is_listed = |name: NodeName| listed.iter().any(|node| node.name == name);
        missing.retain(|(name, _)| !is_frozen && !is_listed(*name));
        for node in self.known.iter().filter(|node| !is_frozen && !is_listed(node.name)) {
            if !missing.iter().any(|(name, _)| *name == node.name) {
                missing.push((node.name, now));
            }
        }
        self.missing = missing;
    }

    /// True for a node that the store has not had for long.
    fn is_missing(&self, name: NodeName, now: Instant) -> bool {
        let is_long = |since: Instant| now.saturating_duration_since(since) > MISSING_TIME_MAX;
        self.missing.iter().any(|(missing, since)| *missing == name && is_long(*since))
    }

    /// Compares the new list with the one before.
    fn compare(&self, list: &[NodeInfo], changes: &mut Changes) {
        let without_time = |node: &NodeInfo| NodeInfo { last_seen_ms: 0, ..*node };
        let is_alive = |node: &NodeInfo| node.state != NodeState::Gone;
        let find = |nodes: &[NodeInfo], name| nodes.iter().find(|node| node.name == name).copied();
        for node in list {
            let before = find(&self.known, node.name);
            if is_alive(node) && !before.as_ref().is_some_and(is_alive) {
                changes.up.push(node.name);
            }
        }
        for before in self.known.iter().filter(|before| is_alive(before)) {
            if !find(list, before.name).as_ref().is_some_and(is_alive) {
                changes.gone.push(before.name);
            }
        }
        changes.is_changed = !list.iter().map(without_time).eq(self.known.iter().map(without_time));
    }
}

/// Time since a heartbeat.
const fn age(node: &NodeInfo, store_now_ms: u64) -> u64 {
    store_now_ms.saturating_sub(node.last_seen_ms)
}

/// Words of a heartbeat.
const WRITES_AGAIN: &str = "writes-again";
const TRUNKS: &str = "trunks=";
/// Maximum number of other nodes.
const NODES_MAX: usize = 63;
/// Time without a heartbeat after which a node is gone.
const GONE_AFTER_MS: u64 = 5_000;
/// Time without a heartbeat after which a node is silent, and age of this node's own heartbeat up to which that counts.
const SILENT_AFTER_MS: u64 = 3_000;
const FRESH_TIME_MS: u64 = 1_500;
/// Age of this node's own heartbeat up to which the store takes heartbeats. The others' are older by less than two intervals then.
const WRITABLE_TIME_MS: u64 = 3_000;
/// Maximum time by which a heartbeat is ahead of the store's clock, which can be set back. The script `nodes` has it too.
const AHEAD_MAX_MS: u64 = 60_000;
/// Time after which a node that is gone, and that the store does not have any more, is not listed.
const MISSING_TIME_MAX: Duration = Duration::from_secs(60);
/// Time without a heartbeat after which a node is not listed.
const FORGOTTEN_AFTER_MS: u64 = 86_400_000;
/// Longer than the longest pause between connections of a node.
const PATIENCE: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(name: &str, state: &str, at: u64) -> NodeInfo {
        let text = format!("1 2 33 192.0.2.1:5061 {state} {at}");
        read(name.as_bytes(), text.as_bytes()).unwrap()
    }

    fn states(nodes: &Nodes) -> Vec<(String, NodeState)> {
        nodes.list().iter().map(|node| (node.name.to_string(), node.state)).collect()
    }

    /// An update while the heartbeats of this node arrive.
    fn update(nodes: &mut Nodes, listed: &[NodeInfo], at: u64, now: Instant) -> Changes {
        let mut listed = listed.to_vec();
        listed.push(self::listed("own", "up", at));
        nodes.update(listed[listed.len() - 1].name, &listed, at, now)
    }

    #[test]
    fn a_node_is_gone_five_seconds_after_its_last_heartbeat() {
        let (mut nodes, now) = (Nodes::default(), Instant::now());
        let changes =
            update(&mut nodes, &[listed("b", "up", 1_000), listed("a", "draining", 1_000)], 1_000, now);
        assert!(changes.is_changed && changes.up.len() == 2);
        let list = [listed("b", "up", 2_000), listed("a", "draining", 1_000)];
        assert_eq!(update(&mut nodes, &list, 4_000, now), Changes::default());
        assert!(update(&mut nodes, &list, 4_001, now).is_changed, "the one that sends nothing is silent");
        assert!(nodes.list()[0].is_silent && !nodes.list()[1].is_silent);
        assert_eq!(update(&mut nodes, &list, 5_000, now), Changes::default());
        let changes = update(&mut nodes, &list, 6_001, now);
        assert_eq!((changes.is_changed, changes.gone.len()), (true, 1));
        assert_eq!(states(&nodes), [("a".into(), NodeState::Gone), ("b".into(), NodeState::Up)]);
        assert_eq!(update(&mut nodes, &[], 8_000, now).gone.len(), 1, "a list that lost a node");
        assert!(update(&mut nodes, &list, 6_002 + FORGOTTEN_AFTER_MS, now).is_changed);
    }

    #[test]
    fn an_outage_of_the_store_makes_no_node_gone() {
        let (mut nodes, now) = (Nodes::default(), Instant::now());
        update(&mut nodes, &[listed("a", "up", 1_000)], 1_000, now);
        nodes.reconnected(now);
        assert_eq!(update(&mut nodes, &[listed("a", "up", 1_000)], 900_000, now), Changes::default());
        let changes = update(&mut nodes, &[listed("a", "up", 1_000)], 920_000, now + PATIENCE);
        assert_eq!(changes.gone.len(), 1);
        let changes = update(&mut nodes, &[listed("a", "up", 920_001)], 920_001, now + PATIENCE);
        assert_eq!(changes.up.len(), 1);
    }

    #[test]
    fn a_store_that_cannot_be_written_makes_no_node_gone() {
        let (mut nodes, now) = (Nodes::default(), Instant::now());
        let own = listed("own", "up", 1_900);
        let list = [own, listed("a", "up", 1_000)];
        nodes.update(own.name, &list, 2_000, now);
        for seconds in 3..100 {
            let at = now + Duration::from_secs(seconds);
            assert_eq!(nodes.update(own.name, &list, seconds * 1_000, at), Changes::default(), "{seconds}");
        }
        let at = now + Duration::from_secs(200);
        assert_eq!(nodes.update(own.name, &[], 200_000, at), Changes::default(), "nothing in the store");
        // The heartbeats return one by one.
        let list = [listed("own", "up", 201_000), listed("a", "up", 1_000)];
        let at = at + Duration::from_secs(1);
        assert_eq!(nodes.update(own.name, &list, 201_000, at), Changes::default());
        assert_eq!(update(&mut nodes, &list[1..], 220_000, at + PATIENCE).gone.len(), 1);
    }

    #[test]
    fn heartbeats_of_the_future_and_nodes_that_left_end() {
        let (mut nodes, now) = (Nodes::default(), Instant::now());
        let far = listed("far", "up", u64::MAX / 4);
        assert_eq!(update(&mut nodes, &[far], 1_000, now), Changes::default());
        let list = [listed("near", "up", 61_000), listed("a", "up", 1_000)];
        assert_eq!(update(&mut nodes, &list, 1_000, now).up.len(), 2);
        assert_eq!(update(&mut nodes, &[], 6_001, now).gone.len(), 2);
        assert_eq!(update(&mut nodes, &[], 66_000, now + MISSING_TIME_MAX), Changes::default());
        assert_eq!(nodes.list().len(), 2);
        let later = now + MISSING_TIME_MAX + Duration::from_millis(1);
        assert!(update(&mut nodes, &[], 66_001, later).is_changed);
        assert!(nodes.list().is_empty() && nodes.missing.is_empty());
    }

    #[test]
    fn more_nodes_than_the_limit_push_out_none_that_is_up() {
        let (mut nodes, now) = (Nodes::default(), Instant::now());
        update(&mut nodes, &[listed("z", "up", 1_000)], 1_000, now);
        let mut list: Vec<_> = (0..70).map(|at| listed(&format!("f{at}"), "up", 30_000)).collect();
        list.push(listed("z", "up", 2_000));
        let changes = update(&mut nodes, &list, 2_000, now);
        assert_eq!((nodes.list().len(), changes.up.len(), changes.gone.len()), (63, 62, 0));
        assert_eq!(nodes.list().last().unwrap().name.as_str(), "z");
    }

    #[test]
    fn the_heartbeat_of_a_node_that_writes_its_registrations_again_has_a_word_for_it() {
        let settings = Settings {
            url: crate::LocationUrl::parse("redis://localhost").unwrap(),
            node: NodeName::read(b"a").unwrap(),
            incarnation: 33,
            link: "192.0.2.1:5061".parse().unwrap(),
            link_version: 2,
            is_strict: false,
            holds_all: true,
            seed: 1,
        };
        for (is_draining, writes_again) in [(false, false), (false, true), (true, false), (true, true)] {
            let text = heartbeat(&settings, (is_draining, writes_again), 0xab, 77);
            let node = read(b"a", text.as_bytes()).unwrap();
            assert_eq!(node.trunks, 0xab, "{text}");
            assert_eq!((node.state == NodeState::Draining, node.writes_again), (is_draining, writes_again));
            assert_eq!((node.link, node.last_seen_ms), (settings.link, 77), "{text}");
        }
        assert_eq!(heartbeat(&settings, (false, false), 0, 77), "1 2 33 192.0.2.1:5061 up 77");
        let later = read(b"a", b"2 3 4 [::1]:5 up new writes-again words 6").unwrap();
        assert!(later.writes_again && later.last_seen_ms == 6);
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
