//! Relay between callers and phones that reads the first letter of a message.

use super::write_answer;
use crate::sys::Outbound;
use memchr::memmem;
use std::net::SocketAddrV4;

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
