//! `cargo xtask interop --only operator/`: a server behind a router that forwards ports, and in a cloud with a public address that its
//! machine does not have, with phones outside (decision 0056); and behind HAProxy, which says whose connections it passes on (decision 0058).
//!
//! ```text
//!   alice 192.168.77.20 ─┐                                      ┌─ bob 203.0.113.50 (baresip)
//!   server 192.168.77.10 ┴─ 192.168.77.1 router 203.0.113.1 ────┘   forwards the port of SIP and those of rtpengine
//! ```

use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ringway_test_support::eventually::retry;
use ringway_test_support::namespace::{self, Namespace};
use ringway_test_support::rtpengine::Rtpengine;
use xtask::workspace::root;

use super::audio::Recording;
use super::certificates::{Authority, Certificate};
use super::server::{Server, Wanted};
use super::softphone::{Keys, Line, Softphone};
use super::{Scenario, Stage, Transport, baresip};
use crate::process::{PATIENCE, Process};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let call = |name: &str, transport: Transport, is_cloud: bool, caller: Caller| Scenario {
        reference: false,
        ..Scenario::new(format!("operator/{name}/{}", transport.name()), move |stage: &Stage| {
            call(stage, transport, is_cloud, caller)
        })
    };
    vec![
        call("router/called-from-outside", Transport::Udp, false, Caller::Outside),
        call("router/calls-outside", Transport::Tcp, false, Caller::Inside),
        call("cloud", Transport::Udp, true, Caller::Outside),
        Scenario { reference: false, ..Scenario::new("operator/router/not-advertised", not_advertised) },
        Scenario { reference: false, ..Scenario::new("operator/proxy-protocol", proxy_protocol) },
    ]
}

/// The networks.
struct Network {
    inside: Namespace,
    server: Namespace,
    router: Namespace,
    outside: Namespace,
}

impl Network {
    /// Makes them; `None`: this user may not.
    fn make() -> Result<Option<Self>> {
        let Some(router) = Namespace::with_bridge("router", GATEWAY)? else { return Ok(None) };
        let Some(outside) = Namespace::with_bridge("outside", BOB)? else { return Ok(None) };
        let Some(server) = Namespace::create("server")? else { return Ok(None) };
        let Some(inside) = Namespace::create("inside")? else { return Ok(None) };
        router.join(&outside, "wan", PUBLIC)?;
        for (namespace, address) in [(&server, SERVER), (&inside, ALICE)] {
            namespace.join(&router, "lan", address)?;
            namespace.ip(&format!("route add default via {GATEWAY}"))?;
        }
        router.run("sysctl", "-q -w net.ipv4.ip_forward=1")?;
        router.run("iptables", "-t nat -A POSTROUTING -o wan -j MASQUERADE")?;
        // Phones inside reach the public address too, as most routers have it.
        let back = format!(
            "-t nat -A POSTROUTING -s {GATEWAY}/24 -d {SERVER} -m conntrack --ctstate DNAT -j MASQUERADE"
        );
        router.run("iptables", &back)?;
        Ok(Some(Self { inside, server, router, outside }))
    }

    /// Forwards the ports of SIP and of the relay to the server; a cloud forwards all.
    fn forward(&self, sip: u16, is_cloud: bool) -> Result<()> {
        let to = format!("-d {PUBLIC} -j DNAT --to-destination {SERVER}");
        if is_cloud {
            return self.router.run("iptables", &format!("-t nat -A PREROUTING {to}"));
        }
        let media = format!("{FIRST_PORT}:{}", FIRST_PORT + PORTS - 1);
        for (protocol, ports) in [("udp", sip.to_string()), ("tcp", sip.to_string()), ("udp", media)] {
            self.router
                .run("iptables", &format!("-t nat -A PREROUTING -p {protocol} --dport {ports} {to}"))?;
        }
        Ok(())
    }
}

/// Side that calls; the other one hangs up.
#[derive(Clone, Copy)]
enum Caller {
    Inside,
    Outside,
}

