//! Capture of messages for a HEP3 collector: sngrep decodes the packets, tshark the SIP messages in what it writes.

use std::io::Read;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ringway_test_support::process::run_to_end;

use super::calls::{Play, users};
use super::server::{Server, Wanted};
use super::{Scenario, Stage, Transport};
use crate::process::{Process, UDP, await_listener, free_port};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario = |name: &str, transport: Transport| Scenario {
        reference: false,
        ..Scenario::new(format!("hep/{name}"), move |stage: &Stage| calls(stage, transport))
    };
    vec![scenario("udp", Transport::Udp), scenario("tcp", Transport::Tcp)]
}

/// Twenty calls by SIPp over this transport, and an OPTIONS over IPv6. The collector is reached by the same transport.
fn calls(stage: &Stage, transport: Transport) -> Result<()> {
    let port = free_port()?;
    let file = stage.path("sngrep.pcap");
    let mut command = Command::new("sngrep");
    command.args(["-N", "-q", "-L"]).arg(format!("udp:127.0.0.1:{port}")).arg("-O").arg(&file);
    let sngrep = Process::start("sngrep", &mut command, &stage.folder)?;
    await_listener(port, UDP)?;
    let collector = match transport {
        Transport::Tcp => format!("tcp:127.0.0.1:{}", relay(port)?),
        Transport::Udp | Transport::Tls => format!("udp:127.0.0.1:{port}"),
    };
    let section = format!("[hep]\ncollector = \"{collector}\"\ncapture_id = 7\npassword = \"a key\"\n");
    let wanted = Wanted { digest: false, ipv6: true, ..Wanted::default() };
    let server = Server::start_with(stage, wanted, &section)?;
    server.await_counter("hep_connected", 1, Duration::from_secs(10))?;
    let play = Play { stage, transport, digest: false };
    let (callers, callees) = (users("caller", "callee"), users("callee", "caller"));
    let callee_port = free_port()?;
    play.sipp("register", "register", &callees, callee_port, Some(server.port)).run(stage)?;
    play.call([&callers, &callees], callee_port, server.port, &["open", "stateful"])?;
    options_over_ipv6(server.port)?;
    // Messages of the last moment are sent within 100 ms.
    thread::sleep(Duration::from_millis(500));
    sngrep.stop();
    let decoded = decoded(&file)?;
    let count = |is_it: &dyn Fn(&[&str]) -> bool| decoded.iter().filter(|row| is_it(&fields(row))).count();
    let of = |method: &str| count(&|row| row[2] == method);
    // Each one was received and forwarded; retransmissions of SIPp come on top.
    for method in ["INVITE", "ACK", "BYE"] {
        let found = of(method);
        ensure!(found >= 40, "{found} {method} were captured, 40 were sent");
    }
    ensure!(of("REGISTER") >= 20 && of("OPTIONS") == 1, "REGISTER or OPTIONS is missing");
    let ours = server.port.to_string();
    ensure!(
        count(&|row| row[0] != ours && row[1] != ours) == 0,
        "a message is neither from the server nor for it: {decoded:?}"
    );
    let malformed = count(&|row| row.len() > 4 && !row[4].is_empty());
    ensure!(malformed == 0, "{malformed} messages are malformed");
    Ok(())
}

fn fields(row: &str) -> Vec<&str> {
    row.split('\t').collect()
}

/// Source port, destination port, method, status and a mark of a malformed message, for each packet.
fn decoded(file: &std::path::Path) -> Result<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-T", "fields"]);
    for field in ["udp.srcport", "udp.dstport", "sip.Method", "sip.Status-Code", "_ws.malformed"] {
        command.args(["-e", field]);
    }
    Ok(run_to_end(&mut command, "")?.lines().map(str::to_owned).collect())
}

/// Collector for TCP that passes each packet to a collector for UDP on loopback; returns its port.
fn relay(to: u16) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    thread::spawn(move || -> Result<()> {
        let (mut stream, _) = listener.accept()?;
        let mut head = [0; 6];
        while stream.read_exact(&mut head).is_ok() {
            ensure!(head.starts_with(b"HEP3"), "no packet begins here");
            let mut packet = vec![0; usize::from(u16::from_be_bytes([head[4], head[5]]))];
            packet[..6].copy_from_slice(&head);
            stream.read_exact(&mut packet[6..])?;
            socket.send_to(&packet, (Ipv4Addr::LOCALHOST, to))?;
        }
        Ok(())
    });
    Ok(port)
}

fn options_over_ipv6(port: u16) -> Result<()> {
    let socket = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(Duration::from_secs(5)))?;
    let own = socket.local_addr()?;
    let text = format!(
        "OPTIONS sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bKsix\r\nMax-Forwards: 70\r\n\
         From: <sip:six@example.org>;tag=6\r\nTo: <sip:example.org>\r\nCall-ID: six\r\nCSeq: 1 OPTIONS\r\n\
         Content-Length: 0\r\n\r\n"
    );
    socket.send_to(text.as_bytes(), SocketAddr::from((Ipv6Addr::LOCALHOST, port)))?;
    let length = socket.recv(&mut [0; 4096]).context("no response over IPv6")?;
    ensure!(length > 0, "an empty response over IPv6");
    Ok(())
}
