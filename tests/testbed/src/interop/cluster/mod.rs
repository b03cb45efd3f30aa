//! Several servers that share their registrations in Redis: registered at one, called at another; failures of the store and of nodes.

mod faults;
mod front;
mod nodes;
mod trunk;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

pub(crate) use self::nodes::Shared;
use self::nodes::{Nodes, eventually};
use super::calls::{Play, users};
use super::database::{Database, Engine};
use super::server::{Server, Wanted, await_sip, kamailio};
use super::sipp::{Connections, User, succeeded};
use super::softphone::{Line, Softphone};
use super::{Scenario, Stage, Transport, audio, baresip, linphone, provisioning};
use crate::process::{Process, free_port};
pub(crate) use nodes::Redis;

/// Starts a store.
type StartStore = fn(&Stage) -> Result<Redis>;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let stores: [(&str, StartStore); 3] =
        [("single", Redis::single), ("sentinel", Redis::sentinel), ("cluster", Redis::cluster)];
    let mut all: Vec<_> = stores
        .map(|(name, start)| {
            Scenario::new(format!("cluster/calls/{name}"), move |stage: &Stage| calls(stage, &start(stage)?))
        })
        .into();
    all.push(Scenario::new("cluster/phones", phones));
    all.push(Scenario::new("cluster/moved", moved));
    all.push(Scenario::new("cluster/store-away", store_away));
    all.push(Scenario::new("cluster/store-emptied", store_emptied));
    all.push(Scenario::new("cluster/strict", strict));
    all.push(Scenario::new("cluster/refused", nodes::change));
    all.push(Scenario::new("cluster/name-taken", nodes::name));
    all.push(Scenario::new("cluster/failover", failover));
    all.push(Scenario::new("cluster/node-killed", node_killed));
    all.push(Scenario::new("cluster/drain", drain));
    all.push(Scenario::new("cluster/databases", databases));
    all.push(Scenario::new("cluster/partition", faults::partition));
    all.push(Scenario::new("cluster/rotated", faults::rotated));
    all.push(Scenario::new("cluster/kamailio", behind_kamailio));
    all.push(Scenario::new("operator/trunk-owner", trunk::owner));
    all.extend(front::scenarios());
    all.into_iter().map(|scenario| Scenario { reference: false, ..scenario }).collect()
}

/// Twenty users register at the first of three nodes; twenty others call them through each.
fn calls(stage: &Stage, redis: &Redis) -> Result<()> {
    let (callers, callees) = (users("caller", "callee"), users("callee", "caller"));
    let all = [callers.clone(), callees.clone()].concat();
    let nodes = Nodes::start(stage, redis, (Wanted::default(), 3), &all)?;
    let callee_port = free_port()?;
    register(stage, &callees, callee_port, nodes.node(0)?)?;
    for index in [1, 2, 0] {
        nodes.await_registered(index, &callees)?;
        let stage = stage.within(&format!("through-{index}"))?;
        call(&stage, (&callers, &callees), callee_port, nodes.node(index)?)?;
    }
    Ok(())
}

/// Registers users by SIPp over UDP.
fn register(stage: &Stage, users: &[User], port: u16, server: &Server) -> Result<()> {
    Play { stage, transport: Transport::Udp, digest: true }
        .sipp("register", "register", users, port, Some(server.port))
        .run(stage)
}

/// Calls all of `callees`, who answer at `port`, through a server.
fn call(
    stage: &Stage,
    (callers, callees): (&[User], &[User]),
    callee_port: u16,
    server: &Server,
) -> Result<()> {
    let play = Play { stage, transport: Transport::Udp, digest: true };
    let mut answering = play.sipp("answer", "callee", callees, callee_port, None);
    answering.parts = &["routed"];
    let mut answering = answering.start(stage)?;
    let mut calling = play.sipp("call", "caller", callers, free_port()?, Some(server.port));
    calling.connections = Connections::OnePerCall;
    calling.parts = &["digest", "stateful"];
    calling.run(stage)?;
    succeeded("callee", &mut answering)
}

