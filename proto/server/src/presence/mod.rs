//! Event packages of this server's users: SUBSCRIBE and NOTIFY (RFC 6665), PUBLISH (RFC 3903).

mod dialog;
mod documents;
mod notify;
mod package;
mod presentity;
mod publish;
mod reg;
mod subscribe;
mod subscription;
mod subscriptions;

pub(crate) use reg::ContactEnd;
pub(crate) use subscribe::SUBSCRIPTIONS_MAX;

use crate::base::{Env, Owner, Reach, Request, Transactions};
use crate::dialog::route::Routed;
use crate::location::LocationTable;
use crate::tables::SharedTables;
use crate::{Action, Aor, Config, DialogStatus, Payer};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use package::Package;
use presentity::Presentities;
use ringway_sansio::{ConnectionId, Instant, Seed, TimerKey, Wheel};
use ringway_sip::grammar::delta_seconds;
use ringway_sip::{HeaderName, Method};
use ringway_transaction::{Notice, SlabKey};
use subscription::{End, Subscription};
use subscriptions::Subscriptions;

/// Subscriptions and publications of the users of one shard.
pub(crate) struct Events {
    is_on: bool,
    subscriptions: Subscriptions,
    presentities: Presentities,
    wheel: Wheel<Due>,
    /// Time at which the bucket of NOTIFYs is full again. The NOTIFY that a SUBSCRIBE causes takes nothing of it, so that
    /// nobody empties it for others.
    full_at: Instant,
    /// Memory of dropped subscriptions and publications that is not yet released.
    unreleased: Vec<(IpAddr, usize)>,
    /// Users of subscriptions to dialogs that were dropped, and are not yet reported.
    unwatched: Vec<Aor>,
    /// Buffer for the document of a NOTIFY.
    body: Vec<u8>,
}

/// Timer.
#[derive(Clone, Copy, Debug)]
enum Due {
    Subscription(SlabKey),
    Publication(SlabKey, u64),
    /// The calls of a user are looked at.
    Calls(SlabKey),
}

/// User whose contacts changed.
#[derive(Debug)]
pub(crate) struct ChangedUser {
    pub(crate) aor: Box<[u8]>,
    /// Cause of the end of contacts that are gone.
    pub(crate) end: ContactEnd,
    /// Call-ID of the REGISTER that changed them; empty if none did.
    pub(crate) call_id: Box<[u8]>,
}

/// Everything that the handling of an event needs beside the environment.
pub(crate) struct Parts<'p> {
    pub(crate) transactions: &'p mut Transactions,
    pub(crate) table: &'p LocationTable,
}

impl Events {
    pub(crate) fn new(config: &Config, seed: &Seed, now: Instant) -> Self {
        let seed = seed.part(EVENTS_KEY);
        Self {
            is_on: config.presence.is_on(),
            subscriptions: Subscriptions::new(&seed),
            presentities: Presentities::new(&seed),
            wheel: Wheel::new(now),
            full_at: now,
            unreleased: Vec::new(),
            unwatched: Vec::new(),
            body: Vec::new(),
        }
    }

