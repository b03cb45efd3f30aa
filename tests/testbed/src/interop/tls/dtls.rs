//! openssl as a client by DTLS 1.2, beside the phone.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::super::certificates::{Authority, CA_FILE, Certificate};
use super::super::server::{Server, Wanted};
use super::super::{Scenario, Stage, Transport};
use crate::process::Process;

pub(super) fn scenarios() -> Vec<Scenario> {
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
