//! The operation "call": INVITE, 100, 180, 200, ACK, BYE, 200, with the generator as caller and as called phone.
//!
//! ```text
//! caller (socket k)          server          called (socket k + 1)
//!   INVITE ------------------->|---------------->    Inviting -> Answered
//!   <------------------- 100 --|
//!   <------------------- 180 --|<--------- 180
//!   <------------------- 200 --|<--------- 200       -> Acked
//!   ACK ---------------------->|---------------->    -> Leaving
//!   BYE ---------------------->|---------------->
//!   <------------------- 200 --|<--------- 200       done
//! ```
//! BYE is sent when the ACK has arrived, so that a lost ACK is noticed.

use crate::closed_loop::{Progress, Scenario, Sending};
use crate::register::{Turn, Walk, socket_of};
use crate::template::{self, Serial, Template, Values};
use crate::wire::PHONE_SOCKETS;
use memchr::memmem::Finder;

/// Number of calls in progress at a time: with two messages of a call in transit, less than the default
/// buffer of a socket.
const WINDOW: usize = 96;

/// Number of bytes of the INVITE that the floor sends back instead of a 100.
pub const TRYING_BYTES: usize = 330;

/// Server that carries the calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carried {
    /// A SIP proxy.
    ByProxy,
    /// The floor: a relay that parses nothing, and sends the start of an INVITE back instead of a 100.
    ByFloor,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Phase {
    #[default]
    Idle,
    /// The INVITE has not reached the called phone.
    Inviting,
    /// The called phone has sent its 200.
    Answered,
    /// The caller has sent its ACK.
    Acked,
    /// The caller has sent its BYE.
    Leaving,
}

/// The scenario.
pub struct Calls<'a> {
    walk: &'a mut Walk,
    ports: [u16; PHONE_SOCKETS],
    carried: Carried,
    invite: Template,
    ack: InDialog,
    bye: InDialog,
    answer: Template,
    slots: Vec<Slot>,
    call_id: Finder<'static>,
    of_bye: Finder<'static>,
}

struct InDialog {
    head: Template,
    tail: Template,
}

#[derive(Clone, Default)]
struct Slot {
    values: Values,
    phase: Phase,
    /// The caller's last request.
    request: Vec<u8>,
    /// The called phone's 200 to the INVITE.
    answer: Vec<u8>,
    /// Route headers of the caller's ACK and BYE.
    routes: Vec<u8>,
}

impl InDialog {
    fn new(method: &str, letter: char) -> Self {
        Self { head: template::in_dialog_head(method), tail: template::in_dialog_tail(method, letter) }
    }

    fn write(&self, values: &Values, routes: &[u8], out: &mut Vec<u8>) {
        out.clear();
        self.head.write(values, out);
        out.extend_from_slice(routes);
        self.tail.write(values, out);
    }
}

impl<'a> Calls<'a> {
    /// Creates the scenario. `walk` chooses the called users; the caller is the preceding user.
    pub fn new(walk: &'a mut Walk, ports: [u16; PHONE_SOCKETS], carried: Carried) -> Self {
        Self {
            walk,
            ports,
            carried,
            invite: template::invite('u'),
            ack: InDialog::new("ACK", 'k'),
            bye: InDialog::new("BYE", 'b'),
            answer: template::answer_tail(),
            slots: vec![Slot::default(); WINDOW],
            call_id: Finder::new("Call-ID: "),
            of_bye: Finder::new(" BYE\r\n"),
        }
    }

