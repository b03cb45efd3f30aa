//! Scripted contacts: one thread each, which answers until the contact is dropped.

use super::message::{Serial, respond, value, with_one_via};
use crate::sys::large_buffers;
use anyhow::{Context, Result};
use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Responses of a contact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Script {
    /// 180 and 200 to INVITE, 200 to everything else.
    Accept,
    /// 486 to INVITE.
    Busy,
    /// A final response with one Via; every second one after a 180 with all Vias.
    OneVia,
}

/// A running contact.
pub struct Contact {
    /// Its address.
    pub address: SocketAddrV4,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Contact {
    /// Binds a port on `ip` and starts to answer.
    pub fn start(ip: Ipv4Addr, script: Script) -> Result<Self> {
        let (socket, address) = bind(ip)?;
        socket.set_read_timeout(Some(Duration::from_millis(20))).context("set a contact's socket")?;
        let is_over = Arc::new(AtomicBool::new(false));
        let mut phone =
            Phone { socket, address, script, unacknowledged: HashMap::new(), serial: Serial::default() };
        let flag = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            while !flag.load(Ordering::Relaxed) {
                phone.turn();
            }
        });
        Ok(Self { address, is_over, thread: Some(thread) })
    }
}

impl Drop for Contact {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Binds a UDP socket with large buffers to a free port.
pub fn bind(ip: Ipv4Addr) -> Result<(UdpSocket, SocketAddrV4)> {
    let socket = UdpSocket::bind((ip, 0)).with_context(|| format!("bind a port on {ip}"))?;
    large_buffers(&socket);
    let port = socket.local_addr().context("read a port")?.port();
    Ok((socket, SocketAddrV4::new(ip, port)))
}

struct Phone {
    socket: UdpSocket,
    address: SocketAddrV4,
    script: Script,
    /// 200 to an INVITE, by Call-ID, until its ACK (RFC 3261 §13.3.1.4).
    unacknowledged: HashMap<String, Accepted>,
    serial: Serial,
}

struct Accepted {
    response: Vec<u8>,
    to: SocketAddr,
    next: Instant,
    interval: Duration,
    until: Instant,
}

impl Phone {
    /// Handles the next request, if one arrives before the time-out.
    fn turn(&mut self) {
        let mut room = [0; 65_536];
        // A time-out, or an ICMP error for an earlier datagram.
        if let Ok((length, from)) = self.socket.recv_from(&mut room) {
            // The server's own limits are measured: a lost response is not repeated.
            let _ = self.answer(room.get(..length).unwrap_or_default(), from);
        }
        let now = Instant::now();
        self.unacknowledged.retain(|_, accepted| accepted.until > now);
        for accepted in self.unacknowledged.values_mut().filter(|accepted| accepted.next <= now) {
            let _ = self.socket.send_to(&accepted.response, accepted.to);
            accepted.interval = (accepted.interval * 2).min(T2);
            accepted.next = now + accepted.interval;
        }
    }

    fn answer(&mut self, request: &[u8], from: SocketAddr) -> io::Result<()> {
        let method = request.split(|&byte| byte == b' ').next().unwrap_or_default();
        let call_id = value(request, "Call-ID").unwrap_or_default().to_owned();
        self.serial.turn = self.serial.turn.wrapping_add(1);
        match (method, self.script) {
            (b"ACK", _) => {
                self.unacknowledged.remove(&call_id);
                Ok(())
            }
            (b"SIP/2.0", _) => Ok(()),
            (b"INVITE", Script::Accept) if self.unacknowledged.contains_key(&call_id) => Ok(()),
            (b"INVITE", Script::Accept) => {
                self.send(request, b"180 Ringing", from)?;
                let response = self.response(request, b"200 OK");
                self.socket.send_to(&response, from)?;
                let now = Instant::now();
                let (next, until) = (now + T1, now + 64 * T1);
                let accepted = Accepted { response, to: from, next, interval: T1, until };
                self.unacknowledged.insert(call_id, accepted);
                Ok(())
            }
            (b"INVITE", Script::Busy) => self.send(request, b"486 Busy Here", from),
            (_, Script::Accept | Script::Busy) => self.send(request, b"200 OK", from),
            (_, Script::OneVia) => {
                if method == b"INVITE" && self.serial.turn.is_multiple_of(2) {
                    self.send(request, b"180 Ringing", from)?;
                }
                let status: &[u8] =
                    if self.serial.turn.is_multiple_of(3) { b"486 Busy Here" } else { b"200 OK" };
                let response = with_one_via(&self.response(request, status));
                self.socket.send_to(&response, from).map(drop)
            }
        }
    }

    fn send(&self, request: &[u8], status: &[u8], to: SocketAddr) -> io::Result<()> {
        self.socket.send_to(&self.response(request, status), to).map(drop)
    }

    fn response(&self, request: &[u8], status: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(1024);
        respond(request, status, self.serial, &mut out);
        let end = format!("Contact: <sip:phone@{}>\r\nContent-Length: 0\r\n\r\n", self.address);
        out.extend_from_slice(end.as_bytes());
        out
    }
}

/// RFC 3261 §17.1.1.1.
pub const T1: Duration = Duration::from_millis(500);
/// RFC 3261 §17.1.2.1.
pub const T2: Duration = Duration::from_secs(4);
