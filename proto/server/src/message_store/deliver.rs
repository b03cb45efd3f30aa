//! Delivery: attempts, their pace, and the answers of phones.

use super::choice::{Choice, Phone};
use super::mailbox::ContactId;
use super::mailbox::{Attempt, Delivery, Mailbox};
use super::record::{FIELDS, Record};
use super::{ATTEMPTS_MAX, DELIVERY_BURST, DELIVERY_TIME, Due, End, Messages, RETRY_MAX, RETRY_MIN};
use crate::base::DateText;
use crate::base::{Env, Owner, Response, Transactions};
use crate::config::SentBy;
use crate::location::{Binding, LocationTable};
use crate::neighbour::Sending;
use crate::presence::{ChangedUser, ContactEnd};
use crate::proxy::BindingHop;
use crate::tables::{CallRequest, CallResult};
use crate::{Caller, Detail, LogEvent, MessageDrop, Reason};
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{Instant, TimerKey};
use ringway_sip::{HeaderName, MessageWriter, Method, NameAddr, hex16, write_via};
use ringway_transaction::{Outgoing, SlabKey};

/// Meaning of a final response for the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The phone has it.
    Delivered,
    /// The phone or its user is not ready; nothing is sent to it for a time.
    NotReady,
    /// This phone does not take this message: others may, and this one may take others.
    Refused,
    /// The message is wrong, or its recipient does not accept it.
    Never,
}

impl Verdict {
    const fn of(status: u16) -> Self {
        match status {
            // 482: an earlier copy arrived, and its response was lost (RFC 3261 §8.2.2.2).
            200..=299 | 482 => Self::Delivered,
            408 | 430 | 480 | 486 | 487 | 491 | 503 | 504 | 600 => Self::NotReady,
            400 | 403 | 413 | 603 | 604 | 606 | 607 | 608 => Self::Never,
            _ => Self::Refused,
        }
    }
}

impl Messages {
    /// Ends what has expired, and delivers what is due.
    pub(crate) fn on_timeout(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        table: &LocationTable,
    ) {
        if !cfg!(feature = "events") {
            return;
        }
        while let Some(due) = self.wheel.expire(env.cx.now) {
            match due {
                Due::Mailbox(key) => self.on_mailbox_due(env, transactions, table, key),
                Due::Expiry(key) => self.on_expiry(env, key),
                Due::Ended(number) => self.boxes.forget_ended(number),
            }
        }
        self.release(env);
    }

    /// Handles a change of the contacts of a user.
    pub(crate) fn on_change(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        table: &LocationTable,
        change: &ChangedUser,
    ) {
        let Some(key) = self.boxes.find(&change.aor) else { return };
        let Some(mailbox) = self.boxes.mailbox_mut(key) else { return };
        if change.end != ContactEnd::Unregistered {
            return;
        }
        let is_of_register =
            |binding: &&Binding| !binding.is_permanent() && binding.call_id() == &*change.call_id;
        let registered = table.lookup(&change.aor, env.cx.now).filter(is_of_register).last();
        if let Some(id) = registered.map(|binding| ContactId::of(&env.keys.message, binding)) {
            mailbox.preferred = Some(id);
            if mailbox.silent.has(id) {
                // It may be there again. It is not tried at each of its requests.
                mailbox.paused_until = mailbox.paused_until.min(mailbox.failed_at + RETRY_MIN);
                mailbox.silent.note_first(id);
            }
        }
        if mailbox.is_paced {
            return;
        }
        self.wheel.cancel(mailbox.timer);
        self.on_mailbox_due(env, transactions, table, key);
        self.release(env);
    }