/// Bob's baresip has a connection to the first node; alice's linphonec calls him through the second one and back, with sound.
fn phones(stage: &Stage) -> Result<()> {
    let redis = Redis::single(stage)?;
    let nodes = Nodes::start(stage, &redis, (Wanted::default(), 2), &two_users())?;
    let (first, second) = (nodes.node(0)?, nodes.node(1)?);
    let mut bob = baresip::Phone::start(stage, Line::at_server("bob", 1000.0, first.port, Transport::Tcp))?;
    bob.registered()?;
    let mut alice =
        linphone::Phone::start(stage, Line::at_server("alice", 440.0, second.port, Transport::Tcp))?;
    alice.registered()?;
    eventually("both users at both nodes", || {
        first.expect_registered(["alice", "bob"].into_iter(), true)?;
        second.expect_registered(["alice", "bob"].into_iter(), true)
    })?;
    alice.dial("sip:bob@example.org")?;
    alice.established()?;
    bob.established()?;
    std::thread::sleep(Duration::from_secs(3));
    // The BYE of the called side comes back over both nodes.
    bob.hang_up()?;
    alice.ended()?;
    bob.dial("sip:alice@example.org")?;
    alice.answer()?;
    bob.established()?;
    std::thread::sleep(Duration::from_secs(1));
    alice.hang_up()?;
    bob.ended()?;
    audio::Recording::read(&alice.recording()?)?.expect_tone(1000.0, 2.0).context("alice")?;
    audio::Recording::read(&bob.recording()?)?.expect_tone(440.0, 2.0).context("bob")
}

/// A phone that registers at another node with the same contact belongs to that one; when it unregisters there, no node has it.
fn moved(stage: &Stage) -> Result<()> {
    let redis = Redis::single(stage)?;
    let (callers, callees) = (users("caller", "callee"), users("callee", "caller"));
    let all = [callers.clone(), callees.clone()].concat();
    let nodes = Nodes::start(stage, &redis, (Wanted::default(), 2), &all)?;
    let port = free_port()?;
    register(&stage.within("first")?, &callees, port, nodes.node(0)?)?;
    nodes.await_registered(1, &callees)?;
    register(&stage.within("second")?, &callees, port, nodes.node(1)?)?;
    eventually("one contact of each user at the first node", || {
        let shown = nodes.node(0)?.registrations()?.unwrap_or_default();
        let contacts = shown.matches("\"node\":\"b\"").count();
        ensure!(contacts == callees.len(), "{contacts} contacts of b: {shown}");
        ensure!(!shown.contains("\"node\":\"a\""), "contacts of a: {shown}");
        Ok(())
    })?;
    call(&stage.within("call")?, (&callers, &callees), port, nodes.node(0)?)
}

/// The store is away: users who are registered are called, REGISTER gets its 200; when it is back, other nodes get what changed.
fn store_away(stage: &Stage) -> Result<()> {
    let mut redis = Redis::single(stage)?;
    let (callers, callees) = (users("caller", "callee"), users("callee", "caller"));
    let late = users("late", "caller");
    let all = [callers.clone(), callees.clone(), late.clone()].concat();
    let mut nodes = Nodes::start(stage, &redis, (Wanted::default(), 2), &all)?;
    let (port, late_port) = (free_port()?, free_port()?);
    register(&stage.within("before")?, &callees, port, nodes.node(0)?)?;
    nodes.await_registered(1, &callees)?;
    redis.kill_first();
    nodes.node_mut(1)?.log_lines("store of registrations cannot be used", 1)?;
    call(&stage.within("away")?, (&callers, &callees), port, nodes.node(1)?)?;
    register(&stage.within("refresh")?, &callees, port, nodes.node(0)?)?;
    register(&stage.within("late")?, &late, late_port, nodes.node(0)?)?;
    redis.start_first_again()?;
    nodes.await_registered(1, &late)?;
    call(&stage.within("back")?, (&callers, &callees), port, nodes.node(1)?)?;
    let said = nodes.node_mut(1)?.log_lines("store of registrations cannot be used", 1)?;
    ensure!(said.len() == 1, "the outage was logged more than once: {said:?}");
    Ok(())
}

/// The store lost its data: nodes write their registrations again, so that a new node has them.
fn store_emptied(stage: &Stage) -> Result<()> {
    let redis = Redis::single(stage)?;
    let callees = users("callee", "caller");
    let mut nodes = Nodes::start(stage, &redis, (Wanted::default(), 2), &callees)?;
    register(stage, &callees, free_port()?, nodes.node(0)?)?;
    nodes.await_registered(1, &callees)?;
    redis.flush()?;
    nodes.node_mut(0)?.log_lines("writes its registrations again", 1)?;
    let second = nodes.node_mut(1)?;
    second.kill();
    second.start_again()?;
    nodes.await_registered(1, &callees)
}

/// With strict durability and no replica REGISTER gets 503.
fn strict(stage: &Stage) -> Result<()> {
    let redis = Redis::single(stage)?;
    let callees = users("callee", "caller");
    let wanted = Wanted { strict: true, ..Wanted::default() };
    let nodes = Nodes::start(stage, &redis, (wanted, 1), &callees)?;
    let register = || register(stage, &callees, free_port()?, nodes.node(0)?);
    ensure!(register().is_err(), "REGISTER got 200 without a replica");
    Ok(())
}

