//! `ringway options` against Ringway's server, Kamailio and baresip.

use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::super::server::{Server, Wanted};
use super::super::softphone::{Keys, Line, Softphone};
use super::super::{Scenario, Stage, Transport, baresip};
use crate::process::Process;

/// Each over UDP and TCP.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for transport in Transport::ALL {
        let scenario = |peer: &str, body: fn(&Stage, Transport) -> Result<()>| {
            let name = format!("phone/options/{peer}/{}", transport.name());
            let mut scenario = Scenario::new(name, move |stage: &Stage| body(stage, transport));
            scenario.reference = false;
            scenario
        };
        all.push(scenario("ringway", |stage, transport| {
            let server = Server::start(stage, Wanted::default(), &[])?;
            answered(stage, transport, &format!("sip:127.0.0.1:{}", server.port), "REGISTER", "")
        }));
        all.push(scenario("kamailio", |stage, transport| {
            let server = Server::start_reference(stage, Wanted::default())?;
            answered(stage, transport, &format!("sip:127.0.0.1:{}", server.port), "", "kamailio")
        }));
        all.push(scenario("baresip", |stage, transport| {
            let peer = baresip::Phone::start(stage, line(transport))?;
            answered(stage, transport, &peer.uri(), "INVITE", "baresip")
        }));
    }
    all
}

/// 200, with `method` in its Allow and `name` as its program.
fn answered(stage: &Stage, transport: Transport, uri: &str, method: &str, name: &str) -> Result<()> {
    let (status, printed) = ask(stage, transport, uri)?;
    ensure!(status == Some(0) && printed["result"] == "answered", "it ended with {status:?}: {printed}");
    ensure!(printed["status"] == 200, "the status: {printed}");
    let text = |field: &str| printed[field].as_str().unwrap_or_default().to_owned();
    ensure!(text("allow").contains(method), "Allow has no {method}: {printed}");
    ensure!(text("user_agent").contains(name), "the program is not {name}: {printed}");
    let round_trip_ms = printed["round_trip_ms"].as_f64().context("no round-trip time")?;
    ensure!((0.0..5000.0).contains(&round_trip_ms), "a round trip takes {round_trip_ms} ms");
    Ok(())
}

/// Runs `ringway options`: its exit status, and what it printed.
fn ask(stage: &Stage, transport: Transport, uri: &str) -> Result<(Option<i32>, Value)> {
    let program = stage.ringway.program().context("only Ringway's program can run this scenario")?;
    let mut command = Command::new(program);
    command.args(["options", uri, "--transport", transport.name(), "--bind", "127.0.0.1:0"]);
    command.args(["--trace", "--json"]);
    let running = Process::start("options", &mut command, &stage.folder)?;
    let status = running.wait()?;
    Ok((status.code(), running.printed_json()?))
}

const fn line(transport: Transport) -> Line<'static> {
    Line {
        user: "bob",
        host: Ipv4Addr::LOCALHOST,
        server_host: Ipv4Addr::LOCALHOST,
        server: None,
        transport,
        keys: Keys::None,
        tone_hz: 1000.0,
        seconds: 10,
    }
}
