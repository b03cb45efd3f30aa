//! The called phone of a crowd.

use super::super::message::respond;
use super::super::script::T2;
use super::super::template::Serial;
use super::{Pending, is_cancelled, number_of, send};
use anyhow::Result;
use std::collections::HashMap;
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::time::Instant;

pub(super) struct Phone<'c> {
    socket: &'c UdpSocket,
    address: SocketAddrV4,
    calls: HashMap<u32, Incoming>,
    /// Answered calls whose ACK came after a repeat of the 200, and those whose ACK did not come.
    again: u64,
    failed: u64,
}

enum Incoming {
    /// INVITE of a call that will be cancelled, and the tag of its responses.
    Ringing(Vec<u8>),
    /// Final response until its ACK.
    Answered(Pending),
    Acknowledged,
}

impl<'c> Phone<'c> {
    pub(super) fn new((socket, address): &'c (UdpSocket, SocketAddrV4)) -> Self {
        Self { socket, address: *address, calls: HashMap::new(), again: 0, failed: 0 }
    }

    /// Number of final responses without an ACK.
    pub(super) fn unacknowledged(&self) -> usize {
        self.calls.values().filter(|call| matches!(call, Incoming::Answered(_))).count()
    }

    /// Number of ACKs that needed a repeated 200, and of those that did not come.
    pub(super) const fn acks(&self) -> (u64, u64) {
        (self.again, self.failed)
    }

    pub(super) fn on_request(&mut self, request: &[u8], from: SocketAddr, now: Instant) -> Result<()> {
        let Some(number) = number_of(request) else { return Ok(()) };
        let method = request.split(|&byte| byte == b' ').next().unwrap_or_default();
        match (method, self.calls.remove(&number)) {
            (b"ACK", Some(Incoming::Answered(answer))) => {
                self.again += u64::from(answer.was_repeated && !is_cancelled(number));
                self.calls.insert(number, Incoming::Acknowledged);
            }
            (b"INVITE", None) if is_cancelled(number) => {
                send(self.socket, &self.response(request, b"180 Ringing"), from)?;
                self.calls.insert(number, Incoming::Ringing(request.to_vec()));
            }
            (b"INVITE", None) => {
                send(self.socket, &self.response(request, b"180 Ringing"), from)?;
                self.answer(number, request, b"200 OK", (from, now))?;
            }
            (b"CANCEL", Some(Incoming::Ringing(invite))) => {
                send(self.socket, &self.response(request, b"200 OK"), from)?;
                self.answer(number, &invite, b"487 Request Terminated", (from, now))?;
            }
            (b"ACK" | b"INVITE" | b"SIP/2.0", Some(call)) => drop(self.calls.insert(number, call)),
            (b"ACK" | b"SIP/2.0", None) => {}
            (_, call) => {
                send(self.socket, &self.response(request, b"200 OK"), from)?;
                self.calls.extend(call.map(|call| (number, call)));
            }
        }
        Ok(())
    }

    fn answer(
        &mut self,
        number: u32,
        invite: &[u8],
        status: &[u8],
        (to, now): (SocketAddr, Instant),
    ) -> Result<()> {
        let answer = Pending::send(self.socket, self.response(invite, status), to, (now, T2))?;
        self.calls.insert(number, Incoming::Answered(answer));
        Ok(())
    }

    fn response(&self, request: &[u8], status: &[u8]) -> Vec<u8> {
        let mut response = Vec::with_capacity(1024);
        respond(request, status, Serial::default(), &mut response);
        let end = format!("Contact: <sip:phone@{}>\r\nContent-Length: 0\r\n\r\n", self.address);
        response.extend_from_slice(end.as_bytes());
        response
    }

    /// Repeats the final responses that are due.
    pub(super) fn look(&mut self, now: Instant) -> Result<()> {
        for (&number, call) in &mut self.calls {
            let Incoming::Answered(answer) = call else { continue };
            if !answer.repeat(self.socket, now)? {
                self.failed += u64::from(!is_cancelled(number));
                *call = Incoming::Acknowledged;
            }
        }
        Ok(())
    }
}
