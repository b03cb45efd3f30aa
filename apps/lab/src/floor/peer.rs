//! Peers of a load generator: the cheapest server whose messages are valid SIP; the floor for a server that asks another one
//! before it forwards a message; a relay that reads the first letter of a message.

use super::write_answer;
use crate::sys::Outbound;
use anyhow::{Context, Result};
use memchr::memmem;
use rustix::event::epoll;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

/// Registrar and proxy that looks up and stores nothing: it answers each REGISTER with its own headers, and relays the rest
/// between the last caller and the phone that registered last.
///
/// ```text
/// REGISTER -> 200 back            INVITE -> 100 back, INVITE with a Record-Route to the phone
/// response -> caller              other request -> phone
/// ```
#[derive(Debug)]
pub struct Peer {
    phone: Option<SocketAddrV4>,
    caller: Option<SocketAddrV4>,
    record_route: Vec<u8>,
    /// Message being written.
    message: Vec<u8>,
}

impl Peer {
    /// Creates a peer with the address `own`.
    pub fn new(own: SocketAddrV4) -> Self {
        Self {
            phone: None,
            caller: None,
            record_route: format!("\r\nRecord-Route: <sip:{own};lr>").into_bytes(),
            message: Vec::new(),
        }
    }

    /// Handles a datagram; `send` sends one.
    pub fn receive(&mut self, bytes: &[u8], from: SocketAddrV4, mut send: impl FnMut(SocketAddrV4, &[u8])) {
        let line_end = memmem::find(bytes, b"\r\n").unwrap_or(bytes.len());
        let (line, headers) = bytes.split_at(line_end);
        let to = match line.first() {
            Some(b'R') => {
                self.phone = Some(from);
                send(from, self.joined(&[b"SIP/2.0 200 OK", headers]));
                return;
            }
            Some(b'I') => {
                self.caller = Some(from);
                let end = memmem::find(headers, b"\r\nContact:").unwrap_or(headers.len());
                let (copied, _) = headers.split_at(end);
                send(from, self.joined(&[b"SIP/2.0 100 Trying", copied, b"\r\nContent-Length: 0\r\n\r\n"]));
                if let Some(phone) = self.phone {
                    let record_route = std::mem::take(&mut self.record_route);
                    send(phone, self.joined(&[line, &record_route, headers]));
                    self.record_route = record_route;
                }
                return;
            }
            Some(b'S') => self.caller,
            _ => self.phone,
        };
        if let Some(to) = to {
            send(to, bytes);
        }
    }

    fn joined(&mut self, parts: &[&[u8]]) -> &[u8] {
        self.message.clear();
        parts.iter().for_each(|part| self.message.extend_from_slice(part));
        &self.message
    }
}

/// Sends each datagram back. Of one that begins with an address and a line feed, the rest is sent there first, and what is
/// answered is sent back.
pub(super) fn serve(socket: &UdpSocket) -> Result<()> {
    const ASKED: u64 = 1;
    let asked = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("bind the floor's second socket")?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).context("create an epoll")?;
    for (socket, number) in [(socket, 0), (&asked, ASKED)] {
        epoll::add(&poll, socket, epoll::EventData::new_u64(number), epoll::EventFlags::IN)
            .context("watch a socket")?;
    }
    let mut events: Vec<epoll::Event> = Vec::with_capacity(16);
    let mut waiting: VecDeque<SocketAddr> = VecDeque::new();
    let mut room = vec![0; 65_536];
    loop {
        super::wait(&poll, &mut events)?;
        for event in &events {
            let is_answer = event.data.u64() == ASKED;
            let from = if is_answer { &asked } else { socket };
            let (length, sender) = from.recv_from(&mut room).context("receive on a socket")?;
            let bytes = room.get(..length).unwrap_or_default();
            let sent = match (is_answer, address_of(bytes)) {
                (true, _) => waiting.pop_front().map_or(Ok(0), |sender| socket.send_to(bytes, sender)),
                (false, Some((server, request))) => {
                    waiting.push_back(sender);
                    asked.send_to(request, server)
                }
                (false, None) => socket.send_to(bytes, sender),
            };
            sent.context("send from the floor's sockets")?;
        }
    }
}

