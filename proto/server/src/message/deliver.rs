//! Delivery: attempts, their pace, and the answers of phones.

use super::mailbox::{Delivery, Mailbox};
use super::record::{FIELDS, Record};
use super::{ATTEMPTS_MAX, DELIVERY_BURST, DELIVERY_TIME, Due, End, Messages, RETRY_MAX, RETRY_MIN};
use crate::Services;
use crate::date::DateText;
use crate::env::Env;
use crate::event::{ChangedUser, ContactEnd, retry_after};
use crate::location::LocationTable;
use crate::proxy::{BindingHop, Owner, Transactions, hop_to_binding};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::TimerKey;
use ringway_sip::{HeaderName, Message, MessageWriter, Method, hex16, write_host};
use ringway_transaction::{Outgoing, SlabKey};

/// Meaning of a final response for the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The phone has it.
    Delivered,
    /// It may be tried again.
    Later,
    /// The phone will not take it.
    Never,
}

impl Verdict {
    const fn of(status: u16) -> Self {
        match status {
            // 482: an earlier copy arrived, and its response was lost (RFC 3261 §8.2.2.2).
            200..=299 | 482 => Self::Delivered,
            501 | 505 | 513 => Self::Never,
            408 | 430 | 480 | 486 | 487 | 491 | 500..=599 | 600 => Self::Later,
            _ => Self::Never,
        }
    }
}

impl Messages {
    /// Ends what has expired, and delivers what is due.
    pub(crate) fn on_timeout(
        &mut self,
        env: &mut Env<'_, impl Services>,
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
        env: &mut Env<'_, impl Services>,
        transactions: &mut Transactions,
        table: &LocationTable,
        change: &ChangedUser,
    ) {
        let Some(key) = self.boxes.find(&change.aor) else { return };
        let Some(mailbox) = self.boxes.mailbox_mut(key) else { return };
        if change.end != ContactEnd::Unregistered || mailbox.is_paced {
            return;
        }
        if mailbox.failures == 0 {
            self.wheel.cancel(mailbox.timer);
            self.on_mailbox_due(env, transactions, table, key);
        } else {
            let at = mailbox.failed_at + RETRY_MIN;
            self.schedule(key, at.max(env.cx.now));
        }
        self.release(env);
    }

