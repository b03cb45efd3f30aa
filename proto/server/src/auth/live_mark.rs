//! Validity of the Record-Route mark that a request carries.

use super::LiveMark;
use crate::Services;
use crate::env::Env;
use crate::request::Request;
use crate::route::{Hop, Routed, hop_of};
use crate::token::{Mark, Place, Side};
use core::time::Duration;
use ringway_sip::Method;

/// The mark in the request's Route, unless it is too old. A target refresh extends it.
pub(crate) fn live_mark(
    env: &Env<'_, impl Services>,
    request: &Request<'_, '_>,
    routed: &Routed<'_>,
) -> Option<LiveMark> {
    let mark = routed.mark?;
    let (now, lifetime) = (env.cx.now, env.config.dialog_lifetime);
    match mark {
        Mark::Accepted { .. } => mark.is_younger_than(now, ACCEPTED_LIFETIME).then_some(LiveMark::Accepted),
        Mark::Dialog { to, id, made_s, .. } => {
            let is_in_dialog = request.message.to().tag().is_some();
            let is_live = mark.is_younger_than(now, lifetime) || env.services.is_dialog_extended(now, id);
            if !is_in_dialog || !is_live {
                return None;
            }
            // Connections are numbered from the start on: a number of before names another one now.
            let to = match to {
                Side::Connection(_, place) if made_s < env.started_s => Side::Contact(place),
                other => other,
            };
            let leads_there = leads_to(env, to, routed);
            let is_refresh = matches!(
                request.method,
                Method::Invite | Method::Update | Method::Subscribe | Method::Notify
            );
            if leads_there && is_refresh && !mark.is_younger_than(now, lifetime / 2) {
                env.services.extend_dialog(now, id, now + lifetime);
            }
            Some(LiveMark::Dialog { to, leads_there })
        }
    }
}

/// True when a request goes to this side of its dialog; a host name's address is compared once it is resolved.
fn leads_to<S>(env: &Env<'_, S>, side: Side, routed: &Routed<'_>) -> bool {
    match (side, hop_of(env.config, routed.next_route.as_ref().unwrap_or(&routed.uri))) {
        (Side::Address(..) | Side::Connection(..), _) | (Side::Contact(_), Hop::Name { .. }) => true,
        (Side::Named { name, .. }, Hop::Name { host, port, transport }) => {
            Place::of_name(&env.keys.route, transport, host, port) == name
        }
        (Side::Contact(place) | Side::Named { contact: place, .. }, Hop::Flow(flow)) => {
            Place::of_flow(&env.keys.route, &flow) == place
        }
        (Side::Contact(_) | Side::Named { .. }, Hop::Unreachable) => false,
    }
}

/// Longest time that a request which this server sends to itself may take; 64·T1.
const ACCEPTED_LIFETIME: Duration = Duration::from_secs(32);
