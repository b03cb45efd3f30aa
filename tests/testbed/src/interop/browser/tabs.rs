//! Tabs that register, call each other and are refused.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::super::{Scenario, Stage};
use super::phones::Phones;
use super::{password, server};

pub(super) fn scenarios() -> Vec<Scenario> {
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
    talk(&mut phones)?;
    phones.command(ender, "hold")?;
    let other = if ender == "alice" { "bob" } else { "alice" };
    phones.expect(other, "hold remote", 1)?;
    phones.command(ender, "resume")?;
    phones.expect(other, "resume remote", 1)?;
    talk(&mut phones)?;
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
fn talk(phones: &mut Phones) -> Result<()> {
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

/// Much less than timer F of a request that nobody answers, 32 s; the browser also asks for its microphone in it.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// More than 50 packets of 20 ms.
const TALK: Duration = Duration::from_secs(3);