    /// Handles the response to a delivery.
    pub(crate) fn on_response(
        &mut self,
        env: &mut Env<'_, impl Services>,
        key: SlabKey,
        (message, status): (&Message<'_>, u16),
    ) {
        let Some(mailbox) = self.boxes.mailbox_mut(key) else { return };
        let Delivery::UnderWay(_, kept) = mailbox.delivery else { return };
        if status < 200 {
            return;
        }
        match Verdict::of(status) {
            Verdict::Later => {
                let pause = message.first(HeaderName::RetryAfter).and_then(retry_after);
                self.fail(env, (key, kept), pause.unwrap_or_default());
            }
            verdict @ (Verdict::Delivered | Verdict::Never) => {
                mailbox.delivery = Delivery::Idle;
                mailbox.failures = 0;
                let end = if verdict == Verdict::Delivered { End::Delivered } else { End::Rejected };
                self.end(env, kept, end);
                self.schedule(key, env.cx.now);
            }
        }
        self.release(env);
    }

    /// Handles a failed attempt; the next one comes after `pause` at least.
    pub(super) fn fail(
        &mut self,
        env: &mut Env<'_, impl Services>,
        (key, message): (SlabKey, SlabKey),
        pause: Duration,
    ) {
        let now = env.cx.now;
        env.counters.message_failures += 1;
        let Some(mailbox) = self.boxes.mailbox_mut(key) else { return };
        mailbox.delivery = Delivery::Idle;
        mailbox.failures = mailbox.failures.saturating_add(1);
        mailbox.failed_at = now;
        let pause = pause_of(mailbox).max(pause).min(RETRY_MAX);
        let end = self.boxes.message(message).and_then(|kept| match kept {
            kept if kept.expires <= now => Some(End::Expired),
            kept if kept.attempts >= ATTEMPTS_MAX => Some(End::Rejected),
            _ => None,
        });
        if let Some(end) = end {
            self.end(env, message, end);
        }
        self.schedule(key, now + pause);
    }

    fn on_expiry(&mut self, env: &mut Env<'_, impl Services>, key: SlabKey) {
        let Some(kept) = self.boxes.message_mut(key) else { return };
        kept.timer = TimerKey::NONE;
        let mailbox = kept.mailbox;
        let delivery = self.boxes.mailbox(mailbox).map(|mailbox| mailbox.delivery);
        // The phone has it perhaps: the response or the timeout ends it.
        if !matches!(delivery, Some(Delivery::UnderWay(_, message)) if message == key) {
            self.end(env, key, End::Expired);
        }
    }

    /// Delivers the oldest message of a user, if it has a phone.
    fn on_mailbox_due(
        &mut self,
        env: &mut Env<'_, impl Services>,
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
        let Some(&message) = mailbox.queue.front() else { return };
        let Some(kept) = self.boxes.message(message) else { return };
        let Some(record) = Record::read(&kept.record) else { return };
        let Some(aor) = self.boxes.mailbox(key).map(|mailbox| &*mailbox.aor) else { return };
        let bindings = table.lookup(aor, now);
        let hops = bindings.filter_map(|binding| {
            Some((binding.expires, hop_to_binding(env.config, binding, record.is_sips)?))
        });
        // The next REGISTER makes it due.
        let Some((_, hop)) = hops.max_by_key(|(expires, _)| *expires) else { return };
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
        self.send(env, transactions, (key, message), &hop);
    }

    fn send(
        &mut self,
        env: &mut Env<'_, impl Services>,
        transactions: &mut Transactions,
        (key, message): (SlabKey, SlabKey),
        hop: &BindingHop,
    ) {
        let Some(kept) = self.boxes.message_mut(message) else { return };
        kept.attempts = kept.attempts.saturating_add(1);
        let number = kept.number;
        let Some(record) = Record::read(&kept.record) else { return };
        let flow = hop.flow;
        let host = env.config.sent_by(flow.listener, flow.remote.ip());
        let outgoing = Outgoing { flow, is_invite: false, owner: Owner::Message(key) };
        let client = transactions.start_client(&mut env.cx, outgoing, |out, branch| {
            write_message(&record, number, hop, (host, branch), out);
        });
        let Some(client) = client else {
            env.counters.overflow += 1;
            return self.fail(env, (key, message), Duration::ZERO);
        };
        // With strict durability the 200 of the REGISTER that caused it is held: it comes first.
        env.cx.out.hold_last();
        if let Some(mailbox) = self.boxes.mailbox_mut(key) {
            mailbox.delivery = Delivery::UnderWay(client, message);
        }
    }
}

/// Pause after the last failed attempt for a user that is registered.
pub(super) fn pause_of(mailbox: &Mailbox) -> Duration {
    let exponent = mailbox.failures.saturating_sub(1).min(EXPONENT_MAX);
    (RETRY_MIN * (1 << exponent)).min(RETRY_MAX)
}

/// Appends the request that delivers a message; nothing if a text is not safe.
fn write_message(
    record: &Record<'_>,
    number: u64,
    hop: &BindingHop,
    (host, branch): (SocketAddr, &[u8]),
    out: &mut Vec<u8>,
) {
    let mut request = MessageWriter::request(out, Method::Message, &hop.uri);
    request.header_with(HeaderName::Via, |out| {
        out.extend_from_slice(b"SIP/2.0/");
        out.extend_from_slice(hop.flow.transport.via_token().as_bytes());
        out.push(b' ');
        write_host(out, host);
        out.extend_from_slice(b";branch=");
        out.extend_from_slice(branch);
        out.extend_from_slice(b";rport");
    });
    request.header_number(HeaderName::MaxForwards, 70);
    for route in &hop.routes {
        request.header(HeaderName::Route, route);
    }
    request.header_with(HeaderName::CallId, |out| {
        out.extend_from_slice(&hex16(number));
        out.extend_from_slice(b"-kept");
    });
    // The same in each attempt, so that a phone that has the message can tell.
    request.header(HeaderName::CSeq, b"1 MESSAGE");
    for (field, value) in FIELDS.iter().zip(record.fields).filter(|(_, value)| !value.is_empty()) {
        request.header_named(field.name, value);
    }
    request.header(HeaderName::Date, DateText::default().at(record.received));
    // An unsafe text is not sent: no transaction begins.
    let _ = request.finish_with_body(record.content_type, record.body);
}

/// Exponent of two of the longest pause.
const EXPONENT_MAX: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_a_verdict() {
        for (statuses, expected) in [
            (&[200, 202, 299, 482][..], Verdict::Delivered),
            (&[408, 430, 480, 486, 487, 491, 500, 503, 504, 600], Verdict::Later),
            (
                &[302, 400, 401, 403, 404, 405, 407, 413, 415, 420, 481, 488, 501, 505, 513, 603, 606],
                Verdict::Never,
            ),
        ] {
            for &status in statuses {
                assert_eq!(Verdict::of(status), expected, "{status}");
            }
        }
    }
}
