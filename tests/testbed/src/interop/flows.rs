//! Phones with flows (RFC 5626), and behind a proxy that sends Path (RFC 3327): baresip and Kamailio.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use anyhow::{Context, Result, ensure};
use ringway_test_support::eventually::retry;
use serde_json::Value;

use super::baresip::{Phone, WITH_FLOWS, home_of};
use super::nat::Nat;
use super::server::{Server, Wanted, await_sip, kamailio};
use super::softphone::{Line, Softphone};
use super::{Scenario, Stage, Transport};
use crate::process::{PATIENCE, Process, free_port};

pub(crate) fn scenarios() -> Vec<Scenario> {
    // Its order of two registrations is that of their delays.
    let mut all = vec![of_ringway("flows/two-flows/udp".into(), two_flows).alone()];
    for transport in Transport::ALL {
        let name = transport.name();
        all.push(of_ringway(format!("flows/new-address/{name}"), move |stage| new_address(stage, transport)));
        all.push(of_ringway(format!("flows/kamailio-edge/{name}"), move |stage| edge(stage, transport)));
    }
    all
}

/// A scenario that reads Ringway's listing.
fn of_ringway(name: String, body: impl Fn(&Stage) -> Result<()> + Send + Sync + 'static) -> Scenario {
    Scenario { reference: false, ..Scenario::new(name, body) }
}

/// A phone dies and comes back from another port: its old address does not ring.
fn new_address(stage: &Stage, transport: Transport) -> Result<()> {
    let server = Server::start(stage, Wanted::default(), &[])?;
    server.add_user("alice")?;
    server.add_user("bob")?;
    let line = || Line::at_server("bob", 1000.0, server.port, transport);
    let mut bob = Phone::start_with(stage, line(), WITH_FLOWS)?;
    bob.registered()?;
    let old = only_of(&server, "bob")?;
    bob.kill();
    let again = stage.within("again")?;
    std::fs::create_dir_all(home_of(&again, "bob"))?;
    std::fs::copy(home_of(stage, "bob").join("uuid"), home_of(&again, "bob").join("uuid"))?;
    let mut bob = Phone::start_with(&again, line(), WITH_FLOWS)?;
    bob.registered()?;
    let new = only_of(&server, "bob")?;
    ensure!(old["instance"].is_string() && old["instance"] == new["instance"], "not one phone: {old} {new}");
    ensure!(new["reg_id"] == 1 && old["address"] != new["address"], "not a new flow: {old} {new}");
    let mut alice = Phone::start(stage, Line::at_server("alice", 440.0, server.port, transport))?;
    alice.registered()?;
    call(&mut alice, &mut bob)
}

/// A phone registers directly and through a NAT. It is called over one of both flows, and over the other one when
/// the NAT is gone.
fn two_flows(stage: &Stage) -> Result<()> {
    let server = Server::start(stage, Wanted { alias: Some("127.0.0.4"), ..Wanted::default() }, &[])?;
    server.add_user("alice")?;
    server.add_user("bob")?;
    // The phone puts the address at which it reaches the server into Route.
    let at = |host: [u8; 4]| SocketAddr::from((host, server.port));
    let nat = Nat::start_at(at([127, 0, 0, 4]), at([127, 0, 0, 1]))?;
    let more = format!("{WITH_FLOWS};outbound2=\"sip:{};transport=udp\"", nat.inside);
    let mut bob =
        Phone::start_with(stage, Line::at_server("bob", 1000.0, server.port, Transport::Udp), &more)?;
    bob.registered()?;
    let flows = await_flows(&server, "bob", 2)?;
    let mut ids: Vec<_> = flows.iter().filter_map(|flow| flow["reg_id"].as_u64()).collect();
    ids.sort_unstable();
    ensure!(ids == [1, 2], "other flows: {flows:?}");
    let mut alice = Phone::start(stage, Line::at_server("alice", 440.0, server.port, Transport::Udp))?;
    alice.registered()?;
    let before = server.counters()?.get("forwarded")?;
    alice.dial("sip:bob@example.org")?;
    alice.established()?;
    bob.established()?;
    let invites = server.counters()?.get("forwarded")? - before;
    // The INVITE and its ACK: it rings once.
    ensure!(invites == 2, "{invites} requests for a call over one flow");
    alice.hang_up()?;
    bob.ended()?;
    // Its ports are closed now. The flow through it was registered last, because that takes longer.
    drop(nat);
    let mut carol =
        Phone::start(&stage.within("carol")?, Line::at_server("alice", 440.0, server.port, Transport::Udp))?;
    carol.registered()?;
    carol.dial("sip:bob@example.org")?;
    carol.established().context("over the second flow")?;
    let failovers = server.counters()?.get("flow_failovers")?;
    ensure!(failovers == 1, "{failovers} flows were followed by another one");
    Ok(())
}

