//! Pipelines: of a request transaction, route (RFC 3261 §16.3 and §16.4), access rules, method; of a response
//! transaction, proxy.

use super::Server;
use super::access::{Parties, accept_caller, is_to_emergency, may_call_emergency};
use super::admission::{opened, translated};
use super::held::{Holds, absorbs, cancels};
use super::overload::{self, ShardState};
use super::peer_control::{is_of_participant, note_control, write_controls};
use super::redirect::redirect;
use crate::base::{Env, Owner, Request, Response, Sender, Transactions, write_allow};
use crate::dialog::route::{LOOP_MARK, Routed, loop_hash, own_vias, preprocess};
use crate::location::LocationTable;
use crate::message_store::Messages;
use crate::presence::{Events, Parts};
use crate::proxy::Proxy;
use crate::registrar::DRAINING;
use crate::report::Report;
use crate::{Action, CallName, CallStep, Config, Detail, Emergency, Hold, Links, Mode, Reason};
use ringway_sansio::{Context, Defence, Flow, PeerNames, Waited};
use ringway_sip::{HeaderName, Limits, Message, Method, Scheme, Uri};
use ringway_transaction::{Answer, Incoming};

/// Components that handle an accepted request.
pub(super) struct Handlers<'s> {
    pub(super) transactions: &'s mut Transactions,
    pub(super) table: &'s LocationTable,
    pub(super) proxy: &'s mut Proxy,
    pub(super) events: &'s mut Events,
    pub(super) messages: &'s mut Messages,
}

impl Server {
    /// Handles a well-formed request.
    pub(super) fn on_request(&mut self, cx: &mut Context<'_, Action>, request: Request<'_, '_>) {
        let had = self.environment.had_features();
        if had.trunks()
            && let Some((bytes, line)) = translated(&mut self.environment.env(cx), &request)
        {
            return self.on_translated(cx, request, &bytes, line);
        }
        self.on_own_request(cx, &request);
    }

    /// Handles a request whose header fields are those that this server gave to the sides.
    #[inline]
    fn on_own_request(&mut self, cx: &mut Context<'_, Action>, request: &Request<'_, '_>) {
        let Request { message, method, uri, .. } = *request;
        let had = self.environment.had_features();
        let env = &mut self.environment.env(cx);
        if env.features.neighbours() {
            env.note_alias(request);
        }
        if !may_use_link(env, request) {
            return;
        }
        let drains = self.registrar.is_draining();
        if refuses_new_work(env, &mut self.transactions, request, self.refuses, drains) {
            return;
        }
        // The usual REGISTER needs no transaction, Route or next hop.
        if method == Method::Register && is_for_registrar(env.config, message, &uri) {
            return self.registrar.on_register(env, &mut self.authenticator, request);
        }
        let key = match self.transactions.receive_request(&mut env.cx, message) {
            // An ACK ends the retransmissions of a response.
            Incoming::Absorbed if method == Method::Ack => return,
            Incoming::Absorbed => return env.decided(request, Reason::Absorbed, Detail::None),
            Incoming::New(key) => key,
            // The ACK of a 2xx is end-to-end, even with the branch of its INVITE.
            Incoming::AckOfSuccess(_) => self.transactions.key_of(message),
        };
        let request = Request { key: Some(key), ..*request };
        let holds = had.cluster() || had.stir();
        if (holds && absorbs(env, had, &self.locating, &self.verifying, &request))
            || (method == Method::Ack && env.acknowledges_us(message, key))
        {
            return;
        }
        self.on_new_request(cx, request);
    }