/// The master is lost: a replica takes over, strictly confirmed registrations are at all nodes, and new ones are possible.
fn failover(stage: &Stage) -> Result<()> {
    let mut redis = Redis::sentinel(stage)?;
    let (callees, late) = (users("callee", "caller"), users("late", "caller"));
    let all = [callees.clone(), late.clone()].concat();
    let wanted = Wanted { strict: true, ..Wanted::default() };
    let mut nodes = Nodes::start(stage, &redis, (wanted, 2), &all)?;
    register(&stage.within("before")?, &callees, free_port()?, nodes.node(0)?)?;
    redis.kill_first();
    nodes.node_mut(1)?.log_lines("store of registrations is used", 2)?;
    let second = nodes.node_mut(1)?;
    second.kill();
    second.start_again()?;
    nodes.await_registered(1, &callees)
}

/// A node is killed: phones that only it reached are not called, and are reachable again when they register at another one.
fn node_killed(stage: &Stage) -> Result<()> {
    let redis = Redis::single(stage)?;
    let mut nodes = Nodes::start(stage, &redis, (Wanted::default(), 3), &two_users())?;
    let mut bob =
        baresip::Phone::start(stage, Line::at_server("bob", 1000.0, nodes.node(0)?.port, Transport::Tcp))?;
    bob.registered()?;
    let bobs = [User { name: "bob".to_owned(), password: String::new(), callee: String::new() }];
    nodes.await_registered(2, &bobs)?;
    nodes.node_mut(0)?.kill();
    nodes.node_mut(2)?.log_lines("node is gone", 1)?;
    let mut alice =
        linphone::Phone::start(stage, Line::at_server("alice", 440.0, nodes.node(2)?.port, Transport::Tcp))?;
    alice.registered()?;
    let mut again = baresip::Phone::start(
        &stage.within("again")?,
        Line::at_server("bob", 1000.0, nodes.node(1)?.port, Transport::Tcp),
    )?;
    again.registered()?;
    let begun = Instant::now();
    eventually("bob at the second node", || {
        let shown = nodes.node(2)?.registrations()?.unwrap_or_default();
        ensure!(shown.contains("\"node\":\"b\""), "{shown}");
        Ok(())
    })?;
    println!("    reachable {} ms after the REGISTER", begun.elapsed().as_millis());
    alice.dial("sip:bob@example.org")?;
    alice.established()?;
    again.established()?;
    alice.hang_up()?;
    again.ended()
}

/// A node drains: its phone's connection is closed, the call of the phone goes on, and the phone is called at the other node.
fn drain(stage: &Stage) -> Result<()> {
    let redis = Redis::single(stage)?;
    let mut nodes = Nodes::start(stage, &redis, (Wanted::default(), 2), &two_users())?;
    let (first, second) = (nodes.node(0)?.port, nodes.node(1)?.port);
    let mut bob = baresip::Phone::start(stage, Line::at_server("bob", 1000.0, first, Transport::Tcp))?;
    bob.registered()?;
    let mut alice = linphone::Phone::start(stage, Line::at_server("alice", 440.0, second, Transport::Tcp))?;
    alice.registered()?;
    let has = |nodes: &Nodes, index: usize, node: &str| {
        eventually("bob's contact", || {
            let shown = nodes.node(index)?.registrations()?.unwrap_or_default();
            ensure!(shown.contains(&format!("\"node\":\"{node}\"")), "at {node}: {shown}");
            Ok(())
        })
    };
    has(&nodes, 1, "a")?;
    alice.dial("sip:bob@example.org")?;
    alice.established()?;
    bob.established()?;
    let connections = nodes.node(0)?.counters()?.get("connections_open")?;
    nodes.node(0)?.drain(3)?;
    eventually("the node drains", || {
        let cluster = nodes.node(1)?.cluster()?;
        let states = cluster["nodes"].as_array().context("no nodes")?;
        ensure!(states.iter().any(|node| node["name"] == "a" && node["state"] == "draining"), "{cluster}");
        Ok(())
    })?;
    nodes.node_mut(0)?.log_lines("drain done", 1)?;
    // Its contact has no NAT in front and stays: the other node dials it.
    eventually("the phone's connection is closed", || {
        let open = nodes.node(0)?.counters()?.get("connections_open")?;
        ensure!(open + 1 == connections, "{open} connections of {connections}");
        Ok(())
    })?;
    bob.hang_up()?;
    alice.ended()?;
    bob.kill();
    let mut again = baresip::Phone::start(
        &stage.within("again")?,
        Line::at_server("bob", 1000.0, second, Transport::Tcp),
    )?;
    again.registered()?;
    has(&nodes, 0, "b")?;
    alice.dial("sip:bob@example.org")?;
    alice.established()?;
    again.established()?;
    alice.hang_up()?;
    again.ended()
}

