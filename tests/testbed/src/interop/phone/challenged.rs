//! Called phones that challenge their callers (RFC 3261 §22.2): `ringway answer --challenge`. The phone at a registrar
//! whose realm is not its domain: Kamailio with the realm of a default Asterisk.

use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::super::server::{Server, Wanted};
use super::super::softphone::{Keys, Line, Softphone};
use super::super::{Scenario, Stage, Transport, baresip};
use crate::process::{Process, free_port};

/// Ringway's phone calls, directly and through Kamailio; baresip calls, which answers every realm with its account's password.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for transport in Transport::ALL {
        let scenario = |name: &str, body: fn(&Stage, Transport) -> Result<()>| {
            let name = format!("phone/challenged/{name}/{}", transport.name());
            let mut scenario = Scenario::new(name, move |stage: &Stage| body(stage, transport));
            scenario.reference = false;
            scenario
        };
        all.push(scenario("ringway", direct));
        all.push(scenario("ringway-by-kamailio", by_kamailio));
        all.push(scenario("baresip", by_baresip));
        all.push(scenario("baresip-wrong-password", by_baresip_with_wrong_password));
    }
    all
}

fn direct(stage: &Stage, transport: Transport) -> Result<()> {
    let (mut bob, uri) = bob_directly(stage, transport)?;
    call(stage, transport, "unknown", &[&uri], None)?.expect(401)?;
    call(stage, transport, "wrong", &[&uri], Some(("wrong", REALM)))?.expect(401)?;
    call(stage, transport, "right", &[&uri], Some(("secret-alice", REALM)))?.expect(200)?;
    expect_proven(&mut bob)
}

/// Kamailio challenges with 407, and bob behind it with 401: each gets its own password.
fn by_kamailio(stage: &Stage, transport: Transport) -> Result<()> {
    let server = Server::start_reference(stage, Wanted::default())?;
    let address = format!("127.0.0.1:{}", server.port);
    let mut command = ringway(stage)?;
    command.args(["answer", "--as", "sip:bob@example.org", "--register", "--server", &address]);
    command.args(["--bind", "127.0.0.1:0", "--password-stdin"]);
    let mut bob = challenging(stage, transport, command)?;
    bob.type_line("secret-bob")?;
    bob.wait_for_output("ready")?;
    let realm = "bob@example.org";
    let arguments = ["sip:bob@example.org", "--server", &address, "--password-stdin"];
    call(stage, transport, "unknown", &arguments, None)?.expect(401)?;
    call(stage, transport, "right", &arguments, Some(("secret-alice", realm)))?.expect(200)?;
    expect_proven(&mut bob)
}

fn by_baresip(stage: &Stage, transport: Transport) -> Result<()> {
    let (mut bob, uri) = bob_directly(stage, transport)?;
    let more = ";auth_user=alice;auth_pass=secret-alice";
    let mut alice = baresip::Phone::start_with(stage, line(transport), more)?;
    alice.dial(&uri)?;
    alice.established()?;
    alice.ended().context("alice")?;
    ensure!(alice.trace()?.contains("SIP/2.0 401 "), "baresip was not challenged");
    expect_proven(&mut bob)
}

fn by_baresip_with_wrong_password(stage: &Stage, transport: Transport) -> Result<()> {
    let (bob, uri) = bob_directly(stage, transport)?;
    let more = ";auth_user=alice;auth_pass=wrong";
    let mut alice = baresip::Phone::start_with(stage, line(transport), more)?;
    alice.dial(&uri)?;
    alice.ended().context("alice")?;
    bob.wait_for_output("gave a wrong password of alice")?;
    bob.stop();
    Ok(())
}

/// Starts bob without a server, who accepts alice's password; returns his address too.
fn bob_directly(stage: &Stage, transport: Transport) -> Result<(Process, String)> {
    let port = free_port()?;
    let mut command = ringway(stage)?;
    command.args(["answer", "--as", "sip:bob@127.0.0.1", "--bind", &format!("127.0.0.1:{port}")]);
    let bob = challenging(stage, transport, command)?;
    bob.wait_for_output("ready")?;
    let parameter = match transport {
        Transport::Udp => "",
        Transport::Tcp => ";transport=tcp",
        Transport::Tls => ";transport=tls",
    };
    Ok((bob, format!("sip:bob@127.0.0.1:{port}{parameter}")))
}