/// A call between alice inside and bob outside, with sound.
fn call(stage: &Stage, transport: Transport, is_cloud: bool, caller: Caller) -> Result<()> {
    let Some(network) = Network::make()? else { return Ok(()) };
    let at = stage.inside(&network.server);
    let interface = [
        format!("--interface={SERVER}!{PUBLIC}"),
        format!("--port-min={FIRST_PORT}"),
        format!("--port-max={}", FIRST_PORT + PORTS - 1),
    ];
    let relay = Rtpengine::start_at(&at.site(), CONTROL, &interface)?;
    let advertise = format!("[[advertise]]\naddress = \"{PUBLIC}\"\n");
    let server = start(&at, &advertise, Some(("relay = \"always\"", [CONTROL, 0])))?;
    network.forward(server.port, is_cloud)?;
    let (mut alice, mut bob) = phones(stage, &network, server.port, transport)?;
    // The answer and the BYE come through the address that each side got.
    match caller {
        Caller::Outside => {
            bob.dial("sip:alice@example.org")?;
            alice.established().context("alice, who was called")?;
            bob.established()?;
            std::thread::sleep(TALK);
            alice.hang_up()?;
            bob.ended().context("the BYE to the outside")?;
        }
        Caller::Inside => {
            alice.dial("sip:bob@example.org")?;
            bob.established().context("bob, who was called")?;
            alice.established()?;
            std::thread::sleep(TALK);
            bob.hang_up()?;
            alice.ended().context("the BYE from the outside")?;
        }
    }
    // baresip writes what it received until its BYE is answered.
    std::thread::sleep(BYE_TIME);
    for (phone, name, tone) in [(&mut alice, "alice", BOB_HZ), (&mut bob, "bob", ALICE_HZ)] {
        Recording::read(&phone.recording()?)?.expect_tone(tone, TALK.as_secs_f64() / 2.0).context(name)?;
    }
    for (phone, shown) in [(&alice, SERVER), (&bob, PUBLIC)] {
        let route = format!("sip:{shown}:{};", server.port);
        ensure!(phone.trace()?.contains(&route), "a phone got no {route}");
    }
    relay.expect_no_calls()
}

/// Without an advertised address the public one in a phone's Route is another server: the test of the test.
fn not_advertised(stage: &Stage) -> Result<()> {
    let Some(network) = Network::make()? else { return Ok(()) };
    let server = start(&stage.inside(&network.server), "", None)?;
    network.forward(server.port, false)?;
    let bob = stage.inside(&network.outside);
    let bob = baresip::Phone::start(&bob, line("bob", (BOB, PUBLIC), server.port, Transport::Udp, BOB_HZ))?;
    std::thread::sleep(TALK);
    ensure!(
        !bob.trace()?.contains("registered successfully"),
        "bob registered at an address that is not the server's"
    );
    Ok(())
}

/// HAProxy on the router, with the configuration of the document, before a `tcp` and a `tls` listener: calls with a phone outside, a client
/// with TLS, and connections that are refused. All packets of the server's connections are marked.
fn proxy_protocol(stage: &Stage) -> Result<()> {
    let Some(network) = Network::make()? else { return Ok(()) };
    let authority = Authority::create(&stage.folder)?;
    authority.issue(Certificate::SERVER)?;
    let at = stage.inside(&network.server);
    let (port, secure) = (SIP, SIP + 1);
    let behind =
        |listener: &str| format!("[[proxy_protocol]]\nlisten = \"{listener}\"\nnetworks = [\"{GATEWAY}\"]\n");
    let sections = format!(
        "{}{}[[advertise]]\naddress = \"{PUBLIC}\"\n",
        behind(&format!("tcp:{SERVER}:{port}")),
        behind(&format!("tls:{SERVER}:{secure}"))
    );
    let wanted = Wanted { host: SERVER, port: Some(port), tls: Some(""), ..Wanted::default() };
    let users = ["alice", "bob"].map(|name| (name.to_owned(), format!("secret-{name}")));
    let mut server = Server::start_among(&at, (wanted, &sections), &users)?;
    // Keys without a section come first.
    let configuration = std::fs::read_to_string(server.config())?;
    std::fs::write(server.config(), format!("dscp = \"cs3\"\n{configuration}"))?;
    server.kill();
    server.start_again()?;
    // The router takes marked packets of the server only.
    let unmarked = format!("-A INPUT -s {SERVER} -p tcp -m dscp ! --dscp-class CS3 -j DROP");
    network.router.run("iptables", &unmarked)?;
    let _haproxy = start_haproxy(&stage.inside(&network.router))?;

    let [inside, outside] = [&network.inside, &network.outside].map(|of| stage.inside(of));
    let mut alice =
        baresip::Phone::start(&inside, line("alice", (ALICE, SERVER), port, Transport::Udp, ALICE_HZ))?;
    let mut bob = baresip::Phone::start(&outside, line("bob", (BOB, PUBLIC), port, Transport::Tcp, BOB_HZ))?;
    alice.registered()?;
    bob.registered().context("bob, by HAProxy")?;
    let connections = server.connections()?;
    ensure!(connections.contains(&format!("{BOB}:")), "no connection of {BOB}: {connections}");
    bob.dial("sip:alice@example.org")?;
    alice.established().context("alice, who was called")?;
    bob.established()?;
    alice.hang_up()?;
    bob.ended().context("the BYE to the outside")?;
    alice.dial("sip:bob@example.org")?;
    bob.established().context("bob, who was called")?;
    alice.established()?;
    bob.hang_up()?;
    alice.ended().context("the BYE from the outside")?;

    let received = format!("received={BOB}");
    let mut client = tls_client(&outside, "tls-outside", (PUBLIC, secure))?;
    client.type_keys(&options())?;
    client.wait_for_output(&received).context("a client with TLS")?;
    // Nobody else reaches the listeners, and the proxy not without a header.
    for (name, to) in [("direct-tcp", port), ("direct-tls", secure)] {
        tls_client(&inside, name, (SERVER, to))?.wait()?;
    }
    tls_client(&stage.inside(&network.router), "no-header", (SERVER, secure))?.wait()?;
    server.await_counter("proxy_sources_refused", 2, PATIENCE)?;
    server.await_counter("proxy_headers_refused", 1, PATIENCE)?;
    server.await_counter("proxy_headers_late", 0, PATIENCE)
}

