//! What is done with a request: the order of RFC 3261 §16.3 to §16.5, then the method.

use crate::auth::{Access, Facts, Grant, LiveMark, Outcome, Verifier, decide};
use crate::reply::write_unfolded;
use crate::route::{Hop, Routed, hop_of, own_vias, preprocess};
use crate::server::{Request, request_mark};
use crate::token::{Mark, Place, Side};
use crate::{Action, Aor, Authenticated, LoginRefusal, Mode, Server, Services};
use core::time::Duration;
use ringway_sansio::{Context, Flow, Instant};
use ringway_sip::digest::Challenge;
use ringway_sip::{HeaderName, Limits, Message, Method, ResponseWriter, Scheme, Uri};
use ringway_transaction::Incoming;

/// Who sends, and to whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parties {
    /// From is in a domain of ours.
    from_us: bool,
    /// The request is for a domain of ours.
    to_us: bool,
}

impl<S: Services> Server<S> {
    /// A well-formed request.
    pub(crate) fn on_request(
        &mut self,
        cx: &mut Context<'_, Action>,
        message: &Message<'_>,
        method: Method<'_>,
        uri: Uri<'_>,
        flow: Flow,
    ) {
        if let Some(reason) = self.refuses
            && message.to().tag().is_none()
            && !matches!(method, Method::Ack | Method::Cancel)
        {
            let request = Request { message, method, uri, flow, key: None, grant: Grant::UNKNOWN };
            return self.refuse_new(cx, &request, reason);
        }
        // The usual REGISTER needs none of what follows: it has no transaction, no Route and no next hop.
        if method == Method::Register && self.is_for_registrar(message, &uri) {
            return self
                .on_register(cx, &Request { message, method, uri, flow, key: None, grant: Grant::UNKNOWN });
        }
        let key = match self.transactions.receive_request(cx, message) {
            Incoming::Absorbed => return,
            Incoming::New(key) => key,
            // The ACK of a 2xx goes end to end, also when a caller sends it with the branch of its INVITE.
            Incoming::AckOfSuccess(_) => self.transactions.key_of(message),
        };
        let request = Request { message, method, uri, flow, key: Some(key), grant: Grant::UNKNOWN };
        if method == Method::Ack && self.acknowledges_us(message, key) {
            return;
        }
        if !self.is_reasonable(cx, &request, &uri) {
            return;
        }
        let Ok(routed) = preprocess(&self.config, &self.keys.route, message, uri) else {
            return self.refuse_plainly(cx, &request, 400, "Bad Route");
        };
        if routed.from_last_route && !self.is_reasonable(cx, &request, &routed.uri) {
            return;
        }
        if method == Method::Cancel {
            return self.on_cancel(cx, &request, &routed);
        }
        let parties = self.parties(&request, &routed);
        let to_us = parties.to_us;
        if method == Method::Register && to_us {
            return self.on_register(cx, &request);
        }
        if method == Method::Options && to_us && routed.uri.user().is_none() {
            return self.on_options(cx, &request);
        }
        if message.as_bytes().len() > FORWARDED_BYTES_MAX {
            return self.refuse_plainly(cx, &request, 513, "Message Too Large");
        }
        if message.max_forwards() == Some(0) {
            return self.refuse_plainly(cx, &request, 483, "Too Many Hops");
        }
        if self.is_loop(&request, &routed) {
            return self.refuse_plainly(cx, &request, 482, "Loop Detected");
        }
        if message.has(HeaderName::ProxyRequire) {
            return self.refuse_extensions(cx, &request, HeaderName::ProxyRequire);
        }
        let Some(grant) = self.accept_caller(cx, &request, &routed, parties) else { return };
        let request = Request { grant, ..request };
        self.observe_accepted(cx.now, &request);
        match (self.config.mode, to_us) {
            (Mode::Redirect, true) => self.redirect(cx, &request, &routed),
            (Mode::Redirect, false) => self.refuse_plainly(cx, &request, 404, "Not Found"),
            (Mode::Proxy, _) => self.proxy(cx, &request, &routed),
        }
    }

