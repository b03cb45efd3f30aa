//! Blind transfer (RFC 3515). As the transferor: REFER, and the NOTIFYs about its result. As the transferee: the
//! program decides, and the peer is notified of the result.
//!
//! ```text
//!   transfer(): REFER ──► Waiting ── NOTIFY 1xx: TransferProgress ──┐
//!                         │ │ ▲──────────────────────────────────────┘
//!                         │ └ NOTIFY 2xx: TransferDone, BYE
//!                         └ refused, NOTIFY 3xx-6xx, or timeout: TransferDone, the call continues
//! ```
//!
//! ```text
//!   REFER: 202, NOTIFY 100 ──► Deciding ── accept_transfer(): a new call ──► Calling ── its responses: NOTIFY ──► (gone)
//!                               │ reject_transfer(), or timeout: NOTIFY 603
//!                               v
//!                             (gone)
//! ```
//!
//! The call with the transferor is not changed: that side ends it after the report that the new call is established.

use crate::body::{Carried, Wanted, find, is_before_params};
use crate::call::Timer;
use crate::call::state::{Call, Invitation, Referral, Transfer};
use crate::core_context::CoreContext;
use crate::draft::{Body, CallRequest, ContactField, Purpose, text, unfolded};
use crate::next_hop::NextHop;
use crate::request::reply::{IncomingRequest, add_contact, phrase_of};
use crate::{AgentEvent, CallError, CallState, Config, RouteError};
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::Wheel;
use ringway_sip::{HeaderName, Message, Method, NameAddr, grammar};

impl Call {
    /// Sends a REFER to `target`.
    pub(super) fn refer(
        &mut self,
        cx: &mut CoreContext<'_>,
        timers: &mut Wheel<Timer>,
        target: &str,
    ) -> Result<(), CallError> {
        let account = cx.config.account(self.account).ok_or(CallError::NoAccount)?;
        let (target, headers) = account.full_target(target).map_err(CallError::Route)?;
        if !headers.is_empty() {
            return Err(CallError::Route(RouteError::TransferHeaders));
        }
        if self.state != CallState::Established || self.transfer.is_some() {
            return Err(CallError::WrongState);
        }
        let mut draft = self.dialog.draft(self.account, Method::Refer).map_err(CallError::Route)?;
        draft.contact = ContactField::Target;
        draft.fields = alloc::vec![
            (HeaderName::ReferTo, [b"<", &target[..], b">"].concat()),
            (HeaderName::ReferredBy, [b"<", account.aor.as_bytes(), b">"].concat()),
        ];
        let purpose = Purpose::Call(self.id, CallRequest::Refer);
        cx.submit(draft, purpose).map_err(|why| CallError::NotSent(why.reason()))?;
        let due = cx.now() + cx.config.ring + cx.config.timers.t1 * 64;
        self.transfer = Some(Transfer { timer: timers.arm(due, Timer::Transfer(self.id)) });
        Ok(())
    }

    /// Handles a NOTIFY (RFC 6665 §4.1.3). True if the peer has made its new call, so that this one is to be ended.
    pub(super) fn on_notify(
        &mut self,
        cx: &mut CoreContext<'_>,
        timers: &mut Wheel<Timer>,
        incoming: &IncomingRequest<'_, '_>,
    ) -> bool {
        if self.transfer.is_none() {
            cx.refuse(incoming, 481, "Subscription Does Not Exist");
            return false;
        }
        let fragment = match find(incoming.message, Wanted::Fragment, &cx.config.limits) {
            Ok(Carried::Body(fragment)) => fragment,
            Ok(Carried::Nothing) => b"",
            Err(why) => {
                cx.refuse_session(incoming, &why);
                return false;
            }
        };
        cx.respond(incoming, 200, "OK", None, |_, _| None);
        self.on_transfer_report(cx, timers, incoming.message, fragment)
    }

    /// Reports the final result of a transfer.
    pub(super) fn finish_transfer(
        &mut self,
        cx: &mut CoreContext<'_>,
        timers: &mut Wheel<Timer>,
        status: u16,
        reason: &str,
    ) {
        if self.transfer.is_some() {
            self.stop_transfer(timers);
            cx.emit(AgentEvent::TransferDone { call: self.id, status, reason: reason.into() });
        }
    }