    fn on_response(&mut self, slot: usize, bytes: &[u8], out: &mut Sending<'_>) -> Progress {
        let Some(state) = self.slots.get_mut(slot) else { return Progress::Unexpected };
        let status = bytes.get(8..11).unwrap_or_default();
        let of_bye = self.of_bye.find(bytes).is_some();
        match (status, of_bye, state.phase) {
            (b"100" | b"180", false, _) => Progress::Step(slot),
            (b"200", false, Phase::Answered) => {
                copy_routes(bytes, &mut state.routes);
                state.values.cseq = 1;
                self.ack.write(&state.values, &state.routes, &mut state.request);
                out.send(socket_of(state.values.user), &state.request);
                state.phase = Phase::Acked;
                Progress::Step(slot)
            }
            (b"200", false, Phase::Acked | Phase::Leaving) => Progress::Nothing,
            (b"200", true, Phase::Leaving) => {
                state.phase = Phase::Idle;
                Progress::Done(slot)
            }
            _ => Progress::Unexpected,
        }
    }

    fn on_request(&mut self, slot: usize, socket: usize, bytes: &[u8], out: &mut Sending<'_>) -> Progress {
        let Some(state) = self.slots.get_mut(slot) else { return Progress::Unexpected };
        let method = bytes.get(..3).unwrap_or_default();
        match (method, state.phase) {
            (b"INV", Phase::Inviting) => {
                out.send_with(socket, |message| {
                    respond(bytes, b"180 Ringing", state.values.serial, message);
                    message.extend_from_slice(b"Content-Length: 0\r\n\r\n");
                });
                state.answer.clear();
                respond(bytes, b"200 OK", state.values.serial, &mut state.answer);
                self.answer.write(&state.values, &mut state.answer);
                out.send(socket, &state.answer);
                state.phase = Phase::Answered;
                Progress::Step(slot)
            }
            (b"INV", Phase::Answered) => {
                out.send(socket, &state.answer);
                Progress::Step(slot)
            }
            (b"ACK", Phase::Acked) => {
                state.values.cseq = 2;
                self.bye.write(&state.values, &state.routes, &mut state.request);
                out.send(socket_of(state.values.user), &state.request);
                state.phase = Phase::Leaving;
                Progress::Step(slot)
            }
            (b"INV" | b"ACK", _) => Progress::Nothing,
            (b"BYE", Phase::Leaving) => {
                out.send_with(socket, |message| {
                    respond(bytes, b"200 OK", state.values.serial, message);
                    message.extend_from_slice(b"Content-Length: 0\r\n\r\n");
                });
                Progress::Step(slot)
            }
            _ => Progress::Unexpected,
        }
    }
}

impl Scenario for Calls<'_> {
    fn window(&self) -> usize {
        WINDOW
    }

    fn begin(&mut self, slot: usize, out: &mut Sending<'_>) {
        let Turn { user: peer, number, .. } = self.walk.next_turn();
        let user = peer.checked_sub(1).unwrap_or(self.walk.users() - 1);
        let (caller, called) = (socket_of(user), socket_of(peer));
        let Some(state) = self.slots.get_mut(slot) else { return };
        state.values = Values {
            user,
            peer,
            serial: Serial { slot: slot as u16, turn: number },
            cseq: 1,
            port: self.ports.get(caller).copied().unwrap_or_default(),
            peer_port: self.ports.get(called).copied().unwrap_or_default(),
        };
        state.phase = Phase::Inviting;
        state.request.clear();
        self.invite.write(&state.values, &mut state.request);
        out.send(caller, &state.request);
    }

    fn on_message(&mut self, socket: usize, bytes: &[u8], out: &mut Sending<'_>) -> Progress {
        // Without a serial number it is a late response to another kind of operation.
        let Some(serial) = Serial::find(bytes, &self.call_id) else { return Progress::Nothing };
        let slot = usize::from(serial.slot);
        let Some(state) = self.slots.get(slot) else { return Progress::Unexpected };
        if serial != state.values.serial {
            return Progress::Nothing;
        }
        let at_caller = socket == socket_of(state.values.user);
        let at_called = socket == socket_of(state.values.peer);
        match (bytes.starts_with(b"SIP/2.0 "), at_caller) {
            (true, true) => self.on_response(slot, bytes, out),
            (false, false) if at_called => self.on_request(slot, socket, bytes, out),
            (false, true) if self.carried == Carried::ByFloor => Progress::Step(slot),
            _ => Progress::Unexpected,
        }
    }

    fn repeat(&mut self, slot: usize, out: &mut Sending<'_>) {
        let Some(state) = self.slots.get(slot) else { return };
        match state.phase {
            Phase::Idle => {}
            Phase::Inviting | Phase::Acked | Phase::Leaving => {
                out.send(socket_of(state.values.user), &state.request)
            }
            Phase::Answered => out.send(socket_of(state.values.peer), &state.answer),
        }
    }
}