    /// Nothing new is begun now, but repetitions of what is under way are still known.
    fn refuse_new(&mut self, cx: &mut Context<'_, Action>, request: &Request<'_, '_>, reason: &str) {
        if let Incoming::New(_) = self.transactions.receive_request(cx, request.message) {
            self.counters.refused += 1;
            self.reply(cx, request, 503, reason, |response| {
                response.header_number(HeaderName::RetryAfter, 5);
            });
        }
    }

    /// A REGISTER for one of our domains that goes no further.
    fn is_for_registrar(&self, message: &Message<'_>, uri: &Uri<'_>) -> bool {
        uri.scheme() == Scheme::Sip
            && uri.headers().is_empty()
            && !message.has(HeaderName::Route)
            && self.config.domain_of(uri).is_some()
    }

    /// RFC 3261 §16.3: what can be answered without knowing who asks.
    fn is_reasonable(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        uri: &Uri<'_>,
    ) -> bool {
        match uri.scheme() {
            Scheme::Sip => {}
            // RFC 3261 §16.3 step 2. A SIPS request needs TLS on every hop, which this server does not speak.
            Scheme::Sips | Scheme::Tel | Scheme::Other => {
                self.refuse_plainly(cx, request, 416, "Unsupported URI Scheme");
                return false;
            }
        }
        // RFC 3261 §19.1.1 table 1: no headers in a Request-URI. They would be a way to have other headers sent.
        if !uri.headers().is_empty() {
            self.refuse_plainly(cx, request, 400, "Headers In Request-URI");
            return false;
        }
        true
    }

    /// RFC 3261 §16.3 step 4: a Via of ours says this very request was here before.
    fn is_loop(&self, request: &Request<'_, '_>, routed: &Routed<'_>) -> bool {
        let message = request.message;
        // The only Via of a request is its client's.
        if message.has_one_via() {
            return false;
        }
        let mut expected = None;
        own_vias(&self.config, message).any(|via| {
            let branch = via.branch.unwrap_or_default();
            let at = memchr::memmem::rfind(branch, crate::proxy::LOOP_MARK).unwrap_or(0);
            let mark = branch.get(at + crate::proxy::LOOP_MARK.len()..);
            let expected = *expected.get_or_insert_with(|| {
                ringway_sip::hex16(crate::route::loop_hash(&self.config, &self.keys.looped, message, routed))
            });
            mark == Some(expected.as_slice())
        })
    }

    /// 420 with what is not understood (RFC 3261 §8.2.2.3, §16.3 step 5). This server understands no extension that must
    /// be required. Towards an address that is not verified only as many are listed as the request has bytes for, so that the
    /// response stays within its allowance.
    pub(crate) fn refuse_extensions(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        name: HeaderName,
    ) {
        let message = request.message;
        self.counters.refused += 1;
        let mut room = if request.is_verified() { usize::MAX } else { message.as_bytes().len() };
        self.refuse(cx, request, 420, "Bad Extension", |response| {
            for value in message.values(name).take(UNSUPPORTED_MAX) {
                let bytes = b"Unsupported: \r\n".len() + value.len();
                let Some(left) = room.checked_sub(bytes) else { break };
                room = left;
                response.header_with(HeaderName::Unsupported, |out| write_unfolded(value, out));
            }
        });
    }

    /// Applies the access rules. `None` when the request was answered, or dropped.
    pub(crate) fn accept_caller(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
        parties: Parties,
    ) -> Option<Grant> {
        let mark = self.live_mark(cx.now, request, routed);
        let facts = Facts {
            method: request.method,
            from_us: parties.from_us,
            to_us: parties.to_us,
            mark,
            is_trusted: self.config.is_trusted(request.flow.remote.ip()),
            asks_passwords: self.config.auth.enabled,
            asks_in_dialog: self.config.auth.in_dialog,
            strangers: self.config.auth.strangers,
        };
        match decide(&facts) {
            Access::Forward(grant) => Some(grant),
            Access::Challenge(grant) if parties.from_us => {
                self.authenticate_caller(cx, request).then_some(grant)
            }
            Access::Challenge(grant) => {
                self.counters.strangers_refused += 1;
                let domain = self.config.domain_of(&routed.uri).map(alloc::borrow::ToOwned::to_owned);
                let domain = domain.unwrap_or_default();
                self.authenticate(cx, request, HeaderName::ProxyAuthorization, domain.as_bytes())
                    .map(|_| grant)
            }
            Access::Refuse(status, phrase) => {
                self.refuse_plainly(cx, request, status, phrase);
                None
            }
            Access::Drop => {
                self.counters.stray += 1;
                None
            }
        }
    }

