//! The operation "REGISTER that refreshes a binding", with and without digest.

use crate::closed_loop::{Progress, Scenario, Sending};
use crate::digest::{Algorithm, Credentials};
use crate::template::{self, Carrier, Serial, Template, Values};
use crate::wire::{CONNECTIONS, PHONE_SOCKETS};
use memchr::memmem::Finder;

/// Number of REGISTERs in progress over UDP: as many as fit into the default receive buffer of a server.
const WINDOW: usize = 256;

/// The same if every second REGISTER has credentials, which take twice the buffer space.
const WINDOW_CHALLENGED: usize = 128;

/// Number of CSeq values of a user in one pass; the second is for the answer to a challenge.
const CSEQS_PER_PASS: u32 = 2;

/// Order of the users: all of them once, with a large stride, then all again.
///
/// A server processes no user twice before it has processed all others, which is the worst case for its
/// caches. Every refresh has a higher CSeq than the previous one of the same Call-ID.
#[derive(Clone, Debug)]
pub struct Walk {
    users: u32,
    turn: u64,
}

impl Walk {
    /// Creates a walk over users 0 to `users`.
    pub fn new(users: u32) -> Self {
        Self { users, turn: 0 }
    }

    /// Next user.
    pub fn next_turn(&mut self) -> Turn {
        // A prime above any number of users, so that it has no common factor with it.
        const STRIDE: u64 = 7_368_787;
        let users = u64::from(self.users);
        let (pass, environment) = (self.pass(), self.turn % users);
        self.turn += 1;
        Turn {
            user: (environment * STRIDE % users) as u32,
            cseq: 1 + pass * CSEQS_PER_PASS,
            // The next number is reserved for a second request.
            number: (self.turn * 2) as u32,
        }
    }

    /// Number of complete passes.
    fn pass(&self) -> u32 {
        (self.turn / u64::from(self.users)) as u32
    }

    /// Number of users.
    pub fn users(&self) -> u32 {
        self.users
    }
}

/// One step of a [`Walk`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// The user.
    pub user: u32,
    /// CSeq of the user's next request.
    pub cseq: u32,
    /// Number that no other operation on this server has: a repeated branch would make a new request a
    /// retransmission. The following number is reserved as well.
    pub number: u32,
}

/// Socket of a user's phone over UDP.
pub fn socket_of(user: u32) -> usize {
    user as usize % PHONE_SOCKETS
}

/// Expected response of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect {
    /// 200.
    Ok,
    /// The request itself, from the floor.
    Echo,
    /// 401, then 200 to the retry.
    Challenge(Algorithm),
}

/// The scenario.
pub struct Refresh<'a> {
    walk: &'a mut Walk,
    ports: [u16; PHONE_SOCKETS],
    carrier: Carrier,
    expect: Expect,
    plain: Template,
    open: Template,
    credentials: Option<Credentials>,
    slots: Vec<Slot>,
    branch: Finder<'static>,
}

#[derive(Clone, Default)]
struct Slot {
    values: Values,
    retried: bool,
    message: Vec<u8>,
}

impl<'a> Refresh<'a> {
    /// Creates the scenario. `ports` are those of the contacts; TCP connections have others.
    pub fn new(walk: &'a mut Walk, ports: [u16; PHONE_SOCKETS], carrier: Carrier, expect: Expect) -> Self {
        let credentials = match expect {
            Expect::Challenge(algorithm) => Some(Credentials::new(algorithm)),
            Expect::Ok | Expect::Echo => None,
        };
        Self {
            walk,
            ports,
            carrier,
            expect,
            plain: template::register(carrier),
            open: template::register_open(),
            credentials,
            slots: vec![Slot::default(); window(carrier, expect)],
            branch: Finder::new("branch=z9hG4bKn"),
        }
    }

    /// Sets the number of REGISTERs in progress.
    pub fn with_window(self, window: usize) -> Self {
        Self { slots: vec![Slot::default(); window], ..self }
    }
}

