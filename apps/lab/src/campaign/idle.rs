//! Connections without traffic: memory and CPU time that they cost the server.

use super::Observer;
use super::server::Server;
use super::trial::pause;
use crate::load::local_towards;
use crate::record::{Idle, Measurement};
use anyhow::{Context, Result, bail};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Opens `count` connections, each with one OPTIONS and its response, and measures the server for `idle`, during which nothing
/// is sent. `None`: the observer has interrupted it.
///
/// # Errors
/// The server ended, refuses or closes connections, or is not one that the campaign started.
pub(super) fn measure(
    server: &mut Server,
    count: u32,
    idle: Duration,
    observer: &mut dyn Observer,
) -> Result<Option<Measurement>> {
    let memory_of = |server: &Server| {
        server.memory_bytes()?.context("memory of a server that the campaign did not start is not known")
    };
    let cpu_of = |server: &Server| Ok::<_, anyhow::Error>(server.read()?.context("the server ended")?.cpu_ns);
    // The first connection lets it allocate what it needs once.
    drop(open(server.address, 0)?);
    if pause(server.rest, observer) {
        return Ok(None);
    }
    let (memory_before, cpu_before) = (memory_of(server)?, cpu_of(server)?);
    let mut connections = Vec::new();
    for number in 0..count {
        if observer.is_interrupted() {
            return Ok(None);
        }
        server.check()?;
        connections.push(open(server.address, number).with_context(|| format!("connection {}", number + 1))?);
    }
    if pause(server.rest, observer) {
        return Ok(None);
    }
    let (memory_open, cpu_open) = (memory_of(server)?, cpu_of(server)?);
    if pause(idle, observer) {
        return Ok(None);
    }
    server.check()?;
    let cpu_idle = cpu_of(server)?;
    let closed = connections.iter().filter(|connection| is_closed(connection)).count();
    if closed > 0 {
        bail!("the server closed {closed} of {count} idle connections within {} s", idle.as_secs_f64());
    }
    let each = |value: u64| value as f64 / f64::from(count.max(1));
    let idle_ns = cpu_idle.saturating_sub(cpu_open) as f64;
    Ok(Some(Measurement {
        seconds: idle.as_secs_f64(),
        planned: count.into(),
        started: count.into(),
        successes: count.into(),
        server_memory_kb: Some(memory_open / 1024),
        idle: Some(Idle {
            connections: count,
            memory_bytes_each: each(memory_open.saturating_sub(memory_before)),
            cpu_us_per_second: idle_ns / 1e3 / idle.as_secs_f64().max(f64::MIN_POSITIVE),
            cpu_us_to_open: each(cpu_open.saturating_sub(cpu_before)) / 1e3,
        }),
        valid: true,
        criterion_met: Some(true),
        ..Measurement::default()
    }))
}

/// Opens a connection and sends one request over it.
fn open(server: SocketAddr, number: u32) -> Result<TcpStream> {
    let mut connection = connect(server, number)?;
    connection.set_nodelay(true).context("set a connection")?;
    connection.set_read_timeout(Some(ANSWER_WAIT)).context("set a connection")?;
    let from = connection.local_addr().context("read a port")?;
    let request = format!(
        "OPTIONS sip:{server};transport=tcp SIP/2.0\r\nVia: SIP/2.0/TCP {from};branch=z9hG4bKi{number};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:idle@{from}>;tag={number}\r\nTo: <sip:{server}>\r\nCall-ID: idle{number}\r\n\
         CSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).context("send")?;
    let mut answer = [0; 2048];
    let length = connection.read(&mut answer).context("no answer over TCP")?;
    if !answer.get(..length).is_some_and(|bytes| bytes.starts_with(b"SIP/2.0 ")) {
        bail!("{server} answers OPTIONS over TCP with no SIP response");
    }
    Ok(connection)
}

/// Connects from a loopback address that has ports left.
fn connect(server: SocketAddr, number: u32) -> Result<TcpStream> {
    let (IpAddr::V4(first), true) = (local_towards(server), server.ip().is_loopback()) else {
        return TcpStream::connect(server).context("connect");
    };
    let from = Ipv4Addr::from_bits(first.to_bits() + number / PORTS_EACH);
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None)
        .context("open a socket")?;
    rustix::net::bind(&socket, &SocketAddr::from((from, 0))).context("bind a socket")?;
    rustix::net::connect(&socket, &server).context("connect")?;
    Ok(TcpStream::from(socket))
}

fn is_closed(mut connection: &TcpStream) -> bool {
    if connection.set_nonblocking(true).is_err() {
        return true;
    }
    match connection.read(&mut [0; 64]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// Connections from one local address.
const PORTS_EACH: u32 = 10_000;
/// Most time until a connection's request is answered.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
