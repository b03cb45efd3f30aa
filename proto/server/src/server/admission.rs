//! Admission of datagrams before they are parsed: block list, rate of the source, what ends a call beyond it; STUN at the port of SIP.

use crate::base::{Env, Grant, Request, Transactions};
use crate::dialog::route::preprocess;
use crate::dialog::{LiveMark, live_mark};
use crate::neighbour::line::called_by_line;
use crate::policy::changed_by;
use crate::report::Report;
use crate::tables::CommonRate;
use crate::token::caller_uri::with_own_uri;
use crate::token::topology::Inside;
use crate::{Config, Counters, Detail, Emergency, Reason, SourceRates, Traffic};
use alloc::vec::Vec;
use core::net::IpAddr;
use ringway_sansio::{Flow, Instant, Seed, TableSize, Token};
use ringway_sip::{Limits, Message, Method, Rejected, Start, Uri};
use ringway_stun::write_answer;
use ringway_transaction::may_send_to;

/// Rates of a shard of what passes beyond the rate of its source.
pub(super) struct UrgentRates {
    /// Requests that end a call.
    ends: SourceRates,
    /// Requests for emergency calls.
    requests: SourceRates,
    /// The same of all sources: of datagrams, whose addresses may be forged, and over connections.
    all_requests: [CommonRate; 2],
    /// Emergency calls.
    calls: SourceRates,
}

impl UrgentRates {
    /// Memory of the rates.
    pub(super) const fn size() -> TableSize {
        SourceRates::size("sources with a rate of ends and emergency calls", SOURCES_MAX).times(3)
    }

    pub(super) fn new(seed: &Seed) -> Self {
        let rates = |per_second, part| SourceRates::of(per_second, SOURCES_MAX, &seed.part(part));
        Self {
            ends: rates(ENDS_PER_S, 0),
            requests: rates(EMERGENCY_REQUESTS_PER_S, 1),
            all_requests: [CommonRate::new(EMERGENCY_REQUESTS_PER_S_ALL); 2],
            calls: rates(EMERGENCY_CALLS_PER_S, 2),
        }
    }

    /// Fills each table by the source addresses that `each` passes.
    #[cfg(feature = "operator")]
    pub(super) fn fill(&mut self, each: impl Fn(usize, &mut dyn FnMut(Instant, IpAddr))) {
        for rates in [&mut self.ends, &mut self.requests, &mut self.calls] {
            each(SOURCES_MAX, &mut |now, source| {
                rates.admit(now, source);
            });
        }
    }

    /// False, and counted, if this source, or all together, sends too many requests for emergency calls beyond other limits.
    pub(super) fn admit_request(&mut self, counters: &mut Counters, now: Instant, flow: &Flow) -> bool {
        let [datagrams, connections] = &mut self.all_requests;
        let all = if flow.transport.has_connections() { connections } else { datagrams };
        let may = self.requests.admit(now, flow.remote.ip()) && all.admit(now);
        counters.emergencies_over_rate += u64::from(!may);
        may
    }

    /// False if this source begins too many emergency calls.
    pub(super) fn admit_call(&mut self, now: Instant, source: IpAddr) -> bool {
        self.calls.admit(now, source)
    }
}

/// Counts a request, and checks the block list and the rate of its source. False if it was dropped or answered.
pub(super) fn is_admitted(
    env: &mut Env<'_>,
    transactions: &Transactions,
    urgent: &mut UrgentRates,
    flow: Flow,
    bytes: &[u8],
) -> bool {
    env.counters.requests += 1;
    if is_source_blocked(env, &flow) {
        env.received(bytes, &flow);
        env.decided_about(bytes, Reason::SourceBlocked, Detail::None);
        if flow.transport.has_connections() {
            env.cx.out.disconnect(flow);
        }
        return false;
    }
    let (now, source) = (env.cx.now, flow.remote.ip());
    if env.tables.admit(now, source, Traffic::Requests)
        || is_of_ours(env.config, &flow)
        || (is_named(env.config, &flow) && env.tables.admit(now, source, Traffic::Named))
    {
        return true;
    }
    if may_end_a_call(bytes) && urgent.ends.admit(now, source) && ends_a_call(env, transactions, flow, bytes)
    {
        env.counters.over_rate_ends += 1;
        return true;
    }
    if env.features.emergency()
        && is_for_emergency(env.config, bytes)
        && urgent.admit_request(env.counters, now, &flow)
    {
        env.counters.over_rate_emergencies += 1;
        return true;
    }
    env.received(bytes, &flow);
    env.report_about(bytes, Report::OverRate);
    // The client of a datagram retransmits it. The client of a stream does not, and gets a response.
    if flow.transport.is_reliable()
        && let Ok(message) = Message::parse(bytes, &env.config.message_limits)
    {
        slow_down(env, transactions, &message, flow);
    }
    false
}

