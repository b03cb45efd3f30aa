//! Transactions of one shard. Tokens of packets: the driver reports them if it could not send a packet.

use crate::client::{Client, ClientId};
use crate::server::{MatchKey, Matcher, Server};
use crate::slab::{Slab, SlabKey};
use crate::state::{ClientEvent, ServerEvent};
use crate::timers::{Due, Limits, Side, Timers};
use crate::via::{BranchKey, StatelessBranch};
use alloc::vec::Vec;
use core::hash::{BuildHasherDefault, Hasher};
use hashbrown::HashMap;
use ringway_sansio::{Context, Deadline, Flow, Instant, Token, Wheel};
use ringway_sip::Message;
use siphasher::sip::SipHasher13;

/// Transactions of one shard: matches, retransmits, times out.
///
/// `S` and `C` are the owners of server and client transactions: keys of the user's own state. They are passed in when a
/// transaction starts, and returned with its events.
#[derive(Debug)]
pub struct Transactions<S, C> {
    pub(crate) timers: Timers,
    pub(crate) limits: Limits,
    pub(crate) shard: u16,
    pub(crate) matcher: Matcher,
    pub(crate) branch_key: BranchKey,
    pub(crate) servers: Slab<Server<S>>,
    pub(crate) clients: Slab<Client<C>>,
    /// Keys depend on the input of peers, but only through a keyed 128-bit hash.
    pub(crate) index: HashMap<MatchKey, SlabKey, BuildHasherDefault<AlreadyHashed>>,
    pub(crate) wheel: Wheel<Due>,
    /// Buffers of ended transactions, for reuse.
    pub(crate) spare: Vec<Vec<u8>>,
    pub(crate) branch: Vec<u8>,
    /// Part of the next branch, so that no branch is written twice for the same slot, even after a restart.
    pub(crate) next_unique: u64,
    /// Owners of ended server transactions that [`Transactions::take_gone`] has not returned yet.
    pub(crate) gone: Vec<S>,
    pub(crate) counters: Counters,
}

/// Relation of a received request to the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming<S> {
    /// It belongs to none; the key is for [`Transactions::start_server`].
    New(MatchKey),
    /// Retransmission, or ACK of a failed INVITE; it is completely handled.
    Absorbed,
    /// ACK with the branch of an accepted INVITE of this owner: the user handles it (RFC 6026 §7.1).
    AckOfSuccess(S),
}

/// Relation of a received response to the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<C> {
    /// Response for the user of this client transaction.
    Pass {
        /// Key of the transaction.
        client: ClientId,
        /// Owner of the transaction.
        owner: C,
    },
    /// Retransmission, or response to a CANCEL.
    Absorbed,
    /// Response to a statelessly forwarded request.
    Stateless(StatelessBranch),
    /// Response from another address than the next hop of the request.
    Elsewhere,
    /// Response that belongs to no request of ours.
    Stray,
}

/// Event of a client transaction for its user, other than a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice<C> {
    /// Timeout: no final response was received in time.
    ClientTimedOut {
        /// Key of the transaction.
        client: ClientId,
        /// Owner of the transaction.
        owner: C,
    },
    /// Transport error: the request could not be delivered.
    ClientUnreachable {
        /// Key of the transaction.
        client: ClientId,
        /// Owner of the transaction.
        owner: C,
    },
}

ringway_sansio::counters! {
    /// Counters of the transactions; values only increase.
    pub struct Counters {
        /// Requests retransmitted.
        requests_retransmitted,
        /// Responses retransmitted.
        responses_retransmitted,
        /// Requests recognised as retransmissions.
        requests_absorbed,
        /// Requests without a response in time.
        client_timeouts,
        /// Requests that an ICMP error ended.
        icmp_failures,
        /// Failed INVITEs without an ACK.
        acks_missed,
        /// Responses that match no request of this server.
        stray_responses,
        /// Requests refused because of the limit of transactions.
        transactions_refused,
        /// Responses suppressed by the allowance of an unverified address.
        responses_limited,
    }
}

impl<S: Copy, C: Copy> Transactions<S, C> {
    /// Creates an empty transaction layer. `key` is secret; shards that read each other's branches have the same
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

