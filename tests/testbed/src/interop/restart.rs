//! `kill -9` of the server: users registered before can be called after the restart.

use std::time::Duration;

use anyhow::{Context, Result};

use super::calls::{Play, users};
use super::server::{Server, Wanted};
use super::sipp::succeeded;
use super::{Scenario, Stage, Transport};
use crate::process::free_port;

/// Number of kills in a scenario.
const ROUNDS: u32 = 10;

/// Ten rounds with each setting of `durability`.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = vec![
        Scenario::new("restart/kill-9/relaxed", |stage: &Stage| rounds(stage, false)),
        Scenario::new("restart/kill-9/strict", |stage: &Stage| rounds(stage, true)),
    ];
    for scenario in &mut all {
        // Kamailio as the reference keeps its bindings in memory only.
        scenario.reference = false;
    }
    all
}

fn rounds(stage: &Stage, strict: bool) -> Result<()> {
    for round in 1..=ROUNDS {
        let own = stage.within(&format!("round-{round}"))?;
        let transport = if round % 2 == 0 { Transport::Tcp } else { Transport::Udp };
        if let Err(error) = one(&own, strict, transport) {
            super::print_traces(&own.folder);
            return Err(error).with_context(|| format!("round {round} of {ROUNDS}, {}", transport.name()));
        }
    }
    Ok(())
}

/// Registers twenty users, kills the server as early as its durability permits, and calls all of them after
/// the restart.
fn one(stage: &Stage, strict: bool, transport: Transport) -> Result<()> {
    let play = Play { stage, transport, digest: true };
    let (callers, callees) = (users("caller", "callee"), users("callee", "caller"));
    let accounts: Vec<_> =
        callers.iter().chain(&callees).map(|user| (user.name.clone(), user.password.clone())).collect();
    let mut server = Server::start(stage, Wanted { strict, ..Wanted::default() }, &accounts)?;
    let callee_port = free_port()?;
    play.sipp("register", "register", &callees, callee_port, Some(server.port)).run(stage)?;
    if !strict {
        // "Relaxed": a binding is on disk a second after its 200.
        std::thread::sleep(Duration::from_millis(1050));
    }
    server.kill();
    server.start_again().context("after kill -9")?;
    server.expect_registered(callees.iter().map(|user| user.name.as_str()), true).context("after kill -9")?;
    let mut answering = play.sipp("answer", "callee", &callees, callee_port, None);
    answering.parts = &["routed"];
    let mut answering = answering.start(stage)?;
    let mut calling = play.sipp("call", "caller", &callers, free_port()?, Some(server.port));
    calling.parts = &["digest", "stateful"];
    calling.run(stage).context("after kill -9")?;
    succeeded("callee", &mut answering)
}
