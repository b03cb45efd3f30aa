//! SUBSCRIBE (RFC 6665 §4.2.1).

use super::documents::write_user;
use super::package::{ALLOW_EVENTS, Event, EventHeader, Package};
use super::subscription::{Delivery, End, Parts as TextParts, Subscription, Texts, seconds_of};
use super::{Events, Parts, lifetime_of, refuse_event, refuse_for_now, reserve};
use crate::base::{Env, Request};
use crate::dialog::route::Routed;
use crate::policy::proven_sender;
use crate::{Aor, Watchers};
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{Defence, Instant, TimerKey};
use ringway_sip::{Contact, HeaderName, Message, Scheme, read_hex};
use ringway_transaction::{SlabKey, reply_flow, to_tag};

impl Events {
    /// Handles a SUBSCRIBE for a user of this server; false: it is to be forwarded.
    pub(super) fn on_subscribe(
        &mut self,
        env: &mut Env<'_>,
        parts: &mut Parts<'_>,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
    ) -> bool {
        let message = request.message;
        let mut aor = Aor::default();
        let is_user = env.config.read_aor(&routed.uri, &mut aor);
        let event = match EventHeader::of(message) {
            EventHeader::Served(event) if is_user => event,
            EventHeader::Other if is_user => return false,
            EventHeader::Served(_) | EventHeader::Other | EventHeader::Absent => {
                refuse_event(env, request, ALLOW_EVENTS);
                return true;
            }
        };
        // A GRUU names one phone, which may serve the package itself.
        if routed.uri.params().has(b"gr") {
            return false;
        }
        if message.to().tag().is_some() {
            self.refresh(env, parts, request, &event);
            return true;
        }
        if env.config.auth.enabled && !env.host.is_known(aor.user(), aor.domain()) {
            return false;
        }
        self.subscribe(env, parts, request, &event, &aor);
        true
    }

    /// Begins a subscription.
    fn subscribe(
        &mut self,
        env: &mut Env<'_>,
        parts: &mut Parts<'_>,
        request: &Request<'_, '_>,
        event: &Event<'_>,
        aor: &Aor,
    ) {
        let message = request.message;
        let watcher = proven_sender(env, request)
            .filter(|watcher| may_watch(env.config.presence.watchers, watcher, aor, event));
        let Some(watcher) = watcher else {
            env.counters.watchers_refused += 1;
            return env.refuse_plainly(request, 403, "Forbidden");
        };
        let Some(lifetime_s) = self.check(env, request, event) else { return };
        let tag = to_tag(&env.keys.tag, message);
        let tag_number = read_hex(&tag).unwrap_or_default();
        if let Some(key) = self.subscriptions.of_tag(tag_number) {
            // A retransmission.
            return self.confirm(env, request, key);
        }
        let Some(contact) = only_contact(message) else {
            return env.refuse_plainly(request, 400, "One SIP Contact");
        };
        let mut user = Vec::new();
        write_user(aor.user(), &mut user);
        let texts = Texts::new(&TextParts {
            contact,
            routes: &route_set(message),
            local: message.to().uri.as_bytes(),
            remote: message.from().uri.as_bytes(),
            remote_tag: message.from().tag().unwrap_or_default(),
            call_id: message.call_id(),
            id: event.id.unwrap_or_default(),
            user: &user,
        });
        let Some(texts) = texts else {
            env.counters.subscriptions_refused += 1;
            return env.refuse_plainly(request, 513, "Message Too Large");
        };
        let presentity = self.presentities.find_or_add(aor, parts.table, env.cx.now);
        let Some(reserved) = self.admit(env, request, &watcher, presentity) else {
            return self.presentities.settle(presentity);
        };
        let (now, flow) = (env.cx.now, reply_flow(message.via(), request.flow));
        let expires = now + Duration::from_secs(u64::from(lifetime_s));
        let key = self.subscriptions.insert(Subscription {
            package: event.package,
            presentity,
            watcher: watcher.as_bytes().into(),
            texts,
            tag: tag_number,
            remote_cseq: message.cseq().number,
            cseq: 0,
            version: 0,
            flow,
            is_sips: request.uri.scheme() == Scheme::Sips,
            expires,
            timer: TimerKey::NONE,
            delivery: Delivery::Idle,
            is_changed: true,
            not_before: now,
            notified_at: now,
            // RFC 6665 §4.4.3: a query of the present state.
            end: (lifetime_s == 0).then_some(End::Timeout),
            reserved,
        });
        if let Some(user) = self.presentities.get_mut(presentity) {
            user.subscriptions.push(key);
        }
        env.counters.subscriptions += 1;
        if event.package == Package::Dialog {
            env.tables.change_dialog_states((), |states| states.watch(aor));
            self.look_at_calls(env, presentity);
        }
        env.cx.out.keep(&flow, expires);
        self.confirm(env, request, key);
        self.notify(env, parts, key);
    }

