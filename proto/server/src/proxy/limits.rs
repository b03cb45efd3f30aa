//! Limits of forwarded requests: of forking, of memory, and of the requests of strangers for one user.
//!
//! Forking has Max-Breadth (RFC 5393 §5), and the number of times that one request may return to this server.
//!
//! Max-Breadth limits the branches that run at once and must not limit the depth (RFC 5393 §5.3.3). Contacts that lead
//! back to this server form a tree whose depth only Max-Forwards limits, so our Via has the number of further requests
//! that a branch may cause here. Each fork subtracts its branches and divides the rest: one request causes at most
//! `SPIRALS_MAX` others. A branch whose 3xx may be recursed keeps half of its number back for that; so does a request for
//! the branch of a forward.

use crate::base::{Env, Request};
use crate::dialog::route::own_vias;
use crate::{Config, Payer};
use core::hash::BuildHasher;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::{Defence, Seed};
use ringway_sip::grammar::number_u32;
use ringway_sip::{HeaderName, Malformed, Message};

/// Limits of each branch of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Its Max-Breadth.
    pub(super) breadth: u32,
    /// Maximum number of requests that it may cause at this server.
    pub(super) spirals: u32,
    /// The same for the contacts of its 3xx.
    kept: u32,
}

/// Reason for not forking a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TooBroad {
    /// Max-Breadth is not a number.
    Malformed,
    /// Its Max-Breadth is less than its number of targets.
    Breadth,
    /// It returned to this server too often.
    Spirals,
}

impl Share {
    /// Limits of each of `branches` branches of a request.
    pub(super) fn of(config: &Config, message: &Message<'_>, branches: usize) -> Result<Self, TooBroad> {
        let branches = count_of(branches);
        let breadth = breadth_of(config, message)?;
        if breadth < branches && Defence::Breadth.is_on() {
            return Err(TooBroad::Breadth);
        }
        let left = spirals_of(config, message, branches)?;
        Ok(Self::new(config, breadth / branches, left.saturating_sub(branches) / branches))
    }

    /// Number of `branches` ranked targets, called one after another, that Max-Breadth permits.
    pub(super) fn breadth_for(config: &Config, message: &Message<'_>, branches: usize) -> usize {
        branches.min(breadth_of(config, message).map_or(branches, |breadth| breadth as usize))
    }

    /// Limits of each of `branches` branches that may be followed by a forward, and the spirals of the forward's branch.
    /// `None`: there is not enough for both.
    pub(super) fn with_forward(
        config: &Config,
        message: &Message<'_>,
        branches: usize,
    ) -> Option<(Self, u32)> {
        let branches = count_of(branches);
        let all = branches.saturating_add(1);
        let breadth = breadth_of(config, message).ok().filter(|breadth| *breadth >= all)?;
        let left = spirals_of(config, message, all).ok()?.saturating_sub(all);
        let each = (breadth / 2 / branches).max(1);
        Some((Self::new(config, each, left / 2 / branches), left / 2))
    }

    /// Limits of the branch of a forward, while other branches use `running` of Max-Breadth (RFC 5393 §5.3.3.1); `None`: they
    /// use all of it.
    pub(super) fn of_forward(
        config: &Config,
        message: &Message<'_>,
        spirals: u32,
        running: u32,
    ) -> Option<Self> {
        let breadth = breadth_of(config, message).ok()?.saturating_sub(running);
        (breadth > 0).then(|| Self::new(config, breadth, spirals))
    }

    /// Maximum number of contacts of a 3xx of this branch.
    pub(super) fn recursed_max(self) -> usize {
        self.breadth.min(self.kept) as usize
    }

    /// Limits of each of `count` contacts of a 3xx of this branch.
    pub(super) fn recursed(self, config: &Config, count: usize) -> Self {
        let count = count_of(count);
        let left = self.kept.saturating_sub(count) / count;
        Self::new(config, (self.breadth / count).max(1), left)
    }

    /// The limits divided by the number of targets that one forward has.
    pub(super) fn divided(self, count: usize) -> Self {
        let count = count_of(count);
        let Self { breadth, spirals, kept } = self;
        Self { breadth: (breadth / count).max(1), spirals: spirals / count, kept: kept / count }
    }

