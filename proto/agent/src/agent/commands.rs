//! Commands of the program for calls and queries.

use crate::call::Calls;
use crate::core_context::CoreContext;
use crate::draft::{ContactField, Draft, Scope};
use crate::session::SDP;
use crate::{AccountId, Action, CallError, CallId, CallState, QueryId, Role, RouteError, UserAgent};
use alloc::vec::Vec;
use ringway_sansio::Context;
use ringway_sdp::{Codec, LocalMedia};
use ringway_sip::{HeaderName, Method, Uri};

impl UserAgent {
    /// State of a call; `None`: it has ended.
    pub fn call_state(&self, call: CallId) -> Option<CallState> {
        self.calls.call_state(call)
    }

    /// Our role in a call; `None`: it has ended.
    pub fn call_role(&self, call: CallId) -> Option<Role> {
        self.calls.call_role(call)
    }

    /// True if requests of a call travel over TLS to its next hop and from it: the first hop of the route set, or the
    /// peer without one. Says nothing about the hops behind it.
    pub fn call_uses_tls(&self, call: CallId) -> bool {
        self.calls.call_uses_tls(call)
    }

    /// Payload types and codecs of our offer in a call that has no answer yet: the peer may send them already (RFC 3264 §5.1).
    pub fn offered_codecs(&self, call: CallId) -> Option<&[(u8, Codec)]> {
        self.calls.offered_codecs(call)
    }

    /// All calls that have not ended.
    pub fn calls(&self) -> impl Iterator<Item = (CallId, CallState)> {
        self.calls.iter()
    }

    /// Starts a call. `target` is a SIP URI; without a scheme `sip:` is prepended, and a user alone is one of the account's
    /// domain. `media` is the local address and capabilities; it is offered in the INVITE.
    pub fn call(
        &mut self,
        cx: &mut Context<'_, Action>,
        account: AccountId,
        target: &str,
        media: LocalMedia,
    ) -> Result<CallId, CallError> {
        self.run(cx, |calls, cx| calls.call(cx, account, target, media))
    }

    /// Sends 180 to the caller of a ringing call, or another provisional status from 101 to 199.
    pub fn ring(&mut self, cx: &mut Context<'_, Action>, call: CallId, status: u16) -> Result<(), CallError> {
        self.run(cx, |calls, cx| calls.ring(cx, call, status))
    }

    /// Answers a call. `media` is the local address and capabilities.
    pub fn answer(
        &mut self,
        cx: &mut Context<'_, Action>,
        call: CallId,
        media: LocalMedia,
    ) -> Result<(), CallError> {
        self.run(cx, |calls, cx| calls.answer(cx, call, media))
    }

    /// Refuses a call: 486 busy, 603 decline, 480 away, or another status from 400 to 699.
    pub fn reject(
        &mut self,
        cx: &mut Context<'_, Action>,
        call: CallId,
        status: u16,
    ) -> Result<(), CallError> {
        self.run(cx, |calls, cx| calls.reject(cx, call, status))
    }

    /// Ends a call: CANCEL before the answer, 603 for a ringing call, BYE for an established one.
    pub fn hang_up(&mut self, cx: &mut Context<'_, Action>, call: CallId) -> Result<(), CallError> {
        self.run(cx, |calls, cx| calls.hang_up(cx, call))
    }

    /// Puts a call on hold: requests the peer to send nothing. The result is `MediaChanged` or `ChangeRefused`.
    pub fn hold(&mut self, cx: &mut Context<'_, Action>, call: CallId) -> Result<(), CallError> {
        self.run(cx, |calls, cx| calls.hold(cx, call))
    }

    /// Ends the hold of a call.
    pub fn resume(&mut self, cx: &mut Context<'_, Action>, call: CallId) -> Result<(), CallError> {
        self.run(cx, |calls, cx| calls.resume(cx, call))
    }

    /// Allows or forbids that a protected call becomes unprotected if the peer offers that. The default is to forbid it.
    pub fn allow_unprotected(&mut self, call: CallId, allowed: bool) -> Result<(), CallError> {
        self.calls.allow_unprotected(call, allowed)
    }

    /// Requests the peer to call `target` in place of us. When that call is established, ours is ended.
    pub fn transfer(
        &mut self,
        cx: &mut Context<'_, Action>,
        call: CallId,
        target: &str,
    ) -> Result<(), CallError> {
        self.run(cx, |calls, cx| calls.transfer(cx, call, target))
    }

    /// Accepts the transfer that the peer of `call` requested: makes a new call, and returns its identifier.
    pub fn accept_transfer(
        &mut self,
        cx: &mut Context<'_, Action>,
        call: CallId,
        media: LocalMedia,
    ) -> Result<CallId, CallError> {
        self.run(cx, |calls, cx| calls.accept_transfer(cx, call, media))
    }

    /// Rejects the transfer that the peer of `call` requested.
    pub fn reject_transfer(&mut self, cx: &mut Context<'_, Action>, call: CallId) -> Result<(), CallError> {
        self.run(cx, |calls, cx| calls.reject_transfer(cx, call))
    }

    /// Sends OPTIONS to `target`. The result is an [`AgentEvent::QueryAnswered`](crate::AgentEvent::QueryAnswered).
    pub fn query(
        &mut self,
        cx: &mut Context<'_, Action>,
        account: AccountId,
        target: &str,
    ) -> Result<QueryId, CallError> {
        let added_from = cx.out.len();
        let result = self.send_query(cx, account, target);
        self.settle(cx, added_from);
        result
    }

    fn send_query(
        &mut self,
        cx: &mut Context<'_, Action>,
        id: AccountId,
        target: &str,
    ) -> Result<QueryId, CallError> {
        let account = self.shared.config.account(id).ok_or(CallError::NoAccount)?;
        let (target, mut fields) = account.full_target(target).map_err(CallError::Route)?;
        fields.push((HeaderName::Accept, SDP.as_bytes().to_vec()));
        let (call_id, tag) = (self.shared.random.new_call_id(), self.shared.random.new_tag());
        let uri = Uri::parse(&target).map_err(|_| CallError::Route(RouteError::Malformed))?;
        let next_hop = account.next_hop_to(&uri).map_err(CallError::Route)?;
        let draft = Draft {
            account: id,
            method: Method::Options,
            routes: Vec::new(),
            from: [&account.name_addr()[..], b";tag=", &tag].concat(),
            to: [b"<", &target[..], b">"].concat(),
            uri: target,
            call_id,
            cseq: 1,
            contact: ContactField::Target,
            fields,
            body: None,
            next_hop,
            scope: Scope::OutsideDialog,
            peer: None,
        };
        self.requests.query(&mut self.shared.lend(cx), draft).map_err(|why| CallError::NotSent(why.reason()))
    }

    /// Runs a command for a call, and applies its effects.
    fn run<R>(
        &mut self,
        cx: &mut Context<'_, Action>,
        command: impl FnOnce(&mut Calls, &mut CoreContext<'_>) -> R,
    ) -> R {
        let added_from = cx.out.len();
        let core = &mut CoreContext::new(&mut self.shared, &mut self.requests, cx);
        let result = command(&mut self.calls, core);
        self.settle(cx, added_from);
        result
    }
}
