//! Requests that wait for data before they are handled further.

use crate::base::{Env, Grant, Request};
use crate::config::Features;
use crate::tables::SharedTables;
use crate::{CallName, CallStep, Config, Detail, Payer, Reason, Trunk};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::Flow;
use ringway_sip::{Limits, Message, Method};
use ringway_transaction::MatchKey;

/// Request that waits.
pub(super) struct Held {
    pub(super) key: Option<MatchKey>,
    pub(super) request: Box<[u8]>,
    pub(super) flow: Flow,
    /// Account whose share of the memory it has.
    payer: Payer,
    pub(super) grant: Grant,
    /// Index and name of the trunk at whose contact it came in.
    line: Option<(usize, Box<str>)>,
    pub(super) call: Option<CallName>,
    /// Value of Authentication-Info for its response.
    pub(super) answer_info: Vec<u8>,
}

impl Held {
    /// Copies a request, and reserves its memory; `None`: there is none.
    pub(super) fn of(env: &Env<'_>, request: &Request<'_, '_>) -> Option<Self> {
        let bytes = request.message.as_bytes();
        let payer = request.payer(env.config);
        env.tables.reserve(payer, bytes.len()).then(|| Self {
            key: request.key,
            request: bytes.into(),
            flow: request.flow,
            payer,
            grant: request.grant,
            line: request
                .line
                .and_then(|line| Some((line, env.config.trunking.trunks.get(line)?.name.as_str().into()))),
            call: request.call.copied(),
            answer_info: env.input.answer_info.clone(),
        })
    }

    /// Index of the trunk at whose contact it came in, which a reload may have changed; `None` also if that trunk is gone.
    pub(super) fn line(&self, config: &Config) -> Option<usize> {
        let (line, name) = self.line.as_ref()?;
        let trunks = &config.trunking.trunks;
        let is_it = |trunk: &Trunk| *trunk.name == **name;
        trunks.get(*line).is_some_and(is_it).then_some(*line).or_else(|| trunks.iter().position(is_it))
    }

    /// Releases its memory.
    fn release(&self, tables: &SharedTables) {
        tables.release(self.payer, self.request.len());
    }

    /// True for the request that a CANCEL with the key of its transaction ends, which came the same way.
    pub(super) fn is_cancelled_by(&self, key: MatchKey, cancel: &Request<'_, '_>) -> bool {
        self.key == Some(key)
            && self.flow.transport == cancel.flow.transport
            && self.flow.remote.ip() == cancel.flow.remote.ip()
    }

    /// Answers it and the CANCEL that ends it.
    fn cancel(self, env: &mut Env<'_>, cancel: &Request<'_, '_>) {
        env.reply(cancel, 200, "OK", |_| {});
        let Self { key, request, flow, grant, call, .. } = self;
        let Ok(message) = &Message::parse(&request, &Limits::STORED) else { return };
        let Some(request) = Request::of(message, flow, grant) else { return };
        let request = Request { key, call: call.as_ref(), ..request };
        env.observe_call(&request, CallStep::Cancelled);
        env.refuse_plainly(&request, 487, "Request Terminated");
    }
}

/// Component whose requests wait.
pub(super) trait Holds {
    /// The index of its requests.
    fn index(&self) -> &HeldIndex;

    /// The index of its requests, to change it.
    fn index_mut(&mut self) -> &mut HeldIndex;

    /// Takes out the INVITE with this key that waits, for a CANCEL that came the same way. `None`: there is none.
    fn take(&mut self, tables: &SharedTables, key: MatchKey, cancel: &Request<'_, '_>) -> Option<Held>;

    /// Ends the INVITE with this key that waits, for a CANCEL that came the same way. False: there is none.
    fn on_cancel(&mut self, env: &mut Env<'_>, key: MatchKey, cancel: &Request<'_, '_>) -> bool {
        let Some(held) = self.take(env.tables, key, cancel) else { return false };
        self.index_mut().cancelled.add(key);
        held.cancel(env, cancel);
        true
    }
}

/// Queries that requests wait for, by the keys of their transactions; and the last INVITEs that were cancelled meanwhile.
pub(super) struct HeldIndex {
    by_key: HashMap<MatchKey, u64, SeededHash>,
    cancelled: CancelledInvites,
}

impl HeldIndex {
    pub(super) fn new(hash: SeededHash) -> Self {
        Self { by_key: HashMap::with_hasher(hash), cancelled: CancelledInvites::default() }
    }

    /// Notes the query that a request waits for.
    pub(super) fn add(&mut self, key: Option<MatchKey>, query: u64) {
        self.by_key.extend(key.map(|key| (key, query)));
    }

    /// Forgets a request, and releases its memory.
    pub(super) fn release(&mut self, tables: &SharedTables, held: &Held) {
        if let Some(key) = held.key {
            self.by_key.remove(&key);
        }
        held.release(tables);
    }

    /// Query that the request with this key waits for.
    pub(super) fn query_of(&self, key: MatchKey) -> Option<u64> {
        self.by_key.get(&key).copied()
    }

    /// True if no request waits or was cancelled.
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty() && self.cancelled.0.is_empty()
    }

    /// True for the key of a request that waits, or was cancelled while it did.
    pub(super) fn has(&self, key: MatchKey) -> bool {
        self.by_key.contains_key(&key) || self.cancelled.0.contains(&key)
    }

    /// True for a request that waits already, or was cancelled while it did; the latter is refused again.
    fn absorbs(&self, env: &mut Env<'_>, request: &Request<'_, '_>) -> bool {
        let Some(key) = request.key else { return false };
        if self.cancelled.absorbs(env, request, key) {
            return true;
        }
        let is_waiting = !self.by_key.is_empty() && self.by_key.contains_key(&key);
        if is_waiting {
            env.decided(request, Reason::Absorbed, Detail::None);
        }
        is_waiting
    }
}

/// [`HeldIndex::absorbs`] for bindings and certificates.
pub(super) fn absorbs(
    env: &mut Env<'_>,
    had: Features,
    locating: &impl Holds,
    verifying: &impl Holds,
    request: &Request<'_, '_>,
) -> bool {
    (had.cluster() && locating.index().absorbs(env, request))
        || (had.stir() && verifying.index().absorbs(env, request))
}

/// [`Holds::on_cancel`] for bindings and certificates.
pub(super) fn cancels(
    env: &mut Env<'_>,
    had: Features,
    locating: &mut impl Holds,
    verifying: &mut impl Holds,
    key: MatchKey,
    cancel: &Request<'_, '_>,
) -> bool {
    (had.cluster() && locating.on_cancel(env, key, cancel))
        || (had.stir() && verifying.on_cancel(env, key, cancel))
}

/// The last INVITEs that were cancelled while they waited: their retransmissions are no calls.
#[derive(Default)]
struct CancelledInvites(VecDeque<MatchKey>);

impl CancelledInvites {
    /// Adds one, and forgets the oldest of too many.
    fn add(&mut self, key: MatchKey) {
        if self.0.len() >= CANCELLED_MAX {
            self.0.pop_front();
        }
        self.0.push_back(key);
    }

    /// Refuses the retransmission of one again. False: it is none.
    fn absorbs(&self, env: &mut Env<'_>, request: &Request<'_, '_>, key: MatchKey) -> bool {
        let is_one = !self.0.is_empty() && request.method == Method::Invite && self.0.contains(&key);
        if is_one {
            env.refuse_plainly(request, 487, "Request Terminated");
        }
        is_one
    }
}

/// Maximum number of cancelled INVITEs that are remembered.
const CANCELLED_MAX: usize = 64;