    /// Handles a request that has no transaction yet.
    #[inline]
    fn on_new_request(&mut self, cx: &mut Context<'_, Action>, mut request: Request<'_, '_>) {
        let Request { message, method, uri, .. } = request;
        let had = self.environment.had_features();
        let env = &mut self.environment.env(cx);
        if !is_reasonable(env, &request, &uri) {
            return;
        }
        let Ok(mut routed) = preprocess(env.config, &env.keys.route, message, uri) else {
            return env.refuse_plainly(&request, 400, "Bad Route");
        };
        if routed.from_last_route && !is_reasonable(env, &request, &routed.uri) {
            return;
        }
        let parties @ Parties { to_us, .. } = Parties::of(env.config, &request, &routed);
        env.count_root_dots([&routed.uri, &message.from().uri]);
        if method == Method::Cancel && (env.config.stateful || env.config.mode == Mode::Redirect) {
            let key = self.transactions.key_of_cancelled(message);
            if cancels(env, had, &mut self.locating, &mut self.verifying, key, &request) {
                return;
            }
            return self.proxy.on_cancel(env, &mut self.transactions, &request);
        }
        if method == Method::Register && parties.to_us {
            return self.registrar.on_register(env, &mut self.authenticator, &request);
        }
        if method == Method::Options && parties.to_us && routed.uri.is_sip() && routed.uri.user().is_none() {
            return on_options(env, &request);
        }
        // The CANCEL of a stateless proxy takes the path of its INVITE.
        if method != Method::Cancel && !may_be_forwarded(env, &request, &routed) {
            return;
        }
        let grant = accept_caller(env, &mut self.authenticator, &request, &mut routed, parties);
        let Some(grant) = grant else { return };
        request.grant = grant;
        let is_urgent = grant.above_limits.is_some();
        if is_urgent && !may_call_emergency(env, &mut self.urgent, &request) {
            return;
        }
        let call = observe_accepted(env, &request);
        let named;
        let request = match &call {
            Some(call) => {
                named = Request { call: Some(call), ..request };
                &named
            }
            None => &request,
        };
        let mut checked = None;
        let request = match is_urgent || !env.features.stir() {
            true => Some(request),
            false => self.verifying.pass(env, request, &mut checked),
        };
        let Some(request) = request else { return };
        if to_us
            && !is_urgent
            && may_wait(env)
            && self.locating.begin(env, self.registrar.table(), request, &routed)
        {
            return;
        }
        let Self { transactions, registrar, proxy, events, messages, .. } = self;
        let handlers = Handlers { transactions, table: registrar.table(), proxy, events, messages };
        proceed(env, handlers, request, &routed, to_us);
    }

    /// Handles a request of a carrier in place of the one that came.
    fn on_translated(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: Request<'_, '_>,
        bytes: &[u8],
        line: Option<usize>,
    ) {
        let Ok(message) = &Message::parse(bytes, &Limits::STORED) else { return };
        let Request { flow, peer, key, grant, .. } = request;
        let Some(request) = Request::of(message, flow, grant) else { return };
        // The new target has no token, and To is not the one that the carrier has.
        self.on_own_request(cx, &Request { peer, key, line, ..request });
    }

    /// True for a datagram that is dropped before it is parsed: it and others wait too long, and refusing takes too much already.
    pub(super) fn drops_unparsed(
        &mut self,
        cx: &mut Context<'_, Action>,
        flow: Flow,
        bytes: &[u8],
        waited: Waited<'_>,
    ) -> bool {
        let env = &mut self.environment.env(cx);
        !bytes.starts_with(b"SIP/") && overload::drops_unparsed(env, &mut self.overload, flow, bytes, waited)
    }

    /// True for a request that is refused because of overload; `late` if it waited too long.
    #[inline]
    pub(super) fn is_refused(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        waited: Option<Waited<'_>>,
        late: Option<Waited<'_>>,
    ) -> bool {
        let is_refused = late.is_some_and(|waited| self.refuses_late(cx, request, waited));
        if self.environment.features().peer_control() {
            self.note_participant(cx, request, is_refused);
        }
        if let (None, Some(waited)) = (late, waited)
            && overload::refuses_others(cx.now, waited)
        {
            self.overload.count_admitted(cx.now, request.method);
            self.overload.shedder.count_new(&self.environment.env(cx), waited, request, false);
        }
        is_refused
    }

    /// True for a request that is refused or dropped, because it and others wait too long.
    fn refuses_late(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        waited: Waited<'_>,
    ) -> bool {
        let state = ShardState {
            transactions: &self.transactions,
            table: self.registrar.table(),
            urgent: &mut self.urgent,
            held: [self.locating.index(), self.verifying.index()],
        };
        let env = &mut self.environment.env(cx);
        let opened = opened(env, request);
        let parsed = opened.as_deref().and_then(|bytes| Message::parse(bytes, &Limits::STORED).ok());
        let inside = parsed.as_ref().and_then(|message| Request::of(message, request.flow, request.grant));
        let inside = inside.map(|inside| Request { peer: request.peer, ..inside });
        overload::refuses_late(env, &mut self.overload, state, inside.as_ref().unwrap_or(request), waited)
    }

    /// Counts a request of a server that supports overload control.
    fn note_participant(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        is_refused: bool,
    ) {
        let now = cx.now;
        if is_of_participant(&self.environment.env(cx), request) {
            self.overload.demand.count(now, is_refused);
        }
    }

