//! The operations "redirect" and "not found": INVITE, final response, ACK.

use crate::call::header_lines;
use crate::closed_loop::{Progress, Scenario, Sending};
use crate::register::{Turn, Walk, socket_of};
use crate::template::{self, Serial, Template, Values};
use crate::wire::PHONE_SOCKETS;
use memchr::memmem::Finder;

/// Number of INVITEs in progress at a time: with their ACKs they fit into a default receive buffer.
const WINDOW: usize = 96;

/// Final response to the INVITE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// 302 with a registered user's contact.
    Redirected,
    /// 404 for an unknown user.
    NotFound,
    /// The floor's echo.
    Echo,
}

/// The scenario.
pub struct Refusals<'a> {
    walk: &'a mut Walk,
    ports: [u16; PHONE_SOCKETS],
    ending: Ending,
    invite: Template,
    ack_head: Template,
    ack_tail: Template,
    slots: Vec<Slot>,
    call_id: Finder<'static>,
}

#[derive(Clone, Default)]
struct Slot {
    values: Values,
    invite: Vec<u8>,
}

impl<'a> Refusals<'a> {
    /// Creates the scenario. `walk` chooses the called users.
    pub fn new(walk: &'a mut Walk, ports: [u16; PHONE_SOCKETS], ending: Ending) -> Self {
        let prefix = match ending {
            Ending::Redirected | Ending::Echo => 'u',
            Ending::NotFound => 'x',
        };
        Self {
            walk,
            ports,
            ending,
            invite: template::invite(prefix),
            ack_head: template::refused_ack_head(prefix),
            ack_tail: template::refused_ack_tail(),
            slots: vec![Slot::default(); WINDOW],
            call_id: Finder::new("Call-ID: "),
        }
    }
}

impl Scenario for Refusals<'_> {
    fn window(&self) -> usize {
        WINDOW
    }

    fn begin(&mut self, slot: usize, out: &mut Sending<'_>) {
        let Turn { user: peer, number, .. } = self.walk.next_turn();
        // Any user can be the caller.
        let user = peer ^ 1;
        let socket = socket_of(user);
        let Some(state) = self.slots.get_mut(slot) else { return };
        state.values = Values {
            user,
            peer,
            serial: Serial { slot: slot as u16, turn: number },
            cseq: 1,
            port: self.ports.get(socket).copied().unwrap_or_default(),
            ..Values::default()
        };
        state.invite.clear();
        self.invite.write(&state.values, &mut state.invite);
        out.send(socket, &state.invite);
    }

    fn on_message(&mut self, socket: usize, bytes: &[u8], out: &mut Sending<'_>) -> Progress {
        // Without a serial number it is a late response to another kind of operation.
        let Some(serial) = Serial::find(bytes, &self.call_id) else { return Progress::Nothing };
        let slot = usize::from(serial.slot);
        let Some(state) = self.slots.get(slot) else { return Progress::Unexpected };
        if serial != state.values.serial {
            return Progress::Nothing;
        }
        let status = bytes.get(8..11).unwrap_or_default();
        let ended = match self.ending {
            Ending::Redirected => status == b"302" && memchr::memmem::find(bytes, b"\r\nContact: ").is_some(),
            Ending::NotFound => status == b"404",
            Ending::Echo => bytes.starts_with(b"INVITE"),
        };
        if !ended {
            return if status == b"100" { Progress::Step(slot) } else { Progress::Unexpected };
        }
        let Some(to) = header_lines(bytes).find(|line| line.starts_with(b"To:")) else {
            return Progress::Unexpected;
        };
        out.send_with(socket, |message| {
            self.ack_head.write(&state.values, message);
            message.extend_from_slice(to);
            self.ack_tail.write(&state.values, message);
        });
        Progress::Done(slot)
    }

    fn repeat(&mut self, slot: usize, out: &mut Sending<'_>) {
        if let Some(state) = self.slots.get(slot) {
            out.send(socket_of(state.values.user), &state.invite);
        }
    }
}
