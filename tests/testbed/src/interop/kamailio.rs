//! Kamailio beside Ringway as the next hop of calls in both directions.

use anyhow::Result;

use super::calls::{Play, users};
use super::server::{Server, Wanted, await_sip, kamailio};
use super::sipp::succeeded;
use super::{Scenario, Stage, Transport};
use crate::process::{Process, free_port};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for transport in Transport::ALL {
        let name = transport.name();
        all.push(Scenario::new(format!("kamailio/inbound/{name}"), move |stage: &Stage| {
            inbound(stage, transport)
        }));
        all.push(Scenario::new(format!("kamailio/outbound/{name}"), move |stage: &Stage| {
            outbound(stage, transport)
        }));
    }
    all
}

/// A stranger calls, through Kamailio, a user who is registered with digest at Ringway.
fn inbound(stage: &Stage, transport: Transport) -> Result<()> {
    let play = Play { stage, transport, digest: true };
    let (callers, callees) = (users("stranger", "callee"), users("callee", "stranger"));
    let accounts: Vec<_> = callees.iter().map(|user| (user.name.clone(), user.password.clone())).collect();
    let server = Server::start(stage, Wanted::default(), &accounts)?;
    let (_kamailio, kamailio_port) = next_hop(stage, server.port)?;
    let callee_port = free_port()?;
    play.sipp("register", "register", &callees, callee_port, Some(server.port)).run(stage)?;
    let mut answering = play.sipp("answer", "callee", &callees, callee_port, None);
    answering.parts = &["routed"];
    let mut answering = answering.start(stage)?;
    play.sipp("call-inbound", "caller", &callers, free_port()?, Some(kamailio_port)).run(stage)?;
    succeeded("callee", &mut answering)
}

/// A user of Ringway, authenticated, calls a user who is registered at Kamailio.
fn outbound(stage: &Stage, transport: Transport) -> Result<()> {
    let play = Play { stage, transport, digest: true };
    let open = Play { stage, transport, digest: false };
    let (callers, callees) = (users("caller", "remote"), users("remote", "caller"));
    let accounts: Vec<_> = callers.iter().map(|user| (user.name.clone(), user.password.clone())).collect();
    let server = Server::start(stage, Wanted::default(), &accounts)?;
    let (_kamailio, kamailio_port) = next_hop(stage, server.port)?;
    let callee_port = free_port()?;
    open.sipp("register", "register", &callees, callee_port, Some(kamailio_port)).run(stage)?;
    let mut answering = open.sipp("answer", "callee", &callees, callee_port, None);
    answering.parts = &["routed"];
    let mut answering = answering.start(stage)?;
    let words = [("PEER", format!("127.0.0.1:{kamailio_port}"))];
    let mut calling = play.sipp("call-outbound", "caller", &callers, free_port()?, Some(server.port));
    calling.words = &words;
    calling.run(stage)?;
    succeeded("callee", &mut answering)
}

fn next_hop(stage: &Stage, ringway_port: u16) -> Result<(Process, u16)> {
    let port = free_port()?;
    let text = std::fs::read_to_string(stage.data.join("kamailio/next-hop.cfg"))?;
    let text = text.replace("@PORT@", &port.to_string()).replace("@RINGWAY@", &ringway_port.to_string());
    let config = stage.path("next-hop.cfg");
    std::fs::write(&config, text)?;
    let running = Process::start("next-hop", &mut kamailio(&config), &stage.folder)?;
    await_sip(std::net::Ipv4Addr::LOCALHOST, port)?;
    Ok((running, port))
}