    /// Notifies the subscribers to users whose contacts changed, and delivers their messages.
    pub(super) fn apply_changes(&mut self, cx: &mut Context<'_, Action>) {
        let changes = self.registrar.take_changes();
        let env = &mut self.environment.env(cx);
        if self.messages.is_active() {
            let (transactions, table) = (&mut self.transactions, self.registrar.table());
            changes.iter().for_each(|change| self.messages.on_change(env, transactions, table, change));
        }
        if self.events.is_on() {
            let parts = &mut Parts { transactions: &mut self.transactions, table: self.registrar.table() };
            self.events.on_changes(env, parts, changes.into_iter());
        }
    }

    /// Keeps the messages that no phone took.
    pub(super) fn keep_released(&mut self, cx: &mut Context<'_, Action>) {
        for released in self.proxy.take_released() {
            let env = &mut self.environment.env(cx);
            let Ok(message) = &Message::parse(&released.request, &Limits::STORED) else { continue };
            let Some(request) = Request::of(message, released.flow, released.grant) else { continue };
            self.messages.keep(env, &request, &released.candidate);
        }
    }

    /// Finishes the packets from number `first` on, which an input has caused.
    pub(super) fn end_input(&mut self, cx: &mut Context<'_, Action>, first: usize) {
        if self.environment.features().peer_control() && cx.out.len() > first {
            let control = self.overload.demand.control(cx.now);
            write_controls(&mut self.environment.env(cx), &control, first);
        }
        self.environment.counters_mut().count_sent(cx.out, first);
    }

    /// Handles a well-formed response.
    pub(super) fn on_response(
        &mut self,
        cx: &mut Context<'_, Action>,
        message: &Message<'_>,
        status: u16,
        flow: Flow,
        peer: Option<&PeerNames>,
    ) {
        let env = &mut self.environment.env(cx);
        env.counters.responses += 1;
        let mut sent_to = flow;
        let is_peer = |target: &Flow| {
            sent_to = *target;
            is_peer(env.config, target, &flow, message)
        };
        let answer = self.transactions.receive_response(&mut env.cx, message, status, is_peer);
        if env.features.peer_control() && matches!(answer, Answer::Pass { .. } | Answer::Stateless(_)) {
            note_control(env, message, &sent_to);
        }
        let mut response = Response { message, status, flow: &flow, sent_to: None };
        match answer {
            Answer::Pass { owner: Owner::Probe(probe), .. } => {
                self.neighbours.on_response(env, probe, &response, peer);
            }
            Answer::Pass { owner: Owner::Branch(owner), .. } => {
                response.sent_to = Some(&sent_to);
                self.proxy.on_branch_response(env, &mut self.transactions, owner, &response);
            }
            Answer::Pass { owner: Owner::Notify(_), .. } if !self.events.is_on() => {}
            Answer::Pass { owner: Owner::Notify(key), .. } => {
                let parts =
                    &mut Parts { transactions: &mut self.transactions, table: self.registrar.table() };
                self.events.on_response(env, parts, key, &response);
            }
            Answer::Pass { owner: Owner::Registration(id), .. } => {
                self.registrations.on_response(env, &mut self.transactions, id, &response);
            }
            Answer::Pass { owner: Owner::Message(key), .. } => {
                self.messages.on_response(env, key, &response);
            }
            Answer::Absorbed => {}
            Answer::Stateless(branch) => {
                self.proxy.forward_stateless_response(env, &self.transactions, &response, &branch);
            }
            Answer::Elsewhere => env.counters.responses_from_elsewhere += 1,
            Answer::Stray => env.counters.stray += 1,
        }
    }
}

/// True if a registration that is missing here may be at another node.
pub(super) fn may_wait(env: &Env<'_>) -> bool {
    let is_warm = || env.host.store_status().is_warm;
    env.config.cluster.is_some_and(|cluster| cluster.hold == Hold::Served || !is_warm())
}

/// Refuses a request that begins something while this server stops, for the reason given, or drains. True if it is one.
fn refuses_new_work(
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    request: &Request<'_, '_>,
    stops: Option<&'static str>,
    drains: bool,
) -> bool {
    // Usually there is no reason to look at the request.
    if stops.is_none() && !drains {
        return false;
    }
    let is_drained = |env: &Env<'_>| {
        let may_still = env.config.is_link(&request.flow) || is_to_emergency(env, request, &request.uri);
        drains && request.method != Method::Register && !may_still
    };
    let (phrase, reason) = match stops {
        _ if !is_new_work(request) => return false,
        Some(reason) => (reason, Reason::Stopping),
        None if is_drained(env) => (DRAINING, Reason::Draining),
        None => return false,
    };
    // Retransmissions of pending requests are still matched.
    if let Incoming::New(_) = transactions.receive_request(&mut env.cx, request.message) {
        refuse_new(env, request, phrase, reason);
    }
    true
}