    /// Key of the transaction that a request creates or belongs to.
    pub fn key_of(&self, message: &Message<'_>) -> MatchKey {
        self.matcher.key(message)
    }

    /// Token of the packet that a client transaction sends.
    pub fn token_of(&self, client: ClientId) -> Token {
        client_token(self.shard, client.0)
    }

    /// Handles the report that the packet with `token` could not be sent.
    pub fn unreachable<A>(&mut self, cx: &mut Context<'_, A>, token: Token, notices: &mut Vec<Notice<C>>) {
        let (slot, is_server) = read_token(token);
        if is_server {
            let Some(server) = self.servers.get_mut(slot) else { return };
            if let Some(fallback) = server.fallback.take()
                && !server.last.is_empty()
            {
                server.reply = Flow { connection: None, remote: fallback, ..server.reply };
                cx.out.send(server.reply, server_token(self.shard, slot), &server.last);
            }
            return;
        }
        self.step_client_alone(cx, slot, ClientEvent::TransportError, notices);
    }

    /// Fires due timers until their packets have the bytes of one batch; the next deadline has then passed, so that it is
    /// called again.
    pub fn on_timeout<A>(&mut self, cx: &mut Context<'_, A>, notices: &mut Vec<Notice<C>>) {
        let full = cx.out.bytes_len() + BATCH_BYTES_MAX;
        while cx.out.bytes_len() < full {
            let Some(due) = self.wheel.expire(cx.now) else { break };
            match due.of {
                Side::Server => {
                    self.step_server(cx, due.key, ServerEvent::Timer(due.timer));
                }
                Side::Client => {
                    self.step_client_alone(cx, due.key, ClientEvent::Timer(due.timer), notices);
                }
                Side::CancelOfClient => {
                    self.step_cancel(cx, due.key, ClientEvent::Timer(due.timer));
                }
            }
        }
    }

    /// Owner of an ended server transaction; call it after each other call until it returns `None`.
    pub fn take_gone(&mut self) -> Option<S> {
        self.gone.pop()
    }

    /// True if [`Transactions::take_gone`] has an owner to return.
    pub const fn has_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Time of the next necessary call of [`Transactions::on_timeout`].
    pub fn next_deadline(&self) -> Option<Deadline> {
        self.wheel.next_due().map(|at| Deadline { at, reason: "a transaction timer" })
    }

    /// Number of server and of client transactions.
    pub fn len(&self) -> (usize, usize) {
        (self.servers.len(), self.clients.len())
    }

    /// True if no server transaction waits for its final response; the others only absorb retransmissions.
    pub fn is_idle(&self) -> bool {
        self.servers.iter().all(|(_, server)| server.machine.is_answered())
    }

    /// Counters since the start.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Key of our branches.
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

/// Maximum number of bytes that retransmissions add to one batch.
const BATCH_BYTES_MAX: usize = 1 << 20;

const SPARE_MAX: usize = 256;
const SPARE_BYTES_MAX: usize = 4096;

/// Hasher of match keys, which are hashes already.
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

/// First number in a branch. Branches are public, so the number must not reveal the key.
fn first_unique(key: &[u8; 16]) -> u64 {
    let mut hash = SipHasher13::new_with_key(key);
    hash.write(b"first branch");
    hash.finish()
}

/// The top 16 bits are the shard, so that the driver can route the report; one bit distinguishes servers from clients.
pub(crate) fn client_token(shard: u16, slot: SlabKey) -> Token {
    Token((u64::from(shard) << 48) | (u64::from(slot.generation) << 32) | u64::from(slot.index & !SERVER_BIT))
}

pub(crate) fn server_token(shard: u16, slot: SlabKey) -> Token {
    Token(client_token(shard, slot).0 | u64::from(SERVER_BIT))
}

fn read_token(token: Token) -> (SlabKey, bool) {
    let low = token.0 as u32;
    let generation = ((token.0 >> 32) & 0xffff) as u32;
    (SlabKey { index: low & !SERVER_BIT, generation }, low & SERVER_BIT != 0)
}

const SERVER_BIT: u32 = 1 << 31;

#[cfg(test)]
#[path = "layer_tests.rs"]
mod tests;