    /// Handles the response to a delivery.
    pub(crate) fn on_response(&mut self, env: &mut Env<'_>, key: SlabKey, response: &Response<'_, '_>) {
        let Response { message, status, .. } = *response;
        let Some(mailbox) = self.boxes.mailbox_mut(key) else { return };
        let Delivery::UnderWay(attempt) = mailbox.delivery else { return };
        if status < 200 {
            return;
        }
        let verdict = Verdict::of(status);
        let reason = match verdict {
            Verdict::Delivered => Reason::MessageDelivered,
            Verdict::NotReady | Verdict::Refused | Verdict::Never => Reason::MessageNotTaken,
        };
        env.decided_about(message.as_bytes(), reason, Detail::Status(status, ""));
        if verdict == Verdict::NotReady {
            let pause = message.retry_after();
            self.on_failure(env, key, attempt, status, pause.unwrap_or_default());
            return self.release(env);
        }
        mailbox.delivery = Delivery::Idle;
        mailbox.failures = 0;
        mailbox.silent.forget(attempt.contact);
        env.end_call_request(attempt.dialled, CallResult::Other);
        match verdict {
            Verdict::Delivered | Verdict::NotReady => {
                if let Some(mailbox) = self.boxes.mailbox_mut(key) {
                    mailbox.preferred = Some(attempt.contact);
                }
                self.end(env, attempt.message, End::Delivered);
            }
            Verdict::Refused => self.on_refusal(env, attempt, status),
            Verdict::Never => self.drop_message(env, attempt.message, MessageDrop::Status(status)),
        }
        self.schedule(key, env.cx.now);
        self.release(env);
    }

    /// Handles an attempt without a response.
    pub(super) fn on_silence(&mut self, env: &mut Env<'_>, key: SlabKey, attempt: Attempt) {
        self.on_failure(env, key, attempt, SILENT, Duration::ZERO);
    }

    /// Handles an attempt that says that the phone is not ready, which is not tried again for `pause` at least.
    fn on_failure(
        &mut self,
        env: &mut Env<'_>,
        key: SlabKey,
        attempt: Attempt,
        status: u16,
        pause: Duration,
    ) {
        env.end_call_request(attempt.dialled, CallResult::Other);
        env.counters.message_failures += 1;
        if let Some(mailbox) = self.boxes.mailbox_mut(key) {
            mailbox.delivery = Delivery::Idle;
            mailbox.note_silent(attempt.contact, env.cx.now, pause);
        }
        if status != SILENT
            && let Some(kept) = self.boxes.message_mut(attempt.message)
        {
            kept.set_back = kept.set_back.saturating_add(1);
        }
        self.end_late(env, attempt.message, status);
        self.schedule(key, env.cx.now);
    }

    /// Handles the answer of a phone that does not take this message.
    fn on_refusal(&mut self, env: &mut Env<'_>, attempt: Attempt, status: u16) {
        env.counters.message_failures += 1;
        if let Some(kept) = self.boxes.message_mut(attempt.message) {
            kept.set_back = kept.set_back.saturating_add(1);
            kept.refused.note(attempt.contact);
            kept.paused_until = env.cx.now + pause_of(kept.set_back);
        }
        self.end_late(env, attempt.message, status);
    }

    /// Ends a message after a failed attempt if its time has passed, or if it was the last attempt.
    fn end_late(&mut self, env: &mut Env<'_>, key: SlabKey, status: u16) {
        let Some(kept) = self.boxes.message(key) else { return };
        if kept.expires <= env.cx.now {
            self.end(env, key, End::Expired);
        } else if kept.attempts >= ATTEMPTS_MAX {
            let status = if status == SILENT { 408 } else { status };
            self.drop_message(env, key, MessageDrop::Attempts(status));
        }
    }

    /// Removes a message that is not delivered, and reports it.
    fn drop_message(&mut self, env: &mut Env<'_>, key: SlabKey, reason: MessageDrop) {
        if let Some(kept) = self.boxes.message(key)
            && let Some(mailbox) = self.boxes.mailbox(kept.mailbox)
        {
            let (sender, recipient) = (&*kept.sender, &*mailbox.aor);
            let event = LogEvent::MessageDropped { sender, recipient, reason };
            env.observe(&event);
        }
        self.end(env, key, End::Rejected);
    }

