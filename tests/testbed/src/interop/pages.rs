//! `cargo xtask interop --only operator/page`: the configurations of the page on public addresses as they are there, Ringway's and rtpengine's,
//! in networks with the addresses of the page.
//!
//! ```text
//!   home router, cloud:  alice ─┬─ router 203.0.113.1 ── bob 203.0.113.50      two networks:  alice 10.0.0.20 ── server ── bob 192.168.7.50
//!                       server ─┘  forwards the ports of the page                                        no way between both but the server
//! ```

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ringway_test_support::namespace::Namespace;
use ringway_test_support::process::run_to_end;
use ringway_test_support::rtpengine::Rtpengine;
use xtask::workspace::root;

use super::audio::Recording;
use super::baresip::Phone;
use super::certificates::CA_FILE;
use super::server::{Server, Wanted};
use super::softphone::{Keys, Line, Softphone};
use super::{Scenario, Stage, Transport};
use crate::process::Process;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario = |name: &str, body: fn(&Stage) -> Result<()>| Scenario {
        reference: false,
        ..Scenario::new(format!("operator/page/{name}"), body)
    };
    vec![
        scenario("two-networks", two_networks),
        scenario("home-router", home_router),
        scenario("cloud", cloud),
    ]
}

/// Two phones in networks that do not reach each other call both ways, and change the call both ways.
fn two_networks(stage: &Stage) -> Result<()> {
    let Some(private) = Namespace::with_bridge("priv", ALICE_PRIVATE)? else { return Ok(()) };
    let Some(public) = Namespace::with_bridge("pub", BOB_PUBLIC)? else { return Ok(()) };
    let Some(between) = Namespace::create("server")? else { return Ok(()) };
    between.join(&private, "priv", SERVER_PRIVATE)?;
    between.join(&public, "pub", SERVER_PUBLIC)?;
    let page = Page::read("Two networks")?;
    let (_server, relay) = page.serve(&stage.inside(&between), SERVER_PRIVATE)?;
    let mut alice = Phone::start(
        &stage.inside(&private),
        line("alice", (ALICE_PRIVATE, SERVER_PRIVATE), (SIP, Transport::Udp), ALICE_HZ),
    )?;
    let mut bob = Phone::start(
        &stage.inside(&public),
        line("bob", (BOB_PUBLIC, SERVER_PUBLIC), (SIP, Transport::Udp), BOB_HZ),
    )?;
    alice.registered()?;
    bob.registered()?;
    for call in 1..=2 {
        let (caller, callee, called) = match call {
            1 => (&mut alice, &mut bob, "bob"),
            _ => (&mut bob, &mut alice, "alice"),
        };
        caller.dial(&format!("sip:{called}@example.org"))?;
        callee.established_calls(call).context("who was called")?;
        caller.established_calls(call)?;
        for phone in [&mut *caller, &mut *callee] {
            std::thread::sleep(TALK / 3);
            phone.hold()?;
            std::thread::sleep(Duration::from_millis(300));
            phone.resume()?;
        }
        std::thread::sleep(TALK / 3);
        callee.hang_up()?;
        caller.ended_calls(call).context("the BYE to the caller")?;
    }
    expect_sound(&mut alice, &mut bob)?;
    for (phone, own, other) in
        [(&alice, SERVER_PRIVATE, SERVER_PUBLIC), (&bob, SERVER_PUBLIC, SERVER_PRIVATE)]
    {
        let trace = phone.trace()?;
        ensure!(trace.contains(&format!("c=IN IP4 {own}")), "a phone got no media address {own}");
        ensure!(!trace.contains(&format!("c=IN IP4 {other}")), "a phone got the media address {other}");
    }
    relay.expect_no_calls()
}

/// A phone behind the router and one outside, over TLS. The router brings nothing back to its own network.
fn home_router(stage: &Stage) -> Result<()> {
    let forwards = ["-p tcp --dport 5061", "-p udp --dport 30000:30999"];
    behind_router(stage, "Home router", HOME, &forwards)
}

/// The same in a cloud, which passes all ports on.
fn cloud(stage: &Stage) -> Result<()> {
    behind_router(stage, "Cloud server", SERVER_PRIVATE, &[""])
}

