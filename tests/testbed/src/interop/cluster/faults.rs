//! Faults of the network between nodes and their store, and a change of the secret while phones call.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::nodes::{Nodes, Redis, eventually, within};
use super::{register, two_users};
use crate::interop::calls::users;
use crate::interop::server::Wanted;
use crate::interop::softphone::{Line, Softphone};
use crate::interop::{Stage, Transport, baresip};
use crate::process::free_port;
use ringway_test_support::namespace::Namespace;

/// Two phones at different nodes, each with a connection to its own.
struct Phones {
    alice: baresip::Phone,
    bob: baresip::Phone,
    /// Calls so far.
    calls: usize,
}

impl Phones {
    /// Bob registers at the first node, alice at the second one.
    fn start(stage: &Stage, nodes: &Nodes) -> Result<Self> {
        let at = |user, tone_hz, index| {
            let line = Line::at_server(user, tone_hz, nodes.node(index)?.port, Transport::Tcp);
            let mut phone = baresip::Phone::start(stage, line)?;
            phone.registered()?;
            Ok::<_, anyhow::Error>(phone)
        };
        let (bob, alice) = (at("bob", 1000.0, 0)?, at("alice", 440.0, 1)?);
        for server in &nodes.servers {
            eventually("both users at all nodes", || {
                server.expect_registered(["alice", "bob"].into_iter(), true)
            })?;
        }
        Ok(Self { alice, bob, calls: 0 })
    }

    /// Begins a call between them, from alice in turn with bob.
    fn begin(&mut self) -> Result<()> {
        self.calls += 1;
        match self.calls % 2 {
            1 => self.alice.dial("sip:bob@example.org")?,
            _ => self.bob.dial("sip:alice@example.org")?,
        }
        self.alice.established_calls(self.calls)?;
        self.bob.established_calls(self.calls)
    }

    /// Ends it by the side that was called.
    fn end(&mut self) -> Result<()> {
        match self.calls % 2 {
            1 => self.bob.hang_up()?,
            _ => self.alice.hang_up()?,
        }
        self.alice.ended_calls(self.calls)?;
        self.bob.ended_calls(self.calls)
    }

    fn call(&mut self) -> Result<()> {
        self.begin()?;
        self.end()
    }
}

/// A node is cut off from the store, and its phones are called over the link to it; then the nodes are cut off from each other.
pub(super) fn partition(stage: &Stage) -> Result<()> {
    let Some(namespace) = Namespace::create("nodes")? else { return Ok(()) };
    let stage = &stage.inside(&namespace);
    let redis = Redis::single(stage)?;
    let mut nodes = Nodes::start(stage, &redis, (Wanted::default(), 2), &two_users())?;
    let mut phones = Phones::start(stage, &nodes)?;
    phones.call()?;
    let drop = |rule: &str| namespace.run("iptables", &format!("-A INPUT -p tcp {rule} -j DROP"));
    let host = Redis::host_for(0);
    drop(&format!("-d {host}"))?;
    drop(&format!("-s {host}"))?;
    nodes.node_mut(1)?.log_lines("node is gone", 1)?;
    expect_link(&nodes, 1, ("gone", "up"))?;
    phones.call()?;
    phones.call()?;
    namespace.run("iptables", "-F INPUT")?;
    nodes.node_mut(0)?.log_lines("store of registrations is used", 2)?;
    expect_link(&nodes, 1, ("up", "up"))?;
    phones.call()?;
    for index in [0, 1] {
        drop(&format!("--dport {}", nodes.link_port(index)?))?;
    }
    for index in [0, 1] {
        // The probe of a link is due within 10 s, and its answer within as many.
        within(Duration::from_secs(40), "the link is down", || expect_link(&nodes, index, ("up", "down")))?;
    }
    let incoming = phones.bob.incoming();
    phones.alice.dial("sip:bob@example.org")?;
    phones.alice.ended_calls(phones.calls + 1).context("the call over a link that is down is not refused")?;
    ensure!(phones.bob.incoming() == incoming, "the call went over a link that is down");
    namespace.run("iptables", "-F INPUT")?;
    for index in [0, 1] {
        within(Duration::from_secs(40), "the link is up", || expect_link(&nodes, index, ("up", "up")))?;
    }
    phones.bob.dial("sip:alice@example.org")?;
    phones.alice.established_calls(phones.calls + 1)?;
    phones.bob.hang_up()?;
    phones.bob.ended_calls(phones.calls + 1)
}

/// Fails unless a node shows the other one with this state, and its link with that.
fn expect_link(nodes: &Nodes, index: usize, (state, link): (&str, &str)) -> Result<()> {
    eventually("the state of the other node", || {
        let shown = nodes.node(index)?.cluster()?;
        let all = shown["nodes"].as_array().context("no nodes")?;
        let other = all.iter().find(|node| node["link"] != "-").context("no other node")?;
        ensure!(other["state"] == state && other["link"] == link, "not {state} and {link}: {other}");
        Ok(())
    })
}

/// The secret of three nodes changes in three steps. Calls that last over a reload are ended, and phones log in at all nodes.
pub(super) fn rotated(stage: &Stage) -> Result<()> {
    let redis = Redis::single(stage)?;
    let callees = users("callee", "caller");
    let all = [two_users(), callees.clone()].concat();
    let mut nodes = Nodes::start(stage, &redis, (Wanted::default(), 3), &all)?;
    let mut phones = Phones::start(stage, &nodes)?;
    let port = free_port()?;
    let (old, new) = ("5e71c9a8".repeat(8), "0b6d42f7".repeat(8));
    for (step, secret) in
        [format!("{old}\n{new}\n"), format!("{new}\n{old}\n"), format!("{new}\n")].iter().enumerate()
    {
        for index in 0..nodes.servers.len() {
            phones.begin()?;
            nodes.change_secret(index, secret)?;
            phones.end().with_context(|| format!("step {step} at node {index}"))?;
            phones.call().with_context(|| format!("after step {step} at node {index}"))?;
            let stage = stage.within(&format!("step-{step}-{index}"))?;
            register(&stage, &callees, port, nodes.node(index)?)?;
        }
    }
    for index in 0..nodes.servers.len() {
        nodes.await_registered(index, &callees)?;
    }
    Ok(())
}