    fn on_expiry(&mut self, env: &mut Env<'_>, key: SlabKey) {
        let Some(kept) = self.boxes.message_mut(key) else { return };
        kept.timer = TimerKey::NONE;
        let mailbox = kept.mailbox;
        let delivery = self.boxes.mailbox(mailbox).map(|mailbox| mailbox.delivery);
        // The phone has it perhaps: the response or the timeout ends it.
        if !matches!(delivery, Some(Delivery::UnderWay(attempt)) if attempt.message == key) {
            self.end(env, key, End::Expired);
        }
    }

    /// Delivers the next message of a user, if there is a phone for it.
    fn on_mailbox_due(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        table: &LocationTable,
        key: SlabKey,
    ) {
        let now = env.cx.now;
        let Some(mailbox) = self.boxes.mailbox_mut(key) else { return };
        (mailbox.timer, mailbox.due) = (TimerKey::NONE, None);
        let is_paced = core::mem::take(&mut mailbox.is_paced);
        if self.is_stopping || mailbox.delivery != Delivery::Idle {
            return;
        }
        let Some(mailbox) = self.boxes.mailbox(key) else { return };
        let phones = Phone::all_of(env, table, &mailbox.aor);
        let (message, contact, hop) = match self.boxes.choose(mailbox, &phones, now) {
            Choice::Send(message, contact, hop) => (message, contact, hop),
            Choice::Wait(at) => return self.schedule(key, at),
            // The next REGISTER makes it due.
            Choice::NoPhone => return,
        };
        if self.is_blocked(env, message) {
            self.drop_message(env, message, MessageDrop::Blocked);
            return self.schedule(key, now);
        }
        if !is_paced {
            let from = self.paced_to.max(now);
            self.paced_to = from + DELIVERY_TIME;
            let wait = self.paced_to.since(now).saturating_sub(DELIVERY_BURST);
            if !wait.is_zero() {
                env.counters.messages_delayed += 1;
                self.schedule(key, now + wait);
                if let Some(mailbox) = self.boxes.mailbox_mut(key) {
                    mailbox.is_paced = true;
                }
                return;
            }
        }
        self.send(env, transactions, key, message, contact, hop);
    }

    /// True if the sender was blocked since the receipt of the message.
    fn is_blocked(&self, env: &Env<'_>, key: SlabKey) -> bool {
        let Some(kept) = self.boxes.message(key) else { return false };
        let Some(mailbox) = self.boxes.mailbox(kept.mailbox) else { return false };
        let from = Record::read(&kept.record).and_then(|record| NameAddr::parse(record.from()).ok());
        from.is_some_and(|from| {
            env.tables.is_caller_blocked(|| Caller::of_kept(env.config, &from.uri, &mailbox.aor))
        })
    }

    fn send(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        key: SlabKey,
        message: SlabKey,
        contact: ContactId,
        hop: &BindingHop,
    ) {
        let now = env.cx.now;
        let Some(kept) = self.boxes.message_mut(message) else { return };
        let Some(record) = Record::read(&kept.record) else { return };
        let record = Record { received: kept.received, ..record };
        let call_id = call_id_of(kept.number);
        // A neighbour that is down is a phone that is silent.
        let Ok(Sending { flow, offers_alias }) =
            env.sending_flow_of(hop.flow, &call_id, CallRequest::Pending)
        else {
            env.counters.message_failures += 1;
            if let Some(mailbox) = self.boxes.mailbox_mut(key) {
                mailbox.note_silent(contact, now, Duration::ZERO);
            }
            return self.schedule(key, now);
        };
        let host = env.config.sent_by(flow.listener, flow.remote.ip());
        let outgoing = Outgoing { flow, is_invite: false, owner: Owner::Message(key) };
        let (is_tracing, mut sent) = (env.is_tracing(), Vec::new());
        let client = transactions.start_client(&mut env.cx, outgoing, |out, branch| {
            let start = out.len();
            write_message(&record, &call_id, hop, host, branch, offers_alias, out);
            if is_tracing {
                sent.extend_from_slice(out.get(start..).unwrap_or_default());
            }
        });
        let Some(client) = client else {
            env.counters.overflow += 1;
            env.end_call_request(flow.dialled, CallResult::Other);
            // It may be the message: others go before it.
            kept.set_back = kept.set_back.saturating_add(1);
            return self.schedule(key, now + RETRY_MIN);
        };
        kept.attempts = kept.attempts.saturating_add(1);
        env.decided_about(&sent, Reason::MessageSent, Detail::Flow(flow));
        // With strict durability the 200 of the REGISTER that caused it is held: it comes first.
        env.cx.out.hold_last(0);
        if let Some(mailbox) = self.boxes.mailbox_mut(key) {
            mailbox.delivery =
                Delivery::UnderWay(Attempt { client, message, contact, dialled: flow.dialled });
        }
    }
}

