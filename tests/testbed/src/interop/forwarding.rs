//! Serial forking and the forwards of a user, seen by baresip and linphonec: bob's calls reach carol, or his other phone.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::baresip::{self, WITHOUT_ANSWER};
use super::server::{Server, Wanted};
use super::softphone::{Line, Softphone};
use super::{Scenario, Stage, Transport, linphone};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario = |name: &str, body: fn(&Stage) -> Result<()>| Scenario {
        reference: false,
        ..Scenario::new(format!("forwarding/{name}"), body)
    };
    vec![
        scenario("busy", busy),
        scenario("no-answer", no_answer),
        scenario("unregistered", unregistered),
        scenario("always-live", always_live),
        scenario("serial", serial),
    ]
}

/// Bob's phone rejects the call with 486; carol's phone answers it.
fn busy(stage: &Stage) -> Result<()> {
    let (server, mut alice, mut carol) = alice_and_carol(stage)?;
    let mut bob = bob(stage, &server)?;
    server.forward("bob", &["--busy", "sip:carol@example.org"])?;
    alice.dial("sip:bob@example.org")?;
    bob.rings()?;
    bob.reject()?;
    talk(&mut alice, &mut carol)?;
    expect_lines(&carol, "user-busy", 486)?;
    expect_count(&server, "calls_forwarded_busy", 1)
}

/// Bob's phone rings for two seconds, then carol's phone answers, and bob's stops.
fn no_answer(stage: &Stage) -> Result<()> {
    let (server, mut alice, mut carol) = alice_and_carol(stage)?;
    let mut bob = bob(stage, &server)?;
    server.forward("bob", &["--no-answer", "2", "sip:carol@example.org"])?;
    alice.dial("sip:bob@example.org")?;
    bob.rings()?;
    bob.ended()?;
    talk(&mut alice, &mut carol)?;
    expect_lines(&carol, "no-answer", 408)?;
    expect_count(&server, "calls_forwarded_no_answer", 1)
}

/// Bob has no phone.
fn unregistered(stage: &Stage) -> Result<()> {
    let (server, mut alice, mut carol) = alice_and_carol(stage)?;
    server.add_user("bob")?;
    server.forward("bob", &["--unregistered", "sip:carol@example.org"])?;
    alice.dial("sip:bob@example.org")?;
    talk(&mut alice, &mut carol)?;
    expect_lines(&carol, "unavailable", 404)?;
    expect_count(&server, "calls_forwarded_unregistered", 1)
}

/// A forward of every call is set while the server runs, and ended again.
fn always_live(stage: &Stage) -> Result<()> {
    let (server, mut alice, mut carol) = alice_and_carol(stage)?;
    let mut bob = bob(stage, &server)?;
    server.forward("bob", &["--always", "sip:carol@example.org"])?;
    alice.dial("sip:bob@example.org")?;
    talk(&mut alice, &mut carol)?;
    expect_lines(&carol, "unconditional", 302)?;
    ensure!(bob.incoming() == 0, "bob's phone rang");
    server.forward("bob", &["--off"])?;
    alice.dial("sip:bob@example.org")?;
    bob.rings().context("after --off")?;
    bob.reject()?;
    expect_count(&server, "calls_forwarded_always", 1)
}

/// Bob has two phones: baresip with q 1, which rings, and linphonec with q 0.5, which answers two seconds later.
fn serial(stage: &Stage) -> Result<()> {
    let wanted = Wanted { routing: "serial_fork_s = 2", ..Wanted::default() };
    let server = Server::start(stage, wanted, &[])?;
    let mut alice = alice(stage, &server)?;
    let mut first = bob(stage, &server)?;
    let line = Line::at_server("bob", 1000.0, server.port, Transport::Udp);
    let mut second = linphone::Phone::start_with(stage, line, "q=0.5")?;
    second.registered()?;
    alice.dial("sip:bob@example.org")?;
    first.rings()?;
    first.ended()?;
    talk(&mut alice, &mut second)?;
    expect_count(&server, "serial_forks", 1)
}

fn alice_and_carol(stage: &Stage) -> Result<(Server, baresip::Phone, linphone::Phone)> {
    let server = Server::start(stage, Wanted::default(), &[])?;
    let alice = alice(stage, &server)?;
    server.add_user("carol")?;
    let line = Line::at_server("carol", 1000.0, server.port, Transport::Udp);
    let mut carol = linphone::Phone::start(stage, line)?;
    carol.registered()?;
    Ok((server, alice, carol))
}

fn alice(stage: &Stage, server: &Server) -> Result<baresip::Phone> {
    server.add_user("alice")?;
    let line = Line::at_server("alice", 440.0, server.port, Transport::Udp);
    let mut alice = baresip::Phone::start(stage, line)?;
    alice.registered()?;
    Ok(alice)
}

/// A phone of bob that rings until it rejects or the call ends.
fn bob(stage: &Stage, server: &Server) -> Result<baresip::Phone> {
    server.add_user("bob")?;
    let line = Line::at_server("bob", 600.0, server.port, Transport::Tcp);
    let mut bob = baresip::Phone::start_with(stage, line, WITHOUT_ANSWER)?;
    bob.registered()?;
    Ok(bob)
}

fn talk(caller: &mut impl Softphone, callee: &mut impl Softphone) -> Result<()> {
    callee.established().context("the callee")?;
    caller.established().context("the caller")?;
    std::thread::sleep(Duration::from_secs(1));
    caller.hang_up()?;
    callee.ended()
}

/// Fails unless the phone received an INVITE with Diversion and History-Info of bob.
fn expect_lines(phone: &linphone::Phone, reason: &str, cause: u16) -> Result<()> {
    let trace = phone.trace()?;
    let diversion = "Diversion: <sip:bob@example.org";
    ensure!(
        trace.lines().any(|line| line.starts_with(diversion) && line.contains(&format!("reason={reason}"))),
        "no Diversion with {reason} arrived"
    );
    let entry = format!("<sip:carol@example.org;cause={cause}>;index=1.1;mp=1");
    ensure!(
        trace.lines().any(|line| line.starts_with("History-Info: ") && line.contains(&entry)),
        "no {entry} arrived"
    );
    Ok(())
}

fn expect_count(server: &Server, counter: &str, expected: u64) -> Result<()> {
    let found = server.counters()?.get(counter)?;
    ensure!(found == expected, "{counter} is {found}");
    Ok(())
}