/// Starts HAProxy with the configuration of the document for the addresses here.
fn start_haproxy(at: &Stage) -> Result<Process> {
    let document = std::fs::read_to_string(root().join("docs/recipes/load-balancer.md"))?;
    let block = document.split("```haproxy\n").nth(1).and_then(|rest| rest.split("```").next());
    let text = block.context("the document has no configuration")?.replace("10.0.0.5", &SERVER.to_string());
    ensure!(text.contains(&format!("{PUBLIC}:{SIP}")), "the document has other addresses: {text}");
    let file = at.path("haproxy.cfg");
    std::fs::write(&file, text)?;
    let running =
        Process::start("haproxy", at.command("haproxy").arg("-db").arg("-f").arg(&file), &at.folder)?;
    let namespace = at.site().namespace;
    let connect = || TcpStream::connect((PUBLIC, SIP)).map(drop);
    // It listens when a connection succeeds.
    let connected = || -> Result<()> { Ok(namespace::enter(namespace.as_deref(), connect)??) };
    retry(PATIENCE, connected).context("HAProxy does not listen")?;
    Ok(running)
}

/// Starts `openssl s_client`, which does not verify the server: its certificate has no address of it.
fn tls_client(at: &Stage, name: &str, (to, port): (Ipv4Addr, u16)) -> Result<Process> {
    let mut command = at.command("openssl");
    // The first letter of a request is none of its commands.
    command.args(["s_client", "-connect", &format!("{to}:{port}"), "-nocommands"]);
    Process::start(name, &mut command, &at.folder)
}

/// A request whose response shows where it came from.
fn options() -> String {
    "OPTIONS sip:example.org SIP/2.0\r\nVia: SIP/2.0/TLS 192.0.2.99;branch=z9hG4bKproxied\r\nMax-Forwards: 70\r\n\
     From: <sip:a@example.net>;tag=1\r\nTo: <sip:example.org>\r\nCall-ID: proxied\r\nCSeq: 1 OPTIONS\r\n\
     Content-Length: 0\r\n\r\n"
        .to_owned()
}

fn start(stage: &Stage, advertise: &str, media: Option<(&'static str, [u16; 2])>) -> Result<Server> {
    let wanted = Wanted { host: SERVER, media, ..Wanted::default() };
    let users = ["alice", "bob"].map(|name| (name.to_owned(), format!("secret-{name}")));
    Server::start_among(stage, (wanted, advertise), &users)
}

fn phones(
    stage: &Stage,
    network: &Network,
    port: u16,
    transport: Transport,
) -> Result<(baresip::Phone, baresip::Phone)> {
    let [inside, outside] = [&network.inside, &network.outside].map(|of| stage.inside(of));
    let mut alice =
        baresip::Phone::start(&inside, line("alice", (ALICE, SERVER), port, transport, ALICE_HZ))?;
    let mut bob = baresip::Phone::start(&outside, line("bob", (BOB, PUBLIC), port, transport, BOB_HZ))?;
    alice.registered()?;
    bob.registered()?;
    Ok((alice, bob))
}

/// Settings of a phone at an address, for the server at another one.
fn line(
    user: &'static str,
    (host, server_host): (Ipv4Addr, Ipv4Addr),
    port: u16,
    transport: Transport,
    tone_hz: f64,
) -> Line<'static> {
    let (server, keys, seconds) = (Some(port), Keys::None, 60);
    Line { user, host, server_host, server, transport, keys, tone_hz, seconds }
}

const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 10);
const ALICE: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 20);
const PUBLIC: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const BOB: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 50);
const ALICE_HZ: f64 = 440.0;
const BOB_HZ: f64 = 1000.0;
/// Control port of the relay, in a namespace of its own.
const CONTROL: u16 = 2223;
/// Port of the server and of HAProxy; the next one is for TLS.
const SIP: u16 = 5060;
const FIRST_PORT: u16 = 30_000;
const PORTS: u16 = 200;
const TALK: Duration = Duration::from_secs(3);
const BYE_TIME: Duration = Duration::from_secs(1);
