//! `cargo xtask interop --only operator/acme`: the server orders its certificate from pebble, the small directory of Let's Encrypt for
//! tests, by both challenges, renews it under an open connection, and keeps it without the directory.

use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ringway_test_support::eventually::holds;
use ringway_test_support::process::run_to_end;

use super::certificates::{Authority, CA_FILE, Certificate};
use super::{Scenario, Stage};
use crate::process::{PATIENCE, Process, TCP, UDP, await_listener, free_port};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario = |name: &'static str| Scenario {
        reference: false,
        ..Scenario::new(format!("operator/acme/{name}"), move |stage: &Stage| order(stage, name))
    };
    ["http-01", "tls-alpn-01"].map(scenario).into()
}

/// Ports of the programs.
struct Ports {
    directory: u16,
    sip: u16,
    tls: u16,
    admin: u16,
    http: u16,
}

fn order(stage: &Stage, challenge: &str) -> Result<()> {
    let ports = Ports {
        directory: free_port()?,
        sip: free_port()?,
        tls: free_port()?,
        admin: free_port()?,
        http: free_port()?,
    };
    let (dns, directory) = directory(stage, &ports)?;
    let mut server = server(stage, &ports, challenge)?;
    server.wait_for_output("[tls.acme] certificate issued").context("the first order")?;
    let first = presented_after(stage, &ports, "")?;
    ensure!(
        first.contains("Pebble Intermediate") && first.contains("DNS:example.org"),
        "another one: {first}"
    );
    ensure!(
        TcpStream::connect(("127.0.0.1", ports.http)).is_err(),
        "the port of HTTP-01 is open without an order"
    );
    let mut phone = connection(stage, &ports)?;
    options(&mut phone, 1)?;
    // Every second order has a proof anew, the others have that of the first one.
    let mut before = first;
    for number in 2..=4 {
        renew(stage)?;
        before = presented_after(stage, &ports, &before).with_context(|| format!("certificate {number}"))?;
        options(&mut phone, number).context("the connection from before")?;
    }
    directory.stop();
    renew(stage)?;
    server
        .wait_for_output("no new certificate: the present one stays")
        .context("an order without a directory")?;
    ensure!(presented(stage, &ports)? == before, "another certificate without the directory");
    options(&mut phone, 9)?;
    // A restart has the certificate, and orders none.
    server.stop();
    server = self::server(stage, &ports, challenge)?;
    ensure!(presented(stage, &ports)? == before, "another certificate after a restart");
    ensure!(!server.output().contains("ordering"), "an order after a restart");
    drop(dns);
    Ok(())
}

/// Starts pebble, and the DNS server that it asks: all names are this machine.
fn directory(stage: &Stage, ports: &Ports) -> Result<(Process, Process)> {
    let authority = Authority::create(&stage.folder)?;
    authority.issue(Certificate {
        name: "directory",
        alternative_names: "DNS:localhost",
        ..Certificate::SERVER
    })?;
    let config = format!(
        r#"{{"pebble": {{"listenAddress": "127.0.0.1:{}", "managementListenAddress": "127.0.0.1:{}", "certificate": "directory.pem",
            "privateKey": "directory-key.pem", "httpPort": {}, "tlsPort": {}, "ocspResponderURL": "",
            "externalAccountBindingRequired": false, "certificateValidityPeriod": 7776000}}}}"#,
        ports.directory,
        ports.directory + 1,
        ports.http,
        ports.tls
    );
    std::fs::write(stage.path("pebble.json"), config)?;
    let dns_port = free_port()?;
    let mut command = Command::new("pebble-challtestsrv");
    command.args([
        "-defaultIPv4",
        "127.0.0.1",
        "-defaultIPv6",
        "",
        "-http01",
        "",
        "-https01",
        "",
        "-tlsalpn01",
        "",
    ]);
    command.args(["-dns01", &format!("127.0.0.1:{dns_port}")]);
    command.args(["-management", &format!("127.0.0.1:{}", dns_port + 1)]);
    let dns = Process::start("dns", &mut command, &stage.folder)?;
    await_listener(dns_port, UDP)?;
    let mut command = Command::new("pebble");
    command.args(["-config", "pebble.json", "-dnsserver", &format!("127.0.0.1:{dns_port}")]);
    command.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_WFE_NONCEREJECT", "0");
    let directory = Process::start("pebble", &mut command, &stage.folder)?;
    await_listener(ports.directory, TCP)?;
    Ok((dns, directory))
}

