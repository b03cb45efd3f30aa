//! Outgoing calls (RFC 3261 §13.2): the INVITE, the dialogs of its responses, and the established one.

use crate::body::{Carried, carried};
use crate::call::state::{Call, Early, Invitation, Postponed};
use crate::call::{Calls, Timer};
use crate::config::Config;
use crate::core_context::CoreContext;
use crate::dialog::Dialog;
use crate::draft::{Body, CallRequest, ContactField, Draft, Purpose, Scope, is_sips, unfolded};
use crate::draft::{HeaderFields, without_headers};
use crate::next_hop::NextHop;
use crate::request::reply::ALLOW;
use crate::request::{Answer, NotSent};
use crate::session::{NotAcceptable, SDP, Session};
use crate::{AccountId, AgentEvent, By, CallError, CallId, CallState, Role, RouteError};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sdp::{Direction, LocalMedia, MediaParams};
use ringway_sip::{HeaderName, Message, Method, NameAddr, Scheme, Uri};
use ringway_transaction::SlabKey;

impl Calls {
    /// Starts a call. `target` is completed by [`Account::full_target`](crate::Account).
    pub(crate) fn call(
        &mut self,
        cx: &mut CoreContext<'_>,
        account: AccountId,
        target: &str,
        media: LocalMedia,
    ) -> Result<CallId, CallError> {
        let target = cx.config.account(account).ok_or(CallError::NoAccount)?.full_target(target);
        let (target, fields) = target.map_err(CallError::Route)?;
        let invitation = Invitation { account, target, fields, referred_by: None };
        self.invite(cx, invitation, media)
    }

    /// Sends an INVITE.
    pub(super) fn invite(
        &mut self,
        cx: &mut CoreContext<'_>,
        invitation: Invitation,
        media: LocalMedia,
    ) -> Result<CallId, CallError> {
        if cx.is_stopping {
            return Err(CallError::Stopping);
        }
        if self.live_count() >= cx.config.limits.calls_max {
            return Err(CallError::TooManyCalls);
        }
        let (call_id, local_tag) = (cx.random.new_call_id(), cx.random.new_tag());
        let account = cx.config.account(invitation.account).ok_or(CallError::NoAccount)?;
        let uri = Uri::parse(&invitation.target).map_err(|_| CallError::Route(RouteError::Malformed))?;
        let next_hop = account.next_hop_to(&uri).map_err(CallError::Route)?;
        let to = [b"<", &invitation.target[..], b">"].concat();
        let target = invitation.target.clone();
        let dialog = Dialog::calling(call_id, local_tag, &account.name_addr(), to, target);
        let mut session = Session::new(media, &mut cx.random.secrets, &mut cx.random.visible);
        let body = Body { content_type: SDP, bytes: session.offer(Direction::SendRecv) };
        let id = self.next_id();
        let mut call = Call::new(id, invitation.account, Role::Caller, CallState::Calling, dialog);
        call.session = Some(session);
        call.referred_by = invitation.referred_by;
        let mut draft = invite_draft(cx.config, &call, next_hop, body);
        draft.fields.extend(invitation.fields);
        self.calls.insert(call);
        if let Err(why) = self.submit_invite(cx, id, draft) {
            self.calls.remove(id.key());
            return Err(CallError::NotSent(why.reason()));
        }
        let ring = self.timers.arm(cx.now() + cx.config.ring, Timer::Ring(id));
        if let Some(call) = self.call_mut(id) {
            call.ring = ring;
        }
        Ok(id)
    }

    fn submit_invite(&mut self, cx: &mut CoreContext<'_>, id: CallId, draft: Draft) -> Result<(), NotSent> {
        let key = cx.submit(draft, Purpose::Call(id, CallRequest::Invite))?;
        if let Some(call) = self.call_mut(id) {
            call.invite = Some(key);
        }
        Ok(())
    }

    /// True for an outgoing call that is neither answered nor cancelled.
    pub(crate) fn is_calling(&self, call: CallId) -> bool {
        self.call_state(call) == Some(CallState::Calling)
    }

    /// Handles the result of an INVITE.
    pub(super) fn on_invite_answer(
        &mut self,
        cx: &mut CoreContext<'_>,
        id: CallId,
        key: SlabKey,
        answer: &Answer<'_, '_>,
    ) {
        match (answer.status, answer.message) {
            (100..=199, Some(message)) => self.on_provisional(cx, id, answer.status, message),
            (200..=299, Some(message)) => self.on_success(cx, id, key, message),
            _ => self.on_invite_failure(cx, id, answer),
        }
    }

