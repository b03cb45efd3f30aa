//! Ways to spread phones over several nodes: Ringway as a front, DNS, a floating address. Phones have one address or name, and a node is
//! killed.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::nodes::{Nodes, Redis, eventually};
use super::{two_users, user};
use crate::interop::baresip::Phone;
use crate::interop::server::{Server, Wanted};
use crate::interop::sipp::User;
use crate::interop::softphone::{Line, Softphone};
use crate::interop::{Scenario, Stage, Transport, audio, linphone};
use crate::process::{Process, free_port};
use ringway_test_support::namespace::Namespace;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("cluster/front/udp", |stage: &Stage| front(stage, Transport::Udp)),
        Scenario::new("cluster/front/tcp", |stage: &Stage| front(stage, Transport::Tcp)),
        Scenario::new("cluster/front/drain", drained),
        Scenario::new("cluster/front/pair/udp", |stage: &Stage| pair(stage, Ends::Callee)),
        Scenario::new("cluster/front/pair/tcp", |stage: &Stage| pair(stage, Ends::TcpCaller)),
        Scenario::new("cluster/front/floating-pair", floating_pair),
        Scenario::new("cluster/srv", srv),
        Scenario::new("cluster/keepalived", keepalived),
    ]
}

/// Bob's baresip and alice's linphonec have a Ringway before two nodes for their server. The node of their call is killed under it: the
/// call goes on, ends, and the next one is possible.
fn front(stage: &Stage, transport: Transport) -> Result<()> {
    let redis = Redis::single(stage)?;
    // The nodes are not in the path of requests inside a call: it needs the front only.
    let (mut nodes, wanted) = nodes_behind(stage, &redis, ("record_route = false", ""), transport)?;
    let mut front = start_front(&stage.within("front")?, wanted)?;
    let (mut bob, mut alice) = call_over_front(stage, &front, &nodes, transport)?;
    let calls = |node: &Server| node.counters()?.get("requests_invite");
    let index = if calls(nodes.node(0)?)? > 0 { 0 } else { 1 };
    ensure!(calls(nodes.node(1 - index)?)? == 0, "the call went over both nodes");
    nodes.node_mut(index)?.kill();
    std::thread::sleep(Duration::from_secs(3));
    bob.hang_up()?;
    alice.ended()?;
    let begun = Instant::now();
    alice.dial("sip:bob@example.org")?;
    bob.established_calls(2).context("after the loss of a node")?;
    println!("    the next call was answered after {} ms", begun.elapsed().as_millis());
    alice.hang_up()?;
    bob.ended_calls(2)?;
    front.log_lines("node is down", 1)?;
    // A node that comes back is used again.
    nodes.node_mut(index)?.start_again()?;
    front.log_lines("node is up", 3)?;
    nodes.await_links()?;
    bob.dial("sip:alice@example.org")?;
    alice.answer()?;
    bob.established_calls(3)?;
    bob.hang_up()?;
    alice.ended()?;
    audio::Recording::read(&bob.recording()?)?.expect_tone(440.0, 2.0).context("bob")
}

