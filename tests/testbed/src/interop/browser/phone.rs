//! Calls between a tab and Ringway's phone, with DTLS-SRTP and ICE.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::super::audio::Recording;
use super::super::certificates::CA_FILE;
use super::super::server::Server;
use super::super::{Scenario, Stage, Transport};
use super::phones::Phones;
use super::{password, server};
use crate::process::Process;

pub(super) fn scenarios() -> Vec<Scenario> {
    let scenario =
        |name: &str, body: fn(&Stage) -> Result<()>| Scenario::new(format!("browser/{name}"), body);
    vec![
        scenario("calls-phone/udp-best", |stage| calls_phone(stage, Transport::Udp, &[])),
        scenario("calls-phone/tls-dtls", |stage| calls_phone(stage, Transport::Tls, &["--srtp", "dtls"])),
        scenario("called-by-phone/udp", |stage| called_by_phone(stage, Transport::Udp)),
        scenario("called-by-phone/tls", |stage| called_by_phone(stage, Transport::Tls)),
    ]
}

/// A tab calls `ringway answer` with the options `srtp`, holds, resumes and hangs up.
fn calls_phone(stage: &Stage, transport: Transport, srtp: &[&str]) -> Result<()> {
    let server = server(stage, "")?;
    let mut phones = Phones::start(stage)?;
    phones.register(TAB, &server.ws_url())?;
    let arguments = [&["answer", "--as", PHONE_URI, "--register", "--count", "1"], srtp].concat();
    let mut phone = phone(stage, &server, transport, &arguments)?;
    phone.wait_for_output("ready")?;
    phones.command(TAB, &format!("call {PHONE_URI}"))?;
    talk(&mut phones)?;
    phones.command(TAB, "hold")?;
    phone.wait_for_output("holds the call")?;
    phones.command(TAB, "resume")?;
    phone.wait_for_output("is back")?;
    talk(&mut phones)?;
    phones.command(TAB, "hangup")?;
    phones.expect(TAB, "ended local Terminated", 1)?;
    check(stage, &mut phone, &mut phones, transport)
}

/// `ringway call` calls a tab, holds, resumes and hangs up with BYE.
fn called_by_phone(stage: &Stage, transport: Transport) -> Result<()> {
    let server = server(stage, "")?;
    let mut phones = Phones::start(stage)?;
    phones.register(TAB, &server.wss_url())?;
    let mut arguments = ["call", TAB_URI, "--from", PHONE_URI, "--srtp", "dtls"].to_vec();
    arguments.extend(["--hold-at", "5", "--hold-s", "1", "--duration", "11"]);
    let mut phone = phone(stage, &server, transport, &arguments)?;
    phones.expect(TAB, &format!("incoming {PHONE_URI}"), 1)?;
    phones.command(TAB, "answer")?;
    talk(&mut phones)?;
    phones.expect(TAB, "hold remote", 1)?;
    phones.expect(TAB, "resume remote", 1)?;
    talk(&mut phones)?;
    phones.expect(TAB, "ended remote Terminated", 1)?;
    check(stage, &mut phone, &mut phones, transport)?;
    let messages = phones.messages(TAB)?;
    let bye = messages.iter().position(|message| message.starts_with("<- BYE "));
    let bye = bye.context("the tab got no BYE")?;
    let is_answered = messages.iter().skip(bye).any(|message| message.starts_with("-> SIP/2.0 200"));
    ensure!(is_answered, "the BYE was not answered");
    Ok(())
}

/// Starts the phone with a tone.
fn phone(stage: &Stage, server: &Server, transport: Transport, arguments: &[&str]) -> Result<Process> {
    let program = stage.ringway.program().context("only Ringway's program can run this scenario")?;
    let mut command = Command::new(program);
    command.args(arguments).args(["--server", &format!("127.0.0.1:{}", server.port_of(transport))]);
    command.args(["--transport", transport.name(), "--bind", "127.0.0.1:0", "--password-stdin"]);
    command.args(["--play", &format!("tone:{PHONE_HZ}"), "--json", "--trace", "--record"]);
    command.arg(stage.path(RECORDING));
    if transport == Transport::Tls {
        command.args(["--ca", CA_FILE]);
    }
    let mut running = Process::start("phone", &mut command, &stage.folder)?;
    running.type_line(&password(PHONE))?;
    running.close_input();
    Ok(running)
}

/// Fails unless the tab sends and receives sound.
fn talk(phones: &mut Phones) -> Result<()> {
    phones.expect(TAB, "confirmed", 1)?;
    phones.expect(TAB, "media connected", 1)?;
    let before = phones.figures(TAB)?;
    std::thread::sleep(TALK);
    phones.figures(TAB)?.expect_sound_since(&before)
}

/// Compares the phone's result with the call.
fn check(stage: &Stage, phone: &mut Process, phones: &mut Phones, transport: Transport) -> Result<()> {
    let messages = phones.messages(TAB)?;
    stage.keep_text(&messages.join("\n"), "tab.messages")?;
    phone.succeeds()?;
    let printed = phone.printed_json()?;
    stage.keep_text(&printed.to_string(), "phone.json")?;
    let protected = transport == Transport::Tls;
    for (at, expected) in [
        ("/result", "answered".into()),
        ("/security/method", "dtls".into()),
        ("/security/fingerprints_protected", protected.into()),
        ("/received/auth_failures", 0.into()),
        ("/received/strangers", 0.into()),
        ("/received/checks", 0.into()),
    ] {
        let found: Option<&Value> = printed.pointer(at);
        ensure!(
            found == Some(&expected),
            "the phone's JSON has {found:?} at {at}, not {expected}: {printed}"
        );
    }
    for at in ["/sent/packets", "/received/packets"] {
        let packets = printed.pointer(at).and_then(Value::as_u64).unwrap_or_default();
        ensure!(packets > 200, "{packets} packets at {at}: {printed}");
    }
    stage.keep(&stage.path(RECORDING), RECORDING)?;
    let received = Recording::read(&stage.path(RECORDING))?;
    // The browser's microphone beeps once a second.
    if received.rms() < 0.01 {
        bail!("the phone heard {:.1} s with an RMS of {:.4}", received.seconds(), received.rms());
    }
    Ok(())
}

const TAB: &str = "alice";
const TAB_URI: &str = "sip:alice@example.org";
const PHONE: &str = "bob";
const PHONE_URI: &str = "sip:bob@example.org";
const PHONE_HZ: f64 = 600.0;
const RECORDING: &str = "heard-by-phone.wav";

/// More than 50 packets of 20 ms.
const TALK: Duration = Duration::from_secs(3);
