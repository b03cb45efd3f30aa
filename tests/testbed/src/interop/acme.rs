//! `cargo xtask interop --only operator/acme`: the server orders its certificate from pebble, the small directory of Let's Encrypt for
//! tests, by both challenges, renews it under an open connection, and keeps it without the directory.

use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ringway_test_support::eventually::holds;
use ringway_test_support::process::run_to_end;

use super::certificates::{Authority, CA_FILE, Certificate};
use super::cluster::{Redis, Shared};
use super::{Scenario, Stage};
use crate::process::{PATIENCE, Process, TCP, UDP, await_listener, free_port};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario = |name: &'static str| Scenario {
        reference: false,
        ..Scenario::new(format!("operator/acme/{name}"), move |stage: &Stage| order(stage, name))
    };
    let mut all: Vec<_> = ["http-01", "tls-alpn-01"].map(scenario).into();
    all.push(Scenario { reference: false, ..Scenario::new("operator/acme/cluster", nodes) });
    all
}

/// Two nodes: what one of them ordered both have, and a challenge that the directory sends to the one is answered for the other. The
/// certificate in Redis is encrypted; without Redis nothing is ordered.
fn nodes(stage: &Stage) -> Result<()> {
    let mut redis = Redis::single(stage)?;
    let url = redis.url(0);
    let (of_a, of_b) = (Ports::free(free_port()?)?, Ports::free(free_port()?)?);
    // The directory connects to node b.
    let (_dns, _directory) = directory(stage, &of_b)?;
    let of_a = Ports { directory: of_b.directory, ..of_a };
    let ca = stage.path(CA_FILE);
    let start = |name: &'static str, ports: &Ports| -> Result<(Stage, Process)> {
        let stage = stage.within(name)?;
        let listen = SocketAddrV4::new(Ipv4Addr::LOCALHOST, free_port()?);
        let shared = Shared { store: "", url: url.clone(), name, listen };
        let sections = shared.sections(&stage)?;
        let server = server_with(&stage, ports, "http-01", (&sections, &ca.display().to_string()))?;
        Ok((stage, server))
    };
    let (stage_b, b) = start("b", &of_b)?;
    b.wait_for_output("[tls.acme] certificate issued").context("the first order")?;
    let first = presented_after(&stage_b, &of_b, "")?;
    let (stage_a, a) = start("a", &of_a)?;
    a.wait_for_output("the certificate that another node ordered is used")?;
    ensure!(presented_after(&stage_a, &of_a, "")? == first, "node a has another certificate");
    ensure!(!a.output().contains("ordering"), "node a ordered too");
    // Every second order has a proof anew.
    let before = answered(&stage_b)?;
    let mut newest = first;
    for number in 2..=3 {
        renew(&stage_a)?;
        newest =
            presented_after(&stage_a, &of_a, &newest).with_context(|| format!("certificate {number}"))?;
        let is_same = || presented(&stage_b, &of_b).is_ok_and(|text| text == newest);
        ensure!(holds(PATIENCE, is_same), "node b does not have certificate {number}");
    }
    ensure!(answered(&stage_b)? > before, "node b answered no challenge of node a");
    ensure!(answered(&stage_a)? == 0, "node a was asked");
    let sealed = redis.value("rw:{00}:value:acme:*:certificate")?;
    ensure!(sealed.len() > 1000 && !sealed.contains("BEGIN"), "{} bytes are not encrypted", sealed.len());
    redis.kill_first();
    renew(&stage_a)?;
    a.wait_for_output("nothing is shared with other nodes, and nothing is ordered")?;
    ensure!(presented(&stage_a, &of_a)? == newest, "another certificate without Redis");
    b.stop();
    a.stop();
    Ok(())
}

/// Challenges that a server answered by HTTP.
fn answered(stage: &Stage) -> Result<u64> {
    let program = stage.ringway.program().context("only Ringway's program can run this scenario")?;
    let mut command = Command::new(program);
    command.current_dir(&stage.folder).args(["show", "stats", "--json", "--config", "ringway.toml"]);
    let stats: serde_json::Value = serde_json::from_str(&run_to_end(&mut command, "")?)?;
    stats["acme_http_answered"].as_u64().with_context(|| format!("no count in {stats}"))
}

impl Ports {
    fn free(directory: u16) -> Result<Self> {
        let (sip, tls, admin, http) = (free_port()?, free_port()?, free_port()?, free_port()?);
        Ok(Self { directory, sip, tls, admin, http })
    }
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
    let ports = Ports::free(free_port()?)?;
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
    server_with(stage, ports, challenge, ("[store]\nurl = \"memory:\"\n", CA_FILE))
}

fn server_with(
    stage: &Stage,
    ports: &Ports,
    challenge: &str,
    (sections, ca): (&str, &str),
) -> Result<Process> {
    let program = stage.ringway.program().context("only Ringway's program can run this scenario")?;
    let Ports { directory, sip, tls, admin, http } = ports;
    let config = format!(
        "domains = [\"example.org\"]\nlisten = [\"udp:127.0.0.1:{sip}\", \"tls:127.0.0.1:{tls}\"]\n\
         {sections}[admin]\nlisten = \"127.0.0.1:{admin}\"\n\
         [tls.acme]\ndirectory = \"https://localhost:{directory}/dir\"\naccept_terms = true\n\
         contact = \"mailto:admin@example.org\"\nchallenge = \"{challenge}\"\nhttp_listen = \"127.0.0.1:{http}\"\n\
         tls_port = {tls}\nca = \"{ca}\"\n"
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