fn server(stage: &Stage, ports: &Ports, challenge: &str) -> Result<Process> {
    let program = stage.ringway.program().context("only Ringway's program can run this scenario")?;
    let Ports { directory, sip, tls, admin, http } = ports;
    let config = format!(
        "domains = [\"example.org\"]\nlisten = [\"udp:127.0.0.1:{sip}\", \"tls:127.0.0.1:{tls}\"]\n\
         [store]\nurl = \"memory:\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n\
         [tls.acme]\ndirectory = \"https://localhost:{directory}/dir\"\naccept_terms = true\n\
         contact = \"mailto:admin@example.org\"\nchallenge = \"{challenge}\"\nhttp_listen = \"127.0.0.1:{http}\"\n\
         tls_port = {tls}\nca = \"{CA_FILE}\"\n"
    );
    std::fs::write(stage.path("ringway.toml"), config)?;
    let mut check = Command::new(program);
    run_to_end(check.current_dir(&stage.folder).args(["check", "ringway.toml"]), "").context("the check")?;
    let mut command = Command::new(program);
    command.args(["serve", "--config", "ringway.toml"]);
    let server = Process::start("ringway", &mut command, &stage.folder)?;
    server.wait_for_output("ready ")?;
    Ok(server)
}

/// Makes the server order at once.
fn renew(stage: &Stage) -> Result<()> {
    let program = stage.ringway.program().context("only Ringway's program can run this scenario")?;
    let mut command = Command::new(program);
    command.current_dir(&stage.folder).args(["cert", "renew", "--config", "ringway.toml"]);
    run_to_end(&mut command, "").map(drop)
}

/// Issuer, serial number and names of the certificate that a new connection gets.
fn presented(stage: &Stage, ports: &Ports) -> Result<String> {
    let shell = format!(
        "openssl s_client -connect 127.0.0.1:{} -servername example.org </dev/null 2>/dev/null | \
         openssl x509 -noout -issuer -serial -ext subjectAltName",
        ports.tls
    );
    run_to_end(Command::new("sh").current_dir(&stage.folder).args(["-c", &shell]), "")
}

/// The same, once it is another one of the directory than `before`.
fn presented_after(stage: &Stage, ports: &Ports, before: &str) -> Result<String> {
    let is_new = |text: &str| text != before && text.contains("Pebble");
    ensure!(
        holds(PATIENCE, || presented(stage, ports).is_ok_and(|text| is_new(&text))),
        "no new certificate"
    );
    presented(stage, ports)
}

/// A TLS connection that stays open.
fn connection(stage: &Stage, ports: &Ports) -> Result<Process> {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &format!("127.0.0.1:{}", ports.tls), "-quiet"]);
    let phone = Process::start("phone", &mut command, &stage.folder)?;
    std::thread::sleep(Duration::from_millis(300));
    Ok(phone)
}

/// Sends OPTIONS over the connection, and waits for the answer.
fn options(phone: &mut Process, number: u32) -> Result<()> {
    phone.type_keys(&format!(
        "OPTIONS sip:example.org SIP/2.0\r\nVia: SIP/2.0/TLS 127.0.0.1:9;branch=z9hG4bK{number};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:a@b.invalid>;tag=1\r\nTo: <sip:example.org>\r\nCall-ID: o{number}\r\n\
         CSeq: {number} OPTIONS\r\nContent-Length: 0\r\n\r\n"
    ))?;
    phone.wait_for_output(&format!("CSeq: {number} OPTIONS"))
}
