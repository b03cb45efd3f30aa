//! A peer behind a NAT that assigns ports consecutively, called by a phone behind a NAT that accepts packets
//! only from destinations of the phone: there is no sound until the phone probes the ports after the
//! announced one.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::super::audio::Recording;
use super::super::nat::CountingNat;
use super::super::softphone::{Keys, Line, Softphone};
use super::super::{Scenario, Stage, Transport, baresip};
use crate::process::Process;

/// With a row of ports, and without: then both record silence.
pub(crate) fn scenarios() -> Vec<Scenario> {
    [("phone/port-row/6", 6), ("phone/port-row/none", 0)]
        .map(|(name, ports)| {
            let mut scenario = Scenario::new(name, move |stage: &Stage| call(stage, ports));
            scenario.reference = false;
            scenario
        })
        .into()
}

fn call(stage: &Stage, ports: u8) -> Result<()> {
    let nat = CountingNat::start()?;
    let more = format!(";medianat=stun;stunserver=\"stun:{}\"", nat.peer_stun);
    let mut peer = baresip::Phone::start_with(stage, LINE, &more)?;
    let program = stage.ringway.program().context("only Ringway's program can run this scenario")?;
    let mut command = Command::new(program);
    command.args(["call", &peer.uri(), "--from", "sip:alice@127.0.0.1", "--bind", "127.0.0.1:0"]);
    command.args(["--stun", &nat.phone_stun.to_string(), "--port-row", &ports.to_string()]);
    command.args(["--srtp", "none", "--play", "tone:600", "--duration", &TALK.as_secs().to_string()]);
    command.args(["--trace", "--json", "--record"]).arg(stage.path("heard-by-phone.wav"));
    let phone = Process::start("alice", &mut command, &stage.folder)?;
    let status = phone.wait()?;
    peer.ended().context("the peer")?;
    let printed = phone.printed_json()?;
    stage.keep_text(&printed.to_string(), "phone.json")?;
    let received = printed["received"]["packets"].as_u64().context("no count of packets")?;
    let named = nat.named_by_peer().context("the peer asked no STUN server")?;
    ensure!(peer.trace()?.contains(&format!("m=audio {} ", named.port())), "the peer did not name {named}");
    if ports == 0 {
        ensure!(received == 0, "without a row of ports {received} packets came in: {printed}");
        ensure!(status.code() == Some(1), "{status} after a call without sound: {printed}");
        return Ok(());
    }
    ensure!(status.success() && received > 100, "{status}, {received} packets came in: {printed}");
    let seconds = TALK.as_secs_f64() / 3.0;
    let recording = Recording::read(&stage.path("heard-by-phone.wav"))?;
    recording.expect_tone(LINE.tone_hz, seconds).context("recording of the phone")?;
    Recording::read(&peer.recording()?)?.expect_tone(600.0, seconds).context("recording of the peer")
}

const LINE: Line<'static> = Line {
    user: "bob",
    host: Ipv4Addr::LOCALHOST,
    server_host: Ipv4Addr::LOCALHOST,
    server: None,
    transport: Transport::Udp,
    keys: Keys::None,
    tone_hz: 1000.0,
    seconds: 20,
};

/// The probing starts after 2 s.
const TALK: Duration = Duration::from_secs(9);
