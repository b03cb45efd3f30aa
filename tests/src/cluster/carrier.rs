//! Carrier at which the nodes register their trunks: the real server as a registrar.

use super::node;
use super::shell::RealServer;
use crate::world::{LIMITS, default_config, password};
use ringway_sansio::{Instant, Seed, Transport};
use ringway_server::{AuthConfig, Config, Server, Trunk, TrunkLogin};
use ringway_sim::{Effects, HostId, Hosted, Sim};
use ringway_test_support::host::TestHost;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Carrier, at the address of node [`Cluster::CARRIER`](super::Cluster::CARRIER).
pub(super) struct Carrier {
    host: HostId,
}

impl Carrier {
    /// Starts it, with this number of accounts.
    pub(super) fn start(sim: &mut Sim, seed: u64, accounts: usize) -> Self {
        let address = SocketAddr::new(node::ip(super::Cluster::CARRIER), 5060);
        let root = Seed::from_number(seed).part(51);
        let services = Arc::new(TestHost::new(LIMITS, &root, sim.now()));
        for account in (0..accounts).map(account) {
            services.subscribe(&account, DOMAIN, DOMAIN, &password(&account));
        }
        let mut config = Config {
            domains: vec![DOMAIN.into()],
            auth: AuthConfig {
                algorithms: default_config().auth.algorithms,
                ..AuthConfig::for_realm(DOMAIN)
            },
            secret: [98; 32],
            ..default_config()
        };
        for listener in &mut config.listeners {
            (listener.bound, listener.advertised) = (address, address);
        }
        let host = Arc::clone(&services) as _;
        let server = Server::new(Arc::new(config), host, services.tables(), 0, root.part(1), sim.now());
        let hosted: Hosted<RealServer> = Hosted::new(vec![server], |_, _, _: &mut Effects| {});
        let listeners = [(Transport::Udp, address), (Transport::Tcp, address)];
        let host = sim.add("carrier", &listeners, Box::new(hosted)).expect("the address is free");
        Self { host }
    }

    /// Contacts that are registered, with their accounts.
    pub(super) fn contacts(&self, sim: &Sim) -> Vec<(String, String)> {
        let server = sim.node::<Hosted<RealServer>>(self.host).expect("the host is the carrier");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let all = server.shards().iter().flat_map(|shard| shard.location().iter());
        all.filter(|found| found.expires() > sim.now())
            .map(|found| (text(found.aor()), text(found.contact())))
            .collect()
    }

    /// Times of the REGISTERs that it got from an address.
    pub(super) fn registers(sim: &Sim, from: IpAddr) -> Vec<Instant> {
        let to = node::ip(super::Cluster::CARRIER);
        let packets = sim.trace().packets();
        packets
            .filter(|seen| {
                (seen.from.ip(), seen.to.ip()) == (from, to) && seen.bytes.starts_with(b"REGISTER ")
            })
            .map(|seen| seen.at)
            .collect()
    }
}

/// Trunks of the nodes, one for each account.
pub(super) fn trunks(accounts: usize) -> Vec<Trunk> {
    let uri = format!("sip:{}:5060", node::ip(super::Cluster::CARRIER));
    let trunk = |account: String| {
        let login = TrunkLogin { username: account.clone(), password: password(&account), realm: None };
        Trunk {
            registers: true,
            login: Some(login),
            domain: Some(DOMAIN.into()),
            ..Trunk::at(&account, &uri)
        }
    };
    (0..accounts).map(account).map(trunk).collect()
}

fn account(number: usize) -> String {
    format!("account{number}")
}

const DOMAIN: &str = "carrier.example";