/// A phone behind Kamailio, which sends Path, is called, and calls.
fn edge(stage: &Stage, transport: Transport) -> Result<()> {
    let (ringway, kamailio_host) = (Ipv4Addr::new(127, 0, 0, 3), Ipv4Addr::LOCALHOST);
    let wanted = Wanted { host: ringway, auth: "fronts = [\"127.0.0.1\"]", ..Wanted::default() };
    let server = Server::start(stage, wanted, &[])?;
    server.add_user("alice")?;
    server.add_user("bob")?;
    let port = free_port()?;
    let words = [
        ("@PORT@", port.to_string()),
        ("@RINGWAY@", format!("{ringway}:{}", server.port)),
        ("@RINGWAY_IP@", ringway.to_string()),
    ];
    let config = stage.path("edge.cfg");
    stage.fill("kamailio/edge.cfg", &words, &config)?;
    let _kamailio = Process::start("edge", &mut kamailio(&config), &stage.folder)?;
    await_sip(kamailio_host, port)?;
    refuses_routes_of_strangers(SocketAddr::from((kamailio_host, port)))?;
    let mut bob = Phone::start(stage, Line::at_server("bob", 1000.0, port, transport))?;
    bob.registered()?;
    let binding = only_of(&server, "bob")?;
    let path = binding["path"][0].as_str().unwrap_or_default();
    ensure!(
        path.contains(&format!("{kamailio_host}:{port}")) && path.contains("received="),
        "path: {binding}"
    );
    let at_ringway = Line {
        host: ringway,
        server_host: ringway,
        ..Line::at_server("alice", 440.0, server.port, transport)
    };
    let mut alice = Phone::start(stage, at_ringway)?;
    alice.registered()?;
    call(&mut alice, &mut bob)?;
    bob.dial("sip:alice@example.org")?;
    bob.established().context("a call from behind Kamailio")
}

/// Somebody else's Route would lead to any host through the edge, past the rules of the server.
fn refuses_routes_of_strangers(edge: SocketAddr) -> Result<()> {
    let socket = UdpSocket::bind("127.0.0.41:0")?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let (own, call_id) = (socket.local_addr()?, "preloaded");
    let request = format!(
        "MESSAGE sip:x@127.0.0.50 SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{call_id}\r\nMax-Forwards: 9\r\n\
         Route: <sip:{edge};lr>, <sip:127.0.0.50:9;lr>\r\nFrom: <sip:eve@example.net>;tag=1\r\nTo: <sip:x@127.0.0.50>\r\n\
         Call-ID: {call_id}\r\nCSeq: 1 MESSAGE\r\nContent-Length: 0\r\n\r\n"
    );
    socket.send_to(request.as_bytes(), edge)?;
    let mut answer = [0; 2048];
    let length = socket.recv(&mut answer).context("an answer of the edge")?;
    let status = String::from_utf8_lossy(answer.get(..length).unwrap_or_default()).into_owned();
    ensure!(status.starts_with("SIP/2.0 403 "), "a stranger's Route: {status}");
    Ok(())
}

/// A call that `caller` ends.
fn call(caller: &mut Phone, callee: &mut Phone) -> Result<()> {
    caller.dial("sip:bob@example.org")?;
    caller.established()?;
    callee.established()?;
    caller.hang_up()?;
    callee.ended()
}

/// The only registration of a user.
fn only_of(server: &Server, user: &str) -> Result<Value> {
    let mut all = await_flows(server, user, 1)?;
    all.pop().context("no registration")
}

/// Registrations of a user, once they have this number.
fn await_flows(server: &Server, user: &str, count: usize) -> Result<Vec<Value>> {
    retry(PATIENCE, || {
        let shown = server.registrations()?.context("the server has no listing")?;
        let all: Value = serde_json::from_str(&shown)?;
        let all = all["registrations"].as_array().cloned().unwrap_or_default();
        let aor = format!("sip:{user}@example.org");
        let found: Vec<_> = all.into_iter().filter(|one| one["aor"] == aor.as_str()).collect();
        ensure!(found.len() == count, "{} registrations of {user}: {shown}", found.len());
        Ok(found)
    })
}
