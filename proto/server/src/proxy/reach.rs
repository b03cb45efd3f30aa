//! Next hops of a request, within the reach of its grant.

use super::forward::Plan;
use super::stages;
use super::targets::Target;
use crate::base::{Env, Reach, Request, Sender};
use crate::dialog::edge;
use crate::dialog::route::{NextHop, Routed, hop_of, hop_of_domain, hop_to};
use crate::report::Report;
use crate::tables::{RequestPriority, put_last};
use crate::token::{Side, TargetHash};
use crate::{Aor, NeighbourRoute, dialog};
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use ringway_sansio::{
    Defence, Dialler, Flow, LocatedServer, LocatedServers, PartHasher, Transport, source_of,
};
use ringway_sip::{Method, Uri};
use siphasher::sip::SipHasher13;

/// Flow to a side of a dialog; `None` if its remote target is used.
pub(super) fn side_flow(env: &Env<'_>, side: Side, routed: &Routed<'_>) -> Option<Flow> {
    let (connection, listener, hash) = match side {
        Side::Contact(_) | Side::Named { .. } => return None,
        Side::Address(listener, remote) => return Some(Flow::udp(listener, remote)),
        Side::Connection(connection, listener, hash) => (connection, listener, hash),
    };
    let next = routed.next_route.as_ref();
    let dialled = match hop_of(env.config, next.unwrap_or(&routed.uri)) {
        NextHop::Flow(flow) => Some(flow).filter(|flow| TargetHash::of_flow(&env.keys.route, flow) == hash),
        NextHop::Name(_) | NextHop::Unreachable => None,
    };
    if next.is_some() && dialled.is_some() {
        return None;
    }
    // Only the connection reaches it: after its end nothing is dialled.
    let (transport, listener, remote) = match dialled {
        Some(flow) => (flow.transport, flow.listener, flow.remote),
        None => {
            let of = env.config.listeners.get(usize::from(listener.0));
            let transport = of.map_or(Transport::Tcp, |listener| listener.transport);
            (transport, listener, SocketAddr::from(([0, 0, 0, 0], 0)))
        }
    };
    Some(Flow { connection: Some(connection), ..Flow::new(transport, listener, remote) })
}

/// Status for a request that may not be sent to its next hop: one that a stage protects, an inner host, or a link. A
/// request crosses one link at most, and only a binding or a dialog leads over one.
pub(super) fn refusal(env: &mut Env<'_>, plan: &Plan<'_, '_, '_>) -> Option<(u16, &'static str)> {
    if let Some(refusal) = stages::refusal(env, plan) {
        return Some(refusal);
    }
    if Defence::InnerHosts.is_on() && plan.may_not_be_inner() && is_inner(env, plan) {
        return Some((403, "Inner Hosts Are Not Reached"));
    }
    if !env.config.is_link(&plan.flow()) {
        return None;
    }
    if env.config.is_link(&plan.request().flow) {
        return Some((430, "Flow Failed"));
    }
    plan.free_hop().map(|_| (403, "Not A Next Hop"))
}

/// True, counted and reported, for a next hop in a network that the configuration does not name.
fn is_inner(env: &mut Env<'_>, plan: &Plan<'_, '_, '_>) -> bool {
    let flow = plan.flow();
    let Some(host) = env.config.inner_host(flow.remote.ip()) else { return false };
    let is_named = env.config.is_own_listener(&flow)
        || (!env.config.neighbours.is_empty() && env.tables.neighbour_route(&flow) != NeighbourRoute::Other);
    if is_named {
        return false;
    }
    let Request { message, uri, flow: source, .. } = plan.request();
    let (caller, target, source) = (message.from().uri.as_bytes(), uri.as_bytes(), source.remote);
    env.report(plan.request(), Report::InnerHost { caller, target, source, hop: flow, host });
    true
}

/// Charges the connection that the last packet may need to the sender of its request, unless the configuration names it: the user whose password it
/// proved, or its source.
#[inline]
pub(super) fn charge(env: &mut Env<'_>, plan: &Plan<'_, '_, '_>, flow: &Flow) {
    if flow.transport.has_connections() && flow.connection.is_none() && plan.configured_hop().is_none() {
        let dialler = dialler_of(env, plan.request());
        env.cx.out.charge_last(dialler);
    }
}