    fn on_provisional(&mut self, cx: &mut CoreContext<'_>, id: CallId, status: u16, message: &Message<'_>) {
        let limits = cx.config.limits;
        let Some(call) = self.call_mut(id).filter(|call| call.state == CallState::Calling) else { return };
        if status == 100 {
            return;
        }
        if call.progress != status {
            call.progress = status;
            cx.emit(AgentEvent::Progress { call: id, status });
            self.report_progress(cx, id, status);
        }
        let Some(call) = self.call_mut(id) else { return };
        let tag = message.to().tag().unwrap_or_default();
        let index = match call.early.iter().position(|early| early.dialog.has_remote_tag(tag)) {
            Some(index) => index,
            None if call.early.len() >= limits.early_dialogs_max => {
                cx.counters.too_many_early_dialogs += 1;
                return;
            }
            None => {
                let Ok(dialog) = call.dialog.answered(message, &limits) else { return };
                call.early.push(Early { dialog, agreed: None });
                call.early.len() - 1
            }
        };
        // The final response decides (RFC 3261 §13.2.1), so an unacceptable early description is ignored.
        let Ok(Carried::Body(body)) = carried(message, &limits) else { return };
        let Some(session) = call.session.as_mut().map(Session::fork) else { return };
        let Some(early) = call.early.get_mut(index) else { return };
        if let Ok(params) = accept(session, body)
            && early.agreed.as_ref().is_none_or(|(_, known)| known != &params.1)
        {
            let event = AgentEvent::EarlyMedia { call: id, params: params.1.clone() };
            early.agreed = Some(params);
            cx.emit(event);
        }
    }

    /// Handles a 2xx of a dialog that is not acknowledged yet.
    fn on_success(&mut self, cx: &mut CoreContext<'_>, id: CallId, key: SlabKey, message: &Message<'_>) {
        let acks = cx.requests.ack_count(key);
        if acks >= cx.config.limits.early_dialogs_max {
            cx.counters.too_many_early_dialogs += 1;
            return;
        }
        match self.call_at(id).map(|call| call.state) {
            Some(CallState::Calling) => self.establish(cx, id, key, message),
            Some(CallState::Cancelling) => {
                self.acknowledge_and_leave(cx, key, message);
                self.report_ended(cx, id, 487, "cancelled", By::Local);
                self.drop_call(cx, id);
            }
            // Another fork has answered first, or the call has ended.
            _ => {
                cx.counters.forks_ended += 1;
                self.acknowledge_and_leave(cx, key, message);
            }
        }
    }

    fn establish(&mut self, cx: &mut CoreContext<'_>, id: CallId, key: SlabKey, message: &Message<'_>) {
        let limits = cx.config.limits;
        let Some(call) = self.call_mut(id) else { return };
        let tag = message.to().tag().unwrap_or_default();
        let early = call.early.iter().position(|early| early.dialog.has_remote_tag(tag));
        let early = early.map(|index| call.early.swap_remove(index));
        let before = early.as_ref().map_or(&call.dialog, |early| &early.dialog);
        let Ok(mut dialog) = before.answered(message, &limits) else {
            // No request can be sent in it: the peer times out without our ACK.
            cx.counters.too_many_routes += 1;
            self.report_ended(cx, id, 400, "the answer makes no dialog", By::Local);
            return self.drop_call(cx, id);
        };
        // The INVITE may have been sent again since that dialog began.
        dialog.local_cseq = call.dialog.local_cseq;
        let early = early.and_then(|early| early.agreed);
        let session = call.session.as_mut().map(Session::fork);
        let agreed = match (carried(message, &limits), session, early) {
            (Ok(Carried::Body(body)), Some(session), _) => accept(session, body),
            (Ok(Carried::Nothing), _, Some(early)) => Ok(early),
            (Err(why), _, _) => Err(why),
            (Ok(_), _, _) => Err(NotAcceptable::missing("the answer has no session description")),
        };
        let account = call.account;
        call.dialog = dialog;
        call.early.clear();
        call.state = CallState::Established;
        let ack = call.dialog.ack(account, message.cseq().number);
        let ring = call.ring;
        self.timers.cancel(ring);
        if let Ok(draft) = ack {
            cx.acknowledge(key, tag, draft);
        }
        match agreed {
            Ok((session, params)) => {
                if let Some(call) = self.call_mut(id) {
                    call.session = Some(session);
                }
                let is_held = !params.direction.sends();
                cx.emit(AgentEvent::Answered { call: id, params });
                self.note_peer_hold(cx, id, is_held);
                self.report_progress(cx, id, 200);
                self.reconcile(cx, id);
            }
            Err(why) => {
                cx.counters.sessions_refused += 1;
                self.report_progress(cx, id, why.status);
                self.leave(cx, id, why.status, &why.reason, By::Local);
            }
        }
    }