/// Address in the first line, and what follows the line.
fn address_of(bytes: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let end = memchr::memchr(b'\n', bytes)?;
    let (address, rest) = bytes.split_at_checked(end)?;
    Some((std::str::from_utf8(address).ok()?.parse().ok()?, rest.get(1..)?))
}

/// Relay between the address that registered last and the other one that sent last.
pub(super) struct Relay {
    is_stateful: bool,
    phone: Option<SocketAddrV4>,
    caller: Option<SocketAddrV4>,
}

impl Relay {
    /// Creates a relay; a stateful one answers an INVITE with a 100.
    pub(super) const fn new(is_stateful: bool) -> Self {
        Self { is_stateful, phone: None, caller: None }
    }

    /// Relays a datagram, or answers a REGISTER.
    pub(super) fn receive(&mut self, bytes: &[u8], sender: SocketAddrV4, out: &mut Outbound) {
        let to = match bytes.first() {
            Some(b'R') => {
                self.phone = Some(sender);
                return out.push_with(Some(sender), |arena| write_answer(bytes, b"SIP/2.0 200 OK", arena));
            }
            _ if self.phone == Some(sender) => self.caller,
            first => {
                self.caller = Some(sender);
                if self.is_stateful && first == Some(&b'I') {
                    out.push_with(Some(sender), |arena| write_trying(bytes, arena));
                }
                self.phone
            }
        };
        if to.is_some() {
            out.push(to, bytes);
        }
    }
}

/// Appends a 100 with the headers of an INVITE before its Contact.
fn write_trying(invite: &[u8], out: &mut Vec<u8>) {
    let end = memmem::find(invite, b"\r\nContact:").unwrap_or(invite.len());
    write_answer(invite.get(..end).unwrap_or_default(), b"SIP/2.0 100 Trying", out);
    out.extend_from_slice(b"\r\nContent-Length: 0\r\n\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddrV4 {
        SocketAddrV4::new([127, 0, 0, 1].into(), port)
    }

    fn sent(peer: &mut Peer, from: u16, text: &str) -> Vec<(u16, String)> {
        let mut all = Vec::new();
        peer.receive(text.as_bytes(), address(from), |to, bytes| {
            all.push((to.port(), String::from_utf8_lossy(bytes).into_owned()));
        });
        all
    }

    #[test]
    fn a_call_is_relayed_to_the_phone_that_registered() {
        let mut peer = Peer::new(address(5060));
        let ok = sent(&mut peer, 2, "REGISTER sip:x SIP/2.0\r\nVia: v\r\n\r\n");
        assert_eq!(ok, [(2, "SIP/2.0 200 OK\r\nVia: v\r\n\r\n".to_owned())]);
        let sent_for_invite = sent(&mut peer, 1, "INVITE sip:x SIP/2.0\r\nVia: v\r\nContact: c\r\n\r\nbody");
        assert_eq!(
            sent_for_invite,
            [
                (1, "SIP/2.0 100 Trying\r\nVia: v\r\nContent-Length: 0\r\n\r\n".to_owned()),
                (
                    2,
                    "INVITE sip:x SIP/2.0\r\nRecord-Route: <sip:127.0.0.1:5060;lr>\r\nVia: v\r\nContact: c\r\n\r\nbody"
                        .to_owned()
                ),
            ]
        );
        assert_eq!(sent(&mut peer, 2, "SIP/2.0 200 OK\r\n\r\n"), [(1, "SIP/2.0 200 OK\r\n\r\n".to_owned())]);
        assert_eq!(
            sent(&mut peer, 1, "BYE sip:x SIP/2.0\r\n\r\n"),
            [(2, "BYE sip:x SIP/2.0\r\n\r\n".to_owned())]
        );
    }

    #[test]
    fn an_address_is_the_first_line() {
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, 7));
        assert_eq!(address_of(b"127.0.0.1:7\nrequest\n"), Some((server, &b"request\n"[..])));
        assert_eq!(address_of(b"request\n"), None);
        assert_eq!(address_of(b"127.0.0.1:7"), None);
    }
}
