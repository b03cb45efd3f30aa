//! Blind transfer, as the one who wants it (RFC 3515): REFER, and the reports on what came of it.
//!
//! ```text
//!   transfer(): REFER ──► Waiting ── NOTIFY 1xx: TransferProgress ──┐
//!                         │ │ ▲──────────────────────────────────────┘
//!                         │ └ NOTIFY 2xx: TransferDone, BYE
//!                         └ refused, NOTIFY 3xx-6xx, or nothing for long: TransferDone, the call goes on
//! ```

use crate::account::challenge::unfolded;
use crate::agent::Timer;
use crate::call::{CallError, CallId, CallState};
use crate::event::text;
use crate::request::{Answer, ContactField, Purpose};
use crate::{Action, AgentEvent, UserAgent};
use ringway_sansio::{Context, TimerKey};
use ringway_sip::{HeaderName, Message, Method, grammar};

/// A transfer that we asked for.
#[derive(Debug)]
pub(crate) struct Transfer {
    timer: TimerKey,
}

impl UserAgent {
    /// Asks the other side to call `target` instead of us. When that call stands, ours is ended.
    pub fn transfer(
        &mut self,
        cx: &mut Context<'_, Action>,
        call: CallId,
        target: &str,
    ) -> Result<(), CallError> {
        let added_from = cx.out.len();
        let result = self.refer(cx, call, target);
        self.settle(cx, added_from);
        result
    }

    fn refer(&mut self, cx: &mut Context<'_, Action>, id: CallId, target: &str) -> Result<(), CallError> {
        let account = self.call_at(id).ok_or(CallError::NoCall)?.account;
        let target = self.full_target(account, target)?;
        let aor = self.config.account(account).map(|account| account.aor.clone()).unwrap_or_default();
        let call = self.call_mut(id).ok_or(CallError::NoCall)?;
        if call.state != CallState::Established || call.transfer.is_some() {
            return Err(CallError::WrongState);
        }
        let mut draft = call.dialog.draft(account, Method::Refer).map_err(CallError::NoWay)?;
        draft.contact = ContactField::Target;
        draft.fields = alloc::vec![
            (HeaderName::ReferTo, [b"<", &target[..], b">"].concat()),
            (HeaderName::ReferredBy, [b"<", aor.as_bytes(), b">"].concat()),
        ];
        self.submit(cx, draft, Purpose::Refer(id)).map_err(|why| CallError::NotSent(why.reason()))?;
        let timer =
            self.wheel.arm(cx.now + self.config.ring + self.config.timers.t1 * 64, Timer::Transfer(id));
        if let Some(call) = self.call_mut(id) {
            call.transfer = Some(Transfer { timer });
        }
        Ok(())
    }

    /// The final answer to our REFER. A success says only that the other side will try.
    pub(crate) fn on_refer_answer(
        &mut self,
        cx: &mut Context<'_, Action>,
        id: CallId,
        answer: &Answer<'_, '_>,
    ) {
        if (200..300).contains(&answer.status) {
            return;
        }
        self.finish_transfer(cx, id, answer.status, &answer.reason);
        self.ends_dialog(cx, id, answer);
    }

    /// A report: the body has the status line of the other side's new call (RFC 3515 §2.4.5).
    pub(crate) fn on_transfer_report(
        &mut self,
        cx: &mut Context<'_, Action>,
        id: CallId,
        message: &Message<'_>,
    ) {
        let state = message.first(HeaderName::SubscriptionState).map(unfolded).unwrap_or_default();
        let state = state.split(|&byte| byte == b';').next().unwrap_or_default();
        let is_last = grammar::trim(state).eq_ignore_ascii_case(b"terminated");
        match status_of(message.body()) {
            Some((status, reason)) if status >= 200 => {
                self.finish_transfer(cx, id, status, &text(reason));
            }
            Some((status, _)) if !is_last => cx.emit(AgentEvent::TransferProgress { call: id, status }),
            None if !is_last => {}
            Some(_) | None => {
                self.finish_transfer(cx, id, 408, "the other side does not report any more");
            }
        }
    }

    pub(crate) fn on_transfer_timeout(&mut self, cx: &mut Context<'_, Action>, id: CallId) {
        self.finish_transfer(cx, id, 408, "the other side did not report what came of it");
    }

    pub(crate) fn stop_transfer(&mut self, id: CallId) {
        if let Some(transfer) = self.call_mut(id).and_then(|call| call.transfer.take()) {
            self.wheel.cancel(transfer.timer);
        }
    }

    fn finish_transfer(&mut self, cx: &mut Context<'_, Action>, id: CallId, status: u16, reason: &str) {
        if self.call_at(id).is_none_or(|call| call.transfer.is_none()) {
            return;
        }
        self.stop_transfer(id);
        cx.emit(AgentEvent::TransferDone { call: id, status, reason: reason.into() });
        if (200..300).contains(&status) {
            self.end_call(cx, id, None);
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
