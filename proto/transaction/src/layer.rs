//! All transactions of one shard.

use crate::branch::BranchKey;
use crate::client::{self, Client, ClientId};
use crate::clock::{Due, Side};
use crate::config::{Limits, Timers};
use crate::matching::{MatchKey, Matcher};
use crate::server::{self, Server};
use crate::slab::{Slab, SlabKey};
use crate::state::{invite_server, non_invite_server};
use crate::token::{read_token, server_token};
use alloc::vec::Vec;
use core::hash::{BuildHasherDefault, Hasher};
use hashbrown::HashMap;
use ringway_sansio::{Context, Deadline, Flow, Instant, Token, Wheel};
use ringway_sip::Message;
use siphasher::sip::SipHasher13;

/// The transactions of one shard: matches, repeats, times out.
///
/// `S` and `C` are the owners of a server and of a client transaction: the user's own key of what the transaction belongs
/// to. They are given at the start and come back with what happens to the transaction.
#[derive(Debug)]
pub struct Transactions<S, C> {
    pub(crate) timers: Timers,
    pub(crate) limits: Limits,
    pub(crate) shard: u16,
    pub(crate) matcher: Matcher,
    pub(crate) branch_key: BranchKey,
    pub(crate) servers: Slab<Server<S>>,
    pub(crate) clients: Slab<Client<C>>,
    /// Keys come from peers, but only through a keyed 128-bit hash.
    pub(crate) index: HashMap<MatchKey, SlabKey, BuildHasherDefault<AlreadyHashed>>,
    pub(crate) wheel: Wheel<Due>,
    /// Buffers of transactions that are over.
    pub(crate) spare: Vec<Vec<u8>>,
    pub(crate) branch: Vec<u8>,
    /// Goes into the next branch, so that none is ever written twice, whatever place it is for, over restarts too.
    pub(crate) next_unique: u64,
    /// Owners of server transactions that ended since the user asked last.
    pub(crate) gone: Vec<S>,
    pub(crate) counters: Counters,
}

/// What a request is to the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming<S> {
    /// It belongs to none; the key is for [`Transactions::start_server`].
    New(MatchKey),
    /// It was a repetition, or an ACK that ended what it acknowledged: all is done.
    Absorbed,
    /// An ACK with the branch of an INVITE of this owner that was accepted: the user decides (RFC 6026 §7.1).
    AckOfSuccess(S),
}

/// What a response is to the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<C> {
    /// For the user of this client transaction.
    Pass {
        /// Which.
        client: ClientId,
        /// Owner of the transaction.
        owner: C,
    },
    /// A repetition, or the answer to a CANCEL.
    Absorbed,
    /// To a request that was forwarded without state, which came by this connection (0: by datagram).
    Stateless {
        /// The connection's number.
        connection: u64,
        /// Stands for the address that the request went to; see [`BranchKey::target_of`].
        target: u32,
    },
    /// To a request that went to another address.
    Elsewhere,
    /// To nothing we sent.
    Stray,
}

/// What the user must know without a message having come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice<C> {
    /// No final answer came in time.
    ClientTimedOut {
        /// Which.
        client: ClientId,
        /// Owner of the transaction.
        owner: C,
    },
    /// The request could not be delivered.
    ClientUnreachable {
        /// Which.
        client: ClientId,
        /// Owner of the transaction.
        owner: C,
    },
}

/// What was counted; only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that were sent again.
    pub requests_retransmitted: u64,
    /// Responses that were sent again by a timer or for a repeated request.
    pub responses_retransmitted: u64,
    /// Requests that were recognised as repetitions.
    pub requests_absorbed: u64,
    /// Client transactions without an answer in time.
    pub client_timeouts: u64,
    /// Failed INVITEs whose ACK never came.
    pub acks_missed: u64,
    /// Responses to nothing we sent.
    pub stray_responses: u64,
    /// Requests for which there was no room for a transaction.
    pub refused_full: u64,
    /// Responses that were not sent because an unverified address had got its allowance.
    pub unverified_limited: u64,
}