    /// Refreshes or ends a subscription.
    fn refresh(
        &mut self,
        env: &mut Env<'_>,
        parts: &mut Parts<'_>,
        request: &Request<'_, '_>,
        event: &Event<'_>,
    ) {
        let message = request.message;
        let Some(key) = self.find(message, event) else {
            return env.refuse_plainly(request, 481, "Subscription Does Not Exist");
        };
        let watcher = proven_sender(env, request);
        let Some(subscription) = self.subscriptions.get(key) else { return };
        if watcher.is_none_or(|watcher| watcher.as_bytes() != &*subscription.watcher) {
            env.counters.watchers_refused += 1;
            return env.refuse_plainly(request, 403, "Not Your Subscription");
        }
        let cseq = message.cseq().number;
        if cseq == subscription.remote_cseq {
            // A retransmission.
            return self.confirm(env, request, key);
        }
        if cseq < subscription.remote_cseq {
            return env.refuse_plainly(request, 500, "CSeq Out Of Order");
        }
        if subscription.end.is_some() {
            return env.refuse_plainly(request, 481, "Subscription Does Not Exist");
        }
        let Some(lifetime_s) = self.check(env, request, event) else { return };
        let (now, flow) = (env.cx.now, reply_flow(message.via(), request.flow));
        self.subscriptions.set_flow(key, flow);
        let Some(subscription) = self.subscriptions.get_mut(key) else { return };
        subscription.remote_cseq = cseq;
        if let Some(contact) = only_contact(message) {
            // The target is refreshed; one that is too long leaves the earlier one.
            let parts = TextParts { contact, ..subscription.texts.parts() };
            if let Some(texts) = Texts::new(&parts) {
                subscription.texts = texts;
            }
        }
        subscription.expires = now + Duration::from_secs(u64::from(lifetime_s));
        subscription.end = (lifetime_s == 0).then_some(End::Timeout);
        subscription.is_changed = true;
        subscription.not_before = now;
        env.cx.out.keep(&flow, subscription.expires);
        self.confirm(env, request, key);
        self.notify(env, parts, key);
    }

    /// Subscription of the dialog that the request is in.
    fn find(&self, message: &Message<'_>, event: &Event<'_>) -> Option<SlabKey> {
        let key = self.subscriptions.of_tag(read_hex(message.to().tag()?)?)?;
        let subscription = self.subscriptions.get(key)?;
        let is_it =
            subscription.is_dialog(message.call_id(), message.from().tag()) && subscription.is_event(event);
        is_it.then_some(key)
    }

    /// Checks what a first and a later SUBSCRIBE have in common, and returns the lifetime; `None` if the request was
    /// answered.
    fn check(&self, env: &mut Env<'_>, request: &Request<'_, '_>, event: &Event<'_>) -> Option<u32> {
        if request.message.has(HeaderName::Require) {
            env.refuse_extensions(request, HeaderName::Require);
            return None;
        }
        if !event.package.is_accepted_by(request.message) {
            env.counters.refused += 1;
            env.refuse(request, 406, "Not Acceptable", |response| {
                response.header(HeaderName::Accept, event.package.content_type().as_bytes());
            });
            return None;
        }
        lifetime_of(env, request)
    }

