//! Bad input over IP: the machine must keep running and answer OPTIONS.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use ringway_test_support::eventually::retry;
use xtask::workspace::root;

use super::{ANSWER_TIME, Booted, options};
use crate::interop::{Scenario, Stage};
use crate::machine::{Machine, Medium};

pub(super) fn checks() -> Vec<Scenario> {
    let check = |(name, body): (&str, Body)| {
        let body = move |stage: &Stage| {
            let mut machine = Booted::serving(&Machine::new(Medium::Kernel), stage, "auth=off")?;
            body(&mut machine)?;
            machine.answers("all of it")
        };
        Scenario::new(format!("bad-input/{name}"), body)
    };
    CHECKS.into_iter().map(check).collect()
}

/// Function that tests a serving machine.
type Body = fn(&mut Booted) -> Result<()>;

const CHECKS: [(&str, Body); 6] = [
    ("rfc4475", torture),
    ("truncated", truncated),
    ("empty", empty),
    ("fragments", fragments),
    ("streams", streams),
    ("300-connections", connections),
];

/// Sends the messages of RFC 4475, each in one datagram.
fn torture(machine: &mut Booted) -> Result<()> {
    let socket = socket(machine)?;
    let mut sent = 0;
    for entry in std::fs::read_dir(root().join("testdata/rfc4475"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "dat") {
            socket.send(&std::fs::read(&path)?)?;
            machine.answers(&path.display().to_string())?;
            sent += 1;
        }
    }
    if sent < RFC_4475_MESSAGES {
        bail!("only {sent} messages of RFC 4475 were found; there are {RFC_4475_MESSAGES}");
    }
    Ok(())
}

/// Sends a message truncated after every byte.
fn truncated(machine: &mut Booted) -> Result<()> {
    let socket = socket(machine)?;
    let whole = std::fs::read(root().join("testdata/rfc4475/wsinv.dat"))?;
    for bytes in 1..whole.len() {
        socket.send(whole.get(..bytes).unwrap_or_default())?;
        if bytes % 50 == 0 {
            machine.answers(&format!("{bytes} bytes of an INVITE"))?;
        }
    }
    Ok(())
}

fn empty(machine: &mut Booted) -> Result<()> {
    let socket = socket(machine)?;
    for datagram in [&b""[..], b"\r\n", b"\r\n\r\n", b"\0", b" "] {
        for _ in 0..10 {
            socket.send(datagram)?;
        }
        machine.answers(&format!("datagrams of {datagram:?}"))?;
    }
    Ok(())
}

/// Tests a datagram of 20 KB, which arrives in fragments, and one whose response is sent in fragments. Both
/// must be answered.
fn fragments(machine: &mut Booted) -> Result<()> {
    let socket = socket(machine)?;
    let long = format!("X-Long: {}\r\n", "a".repeat(20_000));
    let answer = asked(&socket, &options("UDP", 1, &long))?;
    if answer.starts_with("SIP/2.0 200 ") {
        let via = format!("Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK-far;x={}\r\n", "b".repeat(6_000));
        let answer = asked(&socket, &options("UDP", 2, &via))?;
        if answer.len() > 6_000 && answer.contains("bbb\r\n") {
            return Ok(());
        }
        bail!("an answer has {} bytes, and its request 6,000 in a Via", answer.len());
    }
    bail!("OPTIONS of 20 KB is answered with {:?}", answer.lines().next().unwrap_or_default());
}