impl<S: Copy, C: Copy> Transactions<S, C> {
    /// No transactions yet. `key` is secret; all shards of a server that shall read each other's branches share
    /// `branch_key`.
    pub fn new(
        shard: u16,
        timers: Timers,
        limits: Limits,
        key: [u8; 16],
        branch_key: BranchKey,
        now: Instant,
    ) -> Self {
        Self {
            timers,
            limits,
            shard,
            matcher: Matcher::new(key),
            branch_key,
            servers: Slab::default(),
            clients: Slab::default(),
            index: HashMap::default(),
            wheel: Wheel::new(now),
            spare: Vec::new(),
            branch: Vec::new(),
            next_unique: first_unique(&key),
            gone: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// The key of the transaction that a request makes or belongs to.
    pub fn key_of(&self, message: &Message<'_>) -> MatchKey {
        self.matcher.key(message)
    }

    /// The packet with `token` could not be sent.
    pub fn unreachable<A>(&mut self, cx: &mut Context<'_, A>, token: Token, notices: &mut Vec<Notice<C>>) {
        let (place, is_server) = read_token(token);
        if is_server {
            let Some(server) = self.servers.get_mut(place) else { return };
            if let Some(fallback) = server.fallback.take()
                && !server.last.is_empty()
            {
                server.reply = Flow { connection: None, remote: fallback, ..server.reply };
                cx.out.send(server.reply, server_token(self.shard, place), &server.last);
            }
            return;
        }
        self.step_client_alone(cx, place, client::Event::TransportError, notices);
    }

    /// Does what is due, until it has written as much as one batch may have; then the next deadline has passed, so that it
    /// is called again.
    pub fn on_timeout<A>(&mut self, cx: &mut Context<'_, A>, notices: &mut Vec<Notice<C>>) {
        let full = cx.out.bytes_len() + BATCH_BYTES_MAX;
        while cx.out.bytes_len() < full {
            let Some(due) = self.wheel.expire(cx.now) else { break };
            match due.of {
                Side::Server => {
                    let event = server::Event {
                        invite: invite_server::Event::Timer(due.timer),
                        non_invite: Some(non_invite_server::Event::Timer(due.timer)),
                    };
                    self.step_server(cx, due.key, event);
                }
                Side::Client => {
                    self.step_client_alone(cx, due.key, client::Event::Timer(due.timer), notices);
                }
                Side::CancelOfClient => {
                    self.step_cancel(cx, due.key, client::Event::Timer(due.timer));
                }
            }
        }
    }

    /// Owner of a server transaction that is over and removed; call it after each other call until it returns `None`.
    pub fn take_gone(&mut self) -> Option<S> {
        self.gone.pop()
    }

    /// When [`Transactions::on_timeout`] is wanted.
    pub fn next_deadline(&self) -> Option<Deadline> {
        self.wheel.next_due().map(|at| Deadline { at, reason: "a transaction timer" })
    }

    /// How many server and client transactions there are.
    pub fn len(&self) -> (usize, usize) {
        (self.servers.len(), self.clients.len())
    }

    /// True when nothing is under way: all that is left waits for repetitions of what is answered.
    pub fn is_idle(&self) -> bool {
        self.servers.iter().all(|(_, server)| server.machine.is_answered())
    }

    /// What was counted.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The key that our branches are written with.
    pub const fn branch_key(&self) -> &BranchKey {
        &self.branch_key
    }
}

pub(crate) fn recycle(spare: &mut Vec<Vec<u8>>, mut buffer: Vec<u8>) {
    if buffer.capacity() > 0 && buffer.capacity() <= SPARE_BYTES_MAX && spare.len() < SPARE_MAX {
        buffer.clear();
        spare.push(buffer);
    }
}

/// Bytes that retransmissions add to one batch.
const BATCH_BYTES_MAX: usize = 1 << 20;

const SPARE_MAX: usize = 256;
const SPARE_BYTES_MAX: usize = 4096;

/// Match keys are hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u128(&mut self, value: u128) {
        self.0 = value as u64;
    }
}

/// Where the numbers in branches begin. Everybody sees them, so they must not tell the key.
fn first_unique(key: &[u8; 16]) -> u64 {
    let mut hash = SipHasher13::new_with_key(key);
    hash.write(b"first branch");
    hash.finish()
}

#[cfg(test)]
#[path = "layer_tests.rs"]
mod tests;
