//! Kamailio as a neighbour over TLS: each side verifies the other, and one connection carries all calls.

use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::super::certificates::{Authority, CA_FILE, Certificate, Issuer};
use super::super::server::{Server, await_sip, kamailio};
use super::super::{Scenario, Stage, Transport};
use super::openssl;
use crate::process::{Process, free_port};

pub(super) fn scenarios() -> Vec<Scenario> {
    let scenario =
        |name: &str, body: fn(&Stage) -> Result<()>| Scenario::new(format!("tls/kamailio/{name}"), body);
    vec![
        scenario("inbound", inbound),
        scenario("outbound", outbound),
        scenario("wrong-certificate", wrong_certificate),
    ]
}

/// A phone of Kamailio calls a user of Ringway twice; Kamailio's connection to Ringway carries both calls.
fn inbound(stage: &Stage) -> Result<()> {
    let server = openssl::server(stage, "")?;
    let neighbour = Neighbour::start(stage, &server, Certificate::SERVER)?;
    let bob = answering(stage, "bob", "sip:bob@example.org", server.port_of(Transport::Tls))?;
    for call in ["first", "second"] {
        let from = "sip:carol@127.0.0.1";
        expect_answered(&called(stage, call, (from, "sip:bob@example.org"), neighbour.tls_port)?)?;
    }
    bob.succeeds()?;
    let counters = server.counters()?;
    let accepted = counters.get("tls_accepted_full")? + counters.get("tls_accepted_resumed")?;
    ensure!(accepted == 2, "{accepted} connections were accepted, not one of bob and one of Kamailio");
    Ok(())
}

/// A user of Ringway calls a phone of Kamailio twice, by a permanent contact; Ringway dials one connection.
fn outbound(stage: &Stage) -> Result<()> {
    let server = openssl::server(stage, "")?;
    let neighbour = Neighbour::start(stage, &server, Certificate::SERVER)?;
    server.add_user("carol")?;
    server.bind("carol", &format!("sip:carol@127.0.0.1:{};transport=tls", neighbour.tls_port))?;
    let carol = answering(stage, "carol", "sip:carol@127.0.0.1", neighbour.tls_port)?;
    for call in ["first", "second"] {
        let from = "sip:alice@example.org";
        let port = server.port_of(Transport::Tls);
        expect_answered(&called(stage, call, (from, "sip:carol@example.org"), port)?)?;
    }
    carol.succeeds()?;
    let counters = server.counters()?;
    let dialled = counters.get("tls_dialled_full")? + counters.get("tls_dialled_resumed")?;
    ensure!(dialled == 1, "{dialled} connections were dialled, not 1");
    Ok(())
}

/// Calls through a Kamailio with a certificate of an unknown authority fail, with one line in the log.
fn wrong_certificate(stage: &Stage) -> Result<()> {
    let mut server = openssl::server(stage, "")?;
    let wrong = Certificate { name: "kamailio", issuer: Issuer::Itself, ..Certificate::SERVER };
    Authority::of(stage).issue(wrong)?;
    let neighbour = Neighbour::start(stage, &server, wrong)?;
    server.add_user("carol")?;
    server.bind("carol", &format!("sip:carol@127.0.0.1:{};transport=tls", neighbour.tls_port))?;
    let uris = ("sip:alice@example.org", "sip:carol@example.org");
    let result = called(stage, "refused", uris, server.port_of(Transport::Tls))?;
    ensure!(result["result"] != "answered", "the call was answered: {result}");
    let lines = server.log_lines("TLS connection failed", 1)?;
    let is_clear = |line: &String| line.contains("not trusted here");
    ensure!(lines.len() == 1 && lines.iter().all(is_clear), "not one clear line in the log: {lines:#?}");
    let failed = server.counters()?.get("tls_failed_certificate")?;
    ensure!(failed == 1, "{failed} failed certificates are counted, not 1");
    Ok(())
}

/// A running Kamailio.
struct Neighbour {
    _running: Process,
    tls_port: u16,
}

impl Neighbour {
    fn start(stage: &Stage, server: &Server, certificate: Certificate) -> Result<Self> {
        let port = free_port()?;
        let (tls_port, name) = (port + 1, certificate.name);
        let path = |name: String| stage.path(&name).display().to_string();
        let words = [
            ("@PORT@", port.to_string()),
            ("@TLS@", tls_port.to_string()),
            ("@RINGWAY@", server.port_of(Transport::Tls).to_string()),
            ("@CERTIFICATE@", path(format!("{name}.pem"))),
            ("@KEY@", path(format!("{name}-key.pem"))),
            ("@CA@", path(CA_FILE.to_owned())),
        ];
        let config = stage.path("kamailio.cfg");
        stage.fill("kamailio/tls.cfg", &words, &config)?;
        let running = Process::start("kamailio", &mut kamailio(&config), &stage.folder)?;
        await_sip(Ipv4Addr::LOCALHOST, port).context("Kamailio; is kamailio-tls-modules installed?")?;
        Ok(Self { _running: running, tls_port })
    }
}

/// Starts Ringway's phone, which registers at a server and answers two calls.
fn answering(stage: &Stage, name: &str, aor: &str, server: u16) -> Result<Process> {
    let phone = phone(stage, name, &["answer", "--as", aor, "--register", "--count", "2"], server)?;
    phone.wait_for_output("registered for")?;
    Ok(phone)
}

/// Result of a call by Ringway's phone through a server, from and to these URIs.
fn called(stage: &Stage, name: &str, (from, to): (&str, &str), server: u16) -> Result<Value> {
    let phone = phone(stage, name, &["call", to, "--from", from, "--duration", "1"], server)?;
    phone.wait()?;
    phone.printed_json()
}

fn phone(stage: &Stage, name: &str, arguments: &[&str], server: u16) -> Result<Process> {
    let program = stage.ringway.program().context("only Ringway's program can run this scenario")?;
    let mut command = Command::new(program);
    command.args(arguments).args(["--server", &format!("127.0.0.1:{server}"), "--transport", "tls"]);
    command.args(["--ca", CA_FILE, "--bind", "127.0.0.1:0", "--json", "--password-stdin"]);
    let user = arguments.iter().find_map(|argument| argument.strip_prefix("sip:")?.split('@').next());
    let caller = arguments.iter().position(|argument| *argument == "--from");
    let caller = caller.and_then(|at| arguments.get(at + 1)?.strip_prefix("sip:")?.split('@').next());
    let mut running = Process::start(name, &mut command, &stage.folder)?;
    running.type_line(&format!("secret-{}", caller.or(user).unwrap_or_default()))?;
    running.close_input();
    Ok(running)
}

fn expect_answered(result: &Value) -> Result<()> {
    ensure!(result["result"] == "answered", "the call was not answered: {result}");
    Ok(())
}