    /// Sends ACK and BYE in the dialog of an unwanted 2xx.
    fn acknowledge_and_leave(&mut self, cx: &mut CoreContext<'_>, key: SlabKey, message: &Message<'_>) {
        let Some(draft) = cx.requests.draft(key) else { return };
        let (account, cseq) = (draft.account, draft.cseq);
        let invited = Dialog {
            call_id: draft.call_id.clone(),
            local_tag: Vec::new(),
            remote_tag: None,
            local: draft.from.clone(),
            remote: draft.to.clone(),
            local_cseq: draft.cseq,
            remote_cseq: None,
            target: draft.uri.clone(),
            routes: Vec::new(),
            peer: None,
        };
        let Ok(mut dialog) = invited.answered(message, &cx.config.limits) else { return };
        if let Ok(ack) = dialog.ack(account, cseq) {
            cx.acknowledge(key, message.to().tag().unwrap_or_default(), ack);
        }
        if let Ok(bye) = dialog.draft(account, Method::Bye) {
            let _ = cx.submit(bye, Purpose::Unowned);
        }
    }

    fn on_invite_failure(&mut self, cx: &mut CoreContext<'_>, id: CallId, answer: &Answer<'_, '_>) {
        let Some(state) = self.call_state(id) else { return };
        if !matches!(state, CallState::Calling | CallState::Cancelling) {
            return;
        }
        if let (CallState::Calling, 300..=399, Some(message)) = (state, answer.status, answer.message)
            && self.redirect(cx, id, message)
        {
            return;
        }
        if let (CallState::Calling, 406 | 488 | 606, Some(_)) = (state, answer.status, answer.message)
            && self.insist_on_srtp(cx, id)
        {
            return;
        }
        if let (CallState::Calling, 503, Some(message)) = (state, answer.status, answer.message)
            && self.postpone(cx, id, message)
        {
            return;
        }
        self.report_progress(cx, id, answer.status);
        match state {
            CallState::Cancelling => self.report_ended(cx, id, 487, "cancelled", By::Local),
            _ => {
                let by = if answer.message.is_some() { By::Remote } else { By::Local };
                self.report_ended(cx, id, answer.status, &answer.reason, by);
            }
        }
        self.drop_call(cx, id);
    }

    /// Follows a redirection (RFC 3261 §8.1.3.4) to the best contact that a request can be sent to, without credentials.
    /// True if the call continues.
    fn redirect(&mut self, cx: &mut CoreContext<'_>, id: CallId, message: &Message<'_>) -> bool {
        let has_more = message.values(HeaderName::Contact).nth(CONTACTS_MAX).is_some();
        cx.counters.too_many_contacts += u64::from(has_more);
        let Some(call) = self.call_at(id) else { return false };
        if call.redirects >= cx.config.limits.redirects_max {
            return false;
        }
        let Some(best) = best_contact(cx.config, message, &call.dialog.target) else { return false };
        let Some(old) = call.invite.and_then(|key| cx.requests.draft(key)) else { return false };
        let mut draft = old.clone();
        draft.scope = Scope::Redirected;
        draft.uri.clone_from(&best.uri);
        draft.next_hop = best.next_hop;
        draft.fields.retain(|(name, _)| best.fields.iter().all(|(other, _)| other != name));
        draft.fields.extend(best.fields);
        draft.routes.clear();
        let Some(call) = self.call_mut(id) else { return false };
        call.redirects += 1;
        call.dialog.target = best.uri;
        self.invite_again(cx, id, draft)
    }

    /// Calls again with an offer of RTP/SAVP (RFC 3261 §8.1.3.5). RFC 8643 offers optional SRTP as RTP/AVP, which phones
    /// that insist on SRTP refuse: 488, pjsua 406. True if the call continues.
    fn insist_on_srtp(&mut self, cx: &mut CoreContext<'_>, id: CallId) -> bool {
        let Some(old) = self.call_at(id).and_then(|call| call.invite) else { return false };
        let Some(mut draft) = cx.requests.draft(old).cloned() else { return false };
        let session = self.call_mut(id).and_then(|call| call.session.as_mut());
        let Some(bytes) = session.and_then(Session::offer_as_savp) else { return false };
        draft.body = Some(Body { content_type: SDP, bytes });
        cx.counters.srtp_insisted += 1;
        self.invite_again(cx, id, draft)
    }

    /// Calls again when the time of a busy server has passed (RFC 3261 §21.5.4), if that is short. True if the call continues.
    fn postpone(&mut self, cx: &mut CoreContext<'_>, id: CallId, message: &Message<'_>) -> bool {
        let Some(wait) = message.retry_after().filter(|wait| *wait <= RETRY_AFTER_MAX) else { return false };
        let Some(call) = self.calls.get_mut(id.key()) else { return false };
        // A phone that has rung has answered itself.
        let is_first = call.progress == 0;
        if !is_first || call.postponements >= cx.config.limits.postponements_max {
            return false;
        }
        let Some(draft) = call.invite.and_then(|key| cx.requests.draft(key)).cloned() else { return false };
        let wait = wait.max(RETRY_AFTER_MIN);
        let timer = self.timers.arm(cx.now() + wait, Timer::Postponed(id));
        call.postponements += 1;
        call.postponed = Some(Postponed { draft: Box::new(draft), timer });
        cx.counters.calls_postponed += 1;
        cx.emit(AgentEvent::Postponed { call: id, wait });
        true
    }

