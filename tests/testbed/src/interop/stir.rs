//! `cargo xtask interop --only operator/stir`: calls to and from a carrier with signed identities: Kamailio's module secsipid signs and
//! verifies, PyJWT verifies too, and the certificates come from an HTTPS server of openssl.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ringway_test_support::process::run_to_end;

use super::baresip::Phone;
use super::certificates::{Authority, CA_FILE, Certificate};
use super::server::{Server, Wanted, await_sip, kamailio};
use super::softphone::Softphone;
use super::trunk::{CARRIER, INBOUND, NUMBER, alice, gateway, host_of};
use super::{Scenario, Stage, Transport};
use crate::process::{Process, TCP, await_listener, free_port};

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![Scenario { reference: false, ..Scenario::new("operator/stir", signed_calls) }]
}

fn signed_calls(stage: &Stage) -> Result<()> {
    let mut gateway = gateway(stage, NUMBER, Transport::Udp)?;
    let (port, https_port) = (free_port()?, free_port()?);
    let url = format!("https://localhost:{https_port}/carrier.pem");
    let _https = certificates(stage, https_port)?;
    let server = Server::start_with(stage, Wanted::default(), &configuration(port))?;
    server.add_user("alice")?;
    let carrier = carrier(stage, (CARRIER, port), (server.port, &gateway), &url)?;
    let mut alice = alice(stage, &server)?;
    alice.dial(&format!("sip:{NUMBER}@example.org"))?;
    alice.established().context("the call that this server signs and secsipid verifies")?;
    gateway.established()?;
    alice.hang_up()?;
    gateway.ended()?;
    ensure!(server.counters()?.get("identities_signed")? == 1, "not one signed call");
    checked_by_pyjwt(stage, &carrier)?;
    for call in 2..=3 {
        gateway.dial(&format!("sip:{INBOUND}@{CARRIER}:{port}"))?;
        gateway.established_calls(call).context("the call that secsipid signs and this server verifies")?;
        alice.established_calls(call)?;
        std::thread::sleep(Duration::from_millis(300));
        gateway.hang_up()?;
        gateway.ended_calls(call)?;
    }
    let counters = server.counters()?;
    let verified = (counters.get("identities_verified")?, counters.get("signers_fetched")?);
    ensure!(verified == (2, 1), "(verified, fetched) = {verified:?}");
    ensure!(counters.get("signers_cached")? == 1, "the certificate is not cached");
    let other = INBOUND.replace("01", "02");
    gateway.dial(&format!("sip:{other}@{CARRIER}:{port}"))?;
    gateway.ended_calls(4).context("the call that is signed for another caller")?;
    let invalid = server.counters()?.get("identities_invalid")?;
    ensure!(invalid == 1, "{invalid} identities are invalid");
    Ok(())
}

/// Makes the certificates, and serves them over HTTPS.
fn certificates(stage: &Stage, port: u16) -> Result<Process> {
    let authority = Authority::create(&stage.folder)?;
    for name in ["own", "carrier"] {
        // A list with a provider's code (RFC 8226 §9).
        let alternative_names = "DNS:signer.example\n1.3.6.1.5.5.7.1.26=DER:3008a006160431323334";
        authority.issue(Certificate { name, alternative_names, ..Certificate::SERVER })?;
    }
    authority.issue(Certificate { alternative_names: "DNS:localhost", ..Certificate::SERVER })?;
    let mut command = Command::new("openssl");
    command.args(["ec", "-in", "carrier-key.pem", "-out", "carrier-sec1.pem"]).current_dir(&stage.folder);
    run_to_end(&mut command, "")?;
    let mut command = Command::new("openssl");
    command.args(["s_server", "-quiet", "-WWW", "-cert", "server.pem", "-key", "server-key.pem"]);
    command.args(["-accept", &port.to_string()]);
    let running = Process::start("https", &mut command, &stage.folder)?;
    await_listener(port, TCP)?;
    Ok(running)
}

fn configuration(port: u16) -> String {
    format!(
        "[stir]\nprivate_key = \"own-key.pem\"\ncertificate = \"own.pem\"\n\
         certificate_url = \"https://cert.example.org/own.pem\"\nauthorities = \"{CA_FILE}\"\n\
         certificate_hosts = [\"localhost\"]\ncertificate_networks = [\"127.0.0.0/8\", \"::1\"]\n\
         server_authorities = \"{CA_FILE}\"\n\
         [[trunk]]\nname = \"carrier\"\nuri = \"sip:{CARRIER}:{port}\"\nnetworks = [\"{CARRIER}\"]\n\
         callers = [\"alice:{INBOUND}\"]\ndomain = \"carrier.example\"\nhealth_check_s = 0\n\
         stir = [\"sign\", \"require\"]\n\
         [[route]]\nprefix = \"+44\"\nto = [\"carrier\"]\n\
         [[route]]\nprefix = \"+4930\"\nto_user = \"alice\"\n"
    )
}

fn carrier(
    stage: &Stage,
    (host, port): (Ipv4Addr, u16),
    (ringway, gateway): (u16, &Phone),
    url: &str,
) -> Result<Process> {
    let words = [
        ("@GATEWAY@", host_of(gateway)),
        ("@NUMBER@", NUMBER.to_owned()),
        ("@HOST@", host.to_string()),
        ("@PORT@", port.to_string()),
        ("@RINGWAY@", ringway.to_string()),
        ("@URL@", url.to_owned()),
        ("@FOLDER@", stage.folder.display().to_string()),
    ];
    let config = stage.path("stir.cfg");
    stage.fill("kamailio/stir.cfg", &words, &config)?;
    let running = Process::start("carrier", &mut kamailio(&config), &stage.folder)?;
    await_sip(host, port)?;
    Ok(running)
}

/// Has PyJWT verify the identity that the carrier has got.
fn checked_by_pyjwt(stage: &Stage, carrier: &Process) -> Result<()> {
    carrier.wait_for_output("identity=")?;
    let output = carrier.output();
    let identity = output.split("identity=").nth(1).and_then(|rest| rest.lines().next());
    let identity = identity.context("the carrier got no identity")?;
    let (caller, called) = (INBOUND.trim_start_matches('+'), NUMBER.trim_start_matches('+'));
    let mut command = Command::new("/usr/bin/python3");
    command.arg(stage.data.join("stir/check.py")).arg(stage.path("own.pem"));
    command.args([identity.trim(), caller, called]);
    let printed = run_to_end(&mut command, "")?;
    ensure!(printed.contains("valid"), "PyJWT: {printed}");
    Ok(())
}
