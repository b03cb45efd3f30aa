//! Figures of the servers and media relays that this server works with, each with its name as a label.

use super::view::ServerView;
use ringway_admin::{MetricKind, Stat, Stats, Trunk, View};

impl ServerView {
    /// Figures of each trunk, node, neighbour and media relay.
    pub(super) fn stats_of_peers(&self) -> Stats {
        let mut stats = self.stats_of_trunks();
        let state = |name, help, is_up: bool| Stat::gauge(name, help, f64::from(u8::from(is_up)));
        let help =
            "0 while the node sends no heartbeats, has no link to this one, or does not answer this front.";
        stats.extend(
            self.nodes_up()
                .into_iter()
                .map(|(name, is_up)| state("node_up", help, is_up).labelled("node", name)),
        );
        let help = "0 while the neighbour has no connection that works.";
        stats.extend(
            self.neighbours_up()
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

    fn stats_of_trunks(&self) -> Stats {
        let trunks = self.trunks();
        let of = |name: &'static str, help, value: &dyn Fn(&Trunk) -> f64, kind| -> Stats {
            let stat = |trunk: &Trunk| Stat { kind, ..Stat::gauge(name, help, value(trunk)) };
            trunks.iter().map(|trunk| stat(trunk).labelled("trunk", trunk.name.clone())).collect()
        };
        let is_up = |trunk: &Trunk| f64::from(u8::from(is_trunk_up(trunk)));
        let up = of("trunk_up", "0 while the trunk is down or silent.", &is_up, MetricKind::Gauge);
        let calls = |trunk: &Trunk| trunk.calls as f64;
        let calls = of("trunk_calls", "INVITEs sent to the trunk.", &calls, MetricKind::Counter);
        let refused = |trunk: &Trunk| trunk.logins_refused as f64;
        let help = "Challenges of the trunk without credentials for them, or whose credentials were refused.";
        let refused = of("trunk_logins_refused", help, &refused, MetricKind::Counter);
        up.into_iter().chain(calls).chain(refused).collect()
    }

    /// The other nodes of the cluster, and those behind this front.
    fn nodes_up(&self) -> Vec<(String, bool)> {
        let cluster = self.cluster();
        let others = cluster.iter().flat_map(|cluster| &cluster.nodes).filter(|node| node.link != "-");
        let others = others.map(|node| (node.name.clone(), node.state != "gone" && node.link == "up"));
        let rows = self.services.trunks().rows();
        let behind = self.trunks().into_iter().zip(rows).filter(|(_, row)| row.is_node);
        others.chain(behind.map(|(trunk, _)| (trunk.name.clone(), is_trunk_up(&trunk)))).collect()
    }

    /// Neighbours that are neither trunks nor nodes.
    fn neighbours_up(&self) -> Vec<(String, bool)> {
        let rows = self.services.trunks().rows();
        let cluster = self.cluster();
        let nodes: Vec<&str> =
            cluster.iter().flat_map(|cluster| &cluster.nodes).map(|node| node.address.as_str()).collect();
        let mut up = Vec::new();
        self.services.each_neighbour(|index, name, target, is_up| {
            let is_trunk = rows.iter().any(|row| row.neighbour == Some(index));
            let is_node = target.is_some_and(|target| nodes.contains(&target.to_string().as_str()));
            if !is_trunk && !is_node {
                up.push((name.to_owned(), is_up));
            }
        });
        up
    }
}

fn is_trunk_up(trunk: &Trunk) -> bool {
    !matches!(trunk.state.as_str(), "down" | "silent")
}
