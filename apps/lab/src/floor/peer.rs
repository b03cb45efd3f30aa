//! Peer of a load generator: the cheapest server whose messages are valid SIP.

use memchr::memmem;
use std::net::SocketAddrV4;

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
}