/// Answers 503 to a request over a stream whose source is over its rate. Its ACK, which the same source may send in time, is translated
/// before it is recognised, and in a dialog has the tag of that.
fn slow_down(env: &mut Env<'_>, transactions: &Transactions, message: &Message<'_>, flow: Flow) {
    let opened = Request::of(message, flow, Grant::UNKNOWN).and_then(|request| opened(env, &request));
    let inside = opened.as_deref().and_then(|bytes| Message::parse(bytes, &Limits::STORED).ok());
    let inside = inside.as_ref().unwrap_or(message);
    if matches!(inside.start(), Start::Request { method: Method::Invite, .. }) && inside.to().tag().is_some()
    {
        env.refused_in_dialog.push(transactions.key_of(inside));
    }
    env.slow_down(message, inside, flow);
}

/// Handles a message that the parser rejected. Over UDP anybody can send with any address: a datagram that cannot be a request gives back
/// what it took from the rate of its source, and no answer.
#[cold]
pub(super) fn on_rejected(env: &mut Env<'_>, bytes: &[u8], rejected: &Rejected<'_>, flow: Flow) {
    env.received(bytes, &flow);
    // A request has the version of SIP in its first line, and in a Via, without which it gets no answer.
    if flow.transport.is_reliable() || memchr::memmem::find(bytes, b"SIP/").is_some() {
        return env.on_rejected(bytes, rejected, flow);
    }
    env.tables.give_back(env.cx.now, flow.remote.ip());
    if let Some(count) = env.counters.rejected.get_mut(rejected.reason.index()) {
        *count += 1;
    }
    let detail = Detail::Status(rejected.reason.status(), rejected.reason.phrase());
    env.decided_about(bytes, Reason::Malformed, detail);
}

/// True for a flow of this server to itself, of another node, or through a front: its requests were admitted there.
pub(super) fn is_of_ours(config: &Config, flow: &Flow) -> bool {
    config.is_own_address(flow.remote) || config.is_link(flow) || config.is_front_or_node(flow)
}

/// True for an address that the configuration names: of a trunk, a trusted proxy or a neighbour.
fn is_named(config: &Config, flow: &Flow) -> bool {
    let ip = flow.remote.ip();
    !flow.transport.is_websocket() && (config.has_server_at(ip) || config.is_trusted(ip))
}

/// True for a sender that the configuration names, whose requests are those of many callers: a trusted proxy; a front; a trunk or a neighbour, by its
/// address, its connection, its certificate or the token of its contact.
pub(super) fn is_of_many(env: &Env<'_>, request: &Request<'_, '_>) -> bool {
    let Request { flow, peer, uri, .. } = request;
    let has_token =
        |line: &[u8]| env.config.domain_of(uri).is_some() && env.keys.lines.trunk_of(line).is_some();
    is_flow_of_many(env, flow)
        || (env.features.registers() && uri.params().value(b"line").is_some_and(has_token))
        || (peer.is_some() && env.config.servers().any(|(_, of)| of.is_identified(*peer, env.cx.now)))
}

/// True for the same by its address or connection alone.
pub(super) fn is_flow_of_many(env: &Env<'_>, flow: &Flow) -> bool {
    is_named(env.config, flow) || env.config.is_of_front(flow) || env.is_of_neighbour(flow)
}

/// True for an INVITE of an emergency call, by its first line.
pub(super) fn is_for_emergency(config: &Config, bytes: &[u8]) -> bool {
    let Some(rest) = bytes.strip_prefix(b"INVITE ") else { return false };
    let rest = rest.get(..EMERGENCY_URI_BYTES_MAX).unwrap_or(rest);
    let uri = memchr::memchr(b' ', rest).and_then(|end| Uri::parse(rest.get(..end)?).ok());
    uri.is_some_and(|uri| Emergency::number_of(config, &uri).is_some())
}

/// True for the methods of [`ends_a_call`].
fn may_end_a_call(bytes: &[u8]) -> bool {
    [b"ACK ".as_slice(), b"BYE ", b"CANCEL "].iter().any(|start| bytes.starts_with(start))
}

/// True for an ACK, BYE or CANCEL of a call that was admitted: by its transaction, or the live mark of its dialog. These
/// pass a source that is over its rate, up to [`ENDS_PER_S`].
fn ends_a_call(env: &mut Env<'_>, transactions: &Transactions, flow: Flow, bytes: &[u8]) -> bool {
    let Ok(message) = &Message::parse(bytes, &env.config.limits_of(&flow, bytes.len())) else { return false };
    let Some(request) = Request::of(message, flow, Grant::UNKNOWN) else { return false };
    let opened = opened(env, &request);
    let parsed = opened.as_deref().and_then(|bytes| Message::parse(bytes, &Limits::STORED).ok());
    let message = parsed.as_ref().unwrap_or(message);
    let Some(request) = Request::of(message, flow, Grant::UNKNOWN) else { return false };
    is_in_admitted_call(env, transactions, &request)
}