    /// Reserves the memory of a subscription within the limits; `None` if the request was refused.
    fn admit(
        &self,
        env: &mut Env<'_>,
        request: &Request<'_, '_>,
        watcher: &Aor,
        presentity: SlabKey,
    ) -> Option<(core::net::IpAddr, usize)> {
        let is_too_many = self.presentities.get(presentity).is_some_and(|user| {
            // Others cannot keep a user from its own state, and few of them cannot keep the rest from it.
            let is_of_watcher = |key: &&SlabKey| {
                self.subscriptions.get(**key).is_some_and(|other| *other.watcher == *watcher.as_bytes())
            };
            user.aor != *watcher
                && (user.subscriptions.len() >= OF_USER_MAX
                    || user.subscriptions.iter().filter(is_of_watcher).count() >= OF_PAIR_MAX)
        });
        if self.subscriptions.count_of(watcher.as_bytes()) >= OF_WATCHER_MAX || is_too_many {
            env.counters.subscriptions_refused += 1;
            env.refuse_plainly(request, 403, "Too Many Subscriptions");
            return None;
        }
        if self.subscriptions.len() >= SUBSCRIPTIONS_MAX {
            env.counters.subscriptions_refused += 1;
            refuse_for_now(env, request, "Too Many Subscriptions");
            return None;
        }
        reserve(env, request, Subscription::BYTES_MAX)
    }

    /// Answers 200.
    fn confirm(&self, env: &mut Env<'_>, request: &Request<'_, '_>, key: SlabKey) {
        let Some(subscription) = self.subscriptions.get(key) else { return };
        let host = env.config.sent_by(request.flow.listener, request.flow.remote.ip());
        let left_s = seconds_left(subscription, env.cx.now);
        env.reply(request, 200, "OK", |response| {
            response.copy(request.message, HeaderName::RecordRoute);
            response.header_with(HeaderName::Contact, |out| subscription.write_contact(host, out));
            response.header_number(HeaderName::Expires, left_s);
            response.header(HeaderName::AllowEvents, ALLOW_EVENTS);
        });
    }
}

fn seconds_left(subscription: &Subscription, now: Instant) -> u64 {
    match subscription.end {
        Some(End::Timeout | End::NoResource) => 0,
        None => seconds_of(subscription.expires.since(now)),
    }
}

/// True if `watcher` may see this state of the user `aor`.
fn may_watch(policy: Watchers, watcher: &Aor, aor: &Aor, event: &Event<'_>) -> bool {
    let is_itself = watcher == aor;
    match policy {
        _ if !Defence::Watchers.is_on() => true,
        _ if event.package.is_private() => is_itself,
        Watchers::Oneself => is_itself,
        Watchers::Domain => watcher.domain() == aor.domain(),
    }
}

/// Record-Route of a request as one list: its order is that of the notifier's route set (RFC 3261 §12.1.1).
fn route_set(message: &Message<'_>) -> Vec<u8> {
    let mut routes = Vec::new();
    for route in message.values(HeaderName::RecordRoute) {
        if !routes.is_empty() {
            routes.extend_from_slice(b", ");
        }
        routes.extend_from_slice(route);
    }
    routes
}

/// URI of the only Contact.
fn only_contact<'a>(message: &Message<'a>) -> Option<&'a [u8]> {
    let mut values = message.values(HeaderName::Contact);
    let (first, None) = (values.next()?, values.next()) else { return None };
    let uri = Contact::parse(first).ok()?.address.uri;
    uri.is_sip().then_some(uri.as_bytes())
}

/// Maximum number of subscriptions of a watcher in a shard.
const OF_WATCHER_MAX: usize = 100;
/// Maximum number of subscriptions to a user, beside its own.
const OF_USER_MAX: usize = 250;
/// Maximum number of subscriptions of another watcher to a user.
const OF_PAIR_MAX: usize = 10;
/// Maximum number of subscriptions of a shard.
pub(crate) const SUBSCRIPTIONS_MAX: usize = 20_000;