/// Starts two nodes behind a front with these lines of `[routing]` and further sections; returns the settings of the front, which reaches
/// them by `transport`.
fn nodes_behind(
    stage: &Stage,
    redis: &Redis,
    (routing, sections): (&'static str, &str),
    transport: Transport,
) -> Result<(Nodes, Wanted)> {
    let wanted = Wanted { host: NODE, auth: "fronts = [\"127.0.0.1\"]", routing, ..Wanted::default() };
    let stores = [sections.to_owned(), sections.to_owned()];
    let nodes = Nodes::start_with(stage, redis, (wanted, &stores), &three_users())?;
    let wanted = front_of(&nodes, NODE, transport);
    Ok((nodes, wanted))
}

/// Settings of a front before these nodes, which it reaches at `host` by `transport`.
fn front_of(nodes: &Nodes, host: Ipv4Addr, transport: Transport) -> Wanted {
    let uris: Vec<String> = nodes
        .servers
        .iter()
        .map(|node| format!("\"sip:{host}:{};transport={}\"", node.port, transport.name()))
        .collect();
    let routing = format!("edge_domains = [\"example.org\"]\nedge_nodes = [{}]", uris.join(", "));
    Wanted {
        domain: "front.example.org",
        auth: format!("trusted = [\"{host}\"]").leak(),
        // It has the ports of the nodes, which the program chose.
        routing: routing.leak(),
        ..Wanted::default()
    }
}

fn three_users() -> Vec<User> {
    ["alice", "bob", "carol"].map(user).into()
}

/// Starts a front, and waits until it has found both nodes.
fn start_front(stage: &Stage, wanted: Wanted) -> Result<Server> {
    let mut front = Server::start(stage, wanted, &[])?;
    front.log_lines("node is up", 2)?;
    Ok(front)
}

/// Alice calls bob over the front, when both are registered at both nodes.
fn call_over_front(
    stage: &Stage,
    front: &Server,
    nodes: &Nodes,
    transport: Transport,
) -> Result<(Phone, linphone::Phone)> {
    let mut bob = Phone::start(stage, Line::at_server("bob", 1000.0, front.port, transport))?;
    bob.registered()?;
    let mut alice =
        linphone::Phone::start(stage, Line::at_server("alice", 440.0, front.port, Transport::Tcp))?;
    alice.registered()?;
    eventually("both users at both nodes", || {
        nodes.servers.iter().try_for_each(|node| node.expect_registered(["alice", "bob"].into_iter(), true))
    })?;
    alice.dial("sip:bob@example.org")?;
    alice.established()?;
    bob.established()?;
    Ok((bob, alice))
}

/// The node of bob's calls drains under one of them: a new registration and a new call go to the other node at once, the call ends by a BYE,
/// and the node has no calls then. It gets the next one after the end of the drain.
fn drained(stage: &Stage) -> Result<()> {
    let redis = Redis::single(stage)?;
    // The nodes list answered calls, and are in the way of the BYE.
    // Over TCP their addresses are not those that they listen at, on one machine.
    let (nodes, wanted) = nodes_behind(stage, &redis, ("", "[records]\nenabled = true\n\n"), Transport::Udp)?;
    let front = start_front(&stage.within("front")?, wanted)?;
    let (mut bob, mut alice) = call_over_front(stage, &front, &nodes, Transport::Udp)?;
    let index = if nodes.node(0)?.calls()? > 0 { 0 } else { 1 };
    let (draining, other) = (nodes.node(index)?, nodes.node(1 - index)?);
    ensure!((draining.calls()?, other.calls()?) == (1, 0), "the call is not at one node");
    let invites = |node: &Server| node.counters()?.get("requests_invite");
    let registers = |node: &Server| node.counters()?.get("registered");
    draining.drain(0)?;
    let before = (invites(other)?, front.counters()?.get("trunk_failovers")?);
    let mut carol =
        Phone::start(&stage.within("carol")?, Line::at_server("carol", 700.0, front.port, Transport::Tcp))?;
    carol.registered()?;
    // Bob's first node is the one that drains. His phone takes one call at a time.
    carol.dial("sip:bob@example.org")?;
    eventually("the new call at the phone", || {
        let calls = bob.trace()?.matches("INVITE sip:bob-").count();
        ensure!(calls == 2, "{calls} calls");
        Ok(())
    })?;
    ensure!(invites(other)? > before.0, "the new call did not go over the other node");
    ensure!(front.counters()?.get("trunk_failovers")? > before.1, "the node that drains was not asked");
    ensure!(draining.calls()? == 1, "the running call is gone");
    bob.hang_up()?;
    alice.ended()?;
    eventually("no call at the node that drains", || {
        let calls = draining.calls()?;
        ensure!(calls == 0, "{calls} calls");
        Ok(())
    })?;
    let begun = Instant::now();
    carol.dial("sip:bob@example.org")?;
    bob.established_calls(2).context("a new call to a user of the node that drains")?;
    println!("    the new call was answered after {} ms", begun.elapsed().as_millis());
    carol.hang_up()?;
    bob.ended_calls(2)?;
    bob.kill();
    let before = registers(other)?;
    let mut again =
        Phone::start(&stage.within("again")?, Line::at_server("bob", 1000.0, front.port, Transport::Udp))?;
    again.registered()?;
    ensure!(registers(other)? > before, "bob is not registered at the other node");
    draining.cancel_drain()?;
    let before = invites(draining)?;
    alice.dial("sip:bob@example.org")?;
    again.established().context("after the end of the drain")?;
    ensure!(invites(draining)? > before, "the node is not used again");
    again.hang_up()?;
    alice.ended()
}

/// Side that ends a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// Bob; alice has UDP as he does.
    Callee,
    /// Alice, who has TCP: only her new connection leads to her.
    TcpCaller,
}

