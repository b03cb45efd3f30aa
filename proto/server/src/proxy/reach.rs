//! Next hops of a request, within the reach that the access rules grant.

use super::remote_target;
use super::targets::Target;
use crate::auth::Reach;
use crate::env::Env;
use crate::route::{Hop, Routed, hop_of, hop_to};
use crate::token::{Place, Side};
use core::net::SocketAddr;
use ringway_sansio::{Flow, ListenerId, Transport};
use ringway_sip::Uri;

/// The flow to a side of a dialog; `None` where its remote target says how it is reached.
pub(super) fn side_flow<S>(env: &Env<'_, S>, side: Side, routed: &Routed<'_>) -> Option<Flow> {
    let (connection, place) = match side {
        Side::Contact(_) | Side::Named { .. } => return None,
        Side::Address(listener, remote) => return Some(Flow::udp(listener, remote)),
        Side::Connection(connection, place) => (connection, place),
    };
    let next = routed.next_route.as_ref();
    let dialled = match hop_of(env.config, next.unwrap_or(&routed.uri)) {
        Hop::Flow(flow) => Some(flow).filter(|flow| Place::of_flow(&env.keys.route, flow) == place),
        Hop::Name { .. } | Hop::Unreachable => None,
    };
    if next.is_some() && dialled.is_some() {
        return None;
    }
    // The connection alone leads there: when it is gone, nothing is dialled instead.
    let (transport, listener, remote) = match dialled {
        Some(flow) => (flow.transport, flow.listener, flow.remote),
        None => {
            let mut listeners = env.config.listeners.iter();
            let place = listeners.position(|listener| listener.transport.is_stream());
            let id = ListenerId(place.and_then(|place| u8::try_from(place).ok()).unwrap_or(0));
            (Transport::Tcp, id, SocketAddr::from(([0, 0, 0, 0], 0)))
        }
    };
    Some(Flow { transport, listener, remote, connection: Some(connection) })
}

/// The next hop towards a target: the next Route, if there is one.
pub(super) fn hop_to_target<'t, S>(
    env: &Env<'_, S>,
    reach: Reach,
    routed: &Routed<'t>,
    target: &Target,
    uri: &Uri<'t>,
) -> Hop<'t> {
    match target.flow {
        Some(flow) => Hop::Flow(flow),
        None => within(env, reach, hop_of(env.config, routed.next_route.as_ref().unwrap_or(uri))),
    }
}

/// The next hop at an address that a host name has, unless the access rules forbid it.
pub(super) fn resolved<S>(
    env: &Env<'_, S>,
    reach: Reach,
    remote: SocketAddr,
    transport: Transport,
) -> Hop<'static> {
    match (reach, hop_to(env.config, remote, transport)) {
        (Reach::Side(Side::Named { .. }), Hop::Flow(flow))
            if remote_target::is_public(env.config, flow.remote.ip()) =>
        {
            Hop::Flow(flow)
        }
        (_, hop) => within(env, reach, hop),
    }
}

/// The hop, unless the access rules forbid it.
fn within<'h, S>(env: &Env<'_, S>, reach: Reach, hop: Hop<'h>) -> Hop<'h> {
    match (reach, hop) {
        (Reach::Side(side), Hop::Flow(flow)) if side.place() != Place::of_flow(&env.keys.route, &flow) => {
            Hop::Unreachable
        }
        (_, hop) => hop,
    }
}
