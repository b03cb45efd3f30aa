//! Calls of the phone with default options to phones that require SRTP: they reject its first offer.

use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::super::audio::Recording;
use super::super::softphone::{Keys, Line, Softphone};
use super::super::{Scenario, Stage, Transport, baresip, linphone};
use crate::process::Process;

/// baresip with `srtp-mand`, linphonec with mandatory SRTP.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for transport in Transport::ALL {
        let name = transport.name();
        all.push(scenario(format!("phone/insists/baresip/{name}"), move |stage: &Stage| {
            called(
                stage,
                transport,
                &mut baresip::Phone::start(stage, line(transport, "AES_CM_128_HMAC_SHA1_80"))?,
            )
        }));
        all.push(scenario(format!("phone/insists/linphone/{name}"), move |stage: &Stage| {
            called(
                stage,
                transport,
                &mut linphone::Phone::start(stage, line(transport, "AES_256_CM_HMAC_SHA1_80"))?,
            )
        }));
    }
    all
}

fn scenario(name: String, body: impl Fn(&Stage) -> Result<()> + Send + Sync + 'static) -> Scenario {
    let mut scenario = Scenario::new(name, body);
    scenario.reference = false;
    scenario
}

/// The phone calls without SRTP options: one rejected INVITE, one that is answered, and sound in both
/// directions.
fn called(stage: &Stage, transport: Transport, peer: &mut dyn Softphone) -> Result<()> {
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

const fn line(transport: Transport, suite: &'static str) -> Line<'static> {
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

const PHONE_HZ: f64 = 600.0;
const PEER_HZ: f64 = 1000.0;
