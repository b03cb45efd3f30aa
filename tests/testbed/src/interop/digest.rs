//! Answers of other implementations to several digest challenges: the measurement behind the default of `[auth]
//! algorithms`. Forms of digest with other
//! implementations: nonces for one use with baresip, linphonec and SIPp, `auth-int` with SIPp.
//!
//! A small registrar offers lists of algorithms; the answers are printed as a table. This does not test
//! Ringway, so it runs only on request: `cargo xtask interop --only digest-order`.

use super::calls::Play;
use super::server::{Mode, Server, Wanted};
use super::sipp::{Connections, Sipp, User};
use super::softphone::{Line, Softphone};
use super::{Scenario, Stage, Transport, baresip, linphone};
use crate::process::free_port;
use anyhow::{Context, Result, bail};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const OFFERS: [&[&str]; 5] =
    [&["MD5"], &["SHA-256"], &["SHA-256", "MD5"], &["MD5", "SHA-256"], &["MD5", "SHA-256", "MD5"]];
const PEERS: [&str; 3] = ["sipp", "baresip", "linphonec"];

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut scenario = Scenario::new("digest-order", table);
    scenario.on_request = true;
    scenario.reference = false;
    vec![scenario]
}

fn table(stage: &Stage) -> Result<()> {
    println!("| 401 offers | {} |", PEERS.join(" | "));
    println!("|---|{}", "---|".repeat(PEERS.len()));
    let mut silent = Vec::new();
    for offer in OFFERS {
        let mut row = format!("| {} |", offer.join(", "));
        for peer in PEERS {
            let answered = answered(stage, peer, offer)?;
            if offer == ["MD5"] && answered.is_none() {
                silent.push(peer);
            }
            row.push_str(&format!(" {} |", answered.unwrap_or_else(|| "gives up".to_owned())));
        }
        println!("{row}");
    }
    if !silent.is_empty() {
        bail!("not even MD5 alone was answered by {}", silent.join(", "));
    }
    Ok(())
}

/// Algorithm that `peer` used for this offer; `None` if it sent no credentials.
fn answered(stage: &Stage, peer: &str, offer: &[&str]) -> Result<Option<String>> {
    let own = stage.within(&format!("{peer}-{}", offer.join("-")))?;
    let registrar = Registrar::start(offer)?;
    let line = Line::at_server("dave", 440.0, registrar.port, Transport::Udp);
    let wait = Duration::from_secs(3);
    match peer {
        "sipp" => {
            let users =
                [User { name: "dave".into(), password: "secret-dave".into(), callee: "nobody".into() }];
            let sipp = Sipp {
                scenario: "register",
                role: "register",
                parts: &["digest"],
                words: &[],
                users: &users,
                port: free_port()?,
                server: Some(registrar.port),
                transport: Transport::Udp,
                connections: Connections::One,
                contact: None,
                load: None,
            };
            // Giving up is a valid result of the measurement.
            let _ = sipp.run(&own);
        }
        "baresip" => {
            let _phone = baresip::Phone::start(&own, line)?;
            std::thread::sleep(wait);
        }
        _ => {
            let _phone = linphone::Phone::start(&own, line)?;
            std::thread::sleep(wait);
        }
    }
    registrar.stop()
}

/// Answers REGISTER over UDP: 401 with the offer, or 200 if it has credentials.
struct Registrar {
    port: u16,
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Option<String>>,
}

impl Registrar {
    fn start(offer: &[&str]) -> Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        let port = socket.local_addr()?.port();
        let ended = Arc::new(AtomicBool::new(false));
        let challenges: String = offer
            .iter()
            .enumerate()
            .map(|(n, algorithm)| {
                format!(
                    "WWW-Authenticate: Digest realm=\"example.org\", nonce=\"{n}a1b2c3d4\", algorithm={algorithm}, \
                     qop=\"auth\"\r\n"
                )
            })
            .collect();
        let flag = Arc::clone(&ended);
        let thread = std::thread::spawn(move || serve(&socket, &challenges, &flag));
        Ok(Self { port, ended, thread })
    }

    /// Stops the registrar; returns the algorithm of the first credentials.
    fn stop(self) -> Result<Option<String>> {
        self.ended.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(seen) => Ok(seen),
            Err(_) => bail!("the registrar's thread ended by a panic"),
        }
    }
}

fn serve(socket: &UdpSocket, challenges: &str, ended: &AtomicBool) -> Option<String> {
    let mut seen = None;
    let mut buffer = [0_u8; 8192];
    while !ended.load(Ordering::Relaxed) {
        let Ok((length, peer)) = socket.recv_from(&mut buffer) else { continue };
        let request = String::from_utf8_lossy(buffer.get(..length).unwrap_or_default()).into_owned();
        if !request.starts_with("REGISTER ") {
            continue;
        }
        let field = |name: &str| {
            let prefix = format!("{name}:");
            request.lines().find(|line| {
                line.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(&prefix))
            })
        };
        let copied: String = ["Via", "From", "Call-ID", "CSeq"]
            .iter()
            .filter_map(|name| field(name))
            .map(|line| format!("{line}\r\n"))
            .collect();
        let to = field("To").unwrap_or_default();
        let answer = match field("Authorization") {
            Some(credentials) => {
                seen.get_or_insert_with(|| algorithm(credentials));
                let contact =
                    field("Contact").map(|line| format!("{line};expires=120\r\n")).unwrap_or_default();
                format!("SIP/2.0 200 OK\r\n{copied}{to};tag=s\r\n{contact}Content-Length: 0\r\n\r\n")
            }
            None => format!(
                "SIP/2.0 401 Unauthorized\r\n{copied}{to};tag=s\r\n{challenges}Content-Length: 0\r\n\r\n"
            ),
        };
        // The peer may have ended.
        let _ = socket.send_to(answer.as_bytes(), peer);
    }
    seen
}

/// Value of the `algorithm` parameter of credentials; the default is MD5 (RFC 7616 §3.4).
fn algorithm(credentials: &str) -> String {
    let parameter = credentials.split(',').find_map(|part| part.trim().strip_prefix("algorithm="));
    parameter.map_or_else(|| "MD5".to_owned(), |value| value.trim_matches('"').to_owned())
}

const ONCE: &str = "nonce_use = \"once\"";
const AUTH_INT: &str = "nonce_use = \"once\"\nauth_int = true";

pub(crate) fn form_scenarios() -> Vec<Scenario> {
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
