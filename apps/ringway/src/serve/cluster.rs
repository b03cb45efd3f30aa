//! Links to the other nodes: neighbours that come and go while the server runs.

use super::listeners::ListenerTable;
use crate::config::Config;
use ringway_linux::Listen;
use ringway_sansio::Transport;
use ringway_server::{Cluster, Hold, LinkedNode, Links, NEIGHBOURS_MAX, Neighbour, NeighbourConnection};
use std::time::Duration;

/// This server as a node with links to `nodes`; `None`: it is alone.
pub(super) fn links(config: &Config, table: &ListenerTable, nodes: &[LinkedNode]) -> Option<Links> {
    let cluster = config.cluster.as_ref()?;
    let (secret, accepted_secret) = cluster.secrets;
    let listener = cluster.listener();
    let listener = table.number_of(Listen { transport: listener.transport, address: listener.address })?;
    Some(Links { node: cluster.node, listener, secret, accepted_secret, nodes: nodes.to_vec() })
}

/// This server among the nodes that share registrations; `None`: it is alone.
pub(super) fn member(config: &Config, incarnation: u64) -> Option<Cluster> {
    let cluster = config.cluster.as_ref()?;
    Some(Cluster {
        node: cluster.node,
        incarnation,
        transport: Transport::Tls,
        link: cluster.listen,
        hold: config.location.as_ref().map_or(Hold::All, |location| location.hold),
    })
}

/// Neighbour whose connection is the link to a node.
pub(super) fn neighbour(node: &LinkedNode) -> Neighbour {
    Neighbour {
        name: node.name.to_string(),
        uri: node.uri(),
        interval: PROBE_INTERVAL,
        connection: NeighbourConnection::Kept,
        // Each node opens a link to each other one: none is offered.
        certificate: None,
        offers_alias: false,
    }
}

/// The nodes of a new list, without this one, at the positions that they had: a link at another position is opened again. At most
/// as many as there are positions besides `others` neighbours; also returns the number of those for which there is none.
pub(super) fn placed(
    config: &Config,
    present: &[LinkedNode],
    listed: Vec<LinkedNode>,
    others: usize,
) -> (Vec<LinkedNode>, usize) {
    let own = config.cluster.as_ref();
    let is_other =
        |node: &LinkedNode| own.is_some_and(|own| own.node != node.name && own.listen != node.address);
    let mut listed: Vec<LinkedNode> = listed.into_iter().filter(is_other).collect();
    let mut placed: Vec<Option<LinkedNode>> = Vec::new();
    for node in present {
        let at = listed.iter().position(|listed| listed.name == node.name);
        placed.push(at.map(|at| listed.remove(at)));
    }
    let mut new = listed.into_iter();
    placed.iter_mut().filter(|place| place.is_none()).for_each(|place| *place = new.next());
    placed.extend(new.map(Some));
    // The last one takes the position of one that has left.
    while let Some(at) = placed.iter().position(Option::is_none) {
        placed.swap_remove(at);
    }
    let mut placed: Vec<LinkedNode> = placed.into_iter().flatten().collect();
    let room = NEIGHBOURS_MAX.saturating_sub(others);
    let left_out = placed.len().saturating_sub(room);
    placed.truncate(room);
    (placed, left_out)
}

/// A node that is gone is noticed by its heartbeat first.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::config::ClusterConfig;
    use ringway_location::NodeName;
    use ringway_server::ClusterSecret;

    /// Configuration of the node `name`, which cannot be read from a file before registrations can be shared.
    pub(crate) fn config(text: &str, name: &str, listen: &str) -> Config {
        let mut config = Config::parse(text, None).unwrap();
        let secrets = (ClusterSecret::new(&[7; 32]), None);
        let node = NodeName::read(name.as_bytes()).unwrap();
        config.cluster = Some(ClusterConfig { node, listen: listen.parse().unwrap(), secrets });
        config
    }

    fn nodes(text: &str) -> Vec<LinkedNode> {
        let node = |text: &str| {
            let (name, port) = text.split_once(':').unwrap();
            let address = format!("192.0.2.2:{port}").parse().unwrap();
            LinkedNode { name: NodeName::read(name.as_bytes()).unwrap(), address }
        };
        text.split_whitespace().map(node).collect()
    }

    #[test]
    fn a_node_keeps_its_position() {
        let config = config("", "own", "192.0.2.2:1");
        for (present, listed, expected) in [
            ("", "b:2 a:3", "b:2 a:3"),
            ("b:2 a:3", "a:3 b:2 c:4", "b:2 a:3 c:4"),
            ("b:2 a:3 c:4", "a:3 c:4", "c:4 a:3"),
            ("b:2 a:3 c:4", "d:5 a:3 c:4", "d:5 a:3 c:4"),
            ("b:2 a:3", "a:3 b:9", "b:9 a:3"),
            ("b:2 a:3 c:4 d:5", "d:5", "d:5"),
            ("b:2", "", ""),
            ("", "own:7 b:1 c:4", "c:4"),
        ] {
            let placed = placed(&config, &nodes(present), nodes(listed), 0);
            assert_eq!(placed, (nodes(expected), 0), "{present} then {listed}");
        }
        let many: Vec<String> = (0..63).map(|n| format!("n{n}:{}", 100 + n)).collect();
        let (placed, left_out) = placed(&config, &[], nodes(&many.join(" ")), 2);
        assert_eq!((placed.len(), left_out), (62, 1));
    }
}
