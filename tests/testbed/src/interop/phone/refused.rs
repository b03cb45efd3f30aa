//! Calls that must fail, because one side requires a protection that the other does not have.

use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::super::softphone::{Keys, Line, Softphone};
use super::super::{Scenario, Stage, Transport, baresip};
use crate::process::{Process, free_port};

/// With baresip, which requires its protection too.
pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        scenario("phone/refused/called-without-srtp", |stage| called(stage, Keys::None, "sdes")),
        scenario("phone/refused/calls-without-srtp", |stage| calls(stage, SDES, &["--srtp", "none"])),
        scenario("phone/refused/called-by-sdes-where-dtls-is-required", |stage| called(stage, SDES, "dtls")),
        scenario("phone/refused/called-by-dtls-where-sdes-is-required", |stage| called(stage, DTLS, "sdes")),
        scenario("phone/refused/calls-with-dtls-only", |stage| calls(stage, SDES, &["--srtp", "dtls"])),
        scenario("phone/refused/calls-with-zrtp-only", |stage| calls(stage, SDES, &["--srtp", "zrtp"])),
    ]
}

fn scenario(name: &str, body: fn(&Stage) -> Result<()>) -> Scenario {
    let mut scenario = Scenario::new(name, body);
    scenario.reference = false;
    scenario
}

/// baresip has `keys`; the called phone requires `srtp`.
fn called(stage: &Stage, keys: Keys, srtp: &str) -> Result<()> {
    let mut peer = baresip::Phone::start(stage, line(keys))?;
    let port = free_port()?;
    let mut command = ringway(stage)?;
    command.args(["answer", "--as", &format!("sip:alice@127.0.0.1:{port}"), "--count", "1"]);
    command.args(["--bind", &format!("127.0.0.1:{port}"), "--srtp", srtp, "--trace", "--json"]);
    let phone = Process::start("alice", &mut command, &stage.folder)?;
    phone.wait_for_output("ready")?;
    peer.dial(&format!("sip:alice@127.0.0.1:{port}"))?;
    peer.ended().context("the peer")?;
    if !peer.trace()?.contains("SIP/2.0 488 ") {
        bail!("the peer did not get 488");
    }
    phone.stop();
    Ok(())
}

/// baresip requires `keys`; the phone calls with `arguments`.
fn calls(stage: &Stage, keys: Keys, arguments: &[&str]) -> Result<()> {
    let peer = baresip::Phone::start(stage, line(keys))?;
    let mut command = ringway(stage)?;
    command.args(["call", &peer.uri(), "--bind", "127.0.0.1:0", "--trace", "--json"]).args(arguments);
    let phone = Process::start("alice", &mut command, &stage.folder)?;
    let status = phone.wait()?;
    let printed = phone.printed_json()?;
    if status.code() != Some(1) || printed["result"] != "rejected" || printed["status"] != 488 {
        bail!("the phone ended with {status} and said {printed}");
    }
    Ok(())
}

fn line(keys: Keys) -> Line<'static> {
    Line {
        user: "bob",
        host: Ipv4Addr::LOCALHOST,
        server_host: Ipv4Addr::LOCALHOST,
        server: None,
        transport: Transport::Udp,
        keys,
        tone_hz: 1000.0,
        seconds: 10,
    }
}

fn ringway(stage: &Stage) -> Result<Command> {
    stage.ringway.program().map(Command::new).context("only Ringway's program can run this scenario")
}

const DTLS: Keys = Keys::Dtls("AES_CM_128_HMAC_SHA1_80");
const SDES: Keys = Keys::Sdes("AES_CM_128_HMAC_SHA1_80");
