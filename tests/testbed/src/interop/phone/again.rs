//! Several calls between the same two phones with ZRTP: each must continue the retained secrets.

use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::super::softphone::{Keys, Line, Softphone};
use super::super::{Scenario, Stage, Transport, linphone};
use super::call::Caller;
use crate::process::{Process, free_port};

/// With linphone, which retains secrets too.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut scenario = Scenario::new("phone/linphone/known-again/zrtp", known_again);
    scenario.reference = false;
    vec![scenario]
}

fn known_again(stage: &Stage) -> Result<()> {
    let mut peer = linphone::Phone::start(stage, LINE)?;
    let rounds = [(Caller::Phone, "first_call"), (Caller::Phone, "continued"), (Caller::Peer, "continued")];
    for (number, (caller, continuity)) in (1..).zip(rounds) {
        let printed = call(stage, caller, &mut peer).with_context(|| format!("call {number}"))?;
        stage.keep_text(&printed.to_string(), &format!("phone-{number}.json"))?;
        let security = &printed["security"];
        ensure!(security["continuity"] == continuity, "call {number} is no {continuity}: {security}");
        let sas = peer.sas();
        ensure!(sas.as_deref() == security["sas"].as_str(), "the peer says {sas:?} to compare: {security}");
        let packets = printed["received"]["packets"].as_u64().unwrap_or(0);
        ensure!(packets > 50, "call {number} had {packets} packets of sound");
    }
    Ok(())
}

fn call(stage: &Stage, caller: Caller, peer: &mut linphone::Phone) -> Result<Value> {
    let program = stage.ringway.program().context("only Ringway's program can run this scenario")?;
    let mut command = Command::new(program);
    let uri = format!("sip:alice@127.0.0.1:{}", free_port()?);
    match caller {
        Caller::Phone => command.args(["call", &peer.uri(), "--from", &uri, "--bind", "127.0.0.1:0"]),
        Caller::Peer => {
            let address = uri.rsplit('@').next().unwrap_or_default();
            command.args(["answer", "--as", &uri, "--bind", address, "--count", "1"])
        }
    };
    command.args(["--srtp", "zrtp", "--play", "tone:600", "--duration", "3", "--json"]);
    command.arg("--zrtp-cache").arg(stage.path("alice.zrtp"));
    let phone = Process::start("alice", &mut command, &stage.folder)?;
    if caller == Caller::Peer {
        phone.wait_for_output("ready")?;
        peer.dial(&uri)?;
    }
    phone.succeeds()?;
    peer.ended().context("the peer")?;
    phone.printed_json()
}

const LINE: Line<'static> = Line {
    user: "bob",
    host: Ipv4Addr::LOCALHOST,
    server_host: Ipv4Addr::LOCALHOST,
    server: None,
    transport: Transport::Udp,
    keys: Keys::Zrtp,
    tone_hz: 1000.0,
    seconds: 30,
};