    pub(super) fn stop_transfer(&mut self, timers: &mut Wheel<Timer>) {
        if let Some(transfer) = self.transfer.take() {
            timers.cancel(transfer.timer);
        }
    }

    /// The body of a NOTIFY has the status line of the peer's new call (RFC 3515 §2.4.5).
    fn on_transfer_report(
        &mut self,
        cx: &mut CoreContext<'_>,
        timers: &mut Wheel<Timer>,
        message: &Message<'_>,
        fragment: &[u8],
    ) -> bool {
        let state = message.first(HeaderName::SubscriptionState).map(unfolded).unwrap_or_default();
        let is_last = is_before_params(&state, b"terminated");
        match status_of(fragment) {
            Some((status, reason)) if status >= 200 => {
                self.finish_transfer(cx, timers, status, &text(reason));
                (200..300).contains(&status)
            }
            Some((status, _)) if !is_last => {
                cx.emit(AgentEvent::TransferProgress { call: self.id, status });
                false
            }
            None if !is_last => false,
            Some(_) | None => {
                self.finish_transfer(cx, timers, 408, "the other side does not report any more");
                false
            }
        }
    }
}

/// The status and phrase of a fragment that begins with a status line.
fn status_of(fragment: &[u8]) -> Option<(u16, &[u8])> {
    let line = fragment.split(|&byte| byte == b'\r' || byte == b'\n').next()?;
    let rest =
        line.get(..8).filter(|version| version.eq_ignore_ascii_case(b"SIP/2.0 ")).and(line.get(8..))?;
    let (code, phrase) = rest.split_at_checked(3)?;
    let status = grammar::number(code).and_then(|code| u16::try_from(code).ok())?;
    let is_one = (100..700).contains(&status) && phrase.first().is_none_or(|&byte| byte == b' ');
    is_one.then(|| (status, grammar::trim(phrase)))
}

/// Position of a report in its subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    More,
    Last,
}

/// Target of a referral, and additional header fields of the INVITE.
type Target = (Vec<u8>, Vec<(HeaderName, Vec<u8>)>);

impl Call {
    /// Handles a REFER in the call's dialog.
    pub(super) fn on_refer(
        &mut self,
        cx: &mut CoreContext<'_>,
        timers: &mut Wheel<Timer>,
        incoming: &IncomingRequest<'_, '_>,
    ) {
        // A peer that does not answer our reports must not use up the requests of this phone.
        let is_full = self.reports_pending(cx) >= REPORTS_PENDING_MAX;
        cx.counters.too_many_reports += u64::from(is_full);
        if self.state != CallState::Established || self.referral.is_some() || is_full {
            return cx.refuse(incoming, 491, "Request Pending");
        }
        let account = self.account;
        let (target, fields) = match target_of(cx.config, incoming.message) {
            Ok(target) => target,
            Err((status, phrase)) => return cx.refuse(incoming, status, phrase),
        };
        // After a 503 the target must not be called.
        let Some(server) = cx.begin(incoming, None) else { return };
        let incoming = &IncomingRequest { server: Some(server), ..*incoming };
        cx.respond(incoming, 202, "Accepted", None, |response, config| {
            add_contact(response, config, account, incoming.flow, incoming.is_sips());
            None
        });
        let referred_by = text(incoming.message.first(HeaderName::ReferredBy).unwrap_or_default());
        cx.emit(AgentEvent::TransferRequested { call: self.id, target: text(&target), referred_by });
        let timer = timers.arm(cx.now() + DECISION, Timer::Referral(self.id));
        self.referral = Some(Referral { target, fields, is_accepted: false, timer });
        // RFC 3515 §2.4.4: at once.
        self.report(cx, timers, 100, Report::More);
    }

    /// Accepts a transfer: returns the INVITE to send.
    pub(super) fn accept_referral(&mut self, timers: &mut Wheel<Timer>) -> Result<Invitation, CallError> {
        let referral = self.referral.as_mut().filter(|referral| !referral.is_accepted);
        let referral = referral.ok_or(CallError::WrongState)?;
        referral.is_accepted = true;
        timers.cancel(referral.timer);
        let (target, fields) = (referral.target.clone(), referral.fields.clone());
        Ok(Invitation { account: self.account, target, fields, referred_by: Some(self.id) })
    }

