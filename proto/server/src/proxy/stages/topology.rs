//! Addresses and Call-IDs that trunks must not see (decision 0063): which requests go to such a trunk, or come from one.

use crate::base::{Env, Response};
use crate::proxy::forward::{Changes, Plan};
use crate::proxy::states::Hidden;
use crate::token::topology::{Direction, Inside, Outside, hides_from, is_too_long};
use alloc::boxed::Box;
use alloc::vec::Vec;
use ringway_sip::{HeaderName, Message};

/// Notes what a request and its responses hide, and marks the dialog of a trunk that calls.
pub(super) fn change(env: &Env<'_>, plan: &Plan<'_, '_, '_>, changes: &mut Changes) {
    let (request, message) = (plan.request(), plan.request().message);
    let direction = inside(env).direction(message, plan.routed().mark);
    let is_to_trunk = leads_outside(env, plan, direction);
    let is_of_trunk = inside(env).is_of_trunk(direction, message, &request.flow);
    if !is_to_trunk && !is_of_trunk {
        return;
    }
    changes.border.hides = is_to_trunk;
    let mut hidden = Hidden { answers: is_of_trunk, ..Hidden::default() };
    if is_to_trunk {
        message.write_vias(request.flow.remote, &mut hidden.vias);
        hidden.call_id.extend_from_slice(message.call_id());
    }
    changes.hidden = Some(Box::new(hidden));
    if is_of_trunk && !is_to_trunk && plan.begins_dialog() && message.to().tag().is_none() {
        let outside = Outside::new(env.config, &env.keys.hidden, &request.flow);
        outside.mark_calling_trunk(message.call_id(), &mut changes.route_params);
    }
}

/// Refusal of a request that begins something with such a trunk, and has too much to be hidden.
pub(super) fn refusal(env: &mut Env<'_>, plan: &Plan<'_, '_, '_>) -> Option<(u16, &'static str)> {
    let message = plan.request().message;
    if !is_too_long(message) || !leads_outside(env, plan, inside(env).direction(message, plan.routed().mark))
    {
        return None;
    }
    env.counters.topology_too_long += 1;
    Some((513, "Too Long To Hide"))
}

/// True for a request whose next hop is such a trunk: the chosen one, one by its address, or the side of the dialog.
fn leads_outside(env: &Env<'_>, plan: &Plan<'_, '_, '_>, direction: Option<Direction>) -> bool {
    !plan.returns_here()
        && (direction == Some(Direction::Outward)
            || hides_from(env.config, plan.configured_hop(), &plan.flow())
                && !inside(env).is_of_open_dialog(plan.request().message))
}

/// A response of such a trunk as the sides inside have it.
pub(super) fn received(env: &Env<'_>, hidden: &Hidden, response: &Response<'_, '_>) -> Option<Vec<u8>> {
    if hidden.vias.is_empty() {
        return None;
    }
    let outside = Outside::new(env.config, &env.keys.hidden, response.flow);
    outside.response_inside(response.message, &hidden.call_id, &hidden.vias)
}

/// Bytes that a branch keeps for its responses, and that the texts of a request grow by.
pub(super) fn cost_of(message: &Message<'_>) -> usize {
    let vias: usize = message.values(HeaderName::Via).map(|via| via.len() + 2).sum();
    vias + STAMP_BYTES + 2 * message.call_id().len()
}

fn inside<'e>(env: &Env<'e>) -> Inside<'e> {
    Inside::new(env.config, &env.keys.route, &env.keys.hidden)
}

/// Bytes of `received` and `rport`.
const STAMP_BYTES: usize = 80;
