//! Calls that we make (RFC 3261 §13.2): the INVITE, the dialogs that its answers make, and the one that stays.

use crate::account::challenge::unfolded;
use crate::agent::Timer;
use crate::call::{Call, CallError, CallId, CallState, Role};
use crate::dialog::Dialog;
use crate::reply::{ALLOW, SUPPORTED};
use crate::request::{Answer, Body, ContactField, Draft, Purpose, key_of, number_of};
use crate::session::{Carried, NotAcceptable, SDP, Session, carried};
use crate::way::Way;
use crate::{AccountId, Action, AgentEvent, By, NoWay, UserAgent};
use alloc::string::String;
use alloc::vec::Vec;
use ringway_sansio::Context;
use ringway_sdp::{Direction, LocalMedia, MediaParams};
use ringway_sip::{HeaderName, Message, Method, NameAddr, Uri};
use ringway_transaction::SlabKey;

/// A dialog that a provisional answer has made.
#[derive(Debug)]
pub(crate) struct Early {
    pub(crate) dialog: Dialog,
    /// What its description was answered with, should the final answer bring none.
    agreed: Option<(Session, MediaParams)>,
}

/// Whom to call, and what else the INVITE says.
#[derive(Debug)]
pub(crate) struct Invitation {
    pub(crate) account: AccountId,
    /// A SIP URI without headers.
    pub(crate) target: Vec<u8>,
    pub(crate) fields: Vec<(HeaderName, Vec<u8>)>,
    pub(crate) referred_by: Option<CallId>,
}

impl UserAgent {
    /// Calls somebody. `target` is a SIP URI; without `sip:` it is put before, and a user alone is one of the account's
    /// domain. `media` says where and how sound is taken; it is offered at once.
    pub fn call(
        &mut self,
        cx: &mut Context<'_, Action>,
        account: AccountId,
        target: &str,
        media: LocalMedia,
    ) -> Result<CallId, CallError> {
        let added_from = cx.out.len();
        let result = self.full_target(account, target).and_then(|target| {
            let invitation = Invitation { account, target, fields: Vec::new(), referred_by: None };
            self.invite(cx, invitation, media)
        });
        self.settle(cx, added_from);
        result
    }

