//! Protection of calls: those that must fail, because one side requires a protection that the other does not have;
//! those of the phone with default options to phones that require SRTP and reject its first offer; and several between
//! the same two phones with ZRTP, each of which must continue the retained secrets.

use super::super::audio::Recording;
use super::super::softphone::{Keys, Line, Softphone};
use super::super::{Scenario, Stage, Transport, baresip, linphone};
use super::call::Caller;
use crate::process::{Process, free_port};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::process::Command;

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

fn scenario(
    name: impl Into<String>,
    body: impl Fn(&Stage) -> Result<()> + Send + Sync + 'static,
) -> Scenario {
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

/// With linphone, which retains secrets too.
pub(crate) fn again_scenarios() -> Vec<Scenario> {
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

/// baresip with `srtp-mand`, linphonec with mandatory SRTP.
pub(crate) fn insisted_scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for transport in Transport::ALL {
        let name = transport.name();
        all.push(scenario(format!("phone/insists/baresip/{name}"), move |stage: &Stage| {
            insists(
                stage,
                transport,
                &mut baresip::Phone::start(stage, insisting_line(transport, "AES_CM_128_HMAC_SHA1_80"))?,
            )
        }));
        all.push(scenario(format!("phone/insists/linphone/{name}"), move |stage: &Stage| {
            insists(
                stage,
                transport,
                &mut linphone::Phone::start(stage, insisting_line(transport, "AES_256_CM_HMAC_SHA1_80"))?,
            )
        }));
    }
    all
}

/// The phone calls without SRTP options: one rejected INVITE, one that is answered, and sound in both
/// directions.
fn insists(stage: &Stage, transport: Transport, peer: &mut dyn Softphone) -> Result<()> {
    let program = stage.ringway.program().context("only Ringway's program can run this scenario")?;
    let heard_by_phone = stage.path("heard-by-phone.wav");
    let mut command = Command::new(program);
    command.args(["call", &peer.uri(), "--from", "sip:alice@127.0.0.1", "--bind", "127.0.0.1:0"]);
    command.args(["--transport", transport.name(), "--play", &format!("tone:{PHONE_HZ}")]);
    command.arg("--record").arg(&heard_by_phone).args(["--duration", "4", "--trace", "--json"]);
    let phone = Process::start("alice", &mut command, &stage.folder)?;
    peer.established().context("the peer")?;
    let output = phone.succeeds()?;
    peer.ended().context("the peer")?;
    let printed = phone.printed_json()?;
    stage.keep_text(&printed.to_string(), "phone.json")?;
    ensure!(
        printed["result"] == "answered" && printed["security"]["method"] == "sdes",
        "the phone says {printed}"
    );
    let refusals =
        output.lines().filter(|line| line.starts_with("<- ") && line.contains(" SIP/2.0 4")).count();
    ensure!(
        refusals == 1,
        "the phone's first offer was refused {refusals} times, not once:\n{}",
        output.trim()
    );
    Recording::read(&heard_by_phone)?.expect_tone(PEER_HZ, 1.5).context("recording of the phone")?;
    Recording::read(&peer.recording().context("the peer")?)?
        .expect_tone(PHONE_HZ, 1.5)
        .context("recording of the peer")
}

const fn insisting_line(transport: Transport, suite: &'static str) -> Line<'static> {
    Line {
        user: "bob",
        host: Ipv4Addr::LOCALHOST,
        server_host: Ipv4Addr::LOCALHOST,
        server: None,
        transport,
        keys: Keys::Sdes(suite),
        tone_hz: PEER_HZ,
        seconds: 20,
    }
}

const DTLS: Keys = Keys::Dtls("AES_CM_128_HMAC_SHA1_80");
const SDES: Keys = Keys::Sdes("AES_CM_128_HMAC_SHA1_80");
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
const PHONE_HZ: f64 = 600.0;
const PEER_HZ: f64 = 1000.0;