    pub(crate) fn parties(&self, request: &Request<'_, '_>, routed: &Routed<'_>) -> Parties {
        Parties {
            from_us: self.config.is_claimed_by(&request.message.from().uri),
            to_us: routed.next_route.is_none() && self.config.domain_of(&routed.uri).is_some(),
        }
    }

    /// The mark of the request's Route, unless it is too old.
    fn live_mark(&self, now: Instant, request: &Request<'_, '_>, routed: &Routed<'_>) -> Option<LiveMark> {
        let mark = routed.mark?;
        let lifetime = self.config.dialog_lifetime;
        match mark {
            Mark::Accepted { .. } => {
                mark.is_younger_than(now, ACCEPTED_LIFETIME).then_some(LiveMark::Accepted)
            }
            Mark::Dialog { to, id, made_s, .. } => {
                let is_in_dialog = request.message.to().tag().is_some();
                let is_live =
                    mark.is_younger_than(now, lifetime) || self.services.is_dialog_extended(now, id);
                if !is_in_dialog || !is_live {
                    return None;
                }
                // Connections are numbered from the start on: a number of before names another one now.
                let to = match to {
                    Side::Connection(_, place) if made_s < self.started_s => Side::Contact(place),
                    other => other,
                };
                let leads_there = self.leads_to(to, routed);
                let is_refresh = matches!(
                    request.method,
                    Method::Invite | Method::Update | Method::Subscribe | Method::Notify
                );
                if leads_there && is_refresh && !mark.is_younger_than(now, lifetime / 2) {
                    self.services.extend_dialog(now, id, now + lifetime);
                }
                Some(LiveMark::Dialog { to, leads_there })
            }
        }
    }

    /// True when a request goes to this side of its dialog; a host name's address is compared once it is resolved.
    fn leads_to(&self, side: Side, routed: &Routed<'_>) -> bool {
        match (side, hop_of(&self.config, routed.next_route.as_ref().unwrap_or(&routed.uri))) {
            (Side::Address(..) | Side::Connection(..), _) | (Side::Contact(_), Hop::Name { .. }) => true,
            (Side::Named { name, .. }, Hop::Name { host, port, transport }) => {
                Place::of_name(&self.keys.route, transport, host, port) == name
            }
            (Side::Contact(place) | Side::Named { contact: place, .. }, Hop::Flow(flow)) => {
                Place::of_flow(&self.keys.route, &flow) == place
            }
            (Side::Contact(_) | Side::Named { .. }, Hop::Unreachable) => false,
        }
    }

    /// Asks for the password of the user in From with 407 (RFC 3261 §22.3); as a redirect server too, so that what a caller
    /// does not depend on what is done with its request.
    fn authenticate_caller(&mut self, cx: &mut Context<'_, Action>, request: &Request<'_, '_>) -> bool {
        let message = request.message;
        let mut from = Aor::default();
        if !self.config.read_aor(&message.from().uri, &mut from) {
            self.refuse_plainly(cx, request, 403, "Caller Has No Name");
            return false;
        }
        match self.authenticate(cx, request, HeaderName::ProxyAuthorization, from.domain()) {
            Some(user) if user == from.user() => true,
            Some(user) => {
                self.refused_login(cx.now, request, &user, LoginRefusal::NotItsAddress);
                self.refuse_plainly(cx, request, 403, "Not Your Address");
                false
            }
            None => false,
        }
    }

