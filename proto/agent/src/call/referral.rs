//! Blind transfer, as the one who is asked (RFC 3515): the program decides, and the other side is told what comes of it.
//!
//! ```text
//!   REFER: 202, NOTIFY 100 ──► Deciding ── accept_transfer(): a new call ──► Calling ── its answers: NOTIFY ──► (gone)
//!                               │ reject_transfer(), or nobody decides: NOTIFY 603
//!                               v
//!                             (gone)
//! ```
//!
//! Our own call with who asked stays as it is: that side ends it when it has heard that the new one stands.

use crate::agent::Timer;
use crate::call::outgoing::Invitation;
use crate::call::{CallError, CallId};
use crate::reply::phrase_of;
use crate::request::{Answer, Body, ContactField, Purpose};
use crate::{Action, UserAgent};
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{Context, TimerKey};
use ringway_sdp::LocalMedia;
use ringway_sip::{HeaderName, Method};

/// What the other side wants.
#[derive(Debug)]
pub(crate) struct Referral {
    /// Whom to call, without headers.
    pub(crate) target: Vec<u8>,
    /// What the INVITE is to say besides: `Referred-By`, `Replaces`.
    pub(crate) fields: Vec<(HeaderName, Vec<u8>)>,
    /// True once the program has accepted.
    is_accepted: bool,
    timer: TimerKey,
}

/// Whether a report is the last of its subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Report {
    More,
    Last,
}

impl UserAgent {
    /// Does what the other side of `call` wants: makes a new call, to which the answer is another [`CallId`].
    pub fn accept_transfer(
        &mut self,
        cx: &mut Context<'_, Action>,
        call: CallId,
        media: LocalMedia,
    ) -> Result<CallId, CallError> {
        let added_from = cx.out.len();
        let result = self.follow_referral(cx, call, media);
        self.settle(cx, added_from);
        result
    }

    /// Does not do what the other side of `call` wants.
    pub fn reject_transfer(&mut self, cx: &mut Context<'_, Action>, call: CallId) -> Result<(), CallError> {
        let added_from = cx.out.len();
        let referral = self.call_at(call).ok_or(CallError::NoCall)?.referral.as_ref();
        if referral.is_none_or(|referral| referral.is_accepted) {
            return Err(CallError::WrongState);
        }
        self.report(cx, call, 603, Report::Last);
        self.settle(cx, added_from);
        Ok(())
    }

    /// Notes a REFER that was answered 202 and tells the other side so (RFC 3515 §2.4.4: at once).
    pub(crate) fn begin_referral(
        &mut self,
        cx: &mut Context<'_, Action>,
        id: CallId,
        target: Vec<u8>,
        fields: Vec<(HeaderName, Vec<u8>)>,
    ) {
        let timer = self.wheel.arm(cx.now + DECISION, Timer::Referral(id));
        if let Some(call) = self.call_mut(id) {
            call.referral = Some(Referral { target, fields, is_accepted: false, timer });
        }
        self.report(cx, id, 100, Report::More);
    }

    /// The call that somebody asked for has come a step further.
    pub(crate) fn report_progress(&mut self, cx: &mut Context<'_, Action>, new: CallId, status: u16) {
        let Some(old) = self.call_at(new).and_then(|call| call.referred_by) else { return };
        self.report(cx, old, status, if status >= 200 { Report::Last } else { Report::More });
    }

    pub(crate) fn on_referral_timeout(&mut self, cx: &mut Context<'_, Action>, id: CallId) {
        let is_undecided =
            self.call_at(id).and_then(|call| call.referral.as_ref()).is_some_and(|it| !it.is_accepted);
        if is_undecided {
            self.report(cx, id, 603, Report::Last);
        }
    }

    /// A report that nobody wants ends the subscription; the call goes on.
    pub(crate) fn on_report_answer(&mut self, id: CallId, answer: &Answer<'_, '_>) {
        if answer.status >= 300 {
            self.stop_referral(id);
        }
    }

    pub(crate) fn stop_referral(&mut self, id: CallId) {
        if let Some(referral) = self.call_mut(id).and_then(|call| call.referral.take()) {
            self.wheel.cancel(referral.timer);
        }
    }

    fn follow_referral(
        &mut self,
        cx: &mut Context<'_, Action>,
        id: CallId,
        media: LocalMedia,
    ) -> Result<CallId, CallError> {
        let call = self.call_mut(id).ok_or(CallError::NoCall)?;
        let account = call.account;
        let referral = call.referral.as_mut().filter(|referral| !referral.is_accepted);
        let referral = referral.ok_or(CallError::WrongState)?;
        referral.is_accepted = true;
        let (target, fields, timer) = (referral.target.clone(), referral.fields.clone(), referral.timer);
        self.wheel.cancel(timer);
        let invitation = Invitation { account, target, fields, referred_by: Some(id) };
        let result = self.invite(cx, invitation, media);
        if result.is_err() {
            self.report(cx, id, 503, Report::Last);
        }
        result
    }

    /// NOTIFY with the status line of the new call (RFC 3515 §2.4.5).
    fn report(&mut self, cx: &mut Context<'_, Action>, id: CallId, status: u16, report: Report) {
        let Some(call) = self.call_mut(id).filter(|call| call.referral.is_some()) else { return };
        let account = call.account;
        if let Ok(mut draft) = call.dialog.draft(account, Method::Notify) {
            let phrase = if status == 100 { "Trying" } else { phrase_of(status) };
            let line = alloc::format!("SIP/2.0 {status} {phrase}\r\n");
            draft.body = Some(Body { content_type: "message/sipfrag;version=2.0", bytes: line.into_bytes() });
            draft.contact = ContactField::Target;
            let state: &[u8] = match report {
                Report::More => b"active;expires=300",
                Report::Last => b"terminated;reason=noresource",
            };
            draft.fields = alloc::vec![
                (HeaderName::Event, b"refer".to_vec()),
                (HeaderName::SubscriptionState, state.to_vec()),
            ];
            // A report that cannot be sent is missed; the other side has its own timer.
            let _ = self.submit(cx, draft, Purpose::Report(id));
        }
        if report == Report::Last {
            self.stop_referral(id);
        }
    }
}

/// How long the program may take to decide.
const DECISION: Duration = Duration::from_secs(60);