fn dialler_of(env: &Env<'_>, request: &Request<'_, '_>) -> Dialler {
    let mut hash = PartHasher::new(SipHasher13::new_with_key(&env.keys.calls));
    let mut user = Aor::default();
    if request.grant.sender == Sender::Proven && env.config.read_aor(&request.message.from().uri, &mut user) {
        hash.part(user.as_bytes());
    } else {
        match source_of(request.client(env.config)) {
            IpAddr::V4(v4) => hash.fixed(&v4.octets()),
            IpAddr::V6(v6) => hash.fixed(&v6.octets()),
        }
    }
    Dialler((hash.hasher().finish() as u32).max(1))
}

/// Next hop to a target: the next Route, if there is one.
pub(super) fn hop_to_target<'t>(
    env: &Env<'_>,
    reach: Reach,
    routed: &Routed<'t>,
    target: &'t Target,
    uri: &Uri<'t>,
) -> NextHop<'t> {
    match target.flow {
        Some(flow) => NextHop::Flow(flow),
        None => {
            // It was compared with the side when the request was admitted.
            if let (Reach::Side(_), Some(flow), None) = (reach, routed.side_hop, target.rewritten_hop()) {
                return NextHop::Flow(flow);
            }
            let next = target.next_hop(reach, routed);
            let next = next.as_ref().unwrap_or(uri);
            // Anybody may send to the registrar of an edge domain, and to no other port of its host.
            let is_free =
                target.keeps_uri && matches!(reach, Reach::Anywhere) && target.rewritten_hop().is_none();
            if is_free && edge::serves(env.config, next) {
                return hop_of_domain(env.config, next);
            }
            within(env, reach, hop_of(env.config, next))
        }
    }
}

/// The servers with those at the end that failed a short time ago.
pub(super) fn failed_last(env: &Env<'_>, servers: LocatedServers) -> LocatedServers {
    put_last(servers, |server| env.tables.has_failed(env.cx.now, server))
}

/// Takes servers out of the list until one can be sent to, and the access rules permit it.
pub(super) fn take_reachable(
    env: &Env<'_>,
    reach: Reach,
    servers: &mut LocatedServers,
) -> Option<(LocatedServer, Flow)> {
    while let Some(server) = servers.take_first() {
        if let NextHop::Flow(flow) = located(env, reach, server) {
            return Some((server, flow));
        }
    }
    None
}

fn located(env: &Env<'_>, reach: Reach, server: LocatedServer) -> NextHop<'static> {
    let hop = match hop_to(env.config, server.address, server.transport) {
        NextHop::Flow(flow) => NextHop::Flow(Flow { host: server.host, ..flow }),
        hop => hop,
    };
    match (reach, hop) {
        (Reach::Side(Side::Named { is_believed, .. }), NextHop::Flow(flow))
            if dialog::is_public(env.config, flow.remote.ip())
                && (is_believed || !dialog::calls_for_us(env.config, flow.remote.ip())) =>
        {
            NextHop::Flow(flow)
        }
        (_, hop) => within(env, reach, hop),
    }
}

/// Returns the hop, unless the access rules forbid it.
fn within<'h>(env: &Env<'_>, reach: Reach, hop: NextHop<'h>) -> NextHop<'h> {
    match (reach, hop) {
        (Reach::Side(side), NextHop::Flow(flow))
            if side.target() != TargetHash::of_flow(&env.keys.route, &flow) =>
        {
            NextHop::Unreachable
        }
        (_, hop) => hop,
    }
}

/// True for a request that its server asked not to be sent now (RFC 7339 §5.5). ACK and CANCEL are, as they end work.
pub(super) fn is_withheld(env: &Env<'_>, plan: &Plan<'_, '_, '_>) -> bool {
    let request = plan.request();
    if matches!(request.method, Method::Ack | Method::Cancel) {
        return false;
    }
    let is_begun = request.message.to().tag().is_some();
    let priority = match is_begun || request.grant.above_limits.is_some() {
        true => RequestPriority::High,
        false => RequestPriority::Usual,
    };
    // With the time, so that a phone with one Call-ID for all its REGISTERs is not always withheld.
    let draw = (env.call_hash(request.message) ^ env.cx.now.as_nanos()).wrapping_mul(DRAW_FACTOR) >> 32;
    !env.tables.may_send(env.cx.now, plan.flow().remote, priority, draw)
}

/// Phrase of the 503 for such a request.
pub(super) const WITHHELD: &str = "Next Server Overloaded";

/// Spreads near numbers: 2^64 divided by the golden ratio.
const DRAW_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
