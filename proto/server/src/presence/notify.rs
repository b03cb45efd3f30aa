//! NOTIFY: documents, client transactions, and the end of subscriptions.

use super::dialog::Remotes;
use super::package::Package;
use super::presentity::Presentity;
use super::subscription::{Delivery, End, Subscription};
use super::{Events, NOTIFY_BURST, NOTIFY_PAUSE, NOTIFY_TIME, Parts, arm, dialog, documents, reg};
use crate::ShownCall;
use crate::base::{Env, Owner, Response};
use crate::location::LocationTable;
use crate::tables::PAUSE_MAX;
use alloc::vec::Vec;
use ringway_sansio::Instant;
use ringway_transaction::{Outgoing, SlabKey};

impl Events {
    /// Handles the response to a NOTIFY (RFC 6665 §4.2.2).
    pub(crate) fn on_response(
        &mut self,
        env: &mut Env<'_>,
        parts: &mut Parts<'_>,
        key: SlabKey,
        response: &Response<'_, '_>,
    ) {
        let (now, status) = (env.cx.now, response.status);
        let Some(subscription) = self.subscriptions.get_mut(key) else { return };
        if status < 200 {
            return;
        }
        subscription.delivery = Delivery::Idle;
        let pause = response.message.retry_after();
        match (status, pause) {
            (200..=299, _) => {}
            (_, Some(pause)) if subscription.end.is_none() => {
                env.counters.notify_failures += 1;
                subscription.is_changed = true;
                subscription.not_before = now + pause.clamp(subscription.package.interval(), PAUSE_MAX);
            }
            (_, _) => {
                env.counters.notify_failures += 1;
                self.drop_subscription(parts.transactions, key);
                return self.release(env);
            }
        }
        if subscription.end.is_some() && !subscription.is_changed {
            self.drop_subscription(parts.transactions, key);
            return self.release(env);
        }
        arm(&mut self.wheel, now, key, subscription);
    }

    /// Handles the timer of a subscription: it has expired, or a NOTIFY is due.
    pub(super) fn on_subscription_due(&mut self, env: &mut Env<'_>, parts: &mut Parts<'_>, key: SlabKey) {
        let now = env.cx.now;
        let Some(subscription) = self.subscriptions.get_mut(key) else { return };
        if subscription.client().is_some() {
            return;
        }
        if subscription.expires <= now && subscription.end.is_none() {
            (subscription.end, subscription.is_changed) = (Some(End::Timeout), true);
        }
        if !subscription.is_changed || (subscription.not_before > now && subscription.expires > now) {
            return arm(&mut self.wheel, now, key, subscription);
        }
        let from = self.full_at.max(now);
        if from.since(now) + NOTIFY_TIME > NOTIFY_BURST {
            env.counters.notifies_delayed += 1;
            subscription.not_before = now + NOTIFY_PAUSE;
            return arm(&mut self.wheel, now, key, subscription);
        }
        self.full_at = from + NOTIFY_TIME;
        self.notify(env, parts, key);
    }

    /// Sends a NOTIFY at once, unless one is under way: then the next one follows it.
    pub(super) fn notify(&mut self, env: &mut Env<'_>, parts: &mut Parts<'_>, key: SlabKey) {
        let now = env.cx.now;
        let Some(subscription) = self.subscriptions.get_mut(key) else { return };
        if subscription.client().is_some() {
            return;
        }
        let Some(user) = self.presentities.get(subscription.presentity) else { return };
        self.body.clear();
        let mut calls = Vec::new();
        if subscription.package == Package::Dialog {
            env.tables.change_dialog_states((), |states| states.calls_of(user.aor.as_bytes(), &mut calls));
        }
        let left_out = write_document(user, subscription, parts.table, &calls, now, &mut self.body);
        env.counters.lamps_left_out += left_out as u64;
        subscription.cseq = subscription.cseq.wrapping_add(1) & CSEQ_MASK;
        let (flow, body) = (subscription.flow, &self.body);
        let host = env.config.sent_by(flow.listener, flow.remote.ip());
        let outgoing = Outgoing { flow, is_invite: false, owner: Owner::Notify(key) };
        let sent = parts.transactions.start_client(&mut env.cx, outgoing, |out, branch| {
            subscription.write_notify(now, host, body, branch, out);
        });
        let Some(client) = sent else {
            env.counters.overflow += 1;
            self.drop_subscription(parts.transactions, key);
            return;
        };
        env.counters.notifies += 1;
        subscription.version = subscription.version.wrapping_add(1) & CSEQ_MASK;
        subscription.delivery = Delivery::UnderWay(client);
        subscription.is_changed = false;
        subscription.notified_at = now;
        subscription.not_before = now + subscription.package.interval();
    }
}

/// Appends the document of a subscription; returns the number of calls that it has no room for.
fn write_document(
    user: &Presentity,
    subscription: &Subscription,
    table: &LocationTable,
    calls: &[ShownCall],
    now: Instant,
    out: &mut Vec<u8>,
) -> usize {
    let (aor, version) = (&user.aor, subscription.version);
    let published = user.latest(subscription.package).map(|publication| &*publication.body);
    match (subscription.package, published) {
        (Package::Dialog, Some(document)) => dialog::write_published(document, version, out),
        (Package::Presence | Package::MessageSummary, Some(document)) => out.extend_from_slice(document),
        (Package::Presence, None) => {
            documents::write_presence(aor, table.lookup(aor.as_bytes(), now).next().is_some(), out);
        }
        (Package::Dialog, None) => {
            // Who calls whom is for the user itself.
            let remotes = match *subscription.watcher == *aor.as_bytes() {
                true => Remotes::Shown,
                false => Remotes::Hidden,
            };
            return dialog::write(aor, version, calls, remotes, out);
        }
        (Package::MessageSummary, None) => documents::write_message_summary(aor, out),
        (Package::Reg, _) => {
            let ended =
                user.ended_after(subscription.notified_at).map(|contact| (&*contact.uri, contact.end));
            reg::write(aor, version, table.lookup(aor.as_bytes(), now), ended, now, out);
        }
    }
    0
}

/// RFC 3261 §8.1.1.5: below 2^31.
const CSEQ_MASK: u32 = (1 << 31) - 1;