    /// Sends the postponed INVITE of a call.
    pub(super) fn call_again(&mut self, cx: &mut CoreContext<'_>, id: CallId) {
        let Some(postponed) = self.call_mut(id).and_then(|call| call.postponed.take()) else { return };
        if !self.invite_again(cx, id, *postponed.draft) {
            self.report_progress(cx, id, 503);
            self.report_ended(cx, id, 503, "the server is busy", By::Local);
            self.drop_call(cx, id);
        }
    }

    /// Sends a changed INVITE after a refused one: the same call, with the next CSeq. True if it was sent.
    fn invite_again(&mut self, cx: &mut CoreContext<'_>, id: CallId, mut draft: Draft) -> bool {
        let Some(call) = self.call_mut(id) else { return false };
        call.early.clear();
        call.dialog.local_cseq = call.dialog.local_cseq.saturating_add(1);
        draft.cseq = call.dialog.local_cseq;
        self.submit_invite(cx, id, draft).is_ok()
    }

    /// Ends a call, or a change of one, that was not answered in time.
    pub(super) fn on_ring_timeout(&mut self, cx: &mut CoreContext<'_>, id: CallId) {
        match self.call_state(id) {
            Some(CallState::Calling) => self.end_call(cx, id, None),
            Some(CallState::Ringing) => {
                cx.counters.rings_timed_out += 1;
                self.end_call(cx, id, Some(480));
            }
            Some(CallState::Established) => self.give_up_change(cx, id),
            Some(CallState::Cancelling | CallState::Accepted | CallState::Leaving) | None => {}
        }
    }
}

/// Draft of an INVITE or re-INVITE with an offer.
fn invite_draft(config: &Config, call: &Call, next_hop: NextHop, body: Body) -> Draft {
    let dialog = &call.dialog;
    Draft {
        account: call.account,
        method: Method::Invite,
        uri: dialog.target.clone(),
        routes: Vec::new(),
        from: dialog.local.clone(),
        to: dialog.remote.clone(),
        call_id: dialog.call_id.clone(),
        cseq: dialog.local_cseq,
        contact: ContactField::Target,
        fields: abilities(config),
        body: Some(body),
        next_hop,
        scope: Scope::OutsideDialog,
        peer: None,
    }
}

/// Capabilities in every INVITE.
pub(super) fn abilities(config: &Config) -> Vec<(HeaderName, Vec<u8>)> {
    let supported = config.supported().map(|supported| (HeaderName::Supported, supported.to_vec()));
    [(HeaderName::Allow, ALLOW.to_vec())].into_iter().chain(supported).collect()
}

fn accept(mut session: Session, body: &[u8]) -> Result<(Session, MediaParams), NotAcceptable> {
    let params = session.accept_answer(body)?;
    Ok((session, params))
}

/// Contact of a redirection.
struct BestContact {
    q: u16,
    uri: Vec<u8>,
    /// Header fields from the headers of its URI.
    fields: HeaderFields,
    next_hop: NextHop,
}

/// Contact with the greatest q that is not the target of the call already. A call with TLS on every hop is not continued
/// without (RFC 5630 §5.1.1.3).
fn best_contact(config: &Config, message: &Message<'_>, but: &[u8]) -> Option<BestContact> {
    let mut best: Option<BestContact> = None;
    for value in message.values(HeaderName::Contact).take(CONTACTS_MAX) {
        let Ok(contact) = NameAddr::parse(value) else { continue };
        let uri = contact.uri;
        let (Ok(next_hop), Ok((bare, fields))) = (NextHop::of_uri(&uri), without_headers(&uri)) else {
            continue;
        };
        let is_downgrade = is_sips(but) && uri.scheme() != Scheme::Sips;
        let is_usable = config.has_transport(next_hop.transport) && !is_downgrade;
        if bare == but || !is_usable {
            continue;
        }
        let q = contact.params.value(b"q").and_then(ringway_sip::grammar::q_thousandths).unwrap_or(1000);
        if best.as_ref().is_none_or(|known| q > known.q) {
            best = Some(BestContact { q, uri: unfolded(bare), fields, next_hop });
        }
    }
    best
}

/// Maximum number of contacts of a redirection that are parsed.
const CONTACTS_MAX: usize = 16;
/// Longest time of a busy server for which a call waits, and the shortest one.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(8);
const RETRY_AFTER_MIN: Duration = Duration::from_millis(500);
