//! Ways to spread phones over several nodes: Ringway as a front, DNS, a floating address. Phones have one address or name, and a node is
//! killed.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::nodes::{Nodes, eventually};
use super::redis::Redis;
use super::two_users;
use crate::interop::baresip::Phone;
use crate::interop::namespace::Namespace;
use crate::interop::process::{Running, free_port};
use crate::interop::server::{Server, Wanted};
use crate::interop::softphone::{Line, Softphone};
use crate::interop::{Scenario, Stage, Transport, audio, linphone};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("cluster/front/udp", |stage: &Stage| front(stage, Transport::Udp)),
        Scenario::new("cluster/front/tcp", |stage: &Stage| front(stage, Transport::Tcp)),
        Scenario::new("cluster/srv", srv),
        Scenario::new("cluster/keepalived", keepalived),
    ]
}

/// Bob's baresip and alice's linphonec have a Ringway before two nodes for their server. The node of their call is killed under it: the
/// call goes on, ends, and the next one is possible.
fn front(stage: &Stage, transport: Transport) -> Result<()> {
    let redis = Redis::single(stage)?;
    // The nodes are not in the path of requests inside a call: it needs the front only.
    let wanted = Wanted {
        host: NODE,
        auth: "fronts = [\"127.0.0.1\"]",
        routing: "record_route = false",
        ..Wanted::default()
    };
    let mut nodes = Nodes::start(stage, &redis, (wanted, 2), &two_users())?;
    let uris: Vec<String> = nodes
        .servers
        .iter()
        .map(|node| format!("\"sip:{NODE}:{};transport={}\"", node.port, transport.name()))
        .collect();
    let routing = format!("edge_domains = [\"example.org\"]\nedge_nodes = [{}]", uris.join(", "));
    let wanted = Wanted {
        domain: "front.example.org",
        auth: "trusted = [\"127.0.0.2\"]",
        // It has the ports of the nodes, which the program chose.
        routing: routing.leak(),
        ..Wanted::default()
    };
    let mut front = Server::start(&stage.within("front")?, wanted, &[])?;
    front.log_lines("node is up", 2)?;
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
    let mut dns = Running::start("dnsmasq", &mut dnsmasq, &stage.folder)?;
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
    let Some(network) = Network::make()? else { return Ok(()) };
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

fn start_keepalived(stage: &Stage, port: u16, priority: u8) -> Result<Running> {
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
    Running::start("keepalived", &mut command, &stage.folder)
}

/// Floating address.
const FLOATING: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 100);
/// Address of the phone.
const PHONE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 50);

/// Network with a phone and two machines, which is removed when this value is dropped.
struct Network {
    machines: [Namespace; 2],
    public: Namespace,
}

impl Network {
    /// Makes it; `None`: this user may not.
    fn make() -> Result<Option<Self>> {
        let Some(public) = Namespace::with_bridge("public", PHONE)? else { return Ok(None) };
        let (Some(one), Some(two)) = (machine(&public, 1)?, machine(&public, 2)?) else { return Ok(None) };
        Ok(Some(Self { machines: [one, two], public }))
    }
}

fn machine(public: &Namespace, number: u8) -> Result<Option<Namespace>> {
    let Some(machine) = Namespace::create("machine")? else { return Ok(None) };
    machine.join(public, "uplink", Ipv4Addr::new(192, 0, 2, number))?;
    // Ringway listens at the floating address also while another machine has it.
    machine.run("sysctl", "-q -w net.ipv4.ip_nonlocal_bind=1")?;
    Ok(Some(machine))
}