/// True for an ACK or CANCEL of a request that is under way here, and for a request of a dialog whose mark is live.
pub(super) fn is_in_admitted_call(
    env: &mut Env<'_>,
    transactions: &Transactions,
    request: &Request<'_, '_>,
) -> bool {
    let Request { message, flow, method, uri, .. } = *request;
    let is_same_hop =
        |reply: Flow| reply.transport == flow.transport && reply.remote.ip() == flow.remote.ip();
    if matches!(method, Method::Ack | Method::Cancel)
        && transactions.cancelled_by(message).is_some_and(|(_, _, reply)| is_same_hop(reply))
    {
        return true;
    }
    let Ok(routed) = preprocess(env.config, &env.keys.route, message, uri) else { return false };
    match live_mark(env, request, &routed) {
        Some(LiveMark::Dialog(mark)) => mark.reaches_side,
        Some(LiveMark::Accepted(returned)) => returned.dialog.is_some(),
        None => false,
    }
}

/// True for a source in the block list, which is counted. This server's own addresses are never blocked.
#[inline]
pub(super) fn is_source_blocked(env: &mut Env<'_>, flow: &Flow) -> bool {
    if !env.tables.is_source_blocked(flow.remote.ip()) || env.config.is_own_address(flow.remote) {
        return false;
    }
    env.counters.blocked_sources += 1;
    true
}

/// Maximum number of sources with each of these rates in a shard; further ones share one.
const SOURCES_MAX: usize = 4096;

/// ACK, BYE and CANCEL a second of one source beyond its rate: two for each call that the shipped rate admits, and some more.
const ENDS_PER_S: u32 = 500;

/// INVITEs of emergency calls a second of one source beyond its rate: two for each call, with and without credentials.
const EMERGENCY_REQUESTS_PER_S: u32 = 20;

/// The same of all sources of a shard, for datagrams and for connections.
const EMERGENCY_REQUESTS_PER_S_ALL: u32 = 200;

/// Emergency calls of one source in a second.
const EMERGENCY_CALLS_PER_S: u32 = 10;

/// Maximum length of the Request-URI of an emergency call that passes beyond the rate of its source.
const EMERGENCY_URI_BYTES_MAX: usize = 256;

/// Answers a Binding request, within its rate of the source, and drops everything else.
pub(super) fn on_stun(env: &mut Env<'_>, flow: Flow, bytes: &[u8]) {
    let source = flow.remote;
    if is_source_blocked(env, &flow) {
        return;
    }
    // Anybody can send it with any address: only what is answered counts.
    if source.port() == 0 || !may_send_to(source.ip()) || ringway_stun::Message::parse(bytes).is_err() {
        env.counters.stun_dropped += 1;
        return;
    }
    if !env.tables.admit(env.cx.now, source.ip(), Traffic::Stun) {
        env.counters.over_rate += 1;
        return;
    }
    let mut is_answered = false;
    env.cx.out.send_with(flow, Token::NONE, |arena| {
        is_answered = write_answer(bytes, source, arena).is_ok();
    });
    match is_answered {
        true => env.counters.stun_answered += 1,
        false => env.counters.stun_dropped += 1,
    }
}

/// A request of a carrier as this server handles it: with what the sides inside have in place of what is hidden; changed by the rules of its
/// trunk; with the called number as its target, and the index of the trunk, if it is for a contact that was registered there; with the
/// caller's own URI in To if the carrier has another one. `None`: it stays.
pub(super) fn translated(env: &mut Env<'_>, request: &Request<'_, '_>) -> Option<(Vec<u8>, Option<usize>)> {
    let mut bytes = opened(env, request);
    if env.features.header_rules()
        && let Some(trunk) = env.config.trunking.with_rules_at(request.source())
    {
        let opened = bytes.as_deref().and_then(|bytes| Message::parse(bytes, &Limits::STORED).ok());
        let ruled = changed_by(env, trunk, opened.as_ref().unwrap_or(request.message));
        bytes = ruled.or(bytes);
    }
    let Some(bytes) = bytes else { return translated_target(env, request) };
    let message = Message::parse(&bytes, &Limits::STORED).ok()?;
    let changed = Request::of(&message, request.flow, request.grant)?;
    let target = translated_target(env, &Request { peer: request.peer, ..changed });
    Some(target.unwrap_or((bytes, request.line)))
}

/// A request of a trunk that must not see the inside, with what the sides inside have; `None` for any other.
pub(super) fn opened(env: &Env<'_>, request: &Request<'_, '_>) -> Option<Vec<u8>> {
    if !env.features.hidden_topology() {
        return None;
    }
    let inside = Inside::new(env.config, &env.keys.route, &env.keys.hidden);
    inside.request(request.message, &request.uri, &request.flow)
}

/// The called number and the caller's own URI alone.
fn translated_target(env: &mut Env<'_>, request: &Request<'_, '_>) -> Option<(Vec<u8>, Option<usize>)> {
    let by_line = if env.features.registers() { called_by_line(env, request) } else { None };
    match by_line {
        Some((bytes, trunk)) => Some((bytes, Some(trunk))),
        None => with_own_uri(env.config, &env.keys.route, request.message).map(|bytes| (bytes, request.line)),
    }
}
