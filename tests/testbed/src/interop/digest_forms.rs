//! Forms of digest with other implementations: nonces for one use with baresip, linphonec and SIPp, `auth-int` with SIPp.

use anyhow::{Context, Result, bail};

use super::calls::Play;
use super::server::{Mode, Server, Wanted};
use super::softphone::{Line, Softphone};
use super::{Scenario, Stage, Transport, baresip, linphone};

const ONCE: &str = "nonce_use = \"once\"";
const AUTH_INT: &str = "nonce_use = \"once\"\nauth_int = true";

pub(crate) fn scenarios() -> Vec<Scenario> {
    let all = [
        Scenario::new("digest-forms/once/phones", phones),
        Scenario::new("digest-forms/once/sipp", |stage: &Stage| calls(stage, ONCE)),
        Scenario::new("digest-forms/auth-int/sipp", auth_int),
    ];
    all.into_iter().map(|scenario| Scenario { reference: false, ..scenario }).collect()
}

/// baresip calls linphonec twice, and linphonec baresip: each call is proven, its BYE ends it.
fn phones(stage: &Stage) -> Result<()> {
    let server = Server::start(stage, Wanted { auth: ONCE, ..Wanted::default() }, &[])?;
    server.add_user("alice")?;
    server.add_user("carol")?;
    let mut alice =
        baresip::Phone::start(stage, Line::at_server("alice", 440.0, server.port, Transport::Udp))?;
    let mut carol =
        linphone::Phone::start(stage, Line::at_server("carol", 1000.0, server.port, Transport::Udp))?;
    alice.registered()?;
    carol.registered()?;
    server.expect_registered(["alice", "carol"].into_iter(), true)?;
    for _ in 0..2 {
        call(&mut alice, &mut carol, "sip:carol@example.org").context("baresip calls linphonec")?;
    }
    call(&mut carol, &mut alice, "sip:alice@example.org").context("linphonec calls baresip")
}

fn call(caller: &mut impl Softphone, callee: &mut impl Softphone, uri: &str) -> Result<()> {
    caller.dial(uri)?;
    callee.answer()?;
    caller.established()?;
    callee.established()?;
    caller.hang_up()?;
    callee.ended()
}

fn calls(stage: &Stage, auth: &'static str) -> Result<()> {
    Play { stage, transport: Transport::Udp, digest: true }.answered(Mode::Stateful, auth)
}

/// SIPp registers, and calls with SDP, with `auth-int` if it chooses that from the offer.
fn auth_int(stage: &Stage) -> Result<()> {
    calls(stage, AUTH_INT)?;
    let messages = std::fs::read_to_string(stage.path("caller.messages"))?;
    if !messages.contains("qop=auth-int") {
        bail!("SIPp chose qop=auth, so that nothing was tested");
    }
    Ok(())
}
