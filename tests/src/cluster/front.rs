//! Server in front of the nodes, which keeps nothing of their users.

use super::node;
use super::shell::RealServer;
use crate::world::{LIMITS, REALM, default_config};
use ringway_sansio::{Event, LocatedServers, Seed, Transport};
use ringway_server::{Action, Config, Neighbour, NeighbourConnection, Network, Server, Trunk};
use ringway_sim::{Effects, HostId, Hosted, Sim};
use ringway_test_support::host::TestHost;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Front of a cluster, at the address of node [`Cluster::FRONT`](super::Cluster::FRONT).
pub(super) struct Front {
    host: HostId,
    services: Arc<TestHost>,
}

impl Front {
    /// Starts it, in front of the first `nodes` nodes, which it reaches over UDP or TCP.
    pub(super) fn start(sim: &mut Sim, seed: u64, nodes: usize) -> Self {
        let address = SocketAddr::new(node::ip(super::Cluster::FRONT), 5060);
        let transport = if seed.is_multiple_of(2) { Transport::Udp } else { Transport::Tcp };
        let root = Seed::from_number(seed).part(50);
        let services = Arc::new(TestHost::new(LIMITS, &root, sim.now()));
        let config = Arc::new(config(address, nodes, transport));
        let shards = (0..1 + (seed % 3) as u16).map(|shard| {
            let host = Arc::clone(&services) as _;
            Server::new(Arc::clone(&config), host, services.tables(), shard, root.part(1), sim.now())
        });
        let hosted: Hosted<RealServer> = Hosted::new(shards.collect(), |_, action, effects: &mut Effects| {
            // It has the addresses of the nodes, and asks for no name.
            if let Action::Resolve { query, .. } = action {
                let servers = LocatedServers::NONE;
                effects.events.push((Duration::from_millis(20), Event::Resolved { query, servers }));
            }
        });
        let listeners = [(Transport::Udp, address), (Transport::Tcp, address)];
        let host = sim.add("front", &listeners, Box::new(hosted)).expect("the address is free");
        Self { host, services }
    }

    /// Kills it: its connections are closed.
    pub(super) fn kill(&self, sim: &mut Sim) {
        sim.remove(self.host);
    }

    /// Counters of all shards.
    pub(super) fn counted(&self, sim: &Sim, of: fn(&ringway_server::Counters) -> u64) -> u64 {
        self.shards(sim).iter().map(|shard| of(shard.counters())).sum()
    }

    /// Asserts that it keeps nothing: no request, no memory, no binding.
    pub(super) fn keeps_nothing(&self, sim: &Sim) {
        for shard in self.shards(sim) {
            assert_eq!((shard.contexts_len(), shard.transactions_len().0), (0, 0), "the front has requests");
            assert_eq!(shard.location().iter().count(), 0, "the front has bindings");
        }
        assert_eq!(self.services.tables().reserved_bytes(), 0, "the front reserves memory");
    }

    fn shards<'a>(&self, sim: &'a Sim) -> &'a [RealServer] {
        sim.node::<Hosted<RealServer>>(self.host).expect("the host is the front").shards()
    }
}

/// Network of a node's address alone.
pub(super) fn network_of(node: usize) -> Network {
    node::ip(node).to_string().parse().expect("an address is a network")
}

fn config(address: SocketAddr, nodes: usize, transport: Transport) -> Config {
    let mut config = default_config();
    for listener in &mut config.listeners {
        (listener.bound, listener.advertised) = (address, address);
    }
    config.domains = vec!["localhost".into()];
    config.edge_domains = vec![REALM.into()];
    config.auth.trusted = (0..nodes).map(network_of).collect();
    config.secret = [99; 32];
    for node in 0..nodes {
        let uri = format!("sip:{}:5060{}", node::ip(node), transport.uri_parameter());
        config.neighbours.push(Neighbour {
            name: uri.clone(),
            uri: uri.clone(),
            interval: Duration::from_secs(5),
            connection: NeighbourConnection::Kept,
            certificate: None,
            offers_alias: false,
        });
        config.trunking.trunks.edit().push(Trunk {
            neighbour: Some(node),
            networks: vec![network_of(node)],
            is_node: true,
            ..Trunk::at(&uri, &uri)
        });
    }
    config
}
