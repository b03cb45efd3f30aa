//! The cluster for the admin API: nodes, store, figures.

use super::{LINK_VERSION, SharedLocation};
use crate::serve::lock;
use ringway_admin::{Cluster, ClusterNode, SharedStore, Stat, Stats};
use ringway_redis::{Kind, NodeInfo, NodeState};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

impl SharedLocation {
    /// Nodes and store. `is_linked`: true for an address with a connection that works.
    pub(in crate::serve) fn cluster(&self, is_linked: impl Fn(&SocketAddr) -> bool) -> Cluster {
        let status = self.status();
        let is_up = status.connected_for.is_some();
        let state = match (is_up, status.is_warm) {
            (false, _) => "down",
            (true, false) => "warming",
            (true, true) => "up",
        };
        let kind = match status.kind {
            Kind::Unknown => "unknown",
            Kind::Single => "single",
            Kind::Sentinel => "sentinel",
            Kind::Cluster => "cluster",
        };
        let own = ClusterNode {
            name: self.node.to_string(),
            address: self.link.to_string(),
            state: match (self.is_name_taken(), self.is_draining.load(Ordering::Relaxed)) {
                (true, _) => "name-taken",
                (false, true) => "draining",
                (false, false) => "up",
            }
            .to_owned(),
            link: "-".to_owned(),
            seen_s: 0,
            version: u32::from(LINK_VERSION),
        };
        let now_ms = self.peers.store_now_ms();
        let mut nodes: Vec<ClusterNode> =
            self.nodes().iter().map(|node| shown(node, now_ms, is_linked(&node.link))).collect();
        nodes.push(own);
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        Cluster {
            node: self.node.to_string(),
            store: SharedStore {
                url: lock(&self.url).shown(),
                kind: kind.to_owned(),
                state: state.to_owned(),
                lag_ms: self.peers.news_lag_ms(),
                waiting: status.waiting as u64,
                error: if is_up { None } else { status.last_error },
            },
            nodes,
        }
    }

    /// State and counters.
    pub(in crate::serve) fn stats(&self) -> Stats {
        let status = self.status();
        let gauge = |name: &'static str, help, value: f64| Stat::gauge(name, help, value);
        let counter = |name: &'static str, help, value| Stat::counter(name, help, value);
        let flag = |is: bool| f64::from(u8::from(is));
        let up = self.nodes().iter().filter(|node| node.state != NodeState::Gone).count();
        vec![
            gauge(
                "location_connected",
                "1 while the store of registrations is reached.",
                flag(status.connected_for.is_some()),
            ),
            gauge("location_warm", "1 once the registrations of all nodes were read.", flag(status.is_warm)),
            gauge(
                "location_name_taken",
                "1 while another server has the name of this node, which then registers nobody.",
                flag(self.is_name_taken()),
            ),
            gauge("location_nodes_up", "Other nodes that send heartbeats.", up as f64),
            gauge(
                "location_news_lag_ms",
                "Milliseconds between the last change of another node and its arrival here.",
                self.peers.news_lag_ms() as f64,
            ),
            gauge(
                "location_write_lag_ms",
                "Age of the oldest change that is not in the store, in milliseconds.",
                status.lag_ms as f64,
            ),
            gauge("location_waiting", "Changes that wait to be written.", status.waiting as f64),
            gauge("location_waiting_bytes", "Bytes of these changes.", status.waiting_bytes as f64),
            counter("location_appended", "Changes of this node.", status.appended),
            counter("location_written", "Changes that the store confirmed.", status.written),
            counter(
                "location_replaced",
                "Changes that a newer one replaced before they were written.",
                status.replaced,
            ),
            counter("location_dropped", "Changes dropped because too many waited.", status.dropped),
            counter("location_refused", "Changes that the store refused.", status.refused),
            counter(
                "location_refusals",
                "REGISTERs that got 503 because their change was not written, with strict durability.",
                self.refusals.load(Ordering::Relaxed),
            ),
            counter("location_errors", "Errors of the store of registrations.", status.errors),
            counter("location_followed", "Changes of all nodes that were read.", status.followed),
            counter("location_read", "Users whose registrations were read by their names.", status.read),
            counter("location_lookups", "Lookups of users while not all were read.", status.lookups),
            counter(
                "location_lookups_failed",
                "Such lookups that had no answer in time, or were too many.",
                status.lookups_failed,
            ),
            counter(
                "location_damaged",
                "Invalid data in the store of registrations that was passed over.",
                status.damaged,
            ),
        ]
    }
}

fn shown(node: &NodeInfo, now_ms: u64, is_linked: bool) -> ClusterNode {
    let state = match node.state {
        NodeState::Up => "up",
        NodeState::Draining => "draining",
        NodeState::Gone => "gone",
    };
    ClusterNode {
        name: node.name.to_string(),
        address: node.link.to_string(),
        state: state.to_owned(),
        link: if is_linked { "up" } else { "down" }.to_owned(),
        seen_s: now_ms.saturating_sub(node.last_seen_ms) / 1000,
        version: u32::from(node.version),
    }
}
