//! Addresses and Call-IDs that trunks must not see (decision 0063): which requests go to such a trunk, or come from one.

use crate::Config;
use crate::base::Env;
use crate::proxy::context::Branch;
use crate::proxy::forward::{Changes, Plan};
use crate::proxy::states::Hidden;
use crate::token::topology::{Direction, Inside, Outside, hides_from, is_too_long, show_in_response};
use alloc::boxed::Box;
use alloc::sync::Arc;
use ringway_sansio::Flow;
use ringway_sip::{Edit, HeaderName, Message, Method, Start};

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
    // An ACK has no responses.
    if request.method != Method::Ack {
        let phone = Some(plan.flow().remote.ip());
        let mut hidden = Hidden { answers: is_of_trunk, phone, ..Hidden::default() };
        if is_to_trunk {
            message.write_vias(request.flow.remote, &mut hidden.vias);
            hidden.call_id = message.call_id().into();
        }
        changes.hidden = Some(Box::new(hidden));
    }
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

/// Topology of a branch's responses: shown to the sides inside, hidden from a trunk that sent the request.
#[derive(Clone, Copy)]
pub(in crate::proxy) struct ResponseTopology<'b> {
    config: &'b Config,
    key: &'b [u8; 16],
    hidden: &'b Hidden,
}

impl<'b> ResponseTopology<'b> {
    pub(super) const fn new<'e: 'b>(env: &Env<'e>, hidden: &'b Hidden) -> Self {
        Self { config: env.config, key: &env.keys.hidden, hidden }
    }

    /// True for responses of a trunk that does not see the inside.
    pub(in crate::proxy) const fn shows(&self) -> bool {
        !self.hidden.vias.is_empty()
    }

    /// Call-ID that the responses have for the sides inside; `None`: the one that they come with.
    pub(in crate::proxy) fn call_id(&self) -> Option<Arc<[u8]>> {
        self.shows().then(|| Arc::clone(&self.hidden.call_id))
    }

    /// Gives a response of such a trunk what the sides inside have.
    pub(in crate::proxy) fn show(&self, edit: &mut Edit<'_, '_>) {
        if self.shows() {
            show_in_response(self.key, &self.hidden.call_id, &self.hidden.vias, edit);
        }
    }

    /// True for responses to such a trunk.
    pub(in crate::proxy) const fn hides(&self) -> bool {
        self.hidden.answers
    }

    /// Hides the inside in a response, if this source of its request is such a trunk.
    pub(in crate::proxy) fn hide(&self, source: &Flow, message: &Message<'_>, edit: &mut Edit<'_, '_>) {
        if self.hides() {
            let outside = Outside::new(self.config, self.key, source);
            outside.hide_answered_routes(message.call_id(), edit);
            match self.hidden.phone {
                Some(phone) if is_redirection(message) => outside.hide_redirection(message, phone, edit),
                Some(_) | None => outside.hide(message, edit),
            }
        }
    }
}

/// Bytes of what an answered branch keeps, and of the Vias in its response.
pub(super) fn held_bytes(branches: &[Branch]) -> usize {
    let hidden = branches.iter().filter_map(|branch| branch.states.hidden.as_deref());
    hidden.map(|hidden| 2 * hidden.vias.len() + hidden.call_id.len()).sum()
}

/// Bytes that a branch keeps for its responses, and that the texts of a request grow by.
pub(super) fn cost_of(message: &Message<'_>) -> usize {
    let vias: usize = message.values(HeaderName::Via).map(|via| via.len() + 2).sum();
    vias + STAMP_BYTES + 2 * message.call_id().len()
}

fn is_redirection(message: &Message<'_>) -> bool {
    matches!(message.start(), Start::Response { status: 300..=399, .. })
}

fn inside<'e>(env: &Env<'e>) -> Inside<'e> {
    Inside::new(env.config, &env.keys.route, &env.keys.hidden)
}

/// Bytes of `received` and `rport`.
const STAMP_BYTES: usize = 80;