impl Mailbox {
    /// Notes that nothing is to be expected of this contact for a time.
    fn note_silent(&mut self, contact: ContactId, now: Instant, pause: Duration) {
        self.silent.note(contact);
        self.failures = self.failures.saturating_add(1);
        self.failed_at = now;
        self.paused_until = now + pause_of(self.failures).max(pause).min(RETRY_MAX);
    }
}

/// Pause after this number of failures.
pub(super) fn pause_of(failures: u32) -> Duration {
    let exponent = failures.saturating_sub(1).min(EXPONENT_MAX);
    (RETRY_MIN * (1 << exponent)).min(RETRY_MAX)
}

/// Call-ID of each request that delivers the message with this number.
fn call_id_of(number: u64) -> Vec<u8> {
    let mut call_id = hex16(number).to_vec();
    call_id.extend_from_slice(b"-kept");
    call_id
}

/// Appends the request that delivers a message; nothing if a text is not safe.
fn write_message(
    record: &Record<'_>,
    call_id: &[u8],
    hop: &BindingHop,
    host: SentBy<'_>,
    branch: &[u8],
    offers_alias: bool,
    out: &mut Vec<u8>,
) {
    let mut request = MessageWriter::request(out, Method::Message, &hop.uri);
    request.header_with(HeaderName::Via, |out| {
        write_via(out, hop.flow.transport.via_token(), |out| host.write(out), branch);
        out.extend_from_slice(if offers_alias { b";alias" } else { b"" });
    });
    request.header_number(HeaderName::MaxForwards, 70);
    for route in &hop.routes {
        request.header(HeaderName::Route, route);
    }
    request.header(HeaderName::CallId, call_id);
    // The same in each attempt, so that a phone that has the message can tell.
    request.header(HeaderName::CSeq, b"1 MESSAGE");
    for (field, value) in FIELDS.iter().zip(record.fields).filter(|(_, value)| !value.is_empty()) {
        request.header_named(field.name, value);
    }
    request.header(HeaderName::Date, DateText::default().at(record.received));
    // An unsafe text is not sent: no transaction begins.
    let _ = request.finish_with_body(record.content_type, record.body);
}

/// Status of an attempt without a response.
const SILENT: u16 = 0;
/// Exponent of two of the longest pause.
const EXPONENT_MAX: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_a_verdict() {
        for (statuses, expected) in [
            (&[200, 202, 299, 482][..], Verdict::Delivered),
            (&[408, 430, 480, 486, 487, 491, 503, 504, 600], Verdict::NotReady),
            (
                &[302, 401, 404, 405, 406, 407, 410, 415, 420, 481, 488, 489, 500, 501, 505, 513],
                Verdict::Refused,
            ),
            (&[400, 403, 413, 603, 604, 606, 607, 608], Verdict::Never),
        ] {
            for &status in statuses {
                assert_eq!(Verdict::of(status), expected, "{status}");
            }
        }
    }
}