fn challenging(stage: &Stage, transport: Transport, mut command: Command) -> Result<Process> {
    let file = private(stage, "callers.csv", "username,password\nalice,secret-alice\n")?;
    command.arg("--challenge").arg(file).args(["--transport", transport.name(), "--count", "1"]);
    command.args(["--duration", "2", "--srtp", "none", "--trace", "--json"]);
    Process::start("bob", &mut command, &stage.folder)
}

/// Result of a call of Ringway's phone.
struct Called {
    name: &'static str,
    printed: Value,
}

impl Called {
    fn expect(&self, status: u16) -> Result<()> {
        let result = if status == 200 { "answered" } else { "rejected" };
        let Self { name, printed } = self;
        ensure!(printed["status"] == status && printed["result"] == result, "{name}: {printed}");
        Ok(())
    }
}

/// Alice calls, with a password for a realm of the called phone or without.
fn call(
    stage: &Stage,
    transport: Transport,
    name: &'static str,
    arguments: &[&str],
    peer: Option<(&str, &str)>,
) -> Result<Called> {
    let mut command = ringway(stage)?;
    command.arg("call").args(arguments).args(["--from", "sip:alice@example.org", "--srtp", "none"]);
    command.args(["--bind", "127.0.0.1:0", "--transport", transport.name(), "--trace", "--json"]);
    if let Some((password, realm)) = peer {
        let file = private(stage, &format!("{name}.password"), &format!("{password}\n"))?;
        command.args(["--peer-realm", realm, "--peer-password-file"]).arg(file);
    }
    let mut alice = Process::start(name, &mut command, &stage.folder)?;
    alice.type_line("secret-alice")?;
    alice.close_input();
    alice.wait()?;
    Ok(Called { name, printed: alice.printed_json()? })
}

fn expect_proven(bob: &mut Process) -> Result<()> {
    let output = bob.succeeds()?;
    ensure!(output.contains("has proved the password of alice"), "bob says nothing of a password: {output}");
    Ok(())
}

/// A file in the stage's folder that only its owner may read.
fn private(stage: &Stage, name: &str, text: &str) -> Result<PathBuf> {
    let path = stage.path(name);
    std::fs::write(&path, text)?;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600))?;
    Ok(path)
}

fn ringway(stage: &Stage) -> Result<Command> {
    stage.ringway.program().map(Command::new).context("only Ringway's program can run this scenario")
}

const fn line(transport: Transport) -> Line<'static> {
    Line {
        user: "alice",
        host: Ipv4Addr::LOCALHOST,
        server_host: Ipv4Addr::LOCALHOST,
        server: None,
        transport,
        keys: Keys::None,
        tone_hz: 1000.0,
        seconds: 10,
    }
}

/// Over UDP and TCP.
pub(crate) fn realm_scenarios() -> Vec<Scenario> {
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
    let server = Server::start_reference(stage, Wanted { realm: ASTERISKS_REALM, ..Wanted::default() })?;
    let address = format!("127.0.0.1:{}", server.port);
    let answer = ["answer", "--as", "sip:bob@example.org", "--register", "--count", "2"];
    let bob = phone(stage, transport, ("bob", "bob"), &address, &answer)?;
    bob.wait_for_output("ready")?;
    let call = ["call", "sip:bob@example.org", "--from", "sip:alice@example.org", "--duration", "1"];
    for (name, more, is_answered) in [
        ("learnt", &["--register"][..], true),
        ("pinned", &["--realm", ASTERISKS_REALM], true),
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

/// Realm of a bob without a server.
const REALM: &str = "bob@127.0.0.1";
const ASTERISKS_REALM: &str = "asterisk";
