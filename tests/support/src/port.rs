//! Free ports, and programs that listen at a port.

use crate::eventually::{PATIENCE, holds};
use std::io::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};

/// An even port that is free for UDP and TCP at every address of this machine, with a free odd neighbour (RTP
/// and RTCP). Below the ephemeral ports of the kernel, and never the same twice in one process.
///
/// # Errors
/// No port of the range is free.
pub fn free_port() -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % u32::from(COUNT)) as u16;
    for _ in 0..COUNT {
        let step = (start + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT) % COUNT;
        let port = FIRST + 2 * step;
        if is_free(port) && is_free(port + 1) {
            return Ok(port);
        }
    }
    Err(Error::new(ErrorKind::AddrInUse, format!("no free port from {FIRST} to {}", FIRST + 2 * COUNT)))
}

/// Tables of the kernel for UDP, for [`await_listener`].
pub const UDP: [&str; 2] = ["udp", "udp6"];

/// Tables of the kernel for TCP.
pub const TCP: [&str; 2] = ["tcp", "tcp6"];

/// Waits until a program listens on the port, without binding it, which would disturb the program.
///
/// # Errors
/// No program listens there within [`PATIENCE`].
pub fn await_listener(port: u16, tables: [&str; 2]) -> Result<()> {
    let wanted = format!(":{port:04X}");
    let is_local = |line: &str| line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&wanted));
    let is_in = |table: &str| {
        // A kernel without IPv6 has only one of the two tables.
        let text = std::fs::read_to_string(Path::new("/proc/net").join(table)).unwrap_or_default();
        text.lines().any(is_local)
    };
    match holds(PATIENCE, || tables.into_iter().any(is_in)) {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::TimedOut, format!("no program listens at port {port}"))),
    }
}

fn is_free(port: u16) -> bool {
    let at = (Ipv4Addr::UNSPECIFIED, port);
    UdpSocket::bind(at).is_ok() && TcpListener::bind(at).is_ok()
}

const FIRST: u16 = 20_000;
/// Number of pairs of ports.
const COUNT: u16 = 4000;
