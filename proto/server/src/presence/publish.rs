//! PUBLISH (RFC 3903), and message summaries of trusted voicemail systems.

use super::package::{EventHeader, PUBLISHED_EVENTS, Package};
use super::presentity::Publication;
use super::{Due, Events, Parts, lifetime_of, refuse_event, refuse_for_now, reserve};
use crate::base::{Env, Request};
use crate::dialog::route::Routed;
use crate::policy::proven_sender;
use crate::{Aor, Payer};
use alloc::boxed::Box;
use core::net::IpAddr;
use core::time::Duration;
use ringway_sansio::{Defence, Instant};
use ringway_sip::{HeaderName, hex16, read_hex};
use ringway_transaction::{SlabKey, to_tag};

/// Publication that a request names with SIP-If-Match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Matched {
    /// The request begins a publication.
    None,
    /// An existing one.
    Tag(u64),
    /// The tag that this very request made: a retransmission.
    Repeated,
}

/// Publication that a request makes.
#[derive(Clone, Copy)]
struct NewPublication {
    package: Package,
    etag: u64,
    lifetime_s: u32,
}

impl Events {
    /// Handles a PUBLISH for a user of this server; false: it is to be forwarded.
    pub(super) fn on_publish(
        &mut self,
        env: &mut Env<'_>,
        parts: &mut Parts<'_>,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
    ) -> bool {
        let mut aor = Aor::default();
        if !env.config.read_aor(&routed.uri, &mut aor) {
            return false;
        }
        match EventHeader::of(request.message) {
            EventHeader::Served(event) if event.package.is_published() => {
                self.publish(env, parts, request, event.package, &aor);
            }
            EventHeader::Served(_) | EventHeader::Other | EventHeader::Absent => {
                refuse_event(env, request, PUBLISHED_EVENTS);
            }
        }
        true
    }

    fn publish(
        &mut self,
        env: &mut Env<'_>,
        parts: &mut Parts<'_>,
        request: &Request<'_, '_>,
        package: Package,
        aor: &Aor,
    ) {
        let message = request.message;
        if proven_sender(env, request).is_none_or(|sender| sender != *aor && Defence::OwnPresence.is_on()) {
            return env.refuse_plainly(request, 403, "Not Your Address");
        }
        if message.has(HeaderName::Require) {
            return env.refuse_extensions(request, HeaderName::Require);
        }
        let Some(lifetime_s) = lifetime_of(env, request) else { return };
        let etag = read_hex(&to_tag(&env.keys.event, message)).unwrap_or_default();
        let body = message.body();
        let Some(matched) = self.matched(request, package, aor, etag) else {
            return env.refuse_plainly(request, 412, "Conditional Request Failed");
        };
        if matched == Matched::None && body.is_empty() {
            return env.refuse_plainly(request, 400, "No Document");
        }
        if !body.is_empty() && !is_usable(env, request, package) {
            return;
        }
        if matched == Matched::Repeated {
            return confirm(env, request, etag, lifetime_s);
        }
        let new = NewPublication { package, etag, lifetime_s };
        if let Matched::Tag(earlier) = matched
            && body.is_empty()
            && lifetime_s > 0
        {
            return self.extend(env, request, aor, earlier, new);
        }
        let now = env.cx.now;
        let key = self.presentities.find_or_add(aor, parts.table, now);
        if lifetime_s > 0 && !self.store(env, request, key, matched, new) {
            return self.presentities.settle(key);
        }
        if let Matched::Tag(earlier) = matched {
            self.drop_publication(key, earlier);
        }
        self.presentities.settle(key);
        confirm(env, request, etag, lifetime_s);
        self.note_change(now, key, package);
        self.on_timeout(env, parts);
    }

    /// Refreshes a publication (RFC 3903 §4.1). The document of the package that watchers get is the same before and after.
    fn extend(
        &mut self,
        env: &mut Env<'_>,
        request: &Request<'_, '_>,
        aor: &Aor,
        earlier: u64,
        new: NewPublication,
    ) {
        let NewPublication { package, etag, lifetime_s } = new;
        let Some(key) = self.presentities.find(aor.as_bytes()) else { return };
        let publication = self.presentities.get(key).and_then(|user| user.publication(earlier));
        let bytes = publication.map_or(0, |publication| publication.body.len());
        let Some(reserved) = reserve(env, request, size_of::<Publication>() + bytes) else { return };
        let expires = env.cx.now + Duration::from_secs(u64::from(lifetime_s));
        let timer = self.wheel.arm(expires, Due::Publication(key, etag));
        let later = Publication { package, etag, body: Box::default(), timer, reserved };
        if let Some(earlier) = self.presentities.refresh(key, earlier, later) {
            env.counters.publications += 1;
            self.wheel.cancel(earlier.timer);
            self.unreleased.push(earlier.reserved);
        }
        confirm(env, request, etag, lifetime_s);
    }