/// Calls both ways between two phones outside, or one inside and one outside, through a router that forwards these packets.
fn behind_router(stage: &Stage, heading: &str, server_ip: Ipv4Addr, forwards: &[&str]) -> Result<()> {
    let [a, b, c, _] = server_ip.octets();
    let (gateway, inside_ip) = (Ipv4Addr::new(a, b, c, 1), Ipv4Addr::new(a, b, c, 20));
    let Some(router) = Namespace::with_bridge("router", gateway)? else { return Ok(()) };
    let Some(outside) = Namespace::with_bridge("outside", BOB_OUTSIDE)? else { return Ok(()) };
    let (Some(host), Some(inside)) = (Namespace::create("server")?, Namespace::create("inside")?) else {
        return Ok(());
    };
    router.join(&outside, "wan", ADVERTISED)?;
    for (namespace, address) in [(&host, server_ip), (&inside, inside_ip)] {
        namespace.join(&router, "lan", address)?;
        namespace.ip(&format!("route add default via {gateway}"))?;
    }
    router.run("sysctl", "-q -w net.ipv4.ip_forward=1")?;
    router.run("iptables", "-t nat -A POSTROUTING -o wan -j MASQUERADE")?;
    for packets in forwards {
        let rule = format!("-t nat -A PREROUTING -i wan {packets} -j DNAT --to-destination {server_ip}");
        router.run("iptables", &rule.replace("  ", " "))?;
    }
    let page = Page::read(heading)?;
    let at = stage.inside(&host);
    certificate(&at, if server_ip == HOME { HOME } else { ADVERTISED })?;
    let (_server, relay) = page.serve(&at, server_ip)?;
    let is_cloud = server_ip != HOME;
    // In the cloud all phones are outside.
    let (place, proxy) = if is_cloud { (&outside, ADVERTISED) } else { (&inside, server_ip) };
    let own = if is_cloud { BOB_OUTSIDE } else { inside_ip };
    let mut alice =
        Phone::start(&stage.inside(place), line("alice", (own, proxy), (SIP, Transport::Udp), ALICE_HZ))?;
    let at_bob = stage.inside(&outside);
    let _names = names(&at_bob)?;
    let bob = line("bob", (BOB_OUTSIDE, ADVERTISED), (SIP + 1, Transport::Tls), BOB_HZ);
    let host = if is_cloud { ADVERTISED.to_string() } else { NAME.to_owned() };
    let proxy = format!("sip:{host}:{};transport=tls", SIP + 1);
    let mut bob = Phone::start_through(&at_bob, bob, &proxy, DNS)?;
    alice.registered()?;
    bob.registered().context("bob, over TLS by the router")?;
    bob.dial("sip:alice@example.org")?;
    alice.established().context("alice, who was called")?;
    bob.established()?;
    std::thread::sleep(TALK);
    alice.hang_up()?;
    bob.ended().context("the BYE to the outside")?;
    alice.dial("sip:bob@example.org")?;
    bob.established_calls(2).context("bob, who was called")?;
    alice.established_calls(2)?;
    std::thread::sleep(TALK);
    bob.hang_up()?;
    alice.ended_calls(2).context("the BYE from the outside")?;
    expect_sound(&mut alice, &mut bob)?;
    relay.expect_no_calls()
}

/// Configurations in a section of the page.
struct Page {
    /// `ringway.toml`.
    configuration: String,
    /// Lines of `rtpengine.conf`.
    relay: String,
}

impl Page {
    fn read(heading: &str) -> Result<Self> {
        let document = std::fs::read_to_string(root().join("docs/recipes/public-address.md"))?;
        let section = |heading: &str| {
            let rest = document.split(&format!("\n## {heading}\n")).nth(1);
            rest.and_then(|rest| rest.split("\n## ").next()).map(str::to_owned).context("no such section")
        };
        let block = |section: &str, language: &str| {
            let rest = section.split(&format!("\n```{language}\n")).nth(1);
            let block = rest.and_then(|rest| rest.split("\n```").next()).map(str::to_owned);
            block.with_context(|| format!("{heading} has no block of {language}"))
        };
        let own = section(heading)?;
        // "The other lines" are those of the home router.
        let all = block(&section("Home router")?, "ini")?;
        let own_lines = block(&own, "ini")?;
        let is_interface = |line: &&str| line.starts_with("interface");
        let relay: Vec<&str> = own_lines
            .lines()
            .filter(is_interface)
            .chain(all.lines().filter(|line| !is_interface(line)))
            .collect();
        Ok(Self { configuration: block(&own, "toml")?, relay: relay.join("\n") })
    }