    fn new(config: &Config, breadth: u32, left: u32) -> Self {
        let kept = if config.recurse { left / 2 } else { 0 };
        Self { breadth, spirals: left - kept, kept }
    }
}

impl Default for Share {
    /// Returns the minimum.
    fn default() -> Self {
        Self { breadth: 1, spirals: 0, kept: 0 }
    }
}

/// Maximum of Max-Breadth, and the value of a request without one. At least the maximum number of a user's contacts.
fn breadth_max(config: &Config) -> u32 {
    u32::try_from(config.registrar.max_contacts).unwrap_or(u32::MAX).max(BREADTH_MAX)
}

fn count_of(branches: usize) -> u32 {
    u32::try_from(branches.max(1)).unwrap_or(u32::MAX)
}

/// Max-Breadth of a request.
fn breadth_of(config: &Config, message: &Message<'_>) -> Result<u32, TooBroad> {
    match incoming_breadth(message) {
        Ok(given) => Ok(given.unwrap_or(u32::MAX).min(breadth_max(config))),
        Err(Malformed) => Err(TooBroad::Malformed),
    }
}

/// Number of further requests that a request may cause here, which must be enough for `branches` branches.
fn spirals_of(config: &Config, message: &Message<'_>, branches: u32) -> Result<u32, TooBroad> {
    match spirals_left(config, message) {
        Some(left) if left < branches && Defence::Breadth.is_on() => Err(TooBroad::Spirals),
        Some(left) => Ok(left),
        None => Ok(SPIRALS_MAX),
    }
}

fn incoming_breadth(message: &Message<'_>) -> Result<Option<u32>, Malformed> {
    if !message.has(HeaderName::MaxBreadth) {
        return Ok(None);
    }
    let mut values = message.lines_of(HeaderName::MaxBreadth);
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => number_u32(value).map(Some).ok_or(Malformed),
        (Some(_), Some(_)) => Err(Malformed),
    }
}

/// Remaining spirals in our Via; `None` for a request that was not here before.
fn spirals_left(config: &Config, message: &Message<'_>) -> Option<u32> {
    if message.has_one_via() {
        return None;
    }
    let via = own_vias(config, message).next()?;
    let left = via.params.value(b"spirals").and_then(number_u32).unwrap_or(0);
    Some(left.min(SPIRALS_MAX))
}

/// Recommended by RFC 5393 §5.3.3.
const BREADTH_MAX: u32 = 60;

/// Maximum number of requests that one request can cause at this server through contacts that lead back to it.
const SPIRALS_MAX: u32 = 60;

/// Reserved memory of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reserved {
    /// Account whose share it is of. A reload can change which addresses are fronts.
    pub(super) payer: Payer,
    pub(super) bytes: usize,
    /// Maximum number of bytes of a further branch.
    pub(super) of_branch: usize,
    /// A request inside a dialog that has no final response.
    pub(super) is_open: bool,
}

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
        self.leaving.has_room(user, Self::LEAVING_MAX) || !Defence::ForwardLimit.is_on()
    }

    pub(super) fn begin_leaving(&mut self, user: u64) {
        self.leaving.begin(user);
    }

    pub(super) fn end_leaving(&mut self, user: u64) {
        self.leaving.end(user);
    }

    /// Reserves memory for further branches of a request; false, and counted, if a limit is reached.
    pub(super) fn reserve_more(env: &mut Env<'_>, reserved: &mut Reserved, bytes: usize) -> bool {
        if !env.tables.reserve_more(reserved.payer, bytes) {
            env.counters.over_memory += 1;
            return false;
        }
        reserved.bytes += bytes;
        true
    }

    /// Reserves the memory of a request with branches of `of_branch` bytes; `None`, and counted, if a limit is reached.
    pub(super) fn reserve(
        &mut self,
        env: &mut Env<'_>,
        request: &Request<'_, '_>,
        strangers_user: Option<u64>,
        bytes: usize,
        of_branch: usize,
    ) -> Option<Reserved> {
        let has_room =
            |user| self.strangers.has_room(user, Self::REQUESTS_MAX) || !Defence::UserRequests.is_on();
        if strangers_user.is_some_and(|user| !has_room(user)) {
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
