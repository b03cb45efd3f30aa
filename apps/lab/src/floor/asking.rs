//! Floor for a server that asks another one before it forwards a message: requests and answers over UDP in one epoll loop.

use anyhow::{Context, Result};
use rustix::event::epoll;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_first_line() {
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, 7));
        assert_eq!(address_of(b"127.0.0.1:7\nrequest\n"), Some((server, &b"request\n"[..])));
        assert_eq!(address_of(b"request\n"), None);
        assert_eq!(address_of(b"127.0.0.1:7"), None);
    }
}
