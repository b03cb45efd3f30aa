//! `cargo xtask interop tls`: SIP over TLS with other implementations.
//!
//! The certificates are made for each scenario. The phones call each other with SDES through Ringway's server; `openssl`
//! is a client and a server with certificates that must be refused, and a client by DTLS; Kamailio is a neighbour in both directions.

mod kamailio;
mod openssl;

use super::calls::{Play, users};
use super::certificates::{Authority, Certificate};
use super::phone::call::{Call, Caller, Peer, Route, Side};
use super::server::{Server, Wanted};
use super::sipp::{Load, Statistics};
use super::softphone::Keys;
use super::{Scenario, Stage, Transport};
use crate::process::free_port;
use anyhow::{Context, Result, bail, ensure};
use openssl::{client, expect_answer};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all: Vec<Scenario> = Vec::new();
    for (name, peer, suite) in [
        ("baresip", Peer::Baresip, "AES_CM_128_HMAC_SHA1_80"),
        ("linphonec", Peer::Linphone, "AES_256_CM_HMAC_SHA1_80"),
    ] {
        // Each side holds once: the change of the session also goes over the connections of the registrations.
        for (caller, holder) in [(Caller::Phone, Side::Peer), (Caller::Peer, Side::Phone)] {
            let name = format!("tls/{name}/{}", caller.name());
            let (route, keys) = (Route::Ringway(Transport::Tls), Keys::Sdes(suite));
            let call = Call { name, peer, caller, route, keys, holder, holds: 1, talk: Call::TALK };
            all.push(Scenario::new(call.name.clone(), move |stage: &Stage| call.play(stage)));
        }
    }
    all.extend(openssl::scenarios());
    all.extend(openssl::dtls_scenarios());
    all.extend(kamailio::scenarios());
    all.extend(unfinished_scenarios());
    for scenario in &mut all {
        scenario.reference = false;
    }
    all
}

fn unfinished_scenarios() -> Vec<Scenario> {
    vec![Scenario::new("tls/sipp-tcp-beside", beside_load)]
}

/// SIPp registers users over UDP and TCP while clients begin handshakes and do not go on: no registration fails, another
/// client with TLS is answered, and the server ends all of the handshakes at its deadline.
fn beside_load(stage: &Stage) -> Result<()> {
    Authority::create(&stage.folder)?.issue(Certificate::SERVER)?;
    let server =
        Server::start(stage, Wanted { digest: false, tls: Some(""), ..Wanted::default() }, &accounts())?;
    let port = server.port_of(Transport::Tls);
    let [udp, tcp] = std::thread::scope(|scope| -> Result<[Statistics; 2]> {
        let udp_tcp_port = server.port;
        let [udp, tcp] =
            Transport::ALL.map(|transport| scope.spawn(move || register(stage, transport, udp_tcp_port)));
        let ended = await_ends(port);
        let joined = |load: std::thread::ScopedJoinHandle<'_, Result<Statistics>>| {
            load.join().ok().context("the load panicked")?
        };
        let loads = [joined(udp)?, joined(tcp)?];
        ended?;
        Ok(loads)
    })?;
    for (name, load) in [("udp", udp), ("tcp", tcp)] {
        ensure!(
            load.failed == 0 && load.successful == CALLS as u64,
            "{name}: the load did not succeed beside the handshakes: {load:?}"
        );
        ensure!(load.retransmissions <= CALLS as u64 / 100, "{name}: many retransmissions: {load:?}");
    }
    expect_answer(&client(stage, &server, "after", &[])?, "after the handshakes")?;
    let failures = server.counters()?.get("handshake_failures")?;
    ensure!(failures == HANDSHAKES as u64, "{failures} failed handshakes are counted, not {HANDSHAKES}");
    Ok(())
}

fn accounts() -> Vec<(String, String)> {
    users("caller", "callee").into_iter().map(|user| (user.name, user.password)).collect()
}

fn register(stage: &Stage, transport: Transport, server: u16) -> Result<Statistics> {
    let play = Play { stage, transport, digest: false };
    let (users, port) = (users("caller", "callee"), free_port()?);
    let words = [
        ("CSEQ", "1".to_owned()),
        ("NEXT", "2".to_owned()),
        ("CONTACT", port.to_string()),
        ("TRANSPORT", transport.name().to_owned()),
    ];
    let role = if transport == Transport::Udp { "load-udp" } else { "load-tcp" };
    let mut sipp = play.sipp("load-register", role, &users, port, Some(server));
    sipp.words = &words;
    sipp.load = Some(Load { rate: RATE, calls: CALLS });
    sipp.play(stage)
}

/// Begins the handshakes and waits until the server has closed all of their connections, at its deadline.
fn await_ends(port: u16) -> Result<()> {
    let mut connections = Vec::new();
    for _ in 0..HANDSHAKES {
        let mut connection = TcpStream::connect(("127.0.0.1", port))?;
        connection.write_all(&half_hello())?;
        connections.push(connection);
    }
    let begun = Instant::now();
    for (number, connection) in connections.iter_mut().enumerate() {
        let left = LATEST.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
        connection.set_read_timeout(Some(left))?;
        match connection.read(&mut [0; 64]) {
            Ok(0) => {}
            Ok(_) => bail!("connection {number}: an answer to half a ClientHello"),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => bail!("connection {number} is open after {} s: {error}", LATEST.as_secs()),
        }
        let after = begun.elapsed();
        ensure!(after > EARLIEST, "connection {number} was closed after {after:?}, before the deadline");
    }
    Ok(())
}

/// First half of the record of a ClientHello (RFC 8446 §4.1.2) of 512 bytes.
fn half_hello() -> [u8; 261] {
    let mut bytes = [0x5a; 261];
    let begin = [22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];
    for (byte, value) in bytes.iter_mut().zip(begin) {
        *byte = value;
    }
    bytes
}

/// Fewer than the server permits for one source.
const HANDSHAKES: usize = 200;
/// Registrations a second, and their number, for each transport: 13 s of load.
const RATE: u32 = 100;
const CALLS: usize = 1300;
/// The server ends a handshake after 10 s; it counts from the connection, which is older than our clock's beginning.
const EARLIEST: Duration = Duration::from_secs(8);
const LATEST: Duration = Duration::from_secs(14);