    /// True if this server serves event packages.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        cfg!(feature = "events") && self.is_on
    }

    /// Applies a configuration. When presence is switched off everything is dropped; phones subscribe anew when it is back.
    pub(crate) fn reconfigure(
        &mut self,
        config: &Config,
        tables: &SharedTables,
        transactions: &mut Transactions,
    ) {
        if self.is_on() && !config.presence.is_on() {
            for key in self.subscriptions.keys() {
                self.drop_subscription(transactions, key);
            }
            for key in self.presentities.keys() {
                self.drop_publications(key);
            }
            // The ends of calls are not reported from now on. Only what this shard noted: another one may serve subscriptions again.
            tables.change_dialog_states((), |states| {
                self.unwatched.drain(..).for_each(|user| states.unwatch(&user));
                states.forget_unwatched();
            });
        }
        self.is_on = config.presence.is_on();
    }

    pub(crate) fn subscriptions_len(&self) -> usize {
        self.subscriptions.len()
    }

    pub(crate) const fn publications_len(&self) -> usize {
        self.presentities.publications_len()
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        match self.unreleased.is_empty() {
            true if self.is_on() => self.wheel.next_due(),
            true => None,
            false => Some(Instant::default()),
        }
    }

    /// Handles a request whose sender the access rules accept; false: it is to be forwarded, as those are that have a mark: they
    /// are part of another dialog, or this server sent them to itself.
    pub(crate) fn on_request(
        &mut self,
        env: &mut Env<'_>,
        parts: &mut Parts<'_>,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
    ) -> bool {
        let is_elsewhere = routed.next_route.is_some() || !routed.is_of_domains;
        if is_elsewhere
            || routed.mark.is_some()
            || matches!(request.grant.reach, Reach::Side(_) | Reach::User | Reach::Flow(_))
        {
            return false;
        }
        let is_handled = match request.method {
            Method::Subscribe => self.on_subscribe(env, parts, request, routed),
            Method::Publish => self.on_publish(env, parts, request, routed),
            Method::Notify => self.on_summary(env, parts, request, routed),
            _ => false,
        };
        self.release(env);
        is_handled
    }

    /// Handles a change of the contacts of users.
    pub(crate) fn on_changes(
        &mut self,
        env: &mut Env<'_>,
        parts: &mut Parts<'_>,
        changes: impl Iterator<Item = ChangedUser>,
    ) {
        for change in changes {
            let Some(key) = self.presentities.find(&change.aor) else { continue };
            let Some(user) = self.presentities.get_mut(key) else { continue };
            let changed = user.note_contacts(parts.table, change.end, env.cx.now);
            let is_published = user.latest(Package::Presence).is_some();
            if change.end == ContactEnd::UserRemoved {
                self.end_all(env.cx.now, key);
                continue;
            }
            if changed.contacts {
                self.note_change(env.cx.now, key, Package::Reg);
            }
            if changed.is_open && !is_published {
                self.note_change(env.cx.now, key, Package::Presence);
            }
        }
        self.on_timeout(env, parts);
    }

    /// Ends the subscriptions over a connection: nothing else reaches their subscribers.
    pub(crate) fn on_closed(
        &mut self,
        env: &Env<'_>,
        transactions: &mut Transactions,
        connection: ConnectionId,
    ) {
        for key in self.subscriptions.take_connection(connection) {
            self.drop_subscription(transactions, key);
        }
        self.release(env);
    }

    /// Takes the notices of failed NOTIFYs out of the list.
    pub(crate) fn take_notices(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        notices: &mut Vec<Notice<Owner>>,
    ) {
        notices.retain(|notice| {
            let (Notice::ClientTimedOut { client, owner } | Notice::ClientUnreachable { client, owner }) =
                *notice;
            let Owner::Notify(key) = owner else { return true };
            if self.subscriptions.get(key).is_some_and(|one| one.client() == Some(client)) {
                env.counters.notify_failures += 1;
                self.drop_subscription(transactions, key);
            }
            false
        });
        self.release(env);
    }

    /// Ends what has expired, and sends the NOTIFYs that are due.
    pub(crate) fn on_timeout(&mut self, env: &mut Env<'_>, parts: &mut Parts<'_>) {
        if !cfg!(feature = "events") {
            return;
        }
        while let Some(due) = self.wheel.expire(env.cx.now) {
            match due {
                Due::Subscription(key) => self.on_subscription_due(env, parts, key),
                Due::Calls(key) => self.look_at_calls(env, key),
                Due::Publication(key, etag) => {
                    let package = self.presentities.get(key).and_then(|user| user.publication(etag));
                    let package = package.map(|publication| publication.package);
                    self.drop_publication(key, etag);
                    if let Some(package) = package {
                        self.note_change(env.cx.now, key, package);
                    }
                }
            }
        }
        self.release(env);
    }

    /// Handles a change of the calls of `user@domain`.
    pub(crate) fn on_calls_changed(&mut self, env: &mut Env<'_>, parts: &mut Parts<'_>, user: &[u8]) {
        if let Some(key) = self.presentities.find(user) {
            self.look_at_calls(env, key);
            self.on_timeout(env, parts);
        }
    }

    /// Makes the subscriptions to the dialogs of a user due if its calls changed and no phone of it publishes them. While it has calls they
    /// are looked at again at the end of the first one, and in [`LOOK_INTERVAL`], in case a change was not delivered.
    fn look_at_calls(&mut self, env: &mut Env<'_>, key: SlabKey) {
        let Some(user) = self.presentities.get_mut(key) else { return };
        let (now, mut changed) = (env.cx.now, Vec::new());
        let status = env.tables.change_dialog_states(DialogStatus::default(), |states| {
            states.status(now, user.aor.as_bytes(), &mut changed)
        });
        // Calls of other users may have ended too.
        let others = changed.into_iter().filter(|other| *other != user.aor);
        env.cx.actions.extend(others.map(|user| Action::CallsChanged { user }));
        self.wheel.cancel(user.calls_timer);
        let next = status.next_end.map(|end| end.min(now + LOOK_INTERVAL));
        user.calls_timer = next.map_or(TimerKey::NONE, |at| self.wheel.arm(at, Due::Calls(key)));
        let is_new = core::mem::replace(&mut user.calls_seen, status.changed) != status.changed;
        if is_new && user.latest(Package::Dialog).is_none() {
            self.note_change(now, key, Package::Dialog);
        }
    }

    /// Makes the subscriptions to a package of a user due.
    fn note_change(&mut self, now: Instant, key: SlabKey, package: Package) {
        let Some(user) = self.presentities.get(key) else { return };
        for &subscription in &user.subscriptions {
            if let Some(one) = self.subscriptions.get_mut(subscription).filter(|one| one.package == package) {
                one.is_changed = true;
                arm(&mut self.wheel, now, subscription, one);
            }
        }
    }

    /// Ends everything of a removed user.
    fn end_all(&mut self, now: Instant, key: SlabKey) {
        let Some(user) = self.presentities.get(key) else { return };
        for &subscription in &user.subscriptions {
            if let Some(one) = self.subscriptions.get_mut(subscription).filter(|one| one.end.is_none()) {
                (one.end, one.is_changed) = (Some(End::NoResource), true);
                arm(&mut self.wheel, now, subscription, one);
            }
        }
        self.drop_publications(key);
    }

    fn drop_subscription(&mut self, transactions: &mut Transactions, key: SlabKey) {
        let Some(subscription) = self.subscriptions.remove(key) else { return };
        self.wheel.cancel(subscription.timer);
        subscription.client().into_iter().for_each(|client| transactions.drop_client(client));
        self.unreleased.push(subscription.reserved);
        let watched = self.presentities.get(subscription.presentity);
        self.unwatched
            .extend(watched.filter(|_| subscription.package == Package::Dialog).map(|user| user.aor.clone()));
        if let Some(user) = self.presentities.get_mut(subscription.presentity) {
            user.subscriptions.retain(|other| *other != key);
        }
        self.presentities.settle(subscription.presentity);
    }

    fn drop_publication(&mut self, key: SlabKey, etag: u64) {
        if let Some(publication) = self.presentities.withdraw(key, etag) {
            self.wheel.cancel(publication.timer);
            self.unreleased.push(publication.reserved);
        }
        self.presentities.settle(key);
    }

    fn drop_publications(&mut self, key: SlabKey) {
        let Some(user) = self.presentities.get(key) else { return };
        let etags: Vec<_> = user.publications().iter().map(|publication| publication.etag).collect();
        etags.into_iter().for_each(|etag| self.drop_publication(key, etag));
    }

    /// Gives back the memory of everything that was dropped, and reports the subscriptions to dialogs.
    fn release(&mut self, env: &Env<'_>) {
        if !self.unwatched.is_empty() {
            env.tables.change_dialog_states((), |states| {
                self.unwatched.drain(..).for_each(|user| states.unwatch(&user))
            });
        }
        self.unreleased.drain(..).for_each(|(source, bytes)| env.tables.release(Payer::Known(source), bytes));
    }
}