/// Two nodes have their users from PostgreSQL and one from MariaDB: who is added there registers at one node and is called through the
/// others, also after the databases were stopped. Each node writes the registrations of its own phones.
fn databases(stage: &Stage) -> Result<()> {
    let redis = Redis::single(stage)?;
    let [mut postgres, mut mariadb] = [
        Database::start(&stage.within("postgres")?, Engine::PostgreSql)?,
        Database::start(&stage.within("mariadb")?, Engine::MariaDb)?,
    ];
    let store =
        |database: &Database| format!("[store]\nurl = \"{}\"\nwrite_back = true\n\n", database.whole_url());
    let stores = [store(&postgres), store(&postgres), store(&mariadb)];
    let nodes = Nodes::start_with(stage, &redis, (Wanted::default(), &stores), &[])?;
    let (callers, callees) = (users("caller", "callee"), users("callee", "caller"));
    let all = [callers.clone(), callees.clone()].concat();
    for database in [&postgres, &mariadb] {
        database.execute(&provisioning::rows(&all))?;
    }
    for node in &nodes.servers {
        provisioning::expect_subscribers(node, all.len() as u64, Duration::from_secs(5))?;
    }
    let port = free_port()?;
    register(&stage.within("registered")?, &callees, port, nodes.node(0)?)?;
    for index in [1, 2] {
        nodes.await_registered(index, &callees)?;
        let stage = stage.within(&format!("through-{index}"))?;
        call(&stage, (&callers, &callees), port, nodes.node(index)?)?;
    }
    let late_port = free_port()?;
    register(&stage.within("registered-at-c")?, &callers, late_port, nodes.node(2)?)?;
    for (database, wanted) in [(&postgres, "a 20\n"), (&mariadb, "c 20\n")] {
        eventually("rows of each node's own phones", || {
            let found =
                database.read("SELECT concat(node, ' ', count(*)) FROM ringway_location GROUP BY node;")?;
            ensure!(found == wanted, "{found:?} instead of {wanted:?}");
            Ok(())
        })?;
    }
    postgres.kill();
    mariadb.kill();
    call(&stage.within("away")?, (&callers, &callees), port, nodes.node(2)?)?;
    register(&stage.within("refresh")?, &callees, port, nodes.node(1)?)?;
    call(&stage.within("moved")?, (&callers, &callees), port, nodes.node(0)?)
}

/// Kamailio spreads requests over two nodes.
fn behind_kamailio(stage: &Stage) -> Result<()> {
    let redis = Redis::single(stage)?;
    let (callers, callees) = (users("caller", "callee"), users("callee", "caller"));
    let all = [callers.clone(), callees.clone()].concat();
    let wanted = Wanted { auth: "fronts = [\"127.0.0.1\"]", digest: false, ..Wanted::default() };
    let nodes = Nodes::start(stage, &redis, (wanted, 2), &all)?;
    let port = free_port()?;
    let words = [
        ("@PORT@", port.to_string()),
        ("@A@", nodes.node(0)?.port.to_string()),
        ("@B@", nodes.node(1)?.port.to_string()),
        ("@LIST@", stage.path("dispatcher.list").display().to_string()),
    ];
    let config = stage.path("dispatcher.cfg");
    stage.fill("kamailio/dispatcher.cfg", &words, &config)?;
    stage.fill("kamailio/dispatcher.list", &words, &stage.path("dispatcher.list"))?;
    let _kamailio = Process::start("dispatcher", &mut kamailio(&config), &stage.folder)?;
    await_sip(std::net::Ipv4Addr::LOCALHOST, port)?;
    // SIPp's digests name the address that it sends to, which is no server's of ours.
    let play = Play { stage, transport: Transport::Udp, digest: false };
    let callee_port = free_port()?;
    play.sipp("register", "register", &callees, callee_port, Some(port)).run(stage)?;
    for index in [0, 1] {
        nodes.await_registered(index, &callees)?;
    }
    let mut answering = play.sipp("answer", "callee", &callees, callee_port, None);
    answering.parts = &["routed"];
    let mut answering = answering.start(stage)?;
    let mut calling = play.sipp("call", "caller", &callers, free_port()?, Some(port));
    calling.connections = Connections::OnePerCall;
    calling.parts = &["open", "stateful"];
    calling.run(stage)?;
    succeeded("callee", &mut answering)
}

fn two_users() -> Vec<User> {
    ["alice", "bob"].map(user).into()
}

/// User with the password that phones have.
fn user(name: &str) -> User {
    User { name: name.to_owned(), password: format!("secret-{name}"), callee: String::new() }
}
