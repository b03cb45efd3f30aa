//! Memory of pending requests, and the number of those of strangers for each user that they are for.

use super::context::{Reserved, ResponseContext};
use crate::Payer;
use crate::base::{Env, Request};
use core::hash::BuildHasher;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::Seed;
use ringway_sip::Message;

/// Numbers of requests, by user. A user without any has no entry, so there are no more entries than contexts.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Pending requests of strangers for the user.
    strangers: UserCounts,
    /// Requests that leave our domains by the user's permission.
    leaving: UserCounts,
}

#[derive(Debug)]
struct UserCounts {
    counts: HashMap<u64, u32, SeededHash>,
}

impl Pending {
    /// Maximum number of pending requests of strangers for one user.
    pub(crate) const REQUESTS_MAX: u32 = 256;

    /// Maximum number of requests that leave our domains by a user's permission, until their contexts end.
    pub(crate) const LEAVING_MAX: u32 = 32;

    pub(crate) fn new(seed: &Seed) -> Self {
        let counts = || UserCounts { counts: HashMap::with_hasher(SeededHash::new(seed)) };
        Self { strangers: counts(), leaving: counts() }
    }

    /// Keyed hash of an address-of-record.
    pub(crate) fn name_of(&self, aor: &[u8]) -> u64 {
        self.strangers.counts.hasher().hash_one(aor)
    }

    /// False if too many requests leave our domains by the permission of this user.
    pub(super) fn may_leave(&self, user: u64) -> bool {
        self.leaving.has_room(user, Self::LEAVING_MAX)
    }

    pub(super) fn begin_leaving(&mut self, user: u64) {
        self.leaving.begin(user);
    }

    pub(super) fn end_leaving(&mut self, user: u64) {
        self.leaving.end(user);
    }

    /// Reserves memory for further branches of a request; false, and counted, if a limit is reached.
    pub(super) fn reserve_more(env: &mut Env<'_>, context: &mut ResponseContext, bytes: usize) -> bool {
        if !env.tables.reserve_more(context.reserved.payer, bytes) {
            env.counters.over_memory += 1;
            return false;
        }
        context.reserved.bytes += bytes;
        true
    }

    /// Reserves the memory of a request with branches of `of_branch` bytes; `None`, and counted, if a limit is reached.
    pub(super) fn reserve(
        &mut self,
        env: &mut Env<'_>,
        request: &Request<'_, '_>,
        strangers_user: Option<u64>,
        (bytes, of_branch): (usize, usize),
    ) -> Option<Reserved> {
        if strangers_user.is_some_and(|user| !self.strangers.has_room(user, Self::REQUESTS_MAX)) {
            env.counters.over_user_requests += 1;
            return None;
        }
        let payer = request.payer(env.config);
        if !env.tables.reserve(payer, bytes) {
            env.counters.over_memory += 1;
            return None;
        }
        if let Some(user) = strangers_user {
            self.strangers.begin(user);
        }
        Some(Reserved { payer, bytes, of_branch, is_open: matches!(payer, Payer::Dialog(_) | Payer::End(_)) })
    }

    /// Releases the memory that [`Pending::reserve`] reserved.
    pub(super) fn release(&mut self, env: &Env<'_>, reserved: Reserved, strangers_user: Option<u64>) {
        if reserved.is_open {
            env.tables.answered(reserved.payer);
        }
        env.tables.release(reserved.payer, reserved.bytes);
        if let Some(user) = strangers_user {
            self.end(user);
        }
    }

    pub(crate) fn end(&mut self, user: u64) {
        self.strangers.end(user);
    }
}

impl UserCounts {
    fn has_room(&self, user: u64, max: u32) -> bool {
        self.counts.get(&user).is_none_or(|count| *count < max)
    }

    fn begin(&mut self, user: u64) {
        *self.counts.entry(user).or_default() += 1;
    }

    fn end(&mut self, user: u64) {
        let Some(count) = self.counts.get_mut(&user) else { return };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&user);
        }
    }
}

/// Maximum number of bytes for a request until its context ends, without its branches: the request, and a response of the same length.
pub(super) fn cost_of(message: &Message<'_>) -> usize {
    CONTEXT_BYTES + 2 * message.as_bytes().len()
}

/// Maximum number of bytes of a branch: its header, and what it adds.
pub(super) fn branch_cost_of(message: &Message<'_>) -> usize {
    let whole = message.as_bytes().len();
    BRANCH_BYTES + whole - message.body().len().min(whole)
}

/// Bytes of a context with its server transaction, their timers and the overhead of allocation.
const CONTEXT_BYTES: usize = 2048;
/// Bytes of a branch with its client transaction, and of the header fields that are added.
const BRANCH_BYTES: usize = 2048;
