//! Requests that wait for data before they are handled further.

use crate::base::{Env, Grant, Request};
use crate::config::Features;
use crate::tables::SharedTables;
use crate::{CallName, CallStep, Payer};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
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
            call: request.call.copied(),
            answer_info: env.answer_info.clone(),
        })
    }

    /// Releases its memory.
    pub(super) fn release(&self, tables: &SharedTables) {
        tables.release(self.payer, self.request.len());
    }

    /// True for the request that a CANCEL with the key of its transaction ends, which came the same way.
    pub(super) fn is_cancelled_by(&self, key: MatchKey, cancel: &Request<'_, '_>) -> bool {
        self.key == Some(key)
            && self.flow.transport == cancel.flow.transport
            && self.flow.remote.ip() == cancel.flow.remote.ip()
    }

    /// Answers it and the CANCEL that ends it.
    pub(super) fn cancel(self, env: &mut Env<'_>, cancel: &Request<'_, '_>) {
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
    /// True for a request that waits already, or was cancelled while it did; the latter is refused again.
    fn absorbs(&self, env: &mut Env<'_>, request: &Request<'_, '_>) -> bool;

    /// Ends the INVITE with this key that waits, for a CANCEL that came the same way. False: there is none.
    fn on_cancel(&mut self, env: &mut Env<'_>, key: MatchKey, cancel: &Request<'_, '_>) -> bool;
}

/// The same for bindings and certificates.
pub(super) fn absorbs(
    env: &mut Env<'_>,
    had: Features,
    (locating, verifying): (&impl Holds, &impl Holds),
    request: &Request<'_, '_>,
) -> bool {
    (had.cluster() && locating.absorbs(env, request)) || (had.stir() && verifying.absorbs(env, request))
}

/// The same for bindings and certificates.
pub(super) fn cancels(
    env: &mut Env<'_>,
    had: Features,
    (locating, verifying): (&mut impl Holds, &mut impl Holds),
    (key, cancel): (MatchKey, &Request<'_, '_>),
) -> bool {
    (had.cluster() && locating.on_cancel(env, key, cancel))
        || (had.stir() && verifying.on_cancel(env, key, cancel))
}

/// The last INVITEs that were cancelled while they waited: their retransmissions are no calls.
#[derive(Default)]
pub(super) struct CancelledInvites(VecDeque<MatchKey>);

impl CancelledInvites {
    /// Adds one, and forgets the oldest of too many.
    pub(super) fn add(&mut self, key: MatchKey) {
        if self.0.len() >= CANCELLED_MAX {
            self.0.pop_front();
        }
        self.0.push_back(key);
    }

    /// Refuses the retransmission of one again. False: it is none.
    pub(super) fn absorbs(&self, env: &mut Env<'_>, request: &Request<'_, '_>, key: MatchKey) -> bool {
        let is_one = !self.0.is_empty() && request.method == Method::Invite && self.0.contains(&key);
        if is_one {
            env.refuse_plainly(request, 487, "Request Terminated");
        }
        is_one
    }
}

/// Maximum number of cancelled INVITEs that are remembered.
const CANCELLED_MAX: usize = 64;