    /// The URI that a person means.
    pub(crate) fn full_target(&self, account: AccountId, target: &str) -> Result<Vec<u8>, CallError> {
        let account = self.config.account(account).ok_or(CallError::NoAccount)?;
        let target = target.trim();
        let has_scheme = ["sip:", "sips:", "tel:"]
            .iter()
            .any(|scheme| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
        let mut uri = String::new();
        if !has_scheme {
            uri.push_str("sip:");
        }
        uri.push_str(target);
        if !has_scheme && !target.contains(['@', '.', ':', '[']) {
            let domain = account.registrar_uri();
            let domain = domain.strip_prefix(b"sip:").unwrap_or_default();
            uri.push('@');
            uri.push_str(&String::from_utf8_lossy(domain));
        }
        let parsed = Uri::parse(uri.as_bytes()).map_err(|_| CallError::NoWay(NoWay::Malformed))?;
        if !parsed.headers().is_empty() {
            return Err(CallError::NoWay(NoWay::Malformed));
        }
        account.way_to(&parsed).map_err(CallError::NoWay)?;
        Ok(uri.into_bytes())
    }

    /// Sends an INVITE.
    pub(crate) fn invite(
        &mut self,
        cx: &mut Context<'_, Action>,
        invitation: Invitation,
        media: LocalMedia,
    ) -> Result<CallId, CallError> {
        if self.is_stopping {
            return Err(CallError::Stopping);
        }
        if self.calls_len() >= self.config.limits.calls_max {
            return Err(CallError::TooManyCalls);
        }
        let (call_id, local_tag) = (self.new_call_id(), self.new_tag());
        let account = self.config.account(invitation.account).ok_or(CallError::NoAccount)?;
        let uri = Uri::parse(&invitation.target).map_err(|_| CallError::NoWay(NoWay::Malformed))?;
        let way = account.way_to(&uri).map_err(CallError::NoWay)?;
        let routes = account.server.as_ref().map(|server| crate::account::preloaded_route(server, &way));
        let to = [b"<", &invitation.target[..], b">"].concat();
        let target = invitation.target.clone();
        let dialog = Dialog::calling(call_id, local_tag, &account.name_addr(), to, target);
        let mut session = Session::new(media, &mut self.secrets, &mut self.visible);
        let body = Body { content_type: SDP, bytes: session.offer(Direction::SendRecv) };
        let mut call = Call::new(invitation.account, Role::Caller, CallState::Calling, dialog);
        call.session = Some(session);
        call.referred_by = invitation.referred_by;
        let mut draft = invite_draft(&call, way, body);
        draft.routes = routes.unwrap_or_default();
        draft.fields.extend(invitation.fields);
        let id = CallId(number_of(self.calls.insert(call)));
        self.submit_invite(cx, id, draft)?;
        let ring = self.wheel.arm(cx.now + self.config.ring, Timer::Ring(id));
        if let Some(call) = self.call_mut(id) {
            call.ring = ring;
        }
        Ok(id)
    }

    fn submit_invite(
        &mut self,
        cx: &mut Context<'_, Action>,
        id: CallId,
        draft: Draft,
    ) -> Result<(), CallError> {
        match self.submit(cx, draft, Purpose::Invite(id)) {
            Ok(key) => {
                if let Some(call) = self.call_mut(id) {
                    call.invite = Some(key);
                }
                Ok(())
            }
            Err(why) => {
                self.calls.remove(key_of(id.0));
                Err(CallError::NotSent(why.reason()))
            }
        }
    }

    /// True for a call that is still wanted and not answered.
    pub(crate) fn is_calling(&self, call: CallId) -> bool {
        self.call_state(call) == Some(CallState::Calling)
    }

    /// True when a call goes where a redirection led it, and not to the account's server.
    pub(crate) fn was_redirected(&self, call: CallId) -> bool {
        self.call_at(call).is_some_and(|call| call.redirects > 0)
    }

    /// An answer to our INVITE, or the lack of one.
    pub(crate) fn on_invite_answer(
        &mut self,
        cx: &mut Context<'_, Action>,
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

    fn on_provisional(
        &mut self,
        cx: &mut Context<'_, Action>,
        id: CallId,
        status: u16,
        message: &Message<'_>,
    ) {
        let limits = self.config.limits;
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
        let Some(tag) = message.to().tag() else { return };
        let place = match call.early.iter().position(|early| early.dialog.remote_tag == tag) {
            Some(place) => place,
            None if call.early.len() >= limits.early_dialogs_max => {
                self.counters.too_many_early_dialogs += 1;
                return;
            }
            None => {
                let Ok(dialog) = call.dialog.answered(message, &limits) else { return };
                call.early.push(Early { dialog, agreed: None });
                call.early.len() - 1
            }
        };
        // A preview: the final answer has the last word (RFC 3261 §13.2.1), so one that cannot be read is passed over.
        let Ok(Carried::Description(body)) = carried(message, limits.body_bytes_max) else { return };
        let Some(session) = call.session.as_mut().map(Session::fork) else { return };
        let Some(early) = call.early.get_mut(place) else { return };
        if let Ok(params) = accept(session, body)
            && early.agreed.as_ref().is_none_or(|(_, known)| known != &params.1)
        {
            let event = AgentEvent::EarlyMedia { call: id, params: params.1.clone() };
            early.agreed = Some(params);
            cx.emit(event);
        }
    }

    /// A 2xx with a tag that has not been acknowledged yet.
    fn on_success(&mut self, cx: &mut Context<'_, Action>, id: CallId, key: SlabKey, message: &Message<'_>) {
        let acks = self.requests.get(key).map_or(0, |request| request.acks.len());
        if acks >= self.config.limits.early_dialogs_max {
            self.counters.too_many_early_dialogs += 1;
            return;
        }
        match self.call_at(id).map(|call| call.state) {
            Some(CallState::Calling) => self.establish(cx, id, key, message),
            Some(CallState::Cancelling) => {
                self.acknowledge_and_leave(cx, key, message);
                self.tell_ended(cx, id, 487, "cancelled", By::Local);
                self.drop_call(id);
            }
            // Another fork has answered first, or the call is over.
            _ => {
                self.counters.forks_ended += 1;
                self.acknowledge_and_leave(cx, key, message);
            }
        }
    }

    fn establish(&mut self, cx: &mut Context<'_, Action>, id: CallId, key: SlabKey, message: &Message<'_>) {
        let limits = self.config.limits;
        let Some(call) = self.call_mut(id) else { return };
        let tag = message.to().tag().unwrap_or_default();
        let early = call.early.iter().position(|early| early.dialog.remote_tag == tag);
        let early = early.map(|place| call.early.swap_remove(place));
        let before = early.as_ref().map_or(&call.dialog, |early| &early.dialog);
        let Ok(mut dialog) = before.answered(message, &limits) else {
            // Nothing can be sent in it, so nothing is: the other side gives up without our ACK.
            self.counters.too_many_routes += 1;
            self.tell_ended(cx, id, 400, "the answer makes no dialog", By::Local);
            return self.drop_call(id);
        };
        // The INVITE may have been sent again since that dialog began.
        dialog.local_cseq = call.dialog.local_cseq;
        let early = early.and_then(|early| early.agreed);
        let session = call.session.as_mut().map(Session::fork);
        let agreed = match (carried(message, limits.body_bytes_max), session, early) {
            (Ok(Carried::Description(body)), Some(session), _) => accept(session, body),
            (Ok(Carried::Nothing), _, Some(early)) => Ok(early),
            (Err(why), _, _) => Err(why),
            (Ok(_), _, _) => Err(NotAcceptable::missing("the answer has no session description")),
        };
        let account = call.account;
        call.dialog = dialog;
        call.early.clear();
        call.state = CallState::Established;
        let ack = call.dialog.ack(account, message.cseq().number);
        let (tag, ring) = (call.dialog.remote_tag.clone(), call.ring);
        self.wheel.cancel(ring);
        if let Ok(draft) = ack {
            self.acknowledge(cx, key, &tag, draft);
        }
        match agreed {
            Ok((session, params)) => {
                if let Some(call) = self.call_mut(id) {
                    call.session = Some(session);
                }
                cx.emit(AgentEvent::Answered { call: id, params });
                self.report_progress(cx, id, 200);
                self.reconcile(cx, id);
            }
            Err(why) => {
                self.counters.sessions_refused += 1;
                self.report_progress(cx, id, why.status);
                self.leave(cx, id, why.status, &why.reason, By::Local);
            }
        }
    }

    /// ACK and BYE for a dialog that nobody wants.
    fn acknowledge_and_leave(&mut self, cx: &mut Context<'_, Action>, key: SlabKey, message: &Message<'_>) {
        let Some(request) = self.requests.get(key) else { return };
        let (draft, account) = (&request.draft, request.draft.account);
        let asked = Dialog {
            call_id: draft.call_id.clone(),
            local_tag: Vec::new(),
            remote_tag: Vec::new(),
            local: draft.from.clone(),
            remote: draft.to.clone(),
            local_cseq: draft.cseq,
            remote_cseq: None,
            target: draft.uri.clone(),
            routes: Vec::new(),
            peer: None,
        };
        let Ok(mut dialog) = asked.answered(message, &self.config.limits) else { return };
        if let Ok(ack) = dialog.ack(account, draft.cseq) {
            self.acknowledge(cx, key, &dialog.remote_tag, ack);
        }
        if let Ok(bye) = dialog.draft(account, Method::Bye) {
            let _ = self.submit(cx, bye, Purpose::Nobody);
        }
    }

    fn on_invite_failure(&mut self, cx: &mut Context<'_, Action>, id: CallId, answer: &Answer<'_, '_>) {
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
        self.report_progress(cx, id, answer.status);
        match state {
            CallState::Cancelling => self.tell_ended(cx, id, 487, "cancelled", By::Local),
            _ => {
                let by = if answer.message.is_some() { By::Remote } else { By::Local };
                self.tell_ended(cx, id, answer.status, &answer.reason, by);
            }
        }
        self.drop_call(id);
    }

    /// Follows a redirection (RFC 3261 §8.1.3.4) to the best contact that a request can be sent to, without credentials.
    /// True when the call goes on.
    fn redirect(&mut self, cx: &mut Context<'_, Action>, id: CallId, message: &Message<'_>) -> bool {
        let has_more = message.values(HeaderName::Contact).nth(CONTACTS_MAX).is_some();
        self.counters.too_many_contacts += u64::from(has_more);
        let Some(call) = self.call_at(id) else { return false };
        if call.redirects >= self.config.limits.redirects_max {
            return false;
        }
        let Some((uri, way)) = best_contact(message, &call.dialog.target) else { return false };
        let Some(old) = call.invite.and_then(|key| self.requests.get(key)) else { return false };
        let mut draft = old.draft.clone();
        draft.uri.clone_from(&uri);
        draft.way = way;
        draft.routes.clear();
        let Some(call) = self.call_mut(id) else { return false };
        call.redirects += 1;
        call.dialog.target = uri;
        self.invite_again(cx, id, draft)
    }

    /// Calls once more with an offer of RTP/SAVP (RFC 3261 §8.1.3.5). RFC 8643 offers optional SRTP as RTP/AVP, which phones
    /// that insist on SRTP refuse: 488, pjsua 406. True when the call goes on.
    fn insist_on_srtp(&mut self, cx: &mut Context<'_, Action>, id: CallId) -> bool {
        let Some(old) = self.call_at(id).and_then(|call| call.invite) else { return false };
        let Some(mut draft) = self.requests.get(old).map(|old| old.draft.clone()) else { return false };
        let session = self.call_mut(id).and_then(|call| call.session.as_mut());
        let Some(bytes) = session.and_then(Session::offer_as_savp) else { return false };
        draft.body = Some(Body { content_type: SDP, bytes });
        self.counters.srtp_insisted += 1;
        self.invite_again(cx, id, draft)
    }

    /// Sends a changed INVITE in place of one that was refused: the same call, with the next CSeq. True when it was sent.
    fn invite_again(&mut self, cx: &mut Context<'_, Action>, id: CallId, mut draft: Draft) -> bool {
        let Some(call) = self.call_mut(id) else { return false };
        call.early.clear();
        call.dialog.local_cseq = call.dialog.local_cseq.saturating_add(1);
        draft.cseq = call.dialog.local_cseq;
        match self.submit(cx, draft, Purpose::Invite(id)) {
            Ok(key) => {
                if let Some(call) = self.call_mut(id) {
                    call.invite = Some(key);
                }
                true
            }
            Err(_) => false,
        }
    }

    /// It has rung for too long, there or here.
    pub(crate) fn on_ring_timeout(&mut self, cx: &mut Context<'_, Action>, id: CallId) {
        match self.call_state(id) {
            Some(CallState::Calling) => self.end_call(cx, id, None),
            Some(CallState::Ringing) => self.end_call(cx, id, Some(480)),
            Some(
                CallState::Cancelling | CallState::Accepted | CallState::Established | CallState::Leaving,
            )
            | None => {}
        }
    }
}

/// An INVITE, the first or another one, with an offer.
pub(crate) fn invite_draft(call: &Call, way: Way, body: Body) -> Draft {
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
        fields: abilities(),
        body: Some(body),
        way,
        is_in_dialog: false,
        peer: None,
    }
}

/// What every INVITE of ours says that we can do.
pub(crate) fn abilities() -> Vec<(HeaderName, Vec<u8>)> {
    alloc::vec![(HeaderName::Allow, ALLOW.to_vec()), (HeaderName::Supported, SUPPORTED.to_vec())]
}

fn accept(mut session: Session, body: &[u8]) -> Result<(Session, MediaParams), NotAcceptable> {
    let params = session.accept_answer(body)?;
    Ok((session, params))
}

/// The contact with the greatest q that is not where the call went already.
fn best_contact(message: &Message<'_>, but: &[u8]) -> Option<(Vec<u8>, Way)> {
    let mut best: Option<(u16, Vec<u8>, Way)> = None;
    for value in message.values(HeaderName::Contact).take(CONTACTS_MAX) {
        let Ok(contact) = NameAddr::parse(value) else { continue };
        let uri = contact.uri;
        let Ok(way) = Way::of_uri(&uri) else { continue };
        if !uri.headers().is_empty() || uri.as_bytes() == but {
            continue;
        }
        let q = contact.params.value(b"q").and_then(ringway_sip::grammar::q_thousandths).unwrap_or(1000);
        if best.as_ref().is_none_or(|(known, _, _)| q > *known) {
            best = Some((q, unfolded(uri.as_bytes()), way));
        }
    }
    best.map(|(_, uri, way)| (uri, way))
}

/// Contacts of a redirection that are looked at.
const CONTACTS_MAX: usize = 16;
