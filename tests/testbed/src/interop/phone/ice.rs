//! Calls with a full agent of ICE that is no browser: baresip, over another address than loopback, which it does not use.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::super::audio::Recording;
use super::super::softphone::{Keys, Line, Softphone};
use super::super::{Scenario, Stage, Transport, baresip, twinkle};
use super::call::Caller;
use crate::process::{Process, Signal, free_port};

/// baresip is called and calls.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario = |name: &str, caller: Caller| {
        let mut scenario = Scenario::new(name, move |stage: &Stage| call(stage, caller));
        scenario.reference = false;
        scenario
    };
    vec![
        scenario("phone/ice/baresip/called", Caller::Phone),
        scenario("phone/ice/baresip/calls", Caller::Peer),
    ]
}

fn call(stage: &Stage, caller: Caller) -> Result<()> {
    let program = stage.ringway.program().context("only Ringway's program can run this scenario")?;
    let host = twinkle::own_address()?;
    let mut peer = baresip::Phone::start_with(stage, line(host), baresip::WITH_ICE)?;
    let mut command = Command::new(program);
    let uri = format!("sip:alice@{host}:{}", free_port()?);
    let address = uri.rsplit('@').next().unwrap_or_default();
    match caller {
        Caller::Phone => command.args(["call", &peer.uri(), "--from", &uri, "--bind", address]),
        Caller::Peer => command.args(["answer", "--as", &uri, "--bind", address, "--count", "1"]),
    };
    command.args(["--srtp", "dtls", "--play", "tone:600", "--json", "--record"]);
    command.arg(stage.path("heard-by-phone.wav"));
    let phone = Process::start("alice", &mut command, &stage.folder)?;
    if caller == Caller::Peer {
        phone.wait_for_output("ready")?;
        peer.dial(&uri)?;
    }
    phone.wait_for_output("is connected")?;
    peer.established()?;
    std::thread::sleep(TALK);
    phone.signal(Signal::TERM);
    phone.succeeds()?;
    peer.ended().context("the peer")?;
    let trace = peer.trace()?;
    ensure!(trace.contains("connectivity check is complete"), "baresip completed no check");
    let printed = phone.printed_json()?;
    stage.keep_text(&printed.to_string(), "phone.json")?;
    for (at, expected) in [("/security/method", Value::from("dtls")), ("/received/checks", 0.into())] {
        let found = printed.pointer(at);
        ensure!(
            found == Some(&expected),
            "the phone's JSON has {found:?} at {at}, not {expected}: {printed}"
        );
    }
    let seconds = TALK.as_secs_f64() / 2.0;
    Recording::read(&stage.path("heard-by-phone.wav"))?.expect_tone(PEER_HZ, seconds).context("the phone")?;
    Recording::read(&peer.recording()?)?.expect_tone(600.0, seconds).context("the peer")
}

fn line(host: Ipv4Addr) -> Line<'static> {
    Line {
        user: "bob",
        host,
        server_host: host,
        server: None,
        transport: Transport::Udp,
        keys: Keys::Dtls("AES_CM_128_HMAC_SHA1_80"),
        tone_hz: PEER_HZ,
        seconds: 20,
    }
}

const PEER_HZ: f64 = 1000.0;
const TALK: Duration = Duration::from_secs(4);
