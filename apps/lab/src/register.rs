//! The operation "REGISTER that refreshes a binding", with and without digest.

use crate::closed_loop::{Progress, Scenario, Sending};
use crate::digest::{Algorithm, Credentials};
use crate::template::{self, Carrier, Serial, Template, Values};
use crate::wire::{CONNECTIONS, PHONE_SOCKETS};
use memchr::memmem::Finder;

/// REGISTERs under way at once over UDP: as many as fit into the receive buffer that a server gets by default.
const WINDOW: usize = 256;

/// The same where every second one carries credentials, for which the kernel needs twice the room.
const WINDOW_CHALLENGED: usize = 128;

/// CSeq numbers of a user in one pass: the second one answers a challenge.
const CSEQS_PER_PASS: u32 = 2;

/// In which order users are taken: all of them once, far apart from each other, then all again.
///
/// A server sees no user twice before it has seen all others, which is the worst case for its caches; and every
/// refresh has a CSeq above the last one of the same Call-ID.
#[derive(Clone, Debug)]
pub struct Walk {
    users: u32,
    turn: u64,
}

impl Walk {
    /// A walk over users 0 to `users`.
    pub fn new(users: u32) -> Self {
        Self { users, turn: 0 }
    }

    /// Whose turn is next.
    pub fn next_turn(&mut self) -> Turn {
        // A prime above any number of users, so that it shares no factor with one.
        const STRIDE: u64 = 7_368_787;
        let users = u64::from(self.users);
        let (pass, place) = (self.pass(), self.turn % users);
        self.turn += 1;
        Turn {
            user: (place * STRIDE % users) as u32,
            cseq: 1 + pass * CSEQS_PER_PASS,
            // Room for a second request here, too.
            number: (self.turn * 2) as u32,
        }
    }

    /// Passes through all users so far.
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
    /// The CSeq this user has reached.
    pub cseq: u32,
    /// A number no other operation on this server has: branches must not come back, or the server takes a new request
    /// for a repeat of an old one. The number after it is free too.
    pub number: u32,
}

/// The socket of a user's phone, by UDP.
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
    /// 401 first, and 200 to the retry.
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
    /// `ports` are those of the contacts; over TCP there are others to the connections themselves.
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

    /// The same with so many REGISTERs under way at once.
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
        // Without one it is a late message of another kind of operation.
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
            // A connection repeats by itself what was lost.
            Carrier::Tcp => {}
            // With few users their next turn may have come meanwhile, and the lost message is too old to be taken.
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