/// True for a request that begins something.
fn is_new_work(request: &Request<'_, '_>) -> bool {
    request.message.to().tag().is_none() && !matches!(request.method, Method::Ack | Method::Cancel)
}

/// Handles an accepted request.
pub(super) fn proceed(
    env: &mut Env<'_>,
    handlers: Handlers<'_>,
    request: &Request<'_, '_>,
    routed: &Routed<'_>,
    to_us: bool,
) {
    let Handlers { transactions, table, proxy, events, messages } = handlers;
    if env.features.presence() {
        let parts = &mut Parts { transactions, table };
        if events.on_request(env, parts, request, routed) {
            return;
        }
    }
    match (env.config.mode, to_us) {
        (Mode::Redirect, true) => redirect(env, table, request, routed),
        (Mode::Redirect, false) => env.refuse_plainly(request, 404, "Not Found"),
        (Mode::Proxy, _) => {
            let candidate = match request.method {
                Method::Message => messages.candidate(env, table, request, routed),
                _ => None,
            };
            if let Some(candidate) = &candidate
                && messages.answer_repeated(env, request, candidate)
            {
                return;
            }
            let absent = proxy.forward(env, transactions, table, request, routed, candidate);
            if let Some(candidate) = absent {
                messages.keep(env, request, &candidate);
            }
        }
    }
}

fn refuse_new(env: &mut Env<'_>, request: &Request<'_, '_>, phrase: &str, reason: Reason) {
    env.report(request, Report::NotReady { phrase, reason });
    env.reply(request, 503, phrase, |response| {
        response.header_number(HeaderName::RetryAfter, 5);
    });
}

/// True unless a request came over a link, and not from a node, or registers a phone. False if the request was answered.
fn may_use_link(env: &mut Env<'_>, request: &Request<'_, '_>) -> bool {
    if !env.config.is_link(&request.flow) {
        return true;
    }
    let is_node =
        request.peer.is_some_and(|peer| Links::is_node(peer, env.cx.now)) || !Defence::LinkPeer.is_on();
    let may = is_node && request.method != Method::Register;
    if !may && request.method != Method::Ack {
        env.refuse_plainly(request, 403, "For Nodes Only");
    }
    may
}

/// True for a REGISTER that this registrar handles.
fn is_for_registrar(config: &Config, message: &Message<'_>, uri: &Uri<'_>) -> bool {
    matches!(uri.scheme(), Scheme::Sip | Scheme::Sips)
        && uri.headers().is_empty()
        && !message.has(HeaderName::Route)
        && config.domain_of(uri).is_some()
}

/// Checks the scheme and the headers of a URI (RFC 3261 §16.3). False if the request was answered.
fn is_reasonable(env: &mut Env<'_>, request: &Request<'_, '_>, uri: &Uri<'_>) -> bool {
    match uri.scheme() {
        Scheme::Sip => {}
        Scheme::Tel if env.config.trunking.reads_tel() && request.method != Method::Register => {}
        // RFC 3261 §26.2.2: TLS on every hop, and so on the one to this server.
        Scheme::Sips if request.flow.transport.carries_sips() => {}
        Scheme::Sips
            if env.config.listeners_in_use().any(|(_, listener)| listener.transport.carries_sips()) =>
        {
            env.refuse_plainly(request, 403, "SIPS Needs TLS On Every Hop");
            return false;
        }
        Scheme::Other
            if env.features.emergency()
                && matches!(request.method, Method::Invite | Method::Ack | Method::Cancel)
                && Emergency::is_service(uri) => {}
        // RFC 3261 §16.3 step 2.
        Scheme::Sips | Scheme::Tel | Scheme::Other => {
            env.refuse_plainly(request, 416, "Unsupported URI Scheme");
            return false;
        }
    }
    // RFC 3261 §19.1.1 table 1: no headers in a Request-URI. A client could inject header fields with them.
    if !uri.headers().is_empty() && Defence::UriHeaders.is_on() {
        env.refuse_plainly(request, 400, "Headers In Request-URI");
        return false;
    }
    true
}

