//! Validity of the Record-Route mark of a request.

use super::LiveMark;
use crate::Services;
use crate::env::Env;
use crate::request::Request;
use crate::route::{NextHop, Routed, hop_of};
use crate::sources::{Origin, SourceHash};
use crate::token::{Mark, Side, TargetHash};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use ringway_sip::Method;

/// Mark in the request's Route, unless it is too old. A target refresh extends it.
pub(crate) fn live_mark(
    env: &Env<'_, impl Services>,
    request: &Request<'_, '_>,
    routed: &Routed<'_>,
) -> Option<LiveMark> {
    let mark = routed.mark?;
    let is_of_node = env.config.is_link(&request.flow);
    let (now, lifetime) = (env.cx.now, env.config.dialog_lifetime);
    match mark {
        // A node is a side of the dialogs that it takes part in. Other dialogs, and what this server sends to itself, are not its own.
        Mark::Accepted { .. } if is_of_node => None,
        Mark::Dialog { from, .. } if is_of_node && !is_node(env, from) => None,
        Mark::Accepted { .. } => mark.is_younger_than(now, ACCEPTED_LIFETIME).then_some(LiveMark::Accepted),
        Mark::Dialog { to, id, made_s, is_of_caller, .. } => {
            let is_in_dialog = request.message.to().tag().is_some();
            let is_live = mark.is_younger_than(now, lifetime) || env.services.is_dialog_extended(now, id);
            if !is_in_dialog || !is_live {
                return None;
            }
            // Connections are numbered from the start: a number in an older mark is now another connection's.
            let to = match to {
                Side::Connection(_, _, target) if made_s < env.started_s => Side::Contact(target),
                other => other,
            };
            let reaches_side = reaches(env, to, routed);
            let is_refresh = matches!(
                request.method,
                Method::Invite | Method::Update | Method::Subscribe | Method::Notify
            );
            if reaches_side && is_refresh && !mark.is_younger_than(now, lifetime / 2) {
                env.services.extend_dialog(now, id, now + lifetime);
            }
            // A request over the flow of a token was sent to a connection whose address is not in the token.
            let is_its_connection = matches!(
                routed.sender,
                Some((Side::Connection(connection, ..), made_s))
                    if made_s >= env.started_s && request.flow.connection == Some(connection)
            );
            let origin = match is_of_node || is_its_connection {
                true => Origin::Recorded,
                false => origin(env, request.flow.remote.ip(), routed.senders),
            };
            Some(LiveMark::Dialog { to, reaches_side, origin, id: (id & !1) | u64::from(is_of_caller) })
        }
    }
}

/// True if a request goes to this side of its dialog; the address of a host name is compared after its lookup.
fn reaches<S>(env: &Env<'_, S>, side: Side, routed: &Routed<'_>) -> bool {
    match (side, hop_of(env.config, routed.next_route.as_ref().unwrap_or(&routed.uri))) {
        (Side::Address(..) | Side::Connection(..), _) | (Side::Contact(_), NextHop::Name(_)) => true,
        (Side::Named { name, .. }, NextHop::Name(host)) => {
            TargetHash::of_name(&env.keys.route, host.parts()) == name
        }
        (Side::Contact(target) | Side::Named { contact: target, .. }, NextHop::Flow(flow)) => {
            TargetHash::of_flow(&env.keys.route, &flow) == target
        }
        (Side::Contact(_) | Side::Named { .. }, NextHop::Unreachable) => false,
    }
}

/// True for a side of a dialog that is another node.
fn is_node<S>(env: &Env<'_, S>, side: Side) -> bool {
    let Some(links) = &env.config.links else { return false };
    match side {
        Side::Connection(_, listener, _) => listener == links.listener,
        Side::Contact(target) => {
            links.flows().any(|flow| TargetHash::of_flow(&env.keys.route, &flow) == target)
        }
        Side::Named { .. } | Side::Address(..) => false,
    }
}

/// Compares a source address with those of the side that sends.
fn origin<S>(env: &Env<'_, S>, source: IpAddr, recorded: [SourceHash; 2]) -> Origin {
    let is_recorded = |ip| recorded.contains(&SourceHash::of(&env.keys.route, ip));
    let has_none = recorded == [SourceHash::NONE; 2];
    if has_none || !env.config.auth.enabled || is_recorded(source) {
        return Origin::Recorded;
    }
    // Programs on this machine reach it by any of its addresses.
    let machine = || env.config.machine_addresses.iter().copied();
    let is_of_machine = source.is_loopback() || machine().any(|own| own == source);
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    match is_of_machine && machine().chain(loopback).any(is_recorded) {
        true => Origin::Recorded,
        false => Origin::Elsewhere,
    }
}

/// Maximum time between sending and receiving a request to this server itself; 64·T1.
const ACCEPTED_LIFETIME: Duration = Duration::from_secs(32);
