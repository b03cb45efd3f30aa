//! Calls of tabs: they register, call each other and are refused; a tab and Ringway's phone call each other, with DTLS-
//! SRTP and ICE.

use std::process::Command;
use std::time::{Duration, Instant};

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

pub(super) fn tab_scenarios() -> Vec<Scenario> {
    let scenario =
        |name: &str, body: fn(&Stage) -> Result<()>| Scenario::new(format!("browser/{name}"), body);
    vec![
        scenario("registrations", registrations),
        scenario("tabs/caller-ends", |stage| tabs(stage, "alice")),
        scenario("tabs/callee-ends", |stage| tabs(stage, "bob")),
        scenario("tabs/callee-gone", gone),
        scenario("tabs/server-restart", restart),
        scenario("origins", origins),
    ]
}

/// Tabs register with digest over `ws` and over `wss`; one with a wrong password does not.
fn registrations(stage: &Stage) -> Result<()> {
    let server = server(stage, "")?;
    let mut phones = Phones::start(stage)?;
    phones.register("alice", &server.ws_url())?;
    phones.open("bob", &server.wss_url(), "wrong")?;
    phones.expect("bob", "unregistered", 1)?;
    ensure!(!phones.has("bob", "registered"), "a wrong password registered");
    phones.register("bob", &server.wss_url())?;
    server.expect_registered(["alice", "bob"].into_iter(), true)?;
    for name in ["alice", "bob"] {
        let challenged = phones.messages(name)?.iter().any(|message| message.starts_with("<- SIP/2.0 401"));
        ensure!(challenged, "{name} registered without a challenge");
    }
    Ok(())
}

/// Alice over `wss` calls bob over `ws`: both send sound and receive it, before and after a hold; `ender` hangs up.
fn tabs(stage: &Stage, ender: &str) -> Result<()> {
    let server = server(stage, "")?;
    let mut phones = Phones::start(stage)?;
    phones.register("alice", &server.wss_url())?;
    phones.register("bob", &server.ws_url())?;
    phones.command("alice", "call sip:bob@example.org")?;
    phones.expect("bob", "incoming sip:alice@example.org", 1)?;
    phones.command("bob", "answer")?;
    for name in ["alice", "bob"] {
        phones.expect(name, "confirmed", 1)?;
        phones.expect(name, "media connected", 1)?;
    }
    tabs_talk(&mut phones)?;
    phones.command(ender, "hold")?;
    let other = if ender == "alice" { "bob" } else { "alice" };
    phones.expect(other, "hold remote", 1)?;
    phones.command(ender, "resume")?;
    phones.expect(other, "resume remote", 1)?;
    tabs_talk(&mut phones)?;
    phones.command(ender, "hangup")?;
    phones.expect(ender, "ended local Terminated", 1)?;
    phones.expect(other, "ended remote Terminated", 1)?;
    for name in [ender, other] {
        let messages = phones.messages(name)?;
        stage.keep_text(&messages.join("\n"), &format!("{name}.messages"))?;
    }
    Ok(())
}

/// Fails unless both tabs send and receive sound.
fn tabs_talk(phones: &mut Phones) -> Result<()> {
    let before = [phones.figures("alice")?, phones.figures("bob")?];
    std::thread::sleep(TALK);
    for (name, before) in ["alice", "bob"].into_iter().zip(before) {
        phones.figures(name)?.expect_sound_since(&before)?;
    }
    Ok(())
}

/// A call to a tab that was closed fails at once: its connection was the only way to it.
fn gone(stage: &Stage) -> Result<()> {
    let server = server(stage, "")?;
    let mut phones = Phones::start(stage)?;
    phones.register("alice", &server.wss_url())?;
    phones.register("bob", &server.wss_url())?;
    phones.command("bob", "close")?;
    let begun = Instant::now();
    phones.command("alice", "call sip:bob@example.org")?;
    phones.expect("alice", "failed remote Unavailable", 1)?;
    let after = begun.elapsed();
    ensure!(after < GONE_WITHIN, "the call failed after {after:?}");
    Ok(())
}

/// Tabs connect and register again after `kill -9` of the server, and can call each other.
fn restart(stage: &Stage) -> Result<()> {
    let mut server = server(stage, "")?;
    let mut phones = Phones::start(stage)?;
    for (name, url) in [("alice", server.ws_url()), ("bob", server.wss_url())] {
        phones.register(name, &url)?;
    }
    server.kill();
    for name in ["alice", "bob"] {
        phones.expect(name, "disconnected", 1)?;
    }
    server.start_again()?;
    for name in ["alice", "bob"] {
        phones.expect(name, "connected", 2)?;
        phones.expect(name, "registered", 2)?;
    }
    phones.command("bob", "call sip:alice@example.org")?;
    phones.expect("alice", "incoming sip:bob@example.org", 1)?;
    phones.command("bob", "hangup")?;
    phones.expect("alice", "failed remote Canceled", 1)
}

/// A page of another origin than the configured one gets no connection, and counts as a failed handshake.
fn origins(stage: &Stage) -> Result<()> {
    let server = server(stage, "origins = [\"https://phone.example.org\"]")?;
    let mut phones = Phones::start(stage)?;
    for (name, url) in [("alice", server.ws_url()), ("bob", server.wss_url())] {
        phones.open(name, &url, &password(name))?;
        phones.expect(name, "disconnected", 1)?;
        ensure!(!phones.has(name, "connected"), "{name}: a page of {} was let in", phones.origin());
    }
    server.expect_registered(["alice", "bob"].into_iter(), false)?;
    let failures = server.counters()?.get("handshake_failures")?;
    ensure!(failures >= 2, "{failures} failed handshakes are counted, at least 2 were refused");
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
/// Much less than timer F of a request that nobody answers, 32 s; the browser also asks for its microphone in it.
const GONE_WITHIN: Duration = Duration::from_secs(10);
