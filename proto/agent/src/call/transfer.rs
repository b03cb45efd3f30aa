//! Blind transfer, as the transferor (RFC 3515): REFER, and the NOTIFYs about its result.
//!
//! ```text
//!   transfer(): REFER ──► Waiting ── NOTIFY 1xx: TransferProgress ──┐
//!                         │ │ ▲──────────────────────────────────────┘
//!                         │ └ NOTIFY 2xx: TransferDone, BYE
//!                         └ refused, NOTIFY 3xx-6xx, or timeout: TransferDone, the call continues
//! ```

use crate::body::{Carried, Wanted, find, is_before_params};
use crate::call::Timer;
use crate::call::state::{Call, Transfer};
use crate::core_context::CoreContext;
use crate::draft::{CallRequest, ContactField, Purpose, text, unfolded};
use crate::request::reply::IncomingRequest;
use crate::{AgentEvent, CallError, CallState, RouteError};
use ringway_sansio::Wheel;
use ringway_sip::{HeaderName, Message, Method, grammar};

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