impl Scenario for Refresh<'_> {
    fn window(&self) -> usize {
        self.slots.len()
    }

    fn begin(&mut self, slot: usize, out: &mut Sending<'_>) {
        let Turn { user, cseq, number } = self.walk.next_turn();
        let Some(state) = self.slots.get_mut(slot) else { return };
        state.values = Values {
            user,
            cseq,
            port: self.ports.get(socket_of(user)).copied().unwrap_or_default(),
            serial: Serial { slot: slot as u16, turn: number },
            ..Values::default()
        };
        state.retried = false;
        state.message.clear();
        self.plain.write(&state.values, &mut state.message);
        let socket = match self.carrier {
            Carrier::Udp => socket_of(user),
            Carrier::Tcp => slot,
        };
        out.send(socket, &state.message);
    }

    fn on_message(&mut self, socket: usize, bytes: &[u8], out: &mut Sending<'_>) -> Progress {
        // Without a serial number it is a late message of another kind of operation.
        let Some(serial) = Serial::find(bytes, &self.branch) else { return Progress::Nothing };
        let slot = usize::from(serial.slot);
        let Some(state) = self.slots.get_mut(slot) else { return Progress::Unexpected };
        if serial != state.values.serial {
            return Progress::Nothing;
        }
        let status = bytes.get(8..11).unwrap_or_default();
        match self.expect {
            Expect::Ok if status == b"200" => Progress::Done(slot),
            Expect::Echo if bytes.starts_with(b"REGISTER") => Progress::Done(slot),
            Expect::Challenge(_) if status == b"200" && state.retried => Progress::Done(slot),
            Expect::Challenge(_) if status == b"401" && !state.retried => {
                state.values.serial.turn = state.values.serial.turn.wrapping_add(1);
                state.values.cseq += 1;
                state.retried = true;
                state.message.clear();
                self.open.write(&state.values, &mut state.message);
                let answered = self
                    .credentials
                    .as_ref()
                    .is_some_and(|known| known.answer(state.values.user, bytes, &mut state.message));
                if !answered {
                    return Progress::Unexpected;
                }
                state.message.extend_from_slice(b"\r\n");
                out.send(socket, &state.message);
                Progress::Step(slot)
            }
            Expect::Ok | Expect::Echo | Expect::Challenge(_) => Progress::Unexpected,
        }
    }

    fn repeat(&mut self, slot: usize, out: &mut Sending<'_>) {
        let Some(state) = self.slots.get(slot) else { return };
        match self.carrier {
            // TCP retransmits lost segments.
            Carrier::Tcp => {}
            // With few users the next request of a user may have been sent, and the lost one has become too
            // old.
            Carrier::Udp if self.walk.pass() > (state.values.cseq - 1) / CSEQS_PER_PASS => {
                self.begin(slot, out)
            }
            Carrier::Udp => out.send(socket_of(state.values.user), &state.message),
        }
    }
}

fn window(carrier: Carrier, expect: Expect) -> usize {
    match (carrier, expect) {
        (Carrier::Udp, Expect::Ok | Expect::Echo) => WINDOW,
        (Carrier::Udp, Expect::Challenge(_)) => WINDOW_CHALLENGED,
        (Carrier::Tcp, _) => CONNECTIONS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_walk_visits_every_user_once_a_pass_and_raises_the_cseq() {
        let mut walk = Walk::new(40);
        let first: Vec<Turn> = (0..40).map(|_| walk.next_turn()).collect();
        let users: HashSet<u32> = first.iter().map(|turn| turn.user).collect();
        assert_eq!(users, (0..40).collect());
        assert!(first.iter().all(|turn| turn.cseq == 1));
        let again = walk.next_turn();
        assert!(again.user < 40 && again.cseq == 3);
        assert!(first.iter().all(|turn| turn.number + 1 < again.number));
    }
}