    /// The user whose password the request proves; `None` when it was answered instead.
    pub(crate) fn authenticate(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        header: HeaderName,
        domain: &[u8],
    ) -> Option<alloc::vec::Vec<u8>> {
        let mark = || request_mark(&self.keys.request, cx.now, request.message, &request.flow);
        let verifier = Verifier {
            now: cx.now,
            config: &self.config,
            services: &self.services,
            nonces: &self.nonces,
            domain,
            source: request.flow.remote.ip(),
        };
        match verifier.verify(request.message, &request.uri, header, mark) {
            Outcome::Proven { user, names_server } => {
                self.counters.authenticated += 1;
                self.counters.digest_uri_server += u64::from(names_server);
                return Some(user);
            }
            Outcome::Challenge { is_stale } => {
                if !is_stale {
                    self.observe_unusable_digest(cx.now, request, header, domain);
                }
                self.challenge(cx, request, header, is_stale);
            }
            Outcome::Wrong { user } => {
                self.counters.wrong_passwords += 1;
                let reason = match self.services.is_known(&user, domain) {
                    true => LoginRefusal::WrongPassword,
                    false => LoginRefusal::UnknownUser,
                };
                self.refused_login(cx.now, request, &user, reason);
                self.challenge(cx, request, header, false);
            }
            Outcome::Slowed { user } => {
                self.counters.slowed_logins += 1;
                self.refused_login(cx.now, request, &user, LoginRefusal::Slowed);
                let retry = |response: &mut ResponseWriter<'_>| {
                    response.header_number(HeaderName::RetryAfter, SLOWED_RETRY_S);
                };
                self.refuse(cx, request, 503, "Too Many Wrong Passwords", retry);
            }
            Outcome::Malformed => self.refuse_plainly(cx, request, 400, "Bad Credentials Header"),
            Outcome::OtherUri => {
                self.counters.digest_uri_other += 1;
                self.refuse_plainly(cx, request, 400, "Digest URI Is Not The Request-URI");
            }
        }
        None
    }

    /// 401 or 407 with one challenge for each algorithm, in the configured order (RFC 8760 §2.4). No state is kept, but for an
    /// INVITE in a dialog.
    fn challenge(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        header: HeaderName,
        is_stale: bool,
    ) {
        self.counters.challenged += 1;
        let (status, phrase, name) = match header {
            HeaderName::ProxyAuthorization => {
                (407, "Proxy Authentication Required", HeaderName::ProxyAuthenticate)
            }
            _ => (401, "Unauthorized", HeaderName::WwwAuthenticate),
        };
        let config = alloc::sync::Arc::clone(&self.config);
        let mut nonce = core::mem::take(&mut self.record);
        nonce.clear();
        self.nonces.write(cx.now, request.flow.remote.ip(), &mut nonce);
        let add = |response: &mut ResponseWriter<'_>| {
            for algorithm in &config.auth.algorithms {
                let challenge = Challenge {
                    realm: config.auth.realm.as_bytes(),
                    nonce: &nonce,
                    algorithm: algorithm.name(),
                    is_stale,
                };
                response.header_with(name, |out| challenge.write(out));
            }
        };
        self.refuse(cx, request, status, phrase, add);
        self.record = nonce;
    }

    /// Proof that the sender of a REGISTER may change the bindings of `aor`; `None` when it was answered instead.
    pub(crate) fn prove_owner<'p>(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        aor: &'p Aor,
    ) -> Option<Authenticated<&'p Aor>> {
        if !self.config.auth.enabled {
            return Some(Authenticated::danger_everyone_is_believed(aor));
        }
        let user = self.authenticate(cx, request, HeaderName::Authorization, aor.domain())?;
        if user == aor.user() {
            return Some(Authenticated::proven_by_digest(aor));
        }
        self.refused_login(cx.now, request, &user, LoginRefusal::NotItsAddress);
        self.refuse_plainly(cx, request, 403, "Not Your Address");
        None
    }
}

/// How long a request that this server sends to itself may take; 64·T1.
const ACCEPTED_LIFETIME: Duration = Duration::from_secs(32);

/// Options that a 420 lists.
const UNSUPPORTED_MAX: usize = 100;

/// When a client whose password was not checked tries again, in seconds.
const SLOWED_RETRY_S: u64 = 10;

/// A larger request would be over the ceiling once it is forwarded, and its CANCEL and ACK could not be made from it.
const FORWARDED_BYTES_MAX: usize = Limits::MESSAGE_BYTES_CEILING - Limits::BYTES_ADDED_MAX;