impl Ends {
    /// Transport of alice.
    const fn transport(self) -> Transport {
        match self {
            Self::Callee => Transport::Udp,
            Self::TcpCaller => Transport::Tcp,
        }
    }
}

/// The front is killed, and another one with a copy of its database starts at its address.
fn pair(stage: &Stage, ends: Ends) -> Result<()> {
    let redis = Redis::single(stage)?;
    let (nodes, wanted) = nodes_behind(stage, &redis, ("record_route = false", ""), Transport::Tcp)?;
    let mut first = start_front(&stage.within("first")?, wanted)?;
    let copy = stage.within("second")?;
    first.back_up(&copy.path("ringway.db"))?;
    let port = first.port;
    let line = |user, tone_hz, transport| Line {
        seconds: TONE_S,
        ..Line::at_server(user, tone_hz, port, transport)
    };
    let mut alice = linphone::Phone::start(stage, line("alice", 440.0, ends.transport()))?;
    alice.registered()?;
    outlives_front(stage, (&nodes, &mut alice, ends), line, || {
        first.kill();
        start_front(&copy, Wanted { port: Some(port), ..wanted })
    })
}

/// Two machines with keepalived and a front each, which run all the time: the one that has the floating address is killed.
fn floating_pair(stage: &Stage) -> Result<()> {
    let Some(network) = Network::make(3)? else { return Ok(()) };
    let [one, two, of_nodes] = network.machines.as_slice() else { return Ok(()) };
    let of_nodes = stage.inside(of_nodes);
    let redis = Redis::single(&of_nodes)?;
    // A front reaches nodes over TCP from its machine's own address.
    let fronts = "fronts = [\"192.0.2.100\", \"192.0.2.1\", \"192.0.2.2\"]";
    let wanted = Wanted {
        host: Ipv4Addr::new(192, 0, 2, 3),
        auth: fronts,
        routing: "record_route = false",
        ..Wanted::default()
    };
    let nodes =
        Nodes::start_with(&of_nodes, &redis, (wanted, &[String::new(), String::new()]), &three_users())?;
    let (host, port) = (wanted.host, free_port()?);
    let wanted =
        Wanted { host: FLOATING, port: Some(port), ipv6: true, ..front_of(&nodes, host, Transport::Tcp) };
    let mut first = Server::start(&stage.within("first")?.inside(one), wanted, &[])?;
    let copy = stage.within("second")?.inside(two);
    first.back_up(&copy.path("ringway.db"))?;
    let mut second = Server::start(&copy, wanted, &[])?;
    let daemons = [
        start_keepalived(&stage.within("first")?.inside(one), port, 100)?,
        start_keepalived(&copy, port, 90)?,
    ];
    daemons[0].wait_for_output("Entering MASTER STATE")?;
    first.log_lines("node is up", 2)?;
    second.log_lines("node is up", 2)?;
    let public = stage.inside(&network.public);
    let line = |user, tone_hz, transport| Line {
        host: PHONE,
        server_host: FLOATING,
        seconds: TONE_S,
        ..Line::at_server(user, tone_hz, port, transport)
    };
    let mut alice = Phone::start(&public, line("alice", 440.0, Transport::Udp))?;
    alice.registered()?;
    outlives_front(&public, (&nodes, &mut alice, Ends::Callee), line, || {
        first.kill();
        daemons[1].wait_for_output("Entering MASTER STATE")?;
        Ok(second)
    })
}