    /// Starts rtpengine and the server, with the users alice and bob.
    fn serve(&self, at: &Stage, host: Ipv4Addr) -> Result<(Server, Rtpengine)> {
        let relay = Rtpengine::start_from(&at.site(), CONTROL, &self.relay)?;
        let wanted = Wanted { host, port: Some(SIP), ..Wanted::default() };
        let users = ["alice", "bob"].map(|name| (name.to_owned(), format!("secret-{name}")));
        let mut server = Server::start_among(at, (wanted, ""), &users)?;
        server.kill();
        std::fs::write(server.config(), &self.configuration)?;
        server.start_again()?;
        Ok((server, relay))
    }
}

/// The command of the page for its certificate, in the cloud with the public address.
fn certificate(at: &Stage, address: Ipv4Addr) -> Result<()> {
    let program = at.ringway.program().context("only Ringway's program can run this scenario")?;
    let mut command = std::process::Command::new(program);
    command.current_dir(&at.folder).args(["cert", "init", "--domain", NAME, "--address"]);
    command.arg(address.to_string());
    run_to_end(&mut command, "")?;
    std::fs::copy(at.path("tls/ca.pem"), at.path(CA_FILE)).map(drop).context("no ca.pem of `cert init`")
}

/// A DNS server on loopback for the name of the page.
fn names(at: &Stage) -> Result<Process> {
    let mut command = at.command("dnsmasq");
    command.args([
        "--no-daemon",
        "--no-resolv",
        "--no-hosts",
        "--listen-address=127.0.0.1",
        "--bind-interfaces",
    ]);
    command.arg(format!("--port={DNS}")).arg(format!("--address=/{NAME}/{ADVERTISED}"));
    let running = Process::start("dnsmasq", &mut command, &at.folder)?;
    running.wait_for_output("started")?;
    Ok(running)
}

/// Fails unless each phone heard the other one in both calls.
fn expect_sound(alice: &mut Phone, bob: &mut Phone) -> Result<()> {
    // baresip writes what it received until its BYE is answered.
    std::thread::sleep(BYE_TIME);
    for (phone, name, tone) in [(alice, "alice", BOB_HZ), (bob, "bob", ALICE_HZ)] {
        let recording = phone.recording()?;
        heard(&recording, tone).context(name)?;
    }
    Ok(())
}

fn heard(recording: &Path, tone: f64) -> Result<()> {
    Recording::read(recording)?.expect_tone(tone, TALK.as_secs_f64())
}

/// Settings of a phone at an address, for the server at another one.
fn line(
    user: &'static str,
    (host, server_host): (Ipv4Addr, Ipv4Addr),
    (port, transport): (u16, Transport),
    tone_hz: f64,
) -> Line<'static> {
    let (server, keys, seconds) = (Some(port), Keys::None, 60);
    Line { user, host, server_host, server, transport, keys, tone_hz, seconds }
}

const SERVER_PRIVATE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 5);
const ALICE_PRIVATE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 20);
const SERVER_PUBLIC: Ipv4Addr = Ipv4Addr::new(192, 168, 7, 5);
const BOB_PUBLIC: Ipv4Addr = Ipv4Addr::new(192, 168, 7, 50);
const HOME: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 10);
const ADVERTISED: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const BOB_OUTSIDE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 50);
/// Name of the home server.
const NAME: &str = "sip.example.org";
const DNS: u16 = 5353;
const SIP: u16 = 5060;
/// Control port of the page, in a namespace of its own.
const CONTROL: u16 = 2223;
const ALICE_HZ: f64 = 440.0;
const BOB_HZ: f64 = 1000.0;
const TALK: Duration = Duration::from_secs(3);
const BYE_TIME: Duration = Duration::from_secs(1);
