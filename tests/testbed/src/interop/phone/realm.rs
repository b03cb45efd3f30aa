//! The phone at a registrar whose realm is not its domain: Kamailio with the realm of a default Asterisk.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::super::server::{Server, Wanted};
use super::super::{Scenario, Stage, Transport};
use crate::process::Process;

/// Over UDP and TCP.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario = |transport: Transport| {
        let name = format!("phone/realm-of-kamailio/{}", transport.name());
        let mut scenario = Scenario::new(name, move |stage: &Stage| calls(stage, transport));
        scenario.reference = false;
        scenario
    };
    Transport::ALL.map(scenario).into()
}

/// Both phones register. Calls are challenged, and authenticated with the learnt realm, the pinned one, and
/// no other.
fn calls(stage: &Stage, transport: Transport) -> Result<()> {
    let server = Server::start_reference(stage, Wanted { realm: REALM, ..Wanted::default() })?;
    let address = format!("127.0.0.1:{}", server.port);
    let answer = ["answer", "--as", "sip:bob@example.org", "--register", "--count", "2"];
    let bob = phone(stage, transport, ("bob", "bob"), &address, &answer)?;
    bob.wait_for_output("ready")?;
    let call = ["call", "sip:bob@example.org", "--from", "sip:alice@example.org", "--duration", "1"];
    for (name, more, is_answered) in [
        ("learnt", &["--register"][..], true),
        ("pinned", &["--realm", REALM], true),
        ("unknown", &[], false),
    ] {
        let alice = phone(stage, transport, (name, "alice"), &address, &[&call[..], more].concat())?;
        let status = alice.wait()?;
        let output = alice.output();
        let printed = alice.printed_json()?;
        stage.keep_text(&printed.to_string(), &format!("{name}.json"))?;
        ensure!(output.contains(" SIP/2.0 407 "), "{name}: the call was not challenged");
        ensure!(status.success() == is_answered, "{name}: {status}: {printed}");
        if is_answered {
            ensure!(printed["result"] == "answered", "{name}: {printed}");
        } else {
            let reason = printed["reason"].as_str().unwrap_or_default();
            ensure!(printed["status"] == 407 && reason.contains("--realm \"asterisk\""), "{name}: {printed}");
        }
    }
    bob.succeeds().map(|_| ())
}

/// A phone of Ringway with the server; `name` is that of its files.
fn phone(
    stage: &Stage,
    transport: Transport,
    (name, user): (&str, &str),
    server: &str,
    arguments: &[&str],
) -> Result<Process> {
    let program = stage.ringway.program().context("only Ringway's program can run this scenario")?;
    let mut command = Command::new(program);
    command.args(arguments).args(["--server", server, "--transport", transport.name()]);
    command.args(["--bind", "127.0.0.1:0", "--password-stdin", "--trace", "--json"]);
    let mut running = Process::start(name, &mut command, &stage.folder)?;
    running.type_line(&format!("secret-{user}"))?;
    running.close_input();
    Ok(running)
}

const REALM: &str = "asterisk";