    /// Rejects a transfer that is not accepted yet.
    pub(super) fn reject_referral(
        &mut self,
        cx: &mut CoreContext<'_>,
        timers: &mut Wheel<Timer>,
    ) -> Result<(), CallError> {
        if self.referral.as_ref().is_none_or(|referral| referral.is_accepted) {
            return Err(CallError::WrongState);
        }
        self.report(cx, timers, 603, Report::Last);
        Ok(())
    }

    pub(super) fn stop_referral(&mut self, timers: &mut Wheel<Timer>) {
        if let Some(referral) = self.referral.take() {
            timers.cancel(referral.timer);
        }
    }

    /// Sends a NOTIFY with the status line of the new call (RFC 3515 §2.4.5).
    pub(super) fn report(
        &mut self,
        cx: &mut CoreContext<'_>,
        timers: &mut Wheel<Timer>,
        status: u16,
        report: Report,
    ) {
        if self.referral.is_none() {
            return;
        }
        if report == Report::More && self.reports_pending(cx) >= REPORTS_PENDING_MAX {
            cx.counters.too_many_reports += 1;
            return;
        }
        if let Ok(mut draft) = self.dialog.draft(self.account, Method::Notify) {
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
            // If a report cannot be sent, the peer's timer ends the subscription.
            let _ = cx.submit(draft, Purpose::Call(self.id, CallRequest::Report));
        }
        if report == Report::Last {
            self.stop_referral(timers);
        }
    }

    /// Number of reports that the peer has not answered.
    fn reports_pending(&self, cx: &CoreContext<'_>) -> usize {
        cx.requests.count_of(Purpose::Call(self.id, CallRequest::Report))
    }
}

/// Parses Refer-To. Of the headers in its URI only Replaces is used (RFC 3891 §4): others would let the peer choose any
/// content of our INVITE.
fn target_of(config: &Config, message: &Message<'_>) -> Result<Target, (u16, &'static str)> {
    let bad = (400, "Missing Or Bad Refer-To");
    let mut lines = message.lines_of(HeaderName::ReferTo);
    let (Some(line), None) = (lines.next(), lines.next()) else { return Err(bad) };
    let refer_to = NameAddr::parse(line).map_err(|_| bad)?;
    let uri = refer_to.uri;
    let hop = NextHop::of_uri(&uri).ok().filter(|hop| config.has_transport(hop.transport));
    hop.ok_or((416, "Unsupported URI Scheme"))?;
    if uri.params().value(b"method").is_some_and(|method| method != b"INVITE") {
        return Err((501, "Only Calls Can Be Made"));
    }
    let mut fields = Vec::new();
    if let Some(replaces) = replaces_in(uri.headers()) {
        fields.push((HeaderName::Replaces, replaces));
    }
    if let Some(referred_by) = message.first(HeaderName::ReferredBy) {
        fields.push((HeaderName::ReferredBy, unfolded(referred_by)));
    }
    let end = match uri.headers().len() {
        0 => uri.as_bytes().len(),
        headers => uri.as_bytes().len().saturating_sub(headers + 1),
    };
    Ok((uri.as_bytes().get(..end).unwrap_or_default().to_vec(), fields))
}

/// Value of `Replaces` in a URI's headers, without escapes.
fn replaces_in(headers: &[u8]) -> Option<Vec<u8>> {
    let field = headers
        .split(|&byte| byte == b'&')
        .find(|field| field.get(..9).is_some_and(|start| start.eq_ignore_ascii_case(b"Replaces=")))?;
    let mut value = Vec::new();
    grammar::unescape_into(field.get(9..)?, &mut value);
    Some(unfolded(&value))
}

/// Number of unanswered reports of a call at which reports on progress are left out, and another REFER is refused.
const REPORTS_PENDING_MAX: usize = 4;

/// Time for the program's decision.
const DECISION: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fragment_is_read_as_far_as_its_status_line() {
        assert_eq!(status_of(b"SIP/2.0 180 Ringing\r\nTo: x\r\n"), Some((180, &b"Ringing"[..])));
        assert_eq!(status_of(b"sip/2.0 200 OK"), Some((200, &b"OK"[..])));
        for bad in
            [&b""[..], b"SIP/2.0 99 x", b"SIP/2.0 700 x", b"SIP/2.0 2000", b"SIP/3.0 200 OK", b"INVITE sip:x"]
        {
            assert_eq!(status_of(bad), None, "{:?}", core::str::from_utf8(bad));
        }
    }
}
