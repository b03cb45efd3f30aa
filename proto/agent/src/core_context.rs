//! Argument of every call into the core: registrations and calls.

use crate::context::{AgentContext, Randomness, Shared};
use crate::draft::{Body, Draft, Purpose};
use crate::request::reply::{IncomingRequest, phrase_of, warning_agent, write_refusal};
use crate::request::{Cancelled, NotSent, Requests};
use crate::session::NotAcceptable;
use crate::{Action, AgentEvent, CallId, Config, Counters};
use alloc::vec::Vec;
use ringway_sansio::{Context, Flow, Instant, Token};
use ringway_sip::MessageWriter;
use ringway_transaction::{ServerId, SlabKey};

/// Argument of every call into the core (RFC 3261 §6: what is above the transactions): the fields of an
/// [`AgentContext`], and the requests.
pub(crate) struct CoreContext<'a> {
    io: Context<'a, Action>,
    pub(crate) config: &'a Config,
    pub(crate) counters: &'a mut Counters,
    pub(crate) random: &'a mut Randomness,
    pub(crate) is_stopping: bool,
    pub(crate) requests: &'a mut Requests,
}

impl<'a> CoreContext<'a> {
    /// Lends the shared state and the requests for one call into a component.
    pub(crate) fn new(
        shared: &'a mut Shared,
        requests: &'a mut Requests,
        cx: &'a mut Context<'_, Action>,
    ) -> Self {
        let is_stopping = shared.is_stopping;
        let AgentContext { io, config, counters, random } = shared.lend(cx);
        Self { io, config, counters, random, is_stopping, requests }
    }
}

impl CoreContext<'_> {
    pub(crate) const fn now(&self) -> Instant {
        self.io.now
    }

    pub(crate) fn emit(&mut self, event: AgentEvent) {
        self.io.emit(event);
    }

    /// Requests, and the argument for calls into them.
    fn split(&mut self) -> (&mut Requests, AgentContext<'_>) {
        let io = Context::new(self.io.now, self.io.out, self.io.actions);
        let Self { config, counters, random, requests, .. } = self;
        (requests, AgentContext { io, config, counters, random })
    }

    /// Sends bytes that are not a SIP message, such as a keep-alive.
    pub(crate) fn send(&mut self, flow: Flow, bytes: &[u8]) {
        self.io.out.send(flow, Token::NONE, bytes);
    }

    /// Sends a message that no transaction retransmits, unless it is longer than `bytes_max`.
    pub(crate) fn send_at_most(&mut self, bytes_max: usize, flow: Flow, write: impl FnOnce(&mut Vec<u8>)) {
        let out = &mut self.io.out;
        let before = out.len();
        out.send_with(flow, Token::NONE, write);
        if out.len() > before && out.last_bytes().len() > bytes_max {
            out.drop_last();
        }
    }

    /// Sends a request, at once or after a lookup.
    pub(crate) fn submit(&mut self, draft: Draft, purpose: Purpose) -> Result<SlabKey, NotSent> {
        let (requests, mut cx) = self.split();
        requests.submit(&mut cx, draft, purpose)
    }

    /// Sends the ACK of a 2xx to `invite`.
    pub(crate) fn acknowledge(&mut self, invite: SlabKey, remote_tag: &[u8], draft: Draft) {
        let (requests, mut cx) = self.split();
        requests.acknowledge(&mut cx, invite, remote_tag, draft);
    }

    /// Cancels an INVITE.
    pub(crate) fn cancel(&mut self, invite: SlabKey) -> Cancelled {
        let (requests, mut cx) = self.split();
        requests.cancel(&mut cx, invite)
    }

    /// Starts the server transaction of a request; see [`Requests::begin`].
    pub(crate) fn begin(
        &mut self,
        incoming: &IncomingRequest<'_, '_>,
        owner: Option<CallId>,
    ) -> Option<ServerId> {
        let (requests, mut cx) = self.split();
        requests.begin(&mut cx, incoming, owner)
    }

    /// Sends a serialised response in its transaction.
    pub(crate) fn send_response(&mut self, server: ServerId, status: u16, response: &[u8]) {
        let (requests, mut cx) = self.split();
        requests.send_response(&mut cx, server, status, response);
    }

    /// Responds to a request in a transaction of its own; see [`Requests::respond`].
    pub(crate) fn respond(
        &mut self,
        incoming: &IncomingRequest<'_, '_>,
        status: u16,
        phrase: &str,
        to_tag: Option<&[u8]>,
        add: impl FnOnce(&mut MessageWriter<'_>, &Config) -> Option<Body>,
    ) {
        let (requests, mut cx) = self.split();
        requests.respond(&mut cx, incoming, status, phrase, to_tag, add);
    }

    /// Refuses a request with a status and a phrase.
    pub(crate) fn refuse(&mut self, incoming: &IncomingRequest<'_, '_>, status: u16, phrase: &str) {
        self.refuse_with(incoming, status, phrase, |_| {});
    }

    /// Refuses a request with additional header fields.
    pub(crate) fn refuse_with(
        &mut self,
        incoming: &IncomingRequest<'_, '_>,
        status: u16,
        phrase: &str,
        add: impl FnOnce(&mut MessageWriter<'_>),
    ) {
        match status {
            481 => self.counters.no_dialog += 1,
            482 => self.counters.merged += 1,
            500 => self.counters.out_of_order += 1,
            513 => self.counters.body_too_large += 1,
            _ => self.counters.refused += 1,
        }
        self.respond(incoming, status, phrase, None, |response, _| {
            add(response);
            None
        });
    }

    /// Refuses a session description.
    pub(crate) fn refuse_session(&mut self, incoming: &IncomingRequest<'_, '_>, why: &NotAcceptable) {
        self.counters.sessions_refused += 1;
        let agent = warning_agent(self.config, incoming.flow);
        let phrase = phrase_of(why.status);
        self.refuse_with(incoming, why.status, phrase, |response| write_refusal(response, why, &agent));
    }
}