/// Another front comes at the address of the one under a call: the call ends, a UDP phone is called by the Path of the first front, and a TCP
/// phone that registers again is called too.
fn outlives_front<'l>(
    stage: &Stage,
    (nodes, alice, ends): (&Nodes, &mut dyn Softphone, Ends),
    line: impl Fn(&'l str, f64, Transport) -> Line<'l>,
    take_over: impl FnOnce() -> Result<Server>,
) -> Result<()> {
    let mut bob = Phone::start(stage, line("bob", 1000.0, Transport::Udp))?;
    bob.registered()?;
    let line_of_carol = || line("carol", 700.0, Transport::Tcp);
    let mut earlier = Phone::start(&stage.within("earlier")?, line_of_carol())?;
    earlier.registered()?;
    eventually("all users at both nodes", || {
        let users = || ["alice", "bob", "carol"].into_iter();
        nodes.servers.iter().try_for_each(|node| node.expect_registered(users(), true))
    })?;
    alice.dial("sip:bob@example.org")?;
    alice.established()?;
    bob.established()?;
    let begun = Instant::now();
    let _second = take_over()?;
    println!("    the other front is there after {} ms", begun.elapsed().as_millis());
    match ends {
        Ends::Callee => {
            bob.hang_up()?;
            alice.ended().context("the BYE of the called phone")?;
        }
        Ends::TcpCaller => {
            alice.hang_up()?;
            bob.ended().context("the BYE of the caller")?;
        }
    }
    println!("    the call has ended after {} ms", begun.elapsed().as_millis());
    earlier.kill();
    let mut carol = Phone::start(&stage.within("carol")?, line_of_carol())?;
    carol.registered()?;
    carol.dial("sip:bob@example.org")?;
    bob.established_calls(2).context("by the Path of the first front")?;
    carol.hang_up()?;
    bob.ended_calls(2)?;
    let registered = bob.trace()?.matches("registered successfully").count();
    ensure!(registered == 1, "bob has registered {registered} times");
    // The connection of her earlier registration ended with the first front.
    bob.dial("sip:carol@example.org")?;
    carol.established_calls(2).context("to the TCP phone that has registered again")?;
    bob.hang_up()?;
    carol.ended_calls(2)
}

/// Duration of tones: the end of one ends the call, which must not look like a BYE that arrived.
const TONE_S: u32 = 120;

/// Address of the nodes: a front has another one than they.
const NODE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// dnsmasq has SRV records of two nodes for the domain. Bob's baresip registers at the first, and at the second one after the first is
/// killed.
fn srv(stage: &Stage) -> Result<()> {
    let redis = Redis::single(stage)?;
    let mut nodes = Nodes::start(stage, &redis, (Wanted::default(), 2), &two_users())?;
    let dns_port = free_port()?;
    let mut dnsmasq = Command::new("dnsmasq");
    dnsmasq.args(["--keep-in-foreground", "--no-resolv", "--no-hosts", "--log-facility=-", "--log-queries"]);
    dnsmasq.args(["--conf-file=/dev/null", "--user=", "--group=", "--pid-file="]);
    dnsmasq.args(["--listen-address=127.0.0.1", "--bind-interfaces", &format!("--port={dns_port}")]);
    for (index, (host, priority)) in [("a", 10), ("b", 20)].into_iter().enumerate() {
        let port = nodes.node(index)?.port;
        dnsmasq.arg(format!("--srv-host=_sip._tcp.example.org,{host}.example.org,{port},{priority},50"));
        dnsmasq.arg(format!("--host-record={host}.example.org,127.0.0.1"));
    }
    let dns = Process::start("dnsmasq", &mut dnsmasq, &stage.folder)?;
    dns.wait_for_output("started")?;
    // The port is not used: the records have it.
    let line = |user, tone_hz| Line::at_server(user, tone_hz, 5060, Transport::Tcp);
    let mut bob = Phone::start_by_name(stage, line("bob", 1000.0), dns_port)?;
    bob.registered()?;
    let at = |nodes: &Nodes, node: &str| {
        eventually("bob's contact", || {
            let shown = nodes.node(1)?.registrations()?.unwrap_or_default();
            ensure!(shown.contains(&format!("\"node\":\"{node}\"")), "at {node}: {shown}");
            Ok(())
        })
    };
    at(&nodes, "a")?;
    bob.kill();
    nodes.node_mut(0)?.kill();
    let mut again = Phone::start_by_name(&stage.within("again")?, line("bob", 1000.0), dns_port)?;
    again.registered()?;
    let mut alice = Phone::start_by_name(&stage.within("alice")?, line("alice", 440.0), dns_port)?;
    alice.registered()?;
    alice.dial("sip:bob@example.org")?;
    alice.established()?;
    again.established()?;
    alice.hang_up()?;
    again.ended()
}