/// Appends a response up to its own headers: status line, and the headers that are copied from the request
/// (RFC 3261 §8.2.6.2, §12.1.1), with our tag in To.
pub fn respond(request: &[u8], status: &[u8], tag: Serial, out: &mut Vec<u8>) {
    out.extend_from_slice(b"SIP/2.0 ");
    out.extend_from_slice(status);
    out.extend_from_slice(b"\r\n");
    for line in header_lines(request) {
        if [&b"Via:"[..], b"From:", b"Call-ID:", b"CSeq:", b"Record-Route:"]
            .iter()
            .any(|name| line.starts_with(name))
        {
            out.extend_from_slice(line);
        } else if line.starts_with(b"To:") {
            out.extend_from_slice(line);
            if memchr::memmem::find(line, b";tag=").is_none() {
                out.truncate(out.len() - 2);
                out.extend_from_slice(b";tag=b");
                out.extend_from_slice(&tag.digits());
                out.extend_from_slice(b"\r\n");
            }
        }
    }
}

/// Turns the Record-Route headers of a response into the caller's Route headers, last one first (RFC 3261 §12.1.2).
pub fn copy_routes(response: &[u8], routes: &mut Vec<u8>) {
    const NAME: &[u8] = b"Record-Route:";
    routes.clear();
    let lines: Vec<&[u8]> = header_lines(response).filter(|line| line.starts_with(NAME)).collect();
    for line in lines.iter().rev() {
        routes.extend_from_slice(b"Route:");
        routes.extend_from_slice(line.get(NAME.len()..).unwrap_or_default());
    }
}

/// The header lines of a message, each with its CR LF, without the first line.
pub fn header_lines(message: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = message;
    std::iter::from_fn(move || {
        let end = memchr::memchr(b'\n', rest)? + 1;
        let (line, after) = rest.split_at_checked(end)?;
        rest = after;
        (line != b"\r\n").then_some(line)
    })
    .skip(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_copies_the_headers_of_the_rfc() {
        let request = b"INVITE sip:b@h SIP/2.0\r\nRecord-Route: <sip:p2;lr>\r\nRecord-Route: <sip:p1;lr>\r\n\
            Via: SIP/2.0/UDP p\r\nVia: SIP/2.0/UDP a\r\nTo: <sip:b@h>\r\nFrom: <sip:a@h>;tag=1\r\n\
            Max-Forwards: 70\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\n\r\nTo: body";
        let mut response = Vec::new();
        respond(request, b"200 OK", Serial { slot: 1, turn: 2 }, &mut response);
        assert_eq!(
            String::from_utf8_lossy(&response),
            "SIP/2.0 200 OK\r\nRecord-Route: <sip:p2;lr>\r\nRecord-Route: <sip:p1;lr>\r\nVia: SIP/2.0/UDP p\r\n\
             Via: SIP/2.0/UDP a\r\nTo: <sip:b@h>;tag=b000100000002\r\nFrom: <sip:a@h>;tag=1\r\nCall-ID: 1\r\n\
             CSeq: 1 INVITE\r\n"
        );
        let mut routes = Vec::new();
        copy_routes(&response, &mut routes);
        assert_eq!(String::from_utf8_lossy(&routes), "Route: <sip:p1;lr>\r\nRoute: <sip:p2;lr>\r\n");
    }
}
