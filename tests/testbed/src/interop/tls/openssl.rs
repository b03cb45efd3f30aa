//! openssl as a client of the server by TLS and, beside the phone, by DTLS 1.2, and as a server that the phone and the
//! server dial.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::super::certificates::{Authority, CA_FILE, Certificate, Issuer};
use super::super::server::{Server, Wanted};
use super::super::{Scenario, Stage, Transport};
use crate::process::{Process, TCP, await_listener, free_port};

pub(super) fn scenarios() -> Vec<Scenario> {
    let scenario =
        |name: &str, body: fn(&Stage) -> Result<()>| Scenario::new(format!("tls/openssl/{name}"), body);
    vec![
        scenario("versions", versions),
        scenario("resumption", resumption),
        scenario("mutual", mutual),
        scenario("dialled-by-phone", dialled_by_phone),
        scenario("dialled-by-server", dialled_by_server),
    ]
}

/// A client with TLS 1.3 and one with 1.2 are answered; one with 1.1 is refused with one line in the log.
fn versions(stage: &Stage) -> Result<()> {
    let mut server = server(stage, "")?;
    for version in ["-tls1_3", "-tls1_2"] {
        expect_answer(&client(stage, &server, version, &[version])?, version)?;
    }
    let refused = client(stage, &server, "old", &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"])?;
    ensure!(!refused.contains(ANSWER), "a client with TLS 1.1 was answered: {refused}");
    expect_refusals(&mut server, 1)?;
    let counters = server.counters()?;
    ensure!(counters.get("tls_accepted_full")? == 2, "not two full handshakes");
    let failed = counters.get("tls_failed_parameters")? + counters.get("tls_failed_protocol")?;
    ensure!(failed == 1, "{failed} failed handshakes are counted, not 1");
    Ok(())
}

/// A second connection with the session of the first is resumed.
fn resumption(stage: &Stage) -> Result<()> {
    let server = server(stage, "")?;
    for version in ["-tls1_3", "-tls1_2"] {
        let session = format!("session{version}.pem");
        let first = client(stage, &server, &format!("first{version}"), &[version, "-sess_out", &session])?;
        expect_answer(&first, version)?;
        let second = client(stage, &server, &format!("second{version}"), &[version, "-sess_in", &session])?;
        expect_answer(&second, version)?;
        ensure!(second.contains("Reused, TLSv1"), "{version}: openssl began a new session: {second}");
    }
    let counters = server.counters()?;
    let (full, resumed) = (counters.get("tls_accepted_full")?, counters.get("tls_accepted_resumed")?);
    ensure!((full, resumed) == (2, 2), "{full} full and {resumed} resumed handshakes, not 2 and 2");
    Ok(())
}

/// With `client_auth = "required"` only a client with a certificate of the named authority is answered.
fn mutual(stage: &Stage) -> Result<()> {
    let mut server = server(stage, "client_auth = \"required\"\nclient_ca = \"ca.pem\"\n")?;
    let authority = Authority::of(stage);
    authority.issue(Certificate { name: "client", ..Certificate::SERVER })?;
    authority.issue(Certificate { name: "stranger", issuer: Issuer::Itself, ..Certificate::SERVER })?;
    for version in ["-tls1_3", "-tls1_2"] {
        let with = |name: &str| -> Result<String> {
            let (file, key) = (format!("{name}.pem"), format!("{name}-key.pem"));
            client(stage, &server, &format!("{name}{version}"), &[version, "-cert", &file, "-key", &key])
        };
        expect_answer(&with("client")?, version)?;
        let none = client(stage, &server, &format!("none{version}"), &[version])?;
        ensure!(!none.contains(ANSWER), "{version}: a client without a certificate was answered");
        let stranger = with("stranger")?;
        ensure!(!stranger.contains(ANSWER), "{version}: a client with its own certificate was answered");
    }
    expect_refusals(&mut server, 4)?;
    let failed = server.counters()?.get("tls_failed_certificate")?;
    ensure!(failed == 4, "{failed} failed certificates are counted, not 4");
    Ok(())
}

/// The phone calls through a server with each certificate: only the good one gets the INVITE.
fn dialled_by_phone(stage: &Stage) -> Result<()> {
    let program = stage.ringway.program().context("only Ringway's program can run this scenario")?;
    let authority = Authority::create(&stage.folder)?;
    for (certificate, reason) in CERTIFICATES {
        let (dialled, port) = listening(stage, &authority, certificate)?;
        let mut command = Command::new(program);
        command.args(["call", "sip:bob@example.org", "--from", "sip:alice@example.org"]);
        command.args(["--server", &format!("127.0.0.1:{port}"), "--transport", "tls", "--ca", CA_FILE]);
        command.args(["--bind", "127.0.0.1:0"]);
        let phone = Process::start(&format!("phone-{}", certificate.name), &mut command, &stage.folder)?;
        let Some(reason) = reason else {
            dialled.wait_for_output("INVITE sip:bob@example.org").context("the good certificate")?;
            continue;
        };
        let status = phone.wait()?;
        let said = phone.output();
        ensure!(!status.success(), "{}: the call succeeded: {said}", certificate.name);
        let lines: Vec<_> = said.lines().filter(|line| line.contains(reason)).collect();
        ensure!(lines.len() == 1, "{}: not one line says \"{reason}\": {said}", certificate.name);
        ensure!(!dialled.output().contains("INVITE"), "{}: it got the INVITE", certificate.name);
    }
    Ok(())
}

/// The same for the server, which forwards a call to a permanent contact.
fn dialled_by_server(stage: &Stage) -> Result<()> {
    let program = stage.ringway.program().context("only Ringway's program can run this scenario")?;
    let mut server = server(stage, "")?;
    let authority = Authority::of(stage);
    for (certificate, reason) in CERTIFICATES {
        let (dialled, port) = listening(stage, &authority, certificate)?;
        server.add_user(certificate.name)?;
        server.bind(certificate.name, &format!("sip:gateway@127.0.0.1:{port};transport=tls"))?;
        let callee = format!("sip:{}@example.org", certificate.name);
        let mut command = Command::new(program);
        command.args(["call", &callee, "--from", "sip:alice@example.org", "--password-stdin"]);
        command.args(["--server", &format!("127.0.0.1:{}", server.port), "--bind", "127.0.0.1:0"]);
        let mut phone = Process::start(&format!("phone-{}", certificate.name), &mut command, &stage.folder)?;
        phone.type_line("secret-alice")?;
        phone.close_input();
        let Some(reason) = reason else {
            dialled.wait_for_output("INVITE sip:gateway@127.0.0.1").context("the good certificate")?;
            continue;
        };
        let status = phone.wait()?;
        ensure!(!status.success(), "{}: the call succeeded: {}", certificate.name, phone.output());
        let lines = server.log_lines(&format!("peer=127.0.0.1:{port}"), 1)?;
        let is_clear = |line: &String| line.contains("TLS connection failed") && line.contains(reason);
        ensure!(lines.len() == 1 && lines.iter().all(is_clear), "{}: log: {lines:#?}", certificate.name);
        ensure!(!dialled.output().contains("INVITE"), "{}: it got the INVITE", certificate.name);
    }
    let failed = server.counters()?.get("tls_failed_certificate")?;
    ensure!(failed == 3, "{failed} failed certificates are counted, not 3");
    Ok(())
}

/// A server with digest and the user alice.
pub(super) fn server(stage: &Stage, lines: &'static str) -> Result<Server> {
    Authority::create(&stage.folder)?.issue(Certificate::SERVER)?;
    let users = ["alice", "bob"].map(|name| (name.to_owned(), format!("secret-{name}")));
    Server::start(stage, Wanted { tls: Some(lines), ..Wanted::default() }, &users)
}

/// Starts `openssl s_server` with a certificate.
fn listening(stage: &Stage, authority: &Authority, certificate: Certificate) -> Result<(Process, u16)> {
    authority.issue(certificate)?;
    let (name, port) = (certificate.name, free_port()?);
    let mut command = Command::new("openssl");
    command.args(["s_server", "-accept", &format!("127.0.0.1:{port}"), "-cert", &format!("{name}.pem")]);
    command.args(["-key", &format!("{name}-key.pem")]);
    let running = Process::start(name, &mut command, &stage.folder)?;
    await_listener(port, TCP)?;
    Ok((running, port))
}

/// Output of `openssl s_client`, which verifies the server, sends OPTIONS and waits for the end of the connection.
pub(super) fn client(stage: &Stage, server: &Server, name: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("openssl");
    let address = format!("127.0.0.1:{}", server.port_of(Transport::Tls));
    command.args(["s_client", "-connect", &address, "-CAfile", CA_FILE, "-verify_return_error"]);
    command.args(["-verify_ip", "127.0.0.1", "-ign_eof"]).args(arguments);
    let mut running = Process::start(&format!("client{name}"), &mut command, &stage.folder)?;
    // A refused client may have ended already.
    let _ = running.type_keys(OPTIONS);
    running.close_input();
    running.wait_for(Duration::from_secs(30))?;
    Ok(running.output())
}

pub(super) fn expect_answer(output: &str, what: &str) -> Result<()> {
    if output.contains("Verify return code: 0 (ok)") && output.contains(ANSWER) {
        return Ok(());
    }
    bail!("{what}: openssl got no answer over a verified connection: {output}")
}

/// Fails unless the log has one line for each of `count` refused clients.
fn expect_refusals(server: &mut Server, count: usize) -> Result<()> {
    let lines = server.log_lines("refused TLS connection", count)?;
    ensure!(lines.len() == count, "{} lines in the log, not {count}: {lines:#?}", lines.len());
    Ok(())
}

pub(super) fn dtls_scenarios() -> Vec<Scenario> {
    vec![Scenario::new("tls/openssl/dtls", registers_and_asks)]
}

/// openssl verifies the server, is challenged and answered; the phone is answered by the same listener; both associations end.
fn registers_and_asks(stage: &Stage) -> Result<()> {
    let program = stage.ringway.program().context("only Ringway's program can run this scenario")?;
    Authority::create(&stage.folder)?.issue(Certificate::SERVER)?;
    let users = [("alice".to_owned(), "secret-alice".to_owned())];
    let wanted = Wanted { tls: Some(""), dtls: true, ..Wanted::default() };
    let server = Server::start(stage, wanted, &users)?;
    let address = format!("127.0.0.1:{}", server.port_of(Transport::Tls));
    for (name, request, answer) in [
        ("register", request("REGISTER"), "SIP/2.0 401 Unauthorized"),
        ("options", request("OPTIONS"), "SIP/2.0 200 OK"),
    ] {
        let mut command = Command::new("openssl");
        command.args([
            "s_client",
            "-dtls1_2",
            "-connect",
            &address,
            "-CAfile",
            CA_FILE,
            "-verify_return_error",
        ]);
        // The first letter of a request is none of its commands.
        command.args(["-verify_ip", "127.0.0.1", "-nocommands"]);
        let mut client = Process::start(name, &mut command, &stage.folder)?;
        client.type_keys(&request)?;
        client.wait_for_output(answer)?;
        ensure!(client.output().contains("Verify return code: 0 (ok)"), "{name}: {}", client.output());
        // openssl sends close_notify at the end of its input.
        client.close_input();
        client.wait()?;
    }
    let mut command = Command::new(program);
    command.args([
        "options",
        "sip:example.org",
        "--server",
        &address,
        "--transport",
        "dtls",
        "--ca",
        CA_FILE,
    ]);
    let phone = Process::start("phone", &mut command, &stage.folder)?;
    ensure!(phone.wait()?.success(), "the phone was not answered: {}", phone.output());
    let counters = server.counters()?;
    let counts = ["dtls_cookies_sent", "dtls_accepted", "dtls_failed", "associations_open"]
        .map(|name| counters.get(name));
    let [sent, accepted, failed, open] = counts;
    let counts = (sent?, accepted?, failed?, open?);
    ensure!(counts == (3, 3, 0, 0), "cookies, accepted, failed and open are {counts:?}, not (3, 3, 0, 0)");
    Ok(())
}

fn request(method: &str) -> String {
    format!(
        "{method} sip:example.org SIP/2.0\r\nVia: SIP/2.0/DTLS-UDP 127.0.0.1:9;branch=z9hG4bK{method};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:alice@example.org>;tag=1\r\nTo: <sip:alice@example.org>\r\n\
         Call-ID: {method}\r\nCSeq: 1 {method}\r\nContent-Length: 0\r\n\r\n"
    )
}

const ANSWER: &str = "SIP/2.0 200 OK";

/// The server closes the connection after the second message, which is none.
const OPTIONS: &str = "OPTIONS sip:example.org SIP/2.0\r\nVia: SIP/2.0/TLS 127.0.0.1:9;branch=z9hG4bKx;rport\r\n\
    Max-Forwards: 70\r\nFrom: <sip:a@b.invalid>;tag=1\r\nTo: <sip:example.org>\r\nCall-ID: o\r\n\
    CSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\nthis is no message\r\n\r\n";

/// Certificates of the dialled server, and the reason why each is refused.
const CERTIFICATES: [(Certificate, Option<&str>); 4] = [
    (
        Certificate {
            name: "elsewhere",
            alternative_names: "DNS:elsewhere.example.org,IP:127.0.0.2",
            ..Certificate::SERVER
        },
        Some("not valid for the host"),
    ),
    (Certificate { name: "expired", days: -1, ..Certificate::SERVER }, Some("the certificate has expired")),
    (
        Certificate { name: "self-signed", issuer: Issuer::Itself, ..Certificate::SERVER },
        Some("not trusted here"),
    ),
    (Certificate { name: "good", ..Certificate::SERVER }, None),
];