/// Two machines with keepalived, as namespaces, and a phone: the Ringway that has the floating address is killed, and the phone registers
/// at the same address again.
fn keepalived(stage: &Stage) -> Result<()> {
    let Some(network) = Network::make(2)? else { return Ok(()) };
    let port = free_port()?;
    let wanted = Wanted { host: FLOATING, port: Some(port), ipv6: true, ..Wanted::default() };
    let accounts: Vec<_> = two_users().into_iter().map(|user| (user.name, user.password)).collect();
    let mut servers = Vec::new();
    let mut daemons = Vec::new();
    for (name, namespace, priority) in [("a", &network.machines[0], 100), ("b", &network.machines[1], 90)] {
        let stage = stage.within(name)?.inside(namespace);
        servers.push(Server::start(&stage, wanted, &accounts)?);
        daemons.push(start_keepalived(&stage, port, priority)?);
    }
    let public = stage.inside(&network.public);
    let line = || Line {
        host: PHONE,
        server_host: FLOATING,
        ..Line::at_server("bob", 1000.0, port, Transport::Udp)
    };
    let [first, second] = daemons.as_mut_slice() else { return Ok(()) };
    first.wait_for_output("Entering MASTER STATE")?;
    let mut bob = Phone::start(&public, line())?;
    bob.registered()?;
    let has_bob = |server: &Server| server.expect_registered(["bob"].into_iter(), true);
    has_bob(&servers[0])?;
    bob.kill();
    let begun = Instant::now();
    servers[0].kill();
    second.wait_for_output("Entering MASTER STATE")?;
    println!("    the other machine has the address after {} ms", begun.elapsed().as_millis());
    let mut again = Phone::start(&public.within("again")?, line())?;
    again.registered()?;
    println!("    the phone is registered again after {} ms", begun.elapsed().as_millis());
    has_bob(&servers[1])?;
    let took = begun.elapsed();
    ensure!(took < Duration::from_secs(15), "the address was away for {} s", took.as_secs());
    // The first machine has the address again when its Ringway answers.
    servers[0].start_again()?;
    first.wait_until("the address is back", |output| output.matches("Entering MASTER STATE").count() == 2)
}

fn start_keepalived(stage: &Stage, port: u16, priority: u8) -> Result<Process> {
    let program = stage.ringway.program().context("only the program has `options`")?;
    let words = [
        ("@USER@", "root".to_owned()),
        ("@RINGWAY@", program.display().to_string()),
        ("@OWN@", format!("[::1]:{port}")),
        ("@INTERFACE@", "uplink".to_owned()),
        ("@PRIORITY@", priority.to_string()),
        ("@ADDRESS@", FLOATING.to_string()),
    ];
    let config = stage.path("keepalived.conf");
    stage.fill("keepalived/keepalived.conf", &words, &config)?;
    let mut command = stage.command("keepalived");
    command.args(["--dont-fork", "--log-console", "--log-detail", "--vrrp", "--use-file"]).arg(&config);
    command.arg("--pid").arg(stage.path("keepalived.pid"));
    command.arg("--vrrp_pid").arg(stage.path("vrrp.pid"));
    Process::start("keepalived", &mut command, &stage.folder)
}

/// Floating address.
const FLOATING: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 100);
/// Address of the phone.
const PHONE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 50);

/// Network with a phone and machines, which is removed when this value is dropped.
struct Network {
    machines: Vec<Namespace>,
    public: Namespace,
}

impl Network {
    /// Makes it; `None`: this user may not.
    fn make(machines: u8) -> Result<Option<Self>> {
        let Some(public) = Namespace::with_bridge("public", PHONE)? else { return Ok(None) };
        let machines =
            (1..=machines).map(|number| machine(&public, number)).collect::<Result<Option<_>>>()?;
        Ok(machines.map(|machines| Self { machines, public }))
    }
}

fn machine(public: &Namespace, number: u8) -> Result<Option<Namespace>> {
    let Some(machine) = Namespace::create("machine")? else { return Ok(None) };
    machine.join(public, "uplink", Ipv4Addr::new(192, 0, 2, number))?;
    // Ringway listens at the floating address also while another machine has it.
    machine.run("sysctl", "-q -w net.ipv4.ip_nonlocal_bind=1")?;
    Ok(Some(machine))
}