/// Longest time for which a change of a user's calls that was not delivered stays unnoticed.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);

/// Arms the timer of a subscription.
fn arm(wheel: &mut Wheel<Due>, now: Instant, key: SlabKey, subscription: &mut Subscription) {
    wheel.cancel(subscription.timer);
    if let Some(at) = subscription.due() {
        subscription.timer = wheel.arm(at.max(now), Due::Subscription(key));
    }
}

/// Requested lifetime in seconds, within the limits; `None` if it is too brief and the request was answered.
fn lifetime_of(env: &mut Env<'_>, request: &Request<'_, '_>) -> Option<u32> {
    let wanted = request.message.first(HeaderName::Expires).and_then(delta_seconds);
    let (wanted, min) = (wanted.unwrap_or(DEFAULT_EXPIRES_S), env.config.presence.min_expires_s);
    // RFC 6665 §4.2.1.1: an hour is never too brief.
    if wanted != 0 && wanted < min && wanted < 3600 {
        env.counters.refused += 1;
        env.refuse(request, 423, "Interval Too Brief", |response| {
            response.header_number(HeaderName::MinExpires, u64::from(min));
        });
        return None;
    }
    Some(wanted.min(env.config.presence.max_expires_s))
}

/// Answers 489 with the packages that are served.
fn refuse_event(env: &mut Env<'_>, request: &Request<'_, '_>, served: &[u8]) {
    env.counters.refused += 1;
    env.refuse(request, 489, "Bad Event", |response| {
        response.header(HeaderName::AllowEvents, served);
    });
}

/// Reserves memory for the client of a request; `None` if there is none and the request was answered.
fn reserve(env: &mut Env<'_>, request: &Request<'_, '_>, bytes: usize) -> Option<(IpAddr, usize)> {
    let client = request.client(env.config);
    if env.tables.reserve(Payer::Known(client), bytes) {
        return Some((client, bytes));
    }
    env.counters.over_memory += 1;
    refuse_for_now(env, request, "Out Of Memory");
    None
}

/// Answers 503 because there is no room.
fn refuse_for_now(env: &mut Env<'_>, request: &Request<'_, '_>, phrase: &str) {
    env.counters.refused += 1;
    env.refuse(request, 503, phrase, |response| {
        response.header_number(HeaderName::RetryAfter, RETRY_S);
    });
}

/// Lifetime where the request has none (RFC 3856 §6.4, RFC 3903 §4.1).
const DEFAULT_EXPIRES_S: u32 = 3600;
/// Retry-After in seconds of a 503.
const RETRY_S: u64 = 60;
/// Time of a NOTIFY in the bucket: 500 in a second.
const NOTIFY_TIME: Duration = Duration::from_millis(2);
/// Size of the bucket: 250 NOTIFYs at once.
const NOTIFY_BURST: Duration = Duration::from_millis(500);
/// Pause of a NOTIFY over the rate.
const NOTIFY_PAUSE: Duration = Duration::from_millis(100);
/// Part of a shard's seed for the hashes.
const EVENTS_KEY: u64 = 8;
