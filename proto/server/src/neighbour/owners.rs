//! The node of a cluster that registers a trunk (decision 0057).
//!
//! Rendezvous hashing over the nodes that are there: no node leads, all agree without asking, and a node that comes or goes moves its own
//! share only.

use crate::base::Env;
use crate::config::Trunking;
use alloc::vec::Vec;
use core::hash::Hasher;
use core::time::Duration;
use ringway_location::NodeName;
use ringway_sansio::{Instant, PartHasher};
use siphasher::sip::SipHasher13;

/// Nodes among which the trunks are divided.
#[derive(Debug)]
pub(super) struct Owners {
    own: NodeName,
    /// Hash of the trunks that register.
    trunks: u64,
    /// Nodes that were there at the last look; `None`: not known yet.
    nodes: Option<Vec<NodeName>>,
    /// The trunks are to be divided anew, also among the same nodes.
    is_due: bool,
    look_at: Instant,
    reload: Reload,
}

/// Nodes that came or went since the last division of the trunks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changes {
    /// Nodes came, or this one was away: another node may have registered what is this node's.
    pub(super) has_joined: bool,
    pub(super) has_lost: bool,
}

/// Change of the trunks by a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reload {
    None,
    /// There is one, and no look since then.
    New,
    /// The other nodes may have theirs until this time.
    Until(Instant),
}

impl Owners {
    /// The nodes for the trunks of a configuration, after those of the one before.
    pub(super) fn of(own: NodeName, trunking: &Trunking, before: Option<Self>) -> Self {
        let trunks = trunking.registering_hash();
        let reload = before.as_ref().filter(|before| before.trunks != trunks).map(|_| Reload::New);
        let nodes = before.and_then(|before| before.nodes);
        let reload = reload.unwrap_or(Reload::None);
        Self { own, trunks, nodes, is_due: true, look_at: Instant::default(), reload }
    }

    /// Time of the next look. The first one is also made if there are no trunks any more, so that the other nodes learn it.
    pub(super) fn next_look(&self, has_none: bool) -> Option<Instant> {
        (!has_none || self.look_at == Instant::default()).then_some(self.look_at)
    }

    /// Looks which nodes are there, if it is time. If the trunks are to be divided, it returns what changed.
    pub(super) fn look(&mut self, env: &Env<'_>) -> Option<Changes> {
        let now = env.cx.now;
        if self.look_at > now {
            return None;
        }
        // The others may have taken this node for lost.
        let was_away = self.look_at != Instant::default() && now.since(self.look_at) > AWAY_TIME_MIN;
        let mut changes = Changes { has_joined: was_away, has_lost: false };
        self.is_due |= was_away;
        self.look_at = now + LOOK_INTERVAL;
        if self.reload == Reload::New {
            self.reload = Reload::Until(now + RELOAD_TIME_MAX);
        }
        // Without an answer the nodes of the last look count: a second registration does no harm, a missing one does.
        if let Some(nodes) = env.host.nodes_with_trunks(self.trunks) {
            let is_alone = nodes == [self.own];
            let is_early = matches!(self.reload, Reload::Until(until) if now < until);
            if self.nodes.as_ref() != Some(&nodes) && !(is_alone && is_early) {
                let before = self.nodes.as_deref().unwrap_or_default();
                changes.has_joined |= nodes.iter().any(|node| !before.contains(node));
                changes.has_lost = before.iter().any(|node| !nodes.contains(node));
                (self.nodes, self.is_due) = (Some(nodes), true);
            }
        }
        (self.nodes.is_some() && core::mem::take(&mut self.is_due)).then_some(changes)
    }

    /// True if this node registers the trunk with this name.
    pub(super) fn has(&self, trunk: &str) -> bool {
        owner_of(self.nodes.as_deref().unwrap_or_default(), trunk) == Some(self.own)
    }
}

/// Node with the highest weight for a trunk.
fn owner_of(nodes: &[NodeName], trunk: &str) -> Option<NodeName> {
    let weight = |node: &NodeName| {
        // Without a key, so that all nodes agree.
        let mut hash = PartHasher::new(SipHasher13::new());
        hash.part(node.as_bytes());
        hash.part(trunk.as_bytes());
        hash.hasher().finish()
    };
    nodes.iter().copied().max_by_key(|node| (weight(node), *node))
}

/// Time between two looks: within it the share of a node that is gone moves.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Time without a look after which the other nodes may have taken this one for lost: it was paused.
const AWAY_TIME_MIN: Duration = Duration::from_secs(2);
/// Time after a reload for which the other nodes may have the earlier trunks, and this one is not taken for the only one.
const RELOAD_TIME_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    fn nodes(count: u8) -> Vec<NodeName> {
        (0..count).map(|number| NodeName::read(format!("node{number}").as_bytes()).unwrap()).collect()
    }

    #[test]
    fn each_trunk_has_one_owner_and_a_lost_node_moves_only_its_own() {
        let all = nodes(3);
        let mut counts = [0; 3];
        for number in 0..1000 {
            let trunk = format!("carrier{number}");
            let owner = owner_of(&all, &trunk).unwrap();
            counts[all.iter().position(|node| *node == owner).unwrap()] += 1;
            for gone in &all {
                let left: Vec<_> = all.iter().copied().filter(|node| node != gone).rev().collect();
                let after = owner_of(&left, &trunk).unwrap();
                assert!(after == owner || owner == *gone, "{trunk} without {gone}");
            }
        }
        assert!(counts.iter().all(|count| (280..390).contains(count)), "{counts:?}");
        assert_eq!(owner_of(&[], "carrier"), None);
    }
}