/// Checks length, Max-Forwards, loops and Proxy-Require (RFC 3261 §16.3 steps 3 to 5). False if the request was answered.
fn may_be_forwarded(env: &mut Env<'_>, request: &Request<'_, '_>, routed: &Routed<'_>) -> bool {
    let message = request.message;
    if message.as_bytes().len() > FORWARDED_BYTES_MAX {
        env.refuse_plainly(request, 513, "Message Too Large");
    } else if message.max_forwards() == Some(0) {
        env.refuse_plainly(request, 483, "Too Many Hops");
    } else if Defence::Loops.is_on() && is_loop(env, message, routed) {
        env.refuse_plainly(request, 482, "Loop Detected");
    } else if message.has(HeaderName::ProxyRequire) {
        env.refuse_extensions(request, HeaderName::ProxyRequire);
    } else {
        return true;
    }
    false
}

/// True if a Via of ours shows that this request was forwarded here before (RFC 3261 §16.3 step 4).
fn is_loop(env: &Env<'_>, message: &Message<'_>, routed: &Routed<'_>) -> bool {
    // The only Via of a request is its client's.
    if message.has_one_via() {
        return false;
    }
    let mut expected = None;
    own_vias(env.config, message).any(|via| {
        let branch = via.branch.unwrap_or_default();
        let at = memchr::memmem::rfind(branch, LOOP_MARK).unwrap_or(0);
        let mark = branch.get(at + LOOP_MARK.len()..);
        let expected = *expected.get_or_insert_with(|| {
            ringway_sip::hex16(loop_hash(env.config, &env.keys.looped, message, routed))
        });
        mark == Some(expected.as_slice())
    })
}

/// Reports why a request is accepted, and an accepted INVITE. A BYE is reported when it is answered, by a stateless proxy at once. Returns
/// the name of the call that it begins or ends, if calls are recorded.
fn observe_accepted(env: &Env<'_>, request: &Request<'_, '_>) -> Option<CallName> {
    env.decided(request, admission_of(request), Detail::None);
    match request.method {
        Method::Invite if request.message.to().tag().is_none() => env.begin_call(request),
        Method::Bye if env.config.stateful => env.name_of_bye(request),
        Method::Bye => {
            env.observe_call(request, CallStep::Bye);
            None
        }
        _ => None,
    }
}

/// Reason why a sender may have its request forwarded.
const fn admission_of(request: &Request<'_, '_>) -> Reason {
    match request.grant.sender {
        Sender::Stranger | Sender::Unknown if request.line.is_some() => Reason::AdmittedLine,
        Sender::Stranger | Sender::Unknown if request.grant.above_limits.is_some() => {
            Reason::AdmittedEmergency
        }
        Sender::Proven | Sender::ProvenUnnamed => Reason::AdmittedUser,
        Sender::Trusted => Reason::AdmittedTrusted,
        Sender::Believed => Reason::AdmittedUnchecked,
        Sender::InDialog => Reason::AdmittedInDialog,
        Sender::Stranger | Sender::Unknown => Reason::AdmittedStranger,
    }
}

/// True if a response came from the next hop of its request: on the same connection or association, or by UDP from the same address and,
/// if the peer sets `rport`, the same port (RFC 3581 §4: it then answers from the port that received). Proxies in `[auth]
/// trusted` may answer for each other.
fn is_peer(config: &Config, target: &Flow, source: &Flow, message: &Message<'_>) -> bool {
    if target.transport == source.transport {
        let is_same = match (target.transport.has_connections(), target.connection) {
            (false, _) => {
                let fills_rport = message.via().rport().is_some();
                config.is_same_host(target.remote.ip(), source.remote.ip())
                    && (!fills_rport || target.remote.port() == source.remote.port())
            }
            (true, Some(connection)) => source.connection == Some(connection),
            (true, None) => target.remote == source.remote,
        };
        if is_same {
            return true;
        }
    }
    config.is_trusted(target.remote.ip()) && config.is_trusted(source.remote.ip())
}

/// A larger request would exceed the limit after forwarding, so that its CANCEL and ACK could not be generated from it.
const FORWARDED_BYTES_MAX: usize = Limits::MESSAGE_BYTES_CEILING - Limits::BYTES_ADDED_MAX;

/// Answers with the capabilities of this server.
pub(crate) fn on_options(env: &mut Env<'_>, request: &Request<'_, '_>) {
    if request.message.has(HeaderName::Require) {
        return env.refuse_extensions(request, HeaderName::Require);
    }
    env.reply(request, 200, "OK", |response| {
        response.header_with(HeaderName::Allow, write_allow);
        response.header(HeaderName::Accept, b"application/sdp");
        // RFC 3261 §20.35: without a version, which would tell an attacker which weaknesses to try.
        response.header(HeaderName::Server, b"Ringway");
    });
}