/// Tests connections that send no SIP, or incomplete messages, and stay open or close.
fn streams(machine: &mut Booted) -> Result<()> {
    let unended = format!("INVITE sip:a@example.org SIP/2.0\r\nX: {}", "a".repeat(200_000));
    let negative = "OPTIONS sip:example.org SIP/2.0\r\nContent-Length: -1\r\n\r\n".repeat(50);
    let whole = options("TCP", 3, "");
    let cut = whole.get(..whole.len() / 2).unwrap_or_default();
    let noise: Vec<u8> =
        (0..100_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let garbage: [(&str, &[u8]); 8] = [
        ("nothing", b""),
        ("noise", &noise),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
        ("line ends", &b"\r\n".repeat(10_000)),
        ("a header without end", unended.as_bytes()),
        ("negative lengths", negative.as_bytes()),
        ("half a message", cut.as_bytes()),
    ];
    let mut staying = Vec::new();
    for (what, bytes) in garbage {
        for stays in [false, true] {
            let mut stream = connect(machine.at)?;
            // The machine closes connections without SIP, possibly while they send.
            let _ = stream.write_all(bytes);
            if stays {
                staying.push(stream);
            }
        }
        machine.answers(what)?;
        answered_by_tcp(machine.at).with_context(|| format!("after {what}"))?;
    }
    Ok(())
}

/// Tests more connections than the maximum: those within it are served, and after they have closed others are
/// accepted.
fn connections(machine: &mut Booted) -> Result<()> {
    let mut streams = connected(machine.at, 300)?;
    machine.answers("300 connections at once")?;
    let mut answered = 0;
    for (number, stream) in (100..).zip(&mut streams) {
        // QEMU accepts every connection, and closes those that the machine refuses.
        answered += usize::from(asked_by_tcp(stream, number).is_ok());
    }
    machine.answers("OPTIONS by each of 300 connections")?;
    println!("          300 connections at once: {answered} are served");
    if !(CONNECTIONS_SERVED_MIN..=CONNECTIONS_MAX).contains(&answered) {
        bail!("{answered} of 300 connections are served; {CONNECTIONS_MAX} may be");
    }
    drop(streams);
    answered_by_tcp(machine.at).context("after 300 connections went")
}

fn socket(machine: &Booted) -> Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(machine.at)?;
    socket.set_read_timeout(Some(ANSWER_TIME))?;
    Ok(socket)
}

/// Response to a request, which is retransmitted.
fn asked(socket: &UdpSocket, request: &str) -> Result<String> {
    let mut room = vec![0; 65_536];
    for _ in 0..3 {
        socket.send(request.as_bytes())?;
        if let Ok(bytes) = socket.recv(&mut room) {
            return Ok(String::from_utf8_lossy(room.get(..bytes).unwrap_or_default()).into_owned());
        }
    }
    bail!("no answer to a request of {} bytes", request.len());
}

/// Opens `count` connections. QEMU accepts them one by one, and one that comes meanwhile is retried after a
/// second, so they are opened with a short interval and partly in parallel.
fn connected(at: SocketAddrV4, count: usize) -> Result<Vec<TcpStream>> {
    let one = |_| {
        std::thread::sleep(APART);
        connect(at)
    };
    let some = || (0..count / CONNECTING).map(one).collect::<Result<Vec<_>>>();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CONNECTING).map(|_| scope.spawn(some)).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().map_err(|_| anyhow!("a thread ended by a panic"))??);
        }
        Ok(all)
    })
}

fn connect(at: SocketAddrV4) -> Result<TcpStream> {
    let stream = TcpStream::connect(at).context("cannot connect")?;
    stream.set_read_timeout(Some(ANSWER_TIME))?;
    stream.set_write_timeout(Some(ANSWER_TIME))?;
    Ok(stream)
}

/// Sends OPTIONS over its own connection until one is accepted and answered.
fn answered_by_tcp(at: SocketAddrV4) -> Result<()> {
    retry(Duration::from_secs(10), || asked_by_tcp(&mut connect(at)?, 5))
}

fn asked_by_tcp(stream: &mut TcpStream, number: u32) -> Result<()> {
    stream.write_all(options("TCP", number, "").as_bytes())?;
    let mut room = [0; 4096];
    let bytes = stream.read(&mut room)?;
    if !room.get(..bytes).unwrap_or_default().starts_with(b"SIP/2.0 200 ") {
        bail!("OPTIONS over TCP is not answered");
    }
    Ok(())
}

/// Number of connections that are opened at a time.
const CONNECTING: usize = 4;
const APART: Duration = Duration::from_millis(5);
/// Number of messages in `testdata/rfc4475`.
const RFC_4475_MESSAGES: u32 = 50;
/// Capacity of the machine (`CONNECTIONS_MAX` of `drivers/ethernet`).
const CONNECTIONS_MAX: usize = 256;
/// On a busy computer the first connections time out before the last one is opened.
const CONNECTIONS_SERVED_MIN: usize = 100;
