//! Figures of the servers and media relays that this server works with, each with its name as a label.

use super::trunks::TrunkRow;
use super::view::ServerView;
use ringway_admin::{ClusterNode, MetricKind, Stat, Stats, Trunk, View};
use std::collections::HashSet;
use std::sync::Arc;

impl ServerView {
    /// Figures of each trunk, node, neighbour and media relay.
    pub(super) fn stats_of_peers(&self) -> Stats {
        let (rows, cluster) = (self.host.trunks().rows(), self.cluster());
        let nodes = cluster.map_or_else(Vec::new, |cluster| cluster.nodes);
        let mut stats = self.stats_of_trunks(&rows);
        let state = |name, help, is_up: bool| Stat::gauge(name, help, f64::from(u8::from(is_up)));
        let help =
            "0 while the node sends no heartbeats, has no link to this one, or does not answer this front.";
        stats.extend(
            self.nodes_up(&nodes, &rows)
                .into_iter()
                .map(|(name, is_up)| state("node_up", help, is_up).labelled("node", name)),
        );
        let help = "0 while the neighbour has no connection that works.";
        stats.extend(
            self.neighbours_up(&nodes, &rows)
                .into_iter()
                .map(|(name, is_up)| state("neighbour_up", help, is_up).labelled("neighbour", name)),
        );
        let help = "0 while the media relay does not answer.";
        stats.extend(
            self.relays()
                .into_iter()
                .map(|relay| state("relay_up", help, relay.state == "up").labelled("relay", relay.address)),
        );
        stats
    }

    /// Figures of the trunks: of all together, and of each one of the first [`SERIES_MAX`].
    fn stats_of_trunks(&self, rows: &[Arc<TrunkRow>]) -> Stats {
        let numbered = || rows.iter().enumerate();
        let shown: Vec<Trunk> =
            numbered().take(SERIES_MAX).map(|(index, row)| self.trunk(index, row)).collect();
        let mut stats = stats_of_trunks(&shown);
        let now = self.clock.now();
        let up = numbered().filter(|(index, row)| is_up(self.state_of(*index, row, now))).count();
        let left_out = rows.len().saturating_sub(SERIES_MAX);
        let gauge = |name, help, count: usize| Stat::gauge(name, help, count as f64);
        stats.push(gauge("trunks", "Trunks, and nodes behind this front.", rows.len()));
        stats.push(gauge("trunks_unavailable", "Those of them that are down or silent.", rows.len() - up));
        stats.push(gauge(
            "trunks_without_series",
            "Trunks after the first 1,000, which have no figures of their own here.",
            left_out,
        ));
        stats
    }

    /// The other nodes of the cluster, and those behind this front.
    fn nodes_up(&self, nodes: &[ClusterNode], rows: &[Arc<TrunkRow>]) -> Vec<(String, bool)> {
        let now = self.clock.now();
        let others = nodes.iter().filter(|node| node.link != "-");
        let others = others.map(|node| (node.name.clone(), node.state != "gone" && node.link == "up"));
        let behind = rows.iter().enumerate().filter(|(_, row)| row.is_node);
        let behind = behind.map(|(index, row)| (row.name.clone(), is_up(self.state_of(index, row, now))));
        others.chain(behind).collect()
    }

    /// Neighbours that are neither trunks nor nodes.
    fn neighbours_up(&self, nodes: &[ClusterNode], rows: &[Arc<TrunkRow>]) -> Vec<(String, bool)> {
        let mut up = Vec::new();
        let of_trunks: HashSet<usize> = rows.iter().filter_map(|row| row.neighbour).collect();
        self.host.each_neighbour(|index, name, target, is_up| {
            if of_trunks.contains(&index) {
                return;
            }
            let target = target.map(|target| target.to_string());
            let is_node = target.is_some_and(|target| nodes.iter().any(|node| node.address == target));
            if !is_node {
                up.push((name.to_owned(), is_up));
            }
        });
        up
    }
}

fn stats_of_trunks(trunks: &[Trunk]) -> Stats {
    let of = |name: &'static str, help, value: &dyn Fn(&Trunk) -> Option<f64>, kind| -> Stats {
        let stat = |trunk: &Trunk| {
            let stat = Stat { kind, ..Stat::gauge(name, help, value(trunk)?) };
            Some(stat.labelled("trunk", trunk.name.clone()))
        };
        trunks.iter().filter_map(stat).collect()
    };
    let flag = |is_it| f64::from(u8::from(is_it));
    let up = |trunk: &Trunk| Some(flag(is_up(&trunk.state)));
    let calls = |trunk: &Trunk| Some(trunk.calls as f64);
    let refused = |trunk: &Trunk| Some(trunk.logins_refused as f64);
    let registered = |trunk: &Trunk| trunk.registered.map(flag);
    let under_way = |trunk: &Trunk| trunk.under_way.map(f64::from);
    let under_way_in = |trunk: &Trunk| trunk.under_way_in.map(f64::from);
    let refused_help =
        "Challenges of the trunk without credentials for them, or whose credentials were refused.";
    let registered_help = "1 while this server is registered at the trunk.";
    let under_way_help = "Calls to a trunk with a limit of calls.";
    let under_way_in_help = "Calls from a trunk with a limit of calls.";
    let all = [
        of("trunk_up", "0 while the trunk is down or silent.", &up, MetricKind::Gauge),
        of("trunk_calls", "INVITEs sent to the trunk.", &calls, MetricKind::Counter),
        of("trunk_logins_refused", refused_help, &refused, MetricKind::Counter),
        of("trunk_registered", registered_help, &registered, MetricKind::Gauge),
        of("trunk_calls_under_way", under_way_help, &under_way, MetricKind::Gauge),
        of("trunk_calls_in_under_way", under_way_in_help, &under_way_in, MetricKind::Gauge),
    ];
    all.into_iter().flatten().collect()
}

/// True for the state of a trunk that gets calls.
fn is_up(state: &str) -> bool {
    !matches!(state, "down" | "silent")
}

/// Maximum number of trunks with figures of their own.
const SERIES_MAX: usize = 1000;