    /// Adds the publication of a request, with its document; false if it was refused.
    fn store(
        &mut self,
        env: &mut Env<'_>,
        request: &Request<'_, '_>,
        key: SlabKey,
        matched: Matched,
        new: NewPublication,
    ) -> bool {
        let NewPublication { package, etag, lifetime_s } = new;
        let Some(user) = self.presentities.get(key) else { return false };
        let body = request.message.body();
        let is_new = matched == Matched::None;
        if is_new && user.publications().len() >= OF_USER_MAX {
            env.counters.publications_refused += 1;
            env.refuse_plainly(request, 403, "Too Many Publications");
            return false;
        }
        if is_new && self.presentities.publications_len() >= PUBLICATIONS_MAX {
            env.counters.publications_refused += 1;
            refuse_for_now(env, request, "Too Many Publications");
            return false;
        }
        let Some(reserved) = reserve(env, request, size_of::<Publication>() + body.len()) else {
            return false;
        };
        env.counters.publications += 1;
        let expires = env.cx.now + Duration::from_secs(u64::from(lifetime_s));
        self.add(key, package, etag, body.into(), reserved, expires);
        true
    }

    fn add(
        &mut self,
        key: SlabKey,
        package: Package,
        etag: u64,
        body: Box<[u8]>,
        reserved: (IpAddr, usize),
        expires: Instant,
    ) {
        let timer = self.wheel.arm(expires, Due::Publication(key, etag));
        self.presentities.publish(key, Publication { package, etag, body, timer, reserved });
    }

    /// Publication that the request is for; `None`: it does not exist.
    fn matched(&self, request: &Request<'_, '_>, package: Package, aor: &Aor, etag: u64) -> Option<Matched> {
        let user = self.presentities.find(aor.as_bytes()).and_then(|key| self.presentities.get(key));
        let is_there = |etag| {
            user.and_then(|user| user.publication(etag))
                .is_some_and(|publication| publication.package == package)
        };
        if is_there(etag) {
            return Some(Matched::Repeated);
        }
        let Some(value) = request.message.named(b"SIP-If-Match") else { return Some(Matched::None) };
        let earlier = read_hex(value).filter(|_| value.len() == 16)?;
        is_there(earlier).then_some(Matched::Tag(earlier))
    }

    /// Keeps the message summary that a trusted system sent; false: the request is to be forwarded, to phones that did not
    /// subscribe.
    pub(super) fn on_summary(
        &mut self,
        env: &mut Env<'_>,
        parts: &mut Parts<'_>,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
    ) -> bool {
        let (message, source) = (request.message, request.flow.remote);
        let package = Package::MessageSummary;
        let is_summary =
            matches!(EventHeader::of(message), EventHeader::Served(event) if event.package == package);
        let is_trusted = env.config.trusts(&request.flow);
        let mut aor = Aor::default();
        if !is_summary
            || !is_trusted
            || message.to().tag().is_some()
            || !env.config.read_aor(&routed.uri, &mut aor)
            || !env.host.is_known(aor.user(), aor.domain())
        {
            return false;
        }
        let body = message.body();
        let (bytes, now) = (size_of::<Publication>() + body.len(), env.cx.now);
        if body.is_empty() || body.len() > BODY_BYTES_MAX || !package.is_type_of(message) {
            return false;
        }
        if self.presentities.publications_len() >= PUBLICATIONS_MAX {
            env.counters.publications_refused += 1;
            return false;
        }
        if !env.tables.reserve(Payer::Known(source.ip()), bytes) {
            env.counters.over_memory += 1;
            return false;
        }
        let key = self.presentities.find_or_add(&aor, parts.table, now);
        if let Some(earlier) = self.presentities.withdraw(key, SUMMARY_TAG) {
            self.wheel.cancel(earlier.timer);
            self.unreleased.push(earlier.reserved);
        }
        env.counters.publications += 1;
        self.add(key, package, SUMMARY_TAG, body.into(), (source.ip(), bytes), now + SUMMARY_LIFETIME);
        self.note_change(now, key, package);
        let has_phones = parts.table.lookup(aor.as_bytes(), now).next().is_some();
        if !has_phones {
            env.reply(request, 200, "OK", |_| {});
        }
        self.on_timeout(env, parts);
        !has_phones
    }
}

/// Checks type and length of a document. False if the request was answered.
fn is_usable(env: &mut Env<'_>, request: &Request<'_, '_>, package: Package) -> bool {
    if !package.is_type_of(request.message) {
        env.counters.refused += 1;
        env.refuse(request, 415, "Unsupported Media Type", |response| {
            response.header(HeaderName::Accept, package.content_type().as_bytes());
        });
        return false;
    }
    if request.message.body().len() > BODY_BYTES_MAX {
        env.counters.publications_refused += 1;
        env.refuse_plainly(request, 413, "Request Entity Too Large");
        return false;
    }
    true
}

fn confirm(env: &mut Env<'_>, request: &Request<'_, '_>, etag: u64, lifetime_s: u32) {
    env.reply(request, 200, "OK", |response| {
        response.header_named("SIP-ETag", &hex16(etag));
        response.header_number(HeaderName::Expires, u64::from(lifetime_s));
    });
}

/// Maximum number of publications of a user.
const OF_USER_MAX: usize = 8;
/// Maximum number of publications of a shard.
const PUBLICATIONS_MAX: usize = 20_000;
/// Maximum length of a document in bytes.
pub(super) const BODY_BYTES_MAX: usize = 4096;
/// Tag of the message summary, of which a user has one.
const SUMMARY_TAG: u64 = 0;
/// Lifetime of a message summary.
const SUMMARY_LIFETIME: Duration = Duration::from_secs(86_400);
